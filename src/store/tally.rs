//! What a store counts about its own work since it was opened: never content, only kinds, outcomes and times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::StoreError;
use crate::audit::{EventBody, EventKind, EventOutcome};
use crate::domain::lifecycle::ExecutionTransition;

/// The upper bounds of the classes of commit times, in seconds; what took longer than the last is counted in the total only.
pub const COMMIT_BOUNDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// The code of an execution that was lost track of because whoever had sent it let its lease run out.
pub const LEASE_EXPIRED: &str = "lease_expired";

/// One kind of event with one outcome.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// The event's type as written, such as `draft.approve`.
    pub event: &'static str,
    /// How it ended, as written.
    pub outcome: &'static str,
    /// The code of a denial, or of an outcome that was lost.
    pub code: Option<String>,
}

impl Told {
    /// What is counted of an event.
    #[must_use]
    pub fn of(body: &EventBody) -> Self {
        let told = body.outcome == EventOutcome::Denied || body.kind == EventKind::Execution(ExecutionTransition::LoseTrack);
        Self {
            event: EventKind::as_str(body.kind),
            outcome: body.outcome.as_str(),
            code: body.code.clone().filter(|_| told),
        }
    }
}

/// How the commits of a store went.
#[derive(Debug, Clone, PartialEq)]
pub struct Commits {
    /// How many took at most as long as the bound in the same place of [`COMMIT_BOUNDS`], and longer than the one before.
    pub classes: [u64; COMMIT_BOUNDS.len()],
    /// How many there were.
    pub count: u64,
    /// How long they took together.
    pub total: Duration,
    /// How many transactions failed as a whole.
    pub failed: u64,
}

/// The counts of one store handle. Every number only grows, but for what waits.
#[derive(Debug, Default)]
pub struct Tally {
    told: Mutex<BTreeMap<Told, u64>>,
    calls: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    classes: [AtomicU64; COMMIT_BOUNDS.len()],
    commits: AtomicU64,
    commit_nanos: AtomicU64,
    failed: AtomicU64,
    waiting: AtomicUsize,
    withheld: AtomicU64,
}

impl Tally {
    /// These events were committed.
    pub fn told(&self, events: &[Told]) {
        if events.is_empty() {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            *told.entry(event.clone()).or_default() += 1;
        }
    }

    /// A transition was asked for and answered like this.
    pub fn answered<T>(&self, transition: &'static str, answer: &Result<super::Applied<T>, StoreError>) {
        let word = match answer {
            Ok(applied) if applied.replayed => "replayed",
            Ok(_) => "applied",
            Err(StoreError::Rejected(_)) => "rejected",
            Err(StoreError::Unavailable(_)) => "unavailable",
            Err(StoreError::Paused(_)) => "paused",
            Err(StoreError::Ambiguous { .. }) => "ambiguous",
            Err(StoreError::Corrupt(_)) => "corrupt",
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry((transition, word)).or_default() += 1;
    }

    /// A transaction was committed, or as a whole was not.
    pub fn committed(&self, took: Duration, well: bool) {
        if !well {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let seconds = took.as_secs_f64();
        if let Some((class, _)) = self.classes.iter().zip(COMMIT_BOUNDS).find(|(_, bound)| seconds <= *bound) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.commit_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// One more request waits for the writer.
    pub fn queued(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// So many requests wait no longer.
    pub fn taken(&self, n: usize) {
        self.waiting.fetch_sub(n, Ordering::Relaxed);
    }

    /// So many members of an event were kept back.
    pub fn withheld(&self, n: usize) {
        self.withheld.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// How many members of events were kept back so far, since they had the form of something that must not be written.
    #[must_use]
    pub fn all_withheld(&self) -> u64 {
        self.withheld.load(Ordering::Relaxed)
    }

    /// How many requests wait for the writer now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The events committed so far, by kind, outcome and code of denial.
    #[must_use]
    pub fn events(&self) -> BTreeMap<Told, u64> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many events of this kind were committed so far.
    #[must_use]
    pub fn count_of(&self, kind: EventKind) -> u64 {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = told.iter().filter(|(event, _)| event.event == EventKind::as_str(kind));
        of_kind.map(|(_, n)| n).sum()
    }

    /// The transitions asked for so far, by name and answer.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the commits went so far.
    #[must_use]
    pub fn commits(&self) -> Commits {
        let mut classes = [0; COMMIT_BOUNDS.len()];
        for (class, counted) in classes.iter_mut().zip(&self.classes) {
            *class = counted.load(Ordering::Relaxed);
        }
        Commits {
            classes,
            count: self.commits.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.commit_nanos.load(Ordering::Relaxed)),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}
