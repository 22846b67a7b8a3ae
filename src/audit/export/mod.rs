//! The log in other people's formats: functions from stored event bytes to text. Each record carries its number and its leaf hash, so that what is
//! missing or changed where it arrives can still be found.

pub mod csv;
pub mod jsonl;
mod kind;
pub mod ocsf;
pub mod page;
mod read;
pub mod selected;

use std::fmt::Write as _;

use ring::digest::{Context, SHA256};

use crate::domain::json::JsonError;

pub use kind::Kind;

/// One stored event and its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the log, from 0.
    pub seq: u64,
    /// `SHA-256(0x00 || leaf)`, the leaf hash of RFC 6962 section 2.1.
    pub leaf_hash: [u8; 32],
    /// The stored bytes.
    pub leaf: Vec<u8>,
}

impl Entry {
    /// The entry of these bytes, its leaf hash computed.
    #[must_use]
    pub fn of(seq: u64, leaf: Vec<u8>) -> Self {
        Self {
            seq,
            leaf_hash: leaf_hash(&leaf),
            leaf,
        }
    }

    /// The leaf hash in 64 characters of lower-case hexadecimal.
    #[must_use]
    pub fn leaf_hash_hex(&self) -> String {
        let mut out = String::with_capacity(64);
        for byte in self.leaf_hash {
            // Writing to a string cannot fail.
            let _ = write!(out, "{byte:02x}");
        }
        out
    }

    /// The leaf as text, once it is known to be the leaf of this hash.
    fn text(&self) -> Result<&str, ExportError> {
        if leaf_hash(&self.leaf) != self.leaf_hash {
            return Err(ExportError::OtherHash { seq: self.seq });
        }
        std::str::from_utf8(&self.leaf).map_err(|source| ExportError::NotText { seq: self.seq, source })
    }
}

fn leaf_hash(leaf: &[u8]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(&[0]);
    context.update(leaf);
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Why an entry is not written out. Nothing of it has been written then.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The hash is another's.
    #[error("event {seq} does not have the leaf hash it is stored under: verify the log before anything of it is exported")]
    OtherHash {
        /// Its place in the log.
        seq: u64,
    },
    /// The bytes are not text.
    #[error("event {seq} is not UTF-8 text: verify the log before anything of it is exported")]
    NotText {
        /// Its place in the log.
        seq: u64,
        /// Where it is not.
        #[source]
        source: std::str::Utf8Error,
    },
    /// The text is no event.
    #[error("event {seq} cannot be read as an event ({source}): export it as a bundle or as JSON lines, which take it as it is")]
    NotAnEvent {
        /// Its place in the log.
        seq: u64,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// The event says that it is another one.
    #[error("event {seq} says that it is event {says}: verify the log before anything of it is exported")]
    OtherNumber {
        /// Its place in the log.
        seq: u64,
        /// What it says.
        says: u64,
    },
    /// The event's time is none.
    #[error("the time of event {seq} is not in the form of RFC 3339: export it as a bundle or as JSON lines, which take it as it is")]
    NoTime {
        /// Its place in the log.
        seq: u64,
    },
}
