//! What an event says of the process that writes it.

use std::sync::{Mutex, PoisonError};

use crate::audit::WriterPart;
use crate::domain::id::WriterId;

/// This process's mark, and where the running transaction began.
pub(super) struct WriterMark {
    id: WriterId,
    begun: Mutex<Begun>,
}

#[derive(Default)]
struct Begun {
    origin: String,
    /// The number of the transaction's first event in the log.
    seq: u64,
    /// Its number among this process's own.
    n: u64,
}

impl WriterMark {
    /// Of the process with this name.
    pub(super) fn new(id: WriterId) -> Self {
        Self {
            id,
            begun: Mutex::default(),
        }
    }

    /// A transaction begins: its events are the log's from `seq` on, and this process's from `n` on.
    pub(super) fn begin(&self, origin: &str, seq: u64, n: u64) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        *begun = Begun {
            origin: origin.to_owned(),
            seq,
            n,
        };
    }

    /// The log's name, and the mark of the event with this number in it.
    pub(super) fn of(&self, seq: u64) -> (String, WriterPart) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let n = begun.n + seq.saturating_sub(begun.seq);
        (begun.origin.clone(), WriterPart { id: self.id, n })
    }
}
