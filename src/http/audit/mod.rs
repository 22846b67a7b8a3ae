//! The log over HTTP: what it holds, and the proofs with which nobody need believe us.

pub(super) mod case;
pub(super) mod events;
pub(super) mod reads;
pub(super) mod receipts;
pub(super) mod stream;
pub(super) mod tree;

pub use reads::{note_all_reads, note_reads};
pub(super) use receipts::{Told, told};

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::reads::Reads;
use self::stream::Followers;

/// How many calls of nobody in particular look at the tree at once; the store has few readers, and its clients need them.
const LOOKS: usize = 8;

/// What the calls about the log share.
#[derive(Debug)]
pub struct AuditDesk {
    looks: Semaphore,
    reads: Reads,
    followers: Arc<Followers>,
    closing: CancellationToken,
}

impl AuditDesk {
    /// With nobody at it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            looks: Semaphore::new(LOOKS),
            reads: Reads::default(),
            followers: Arc::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Ends the answers that follow the log: the process is about to.
    pub fn close(&self) {
        self.closing.cancel();
    }
}

impl Default for AuditDesk {
    fn default() -> Self {
        Self::new()
    }
}
