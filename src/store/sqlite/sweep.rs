//! Ends what is past its time. It only tidies: every guard compares the time itself.

use std::time::Duration;

use rusqlite::named_params;

use super::draft::expire;
use super::failure::Failure;
use super::rows::{self, word};
use super::step::{Step, words};
use super::stop;
use crate::domain::id::DraftId;
use crate::domain::lifecycle::{CredentialTransition, DraftState};
use crate::store::record::{DraftRecord, Swept};

/// Credentials that are over and unspent.
pub(super) const UNSPENT: &str =
    "SELECT * FROM credential INDEXED BY credential_live_until WHERE state = 'issued' AND expires_at <= :now ORDER BY id LIMIT :limit";

/// How long an operation's record answers a repetition.
const KEPT: Duration = Duration::from_secs(48 * 60 * 60);

/// Expires drafts, lapses their approvals, and lapses credentials; at most `limit` of each.
pub(super) fn sweep(step: &mut Step<'_>, limit: &u32) -> Result<Swept, Failure> {
    let mut swept = Swept::default();
    let over = rows::all(
        step.connection,
        "SELECT d.id FROM draft d LEFT JOIN approval a ON a.draft = d.id
         WHERE d.settled_at IS NULL AND d.state IN (SELECT value FROM json_each(:open))
            AND (d.expires_at <= :now OR (d.state = :awaiting AND a.expires_at <= :now) OR (d.state = :approved AND a.execute_by <= :now))
         ORDER BY d.id LIMIT :limit",
        named_params! {
            ":open": words(DraftState::OPEN, DraftState::as_str), ":awaiting": DraftState::AwaitingApproval.as_str(),
            ":approved": DraftState::Approved.as_str(), ":now": step.now.millis(), ":limit": limit,
        },
        |row| word::<DraftId>(row, "id"),
    )?;
    for id in over {
        let Some(draft) = readable(id, step.draft(id))? else { continue };
        swept.credentials += expire(step, &draft)?;
        swept.drafts += 1;
    }
    let unspent = rows::all(
        step.connection,
        UNSPENT,
        named_params! { ":now": step.now.millis(), ":limit": limit },
        rows::credential_row,
    )?;
    for credential in unspent {
        let Some(draft) = readable(credential.draft, step.draft(credential.draft))? else {
            continue;
        };
        step.move_credential(&draft, &credential, CredentialTransition::Lapse, |event| event)?;
        swept.credentials += 1;
    }
    stop::lapse(step, *limit)?;
    forget_operations(step)?;
    Ok(swept)
}

/// One draft that cannot be read keeps nobody from tidying the others.
fn readable(id: DraftId, read: Result<DraftRecord, Failure>) -> Result<Option<DraftRecord>, Failure> {
    match read {
        Err(Failure::Corrupt(why)) => {
            tracing::error!(draft.id = %id, why, "a draft whose time is over cannot be read: a person must look");
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// An operation is repeated within seconds by whoever lost its answer; its record is kept far longer than that and not for ever.
fn forget_operations(step: &Step<'_>) -> Result<(), Failure> {
    step.change(
        "DELETE FROM operation WHERE id IN (SELECT id FROM operation WHERE at < :since ORDER BY id LIMIT 500)",
        named_params! { ":since": step.now.minus(KEPT).millis() },
    )?;
    Ok(())
}
