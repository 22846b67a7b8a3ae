//! The keys a provider remembers: for how long, with which request, and what came of it.

use std::collections::HashMap;
use std::time::Duration;

use writ::domain::time::Timestamp;

/// What a key stands for.
#[derive(Clone)]
pub struct Held {
    at: Timestamp,
    /// The request it came with.
    pub request: String,
    /// The id of what was made, or the stored answer; none while the request runs or if it made nothing.
    pub made: Option<String>,
    /// Whether its request is still running.
    pub running: bool,
}

/// What a request under a key meets.
pub enum Claim {
    New,
    Running,
    OtherRequest,
    Made(String),
    /// It ran and made nothing.
    Nothing,
}

/// The keys of one provider.
pub struct Keys {
    window: Duration,
    held: HashMap<String, Held>,
    slow: bool,
}

impl Keys {
    pub fn remembered_for(window: Duration) -> Self {
        Self {
            window,
            held: HashMap::new(),
            slow: false,
        }
    }

    /// What the key stands for now; a new one is taken.
    pub fn claim(&mut self, key: &str, request: &str, now: Timestamp) -> Claim {
        self.held.retain(|_, held| now.since(held.at) < self.window);
        match self.held.get(key) {
            None => {
                let held = Held {
                    at: now,
                    request: request.to_owned(),
                    made: None,
                    running: self.slow,
                };
                self.slow = false;
                self.held.insert(key.to_owned(), held);
                Claim::New
            }
            Some(held) if held.running => Claim::Running,
            Some(held) if held.request != request => Claim::OtherRequest,
            Some(held) => held.made.clone().map_or(Claim::Nothing, Claim::Made),
        }
    }

    /// What came of a key's request.
    pub fn made(&mut self, key: &str, made: &str) {
        if let Some(held) = self.held.get_mut(key) {
            held.made = Some(made.to_owned());
        }
    }

    /// The key's request was refused before it ran, and is not remembered.
    pub fn forget(&mut self, key: &str) {
        self.held.remove(key);
    }

    /// The next new key is held as running.
    pub fn run_slowly(&mut self) {
        self.slow = true;
    }

    /// Whatever runs has ended.
    pub fn finish(&mut self) {
        for held in self.held.values_mut() {
            held.running = false;
        }
    }

    /// A key stands for another request already.
    pub fn taken_by_another(&mut self, key: &str, now: Timestamp) {
        let held = Held {
            at: now,
            request: "another request".to_owned(),
            made: None,
            running: false,
        };
        self.held.insert(key.to_owned(), held);
    }
}
