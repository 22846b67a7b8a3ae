//! What an event means: by what it names its draft, and what it says of it, by the backend's own file.

use std::collections::BTreeMap;

use super::classify::{Classified, Outcome};
use super::condition::{Condition, Subject};
use super::operation::Operation;
use super::template::Context;
use super::webhook::{BackendEvent, MAX_NAME};
use crate::domain::draft::{DraftDocument, IdempotencyKey};

/// By what an event names the draft it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The draft's id, as it was sent.
    pub draft: Option<String>,
    /// The idempotency key, as it was sent.
    pub key: Option<String>,
    /// The backend's id of what was made.
    pub reference: Option<String>,
}

/// What an operation's events mean.
#[derive(Debug, Clone)]
pub(super) struct Events {
    pub(super) draft: Option<String>,
    pub(super) key: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) require: Vec<Condition>,
    pub(super) trust: Trust,
    pub(super) on: Vec<EventRule>,
}

/// What an event that agrees with its draft is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The backend is looked at; only what is found there counts.
    LookUp,
    /// The backend cannot be asked: its signed word counts.
    Event,
}

/// One kind of event.
#[derive(Debug, Clone)]
pub(super) struct EventRule {
    pub(super) name: String,
    pub(super) types: Vec<String>,
    pub(super) when: Vec<Condition>,
    pub(super) outcome: Outcome,
}

impl Operation {
    /// Whether an event of this type can be about this operation.
    #[must_use]
    pub fn has_events_of(&self, kind: &str) -> bool {
        self.events()
            .is_some_and(|events| events.on.iter().any(|rule| rule.types.iter().any(|t| t == kind)))
    }

    /// What an event that agrees with its draft is good for; `None` where the operation has no events.
    #[must_use]
    pub fn trust_in_events(&self) -> Option<Trust> {
        self.events().map(|events| events.trust)
    }

    /// The places of an event that are signed; `None` where all of it is, or there are no events.
    pub(super) fn signed_places(&self) -> Option<&[String]> {
        self.events()?;
        self.backend.webhook.as_ref()?.signed()
    }

    fn events(&self) -> Option<&Events> {
        self.write().and_then(|write| write.events.as_ref())
    }

    /// By what the event names the draft it is about.
    #[must_use]
    pub fn marks(&self, event: &BackendEvent) -> Marks {
        let at = |pointer: Option<&String>| {
            let text = event.body.pointer(pointer?)?.as_str()?;
            (1..=MAX_NAME).contains(&text.len()).then(|| text.to_owned())
        };
        let events = self.events();
        Marks {
            draft: at(events.and_then(|e| e.draft.as_ref())),
            key: at(events.and_then(|e| e.key.as_ref())),
            reference: at(events.and_then(|e| e.reference.as_ref())),
        }
    }

    /// What the event says of this draft: applied, pending or failed; ambiguous, with why, if it does not agree with the draft or no rule covers
    /// it.
    #[must_use]
    pub fn told(&self, draft: &DraftDocument, key: &IdempotencyKey, event: &BackendEvent) -> Classified {
        let ambiguous = |rule: String| Classified {
            outcome: Outcome::Ambiguous,
            reference: None,
            rule,
        };
        let Some(events) = self.events() else {
            return ambiguous("the operation has no events".to_owned());
        };
        let text = key.to_string();
        let context = Context {
            key: Some(&text),
            ..self.context(draft)
        };
        let headers = BTreeMap::new();
        let subject = Subject {
            body: &event.body,
            headers: &headers,
        };
        let chosen = events.on.iter().find(|rule| {
            event.kind.as_ref().is_some_and(|kind| rule.types.contains(kind))
                && rule.when.iter().all(|condition| condition.holds(subject, &context))
        });
        let Some(rule) = chosen else {
            return ambiguous("no rule covers this event".to_owned());
        };
        if let Some(broken) = events.require.iter().find(|condition| !condition.holds(subject, &context)) {
            return ambiguous(format!("{}: {} is not what the draft says", rule.name, broken.place()));
        }
        Classified {
            outcome: rule.outcome,
            reference: self.marks(event).reference,
            rule: rule.name.clone(),
        }
    }
}
