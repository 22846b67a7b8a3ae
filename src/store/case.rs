//! Whether the events of a support case are all there, but for those that the log says were pruned.

use super::log::EventRef;
use super::record::StoredEvent;
use super::{Store, StoreError};
use crate::audit::{CaseEvents, CaseGap, CasePruned};
use crate::domain::digest::Digest;

/// What is not there of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaseLook {
    /// Where its events do not follow each other: an alarm.
    pub gaps: Vec<CaseGap>,
    /// What was pruned before the first one that is there; for each tenant with a case of this name.
    pub pruned: Vec<CasePruned>,
}

/// Looks at the events of a case, from the first one that is there.
///
/// # Errors
/// What the store says; [`StoreError::Corrupt`] if what tells of the pruning is not what the tree has.
pub async fn look_at_case(store: &dyn Store, events: &[StoredEvent]) -> Result<CaseLook, StoreError> {
    let mut look = CaseLook::default();
    for own in CaseEvents::of_each_tenant(events.iter().map(|event| (event.seq, event.bytes.as_slice()))) {
        let told = match own.follows() {
            Some(leaf) => store.receipt(EventRef::Pruned(Digest::from_bytes(leaf.0))).await?,
            None => None,
        };
        let pruned = told.and_then(|told| own.pruned(&told.event.bytes));
        look.gaps.extend(own.gaps(pruned.as_ref()));
        look.pruned.extend(pruned);
    }
    look.gaps.sort_unstable_by_key(|gap| gap.seq);
    Ok(look)
}
