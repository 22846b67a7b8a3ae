//! The kill switch: stops are placed and lifted, and whoever would issue, spend or send asks in its own step whether one covers it.

use rusqlite::{Connection, Row, named_params};

use super::failure::Failure;
use super::rows::{self, amount, at, opt_at, opt_json, opt_word, resource, text, to_json, word};
use super::step::{Step, words};
use crate::audit::{ChangePart, EventBody, EventKind, StopPart};
use crate::domain::digest::Digest;
use crate::domain::id::{CredentialId, DraftId, StopId};
use crate::domain::lifecycle::{StopState, StopTransition};
use crate::domain::name::TenantId;
use crate::domain::stop::{Reason, StopScope};
use crate::domain::time::Timestamp;
use crate::store::Rejection;
use crate::store::stop::{InFlight, LiftStop, PlaceStop, StopEnd, StopFilter, StopRecord, StopStanding, Stops};

/// Whether the stop `s` covers the draft `d` when the credential of this expression is used for it. One text for the guard and for the list, so
/// that what is listed and what is stopped cannot differ.
macro_rules! covers {
    ($credential:literal) => {
        concat!(
            "(s.tenant IS NULL OR s.tenant = d.tenant) AND CASE s.scope
                WHEN 'everything' THEN 1
                WHEN 'tenant' THEN s.value = d.tenant
                WHEN 'client' THEN s.value = d.maker
                WHEN 'operation' THEN s.value = '*' OR s.value = d.operation
                    OR (s.value LIKE '%.*' AND substr(d.operation, 1, length(s.value) - 1) = substr(s.value, 1, length(s.value) - 1))
                WHEN 'draft' THEN s.value = d.id
                WHEN 'approval' THEN EXISTS (SELECT 1 FROM approval a WHERE a.draft = d.id AND a.id = s.value)
                WHEN 'approver' THEN EXISTS (SELECT 1 FROM approval a JOIN approval_record r ON r.approval = a.id
                    WHERE a.draft = d.id AND r.approver = s.value AND r.decision = 'approve')
                WHEN 'credential' THEN s.value = ",
            $credential,
            " ELSE 1 END"
        )
    };
}

/// Whether the stop `s` concerns the tenant `:viewer`: its own stops, and of those of the command line what may cover something of its own.
/// Which drafts and clients another tenant has is not its business.
macro_rules! concerns {
    () => {
        "(:viewer IS NULL OR s.tenant = :viewer OR (s.tenant IS NULL AND CASE s.scope
            WHEN 'tenant' THEN s.value = :viewer
            WHEN 'client' THEN EXISTS (SELECT 1 FROM client c WHERE c.id = s.value AND c.tenant = :viewer)
            WHEN 'draft' THEN EXISTS (SELECT 1 FROM draft d WHERE d.id = s.value AND d.tenant = :viewer)
            WHEN 'approval' THEN EXISTS (SELECT 1 FROM approval a JOIN draft d ON d.id = a.draft WHERE a.id = s.value AND d.tenant = :viewer)
            WHEN 'credential' THEN EXISTS (SELECT 1 FROM credential c JOIN draft d ON d.id = c.draft WHERE c.id = s.value AND d.tenant = :viewer)
            ELSE 1 END))"
    };
}

/// Refuses if a stop that is in force at `now` covers the draft, or the credential that is used for it.
pub(super) fn check(connection: &Connection, now: Timestamp, draft: DraftId, credential: Option<CredentialId>) -> Result<(), Failure> {
    let stop = rows::first(
        connection,
        concat!(
            "SELECT s.id FROM stop s JOIN draft d ON d.id = :draft
             WHERE s.state = 'active' AND (s.expires_at IS NULL OR s.expires_at > :now) AND ",
            covers!(":credential"),
            " ORDER BY s.id LIMIT 1"
        ),
        named_params! {
            ":draft": draft.to_string(), ":now": now.millis(), ":credential": credential.map(|id| id.to_string()),
        },
        |row| word::<StopId>(row, "id"),
    )?;
    match stop {
        Some(stop) => Err(Rejection::Stopped(stop).into()),
        None => Ok(()),
    }
}

/// `stop.place`: from the commit on nothing that it covers is issued, spent or sent. Gives what is in flight at that moment.
pub(super) fn place(step: &mut Step<'_>, place: &PlaceStop) -> Result<StopStanding, Failure> {
    put(step, place, None)
}

fn put(step: &mut Step<'_>, place: &PlaceStop, renews: Option<StopId>) -> Result<StopStanding, Failure> {
    // By this process's own clock: while it is behind what is written down, a stop for an hour is still one for an hour.
    if let Some(end) = place.expires_at
        && end <= step.wall
    {
        return Err(Rejection::StopEnded(end).into());
    }
    if !exists(step.connection, place)? {
        return Err(Rejection::NotFound.into());
    }
    let state = StopTransition::Place.to();
    step.insert(
        "INSERT INTO stop (id, tenant, scope, value, reason, placed_by, placed_at, expires_at, state, renews)
         VALUES (:id, :tenant, :scope, :value, :reason, :by, :now, :expires_at, :state, :renews)",
        place.id,
        named_params! {
            ":id": place.id.to_string(), ":tenant": place.tenant.as_ref().map(TenantId::as_str), ":scope": place.scope.word(),
            ":value": place.scope.value(), ":reason": place.reason.as_str(), ":by": step.by(), ":now": step.now.millis(),
            ":expires_at": place.expires_at.map(Timestamp::millis), ":state": state.as_str(),
            ":renews": renews.map(|id| id.to_string()),
        },
    )?;
    let stop = of_id(step.connection, place.id)?;
    tell(step, &stop, StopTransition::Place, Some(&place.reason))?;
    let in_flight = in_flight(step.connection, stop.id, None)?;
    Ok(StopStanding { stop, in_flight })
}

/// Places anew every stop that lapsed by a clock that ran ahead, and whose end has not come by the one that is right: a lapse is final, but
/// what was to stand still must. One that was taken up already is not again: somebody may have lifted it since.
pub(super) fn renew(step: &mut Step<'_>) -> Result<u32, Failure> {
    let too_soon = rows::all(
        step.connection,
        "SELECT * FROM stop s WHERE state = :lapsed AND expires_at > :now
            AND NOT EXISTS (SELECT 1 FROM stop later WHERE later.renews = s.id) ORDER BY id",
        named_params! { ":lapsed": StopState::Lapsed.as_str(), ":now": step.now.millis() },
        stop_row,
    )?;
    let mut renewed = 0;
    for stop in too_soon {
        let again = PlaceStop {
            id: step.stop_id(),
            tenant: stop.tenant,
            scope: stop.scope,
            reason: stop.reason,
            expires_at: stop.expires_at,
        };
        put(step, &again, Some(stop.id))?;
        renewed += 1;
    }
    Ok(renewed)
}

/// Whether what the stop names is there, in its tenant: a stop on a misspelt name would stop nothing, and look as if it did.
fn exists(connection: &Connection, place: &PlaceStop) -> Result<bool, Failure> {
    let sql = match place.scope {
        // Which operations there are is not kept here.
        StopScope::Everything | StopScope::Operation(_) => return Ok(true),
        StopScope::Tenant(_) => {
            "SELECT (:tenant IS NULL OR :tenant = :value)
                AND (EXISTS (SELECT 1 FROM client WHERE tenant = :value) OR EXISTS (SELECT 1 FROM draft WHERE tenant = :value))"
        }
        StopScope::Client(_) => "SELECT EXISTS (SELECT 1 FROM client WHERE id = :value AND (:tenant IS NULL OR tenant = :tenant))",
        // Approvers are every tenant's.
        StopScope::Approver(_) => {
            "SELECT :tenant IS :tenant AND (EXISTS (SELECT 1 FROM approver WHERE id = :value)
                OR EXISTS (SELECT 1 FROM approval_record WHERE approver = :value))"
        }
        StopScope::Draft(_) => "SELECT EXISTS (SELECT 1 FROM draft WHERE id = :value AND (:tenant IS NULL OR tenant = :tenant))",
        StopScope::Approval(_) => {
            "SELECT EXISTS (SELECT 1 FROM approval a JOIN draft d ON d.id = a.draft
                WHERE a.id = :value AND (:tenant IS NULL OR d.tenant = :tenant))"
        }
        StopScope::Credential(_) => {
            "SELECT EXISTS (SELECT 1 FROM credential c JOIN draft d ON d.id = c.draft
                WHERE c.id = :value AND (:tenant IS NULL OR d.tenant = :tenant))"
        }
    };
    let tenant = place.tenant.as_ref().map(TenantId::as_str);
    rows::value(connection, sql, named_params! { ":tenant": tenant, ":value": place.scope.value() })
}

/// `stop.lift`; one that has ended stays as it ended.
pub(super) fn lift(step: &mut Step<'_>, lift: &LiftStop) -> Result<StopRecord, Failure> {
    let was = one(step.connection, lift.stop)?.ok_or(Rejection::NotFound)?;
    if was.state == StopState::Active {
        end(step, &was, StopTransition::Lift, Some(&lift.reason))?;
    }
    of_id(step.connection, lift.stop)
}

/// `stop.lapse` for every stop whose time is over. It only tidies: the guard compares the time itself.
pub(super) fn lapse(step: &mut Step<'_>, limit: u32) -> Result<(), Failure> {
    let over = rows::all(
        step.connection,
        "SELECT * FROM stop WHERE state = 'active' AND expires_at <= :now ORDER BY id LIMIT :limit",
        named_params! { ":now": step.now.millis(), ":limit": limit },
        stop_row,
    )?;
    over.iter().try_for_each(|stop| end(step, stop, StopTransition::Lapse, None))
}

fn end(step: &mut Step<'_>, was: &StopRecord, transition: StopTransition, reason: Option<&Reason>) -> Result<(), Failure> {
    let ended = StopEnd {
        by: step.by(),
        at: step.now,
        reason: reason.cloned(),
    };
    let moved = step.change(
        "UPDATE stop SET state = :to, ended = :ended WHERE id = :id AND state IN (SELECT value FROM json_each(:from))",
        named_params! {
            ":id": was.id.to_string(), ":to": transition.to().as_str(), ":ended": to_json(&ended)?,
            ":from": words(transition.from(), StopState::as_str),
        },
    )?;
    if moved == 0 {
        return Err(Failure::Corrupt(format!("{} was {} and did not end", was.id, was.state)));
    }
    tell(step, was, transition, reason)
}

/// The only tenant that the stop concerns: nobody else's auditor reads in the log which drafts and clients it has.
fn concerned(connection: &Connection, stop: &StopRecord) -> Result<Option<TenantId>, Failure> {
    if stop.tenant.is_some() {
        return Ok(stop.tenant.clone());
    }
    let sql = match &stop.scope {
        StopScope::Everything | StopScope::Operation(_) | StopScope::Approver(_) => return Ok(None),
        StopScope::Tenant(tenant) => return Ok(Some(tenant.clone())),
        StopScope::Client(_) => "SELECT tenant FROM client WHERE id = ?1",
        StopScope::Draft(_) => "SELECT tenant FROM draft WHERE id = ?1",
        StopScope::Approval(_) => "SELECT d.tenant FROM approval a JOIN draft d ON d.id = a.draft WHERE a.id = ?1",
        StopScope::Credential(_) => "SELECT d.tenant FROM credential c JOIN draft d ON d.id = c.draft WHERE c.id = ?1",
    };
    rows::first(connection, sql, [stop.scope.value()], |row| word(row, "tenant"))
}

fn tell(step: &mut Step<'_>, stop: &StopRecord, transition: StopTransition, reason: Option<&Reason>) -> Result<(), Failure> {
    let event = step.event(EventKind::Stop(transition));
    let tenant = concerned(step.connection, stop)?;
    step.emit(EventBody {
        tenant,
        stop: Some(StopPart {
            id: stop.id,
            scope: Some(stop.scope.word()),
            value: stop.scope.value(),
            expires_at: stop.expires_at,
        }),
        content_sha256: reason.map(|words| Digest::of(words.as_str().as_bytes())),
        state: Some(ChangePart {
            from: transition.from().first().map(|state| state.as_str()),
            to: transition.to().as_str(),
        }),
        ..event
    })
}

/// The stop with what is in flight within its scope, if it concerns `viewer`; of what is in flight a tenant sees its own.
pub(super) fn standing(connection: &Connection, id: StopId, viewer: Option<&TenantId>) -> Result<Option<StopStanding>, Failure> {
    let stop = rows::first(
        connection,
        concat!("SELECT s.* FROM stop s WHERE s.id = :stop AND ", concerns!()),
        named_params! { ":stop": id.to_string(), ":viewer": viewer.map(TenantId::as_str) },
        stop_row,
    )?;
    let Some(stop) = stop else { return Ok(None) };
    let in_flight = in_flight(connection, id, viewer)?;
    Ok(Some(StopStanding { stop, in_flight }))
}

/// The stops that concern `viewer`, in the order of their ids; those that ended only if they are asked for.
pub(super) fn list(connection: &Connection, now: Timestamp, filter: &StopFilter) -> Result<Vec<StopRecord>, Failure> {
    rows::all(
        connection,
        concat!(
            "SELECT s.* FROM stop s WHERE s.id > :after AND (:ended OR (s.state = 'active' AND (s.expires_at IS NULL OR s.expires_at > :now))) AND ",
            concerns!(),
            " ORDER BY s.id LIMIT :limit"
        ),
        named_params! {
            ":viewer": filter.viewer.as_ref().map(TenantId::as_str), ":ended": filter.which == Stops::All, ":now": now.millis(),
            ":after": filter.after.map(|id| id.to_string()).unwrap_or_default(), ":limit": filter.limit,
        },
        stop_row,
    )
}

fn in_flight(connection: &Connection, stop: StopId, viewer: Option<&TenantId>) -> Result<Vec<InFlight>, Failure> {
    rows::all(
        connection,
        concat!(
            // The states as they stand in the index, so that the list of all that ever ran is not read while every writer waits.
            "SELECT e.id AS execution, e.state AS standing, d.* FROM stop s
                JOIN execution e ON e.state IN ('claimed', 'dispatched', 'pending', 'indeterminate', 'handed_off')
                JOIN draft d ON d.id = e.draft
             WHERE s.id = :stop AND (:viewer IS NULL OR d.tenant = :viewer) AND ",
            covers!("e.credential"),
            " ORDER BY e.id"
        ),
        named_params! { ":stop": stop.to_string(), ":viewer": viewer.map(TenantId::as_str) },
        |row| {
            Ok(InFlight {
                execution: word(row, "execution")?,
                draft: word(row, "id")?,
                state: word(row, "standing")?,
                tenant: word(row, "tenant")?,
                operation: word(row, "operation")?,
                resource: resource(row)?,
                amount: amount(row)?,
            })
        },
    )
}

fn one(connection: &Connection, id: StopId) -> Result<Option<StopRecord>, Failure> {
    rows::first(connection, "SELECT * FROM stop WHERE id = ?1", [id.to_string()], stop_row)
}

fn of_id(connection: &Connection, id: StopId) -> Result<StopRecord, Failure> {
    one(connection, id)?.ok_or_else(|| Failure::Corrupt(format!("{id} is gone")))
}

fn stop_row(row: &Row<'_>) -> Result<StopRecord, Failure> {
    let broken = |column: &str, why: String| Failure::Corrupt(format!("column {column}: {why}"));
    let (scope, value) = (text(row, "scope")?, opt_word::<String>(row, "value")?);
    Ok(StopRecord {
        id: word(row, "id")?,
        tenant: opt_word(row, "tenant")?,
        scope: StopScope::parse(&scope, value.as_deref()).map_err(|error| broken("scope", error.to_string()))?,
        reason: Reason::recorded(text(row, "reason")?),
        state: word(row, "state")?,
        placed_by: text(row, "placed_by")?,
        placed_at: at(row, "placed_at")?,
        expires_at: opt_at(row, "expires_at")?,
        ended: opt_json(row, "ended")?,
    })
}
