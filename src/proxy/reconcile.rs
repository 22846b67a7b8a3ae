//! Reconcile: an outcome nobody knows is looked up, in the order the backend's file gives; the same key goes again only where the file says the
//! backend's replay is safe and only inside the window; what cannot be found out goes to a person.

use std::time::Duration;

use super::dispatch::{PRECONDITION_UNREADABLE, Precondition, withdrawn};
use super::handoff::Reason;
use super::look::ABSENT;
use super::settle::code;
use super::{Parts, Plan, PlanError};
use crate::domain::draft::KeyPlacement;
use crate::domain::lifecycle::ExecutionState;
use crate::store::health::TOLERANCE;
use crate::store::intent::{HandOff, Settled};
use crate::store::record::{EventFinding, ExecutionRecord, LookUpRecord};
use crate::store::{Rejection, StoreError};

/// How long what the backend calls pending is followed before a person must ask there.
const PENDING_PATIENCE: Duration = Duration::from_secs(30 * 86_400);

/// A first send that lies further in the future than this is taken for the work of a wrong clock.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

impl Parts {
    /// One round of finding out. Ends in a known outcome, in a person's hands, or with a time to look again.
    pub(super) async fn reconcile(&self, execution: ExecutionRecord) -> Result<ExecutionRecord, StoreError> {
        let plan = match self.plan(&execution).await {
            Ok(plan) => plan,
            // Other rules than those it was sent under could misread the answer: only a person may judge.
            Err(PlanError::AdapterChanged) => return self.hand_off(&execution, Reason::AdapterChanged).await,
            Err(PlanError::Store(error)) => return Err(error),
        };
        if execution.code.as_deref() == Some(code::KEY_MISMATCH) {
            return self.hand_off(&execution, Reason::KeyMismatch).await;
        }
        if !execution.is_ambiguous() {
            // Every attempt certainly had no effect: this is still the first send that counts, and all that was to hold before it must hold.
            return if self.may_send(&execution, &plan) {
                self.begin_again(execution, &plan).await
            } else {
                self.never_applied(&execution, &plan, "never_executed").await
            };
        }
        let mut current = execution;
        // The same request goes again only after a look that says "not there". One that could not be read, or that shows something nobody
        // understands, is no reason to send: at a backend that forgets keys that would be a second effect.
        let mut blind = false;
        for step in plan.operation.reconcile() {
            if !step.applies(current.reference.as_deref()) {
                continue;
            }
            if step.is_replay() {
                if !blind && self.may_send(&current, &plan) {
                    return self.repeat(current, &plan).await;
                }
                continue;
            }
            let told = current.told(self.clock.now());
            current = self.look(current, &plan, step, told).await?;
            if current.state != ExecutionState::Indeterminate {
                return Ok(current);
            }
            blind |= current.lookups.last().is_none_or(|look| look.finding != ABSENT);
        }
        if self.gave_up(&current, &plan) {
            return self.hand_off(&current, Reason::Unresolved).await;
        }
        // The looks were read and showed nothing, which proves nothing under other secrets, and nothing may be sent under them.
        if !blind && current.sent_otherwise(plan.secrets).is_some() {
            return self.hand_off(&current, Reason::SecretsChanged).await;
        }
        Ok(current)
    }

    /// Sends once more what was certainly never executed, if what was approved still holds.
    async fn begin_again(&self, execution: ExecutionRecord, plan: &Plan<'_>) -> Result<ExecutionRecord, StoreError> {
        let proof = match self.prove(&execution, plan).await {
            Ok(proof) => proof,
            Err(why) => return self.unproven(&execution, why).await,
        };
        match self.precondition(plan).await {
            Precondition::Holds => {}
            Precondition::Moved(code) => return self.never_applied(&execution, plan, code).await,
            Precondition::Unreadable => {
                let open = Settled::Indeterminate {
                    code: PRECONDITION_UNREADABLE.to_owned(),
                };
                return self.found(&execution, Some(plan), "precondition", open).await;
            }
        }
        let unsent = execution.clone();
        match self.send(execution, plan, proof).await {
            Err(StoreError::Rejected(Rejection::WindowExpired(_) | Rejection::DraftExpired(_))) => {
                self.never_applied(&unsent, plan, "execution_window_over").await
            }
            // A stop may be lifted; nothing else of this comes back.
            Err(StoreError::Rejected(stopped @ Rejection::Stopped(_))) => self.wait_out(&unsent, plan, stopped).await,
            Err(StoreError::Rejected(why)) => match withdrawn(&why) {
                Some(code) => {
                    self.note_unsent(&unsent, &why, code).await;
                    self.never_applied(&unsent, plan, code).await
                }
                None => Err(why.into()),
            },
            other => other,
        }
    }

    /// Sends once more what may have been executed, which finds out: unless somebody has said that it may not be sent. Then it is only looked up.
    async fn repeat(&self, execution: ExecutionRecord, plan: &Plan<'_>) -> Result<ExecutionRecord, StoreError> {
        let proof = match self.prove(&execution, plan).await {
            Ok(proof) => proof,
            Err(why) => return self.unproven(&execution, why).await,
        };
        let unsent = execution.clone();
        match self.send(execution, plan, proof).await {
            Err(StoreError::Rejected(why)) => self.wait_out(&unsent, plan, why).await,
            other => other,
        }
    }

    /// Leaves the outcome open, to be looked at again later, if somebody has said that it may not be sent.
    async fn wait_out(&self, execution: &ExecutionRecord, plan: &Plan<'_>, why: Rejection) -> Result<ExecutionRecord, StoreError> {
        let Some(code) = withdrawn(&why) else {
            return Err(why.into());
        };
        self.note_unsent(execution, &why, code).await;
        let open = Settled::Indeterminate { code: code.to_owned() };
        self.found(execution, Some(plan), "send", open).await
    }

    /// Nothing that was sent was executed, and nothing more will be sent.
    async fn never_applied(&self, execution: &ExecutionRecord, plan: &Plan<'_>, code: &str) -> Result<ExecutionRecord, StoreError> {
        let settled = Settled::NotApplied { code: code.to_owned() };
        self.found(execution, Some(plan), LookUpRecord::BY_ATTEMPTS, settled).await
    }

    /// One look at what the backend took and had not finished. Nothing is ever sent for it.
    pub(super) async fn follow(&self, execution: ExecutionRecord) -> Result<ExecutionRecord, StoreError> {
        let plan = match self.plan(&execution).await {
            Ok(plan) => plan,
            Err(PlanError::AdapterChanged) => return self.hand_off(&execution, Reason::AdapterChanged).await,
            Err(PlanError::Store(error)) => return Err(error),
        };
        let current = self.look_only(execution, &plan).await?;
        let first = current.first_sent_at.unwrap_or(current.claimed_at);
        if current.state == ExecutionState::Pending && self.clock.now() >= first.plus(PENDING_PATIENCE) {
            return self.hand_off(&current, Reason::PendingTooLong).await;
        }
        Ok(current)
    }

    /// One look because of what the backend told by itself, at an execution that is over or in a person's hands.
    pub(super) async fn look_because_told(&self, execution: ExecutionRecord) -> Result<ExecutionRecord, StoreError> {
        let plan = match self.plan(&execution).await {
            Ok(plan) => plan,
            // The event was judged under the file that made the draft, so it has changed since: nothing can be read, and the event stays.
            Err(PlanError::AdapterChanged) => {
                tracing::error!(execution.id = %execution.id, "the backend told something and its file has changed: a person must look there");
                let open = Settled::Indeterminate {
                    code: Reason::AdapterChanged.as_str().to_owned(),
                };
                return self.found(&execution, None, Reason::AdapterChanged.as_str(), open).await;
            }
            Err(PlanError::Store(error)) => return Err(error),
        };
        let looked = self.look_only(execution, &plan).await?;
        if looked.events.iter().any(|event| event.finding == EventFinding::Contradicts) {
            tracing::error!(
                execution.id = %looked.id, draft.id = %looked.draft, state = %looked.state,
                "the backend shows as done what is known as not done: a person must look there"
            );
        }
        Ok(looked)
    }

    /// Whether another attempt with the same key may be sent. The store asks again about the window in the step that writes it down.
    fn may_send(&self, execution: &ExecutionRecord, plan: &Plan<'_>) -> bool {
        let recognised = plan.document.request.idempotency_key != KeyPlacement::None;
        let attempts_left = plan
            .operation
            .retry()
            .is_some_and(|retry| execution.attempts.len() < retry.attempts() as usize);
        let now = self.clock.now();
        // A window that begins in the future was opened by a clock that was wrong: how much of it is left is not known.
        let has_begun = execution.first_sent_at.is_none_or(|at| at <= now.plus(TOLERANCE));
        let in_window = has_begun && execution.send_until.is_none_or(|until| now < until);
        // The key is known only to whoever it was sent to: another secret may be another account's.
        let same_secrets = execution.sent_otherwise(plan.secrets).is_none();
        recognised && attempts_left && same_secrets && in_window && !self.gave_up(execution, plan)
    }

    fn gave_up(&self, execution: &ExecutionRecord, plan: &Plan<'_>) -> bool {
        let first = execution.first_sent_at.unwrap_or(execution.claimed_at);
        // Sent by a clock that was far ahead and has been corrected since: the time to give up would never come.
        let is_ahead = first > self.clock.now().plus(FAR);
        plan.operation
            .retry()
            .is_none_or(|retry| self.clock.now() >= first.plus(retry.give_up()) || is_ahead)
    }

    pub(super) async fn hand_off(&self, execution: &ExecutionRecord, why: Reason) -> Result<ExecutionRecord, StoreError> {
        tracing::warn!(execution.id = %execution.id, draft.id = %execution.draft, why = why.as_str(), "the outcome cannot be found out; a person must");
        let hand_off = HandOff {
            execution: execution.id,
            fence: execution.fence,
            code: why.as_str().to_owned(),
        };
        Ok(self.surely(|op| self.store.hand_off(op, hand_off.clone())).await?.value)
    }
}
