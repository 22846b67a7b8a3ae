//! JSON lines: the exact stored text, with its number and its leaf hash. Whoever hashes `leaf` has `leaf_hash`.

use serde::Serialize;

use super::{Entry, ExportError};

#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    leaf_hash: String,
    leaf: &'a str,
}

/// The entry in one line, its line end included.
///
/// # Errors
/// [`ExportError`] if the leaf is not text, or not that of its hash.
pub fn line(entry: &Entry) -> Result<String, ExportError> {
    let line = Line {
        seq: entry.seq,
        leaf_hash: entry.leaf_hash_hex(),
        leaf: entry.text()?,
    };
    let mut out = serde_json::to_string(&line).unwrap_or_default();
    out.push('\n');
    Ok(out)
}
