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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Go on; it is counted.
    Go,
    /// Not before so long.
    Wait {
        /// Until the next one may.
        wait: Duration,
        /// How many refusals to write down now; `None` while they are only counted.
        note: Option<u64>,
    },
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

    fn take(&mut self, pace: Pace, now: Timestamp) -> Turn {
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

    /// Takes one for this caller.
    pub(super) fn take(&self, key: &K, now: Timestamp) -> Turn {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Some(key.clone());
        if !buckets.contains_key(&key) && buckets.len() >= self.most {
            buckets.retain(|_, bucket| !bucket.is_idle(now));
        }
        let key = if buckets.contains_key(&key) || buckets.len() < self.most {
            key
        } else {
            None
        };
        let bucket = buckets.entry(key).or_insert_with(|| Bucket::fresh(now));
        bucket.take(self.pace, now)
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

    fn waits(turn: Turn) -> bool {
        matches!(turn, Turn::Wait { .. })
    }

    #[test]
    fn a_burst_passes_and_then_one_at_a_time() {
        let paces = Paces::new(PACE, 10);
        for _ in 0..3 {
            assert_eq!(paces.take(&"a", at(0)), Turn::Go);
        }
        let wait = Duration::from_secs(1);
        assert_eq!(paces.take(&"a", at(0)), Turn::Wait { wait, note: Some(1) });
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
            if let Turn::Wait { note: Some(count), .. } = paces.take(&"a", at(tick * 100)) {
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
        let mut noted = 0;
        for caller in 0..100_000 {
            if let Turn::Wait { note: Some(_), .. } = paces.take(&caller, at(0)) {
                noted += 1;
            }
        }
        assert_eq!(noted, 1, "those without a bucket share one");
        assert!(paces.buckets.lock().unwrap().len() <= 101);
        assert!(waits(paces.take(&200_000, at(0))));
        // Once the others have been silent there is room again.
        assert_eq!(paces.take(&200_000, at(60_000)), Turn::Go);
    }
}
