//! Sweep: go on with what a dead or slow proxy left, and with what is to be looked at again. A restart is nothing but a sweep.

use super::Proxy;
use crate::domain::lifecycle::ExecutionState;
use crate::store::intent::TakeOver;
use crate::store::record::ExecutionRecord;
use crate::store::{Rejection, StoreError};

impl Proxy {
    /// Carries an execution as far as it goes now: to an outcome, to a person, or to the time it is to be looked at next.
    pub(super) async fn drive(&self, mut execution: ExecutionRecord) {
        let id = execution.id;
        loop {
            let before = execution.state;
            let step = match before {
                ExecutionState::Claimed => self.begin(execution).await,
                ExecutionState::Indeterminate if is_due(&execution, self) => self.reconcile(execution).await,
                ExecutionState::Pending if is_due(&execution, self) => self.follow(execution).await,
                ExecutionState::Applied | ExecutionState::NotApplied | ExecutionState::Aborted | ExecutionState::HandedOff
                    if is_told(&execution, self) =>
                {
                    self.look_because_told(execution).await
                }
                _ => return,
            };
            execution = match step {
                Ok(next) => next,
                // Somebody took over while this one was slow: theirs is the word now, and this one writes nothing more.
                Err(StoreError::Rejected(Rejection::Fenced { .. })) => return,
                // Nothing is sent now. The sweep looks again when the lease runs out; what is written down so far stands.
                Err(StoreError::Paused(why)) => {
                    tracing::warn!(execution.id = %id, %why, "nothing is sent for an execution");
                    return;
                }
                // Its approval was taken back while this one was on the way to sending it: it was given up for us.
                Err(StoreError::Rejected(Rejection::ExecutionIs(ExecutionState::Aborted))) => return,
                Err(error) => {
                    tracing::error!(execution.id = %id, %error, "an execution stopped on the way; the sweep goes on with it when its lease runs out");
                    return;
                }
            };
            if execution.state == before {
                return;
            }
        }
    }

    /// Takes over every execution that is due and starts to carry it on, each in a task of its own: a backend that hangs holds up nobody
    /// else. Gives how many there were.
    ///
    /// # Errors
    /// [`StoreError`] if the store could not say what is due, or did not let one of them be taken over; the others are attended to.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let due = self.store.due(32).await?;
        let mut taken = 0;
        let mut failed = None;
        for execution in due {
            match self.attend(&execution).await {
                Ok(was_free) => taken += usize::from(was_free),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(taken), Err)
    }

    /// Takes the execution over and carries it on in a task of its own; whether it could be taken.
    pub(super) async fn attend(&self, execution: &ExecutionRecord) -> Result<bool, StoreError> {
        let take = TakeOver {
            execution: execution.id,
            fence: execution.fence,
            holder: self.settings.holder.clone(),
            lease: self.settings.lease,
        };
        match self.store.take_over(self.op(None), take).await {
            Ok(applied) => {
                let proxy = self.clone();
                self.tasks.spawn(async move { proxy.drive(applied.value).await });
                Ok(true)
            }
            // Another proxy has it, or was faster.
            Err(StoreError::Rejected(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether it is to be looked at now, by whoever holds the lease; without one the next sweep takes it first.
fn is_due(execution: &ExecutionRecord, proxy: &Proxy) -> bool {
    let now = proxy.clock.now();
    now < execution.lease_until && (execution.next_action_at.is_none_or(|at| at <= now) || is_told(execution, proxy))
}

/// Whether the backend told something because of which it is to be looked at now.
fn is_told(execution: &ExecutionRecord, proxy: &Proxy) -> bool {
    let now = proxy.clock.now();
    now < execution.lease_until && !execution.told(now).is_empty()
}
