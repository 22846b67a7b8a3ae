//! A clock that had run far ahead and was corrected: an operator takes it for right, and what was begun by the wrong times ends.

use std::time::Duration;

use rusqlite::named_params;

use super::clock::{self, OPEN};
use super::draft::expire;
use super::execution::abort;
use super::failure::Failure;
use super::rows::{self, word};
use super::step::{Step, words};
use super::stop;
use crate::audit::{EventBody, EventOutcome, Note};
use crate::domain::id::{DraftId, ExecutionId};
use crate::domain::lifecycle::{CredentialState, CredentialTransition, DraftState, ExecutionState};
use crate::domain::time::Timestamp;
use crate::store::Rejection;
use crate::store::health::TOLERANCE;
use crate::store::intent::{Abort, AcceptClock, AfterAbort, ClockAccepted};

/// The stable code of what ends by it.
const CODE: &str = "clock_accepted";

/// No lease is longer.
const LONGEST_LEASE: Duration = Duration::from_secs(10 * 60);

/// No next look is further away.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 60 * 60);

/// Takes this process's clock for right. From here on its time is the store's, though later ones are written down.
pub(super) fn accept_clock(step: &mut Step<'_>, accept: &AcceptClock) -> Result<ClockAccepted, Failure> {
    let latest = clock::latest(step.connection)?;
    let wall = step.wall;
    if wall.plus(TOLERANCE) >= latest {
        return Err(Rejection::ClockNotBehind(latest).into());
    }
    if accept.latest != latest {
        return Err(Rejection::LatestIs(latest).into());
    }
    let mut ended = ClockAccepted::default();
    // What counts from a moment that has not come would count too long. What was begun before the clock ran ahead keeps its times.
    abort_claims(step, wall, &mut ended)?;
    expire_drafts(step, wall, &mut ended)?;
    lapse_credentials(step, wall, &mut ended)?;
    shorten_schedule(step, wall)?;
    step.change("UPDATE probe SET at = :wall", named_params! { ":wall": wall.millis() })?;
    step.now = wall;
    ended.stops = stop::renew(step)?;
    clock::tell(step, Note::ClockAccepted, EventOutcome::Ok, latest, wall)?;
    Ok(ended)
}

fn abort_claims(step: &mut Step<'_>, wall: Timestamp, ended: &mut ClockAccepted) -> Result<(), Failure> {
    let claims = rows::all(
        step.connection,
        "SELECT id FROM execution WHERE state = :claimed AND changed_at > :wall ORDER BY id",
        named_params! { ":claimed": ExecutionState::Claimed.as_str(), ":wall": wall.millis() },
        |row| word::<ExecutionId>(row, "id"),
    )?;
    for id in claims {
        let fence = step.execution(id)?.fence;
        let code = CODE.to_owned();
        let then = AfterAbort::Stale;
        abort(
            step,
            &Abort {
                execution: id,
                fence,
                code,
                then,
            },
        )?;
        ended.executions += 1;
    }
    Ok(())
}

fn expire_drafts(step: &mut Step<'_>, wall: Timestamp, ended: &mut ClockAccepted) -> Result<(), Failure> {
    let drafts = rows::all(
        step.connection,
        "SELECT id FROM draft WHERE settled_at IS NULL AND state IN (SELECT value FROM json_each(:open)) AND changed_at > :wall ORDER BY id",
        named_params! { ":open": words(DraftState::OPEN, DraftState::as_str), ":wall": wall.millis() },
        |row| word::<DraftId>(row, "id"),
    )?;
    for id in drafts {
        let draft = step.draft(id)?;
        ended.credentials += expire(step, &draft)?;
        ended.drafts += 1;
    }
    Ok(())
}

fn lapse_credentials(step: &mut Step<'_>, wall: Timestamp, ended: &mut ClockAccepted) -> Result<(), Failure> {
    let unspent = rows::all(
        step.connection,
        "SELECT * FROM credential WHERE state = :issued AND issued_at > :wall ORDER BY id",
        named_params! { ":issued": CredentialState::Issued.as_str(), ":wall": wall.millis() },
        rows::credential_row,
    )?;
    for credential in unspent {
        let draft = step.draft(credential.draft)?;
        step.move_credential(&draft, &credential, CredentialTransition::Lapse, |event| EventBody {
            code: Some(CODE.to_owned()),
            ..event
        })?;
        ended.credentials += 1;
    }
    Ok(())
}

/// Leases and next looks that are further away than any can be were given by the wrong times.
fn shorten_schedule(step: &Step<'_>, wall: Timestamp) -> Result<(), Failure> {
    step.change(
        "UPDATE execution SET
            lease_until = CASE WHEN lease_until > :lease THEN :wall ELSE lease_until END,
            next_action_at = CASE WHEN next_action_at > :look THEN :wall ELSE next_action_at END
         WHERE state IN (SELECT value FROM json_each(:open))",
        named_params! {
            ":open": words(OPEN, ExecutionState::as_str), ":wall": wall.millis(), ":lease": wall.plus(LONGEST_LEASE).millis(),
            ":look": wall.plus(LONGEST_PAUSE).millis(),
        },
    )?;
    Ok(())
}
