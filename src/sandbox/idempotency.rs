//! What a key replays, for how long, and what is refused under it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

use super::answer::{Answer, ErrorAnswer, ErrorType};

/// The longest key that is taken.
const LONGEST: usize = 255;

/// The first answer under each key, kept for the window.
#[derive(Debug)]
pub(super) struct KeyBook {
    window: Duration,
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    first_seen: Timestamp,
    parameters: Digest,
    state: EntryState,
}

#[derive(Debug)]
enum EntryState {
    InFlight,
    Done { answer: Answer, request_id: String },
}

/// What a key says about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is the first: run it, then call [`KeyBook::keep`] or [`KeyBook::forget`].
    Run,
    /// It ran before: this was its answer.
    Replay(Answer),
    /// It may not run.
    Refuse(Answer),
}

impl KeyBook {
    pub(super) const fn new(window: Duration) -> Self {
        Self {
            window,
            entries: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Claims `key` for a request with these parameters.
    pub(super) fn claim(&mut self, key: &str, parameters: Digest, now: Timestamp) -> Claim {
        if key.is_empty() || key.len() > LONGEST {
            return Claim::Refuse(
                ErrorAnswer::new(
                    400,
                    ErrorType::InvalidRequest,
                    format!("Idempotency-Key must have 1 to {LONGEST} characters."),
                )
                .into(),
            );
        }
        let window = self.window;
        self.entries
            .retain(|_, entry| matches!(entry.state, EntryState::InFlight) || now < entry.first_seen.plus(window));
        match self.entries.get(key) {
            None => {
                let entry = Entry {
                    first_seen: now,
                    parameters,
                    state: EntryState::InFlight,
                };
                self.entries.insert(key.to_owned(), entry);
                Claim::Run
            }
            Some(entry) if entry.parameters != parameters => Claim::Refuse(
                ErrorAnswer::new(
                    400,
                    ErrorType::Idempotency,
                    format!("Key '{key}' was first used with other parameters. Take another key for another request."),
                )
                .into(),
            ),
            Some(Entry {
                state: EntryState::InFlight,
                ..
            }) => Claim::Refuse(in_use(key)),
            Some(Entry {
                state: EntryState::Done { answer, request_id },
                ..
            }) => Claim::Replay(
                answer
                    .clone()
                    .with("idempotent-replayed", "true")
                    .with("original-request", request_id.clone()),
            ),
        }
    }

    /// The claimed request ran: every later one with the key gets this answer.
    pub(super) fn keep(&mut self, key: &str, answer: &Answer, request_id: &str) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.state = EntryState::Done {
                answer: answer.clone(),
                request_id: request_id.to_owned(),
            };
        }
    }

    /// The claimed request did not begin to run: the key is as good as new.
    pub(super) fn forget(&mut self, key: &str) {
        self.entries.remove(key);
    }
}

/// Another request with this key is running.
pub(super) fn in_use(key: &str) -> Answer {
    ErrorAnswer::new(
        409,
        ErrorType::InvalidRequest,
        format!("Another request with the key '{key}' is still running. Wait for it, then repeat this one."),
    )
    .code("idempotency_key_in_use")
    .into()
}
