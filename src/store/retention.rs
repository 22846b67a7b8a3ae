//! What is kept, for how long, and what must not go.

use serde::Serialize;

use crate::domain::digest::Digest;
use crate::domain::name::CaseId;

/// Events whose bytes may go.
#[derive(Debug, Clone, Serialize)]
pub struct Prune {
    /// The last of them.
    pub to: u64,
    /// SHA-256 of the list of files of the bundle that has them, which was verified.
    pub bundle_sha256: Digest,
}

/// What is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// The events of a case, whichever tenant's, those to come included.
    Case(CaseId),
    /// The events with these numbers.
    Range {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
}

/// What was erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erased {
    /// How many openings.
    pub fields: u64,
    /// The number of the (last) event that tells of it.
    pub seq: u64,
    /// Why what was deleted may stand in a file still, if it may: a sentence with the file.
    pub left: Option<String>,
}

/// Events that must not be pruned until somebody releases them.
#[derive(Debug, Clone, Serialize)]
pub struct NewHold {
    /// Which.
    pub what: Held,
    /// Why, in a person's words.
    pub reason: String,
}
