//! The events that are to be exported, each checked against the signed head before it is given out.

use super::Entry;
use crate::audit::bundle::{BundleError, What, missing, sound_head};
use crate::audit::source::{LogSource, Nodes, PAGE, Page};
use crate::audit::tree::{Hash, check_inclusion, prove_inclusion};
use crate::audit::{SignedHead, VerifierKey};

/// Gives out each of the events in order, and answers with the head that covers them and their number. `seqs` are the numbers of a case's events.
/// The head must be signed by one of `keys`; where there are none, whoever gets the events must be told that nobody looked.
///
/// # Errors
/// [`BundleError`]: the log does not hold together, an event is missing, or `take` refused one.
pub fn each(
    source: &(impl LogSource + ?Sized),
    what: &What,
    seqs: &[u64],
    keys: &[VerifierKey],
    mut take: impl FnMut(&SignedHead, Entry) -> Result<(), String>,
) -> Result<(SignedHead, u64), BundleError> {
    let head = sound_head(source, keys)?;
    let mut count = 0;
    let mut page = Page::default();
    let mut give = |seq: u64, leaf: &[u8]| -> Result<(), BundleError> {
        let entry = Entry::of(seq, leaf.to_vec());
        let (size, root) = (head.size(), head.root());
        let proven =
            prove_inclusion(size, seq, &Nodes(source)).and_then(|proof| check_inclusion(&proof, size, root, seq, Hash(entry.leaf_hash)));
        proven.map_err(|_| BundleError::Unsound(format!("event {seq} is not the one that its head covers")))?;
        count += 1;
        take(&head, entry).map_err(BundleError::Write)
    };
    match what {
        What::Case { .. } => {
            for seq in seqs {
                source.leaves(*seq, 1, &mut page)?;
                let found = page.iter().find(|(found, _)| found == seq);
                let (seq, leaf) = found.ok_or_else(|| missing(source, *seq))?;
                give(seq, leaf)?;
            }
        }
        What::Range { first, last } | What::Time { first, last, .. } => {
            let mut next = *first;
            while next <= *last {
                source.leaves(next, PAGE, &mut page)?;
                if page.iter().next().is_none_or(|(seq, _)| seq != next) {
                    return Err(missing(source, next));
                }
                for (seq, leaf) in page.iter().take_while(|(seq, _)| seq <= last) {
                    if seq != next {
                        return Err(missing(source, next));
                    }
                    give(seq, leaf)?;
                    next += 1;
                }
            }
        }
    }
    Ok((head, count))
}
