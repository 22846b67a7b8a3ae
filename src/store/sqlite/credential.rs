//! A credential is issued, and an earlier unspent one of the same draft taken back.

use rusqlite::{Connection, named_params};

use super::bound;
use super::draft::live_credential;
use super::failure::Failure;
use super::rows::{self, opt_word, word};
use super::step::{Step, approval_part, credential_part, policy_part, words};
use super::stop;
use crate::audit::{ChangePart, EventBody, EventKind};
use crate::domain::approval::Decision;
use crate::domain::digest::DraftHash;
use crate::domain::id::{CredentialId, DraftId, ExecutionId, RecordId};
use crate::domain::lifecycle::{ApprovalState, CredentialState, CredentialTransition, DraftState, ExecutionState};
use crate::domain::name::KeyId;
use crate::domain::time::Timestamp;
use crate::store::intent::Issue;
use crate::store::record::{ApprovalRecord, CredentialRecord, DraftRecord, SignedRecord};
use crate::store::{Busy, Rejection};

/// `credential.issue`.
pub(super) fn issue(step: &mut Step<'_>, issue: &Issue) -> Result<CredentialRecord, Failure> {
    step.needs_room()?;
    step.needs_witnesses()?;
    let draft = step.draft(issue.draft)?;
    let approval = check(step, issue, &draft)?;
    if let Some(earlier) = live_credential(step, draft.id)? {
        step.move_credential(&draft, &earlier, CredentialTransition::Revoke, |event| EventBody {
            code: Some("replaced".to_owned()),
            ..event
        })?;
    }
    // The guards again, in the statement that writes: what is issued is good no longer than the grant and the draft are.
    step.insert(
        "INSERT INTO credential (id, draft, hash, approval, audience, root_key_id, state, issued_at, expires_at, changed_at)
         SELECT :id, d.id, d.hash, a.id, :audience, :root_key_id, :state, :now, min(:expires_at, a.execute_by, d.expires_at), :now
         FROM draft d JOIN approval a ON a.draft = d.id
         WHERE d.id = :draft AND d.hash = :hash AND d.state = :approved AND a.state = :granted AND a.execute_by > :now
            AND d.expires_at > :now AND :expires_at > :now",
        issue.credential,
        named_params! {
            ":id": issue.credential.to_string(), ":draft": draft.id.to_string(), ":hash": issue.hash.to_string(),
            ":audience": issue.audience.as_str(), ":root_key_id": issue.root_key_id, ":state": CredentialTransition::Issue.to().as_str(),
            ":approved": DraftState::Approved.as_str(), ":granted": ApprovalState::Granted.as_str(), ":now": step.now.millis(),
            ":expires_at": issue.expires_at.millis(),
        },
    )?;
    let credential = rows::credential(step.connection, issue.credential)?.ok_or(Rejection::NotFound)?;
    let event = step.about(EventKind::Credential(CredentialTransition::Issue), &draft);
    step.emit(EventBody {
        policy: draft.verdict.as_ref().map(|verdict| policy_part(verdict.id, &issue.answer)),
        approval: Some(approval_part(&approval, None)),
        credential: Some(credential_part(&credential)),
        state: Some(ChangePart {
            from: None,
            to: credential.state.as_str(),
        }),
        ..event
    })?;
    Ok(credential)
}

fn check(step: &Step<'_>, issue: &Issue, draft: &DraftRecord) -> Result<ApprovalRecord, Failure> {
    if issue.hash != draft.hash {
        return Err(Rejection::HashMismatch.into());
    }
    let approval = match &draft.approval {
        Some(approval) if draft.state == DraftState::Approved => approval,
        _ => return Err(Rejection::DraftIs(draft.state).into()),
    };
    check_grant(step.now, draft, approval)?;
    check_records(step, issue, approval)?;
    check_resource(step, draft)?;
    stop::check(step.connection, step.now, draft.id, None)?;
    if issue.expires_at <= step.now {
        return Err(Rejection::CredentialExpired(issue.expires_at).into());
    }
    Ok(approval.clone())
}

/// Whether the grant is given and both its and the draft's time are not over.
pub(super) fn check_grant(now: Timestamp, draft: &DraftRecord, approval: &ApprovalRecord) -> Result<(), Failure> {
    if approval.state != ApprovalState::Granted {
        return Err(Rejection::ApprovalIs(approval.state).into());
    }
    check_window(now, draft, approval)
}

/// Whether both the draft's and the grant's time are not over.
pub(super) fn check_window(now: Timestamp, draft: &DraftRecord, approval: &ApprovalRecord) -> Result<(), Failure> {
    if draft.expires_at <= now {
        return Err(Rejection::DraftExpired(draft.expires_at).into());
    }
    let until = approval.execute_by.unwrap_or(approval.expires_at);
    if until <= now {
        return Err(Rejection::WindowExpired(until).into());
    }
    Ok(())
}

/// Every named record answers this card with yes, together they meet the requirement as they counted when they came, and no key of
/// theirs, nor its approver, was revoked meanwhile.
fn check_records(step: &Step<'_>, issue: &Issue, approval: &ApprovalRecord) -> Result<(), Failure> {
    let named: Vec<&SignedRecord> = approval
        .records
        .iter()
        .filter(|r| r.decision == Decision::Approve && issue.records.contains(&r.id))
        .collect();
    let signatures: Vec<_> = named.iter().map(|r| r.signature()).collect();
    let all_there = issue.records.iter().all(|id| named.iter().any(|r| r.id == *id));
    if named.is_empty() || !all_there || !approval.requirement.is_met(&signatures) {
        return Err(Rejection::NotFound.into());
    }
    let ids: Vec<RecordId> = named.iter().map(|r| r.id).collect();
    check_keys(step.connection, approval, &ids)
}

/// Whether no key behind these records, nor its approver, is revoked.
fn check_keys(connection: &Connection, approval: &ApprovalRecord, records: &[RecordId]) -> Result<(), Failure> {
    let ids: Vec<String> = records.iter().map(RecordId::to_string).collect();
    // A rule signs with the broker's own key, which need not be registered; everybody else's must be.
    let revoked = rows::first(
        connection,
        "SELECT r.kid FROM approval_record r
            LEFT JOIN approver a ON a.id = r.approver LEFT JOIN approver_key k ON k.kid = r.kid AND k.approver = r.approver
         WHERE r.approval = :approval AND r.id IN (SELECT value FROM json_each(:ids))
            AND (a.revoked_at IS NOT NULL OR k.revoked_at IS NOT NULL OR (k.kid IS NULL AND r.approver NOT LIKE 'rule\\_%' ESCAPE '\\'))",
        named_params! { ":approval": approval.id.to_string(), ":ids": rows::to_json(&ids)? },
        |row| word::<KeyId>(row, "kid"),
    )?;
    match revoked {
        Some(kid) => Err(Rejection::KeyRevoked(kid).into()),
        None => Ok(()),
    }
}

/// Whether nobody behind a credential was revoked since it was issued: not the client it was issued to, and nobody who approved.
pub(super) fn check_nobody_revoked(connection: &Connection, draft: &DraftRecord, approval: &ApprovalRecord) -> Result<(), Failure> {
    let revoked: bool = rows::value(
        connection,
        "SELECT EXISTS (SELECT 1 FROM client WHERE id = ?1 AND revoked_at IS NOT NULL)",
        [draft.maker.as_str()],
    )?;
    if revoked {
        return Err(Rejection::ClientRevoked(draft.maker.clone()).into());
    }
    let approving = approval.records.iter().filter(|r| r.decision == Decision::Approve);
    check_keys(connection, approval, &approving.map(|r| r.id).collect::<Vec<_>>())
}

/// Every credential that was issued for a draft, oldest first.
pub(super) fn issued_for(connection: &Connection, draft: DraftId) -> Result<Vec<CredentialRecord>, Failure> {
    // The table has no index by draft; the log does.
    let ids = rows::all(
        connection,
        "SELECT credential FROM event WHERE draft = ?1 AND +type = ?2 ORDER BY seq",
        (draft.to_string(), CredentialTransition::Issue.event()),
        |row| word::<CredentialId>(row, "credential"),
    )?;
    let found = ids.into_iter().map(|id| rows::credential(connection, id));
    found.filter_map(Result::transpose).collect()
}

/// Whether the credential could be redeemed now: what [`super::execution::redeem`] asks, but for the resource, which says nothing of the
/// credential.
pub(super) fn is_usable(connection: &Connection, now: Timestamp, id: CredentialId) -> Result<bool, Failure> {
    let Some(credential) = rows::credential(connection, id)? else {
        return Ok(false);
    };
    let Some(draft) = rows::draft(connection, credential.draft)? else {
        return Ok(false);
    };
    let live = credential.state == CredentialState::Issued && now < credential.expires_at && draft.state == DraftState::Approved;
    let (true, Some(approval)) = (live, &draft.approval) else {
        return Ok(false);
    };
    let checked = check_grant(now, &draft, approval)
        .and_then(|()| check_nobody_revoked(connection, &draft, approval))
        .and_then(|()| stop::check(connection, now, draft.id, Some(id)));
    match checked {
        Ok(()) => Ok(true),
        Err(Failure::Rejected(_)) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Nothing else may touch a resource while what was sent to it has no known outcome.
pub(super) fn check_resource(step: &Step<'_>, draft: &DraftRecord) -> Result<(), Failure> {
    match busy_resource(step.connection, draft.id)? {
        None => Ok(()),
        Some(busy) => Err(Rejection::ResourceBusy(busy).into()),
    }
}

/// The unresolved execution of another draft on the same resource of the same backend, whichever tenant made it.
///
/// By the rows or by the log: a row that was changed frees nothing as long as the events tell of it.
pub(super) fn busy_resource(connection: &Connection, draft: DraftId) -> Result<Option<Busy>, Failure> {
    match busy_by_rows(connection, draft)? {
        None => busy_by_log(connection, draft),
        busy => Ok(busy),
    }
}

fn busy_by_rows(connection: &Connection, draft: DraftId) -> Result<Option<Busy>, Failure> {
    rows::first(
        connection,
        "SELECT CASE WHEN d.tenant = mine.tenant THEN e.id END AS execution, e.state
         FROM draft mine JOIN draft d ON d.resource_type = mine.resource_type AND d.resource_id = mine.resource_id
            AND d.backend = mine.backend AND d.id <> mine.id JOIN execution e ON e.draft = d.id
         WHERE mine.id = :draft AND e.state IN (SELECT value FROM json_each(:unresolved)) LIMIT 1",
        named_params! {
            ":draft": draft.to_string(), ":unresolved": words(ExecutionState::UNRESOLVED, ExecutionState::as_str),
        },
        |row| {
            Ok(Busy {
                execution: opt_word(row, "execution")?,
                state: word(row, "state")?,
            })
        },
    )
}

/// As the last event of each execution on the resource leaves it. What each is about is read from its document, by the hash that the event names.
fn busy_by_log(connection: &Connection, draft: DraftId) -> Result<Option<Busy>, Failure> {
    let Some(hash) = rows::first(connection, "SELECT hash FROM draft WHERE id = ?1", [draft.to_string()], |row| {
        word(row, "hash")
    })?
    else {
        return Ok(None);
    };
    let mine = bound::document(connection, draft, hash)?;
    let told = rows::all(
        connection,
        "SELECT draft, execution, json_extract(body, '$.draft.hash') AS hash, json_extract(body, '$.state.to') AS state, max(seq)
         FROM event WHERE resource = :resource AND draft <> :draft AND execution IS NOT NULL AND +type LIKE 'execution.%'
            AND json_extract(body, '$.state.to') IS NOT NULL
         GROUP BY execution",
        named_params! { ":resource": mine.resource.to_string(), ":draft": draft.to_string() },
        |row| {
            Ok((
                word::<DraftId>(row, "draft")?,
                word::<ExecutionId>(row, "execution")?,
                word::<DraftHash>(row, "hash")?,
                word::<ExecutionState>(row, "state")?,
            ))
        },
    )?;
    for (other, execution, hash, state) in told {
        if !ExecutionState::UNRESOLVED.contains(&state) {
            continue;
        }
        let theirs = bound::document(connection, other, hash)?;
        if theirs.request.backend == mine.request.backend {
            return Ok(Some(Busy {
                execution: (theirs.tenant == mine.tenant).then_some(execution),
                state,
            }));
        }
    }
    Ok(None)
}
