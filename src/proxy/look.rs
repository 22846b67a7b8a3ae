//! Look: what the backend shows of what was sent, read step by step and written down. Nothing is ever sent for it.

use super::handoff::Reason;
use super::settle::look_again;
use super::{Parts, Plan};
use crate::backend::{Answer, Classified, Credential, Finding, Outcome, Proof, ReadError, Step};
use crate::crash_points::{Point, reached};
use crate::domain::digest::Digest;
use crate::domain::lifecycle::ExecutionState;
use crate::store::StoreError;
use crate::store::intent::{LookUp, Settled};
use crate::store::record::{ExecutionRecord, LookUpRecord};

/// What a look-up finds when the thing is not there; by itself it proves nothing.
pub(super) const ABSENT: &str = "absent";

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
    /// Takes the look-up steps in their order until one changes something, or answers all that was told. Nothing is sent.
    pub(super) async fn look_only(&self, execution: ExecutionRecord, plan: &Plan<'_>) -> Result<ExecutionRecord, StoreError> {
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
            return self.found(&current, Some(plan), "nothing to read", open).await;
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
    pub(super) async fn look(
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
    pub(super) async fn found(
        &self,
        execution: &ExecutionRecord,
        plan: Option<&Plan<'_>>,
        step: &str,
        settled: Settled,
    ) -> Result<ExecutionRecord, StoreError> {
        let told = execution.told(self.clock.now());
        self.found_of(execution, plan, step, settled, None, told).await
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
}
