//! The store's clock: this process's own, never earlier than what is written down, and looked at anew at the start of every transaction.
//!
//! A clock that is further behind than [`TOLERANCE`] was set back, or another process's is ahead. It is told once, as an event; nothing new
//! begins until it is past what is written down; what has begun goes on.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::Tools;
use super::failure::Failure;
use super::rows;
use super::step::{Step, words};
use super::writer::{Ran, Wrote};
use crate::audit::{ClockPart, EventBody, EventKind, EventOutcome, Note};
use crate::domain::lifecycle::ExecutionState;
use crate::domain::time::Timestamp;
use crate::store::health::{ClockState, TOLERANCE};

/// After this long without an event the log says that it lives: a head that nobody renews is an alarm to whoever watches it.
const HEARTBEAT: Duration = Duration::from_secs(600);

/// The states whose leases and next looks count on.
pub(super) const OPEN: &[ExecutionState] = &[
    ExecutionState::Claimed,
    ExecutionState::Dispatched,
    ExecutionState::Pending,
    ExecutionState::Indeterminate,
    ExecutionState::HandedOff,
];

/// What this process remembers of being behind.
#[derive(Default)]
pub(super) struct Watch(Option<Behind>);

/// Since when it is behind.
struct Behind {
    /// The number of the event that tells of it.
    told: u64,
    /// The latest this clock has said since.
    wall: Timestamp,
}

impl Watch {
    /// Looks at the clock inside a transaction that has begun, before anything else of it, and tells of a step.
    pub(super) fn look(&mut self, connection: &Connection, tools: &Tools) -> Result<Ran<()>, Failure> {
        let wall = tools.clock.now();
        let latest = latest(connection)?;
        // It begins with more than a tolerance and ends when the clock is past everything, so that it does not come and go.
        let is_behind = match self.0 {
            Some(_) => wall < latest,
            None => wall.plus(TOLERANCE) < latest,
        };
        if !is_behind {
            tools.pulse.found(latest, ClockState::Steady);
            // It is forgotten once it stands in the log: the event may be lost with the transaction it is written in.
            match &self.0 {
                Some(was) if !is_told(connection, Note::ClockCaughtUp, was.told)? => return caught_up(connection, tools, latest, wall),
                _ => self.0 = None,
            }
            return Ok(Ran::quiet((), Wrote::Nothing));
        }
        tools.pulse.found(latest, ClockState::Behind { now: wall, latest });
        let told = match &self.0 {
            // The event may have been lost with the transaction it was written in.
            Some(was) if wall.plus(TOLERANCE) >= was.wall && exists(connection, Note::ClockSteppedBack, was.told)? => Some(was.told),
            _ => told_by_another(connection, latest, wall)?,
        };
        if let Some(told) = told {
            let wall = self.0.as_ref().map_or(wall, |was| was.wall.max(wall));
            self.0 = Some(Behind { told, wall });
            return Ok(Ran::quiet((), Wrote::Nothing));
        }
        tracing::error!(
            now = %wall, %latest,
            "the clock is behind the latest time in the store: nothing new begins until it is past it; \
             correct the clock, or see `writ store accept-clock --help` if it had run ahead"
        );
        let mut step = Step::for_system(connection, tools);
        move_schedule(&step, latest, wall)?;
        tell(&mut step, Note::ClockSteppedBack, EventOutcome::Failed, latest, wall)?;
        let told = step.seq().unwrap_or(0);
        self.0 = Some(Behind { told, wall });
        Ok(Ran::told(step))
    }
}

/// The latest time that is written down: the log's last event, which is never earlier than the one before it unless an operator accepted
/// the clock, or the last beat of any process.
pub(super) fn latest(connection: &Connection) -> Result<Timestamp, Failure> {
    let millis: i64 = rows::value(
        connection,
        "SELECT max(coalesce((SELECT at FROM event ORDER BY seq DESC LIMIT 1), 0), (SELECT at FROM probe))",
        [],
    )?;
    Ok(Timestamp::from_millis(millis))
}

/// A beat: what this process's clock says is written down, so that another one that is behind finds out.
pub(super) fn beat(connection: &Connection, tools: &Tools) -> Result<Ran<()>, Failure> {
    let mut statement = connection.prepare_cached("UPDATE probe SET at = max(at, ?1), n = n + 1")?;
    statement.execute([tools.clock.now().millis()])?;
    let last: Option<i64> = rows::value(
        connection,
        "SELECT max(at) FROM (SELECT at FROM event ORDER BY seq DESC LIMIT 1)",
        [],
    )?;
    let is_quiet = last.is_some_and(|at| Timestamp::from_millis(at).plus(HEARTBEAT) <= tools.clock.now());
    if is_quiet && tools.pulse.health().pause().is_none() {
        let mut step = Step::for_system(connection, tools);
        let body = step.event(EventKind::Note(Note::LogHeartbeat));
        step.emit(body)?;
        return Ok(Ran::told(step));
    }
    Ok(Ran::quiet((), Wrote::Rows))
}

fn caught_up(connection: &Connection, tools: &Tools, latest: Timestamp, wall: Timestamp) -> Result<Ran<()>, Failure> {
    tracing::info!(now = %wall, "the clock is past the latest time in the store again");
    let mut step = Step::for_system(connection, tools);
    tell(&mut step, Note::ClockCaughtUp, EventOutcome::Ok, latest, wall)?;
    Ok(Ran::told(step))
}

/// Whether there is such an event after this number.
fn is_told(connection: &Connection, note: Note, after: u64) -> Result<bool, Failure> {
    rows::value(
        connection,
        "SELECT EXISTS (SELECT 1 FROM event WHERE type = ?1 AND seq > ?2)",
        (note.as_str(), super::step::whole(after)),
    )
}

fn exists(connection: &Connection, note: Note, seq: u64) -> Result<bool, Failure> {
    rows::value(
        connection,
        "SELECT EXISTS (SELECT 1 FROM event WHERE seq = ?1 AND type = ?2)",
        (super::step::whole(seq), note.as_str()),
    )
}

/// The event in which another process of this machine, or this one before it was restarted, has told of the same step: nothing later is
/// written down since, and the clock has not gone back further.
fn told_by_another(connection: &Connection, latest: Timestamp, wall: Timestamp) -> Result<Option<u64>, Failure> {
    let last = rows::first(
        connection,
        "SELECT seq, at, json_extract(body, '$.clock.now') AS now FROM event WHERE type = ?1 ORDER BY seq DESC LIMIT 1",
        [Note::ClockSteppedBack.as_str()],
        |row| {
            let now: Option<String> = row.get("now")?;
            let now = now.and_then(|text| Timestamp::parse(&text));
            Ok((rows::number::<u64>(row, "seq")?, rows::at(row, "at")?, now))
        },
    )?;
    Ok(last.and_then(|(seq, at, now)| {
        let same = at == latest && now.is_some_and(|now| wall.plus(TOLERANCE) >= now);
        same.then_some(seq)
    }))
}

/// Leases and next looks count by the clock as it is now. A lease that was over stays over; one that was not is not cut short, since whoever
/// holds it may be at work. When to look again is only a pace and goes back with the clock.
fn move_schedule(step: &Step<'_>, latest: Timestamp, wall: Timestamp) -> Result<(), Failure> {
    let open = words(OPEN, ExecutionState::as_str);
    step.change(
        "UPDATE execution SET lease_until = :wall
         WHERE state IN (SELECT value FROM json_each(:open)) AND lease_until > :wall AND lease_until <= :latest",
        named_params! { ":open": open, ":wall": wall.millis(), ":latest": latest.millis() },
    )?;
    step.change(
        "UPDATE execution SET next_action_at = max(:wall, next_action_at - (:latest - :wall))
         WHERE state IN (SELECT value FROM json_each(:open)) AND next_action_at > :wall",
        named_params! { ":open": open, ":wall": wall.millis(), ":latest": latest.millis() },
    )?;
    Ok(())
}

pub(super) fn tell(step: &mut Step<'_>, note: Note, outcome: EventOutcome, latest: Timestamp, now: Timestamp) -> Result<(), Failure> {
    let body = step.event(EventKind::Note(note));
    step.emit(EventBody {
        outcome,
        clock: Some(ClockPart { latest, now }),
        ..body
    })
}
