//! The parts of the events that tell what was shown, erased, held or pruned.

use serde::Serialize;

use super::disclosure::SensitiveField;
use super::vault::Tag;
use crate::domain::digest::Digest;
use crate::domain::name::CaseId;

/// A value that was shown to somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DisclosedPart {
    /// The event that commits to it.
    pub seq: u64,
    /// Which value.
    pub field: SensitiveField,
    /// The commitment.
    pub digest: Digest,
}

impl Serialize for SensitiveField {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The openings of one person that were destroyed, with their key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErasedPart {
    /// The tag of the person.
    pub subject: Tag,
    /// How many openings.
    pub fields: u64,
    /// Why that was lawful, in the operator's words.
    pub basis: String,
}

/// Events whose bytes were deleted, after a bundle of them was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrunedPart {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// The root of the tree up to and with the last.
    pub root: String,
    /// SHA-256 of the bundle's list of files.
    pub bundle_sha256: Digest,
}

/// Events that must not be pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HoldPart {
    /// The hold's number.
    pub id: u64,
    /// The case whose events they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case_id: Option<CaseId>,
    /// The first, of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}
