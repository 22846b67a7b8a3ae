//! A credential is spent and an execution claimed; then taken over, given up, or its attempts written down before they are sent.

use rusqlite::named_params;

use super::credential::{check_grant, check_nobody_revoked, check_resource, check_window};
use super::draft;
use super::failure::Failure;
use super::rows;
use super::step::{DraftChange, Step, credential_part, whole};
use super::stop;
use crate::audit::{AttemptPart, ChangePart, EventBody, EventKind, Note};
use crate::domain::lifecycle::{ApprovalState, CredentialTransition, DraftTransition, ExecutionState, ExecutionTransition};
use crate::store::Rejection;
use crate::store::intent::{Abort, AfterAbort, Dispatch, Redeem, Redeemed, TakeOver};
use crate::store::record::{Closing, DraftRecord, ExecutionRecord};

/// The states in which an execution can change hands.
const TAKEABLE: &[ExecutionState] = &[ExecutionState::Pending, ExecutionState::Indeterminate, ExecutionState::HandedOff];

/// The states in which an execution can change hands while an event of the backend's waits for a look.
const TAKEABLE_WHEN_TOLD: &[ExecutionState] = &[
    ExecutionState::Pending,
    ExecutionState::Indeterminate,
    ExecutionState::HandedOff,
    ExecutionState::Applied,
    ExecutionState::NotApplied,
    ExecutionState::Aborted,
];

/// `credential.redeem`, `draft.consume` and `execution.claim`.
pub(super) fn redeem(step: &mut Step<'_>, redeem: &Redeem) -> Result<Redeemed, Failure> {
    let credential = rows::credential(step.connection, redeem.credential)?.ok_or(Rejection::NotFound)?;
    let is_of_grant = credential.draft == redeem.draft
        && credential.approval == redeem.approval
        && credential.hash == redeem.hash
        && credential.audience == redeem.audience;
    if !is_of_grant {
        return Err(Rejection::GrantMismatch.into());
    }
    let earlier = rows::execution_of(step.connection, redeem.draft)?;
    if let Some(execution) = &earlier
        && execution.state != ExecutionState::Aborted
    {
        return Ok(Redeemed::Already(Box::new(execution.clone())));
    }
    step.needs_clock()?;
    let draft = step.draft(redeem.draft)?;
    step.move_credential(&draft, &credential, CredentialTransition::Redeem, |event| event)?;
    let approval = draft.approval.as_ref().ok_or(Rejection::DraftIs(draft.state))?;
    step.move_draft(&draft, DraftTransition::Consume, DraftChange::default(), |event| EventBody {
        credential: Some(credential_part(&credential)),
        ..event
    })?;
    check_grant(step.now, &draft, approval)?;
    check_nobody_revoked(step.connection, &draft, approval)?;
    stop::check(step.connection, step.now, draft.id, Some(credential.id))?;
    // Two credentials may have been issued while nothing was under way; the first one redeemed keeps the other out.
    check_resource(step, &draft)?;
    match earlier {
        Some(aborted) => claim_again(step, redeem, &aborted)?,
        None => claim(step, redeem, &draft)?,
    }
    let execution = rows::execution_of(step.connection, draft.id)?.ok_or(Rejection::NotFound)?;
    Ok(Redeemed::Claimed(Box::new(execution)))
}

fn claim(step: &mut Step<'_>, redeem: &Redeem, draft: &DraftRecord) -> Result<(), Failure> {
    let state = ExecutionTransition::Claim.to();
    step.insert(
        "INSERT INTO execution (id, draft, hash, credential, state, fence, holder, lease_until, claimed_at, changed_at)
         VALUES (:id, :draft, :hash, :credential, :state, 1, :holder, :lease_until, :now, :now)",
        redeem.execution,
        named_params! {
            ":id": redeem.execution.to_string(), ":draft": draft.id.to_string(), ":hash": draft.hash.to_string(),
            ":credential": redeem.credential.to_string(), ":state": state.as_str(), ":holder": redeem.holder,
            ":lease_until": step.wall.plus(redeem.lease).millis(), ":now": step.now.millis(),
        },
    )?;
    let execution = step.execution(redeem.execution)?;
    let event = step.about_execution(EventKind::Execution(ExecutionTransition::Claim), &execution)?;
    step.emit(EventBody {
        state: Some(ChangePart {
            from: None,
            to: state.as_str(),
        }),
        ..event
    })
}

fn claim_again(step: &mut Step<'_>, redeem: &Redeem, aborted: &ExecutionRecord) -> Result<(), Failure> {
    let then = ExecutionRecord {
        credential: redeem.credential,
        fence: aborted.fence + 1,
        holder: redeem.holder.clone(),
        lease_until: step.wall.plus(redeem.lease),
        next_action_at: None,
        code: None,
        ..aborted.clone()
    };
    step.move_execution(aborted, ExecutionTransition::Claim, aborted.fence, &then, |event| event)
}

/// Takes over an execution whose lease ran out.
pub(super) fn take_over(step: &mut Step<'_>, take: &TakeOver) -> Result<ExecutionRecord, Failure> {
    let was = step.execution(take.execution)?;
    if was.fence != take.fence {
        return Err(Rejection::Fenced {
            given: take.fence,
            current: was.fence,
        }
        .into());
    }
    // What is over changes hands only to be looked at because of what the backend told.
    let takeable = if was.told(step.wall).is_empty() {
        TAKEABLE
    } else {
        TAKEABLE_WHEN_TOLD
    };
    let is_open = matches!(was.state, ExecutionState::Claimed | ExecutionState::Dispatched) || takeable.contains(&was.state);
    if is_open && step.wall < was.lease_until {
        return Err(Rejection::Leased(was.lease_until).into());
    }
    let then = ExecutionRecord {
        fence: was.fence + 1,
        holder: take.holder.clone(),
        lease_until: step.wall.plus(take.lease),
        ..was.clone()
    };
    match was.state {
        ExecutionState::Claimed => step.move_execution(&was, ExecutionTransition::Reclaim, take.fence, &then, |event| event)?,
        ExecutionState::Dispatched => {
            // Whoever sent it is gone: what the attempt came to is not known.
            let code = crate::store::tally::LEASE_EXPIRED;
            let then = ExecutionRecord {
                code: Some(code.to_owned()),
                ..then
            };
            step.move_execution(&was, ExecutionTransition::LoseTrack, take.fence, &then, |event| EventBody {
                code: Some(code.to_owned()),
                ..event
            })?;
        }
        _ => {
            step.keep_execution(&was, take.fence, takeable, &then)?;
            let event = step.about_execution(EventKind::Note(Note::TakeOver), &then)?;
            step.emit(event)?;
        }
    }
    step.execution(was.id)
}

/// `execution.abort` and `draft.release`, and `draft.mark_stale` if asked for.
pub(super) fn abort(step: &mut Step<'_>, abort: &Abort) -> Result<ExecutionRecord, Failure> {
    let was = step.execution(abort.execution)?;
    let then = ExecutionRecord {
        lease_until: step.wall,
        next_action_at: None,
        code: Some(abort.code.clone()),
        ..was.clone()
    };
    let coded = |event: EventBody| EventBody {
        code: Some(abort.code.clone()),
        ..event
    };
    step.move_execution(&was, ExecutionTransition::Abort, abort.fence, &then, coded)?;
    let consumed = step.draft(was.draft)?;
    step.move_draft(&consumed, DraftTransition::Release, DraftChange::default(), coded)?;
    if abort.then == AfterAbort::Stale {
        let released = step.draft(was.draft)?;
        let closed = Closing {
            code: abort.code.clone(),
            reason: None,
            by: step.by(),
        };
        draft::end(step, &released, DraftTransition::MarkStale, closed, None)?;
    }
    step.execution(was.id)
}

/// `execution.dispatch` or `execution.resend`.
pub(super) fn dispatch(step: &mut Step<'_>, dispatch: &Dispatch) -> Result<ExecutionRecord, Failure> {
    step.needs_clock()?;
    let was = step.execution(dispatch.execution)?;
    let transition = match was.state {
        ExecutionState::Indeterminate => ExecutionTransition::Resend,
        _ => ExecutionTransition::Dispatch,
    };
    let n = was.attempts.last().map_or(1, |last| last.n + 1);
    let then = ExecutionRecord {
        lease_until: step.wall.plus(dispatch.lease),
        first_sent_at: was.first_sent_at.or(Some(step.now)),
        send_until: was.send_until.or(Some(step.now.plus(dispatch.send_window))),
        next_action_at: None,
        ..was.clone()
    };
    let attempt = AttemptPart {
        n,
        request_sha256: dispatch.request_sha256,
    };
    step.move_execution(&was, transition, dispatch.fence, &then, |event| EventBody {
        attempt: Some(attempt),
        ..event
    })?;
    // The key stands for these bytes: a backend that sees it with others answers with an error, or worse, does both.
    if was
        .attempts
        .first()
        .is_some_and(|first| first.request_sha256 != dispatch.request_sha256)
    {
        return Err(Rejection::HashMismatch.into());
    }
    if let Some(n) = was.sent_otherwise(dispatch.secrets) {
        return Err(Rejection::SecretsChanged(n).into());
    }
    stop::check(step.connection, step.now, was.draft, Some(was.credential))?;
    let draft = step.draft(was.draft)?;
    if let Some(approval) = &draft.approval {
        if approval.state == ApprovalState::Revoked {
            return Err(Rejection::ApprovalIs(approval.state).into());
        }
        // While nothing can have had its effect, this is the send that the approval is for, and its time bounds it. Once something may have, a
        // repetition only finds out.
        if !was.is_ambiguous() {
            check_window(step.now, &draft, approval)?;
        }
        check_nobody_revoked(step.connection, &draft, approval)?;
    }
    step.insert(
        "INSERT INTO attempt (execution, n, request_sha256, secrets, sent_at) VALUES (:execution, :n, :request_sha256, :secrets, :now)",
        format_args!("{} attempt {n}", was.id),
        named_params! {
            ":execution": was.id.to_string(), ":n": whole(u64::from(n)), ":request_sha256": dispatch.request_sha256.to_string(),
            ":secrets": dispatch.secrets.to_string(), ":now": step.now.millis(),
        },
    )?;
    step.execution(was.id)
}
