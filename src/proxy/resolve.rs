//! Resolve: a person found out what nobody else could, and says how.

use crate::domain::id::ExecutionId;
use crate::domain::text::deceptive_in_lines;
use crate::store::intent::{Resolution, Resolve};
use crate::store::record::ExecutionRecord;
use crate::store::{Op, Store, StoreError};

/// The longest evidence, in characters.
pub const MAX_EVIDENCE_CHARS: usize = 1000;

/// The longest id of the backend's, in characters.
const MAX_REFERENCE_CHARS: usize = 255;

/// Why an execution stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Nothing that anybody could check later.
    #[error("say in 1 to 1,000 characters how you know")]
    EvidenceMissing,
    /// Words that do not show as they are.
    #[error("the evidence {0}")]
    EvidenceDeceptive(String),
    /// The backend's id is not one that anybody could look up.
    #[error("give the backend's id in 1 to 255 visible characters, without spaces")]
    ReferenceMalformed,
    /// The store refused, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Ends an execution whose outcome only a person could find out.
///
/// # Errors
/// [`ResolveError`]; the execution stays as it was.
pub async fn resolve(
    store: &dyn Store,
    op: Op,
    execution: ExecutionId,
    resolution: Resolution,
    evidence: &str,
    reference: Option<String>,
) -> Result<ExecutionRecord, ResolveError> {
    let evidence = evidence.trim().to_owned();
    if evidence.is_empty() || evidence.chars().count() > MAX_EVIDENCE_CHARS {
        return Err(ResolveError::EvidenceMissing);
    }
    if let Some(why) = deceptive_in_lines(&evidence) {
        return Err(ResolveError::EvidenceDeceptive(why));
    }
    let is_id = |text: &String| (1..=MAX_REFERENCE_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if !reference.as_ref().is_none_or(is_id) {
        return Err(ResolveError::ReferenceMalformed);
    }
    let resolve = Resolve {
        execution,
        resolution,
        evidence,
        reference,
    };
    Ok(store.resolve(op, resolve).await?.value)
}
