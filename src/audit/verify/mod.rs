//! Verification by whoever trusts neither the broker nor its database: everything is recomputed from the bytes, and nothing is believed but the keys
//! that are named and the heads that were kept outside.

mod anchor;
mod bundle;
mod case_start;
mod counters;
mod epochs;
mod head;
mod lines;
mod pass;
mod range;
mod report;
mod state;

use std::time::Duration;

use super::TrustPolicy;
use super::source::{LogSource, SourceError};
use crate::domain::time::Timestamp;

pub use anchor::OutsideHead;
pub use bundle::verify_bundle;
pub use head::verify_receipt;
pub use lines::verify_lines;
pub use report::{Anchor, CaseSeen, EXIT_NO_KEY, EXIT_UNREADABLE, Fault, Finding, KeySpan, Report, StateSeen, Verdict};
pub use state::{Registered, StateRow, StateTables, Thing, VoteRow};

/// Heads are asked for so many at a time.
const HEADS: usize = 256;

/// Nodes are asked for so many at a time.
const NODES: usize = 4096;

/// By so much the clocks of others may be ahead.
const SKEW: Duration = Duration::from_secs(300);

/// What is asked beyond the log itself.
pub struct Asked<'a> {
    /// Heads that were kept outside.
    pub anchors: Vec<OutsideHead>,
    /// How old the newest signature of a witness may be; without witnesses, the last event.
    pub max_age: Option<Duration>,
    /// Now.
    pub now: Timestamp,
    /// A case that must be there.
    pub case: Option<String>,
    /// The tables that must be what the log tells.
    pub state: Option<&'a dyn StateTables>,
}

impl Asked<'_> {
    /// Whether a moment is as fresh as was asked for. One that is yet to come would be fresh for ever: it is not.
    fn is_fresh(&self, at: Timestamp) -> bool {
        self.max_age
            .is_none_or(|age| at >= self.now.minus(age) && at <= self.now.plus(SKEW))
    }
}

/// Verifies a whole log, or a part of it with the whole tree.
///
/// # Errors
/// [`SourceError`] if it cannot be read, which says nothing about whether it is good.
pub fn verify(source: &(impl LogSource + ?Sized), trust: &TrustPolicy, asked: &Asked<'_>) -> Result<Report, SourceError> {
    pass::Pass::new(source, trust, asked).run()?.settled()
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the logs of these tests are short")]
mod tests;
