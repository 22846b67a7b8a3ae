//! Rules to a decision with reasons; pure.
//!
//! One set of rules answers three questions. May it run as it is: no signature is in the context. Who would have to sign: the best signatures
//! that could exist are, and the rules they lift name their queues. Are these enough: the real ones are. Whatever cannot be
//! evaluated denies, since the rule engine itself leaves out a `forbid` that fails.

pub mod cases;
mod decide;
mod facts;
mod limits;
mod load;
mod mistakes;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use cedar_policy::PolicySet;

pub use limits::{CurrencyLimits, Limits};
pub use mistakes::{Mistake, PolicyMistakes};
pub use rules::reserved;

use crate::domain::name::{OperationName, QueueName};
use crate::domain::operation::Consequence;
use crate::domain::policy::PolicyRef;

/// A policy that was checked when it was loaded. It never changes afterwards.
pub struct Policy {
    reference: PolicyRef,
    rules: PolicySet,
    notes: Vec<rules::Note>,
    operations: BTreeMap<OperationName, Consequence>,
    facts: facts::Facts,
}

impl Policy {
    /// Reads `policy.toml`, `schema.cedarschema`, `rules.cedar` and `limits.toml` from `dir`.
    ///
    /// # Errors
    /// [`PolicyMistakes`] with everything that is wrong, each with its file, its place and what to do.
    pub fn load(dir: &Path) -> Result<Self, PolicyMistakes> {
        load::load(dir)
    }

    /// Which policy this is: its hash covers the rules' and the schema's bytes; the limits have their own.
    #[must_use]
    pub const fn reference(&self) -> &PolicyRef {
        &self.reference
    }

    /// The operations it knows; any other is denied.
    #[must_use]
    pub fn operations(&self) -> BTreeSet<OperationName> {
        self.operations.keys().cloned().collect()
    }

    /// The group an operation stands in; `None` if it is not known. A backend that declares another consequence is misconfigured.
    #[must_use]
    pub fn consequence(&self, operation: &OperationName) -> Option<Consequence> {
        self.operations.get(operation).copied()
    }

    /// Every queue that a rule names. Somebody must be in each, or what it guards can never run.
    #[must_use]
    pub fn queues(&self) -> &BTreeSet<QueueName> {
        self.facts.queues()
    }

    /// The limits by currency.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.facts.limits()
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("reference", &self.reference)
            .field("rules", &self.notes.len())
            .finish_non_exhaustive()
    }
}
