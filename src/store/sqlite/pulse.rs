//! What the writing thread knows of the clock, the disk and the file, shared with whoever asks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::time::Timestamp;
use crate::store::health::{ClockState, Disk, FileState, Health, LogState, WitnessState};

/// The last things seen.
pub(super) struct Pulse(Mutex<Seen>);

struct Seen {
    /// The latest time that is written down, as the running transaction found or made it.
    latest: Timestamp,
    health: Health,
}

impl Pulse {
    /// Nothing seen yet.
    pub(super) fn new(low_water: u64) -> Self {
        Self(Mutex::new(Seen {
            latest: Timestamp::from_millis(i64::MIN),
            health: Health {
                file: FileState::Sound,
                clock: ClockState::Steady,
                disk: Disk { free: None, low_water },
                waiting_results: 0,
                log: LogState::Kept,
                witnesses: WitnessState::NotRequired,
            },
        }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the store stands.
    pub(super) fn health(&self) -> Health {
        self.seen().health.clone()
    }

    /// The store's time: never earlier than what is written down.
    pub(super) fn not_before(&self, wall: Timestamp) -> Timestamp {
        wall.max(self.seen().latest)
    }

    /// As [`Pulse::not_before`], and from here on nothing of the transaction is earlier.
    pub(super) fn advance(&self, wall: Timestamp) -> Timestamp {
        let mut seen = self.seen();
        seen.latest = seen.latest.max(wall);
        seen.latest
    }

    /// What a new transaction found.
    pub(super) fn found(&self, latest: Timestamp, clock: ClockState) {
        let mut seen = self.seen();
        seen.latest = latest;
        seen.health.clock = clock;
    }

    /// How the file stands.
    pub(super) fn file(&self, state: FileState) {
        self.seen().health.file = state;
    }

    /// How the log's head stands.
    pub(super) fn log(&self, state: LogState) {
        self.seen().health.log = state;
    }

    /// How witnesses stand to the log.
    pub(super) fn witnesses(&self, state: WitnessState) {
        self.seen().health.witnesses = state;
    }

    /// How many results wait beside the file.
    pub(super) fn waiting_results(&self, n: u64) {
        self.seen().health.waiting_results = n;
    }

    /// How much room is left.
    pub(super) fn disk(&self, free: Option<u64>) {
        self.seen().health.disk.free = free;
    }
}
