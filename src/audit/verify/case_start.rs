//! Where a case's bundle may begin: with the case's first event, or after events that the log itself says were pruned.

use super::SourceError;
use super::range::of_leaf;
use super::report::{Fault, Report};
use crate::audit::brief::{Brief, CaseChain};
use crate::audit::bundle::{BEFORE, Bundle, TOLD};
use crate::audit::case::CasePruned;
use crate::audit::tree::{Hash, check_inclusion};
use crate::audit::{Receipt, SignedHead};

/// The case as it stood before the first event of the bundle. It has a beginning that was pruned only if two receipts show it: that the event which
/// the first one names is in the log, and that a later event of the log says that it was pruned.
pub(super) fn start(bundle: &Bundle, head: &SignedHead, first: &Brief<'_>, report: &mut Report) -> Result<CaseChain, SourceError> {
    let place = first.case.as_ref();
    let (Some(place), Some(before)) = (place, place.and_then(|place| place.follows())) else {
        return Ok(CaseChain::default());
    };
    let Some(told) = bundle.file(TOLD)? else {
        // The chain says that something is missing.
        return Ok(CaseChain::default());
    };
    let told = told.strip_suffix(b"\n").unwrap_or(&told);
    let event = match Brief::read(told) {
        Ok(event) => event,
        Err(why) => {
            report.find(Fault::Tampered, format!("{TOLD}: {why}"));
            return Ok(CaseChain::default());
        }
    };
    let own = proven(
        bundle,
        head,
        &format!("proofs/{}.tlog-proof", event.seq),
        Hash(of_leaf(told)),
        report,
    )?;
    let gone = proven(bundle, head, BEFORE, before, report)?;
    let (Some(own), Some(gone)) = (own, gone) else {
        return Ok(CaseChain::default());
    };
    match CasePruned::told(&event, place, gone) {
        Some(pruned) if own == event.seq && gone < first.seq => {
            report.pruned = Some(pruned.to.saturating_add(1));
            Ok(CaseChain::before(place))
        }
        _ => {
            let what = format!(
                "{TOLD} does not say that event {gone} was pruned, which event {} follows in its case",
                first.seq
            );
            report.find(Fault::Tampered, what);
            Ok(CaseChain::default())
        }
    }
}

/// The number of the event with this hash, by the receipt in this file.
fn proven(bundle: &Bundle, head: &SignedHead, path: &str, leaf: Hash, report: &mut Report) -> Result<Option<u64>, SourceError> {
    let Some(text) = bundle.file(path)? else {
        report.find(Fault::Incomplete, format!("{path} is missing"));
        return Ok(None);
    };
    let receipt = Receipt::read(&String::from_utf8_lossy(&text))
        .ok()
        .filter(|receipt| receipt.head == *head);
    let proven = receipt.filter(|found| check_inclusion(&found.proof, head.size(), head.root(), found.index, leaf).is_ok());
    if proven.is_none() {
        report.find(Fault::Tampered, format!("{path} does not show what was pruned to be in the log"));
    }
    Ok(proven.map(|receipt| receipt.index))
}
