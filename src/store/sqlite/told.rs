//! What a backend told by itself: written down once for each of its events, and what a look at the backend made of it.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::failure::Failure;
use super::outcome::after;
use super::rows::{self, word};
use super::step::Step;
use crate::audit::{EventBody, EventKind, EventOutcome, Note, ProviderPart};
use crate::domain::digest::Digest;
use crate::domain::id::ExecutionId;
use crate::domain::lifecycle::{ExecutionState as S, ExecutionTransition as T};
use crate::domain::time::Timestamp;
use crate::store::Rejection;
use crate::store::intent::{About, EventMarks, Receive, Received, Settled, Weight};
use crate::store::record::{EventFinding, EventRecord, ExecutionRecord, Said};

/// How long the backend is looked at because of an event that it does not confirm.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The shortest and the longest pause between two looks because of one event.
const PAUSE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(6 * 3600));
/// When what the backend calls pending is looked at first.
const FIRST_LOOK: Duration = Duration::from_secs(60);

/// How an event stands to what is known.
enum Standing {
    /// It says what is known, or what was so before.
    Known,
    /// It says something else.
    News,
}

const fn standing(state: S, said: Said) -> Standing {
    match (state, said) {
        (S::Applied, Said::Applied | Said::Pending) | (S::Pending, Said::Pending) | (S::NotApplied | S::Aborted, Said::Failed) => {
            Standing::Known
        }
        _ => Standing::News,
    }
}

/// Writes an event down, once. Where its own word counts, what follows from it is in the same step.
pub(super) fn receive(step: &mut Step<'_>, receive: &Receive) -> Result<Received, Failure> {
    if let Some((content, finding)) = known(step.connection, receive)? {
        if content != receive.content {
            return Err(Rejection::EventReused(receive.event.clone()).into());
        }
        return Ok(Received { finding, first: false });
    }
    let (execution, said, finding) = match &receive.about {
        About::Nothing { finding, execution } => {
            let was = execution.map(|id| step.execution(id)).transpose()?;
            (was, None, *finding)
        }
        About::Execution {
            execution,
            said,
            weight,
            reference,
            ..
        } => {
            let was = step.execution(*execution)?;
            let is_another = was
                .reference
                .as_ref()
                .zip(reference.as_ref())
                .is_some_and(|(known, told)| known != told);
            let finding = match (standing(was.state, *said), weight) {
                // It was judged before this step, and the backend's id may have become known since.
                _ if is_another => EventFinding::Disagrees,
                (Standing::Known, _) => EventFinding::Agrees,
                (Standing::News, Weight::Look) => EventFinding::Waits,
                (Standing::News, Weight::Word) if matches!(was.state, S::NotApplied | S::Aborted) => EventFinding::Contradicts,
                (Standing::News, Weight::Word) => EventFinding::Believed,
            };
            (Some(was), Some(*said), finding)
        }
    };
    step.insert(
        "INSERT INTO backend_event (backend, id, type, content_sha256, received_at, execution, said, reference, finding, look_at)
         VALUES (:backend, :id, :type, :content, :now, :execution, :said, :reference, :finding, :look_at)",
        format_args!("event {} of {}", receive.event, receive.backend),
        named_params! {
            ":backend": receive.backend.as_str(), ":id": receive.event, ":type": receive.kind, ":content": receive.content.to_string(),
            ":now": step.now.millis(), ":execution": execution.as_ref().map(|e| e.id.to_string()), ":said": said.map(Said::as_str),
            ":reference": match &receive.about { About::Execution { reference, .. } => reference.as_ref(), About::Nothing { .. } => None },
            ":finding": finding.as_str(), ":look_at": (finding == EventFinding::Waits).then(|| step.wall.millis()),
        },
    )?;
    note(step, receive, execution.as_ref(), finding)?;
    if let (EventFinding::Believed, Some(was), About::Execution { said, reference, rule, .. }) = (finding, &execution, &receive.about) {
        believe(step, was, *said, reference.as_ref(), rule, receive.content)?;
    }
    Ok(Received { finding, first: true })
}

fn known(connection: &Connection, receive: &Receive) -> Result<Option<(Digest, EventFinding)>, Failure> {
    rows::first(
        connection,
        "SELECT content_sha256, finding FROM backend_event WHERE backend = ?1 AND id = ?2",
        [receive.backend.as_str(), receive.event.as_str()],
        |row| Ok((word(row, "content_sha256")?, word(row, "finding")?)),
    )
}

/// The event of the log that tells of the backend's.
fn note(step: &mut Step<'_>, receive: &Receive, execution: Option<&ExecutionRecord>, finding: EventFinding) -> Result<(), Failure> {
    let kind = EventKind::Note(Note::BackendEvent);
    let event = match execution {
        Some(execution) => step.about_execution(kind, execution)?,
        None => step.event(kind),
    };
    let (reference, rule) = match &receive.about {
        About::Execution { reference, rule, .. } => (reference.clone(), Some(rule.clone())),
        About::Nothing { .. } => (None, None),
    };
    step.emit(EventBody {
        outcome: match finding {
            EventFinding::Waits | EventFinding::Contradicts | EventFinding::AdapterChanged => EventOutcome::Unknown,
            EventFinding::Disagrees | EventFinding::NotExecuted => EventOutcome::Denied,
            _ => EventOutcome::Ok,
        },
        code: Some(finding.as_str().to_owned()),
        subject: Some(format!("{}:{}", receive.backend, receive.event)),
        provider: Some(ProviderPart {
            status: None,
            reference,
            rule,
            body_sha256: Some(receive.content),
        }),
        ..event
    })
}

/// What follows from an event whose own word counts. Whoever holds a lease finds the state changed.
fn believe(
    step: &mut Step<'_>,
    was: &ExecutionRecord,
    said: Said,
    reference: Option<&String>,
    rule: &str,
    content: Digest,
) -> Result<(), Failure> {
    let transition = match (was.state, said) {
        (S::Pending, Said::Applied) => T::ConfirmApplied,
        (S::Pending | S::Applied, Said::Failed) => T::Reopen,
        (S::Indeterminate | S::HandedOff, Said::Applied) => T::ReconcileApplied,
        (S::Indeterminate | S::HandedOff, Said::Failed) => T::ReconcileNotApplied,
        (S::Indeterminate | S::HandedOff, Said::Pending) => T::ReconcilePending,
        // The request is under way: its own answer comes first, and the backend delivers the event again.
        _ => return Err(Rejection::ExecutionIs(was.state).into()),
    };
    let reference = reference.cloned();
    let (settled, outcome) = match said {
        Said::Applied => (Settled::Applied { reference }, EventOutcome::Ok),
        Said::Pending => (Settled::Pending { reference }, EventOutcome::Unknown),
        Said::Failed => (Settled::NotApplied { code: rule.to_owned() }, EventOutcome::Failed),
    };
    let then = after(was, &settled, Some(step.wall.plus(FIRST_LOOK)), step.wall);
    step.move_execution(was, transition, was.fence, &then, |event| EventBody {
        outcome,
        code: then.code.clone(),
        provider: Some(ProviderPart {
            status: None,
            reference: then.reference.clone(),
            rule: Some(rule.to_owned()),
            body_sha256: Some(content),
        }),
        ..event
    })?;
    if said != Said::Pending {
        step.settle_draft(was.draft)?;
    }
    Ok(())
}

/// Closes, or puts off, each event that was waiting when a look at the backend began: `found` is what the look showed, `state` what is known since.
/// Whether any of them contradicts a final outcome.
pub(super) fn answer(
    step: &Step<'_>,
    was: &ExecutionRecord,
    now: &ExecutionRecord,
    events: &[String],
    found: Option<Said>,
    state: S,
) -> Result<bool, Failure> {
    let mut contradicted = false;
    for event in was.events.iter().filter(|e| e.look_at.is_some() && events.contains(&e.id)) {
        let age = step.now.since(event.at);
        let same = event
            .reference
            .as_ref()
            .zip(now.reference.as_ref())
            .is_none_or(|(told, known)| told == known);
        let finding = match (state, found, event.said) {
            (S::NotApplied | S::Aborted, Some(Said::Applied | Said::Pending), _) => EventFinding::Contradicts,
            (_, Some(found), Some(said)) if found == said && same => EventFinding::Confirmed,
            // The event is older than what is there now.
            (_, Some(Said::Failed), _) | (_, Some(Said::Applied), Some(Said::Pending)) => EventFinding::Late,
            // What was read may lag behind what was told.
            _ if age < PATIENCE => EventFinding::Waits,
            _ => EventFinding::NotConfirmed,
        };
        contradicted |= finding == EventFinding::Contradicts;
        let next = (finding == EventFinding::Waits).then(|| step.wall.plus((age / 2).clamp(PAUSE.0, PAUSE.1)));
        step.change(
            "UPDATE backend_event SET finding = :finding, look_at = :look_at WHERE backend = :backend AND id = :id AND look_at IS NOT NULL",
            named_params! {
                ":finding": finding.as_str(), ":look_at": next.map(Timestamp::millis), ":backend": was.backend.as_str(), ":id": event.id,
            },
        )?;
    }
    Ok(contradicted)
}

/// Closes the events that said what the answer to the request says too.
pub(super) fn agree(step: &Step<'_>, execution: ExecutionId, said: Said) -> Result<(), Failure> {
    step.change(
        "UPDATE backend_event SET finding = 'agrees', look_at = NULL WHERE execution = :execution AND look_at IS NOT NULL AND said = :said
            AND (reference IS NULL OR reference = (SELECT reference FROM execution WHERE id = :execution))",
        named_params! { ":execution": execution.to_string(), ":said": said.as_str() },
    )?;
    Ok(())
}

/// The events about an execution, in the order in which they came.
pub(super) fn of(connection: &Connection, execution: &str) -> Result<Vec<EventRecord>, Failure> {
    let sql =
        "SELECT id, type, received_at, said, reference, finding, look_at FROM backend_event WHERE execution = ?1 ORDER BY received_at, id";
    rows::all(connection, sql, [execution], |row| {
        Ok(EventRecord {
            id: rows::text(row, "id")?,
            kind: rows::text(row, "type")?,
            at: rows::at(row, "received_at")?,
            said: rows::opt_word(row, "said")?,
            reference: row.get("reference")?,
            finding: word(row, "finding")?,
            look_at: rows::opt_at(row, "look_at")?,
        })
    })
}

/// The execution that these marks name, the first of them that names any.
pub(super) fn marked(connection: &Connection, marks: &EventMarks) -> Result<Option<ExecutionRecord>, Failure> {
    if let Some(draft) = marks.draft
        && let Some(found) = rows::execution_of(connection, draft)?
    {
        return Ok(Some(found));
    }
    let by = |what: &str, value: &str| {
        let sql = format!("SELECT e.id FROM execution e JOIN draft d ON d.id = e.draft WHERE d.backend = ?1 AND {what} = ?2 LIMIT 1");
        rows::first(connection, &sql, [marks.backend.as_str(), value], |row| {
            word::<ExecutionId>(row, "id")
        })
    };
    let mut found = None;
    if let Some(key) = &marks.key {
        found = by("d.idempotency_key", key)?;
    }
    if let (None, Some(reference)) = (found, &marks.reference) {
        found = by("e.reference", reference)?;
    }
    found.map_or(Ok(None), |id| rows::execution(connection, id))
}
