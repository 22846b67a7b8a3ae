//! The audit log: whatever is done to it behind the program's back is found, and what an operator may do to it keeps every proof.
//!
//! What harms a log is done to copies of a throw-away deployment's own. A live log is asked for nothing but what it shows to everybody.

mod altered;
mod copy;
mod live;
mod past;
mod proven;
mod retention;
mod tamper;

pub(super) use altered::altered;
pub(super) use live::{consistent, head, receipt};
pub(super) use past::{rolled_back, truncated};
pub(super) use retention::{held, pruned};
