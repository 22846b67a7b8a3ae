//! What became of what was sent: by its answer, by a look-up, or by a person.

use rusqlite::named_params;

use super::failure::Failure;
use super::step::{Step, whole};
use super::told;
use crate::audit::{AttemptPart, EventBody, EventKind, EventOutcome, Note, ProviderPart, SensitiveField};
use crate::domain::lifecycle::{ExecutionState, ExecutionTransition};
use crate::domain::time::Timestamp;
use crate::store::Rejection;
use crate::store::intent::{HandOff, LookUp, Resolution, Resolve, Settle, Settled};
use crate::store::record::{AttemptResult, ExecutionRecord, HandedOff, LookUpRecord, Said};

impl Settled {
    fn reference(&self) -> Option<&String> {
        match self {
            Self::Applied { reference } | Self::Pending { reference } => reference.as_ref(),
            Self::NotApplied { .. } | Self::Indeterminate { .. } => None,
        }
    }

    fn code(&self) -> Option<&String> {
        match self {
            Self::NotApplied { code } | Self::Indeterminate { code } => Some(code),
            Self::Applied { .. } | Self::Pending { .. } => None,
        }
    }

    const fn outcome(&self) -> EventOutcome {
        match self {
            Self::Applied { .. } => EventOutcome::Ok,
            Self::NotApplied { .. } => EventOutcome::Failed,
            Self::Pending { .. } | Self::Indeterminate { .. } => EventOutcome::Unknown,
        }
    }

    /// What a look at the backend that came to this showed; nothing if it decided nothing.
    const fn shown(&self) -> Option<Said> {
        match self {
            Self::Applied { .. } => Some(Said::Applied),
            Self::Pending { .. } => Some(Said::Pending),
            Self::NotApplied { .. } => Some(Said::Failed),
            Self::Indeterminate { .. } => None,
        }
    }

    const fn is_final(&self) -> bool {
        matches!(self, Self::Applied { .. } | Self::NotApplied { .. })
    }
}

/// Records what came of an attempt.
pub(super) fn settle(step: &mut Step<'_>, settle: &Settle) -> Result<ExecutionRecord, Failure> {
    let was = step.execution(settle.execution)?;
    let transition = match settle.settled {
        Settled::Applied { .. } => ExecutionTransition::ConfirmApplied,
        Settled::Pending { .. } => ExecutionTransition::ConfirmPending,
        Settled::NotApplied { .. } => ExecutionTransition::ConfirmNotApplied,
        Settled::Indeterminate { .. } => ExecutionTransition::LoseTrack,
    };
    // A pending execution is confirmed by a look-up, not by an answer that comes after it.
    if was.fence == settle.fence && was.state != ExecutionState::Dispatched {
        return Err(Rejection::ExecutionIs(was.state).into());
    }
    let then = after(&was, &settle.settled, settle.next_action_at, step.wall);
    let attempt = was.attempts.iter().find(|a| a.n == settle.attempt).map(|a| AttemptPart {
        n: a.n,
        request_sha256: a.request_sha256,
    });
    let result = &settle.result;
    step.move_execution(&was, transition, settle.fence, &then, |event| EventBody {
        outcome: settle.settled.outcome(),
        code: settle.settled.code().cloned(),
        attempt: attempt.clone(),
        provider: Some(ProviderPart {
            status: result.status,
            reference: settle.settled.reference().cloned(),
            rule: result.rule.clone(),
            body_sha256: result.body_sha256,
        }),
        ..event
    })?;
    if matches!(settle.settled, Settled::NotApplied { .. })
        && let Some(n) = in_doubt(&was, settle.attempt, result)
    {
        return Err(Rejection::AttemptInDoubt(n).into());
    }
    fill_attempt(step, &was, settle.attempt, result)?;
    if let Some(said) = settle.settled.shown() {
        told::agree(step, was.id, said)?;
    }
    finish(step, &was, &settle.settled)
}

/// The step under which an answer that came too late stands among the look-ups.
const LATE_ANSWER: &str = "late answer";

/// What came back after somebody else's word stood: evidence, and no change of state.
pub(super) fn late_answer(step: &mut Step<'_>, settle: &Settle) -> Result<(), Failure> {
    let execution = step.execution(settle.execution)?;
    let attempt = execution.attempts.iter().find(|a| a.n == settle.attempt).map(|a| AttemptPart {
        n: a.n,
        request_sha256: a.request_sha256,
    });
    let result = &settle.result;
    let seen = LookUpRecord {
        at: result.at,
        step: LATE_ANSWER.to_owned(),
        finding: result.outcome.clone(),
        status: result.status,
        body_sha256: result.body_sha256,
    };
    insert_look_up(step, &execution, &seen)?;
    let event = step.about_execution(EventKind::Note(Note::LateAnswer), &execution)?;
    step.emit(EventBody {
        outcome: EventOutcome::Unknown,
        code: Some(result.outcome.clone()),
        attempt,
        provider: Some(ProviderPart {
            status: result.status,
            reference: settle.settled.reference().cloned(),
            rule: result.rule.clone(),
            body_sha256: result.body_sha256,
        }),
        ..event
    })
}

/// The first attempt that may have had its effect, once `result` is known for attempt `n`.
fn in_doubt(was: &ExecutionRecord, n: u32, result: &AttemptResult) -> Option<u32> {
    let is_in_doubt = |attempt: &&crate::store::record::AttemptRecord| {
        let known = if attempt.n == n { Some(result) } else { attempt.result.as_ref() };
        known.is_none_or(|r| !r.conclusive)
    };
    was.attempts.iter().find(is_in_doubt).map(|attempt| attempt.n)
}

fn fill_attempt(step: &Step<'_>, was: &ExecutionRecord, n: u32, result: &AttemptResult) -> Result<(), Failure> {
    let filled = step.change(
        "UPDATE attempt SET result_at = :at, outcome = :outcome, conclusive = :conclusive, status = :status, rule = :rule,
            body_sha256 = :body_sha256
         WHERE execution = :execution AND n = :n AND result_at IS NULL
            AND n = (SELECT max(n) FROM attempt WHERE execution = :execution)",
        named_params! {
            ":execution": was.id.to_string(), ":n": whole(u64::from(n)), ":at": result.at.millis(), ":outcome": result.outcome,
            ":conclusive": result.conclusive, ":status": result.status, ":rule": result.rule,
            ":body_sha256": result.body_sha256.map(|d| d.to_string()),
        },
    )?;
    if filled == 1 { Ok(()) } else { Err(Rejection::NotFound.into()) }
}

pub(super) fn after(
    was: &ExecutionRecord,
    settled: &Settled,
    next_action_at: Option<Timestamp>,
    lease_until: Timestamp,
) -> ExecutionRecord {
    ExecutionRecord {
        lease_until,
        next_action_at: next_action_at.filter(|_| !settled.is_final()),
        reference: settled.reference().cloned().or_else(|| was.reference.clone()),
        code: settled.code().cloned(),
        ..was.clone()
    }
}

fn finish(step: &Step<'_>, was: &ExecutionRecord, settled: &Settled) -> Result<ExecutionRecord, Failure> {
    if settled.is_final() {
        step.settle_draft(was.draft)?;
    }
    step.execution(was.id)
}

/// Records what a look-up found. One that finds nothing new changes no state.
pub(super) fn look_up(step: &mut Step<'_>, look_up: &LookUp) -> Result<ExecutionRecord, Failure> {
    use ExecutionTransition as T;
    let was = step.execution(look_up.execution)?;
    let result = &look_up.result;
    let is_pending = was.state == ExecutionState::Pending;
    // What is over is looked at only because of what the backend told, and only one thing changes it: that what was done has failed since.
    let is_over = matches!(
        was.state,
        ExecutionState::Applied | ExecutionState::NotApplied | ExecutionState::Aborted
    );
    let transition = match &look_up.settled {
        Settled::NotApplied { .. } if was.state == ExecutionState::Applied => Some(T::Reopen),
        _ if is_over => None,
        Settled::Applied { .. } if is_pending => Some(T::ConfirmApplied),
        Settled::NotApplied { .. } if is_pending => Some(T::Reopen),
        Settled::Pending { .. } if is_pending => None,
        Settled::Applied { .. } => Some(T::ReconcileApplied),
        Settled::NotApplied { .. } => Some(T::ReconcileNotApplied),
        Settled::Pending { .. } => Some(T::ReconcilePending),
        Settled::Indeterminate { .. } => None,
    };
    let fill = |event: EventBody| EventBody {
        outcome: look_up.settled.outcome(),
        code: look_up.settled.code().cloned(),
        provider: Some(ProviderPart {
            status: result.status,
            reference: look_up.settled.reference().cloned(),
            rule: Some(result.step.clone()),
            body_sha256: result.body_sha256,
        }),
        ..event
    };
    let then = if is_over && transition.is_none() {
        ExecutionRecord {
            lease_until: step.wall,
            ..was.clone()
        }
    } else {
        after(&was, &look_up.settled, look_up.next_action_at, was.lease_until)
    };
    let is_told = was.events.iter().any(|e| e.look_at.is_some() && look_up.events.contains(&e.id));
    if was.fence == look_up.fence && is_over && !is_told {
        return Err(Rejection::ExecutionIs(was.state).into());
    }
    match transition {
        Some(transition) => step.move_execution(&was, transition, look_up.fence, &then, fill)?,
        None => {
            let now_in = [was.state];
            let open: &[ExecutionState] = if is_over {
                &now_in
            } else {
                &[ExecutionState::Indeterminate, ExecutionState::HandedOff, ExecutionState::Pending]
            };
            step.keep_execution(&was, look_up.fence, open, &then)?;
            let event = step.about_execution(EventKind::Note(Note::LookUp), &then)?;
            step.emit(fill(event))?;
        }
    }
    // What no look at the backend has shown rests on the attempts alone, and none of them may be in doubt.
    if result.step == LookUpRecord::BY_ATTEMPTS
        && let Some(doubtful) = was.attempts.iter().find(|attempt| attempt.is_in_doubt())
    {
        return Err(Rejection::AttemptInDoubt(doubtful.n).into());
    }
    insert_look_up(step, &was, result)?;
    let state = transition.map_or(was.state, ExecutionTransition::to);
    if told::answer(step, &was, &then, &look_up.events, look_up.settled.shown(), state)? {
        let event = step.about_execution(EventKind::Note(Note::Contradicted), &then)?;
        step.emit(EventBody {
            outcome: EventOutcome::Unknown,
            ..fill(event)
        })?;
    }
    if is_over {
        return step.execution(was.id);
    }
    finish(step, &was, &look_up.settled)
}

fn insert_look_up(step: &Step<'_>, was: &ExecutionRecord, result: &LookUpRecord) -> Result<(), Failure> {
    step.insert(
        "INSERT INTO look_up (execution, n, at, step, finding, status, body_sha256)
         SELECT :execution, coalesce(max(n) + 1, 1), :at, :step, :finding, :status, :body_sha256 FROM look_up WHERE execution = :execution",
        was.id,
        named_params! {
            ":execution": was.id.to_string(), ":at": result.at.millis(), ":step": result.step, ":finding": result.finding,
            ":status": result.status, ":body_sha256": result.body_sha256.map(|d| d.to_string()),
        },
    )
}

/// `execution.hand_off`.
pub(super) fn hand_off(step: &mut Step<'_>, hand_off: &HandOff) -> Result<ExecutionRecord, Failure> {
    let was = step.execution(hand_off.execution)?;
    let then = ExecutionRecord {
        lease_until: step.wall,
        next_action_at: None,
        code: Some(hand_off.code.clone()),
        handed_off: Some(HandedOff {
            at: step.now,
            code: hand_off.code.clone(),
        }),
        ..was.clone()
    };
    step.move_execution(&was, ExecutionTransition::HandOff, hand_off.fence, &then, |event| EventBody {
        outcome: EventOutcome::Unknown,
        code: then.code.clone(),
        ..event
    })?;
    step.execution(was.id)
}

/// `execution.resolve_applied` or `execution.resolve_not_applied`. A person needs no lease; whoever holds one finds the state changed.
pub(super) fn resolve(step: &mut Step<'_>, resolve: &Resolve) -> Result<ExecutionRecord, Failure> {
    let was = step.execution(resolve.execution)?;
    let transition = match resolve.resolution {
        Resolution::Applied => ExecutionTransition::ResolveApplied,
        Resolution::NotApplied => ExecutionTransition::ResolveNotApplied,
    };
    let then = ExecutionRecord {
        lease_until: step.wall,
        next_action_at: None,
        reference: resolve.reference.clone().or_else(|| was.reference.clone()),
        evidence: Some(resolve.evidence.clone()),
        ..was.clone()
    };
    let sensitive = step.sensitive(was.draft, SensitiveField::Evidence, Some(&resolve.evidence))?;
    step.move_execution(&was, transition, was.fence, &then, |event| EventBody {
        sensitive,
        provider: resolve.reference.clone().map(|reference| ProviderPart {
            status: None,
            reference: Some(reference),
            rule: None,
            body_sha256: None,
        }),
        ..event
    })?;
    step.settle_draft(was.draft)?;
    step.execution(was.id)
}
