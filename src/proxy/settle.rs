//! Settle: what an attempt's answer amounts to, by the backend's own rules and by what earlier attempts left open.

use std::time::Duration;

use super::{Parts, Plan};
use crate::backend::{Answer, Classified, Next, Outcome, Sent};
use crate::crash_points::{Point, reached};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::store::StoreError;
use crate::store::intent::{Settle, Settled};
use crate::store::record::{AttemptRecord, AttemptResult, ExecutionRecord};

/// The codes an execution carries while its outcome is open.
pub(super) mod code {
    /// The connection was never made; nothing left.
    pub(in crate::proxy) const NOT_SENT: &str = "not_sent";
    /// The request may have arrived; no whole answer came.
    pub(in crate::proxy) const ANSWER_LOST: &str = "answer_lost";
    /// The backend says it has not run it.
    pub(in crate::proxy) const NOT_EXECUTED: &str = "not_executed";
    /// The backend says another request with this key is running.
    pub(in crate::proxy) const IN_FLIGHT: &str = "in_flight";
    /// The backend knows the key with other content: our own fault, and nothing to repeat.
    pub(in crate::proxy) const KEY_MISMATCH: &str = "key_mismatch";
    /// An answer that proves nothing.
    pub(in crate::proxy) const UNPROVEN: &str = "answer_proves_nothing";
    /// A refusal, but an earlier attempt may have had its effect: it may be refused because it was done.
    pub(in crate::proxy) const REFUSED_AFTER_DOUBT: &str = "refused_after_doubt";
}

impl Parts {
    /// Records what came of the execution's last attempt.
    pub(super) async fn settle_attempt(
        &self,
        execution: ExecutionRecord,
        plan: &Plan<'_>,
        sent: Sent,
    ) -> Result<ExecutionRecord, StoreError> {
        let now = self.clock.now();
        let Some(attempt) = execution.attempts.last() else {
            return Err(StoreError::Corrupt(format!(
                "execution {} is dispatched without an attempt",
                execution.id
            )));
        };
        let earlier_doubt = execution
            .attempts
            .iter()
            .filter(|a| a.n != attempt.n)
            .any(AttemptRecord::is_in_doubt);
        let answer = if let Sent::Answer(answer) = &sent { Some(answer) } else { None };
        let pause = self.pause(plan, execution.attempts.len(), answer);
        let (settled, result) = judge(plan, &sent, earlier_doubt, now);
        reached(Point::SettleJudged);
        let next_action_at = match &settled {
            Settled::Indeterminate { .. } => Some(now.plus(pause)),
            Settled::Pending { .. } => Some(look_again(&execution, now)),
            Settled::Applied { .. } | Settled::NotApplied { .. } => None,
        };
        let settle = Settle {
            execution: execution.id,
            fence: execution.fence,
            attempt: attempt.n,
            settled,
            result,
            next_action_at,
        };
        // What came back is known here and nowhere else: it is worth as much patience as the lease allows.
        match self.insist(self.settings.lease, |op| self.store.settle(op, settle.clone())).await {
            Ok(applied) => Ok(applied.value),
            Err(error) => {
                self.leave_evidence(&execution, settle, &error).await;
                Err(error)
            }
        }
    }

    /// The answer to a sent request could not be recorded as its outcome. If somebody took over, whoever finds out what happened shall find it;
    /// if the store does not take it, it waits beside the store.
    async fn leave_evidence(&self, execution: &ExecutionRecord, settle: Settle, error: &StoreError) {
        let result = &settle.result;
        tracing::error!(
            execution.id = %execution.id, attempt = settle.attempt, outcome = result.outcome, status = result.status,
            body_sha256 = result.body_sha256.map(|d| d.to_string()), %error, "the answer to a sent request could not be recorded as its outcome"
        );
        if !matches!(error, StoreError::Rejected(_)) {
            return;
        }
        if let Err(error) = self.surely(|op| self.store.late_answer(op, settle.clone())).await {
            tracing::error!(execution.id = %execution.id, %error, "nor could it be kept as evidence");
        }
    }

    /// How long to wait before the next try: what the answer asks for, otherwise the file's backoff with full jitter, so that clients that
    /// failed together do not come back together.
    pub(super) fn pause(&self, plan: &Plan<'_>, tries: usize, answer: Option<&Answer>) -> Duration {
        let next = u32::try_from(tries).unwrap_or(u32::MAX).saturating_add(1);
        plan.operation
            .retry()
            .map_or(Duration::ZERO, |retry| retry.wait(next, answer, self.clock.now(), &*self.entropy))
    }
}

/// When to look again at what the backend has taken and not finished: often while it is young, four times a day when a bank takes its time.
pub(super) fn look_again(execution: &ExecutionRecord, now: Timestamp) -> Timestamp {
    let age = now.since(execution.first_sent_at.unwrap_or(execution.claimed_at));
    now.plus((age / 2).clamp(Duration::from_secs(60), Duration::from_secs(6 * 3600)))
}

/// What came back, and what it amounts to.
fn judge(plan: &Plan<'_>, sent: &Sent, earlier_doubt: bool, now: Timestamp) -> (Settled, AttemptResult) {
    let result = |outcome: &str, conclusive: bool| AttemptResult {
        at: now,
        outcome: outcome.to_owned(),
        conclusive,
        status: None,
        rule: None,
        body_sha256: None,
    };
    let open = |code: &str| Settled::Indeterminate { code: code.to_owned() };
    let answer = match sent {
        Sent::NotSent { why } => {
            tracing::warn!(%why, "the request was not sent");
            return (open(code::NOT_SENT), result("not_sent", true));
        }
        Sent::Lost { why } => {
            tracing::warn!(%why, "the answer was lost; the outcome will be looked up");
            return (open(code::ANSWER_LOST), result("lost", false));
        }
        Sent::Answer(answer) => answer,
    };
    if matches!(answer.status, 401 | 403) {
        tracing::warn!(
            status = answer.status, backend = %plan.document.request.backend,
            "the backend refused the secret for writing: check it and its permissions"
        );
    }
    let Classified { outcome, reference, rule } = plan.operation.classify(&plan.document, answer);
    let with = |conclusive: bool| AttemptResult {
        status: Some(answer.status),
        rule: Some(rule.clone()),
        body_sha256: Some(Digest::of(&answer.body)),
        ..result(outcome.as_str(), conclusive)
    };
    let again = plan
        .operation
        .retry()
        .is_some_and(|retry| retry.after(outcome, answer) == Next::Again);
    match outcome {
        Outcome::Applied => (Settled::Applied { reference }, with(true)),
        Outcome::Pending => (Settled::Pending { reference }, with(true)),
        // A repetition shows what was made under the key, and that it has failed. It has an id, and what is read by that id is proof.
        Outcome::Failed if earlier_doubt && answer.is_success() && plan.operation.shows() && reference.is_some() => {
            (Settled::Pending { reference }, with(true))
        }
        // The refusal is about this attempt. An earlier one may be the very reason for it.
        Outcome::Failed if earlier_doubt => (open(code::REFUSED_AFTER_DOUBT), with(true)),
        Outcome::Failed => (Settled::NotApplied { code: rule.clone() }, with(true)),
        // The file, or the backend itself, says that trying again is no use; then it is over, and certainly nothing was done.
        Outcome::NotExecuted if !earlier_doubt && !again => (Settled::NotApplied { code: rule.clone() }, with(true)),
        Outcome::NotExecuted => (open(code::NOT_EXECUTED), with(true)),
        Outcome::InFlight => (open(code::IN_FLIGHT), with(false)),
        Outcome::Mismatch => (open(code::KEY_MISMATCH), with(false)),
        Outcome::Ambiguous => (open(code::UNPROVEN), with(false)),
    }
}
