//! Time and chance, taken as arguments so that tests own both.

use super::time::Timestamp;

/// Where "now" comes from. Only the composition root has one that reads the machine's clock.
pub trait Clock: Send + Sync {
    /// The current wall-clock time, in milliseconds since the epoch, UTC.
    fn now(&self) -> Timestamp;
}

/// Where randomness comes from. Only the composition root has one that asks the operating system.
pub trait Entropy: Send + Sync {
    /// Fills the whole buffer with random bytes fit for keys and nonces.
    fn fill(&self, buffer: &mut [u8]);
}

/// `N` random bytes from `entropy`.
#[must_use]
pub fn random<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}
