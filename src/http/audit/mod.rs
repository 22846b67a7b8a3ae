//! The log over HTTP: what it holds, and the proofs with which nobody need believe us.

pub(super) mod events;
pub(super) mod receipts;
pub(super) mod tree;

pub(super) use receipts::{Told, told};

use tokio::sync::Semaphore;

/// How many calls of nobody in particular look at the tree at once; the store has few readers, and its clients need them.
const LOOKS: usize = 8;

/// What the calls about the log share.
#[derive(Debug)]
pub struct AuditDesk {
    looks: Semaphore,
}

impl AuditDesk {
    /// With nobody at it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            looks: Semaphore::new(LOOKS),
        }
    }
}

impl Default for AuditDesk {
    fn default() -> Self {
        Self::new()
    }
}
