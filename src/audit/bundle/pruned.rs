//! What a case's bundle brings where the case's first events were pruned: the event of the log that says so, and the receipts of that event and of
//! the last one that went, whose hash the first one that is there names.

use super::dir::Draft;
use super::write::{BundleError, checked, leaf_of, receipt};
use crate::audit::SignedHead;
use crate::audit::brief::{Brief, CaseChain};
use crate::audit::case::CasePruned;
use crate::audit::source::{LogSource, Page};
use crate::audit::tree::{Hash, leaf_hash};

/// The event that tells of it, as a line.
pub(crate) const TOLD: &str = "pruned.jsonl";

/// The receipt of the last of the case's events that went.
pub(crate) const BEFORE: &str = "proofs/before.tlog-proof";

/// The beginning of a case that was pruned.
pub(super) struct Beginning {
    pub(super) pruned: CasePruned,
    /// The case as it stood before the first event that is there.
    pub(super) chain: CaseChain,
    /// The number and the hash of the last event that went.
    last: (u64, Hash),
    told: Vec<u8>,
}

impl Beginning {
    /// Of the case with these events; `None` if it was not pruned, whether or not anything is missing.
    pub(super) fn of(source: &(impl LogSource + ?Sized), seqs: &[u64]) -> Result<Option<Self>, BundleError> {
        let Some(first) = seqs.first() else { return Ok(None) };
        let mut page = Page::default();
        let leaf = leaf_of(source, *first, &mut page)?.to_vec();
        let Some(place) = Brief::read(&leaf).ok().and_then(|event| event.case) else {
            return Ok(None);
        };
        let Some(before) = place.follows() else { return Ok(None) };
        let Some(gone) = source.gone(before)?.filter(|gone| gone.seq < *first) else {
            return Ok(None);
        };
        let told = leaf_of(source, gone.told, &mut page)?;
        let told = checked(source, gone.told, told)?.to_vec();
        let pruned = Brief::read(&told).ok().and_then(|event| CasePruned::told(&event, &place, gone.seq));
        Ok(pruned.map(|pruned| Self {
            pruned,
            chain: CaseChain::before(&place),
            last: (gone.seq, before),
            told,
        }))
    }

    /// The numbers of the events that the bundle has receipts of besides those of the case.
    pub(super) fn proven(&self) -> [u64; 2] {
        [self.last.0, self.pruned.seq]
    }

    /// Writes what shows it.
    pub(super) fn write(&self, source: &(impl LogSource + ?Sized), head: &SignedHead, draft: &mut Draft) -> Result<(), BundleError> {
        draft.write(TOLD, &[&self.told[..], b"\n"].concat())?;
        let told = receipt(source, head, self.pruned.seq, leaf_hash(&self.told))?;
        draft.write(&format!("proofs/{}.tlog-proof", self.pruned.seq), told.text().as_bytes())?;
        let (seq, leaf) = self.last;
        draft.write(BEFORE, receipt(source, head, seq, leaf)?.text().as_bytes())?;
        Ok(())
    }
}

/// What was pruned before the first of a case's events, as the log says.
///
/// # Errors
/// [`BundleError`]: the log cannot be read, or does not hold together.
pub fn pruned_before(source: &(impl LogSource + ?Sized), seqs: &[u64]) -> Result<Option<CasePruned>, BundleError> {
    Ok(Beginning::of(source, seqs)?.map(|beginning| beginning.pruned))
}
