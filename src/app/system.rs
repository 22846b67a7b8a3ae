//! The machine's own clock and randomness; nothing else in the program has them.

use std::time::SystemTime;

use ring::rand::SecureRandom as _;

use crate::domain::clock::{Clock, Entropy};
use crate::domain::time::Timestamp;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the composition root owns the machine's clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The operating system's source of randomness.
#[derive(Debug)]
pub struct SystemEntropy(ring::rand::SystemRandom);

impl SystemEntropy {
    /// The source.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the composition root owns the source of randomness")]
    pub fn new() -> Self {
        Self(ring::rand::SystemRandom::new())
    }
}

impl Default for SystemEntropy {
    fn default() -> Self {
        Self::new()
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        // A machine without randomness cannot make a nonce; going on with zeros would be worse than ending.
        if self.0.fill(buffer).is_err() {
            tracing::error!("the operating system gives no randomness");
            std::process::abort();
        }
    }
}
