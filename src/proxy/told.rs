//! Told: what a backend says by itself, signed. An event is a hint: it counts once it agrees with the draft, and then it makes the proxy look at the
//! backend; only where nothing can be looked up does its own word count.

use http::HeaderMap;

use super::{PlanError, Proxy};
use crate::audit::{Actor, ActorKind, EventBody, EventKind, Note};
use crate::backend::{self, BackendEvent, Classified, Marks, Operation, Outcome, Trust};
use crate::domain::id::RequestId;
use crate::domain::lifecycle::ExecutionState;
use crate::domain::name::BackendName;
use crate::store::intent::{About, EventMarks, Receive, Weight};
use crate::store::record::{EventFinding, ExecutionRecord, Said};
use crate::store::{Op, Rejection, StoreError};

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The backend's own id of it.
    pub event: String,
    /// What was made of it; `None` if its type is nothing the backend's file knows, or what was signed reads in more than one way.
    pub finding: Option<EventFinding>,
    /// Whether it had come before.
    pub again: bool,
}

/// Who brought an event that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// Nobody who could sign it.
    Stranger,
    /// The backend, or somebody who repeats its words.
    Backend,
}

/// Why an event was not taken. The backend delivers it again.
#[derive(Debug, thiserror::Error)]
pub enum EventDenied {
    /// No backend of this name sends events here.
    #[error("no backend of this name sends events here")]
    NotDeclared,
    /// The signature, the time or the form is wrong.
    #[error(transparent)]
    Refused(backend::EventError),
    /// The id came before with other content.
    #[error("an event with this id came before with other content")]
    Reused,
    /// The answer to the request it is about is not recorded yet, and the event's own word would overtake it.
    #[error("the request it is about is still under way; deliver it again")]
    TooEarly,
    /// The store did not take it.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for EventDenied {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(Rejection::EventReused(_)) => Self::Reused,
            StoreError::Rejected(Rejection::ExecutionIs(_)) => Self::TooEarly,
            other => Self::Store(other),
        }
    }
}

impl Proxy {
    /// Takes an event of a backend's: it is on disk when this returns, and what follows from it goes on by itself.
    ///
    /// # Errors
    /// [`EventDenied`]; nothing was changed. Whoever calls says with [`Proxy::note_event_denied`] whether it is written down.
    pub async fn take_event(&self, backend: &str, headers: &HeaderMap, body: &[u8], request: RequestId) -> Result<Taken, EventDenied> {
        let declared = backend.parse().ok().and_then(|name| self.backends.backend(&name));
        let declared = declared
            .filter(|declared| declared.sends_events())
            .ok_or(EventDenied::NotDeclared)?;
        let signature = declared.event_header().and_then(|header| {
            let mut values = headers.get_all(header).iter();
            // Two headers are as good as none: which of them was signed is anybody's guess.
            match (values.next(), values.next()) {
                (Some(value), None) => value.to_str().ok(),
                _ => None,
            }
        });
        self.take(declared.name(), signature, body, request).await
    }

    /// By whom a refused event came, as far as its signature says; `None` where nothing was refused.
    #[must_use]
    pub fn teller(&self, backend: &str, denied: &EventDenied) -> Option<Teller> {
        let declared = backend.parse().ok().and_then(|name| self.backends.backend(&name));
        match denied {
            EventDenied::Refused(backend::EventError::SignatureMissing(_) | backend::EventError::SignatureInvalid) => {
                Some(Teller::Stranger)
            }
            // Where the signature is within the event, what cannot be read was not verified.
            EventDenied::Refused(backend::EventError::Malformed(_)) if declared.is_none_or(|d| d.event_header().is_none()) => {
                Some(Teller::Stranger)
            }
            EventDenied::Refused(backend::EventError::Time(_) | backend::EventError::Malformed(_)) | EventDenied::Reused => {
                Some(Teller::Backend)
            }
            EventDenied::Refused(backend::EventError::NotDeclared)
            | EventDenied::NotDeclared
            | EventDenied::TooEarly
            | EventDenied::Store(_) => None,
        }
    }

    /// Writes down that an event was refused, where something was.
    pub async fn note_event_denied(&self, backend: &str, denied: &EventDenied, request: RequestId) {
        let (Some(code), Ok(name)) = (denied.denial(), backend.parse::<BackendName>()) else {
            return;
        };
        tracing::warn!(backend = %name, error = %denied, "an event was refused");
        let event = EventBody {
            subject: Some(name.to_string()),
            ..EventBody::new(
                EventKind::Note(Note::BackendEventDenied),
                Actor::new(ActorKind::Anonymous, "webhook"),
            )
            .denied(code)
        };
        // Refused either way; that it could not be written down is in the log.
        drop(self.note(request, event).await);
    }

    async fn take(&self, backend: &BackendName, signature: Option<&str>, body: &[u8], request: RequestId) -> Result<Taken, EventDenied> {
        let client = self.clients.of(backend).ok_or(EventDenied::NotDeclared)?;
        let event = client.open_event(signature, body, self.clock.now()).map_err(|error| match error {
            backend::EventError::NotDeclared => EventDenied::NotDeclared,
            other => EventDenied::Refused(other),
        })?;
        let Some(kind) = event
            .kind
            .clone()
            .filter(|kind| self.backends.told_by(backend, kind).next().is_some())
        else {
            tracing::info!(%backend, event = event.id, kind = event.kind, "an event that means nothing here");
            return Ok(Taken {
                event: event.id,
                finding: None,
                again: false,
            });
        };
        let about = self.about(backend, &kind, &event).await?;
        let receive = Receive {
            backend: backend.clone(),
            event: event.id.clone(),
            kind,
            content: event.sha256,
            about,
        };
        let op = Op {
            actor: Actor::system(&format!("backend:{backend}")),
            ..self.op(Some(request))
        };
        let execution = match &receive.about {
            About::Execution { execution, .. } => Some(*execution),
            About::Nothing { .. } => None,
        };
        let received = self.store.receive(op, receive).await?.value;
        tracing::info!(%backend, event = event.id, finding = received.finding.as_str(), "an event was taken");
        if let (EventFinding::Waits, Some(id)) = (received.finding, execution) {
            // It is on disk: if it cannot be attended to now, the sweep does it.
            let attended = match self.store.execution(id).await {
                Ok(Some(execution)) if execution.state != ExecutionState::Claimed => self.attend(&execution).await.map(drop),
                other => other.map(drop),
            };
            if let Err(error) = attended {
                tracing::warn!(execution.id = %id, event = event.id, %error, "an event could not be attended to at once; the sweep does it");
            }
        }
        Ok(Taken {
            event: event.id,
            finding: Some(received.finding),
            again: !received.first,
        })
    }

    /// What the event is about. It must name an execution by every mark it bears, and say of target, amount and currency what the draft says.
    async fn about(&self, backend: &BackendName, kind: &str, event: &BackendEvent) -> Result<About, StoreError> {
        let mut finding = EventFinding::NotOurs;
        for operation in self.backends.told_by(backend, kind) {
            let marks = operation.marks(event);
            let draft = marks.draft.as_ref().and_then(|text| text.parse().ok());
            let wanted = EventMarks {
                backend: backend.clone(),
                draft,
                key: marks.key.clone(),
                reference: marks.reference.clone(),
            };
            match self.store.marked(wanted).await? {
                Some(execution) if execution.operation == *operation.name() => {
                    return self.judge(operation, &execution, &marks, event).await;
                }
                Some(_) => finding = EventFinding::Disagrees,
                None => {
                    if let Some(id) = draft
                        && self.store.draft(id).await?.is_some()
                    {
                        finding = EventFinding::NotExecuted;
                    }
                }
            }
        }
        if finding != EventFinding::NotOurs {
            tracing::error!(%backend, event = event.id, finding = finding.as_str(), "an event names a draft that it cannot be about");
        }
        Ok(About::Nothing { finding, execution: None })
    }

    async fn judge(
        &self,
        operation: &Operation,
        execution: &ExecutionRecord,
        marks: &Marks,
        event: &BackendEvent,
    ) -> Result<About, StoreError> {
        let nothing = |finding| About::Nothing {
            finding,
            execution: Some(execution.id),
        };
        let same = |mark: Option<&String>, known: &str| mark.is_none_or(|mark| mark == known);
        let is_named = execution.backend == *operation.backend().name()
            && same(marks.draft.as_ref(), &execution.draft.to_string())
            && same(marks.key.as_ref(), &execution.key.to_string())
            && execution
                .reference
                .as_ref()
                .is_none_or(|known| same(marks.reference.as_ref(), known));
        if !is_named {
            tracing::error!(execution.id = %execution.id, event = event.id, "an event bears this execution's mark beside another's");
            return Ok(nothing(EventFinding::Disagrees));
        }
        let plan = match self.plan(execution).await {
            Ok(plan) => plan,
            Err(PlanError::AdapterChanged) => {
                tracing::error!(
                    execution.id = %execution.id, event = event.id,
                    "an event cannot be judged, since the backend's file has changed: a person must look there"
                );
                return Ok(nothing(EventFinding::AdapterChanged));
            }
            Err(PlanError::Store(error)) => return Err(error),
        };
        let Classified { outcome, reference, rule } = operation.told(&plan.document, &execution.key, event);
        let said = match outcome {
            Outcome::Applied => Said::Applied,
            Outcome::Pending => Said::Pending,
            Outcome::Failed => Said::Failed,
            _ => {
                tracing::error!(execution.id = %execution.id, event = event.id, rule, "an event does not say what the draft says");
                return Ok(nothing(EventFinding::Disagrees));
            }
        };
        Ok(About::Execution {
            execution: execution.id,
            said,
            reference,
            rule,
            weight: match operation.trust_in_events() {
                Some(Trust::Event) => Weight::Word,
                Some(Trust::LookUp) | None => Weight::Look,
            },
        })
    }
}

impl EventDenied {
    /// The code of the denial in the log; `None` where nothing was refused.
    const fn denial(&self) -> Option<&'static str> {
        match self {
            Self::Refused(backend::EventError::SignatureMissing(_) | backend::EventError::SignatureInvalid) => {
                Some("event_signature_invalid")
            }
            Self::Refused(backend::EventError::Time(_)) => Some("event_time_refused"),
            Self::Refused(backend::EventError::Malformed(_)) => Some("event_malformed"),
            Self::Reused => Some("event_reused"),
            Self::Refused(backend::EventError::NotDeclared) | Self::NotDeclared | Self::TooEarly | Self::Store(_) => None,
        }
    }
}
