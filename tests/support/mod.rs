//! What many tests need: a clock and a source of chance that belong to the test.

pub mod answers;
pub mod attempts;
pub mod certificates;
pub mod listening;
pub mod log;
pub mod peers;
pub mod people;
pub mod servers;
pub mod vandal;
pub mod vectors;
pub mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use writ::domain::clock::{Clock, Entropy};
use writ::domain::time::Timestamp;

/// A clock that moves only when the test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at 2026-09-21T14:13:20Z.
    pub fn new() -> Self {
        Self(AtomicI64::new(1_790_000_000_000))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl ManualClock {
    /// A clock that is so many milliseconds off another one's start.
    pub fn apart(millis: i64) -> Self {
        Self(AtomicI64::new(1_790_000_000_000 + millis))
    }

    /// Sets the clock back.
    pub fn set_back(&self, by: Duration) {
        self.0.fetch_sub(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Repeatable bytes from a seed (splitmix64): every test of one seed sees the same ids.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    /// A source that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        let mut state = self.0.lock().unwrap();
        for chunk in buffer.chunks_mut(8) {
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^= z >> 31;
            chunk.copy_from_slice(&z.to_le_bytes()[..chunk.len()]);
        }
    }
}
