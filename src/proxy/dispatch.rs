//! Dispatch: look once more whether what was approved still holds, write the attempt down, then send the stored bytes with the stored key.

use super::{Parts, Plan, PlanError};
use crate::backend::{Credential, Sent};
use crate::domain::digest::Digest;
use crate::domain::draft::{CompiledRequest, IdempotencyKey};
use crate::domain::lifecycle::ExecutionState;
use crate::store::contract::{Abort, AfterAbort, Dispatch};
use crate::store::record::ExecutionRecord;
use crate::store::{Applied, StoreError};

/// The right to send one request once. Only a definite, first `dispatch` makes one, and sending consumes it.
struct Permit {
    request: CompiledRequest,
    key: IdempotencyKey,
}

impl Permit {
    /// A permit for the attempt that was just written down; none if the store only repeated an earlier answer, since then somebody may
    /// have sent it already.
    fn of(applied: &Applied<ExecutionRecord>, plan: &Plan<'_>) -> Option<Self> {
        let fresh = !applied.replayed && applied.value.state == ExecutionState::Dispatched;
        fresh.then(|| Self {
            request: plan.document.request.clone(),
            key: applied.value.key,
        })
    }
}

impl Parts {
    /// Carries a claimed execution to its first send; or gives it up, if what was approved no longer holds.
    pub(super) async fn begin(&self, execution: ExecutionRecord) -> Result<ExecutionRecord, StoreError> {
        let plan = match self.plan(&execution).await {
            Ok(plan) => plan,
            Err(PlanError::AdapterChanged) => return self.abort(&execution, "adapter_changed", AfterAbort::Stale).await,
            Err(PlanError::Store(error)) => return Err(error),
        };
        if let Some(read) = plan.operation.precondition(&plan.document) {
            match self.clients.read(&read, Credential::Read).await {
                Ok(answer) => {
                    if let Err(moved) = plan.operation.precondition_holds(&plan.document, &answer) {
                        tracing::info!(execution.id = %execution.id, why = %moved, "the resource has changed since it was approved; nothing is sent");
                        return self.abort(&execution, "resource_changed", AfterAbort::Stale).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(execution.id = %execution.id, %error, "the precondition could not be read; nothing is sent");
                    return self.abort(&execution, "precondition_unreadable", AfterAbort::Release).await;
                }
            }
        }
        self.send(execution, &plan).await
    }

    /// Writes an attempt down and sends it. After the first line below, every failure means "it may have been sent": the attempt is there
    /// without a result, and only a look-up or the same key again may follow.
    pub(super) async fn send(&self, execution: ExecutionRecord, plan: &Plan<'_>) -> Result<ExecutionRecord, StoreError> {
        let wire = plan.document.request.wire_body(&execution.key);
        let dispatch = Dispatch {
            execution: execution.id,
            fence: execution.fence,
            request_sha256: Digest::of(&wire),
            lease: self.settings.lease,
            send_window: plan.send_window(),
        };
        let applied = self.surely(|op| self.store.dispatch(op, dispatch.clone())).await?;
        let Some(permit) = Permit::of(&applied, plan) else {
            // The answer to the first write was lost and the repetition found it done. Nobody has sent it: the permit was never made. But
            // "nobody" is this process's belief, so it is left to the sweep, which looks before it sends.
            return Ok(applied.value);
        };
        let sent = self.transmit(permit).await;
        self.settle_attempt(applied.value, plan, sent).await
    }

    /// The point of no return.
    async fn transmit(&self, permit: Permit) -> Sent {
        self.clients.send(&permit.request, &permit.key).await
    }

    async fn abort(&self, execution: &ExecutionRecord, code: &str, then: AfterAbort) -> Result<ExecutionRecord, StoreError> {
        let abort = Abort {
            execution: execution.id,
            fence: execution.fence,
            code: code.to_owned(),
            then,
        };
        Ok(self.surely(|op| self.store.abort(op, abort.clone())).await?.value)
    }
}
