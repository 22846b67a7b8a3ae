//! Chance and time that belong to a schedule: everything in it follows from its seed.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use writ::domain::clock::{Clock, Entropy};
use writ::domain::time::Timestamp;

/// When every schedule begins: 2026-09-21T14:13:20Z.
pub const BEGIN: i64 = 1_790_000_000_000;

/// Numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.next() % 100 < u64::from(percent)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// One of these, as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, of: &[(u32, T)]) -> T {
        let total: u32 = of.iter().map(|(weight, _)| weight).sum();
        let mut left = u32::try_from(self.next() % u64::from(total.max(1))).unwrap();
        for (weight, what) in of {
            if left < *weight {
                return *what;
            }
            left -= weight;
        }
        of[of.len() - 1].1
    }
}

/// Time as it passes outside: what the backend goes by.
#[derive(Debug, Default)]
pub struct Outside(AtomicI64);

impl Outside {
    pub fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }

    pub fn reset(&self) {
        self.0.store(BEGIN, Ordering::Relaxed);
    }
}

/// The wall clock of one process: outside time, and how wrong this clock is.
#[derive(Debug)]
pub struct WallClock {
    outside: Arc<Outside>,
    wrong: AtomicI64,
}

impl WallClock {
    pub fn new(outside: Arc<Outside>) -> Self {
        Self {
            outside,
            wrong: AtomicI64::new(0),
        }
    }

    /// How many milliseconds it is ahead.
    pub fn ahead(&self) -> i64 {
        self.wrong.load(Ordering::Relaxed)
    }

    pub fn set_ahead(&self, millis: i64) {
        self.wrong.store(millis, Ordering::Relaxed);
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.outside.now() + self.ahead())
    }
}

/// Bytes from a seed; one source for each process.
#[derive(Debug)]
pub struct Bytes(Mutex<Dice>);

impl Bytes {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Dice::new(seed)))
    }

    pub fn reseed(&self, seed: u64) {
        *self.0.lock().unwrap() = Dice::new(seed);
    }
}

impl Entropy for Bytes {
    fn fill(&self, buffer: &mut [u8]) {
        let mut dice = self.0.lock().unwrap();
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&dice.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A counter that is only ever raised: how a schedule sees that something still moves.
#[derive(Debug, Default)]
pub struct Motion(AtomicU64);

impl Motion {
    pub fn moved(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
