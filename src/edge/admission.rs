//! Which work is let in when there is too much: new drafts are refused first, then exchanges, executions last; the recording of results never.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a call is for, the most dispensable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// New work: a draft, or a read at a backend.
    Begin,
    /// Work on what exists: a signature, an exchange, a withdrawal.
    Continue,
    /// The effect: a credential is spent, an outcome is told.
    Execute,
}

/// Counts the calls that are worked on, and refuses those for which there is no room.
#[derive(Debug)]
pub struct Admission {
    /// How many calls are worked on at once.
    most: usize,
    open: AtomicUsize,
}

/// A call's place, given back when it is dropped.
#[derive(Debug)]
pub struct Place(Arc<Admission>);

impl Admission {
    /// Room for so many calls at once.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            open: AtomicUsize::new(0),
        }
    }

    /// A place, unless so many calls are open, or so many requests wait for the store, that this kind of work has to stay out: new work gets half
    /// of the room, work on what exists three quarters, executions all of it. `waiting` is the length of the store's queue.
    pub fn admit(self: &Arc<Self>, work: Work, waiting: usize) -> Option<Place> {
        let room = match work {
            Work::Begin => self.most / 2,
            Work::Continue => self.most / 4 * 3,
            Work::Execute => self.most,
        };
        if waiting >= room {
            return None;
        }
        let taken = self
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < room).then_some(open + 1));
        taken.ok().map(|_| Place(Arc::clone(self)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_work_stays_out_first_and_executions_last() {
        let all = Arc::new(Admission::new(8));
        let mut places = Vec::new();
        for (work, room) in [(Work::Begin, 4), (Work::Continue, 6), (Work::Execute, 8)] {
            while let Some(place) = all.admit(work, 0) {
                places.push(place);
            }
            assert_eq!(places.len(), room, "{work:?}");
        }
        places.truncate(5);
        assert!(all.admit(Work::Begin, 0).is_none());
        assert!(all.admit(Work::Continue, 0).is_some(), "a place that was given up is free again");
    }

    #[test]
    fn a_store_that_falls_behind_counts_as_much_as_open_calls() {
        let all = Arc::new(Admission::new(8));
        assert!(all.admit(Work::Begin, 4).is_none());
        assert!(all.admit(Work::Continue, 4).is_some());
        assert!(all.admit(Work::Execute, 7).is_some());
        assert!(all.admit(Work::Execute, 8).is_none());
    }
}
