//! What a bundle holds: its list of files, each with its hash.

use serde::{Deserialize, Serialize};

use crate::domain::time::Timestamp;

/// The list, `MANIFEST.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The form of this list, [`Manifest::FORM`].
    pub form: String,
    /// Which events it holds.
    pub what: What,
    /// The name of the log.
    pub origin: String,
    /// How many events the log had.
    pub size: u64,
    /// The root of the tree over them, as in the checkpoint.
    pub root: String,
    /// How many events the bundle holds.
    pub events: u64,
    /// The program that wrote it, with its version.
    pub tool: String,
    /// When, by its clock.
    pub made_at: Timestamp,
    /// Every other file, by its path.
    pub files: Vec<ListedFile>,
}

/// Which events a bundle holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum What {
    /// One after the other.
    Range {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Those of a time, and whatever was numbered between them.
    Time {
        /// From.
        from: Timestamp,
        /// Up to and without.
        until: Timestamp,
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Those of one case.
    Case {
        /// Its id.
        case_id: String,
        /// Whose it is.
        tenant: Option<String>,
    },
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedFile {
    /// Its path in the bundle.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// SHA-256 over it, in lower-case hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// The form that is written.
    pub const FORM: &'static str = "writ.evidence.v1";
    /// Its file.
    pub const FILE: &'static str = "MANIFEST.json";
    /// The file with the list's own hash, as `sha256sum -c` reads it.
    pub const SUM: &'static str = "MANIFEST.sha256";
}
