//! Resolve: a person found out what nobody else could, and says how.

use crate::domain::id::ExecutionId;
use crate::store::intent::{Resolution, Resolve};
use crate::store::record::ExecutionRecord;
use crate::store::{Op, Store, StoreError};

/// The longest evidence, in characters.
pub const MAX_EVIDENCE_CHARS: usize = 1000;

/// Why an execution stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Nothing that anybody could check later.
    #[error("say in 1 to 1,000 characters how you know")]
    EvidenceMissing,
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
    let resolve = Resolve {
        execution,
        resolution,
        evidence,
        reference,
    };
    Ok(store.resolve(op, resolve).await?.value)
}
