//! Token buckets on the program's clock: so many at once, then so many a minute, for each caller; and how many refusals nobody wrote down yet.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::domain::time::Timestamp;

/// How often the refusals of one caller are written down at most.
pub const NOTE_EVERY: Duration = Duration::from_secs(60);

/// So many at once, then so many a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How many a minute, over time.
    pub per_minute: u32,
    /// How many at once, after a silence.
    pub burst: u32,
}

impl Pace {
    /// What one call costs, in microseconds of the bucket's time.
    fn cost(self) -> i64 {
        60_000_000 / i64::from(self.per_minute.max(1))
    }

    /// What a full bucket holds.
    fn full(self) -> i64 {
        self.cost().saturating_mul(i64::from(self.burst.max(1)))
    }
}

/// Whether a caller may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn<N> {
    /// Go on; it is counted.
    Go,
    /// Not before so long.
    Wait {
        /// Until the next one may.
        wait: Duration,
        /// The refusals to write down now; `None` while they are only counted.
        note: Option<N>,
    },
}

impl<N> Turn<N> {
    /// The same turn, its refusals told in other words.
    pub(super) fn map<M>(self, told: impl FnOnce(N) -> M) -> Turn<M> {
        match self {
            Self::Go => Turn::Go,
            Self::Wait { wait, note } => Turn::Wait {
                wait,
                note: note.map(told),
            },
        }
    }
}

/// One caller's bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The moment at which it is full again, in microseconds.
    full_at: i64,
    /// When refusals were last written down.
    noted: Option<Timestamp>,
    /// Refusals since.
    unnoted: u64,
}

impl Bucket {
    fn fresh(now: Timestamp) -> Self {
        Self {
            full_at: micros(now),
            noted: None,
            unnoted: 0,
        }
    }

    /// When it is full again. No bucket lacks more than it holds: one that does is of a clock that was set back since, how much is in it is not
    /// known, and it begins anew.
    fn full_at(&self, pace: Pace, now: Timestamp) -> i64 {
        if self.full_at > micros(now).saturating_add(pace.full()) {
            micros(now)
        } else {
            self.full_at
        }
    }

    /// How far `now` is before the moment at which one more fits; zero or less if it fits.
    fn lack(&self, pace: Pace, now: Timestamp) -> i64 {
        self.full_at(pace, now)
            .saturating_add(pace.cost())
            .saturating_sub(micros(now))
            .saturating_sub(pace.full())
    }

    fn take(&mut self, pace: Pace, now: Timestamp) -> Turn<u64> {
        let lack = self.lack(pace, now);
        if lack <= 0 {
            self.full_at = self.full_at(pace, now).max(micros(now)).saturating_add(pace.cost());
            return Turn::Go;
        }
        self.unnoted += 1;
        Turn::Wait {
            wait: Duration::from_micros(lack.unsigned_abs()),
            note: self.note(now),
        }
    }

    /// The refusals to write down now, if it is time.
    fn note(&mut self, now: Timestamp) -> Option<u64> {
        let due = self.noted.is_none_or(|at| now < at || now.since(at) >= NOTE_EVERY);
        if !due || self.unnoted == 0 {
            return None;
        }
        self.noted = Some(now);
        Some(std::mem::take(&mut self.unnoted))
    }

    /// Whether forgetting it changes nothing.
    fn is_idle(&self, now: Timestamp) -> bool {
        self.full_at <= micros(now) && self.unnoted == 0
    }
}

fn micros(at: Timestamp) -> i64 {
    at.millis().saturating_mul(1_000)
}

/// The buckets of all callers, of which only so many are kept apart.
#[derive(Debug)]
pub(super) struct Paces<K> {
    pace: Pace,
    most: usize,
    buckets: Mutex<HashMap<Option<K>, Bucket>>,
}

impl<K: Eq + Hash + Clone> Paces<K> {
    /// Empty, for at most so many callers; further ones share one bucket until some of the others have been silent.
    #[must_use]
    pub(super) fn new(pace: Pace, most: usize) -> Self {
        Self {
            pace,
            most,
            buckets: Mutex::default(),
        }
    }

    /// Takes one for this caller; refusals are told of whoever has the bucket, and `None` stands for those that share one.
    pub(super) fn take(&self, key: &K, now: Timestamp) -> Turn<(Option<K>, u64)> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = self.place(&mut buckets, Some(key.clone()), now);
        let bucket = buckets.entry(key.clone()).or_insert_with(|| Bucket::fresh(now));
        bucket.take(self.pace, now).map(|count| (key, count))
    }

    /// Refusals that were to be written down and could not be.
    pub(super) fn put_back(&self, key: Option<K>, count: u64, now: Timestamp) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = self.place(&mut buckets, key, now);
        let bucket = buckets.entry(key).or_insert_with(|| Bucket::fresh(now));
        bucket.noted.get_or_insert(now);
        bucket.unnoted = bucket.unnoted.saturating_add(count);
    }

    /// Whose bucket a caller has: its own as long as there is room.
    fn place(&self, buckets: &mut HashMap<Option<K>, Bucket>, key: Option<K>, now: Timestamp) -> Option<K> {
        if !buckets.contains_key(&key) && buckets.len() >= self.most {
            buckets.retain(|_, bucket| !bucket.is_idle(now));
        }
        if buckets.contains_key(&key) || buckets.len() < self.most {
            key
        } else {
            None
        }
    }

    /// All refusals that nobody wrote down yet, due or not: the process ends.
    pub(super) fn rest(&self) -> Vec<(Option<K>, u64)> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = buckets
            .iter_mut()
            .filter(|(_, bucket)| bucket.unnoted > 0)
            .map(|(key, bucket)| (key.clone(), std::mem::take(&mut bucket.unnoted)));
        rest.collect()
    }

    /// The refusals that are due to be written down although nobody is refused at this moment; `None` stands for those without a bucket of their own.
    pub(super) fn due(&self, now: Timestamp) -> Vec<(Option<K>, u64)> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let due = buckets
            .iter_mut()
            .filter_map(|(key, bucket)| Some((key.clone(), bucket.note(now)?)));
        due.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { per_minute: 60, burst: 3 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_790_000_000_000 + millis)
    }

    fn waits<N>(turn: Turn<N>) -> bool {
        matches!(turn, Turn::Wait { .. })
    }

    #[test]
    fn a_burst_passes_and_then_one_at_a_time() {
        let paces = Paces::new(PACE, 10);
        for _ in 0..3 {
            assert_eq!(paces.take(&"a", at(0)), Turn::Go);
        }
        let wait = Duration::from_secs(1);
        let note = Some((Some("a"), 1));
        assert_eq!(paces.take(&"a", at(0)), Turn::Wait { wait, note });
        assert!(waits(paces.take(&"a", at(999))));
        assert_eq!(paces.take(&"b", at(0)), Turn::Go, "another caller has a bucket of its own");
        assert_eq!(paces.take(&"a", at(1_000)), Turn::Go);
        assert!(waits(paces.take(&"a", at(1_000))));
    }

    #[test]
    fn refusals_are_written_down_once_a_minute_with_their_count() {
        let paces = Paces::new(PACE, 10);
        let mut noted = Vec::new();
        // Ten calls a second for two minutes; one a second passes.
        for tick in 0..1_200 {
            if let Turn::Wait {
                note: Some((_, count)), ..
            } = paces.take(&"a", at(tick * 100))
            {
                noted.push(count);
            }
        }
        assert_eq!(noted.len(), 2, "{noted:?}");
        assert_eq!(noted[0], 1);
        let due = paces.due(at(1_200 * 100 + 60_000));
        let refused: u64 = noted.iter().sum::<u64>() + due[0].1;
        assert_eq!((due.len(), due[0].0), (1, Some("a")));
        assert_eq!(refused, 1_200 - 3 - 119, "every refusal is in one of the counts");
        assert!(paces.due(at(1_200 * 100 + 120_000)).is_empty());
    }

    #[test]
    fn refusals_that_could_not_be_written_down_are_told_with_the_next() {
        let paces = Paces::new(PACE, 1);
        for _ in 0..4 {
            paces.take(&"a", at(0));
        }
        paces.put_back(Some("a"), 1, at(0));
        paces.put_back(Some("b"), 7, at(0));
        assert!(paces.due(at(59_999)).is_empty(), "no more often than others");
        paces.take(&"a", at(0));
        let mut due = paces.due(at(60_000));
        due.sort_unstable();
        assert_eq!(due, [(None, 7), (Some("a"), 2)]);
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let paces = Paces::new(PACE, 10);
        for _ in 0..4 {
            paces.take(&"a", at(0));
        }
        let hour = -3_600_000;
        for _ in 0..3 {
            assert_eq!(paces.take(&"a", at(hour)), Turn::Go);
        }
        assert!(waits(paces.take(&"a", at(hour))), "and no more than a burst");
        assert_eq!(paces.take(&"a", at(hour + 1_000)), Turn::Go);
    }

    #[test]
    fn a_flood_of_callers_costs_no_more_memory_and_no_more_notes() {
        let paces = Paces::new(PACE, 100);
        let mut noted = Vec::new();
        for caller in 0..100_000 {
            if let Turn::Wait { note: Some(told), .. } = paces.take(&caller, at(0)) {
                noted.push(told);
            }
        }
        assert_eq!(noted, [(None, 1)], "those without a bucket share one, and are told of together");
        assert!(paces.buckets.lock().unwrap().len() <= 101);
        assert!(waits(paces.take(&200_000, at(0))));
        // Once the others have been silent there is room again.
        assert_eq!(paces.take(&200_000, at(60_000)), Turn::Go);
    }
}
