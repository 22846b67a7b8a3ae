//! Drafts come in, the policy's answer is written down, and drafts end without being executed.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::failure::Failure;
use super::rows::{self, to_json, word};
use super::step::{DraftChange, Step, approval_part, counted_part, policy_part, whole};
use crate::audit::{ChangePart, EventBody, EventKind, PolicyPart, SensitiveField};
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::id::DraftId;
use crate::domain::lifecycle::{ApprovalState, ApprovalTransition, CredentialTransition, DraftState, DraftTransition};
use crate::domain::name::{ClientId, TenantId};
use crate::domain::time::Timestamp;
use crate::store::Rejection;
use crate::store::intent::{Close, CloseAs, Decide, Follow, Known, NewDraft, Proposed};
use crate::store::record::{ApprovalRecord, Closing, CredentialRecord, DraftRecord, SignedRecord};

/// How far back drafts for the same customer count.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

/// `draft.propose`.
pub(super) fn propose(step: &mut Step<'_>, new: &NewDraft) -> Result<Proposed, Failure> {
    if let Some(open) = by_request_key(step, new)? {
        return Ok(Proposed::Open(Box::new(open)));
    }
    if let Some(open) = by_content(step, new)? {
        return Ok(Proposed::Open(Box::new(open)));
    }
    step.needs_room()?;
    if new.expires_at <= step.now {
        return Err(Rejection::DraftExpired(new.expires_at).into());
    }
    if let Some(old) = new.supersedes {
        supersede(step, new, old)?;
    }
    let recent = recent(step, new)?;
    insert(step, new, recent)?;
    let draft = step.draft(new.id)?;
    let event = step.about(EventKind::Draft(DraftTransition::Propose), &draft);
    // Without a customer it counts for its resource, which the event names anyway.
    let customer = new.subject.as_deref().filter(|subject| *subject != new.resource.to_string());
    step.emit(EventBody {
        sensitive: step.sensitive(new.id, SensitiveField::Customer, customer)?,
        state: Some(ChangePart {
            from: None,
            to: draft.state.as_str(),
        }),
        ..event
    })?;
    Ok(Proposed::Stored(Box::new(draft)))
}

/// What was proposed before and answers this proposal too: the draft of the same `Idempotency-Key`, or the same proposal while something can
/// still come of it.
pub(super) fn known(connection: &Connection, now: Timestamp, what: &Known) -> Result<Option<DraftRecord>, Failure> {
    if let Some(id) = id_by_request_key(connection, &what.maker, what.request_key.as_ref())? {
        return rows::draft(connection, id);
    }
    match id_by_content(connection, &what.tenant, &what.maker, what.content)? {
        Some(id) => Ok(rows::draft(connection, id)?.filter(|draft| !is_over(draft, now))),
        None => Ok(None),
    }
}

fn id_by_request_key(connection: &Connection, maker: &ClientId, request: Option<&(String, Digest)>) -> Result<Option<DraftId>, Failure> {
    let Some((key, sha256)) = request else {
        return Ok(None);
    };
    let found = rows::first(
        connection,
        "SELECT id, request_sha256 FROM draft WHERE maker = ?1 AND request_key = ?2",
        (maker.as_str(), key),
        |row| Ok((word::<DraftId>(row, "id")?, word::<Digest>(row, "request_sha256")?)),
    )?;
    match found {
        None => Ok(None),
        Some((id, stored)) if stored == *sha256 => Ok(Some(id)),
        Some(_) => Err(Rejection::RequestKeyReused.into()),
    }
}

fn id_by_content(connection: &Connection, tenant: &TenantId, maker: &ClientId, content: Digest) -> Result<Option<DraftId>, Failure> {
    rows::first(
        connection,
        "SELECT id FROM draft WHERE tenant = ?1 AND maker = ?2 AND content = ?3 AND settled_at IS NULL",
        (tenant.as_str(), maker.as_str(), content.to_string()),
        |row| word::<DraftId>(row, "id"),
    )
}

fn by_request_key(step: &Step<'_>, new: &NewDraft) -> Result<Option<DraftRecord>, Failure> {
    let found = id_by_request_key(step.connection, &new.maker, new.request_key.as_ref())?;
    found.map(|id| step.draft(id)).transpose()
}

/// The same proposal, if something can still come of it. One whose time is over is ended here, so that it does not stand in the way.
fn by_content(step: &mut Step<'_>, new: &NewDraft) -> Result<Option<DraftRecord>, Failure> {
    let found = id_by_content(step.connection, &new.tenant, &new.maker, new.content)?;
    let Some(id) = found.filter(|id| Some(*id) != new.supersedes) else {
        return Ok(None);
    };
    let draft = step.draft(id)?;
    if is_over(&draft, step.now) {
        expire(step, &draft)?;
        return Ok(None);
    }
    Ok(Some(draft))
}

/// Whether nothing can come of an open draft any more: its own time, its card's or its grant's is over.
fn is_over(draft: &DraftRecord, now: Timestamp) -> bool {
    let deadline = match (draft.state, &draft.approval) {
        (DraftState::AwaitingApproval, Some(approval)) => approval.expires_at.min(draft.expires_at),
        (DraftState::Approved, Some(approval)) => approval.execute_by.unwrap_or(draft.expires_at).min(draft.expires_at),
        _ => draft.expires_at,
    };
    draft.state.is_open() && deadline <= now
}

fn supersede(step: &mut Step<'_>, new: &NewDraft, old: DraftId) -> Result<(), Failure> {
    let old = step.draft(old)?;
    if old.tenant != new.tenant || old.maker != new.maker {
        return Err(Rejection::NotFound.into());
    }
    let closed = Closing {
        code: "superseded".to_owned(),
        reason: None,
        by: step.by(),
    };
    end(step, &old, DraftTransition::Supersede, closed, None).map(drop)
}

/// Drafts of the operation for the customer, whichever tenant made them, that were held or allowed in the last 24 hours, plus those being decided, plus this one.
/// One that a newer draft replaced does not count a second time.
fn recent(step: &Step<'_>, new: &NewDraft) -> Result<u64, Failure> {
    let Some(subject) = &new.subject else { return Ok(1) };
    let others: i64 = rows::value(
        step.connection,
        "SELECT count(*) FROM draft d
         WHERE d.operation = :operation AND d.subject = :subject AND d.backend = :backend
            AND d.created_at > :since AND d.state <> :superseded
            AND (d.state = :proposed OR EXISTS (SELECT 1 FROM approval a WHERE a.draft = d.id))",
        named_params! {
            ":operation": new.operation.as_str(), ":subject": subject, ":backend": new.backend.as_str(),
            ":since": step.now.minus(RECENT).millis(), ":superseded": DraftState::Superseded.as_str(),
            ":proposed": DraftState::Proposed.as_str(),
        },
    )?;
    Ok(u64::try_from(others).unwrap_or(0) + 1)
}

fn insert(step: &Step<'_>, new: &NewDraft, recent: u64) -> Result<(), Failure> {
    // The hash is what everything else is bound to: bytes that do not have it must not get in.
    if DraftHash::of_canonical(&new.document) != new.hash {
        return Err(Rejection::HashMismatch.into());
    }
    step.insert(
        "INSERT INTO draft (id, tenant, maker, owner, on_behalf_of, case_id, operation, consequence, resource_type, resource_id,
            resource_version, amount_minor, currency, fields, subject, backend, content, request_key, request_sha256, hash,
            idempotency_key, supersedes, recent, created_at, expires_at, state, changed_at)
         VALUES (:id, :tenant, :maker, :owner, :on_behalf_of, :case_id, :operation, :consequence, :resource_type, :resource_id,
            :resource_version, :amount_minor, :currency, :fields, :subject, :backend, :content, :request_key, :request_sha256, :hash,
            :idempotency_key, :supersedes, :recent, :now, :expires_at, :state, :now)",
        new.id,
        named_params! {
            ":id": new.id.to_string(), ":tenant": new.tenant.as_str(), ":maker": new.maker.as_str(),
            ":owner": new.owner.as_ref().map(|p| p.as_str()), ":on_behalf_of": new.on_behalf_of.as_ref().map(|p| p.as_str()),
            ":case_id": new.case_id.as_ref().map(|c| c.as_str()), ":operation": new.operation.as_str(),
            ":consequence": new.consequence.as_str(), ":resource_type": new.resource.kind.as_str(),
            ":resource_id": new.resource.id.as_str(), ":resource_version": new.resource.version,
            ":amount_minor": new.amount.map(|m| m.minor()), ":currency": new.amount.map(|m| m.currency().to_string()),
            ":fields": to_json(&new.fields)?, ":subject": new.subject, ":backend": new.backend.as_str(),
            ":content": new.content.to_string(), ":request_key": new.request_key.as_ref().map(|(key, _)| key.as_str()),
            ":request_sha256": new.request_key.as_ref().map(|(_, sha256)| sha256.to_string()), ":hash": new.hash.to_string(),
            ":idempotency_key": new.key.to_string(), ":supersedes": new.supersedes.map(|id| id.to_string()), ":recent": whole(recent),
            ":now": step.now.millis(), ":expires_at": new.expires_at.millis(), ":state": DraftTransition::Propose.to().as_str(),
        },
    )?;
    step.insert(
        "INSERT INTO draft_document (draft, bytes) VALUES (:draft, :bytes)",
        new.id,
        named_params! { ":draft": new.id.to_string(), ":bytes": new.document },
    )
}

/// `draft.auto_approve`, `draft.hold` or `draft.deny`.
pub(super) fn decide(step: &mut Step<'_>, decide: &Decide) -> Result<DraftRecord, Failure> {
    if !matches!(decide.then, Follow::Deny { .. }) {
        step.needs_clock()?;
    }
    let draft = step.draft(decide.draft)?;
    let policy = policy_part(decide.verdict.id, &decide.verdict.answer);
    let change = DraftChange {
        verdict: Some(&decide.verdict),
        closed: None,
    };
    match &decide.then {
        Follow::AutoApprove {
            approval,
            nonce,
            record,
            execute_by,
        } => {
            let until = earliest(*execute_by, [record.execute_by, Some(draft.expires_at)]);
            let granted = ApprovalRecord {
                id: *approval,
                state: ApprovalTransition::GrantByPolicy.to(),
                nonce: nonce.clone(),
                requirement: decide.verdict.answer.requirement.clone(),
                requested_at: step.now,
                expires_at: until,
                execute_by: Some(until),
                revocation: None,
                records: Vec::new(),
            };
            let part = approval_part(&granted, Some(record));
            step.move_draft(&draft, DraftTransition::AutoApprove, change, |event| EventBody {
                policy: Some(policy.clone()),
                approval: Some(part.clone()),
                ..event
            })?;
            if until <= step.now {
                return Err(Rejection::WindowExpired(until).into());
            }
            insert_approval(step, &draft, &granted)?;
            insert_record(step, &granted, record)?;
            let event = step.about(EventKind::Approval(ApprovalTransition::GrantByPolicy), &draft);
            step.emit(EventBody {
                policy: Some(policy),
                approval: Some(counted_part(&granted, record)),
                state: Some(ChangePart {
                    from: None,
                    to: granted.state.as_str(),
                }),
                ..event
            })?;
        }
        Follow::Hold {
            approval,
            nonce,
            requirement,
            expires_at,
        } => {
            let card = ApprovalRecord {
                id: *approval,
                state: ApprovalTransition::Request.to(),
                nonce: nonce.clone(),
                requirement: requirement.clone(),
                requested_at: step.now,
                expires_at: earliest(*expires_at, [Some(draft.expires_at)]),
                execute_by: None,
                revocation: None,
                records: Vec::new(),
            };
            let part = approval_part(&card, None);
            step.move_draft(&draft, DraftTransition::Hold, change, |event| EventBody {
                policy: Some(policy.clone()),
                approval: Some(part.clone()),
                ..event
            })?;
            if card.expires_at <= step.now {
                return Err(Rejection::ApprovalExpired(card.expires_at).into());
            }
            insert_approval(step, &draft, &card)?;
            let event = step.about(EventKind::Approval(ApprovalTransition::Request), &draft);
            step.emit(EventBody {
                policy: Some(policy),
                approval: Some(part),
                state: Some(ChangePart {
                    from: None,
                    to: card.state.as_str(),
                }),
                ..event
            })?;
        }
        Follow::Deny { reason } => {
            let closed = Closing {
                code: "denied_by_policy".to_owned(),
                reason: Some(reason.clone()),
                by: step.by(),
            };
            let change = DraftChange {
                closed: Some(closed),
                ..change
            };
            step.move_draft(&draft, DraftTransition::Deny, change, |event| EventBody {
                policy: Some(policy),
                code: Some("denied_by_policy".to_owned()),
                ..event
            })?;
        }
    }
    step.draft(draft.id)
}

fn earliest<const N: usize>(first: Timestamp, others: [Option<Timestamp>; N]) -> Timestamp {
    others.into_iter().flatten().fold(first, Timestamp::min)
}

fn insert_approval(step: &Step<'_>, draft: &DraftRecord, approval: &ApprovalRecord) -> Result<(), Failure> {
    step.insert(
        "INSERT INTO approval (id, draft, hash, state, nonce, requirement, requested_at, expires_at, execute_by, changed_at)
         VALUES (:id, :draft, :hash, :state, :nonce, :requirement, :now, :expires_at, :execute_by, :now)",
        approval.id,
        named_params! {
            ":id": approval.id.to_string(), ":draft": draft.id.to_string(), ":hash": draft.hash.to_string(),
            ":state": approval.state.as_str(), ":nonce": approval.nonce, ":requirement": to_json(&approval.requirement)?,
            ":now": step.now.millis(), ":expires_at": approval.expires_at.millis(),
            ":execute_by": approval.execute_by.map(Timestamp::millis),
        },
    )
}

/// Stores a signed record; one that was used before is refused.
pub(super) fn insert_record(step: &Step<'_>, approval: &ApprovalRecord, record: &SignedRecord) -> Result<(), Failure> {
    let inserted = step.insert(
        "INSERT INTO approval_record (id, approval, approver, kid, decision, reason, queues, step_up, execute_by, received_at, jws)
         VALUES (:id, :approval, :approver, :kid, :decision, :reason, :queues, :step_up, :execute_by, :received_at, :jws)",
        record.id,
        named_params! {
            ":id": record.id.to_string(), ":approval": approval.id.to_string(), ":approver": record.approver.as_str(),
            ":kid": record.kid.as_str(), ":decision": record.decision.as_str(), ":reason": record.reason,
            ":queues": to_json(&record.queues)?, ":step_up": record.step_up,
            ":execute_by": record.execute_by.map(Timestamp::millis), ":received_at": record.received_at.millis(), ":jws": record.jws,
        },
    );
    match inserted {
        Err(Failure::Rejected(Rejection::Exists(_))) => Err(Rejection::RecordReused(record.id).into()),
        other => other,
    }
}

/// `draft.withdraw` or `draft.mark_stale`.
pub(super) fn close(step: &mut Step<'_>, close: &Close) -> Result<DraftRecord, Failure> {
    let draft = step.draft(close.draft)?;
    let transition = match close.how {
        CloseAs::Withdrawn => DraftTransition::Withdraw,
        CloseAs::Stale => DraftTransition::MarkStale,
    };
    let closed = Closing {
        code: close.code.clone(),
        reason: close.reason.clone(),
        by: step.by(),
    };
    let policy = draft.verdict.as_ref().zip(close.answer.as_ref());
    let policy = policy.map(|(verdict, answer)| policy_part(verdict.id, answer));
    end(step, &draft, transition, closed, policy)?;
    step.draft(draft.id)
}

/// Ends an open draft whose time is over. Gives the number of credentials that ended with it.
pub(super) fn expire(step: &mut Step<'_>, draft: &DraftRecord) -> Result<u32, Failure> {
    let closed = Closing {
        code: "expired".to_owned(),
        reason: None,
        by: step.by(),
    };
    end(step, draft, DraftTransition::Expire, closed, None)
}

/// Ends an open draft, and with it its approval and its unspent credential. Gives the number of credentials that ended.
pub(super) fn end(
    step: &mut Step<'_>,
    draft: &DraftRecord,
    transition: DraftTransition,
    closed: Closing,
    policy: Option<PolicyPart>,
) -> Result<u32, Failure> {
    let code = closed.code.clone();
    let coded = |event: EventBody| EventBody {
        code: Some(code.clone()),
        policy: policy.clone(),
        ..event
    };
    let change = DraftChange {
        verdict: None,
        closed: Some(closed),
    };
    step.move_draft(draft, transition, change, coded)?;
    let (of_approval, of_credential) = match transition {
        DraftTransition::Expire => (ApprovalTransition::Lapse, CredentialTransition::Lapse),
        DraftTransition::Revoke => (ApprovalTransition::Revoke, CredentialTransition::Revoke),
        _ => (ApprovalTransition::Void, CredentialTransition::Revoke),
    };
    if let Some(approval) = &draft.approval
        && matches!(approval.state, ApprovalState::Requested | ApprovalState::Granted)
    {
        step.move_approval(draft, approval, of_approval, None, coded)?;
    }
    match live_credential(step, draft.id)? {
        None => Ok(0),
        Some(credential) => step.move_credential(draft, &credential, of_credential, coded).map(|()| 1),
    }
}

/// The unspent credential of a draft.
pub(super) const LIVE: &str = "SELECT * FROM credential WHERE draft = ?1 AND state = 'issued'";

/// The draft's unspent credential.
pub(super) fn live_credential(step: &Step<'_>, draft: DraftId) -> Result<Option<CredentialRecord>, Failure> {
    rows::first(step.connection, LIVE, [draft.to_string()], rows::credential_row)
}
