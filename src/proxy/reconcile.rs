//! Reconcile: an outcome nobody knows is looked up, in the order the backend's file gives; the same key goes again only where the file says the
//! backend's replay is safe and only inside the window; what cannot be found out goes to a person.

use std::time::Duration;

use super::dispatch::{PRECONDITION_UNREADABLE, Precondition, withdrawn};
use super::handoff::Reason;
use super::settle::{code, look_again};
use super::{Parts, Plan, PlanError};
use crate::backend::{Answer, Classified, Credential, Finding, Outcome, Proof, ReadError, Step};
use crate::crash_points::{Point, reached};
use crate::domain::digest::Digest;
use crate::domain::draft::KeyPlacement;
use crate::domain::lifecycle::ExecutionState;
use crate::store::health::TOLERANCE;
use crate::store::intent::{HandOff, LookUp, Settled};
use crate::store::record::{EventFinding, ExecutionRecord, LookUpRecord};
use crate::store::{Rejection, StoreError};

/// How long what the backend calls pending is followed before a person must ask there.
const PENDING_PATIENCE: Duration = Duration::from_secs(30 * 86_400);

/// What a look-up finds when the thing is not there; by itself it proves nothing.
const ABSENT: &str = "absent";

/// A first send that lies further in the future than this is taken for the work of a wrong clock.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

fn unreadable(error: &ReadError) -> Finding {
    Finding::Inconclusive { why: error.to_string() }
}

/// Whether the backend calls by another id what it has named before: then one of the two is not ours.
fn is_another(execution: &ExecutionRecord, finding: &Finding) -> bool {
    let Finding::Found(Classified {
        reference: Some(found), ..
    }) = finding
    else {
        return false;
    };
    execution.reference.as_ref().is_some_and(|known| known != found)
}

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
        match self.precondition(plan).await {
            Precondition::Holds => {}
            Precondition::Moved(code) => return self.never_applied(&execution, plan, code).await,
            Precondition::Unreadable => {
                let open = Settled::Indeterminate {
                    code: PRECONDITION_UNREADABLE.to_owned(),
                };
                return self.found(&execution, Some(plan), "precondition", open, None).await;
            }
        }
        let unsent = execution.clone();
        match self.send(execution, plan).await {
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
        let unsent = execution.clone();
        match self.send(execution, plan).await {
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
        self.found(execution, Some(plan), "send", open, None).await
    }

    /// Nothing that was sent was executed, and nothing more will be sent.
    async fn never_applied(&self, execution: &ExecutionRecord, plan: &Plan<'_>, code: &str) -> Result<ExecutionRecord, StoreError> {
        let settled = Settled::NotApplied { code: code.to_owned() };
        self.found(execution, Some(plan), LookUpRecord::BY_ATTEMPTS, settled, None).await
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
                return self.found(&execution, None, Reason::AdapterChanged.as_str(), open, None).await;
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

    /// Takes the look-up steps in their order until one changes something, or answers all that was told. Nothing is sent.
    async fn look_only(&self, execution: ExecutionRecord, plan: &Plan<'_>) -> Result<ExecutionRecord, StoreError> {
        let state = execution.state;
        // Each step of the round may answer them: one that decides nothing only puts them off.
        let told = execution.told(self.clock.now());
        let mut current = execution;
        // Where nothing can be read, the backend tells by itself or a person asks there. That it was thought of is written down, with the next time.
        let is_blind = |step: &Step| step.is_replay() || !step.applies(current.reference.as_deref());
        if plan.operation.reconcile().iter().all(is_blind) {
            let open = Settled::Indeterminate {
                code: "nothing_to_read".to_owned(),
            };
            return self.found(&current, Some(plan), "nothing to read", open, None).await;
        }
        for step in plan.operation.reconcile().iter().filter(|step| !step.is_replay()) {
            if !step.applies(current.reference.as_deref()) {
                continue;
            }
            // What is over is looked at only while something was told that is not answered yet.
            let waits = current
                .events
                .iter()
                .any(|event| event.look_at.is_some() && told.contains(&event.id));
            if matches!(
                state,
                ExecutionState::Applied | ExecutionState::NotApplied | ExecutionState::Aborted
            ) && !waits
            {
                break;
            }
            current = self.look(current, plan, step, told.clone()).await?;
            if current.state != state {
                break;
            }
        }
        Ok(current)
    }

    /// One look-up step, through all its pages.
    async fn look(
        &self,
        execution: ExecutionRecord,
        plan: &Plan<'_>,
        step: &Step,
        told: Vec<String>,
    ) -> Result<ExecutionRecord, StoreError> {
        let mut answers = Vec::new();
        let mut page = plan
            .operation
            .look_up(step, &plan.document, &execution.key, execution.reference.as_deref());
        let finding = loop {
            let Some(read) = page.take() else {
                break Finding::Inconclusive {
                    why: "nothing to read".to_owned(),
                };
            };
            // A look that outlasts the lease would be taken over, and written down by nobody.
            let slowest = plan.operation.backend().total_timeout();
            if !answers.is_empty() && self.clock.now().plus(slowest) >= execution.lease_until {
                break Finding::Inconclusive {
                    why: "the list is longer than can be read under one lease".to_owned(),
                };
            }
            match self.clients.read(&read, Credential::Read).await {
                Ok(answer) => answers.push(answer),
                Err(error) => break unreadable(&error),
            }
            match plan.operation.evaluate(step, &plan.document, &execution.key, &answers) {
                Finding::More(next) => page = Some(next),
                finding => break finding,
            }
        };
        reached(Point::LookUpRead);
        let is_another = is_another(&execution, &finding);
        let inconclusive = || Settled::Indeterminate {
            code: "look_up_inconclusive".to_owned(),
        };
        let settled = match finding {
            _ if is_another => inconclusive(),
            Finding::Found(Classified {
                outcome: Outcome::Applied,
                reference,
                ..
            }) => Settled::Applied { reference },
            Finding::Found(Classified {
                outcome: Outcome::Pending,
                reference,
                ..
            }) => Settled::Pending { reference },
            // What was made with our key exists and has failed: that is proof, unlike a refusal.
            Finding::Found(Classified {
                outcome: Outcome::Failed,
                rule,
                ..
            }) => Settled::NotApplied { code: rule },
            // What the backend has said it took is not undone by a list that does not show it.
            Finding::Absent { proof: Some(proof) }
                if execution.state == ExecutionState::Indeterminate
                    && execution.sent_otherwise(plan.secrets).is_none()
                    && self.absence_proven(&execution, step, proof) =>
            {
                Settled::NotApplied {
                    code: "absence_proven".to_owned(),
                }
            }
            Finding::Absent { .. } => Settled::Indeterminate { code: ABSENT.to_owned() },
            Finding::Inconclusive { why } => {
                tracing::warn!(execution.id = %execution.id, why, "a look-up decided nothing");
                inconclusive()
            }
            Finding::Found(_) | Finding::More(_) => inconclusive(),
        };
        let looked = self
            .found_of(&execution, Some(plan), step.name(), settled, answers.last(), told)
            .await?;
        if is_another && matches!(looked.state, ExecutionState::Indeterminate | ExecutionState::Pending) {
            return self.hand_off(&looked, Reason::OtherReference).await;
        }
        Ok(looked)
    }

    /// Whether "it is not there" has been said often enough, late enough after the last send can have ended, for the backend's file to call
    /// it proof.
    fn absence_proven(&self, execution: &ExecutionRecord, step: &Step, proof: Proof) -> bool {
        // Whoever sent last may have been stopped for a while between writing the attempt down and sending it, but not past its lease.
        let last = execution.attempts.last().map(|a| a.sent_at.plus(self.settings.lease));
        let Some(settled) = last.map(|ended| ended.plus(proof.settle)) else {
            return false;
        };
        let before = execution
            .lookups
            .iter()
            .filter(|l| l.step == step.name() && l.finding == ABSENT && l.at >= settled)
            .count();
        self.clock.now() >= settled && before + 1 >= proof.repeats as usize
    }

    /// Writes down what was found out without asking the backend.
    async fn found(
        &self,
        execution: &ExecutionRecord,
        plan: Option<&Plan<'_>>,
        step: &str,
        settled: Settled,
        answer: Option<&Answer>,
    ) -> Result<ExecutionRecord, StoreError> {
        let told = execution.told(self.clock.now());
        self.found_of(execution, plan, step, settled, answer, told).await
    }

    /// Writes down what a look showed, as the answer to what was `told` when it began.
    async fn found_of(
        &self,
        execution: &ExecutionRecord,
        plan: Option<&Plan<'_>>,
        step: &str,
        settled: Settled,
        answer: Option<&Answer>,
        told: Vec<String>,
    ) -> Result<ExecutionRecord, StoreError> {
        let now = self.clock.now();
        let finding = match &settled {
            Settled::Applied { .. } => "applied",
            Settled::Pending { .. } => "pending",
            Settled::NotApplied { .. } => "not_applied",
            Settled::Indeterminate { code } if code == ABSENT => ABSENT,
            Settled::Indeterminate { .. } => "inconclusive",
        };
        let tries = execution.attempts.len() + execution.lookups.len();
        let next_action_at = match &settled {
            Settled::Applied { .. } | Settled::NotApplied { .. } => None,
            Settled::Pending { .. } => Some(look_again(execution, now)),
            Settled::Indeterminate { .. } if execution.state == ExecutionState::Pending => Some(look_again(execution, now)),
            // Looked at only because of what the backend told, and that has a time of its own.
            Settled::Indeterminate { .. } if execution.state != ExecutionState::Indeterminate => None,
            Settled::Indeterminate { .. } => plan.map(|plan| now.plus(self.pause(plan, tries, answer))),
        };
        let result = LookUpRecord {
            at: now,
            step: step.to_owned(),
            finding: finding.to_owned(),
            status: answer.map(|a| a.status),
            body_sha256: answer.map(|a| Digest::of(&a.body)),
        };
        let look_up = LookUp {
            execution: execution.id,
            fence: execution.fence,
            settled,
            result,
            next_action_at,
            events: told,
        };
        Ok(self.surely(|op| self.store.look_up(op, look_up.clone())).await?.value)
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

    async fn hand_off(&self, execution: &ExecutionRecord, why: Reason) -> Result<ExecutionRecord, StoreError> {
        tracing::warn!(execution.id = %execution.id, draft.id = %execution.draft, why = why.as_str(), "the outcome cannot be found out; a person must");
        let hand_off = HandOff {
            execution: execution.id,
            fence: execution.fence,
            code: why.as_str().to_owned(),
        };
        Ok(self.surely(|op| self.store.hand_off(op, hand_off.clone())).await?.value)
    }
}
