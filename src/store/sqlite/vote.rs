//! Signatures are counted: the first denial refuses a card, the signature that meets the requirement grants it.

use rusqlite::named_params;

use super::draft::insert_record;
use super::failure::Failure;
use super::rows::{self, word};
use super::step::{DraftChange, Step, approval_part, counted_part, policy_part};
use crate::audit::{EventBody, EventKind, Note, SensitiveField};
use crate::domain::approval::Decision;
use crate::domain::id::ApprovalId;
use crate::domain::lifecycle::{ApprovalState, ApprovalTransition, DraftTransition};
use crate::domain::principal::is_party;
use crate::domain::time::Timestamp;
use crate::store::Rejection;
use crate::store::intent::Vote;
use crate::store::record::{ApprovalRecord, Closing, DraftRecord, SignedRecord};

/// Counts a verified record.
pub(super) fn vote(step: &mut Step<'_>, vote: &Vote) -> Result<DraftRecord, Failure> {
    let draft = step.draft(vote.draft)?;
    let Some(approval) = draft.approval.clone() else {
        return Err(Rejection::DraftIs(draft.state).into());
    };
    let record = &vote.record;
    answered_before(step, &approval, record)?;
    // By a clock that was set back, a yes whose time is over would count again. A no always may.
    if record.decision == Decision::Approve {
        step.needs_clock()?;
    }
    check(step, vote, &draft, &approval)?;
    insert_record(step, &approval, record)?;
    match record.decision {
        Decision::Deny => refuse(step, &draft, &approval, record)?,
        Decision::Approve => approve(step, vote, &draft, &approval)?,
    }
    step.draft(draft.id)
}

/// The same record again is an answer that was given, whatever became of the card; a record of the same id for anything else is reused.
fn answered_before(step: &Step<'_>, approval: &ApprovalRecord, record: &SignedRecord) -> Result<(), Failure> {
    let same_id = rows::first(
        step.connection,
        "SELECT approval, jws FROM approval_record WHERE id = ?1",
        [record.id.to_string()],
        |row| Ok((word::<ApprovalId>(row, "approval")?, word::<String>(row, "jws")?)),
    )?;
    match same_id {
        Some((of, jws)) if of == approval.id && jws == record.jws => {
            return Err(Rejection::AlreadyAnswered(record.approver.clone()).into());
        }
        Some(_) => return Err(Rejection::RecordReused(record.id).into()),
        None => {}
    }
    if approval.records.iter().any(|r| r.approver == record.approver) {
        return Err(Rejection::AlreadyAnswered(record.approver.clone()).into());
    }
    Ok(())
}

fn check(step: &Step<'_>, vote: &Vote, draft: &DraftRecord, approval: &ApprovalRecord) -> Result<(), Failure> {
    let record = &vote.record;
    let no = |rejection: Rejection| Err(Failure::from(rejection));
    if vote.hash != draft.hash {
        return no(Rejection::HashMismatch);
    }
    if vote.nonce != approval.nonce {
        return no(Rejection::NonceMismatch);
    }
    if approval.state != ApprovalState::Requested {
        return no(Rejection::ApprovalIs(approval.state));
    }
    if approval.expires_at <= step.now {
        return no(Rejection::ApprovalExpired(approval.expires_at));
    }
    if !DraftTransition::Approve.from().contains(&draft.state) {
        return no(Rejection::DraftIs(draft.state));
    }
    if draft.expires_at <= step.now {
        return no(Rejection::DraftExpired(draft.expires_at));
    }
    if is_party(&record.approver, &draft.maker, draft.owner.as_ref(), draft.on_behalf_of.as_ref()) {
        return no(Rejection::SelfApproval(record.approver.clone()));
    }
    let until = record.execute_by.filter(|until| *until <= step.now);
    if let (Decision::Approve, Some(until)) = (record.decision, until) {
        return no(Rejection::WindowExpired(until));
    }
    // Positive state: a key that is not registered, or not this approver's, counts as little as a revoked one.
    let valid: bool = rows::value(
        step.connection,
        "SELECT EXISTS (SELECT 1 FROM approver_key k JOIN approver a ON a.id = k.approver
            WHERE k.kid = :kid AND a.id = :approver AND k.revoked_at IS NULL AND a.revoked_at IS NULL)",
        named_params! { ":kid": record.kid.as_str(), ":approver": record.approver.as_str() },
    )?;
    if !valid {
        return no(Rejection::KeyRevoked(record.kid.clone()));
    }
    Ok(())
}

fn refuse(step: &mut Step<'_>, draft: &DraftRecord, approval: &ApprovalRecord, record: &SignedRecord) -> Result<(), Failure> {
    const CODE: &str = "denied_by_approver";
    let code = Some(CODE.to_owned());
    let sensitive = step.sensitive(draft.id, SensitiveField::Reason, record.reason.as_deref())?;
    step.move_approval(draft, approval, ApprovalTransition::Refuse, None, |event| EventBody {
        code: code.clone(),
        sensitive,
        ..counted(event, draft, approval, record)
    })?;
    let closed = Closing {
        code: CODE.to_owned(),
        reason: record.reason.clone(),
        by: record.approver.to_string(),
    };
    let change = DraftChange {
        verdict: None,
        closed: Some(closed),
    };
    step.move_draft(draft, DraftTransition::Refuse, change, |event| EventBody {
        approval: Some(approval_part(approval, Some(record))),
        code,
        ..event
    })
}

/// The event with the approver's signature and the policy that had asked for it.
fn counted(event: EventBody, draft: &DraftRecord, approval: &ApprovalRecord, record: &SignedRecord) -> EventBody {
    EventBody {
        policy: draft.verdict.as_ref().map(|verdict| policy_part(verdict.id, &verdict.answer)),
        approval: Some(counted_part(approval, record)),
        ..event
    }
}

fn approve(step: &mut Step<'_>, vote: &Vote, draft: &DraftRecord, card: &ApprovalRecord) -> Result<(), Failure> {
    let record = &vote.record;
    let event = step.about(EventKind::Note(Note::RecordCounted), draft);
    let sensitive = step.sensitive(draft.id, SensitiveField::Reason, record.reason.as_deref())?;
    step.emit(EventBody {
        sensitive,
        ..counted(event, draft, card, record)
    })?;
    // Read again: the new record counts among the others.
    let Some(approval) = step.draft(draft.id)?.approval else {
        return Err(Failure::Corrupt(format!("{} lost its approval", draft.id)));
    };
    if !approval.requirement.is_met(&approval.signatures()) {
        return Ok(());
    }
    let bounds = approval
        .records
        .iter()
        .filter(|r| r.decision == Decision::Approve)
        .filter_map(|r| r.execute_by);
    let execute_by = bounds.fold(step.now.plus(vote.window).min(draft.expires_at), Timestamp::min);
    step.move_approval(draft, &approval, ApprovalTransition::Grant, Some(execute_by), |event| {
        counted(event, draft, &approval, record)
    })?;
    step.move_draft(draft, DraftTransition::Approve, DraftChange::default(), |event| EventBody {
        approval: Some(approval_part(&approval, Some(record))),
        ..event
    })
}
