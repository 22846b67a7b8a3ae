//! Taken back: a granted approval with everything it released and that was not sent, and an unspent credential.

use rusqlite::named_params;

use super::draft;
use super::failure::Failure;
use super::rows::{self, to_json};
use super::step::{DraftChange, Step};
use crate::audit::EventBody;
use crate::domain::digest::Digest;
use crate::domain::lifecycle::{
    ApprovalState, ApprovalTransition, CredentialState, CredentialTransition, DraftTransition, ExecutionState, ExecutionTransition,
};
use crate::store::Rejection;
use crate::store::record::{ApprovalRecord, Closing, CredentialRecord, DraftRecord, ExecutionRecord};
use crate::store::stop::{Reached, RevokeApproval, RevokeCredential, RevokedApproval};

/// The code of everything that ends with an approval that is taken back.
const CODE: &str = "approval_revoked";

/// `approval.revoke`. Also `draft.revoke`, `credential.revoke`, and `execution.abort` of a claim: a person needs no lease, and whoever holds one
/// finds the state changed before it sends.
pub(super) fn approval(step: &mut Step<'_>, revoke: &RevokeApproval) -> Result<RevokedApproval, Failure> {
    let (id, approval) = rows::approval(step.connection, revoke.approval)?.ok_or(Rejection::NotFound)?;
    let draft = step.draft(id)?;
    let execution = rows::execution_of(step.connection, id)?;
    if approval.state == ApprovalState::Revoked {
        let reached = reached(execution.as_ref());
        return Ok(RevokedApproval { reached, draft });
    }
    if !ApprovalTransition::Revoke.from().contains(&approval.state) {
        return Err(Rejection::ApprovalIs(approval.state).into());
    }
    let closed = Closing {
        code: CODE.to_owned(),
        reason: Some(revoke.reason.as_str().to_owned()),
        by: step.by(),
    };
    let reached = reached(execution.as_ref());
    match execution {
        Some(execution) if matches!(execution.state, ExecutionState::Applied | ExecutionState::NotApplied) => {
            return Err(Rejection::ExecutionIs(execution.state).into());
        }
        Some(execution) if reached == Reached::Sent => keep_from_resending(step, &draft, &approval, &execution, &closed)?,
        Some(execution) if execution.state == ExecutionState::Claimed => {
            abort(step, &draft, &execution)?;
            let released = step.draft(id)?;
            draft::end(step, &released, DraftTransition::Revoke, closed.clone(), None)?;
        }
        _ => draft::end(step, &draft, DraftTransition::Revoke, closed.clone(), None).map(drop)?,
    }
    step.change(
        "UPDATE approval SET revocation = :revocation WHERE id = :id AND state = :revoked AND revocation IS NULL",
        named_params! {
            ":id": approval.id.to_string(), ":revocation": to_json(&closed)?, ":revoked": ApprovalState::Revoked.as_str(),
        },
    )?;
    let draft = step.draft(id)?;
    Ok(RevokedApproval { reached, draft })
}

/// How far an execution has come, by what may have left.
fn reached(execution: Option<&ExecutionRecord>) -> Reached {
    match execution.map(|execution| execution.state) {
        None | Some(ExecutionState::Claimed | ExecutionState::Aborted) => Reached::NothingSent,
        Some(_) => Reached::Sent,
    }
}

/// Only the approval changes: what was sent is looked up as before, and a repetition finds the approval gone.
fn keep_from_resending(
    step: &mut Step<'_>,
    draft: &DraftRecord,
    approval: &ApprovalRecord,
    execution: &ExecutionRecord,
    closed: &Closing,
) -> Result<(), Failure> {
    let part = execution.part();
    step.move_approval(draft, approval, ApprovalTransition::Revoke, None, |event| EventBody {
        code: Some(closed.code.clone()),
        content_sha256: closed.reason.as_ref().map(|words| Digest::of(words.as_bytes())),
        execution: Some(part),
        ..event
    })
}

fn abort(step: &mut Step<'_>, draft: &DraftRecord, claimed: &ExecutionRecord) -> Result<(), Failure> {
    let coded = |event: EventBody| EventBody {
        code: Some(CODE.to_owned()),
        ..event
    };
    let then = ExecutionRecord {
        lease_until: step.wall,
        next_action_at: None,
        code: Some(CODE.to_owned()),
        ..claimed.clone()
    };
    step.move_execution(claimed, ExecutionTransition::Abort, claimed.fence, &then, coded)?;
    step.move_draft(draft, DraftTransition::Release, DraftChange::default(), coded)
}

/// `credential.revoke`; one that is spent or ended already stays as it is.
pub(super) fn credential(step: &mut Step<'_>, revoke: &RevokeCredential) -> Result<CredentialRecord, Failure> {
    let was = rows::credential(step.connection, revoke.credential)?.ok_or(Rejection::NotFound)?;
    if was.state == CredentialState::Issued {
        let draft = step.draft(was.draft)?;
        step.move_credential(&draft, &was, CredentialTransition::Revoke, |event| EventBody {
            code: Some(revoke.code.clone()),
            ..event
        })?;
    }
    rows::credential(step.connection, revoke.credential)?.ok_or_else(|| Rejection::NotFound.into())
}
