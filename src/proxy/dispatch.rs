//! Dispatch: look once more whether what was approved still holds, write the attempt down, then send the stored bytes with the stored key.

use std::time::Duration;

use super::proof::Proof;
use super::{Parts, Plan, PlanError};
use crate::audit::{Actor, EventBody, EventKind, Note, StopPart};
use crate::backend::{Credential, Sent, Stale};
use crate::crash_points::{Point, reached};
use crate::domain::digest::Digest;
use crate::domain::lifecycle::ExecutionState;
use crate::domain::time::Timestamp;
use crate::store::health::TOLERANCE;
use crate::store::intent::{Abort, AfterAbort, Dispatch};
use crate::store::record::ExecutionRecord;
use crate::store::{Applied, Rejection, StoreError};

/// The right to send one request once, while the lease lasts. Only a definite, first `dispatch` makes one, and sending consumes it.
struct Permit {
    proof: Proof,
    from: Timestamp,
    until: Timestamp,
}

/// Whether what was approved still holds.
pub(super) enum Precondition {
    /// It does.
    Holds,
    /// The resource has moved; a stable code.
    Moved(&'static str),
    /// The backend could not say.
    Unreadable,
}

/// What stands on an execution while the backend cannot say whether what was approved still holds.
pub(super) const PRECONDITION_UNREADABLE: &str = "precondition_unreadable";

/// What stands on an execution that somebody said may not be sent; `None` for a refusal that is nobody's word.
pub(super) const fn withdrawn(why: &Rejection) -> Option<&'static str> {
    match why {
        Rejection::Stopped(_) => Some("stopped"),
        Rejection::ApprovalIs(_) => Some("approval_revoked"),
        Rejection::KeyRevoked(_) => Some("record_key_revoked"),
        Rejection::ClientRevoked(_) => Some("client_revoked"),
        _ => None,
    }
}

/// Whether now lies in the time of a permit.
fn holds(from: Timestamp, until: Timestamp, now: Timestamp) -> bool {
    from <= now.plus(TOLERANCE) && now < until
}

/// The event that a request was not sent.
pub(super) fn unsent(execution: &ExecutionRecord, actor: Actor, code: &str) -> EventBody {
    execution.tell(EventBody::new(EventKind::Note(Note::SendDenied), actor).denied(code))
}

impl Permit {
    /// Whether it may still be used. By a clock that was set back since it was given, nobody can tell.
    fn holds(&self, now: Timestamp) -> bool {
        holds(self.from, self.until, now)
    }

    /// A permit for the attempt that was just written down; none if the store only repeated an earlier answer, since then somebody may
    /// have sent it already.
    ///
    /// It ends a whole time-out before the lease, so that what is sent under it has ended when somebody else may take over.
    fn of(applied: &Applied<ExecutionRecord>, proof: Proof, plan: &Plan<'_>, lease: Duration) -> Option<Self> {
        let fresh = !applied.replayed && applied.value.state == ExecutionState::Dispatched;
        fresh.then(|| Self {
            proof,
            from: applied.value.lease_until.minus(lease),
            until: applied.value.lease_until.minus(plan.operation.backend().total_timeout()),
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
        // Before anything else: to give up is to say that nothing was sent.
        let proof = match self.prove(&execution, &plan).await {
            Ok(proof) => proof,
            Err(why) => return self.unproven(&execution, why).await,
        };
        match self.precondition(&plan).await {
            Precondition::Holds => {}
            Precondition::Moved(code) => return self.abort(&execution, code, AfterAbort::Stale).await,
            // Nothing is known to have moved: the draft may be exchanged again.
            Precondition::Unreadable => return self.abort(&execution, PRECONDITION_UNREADABLE, AfterAbort::Release).await,
        }
        reached(Point::PreconditionRead);
        let id = execution.id;
        let claimed = execution.clone();
        match self.send(execution, &plan, proof).await {
            // Claimed in time and not sent in time, because whoever claimed it died or was slow. The approval no longer covers a first send;
            // kept as a claim, it would block its resource for ever.
            Err(StoreError::Rejected(over @ (Rejection::WindowExpired(_) | Rejection::DraftExpired(_)))) => {
                tracing::warn!(execution.id = %id, why = %over, "the time for the first send is over; nothing is sent");
                self.abort(&claimed, "execution_window_over", AfterAbort::Release).await
            }
            // Kept as a claim it would be sent the moment the stop is lifted, however long that takes. Given up, it is approved again, and
            // whoever still wants it then exchanges again, which looks at everything anew.
            Err(StoreError::Rejected(why)) => match withdrawn(&why) {
                Some(code) => {
                    self.note_unsent(&claimed, &why, code).await;
                    self.abort(&claimed, code, AfterAbort::Release).await
                }
                None => Err(why.into()),
            },
            other => other,
        }
    }

    /// Reads the resource once more and compares it with what was approved.
    pub(super) async fn precondition(&self, plan: &Plan<'_>) -> Precondition {
        let Some(read) = plan.operation.precondition(&plan.document) else {
            return Precondition::Holds;
        };
        let answer = match self.clients.read(&read, Credential::Read).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(draft.id = %plan.document.id, %error, "the precondition could not be read; nothing is sent");
                return Precondition::Unreadable;
            }
        };
        match plan.operation.precondition_holds(&plan.document, &answer) {
            Ok(()) => Precondition::Holds,
            Err(why) => {
                tracing::warn!(draft.id = %plan.document.id, %why, "what was approved could not be shown to hold; nothing is sent");
                match why {
                    Stale::Unknown(_) => Precondition::Unreadable,
                    Stale::Changed { .. } | Stale::Contradicted(_) => Precondition::Moved("resource_changed"),
                }
            }
        }
    }

    /// Writes an attempt down and sends what the log was shown to tell of. After the first answer below, every failure means "it may have been
    /// sent": the attempt is there without a result, and only a look-up or the same key again may follow.
    pub(super) async fn send(&self, execution: ExecutionRecord, plan: &Plan<'_>, proof: Proof) -> Result<ExecutionRecord, StoreError> {
        let wire = proof.request().wire_body(proof.key());
        let dispatch = Dispatch {
            execution: execution.id,
            fence: execution.fence,
            request_sha256: Digest::of(&wire),
            secrets: plan.secrets,
            lease: self.settings.lease,
            send_window: plan.send_window(),
        };
        let applied = self.surely(|op| self.store.dispatch(op, dispatch.clone())).await?;
        let Some(permit) = Permit::of(&applied, proof, plan, self.settings.lease) else {
            // The answer to the first write was lost and the repetition found it done. Nobody has sent it: the permit was never made. But
            // "nobody" is this process's belief, so it is left to the sweep, which looks before it sends.
            return Ok(applied.value);
        };
        reached(Point::DispatchPermitted);
        let sent = self.transmit(permit).await;
        self.settle_attempt(applied.value, plan, sent).await
    }

    /// The point of no return.
    async fn transmit(&self, permit: Permit) -> Sent {
        // A machine that slept between the line in the store and this one wakes up in another time: somebody else may have sent the request,
        // looked it up and closed it, and the backend may have forgotten the key.
        if !permit.holds(self.clock.now()) {
            let why = "the lease ran out, or the clock was set back, before the request was sent".to_owned();
            return Sent::NotSent { why };
        }
        self.clients.send(permit.proof.request(), permit.proof.key()).await
    }

    /// Writes down that a request was not sent, and what stood in the way.
    pub(super) async fn note_unsent(&self, execution: &ExecutionRecord, why: &Rejection, code: &str) {
        tracing::warn!(execution.id = %execution.id, %why, "a request was not sent");
        let stop = match why {
            Rejection::Stopped(stop) => Some(StopPart::named(*stop)),
            _ => None,
        };
        let event = EventBody {
            stop,
            ..unsent(execution, self.actor(), code)
        };
        if let Err(error) = self.store.note(self.op(None), event).await {
            tracing::error!(execution.id = %execution.id, %error, "a denial could not be written to the audit log");
        }
    }

    pub(super) async fn abort(&self, execution: &ExecutionRecord, code: &str, then: AfterAbort) -> Result<ExecutionRecord, StoreError> {
        let abort = Abort {
            execution: execution.id,
            fence: execution.fence,
            code: code.to_owned(),
            then,
        };
        Ok(self.surely(|op| self.store.abort(op, abort.clone())).await?.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_ends_with_the_lease_it_was_given_under() {
        let (from, until) = (Timestamp::from_millis(0), Timestamp::from_millis(60_000));
        let holds = |now| holds(from, until, Timestamp::from_millis(now));
        assert!(holds(59_999));
        assert!(!holds(60_000), "from here on somebody else may have it");
        assert!(holds(-2_000));
        assert!(!holds(-2_001), "the clock was set back, and how much time went by is not known");
    }
}
