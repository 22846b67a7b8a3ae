//! What is asked of the log, with its proofs.

use crate::audit::tree::Hash;

/// That the log of `new` events begins with that of `old`.
#[derive(Debug, Clone, PartialEq)]
pub struct Consistency {
    /// The smaller size.
    pub old: u64,
    /// The larger size.
    pub new: u64,
    /// The proof.
    pub proof: Vec<Hash>,
}
