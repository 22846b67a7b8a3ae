//! What of a stored event a verifier looks at, borrowed from its bytes: the rest is covered by its hash.

use std::borrow::Cow;

use serde::Deserialize;

use super::event::Event;
use super::tree::Hash;
use crate::domain::digest::Digest;

/// Text of an event. What the program writes there has nothing to unescape, but other people's texts may.
pub(crate) type Text<'e> = Cow<'e, str>;

/// An event, in part.
#[derive(Debug, Deserialize)]
pub(crate) struct Brief<'e> {
    pub(crate) v: u64,
    pub(crate) seq: u64,
    #[serde(borrow)]
    pub(crate) time: Text<'e>,
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Text<'e>,
    #[serde(borrow, default)]
    pub(crate) origin: Option<Text<'e>>,
    #[serde(borrow, default)]
    pub(crate) writer: Option<WriterMark<'e>>,
    #[serde(borrow, default)]
    pub(crate) case: Option<CaseMark<'e>>,
    #[serde(borrow, default)]
    pub(crate) tenant: Option<Text<'e>>,
    #[serde(borrow, default)]
    pub(crate) case_id: Option<Text<'e>>,
    #[serde(borrow, default)]
    pub(crate) log: Option<LogMark<'e>>,
    #[serde(borrow, default)]
    pub(crate) pruned: Option<PrunedMark<'e>>,
}

/// What it says of the log itself.
#[derive(Debug, Deserialize)]
pub(crate) struct LogMark<'e> {
    /// The key that signs from here on.
    #[serde(borrow)]
    pub(crate) key: Text<'e>,
}

/// What was pruned.
#[derive(Debug, Deserialize)]
pub(crate) struct PrunedMark<'e> {
    #[serde(default)]
    pub(crate) from: u64,
    pub(crate) to: u64,
    #[serde(borrow)]
    pub(crate) root: Text<'e>,
    #[serde(borrow, default)]
    pub(crate) bundle_sha256: Text<'e>,
}

/// Which process wrote it.
#[derive(Debug, Deserialize)]
pub(crate) struct WriterMark<'e> {
    #[serde(borrow)]
    pub(crate) id: Text<'e>,
    pub(crate) n: u64,
}

/// Its place in its case.
#[derive(Debug, Deserialize)]
pub(crate) struct CaseMark<'e> {
    pub(crate) n: u64,
    #[serde(borrow, default)]
    pub(crate) previous: Option<Text<'e>>,
}

/// The version of an event, whatever else is in it.
#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// The version that these bytes claim, if it is one that this program does not know.
pub(crate) fn newer(leaf: &[u8]) -> Option<u64> {
    let found = serde_json::from_slice::<Version>(leaf).ok()?;
    (found.v > u64::from(Event::VERSION)).then_some(found.v)
}

impl CaseMark<'_> {
    /// The hash of the event of its case that it says stands before it.
    pub(crate) fn follows(&self) -> Option<Hash> {
        let digest = self.previous.as_deref().and_then(Digest::parse)?;
        Some(Hash(*digest.as_bytes()))
    }
}

impl<'e> Brief<'e> {
    /// Reads an event's bytes.
    pub(crate) fn read(leaf: &'e [u8]) -> Result<Self, String> {
        serde_json::from_slice(leaf).map_err(|error| format!("it is no event of this program: {error}"))
    }
}

/// The events of one case, one after the other: each names its number and the hash of the one before. It begins with the case's first event
/// ([`CaseChain::default`]), or after events that somebody has shown to be pruned ([`CaseChain::before`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CaseChain {
    n: u64,
    last: [u8; 32],
}

impl CaseChain {
    /// As it stood before the event of this place, where what came before is not there.
    pub(crate) fn before(place: &CaseMark<'_>) -> Self {
        Self {
            n: place.n.saturating_sub(1),
            last: place.follows().map_or([0; 32], |hash| hash.0),
        }
    }

    /// Which of its case's events the next one must be.
    pub(crate) const fn due(&self) -> u64 {
        self.n + 1
    }

    /// Takes the next event. Events from before there were places have none; the first one with a place follows the last of them.
    pub(crate) fn next(&mut self, place: Option<&CaseMark<'_>>, leaf: Hash) -> Result<(), String> {
        let before = std::mem::replace(self, Self { n: self.n, last: leaf.0 });
        let Some(place) = place else {
            return match before.n {
                0 => Ok(()),
                n => Err(format!("it has no place in its case, which has {n} events before it")),
            };
        };
        self.n = place.n;
        if before.n.checked_add(1) != Some(place.n) {
            return Err(format!(
                "it is number {} of its case and follows number {}: events of the case are missing between them",
                place.n, before.n
            ));
        }
        let is_first = before == Self::default();
        let named = place.previous.as_deref();
        let expected = (!is_first).then(|| Digest::from_bytes(before.last).to_string());
        if named == expected.as_deref() {
            Ok(())
        } else {
            Err("it does not name the event of its case that stands before it".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(n: u64, previous: Option<[u8; 32]>) -> CaseMark<'static> {
        CaseMark {
            n,
            previous: previous.map(|hash| Digest::from_bytes(hash).to_string().into()),
        }
    }

    #[test]
    fn a_gap_and_another_predecessor_show_in_a_case() {
        let hash = |n: u8| Hash([n; 32]);
        let mut chain = CaseChain::default();
        assert!(chain.next(Some(&place(1, None)), hash(1)).is_ok());
        assert!(chain.next(Some(&place(2, Some([1; 32]))), hash(2)).is_ok());
        let (mut gap, mut other, mut none) = (chain, chain, chain);
        assert!(gap.next(Some(&place(4, Some([2; 32]))), hash(4)).unwrap_err().contains("missing"));
        assert!(
            other
                .next(Some(&place(3, Some([1; 32]))), hash(3))
                .unwrap_err()
                .contains("before it")
        );
        assert!(none.next(None, hash(3)).is_err());
        assert!(CaseChain::default().next(Some(&place(2, Some([1; 32]))), hash(2)).is_err());
        assert!(CaseChain::default().next(Some(&place(1, Some([1; 32]))), hash(1)).is_err());
    }

    #[test]
    fn a_case_may_begin_before_there_were_places() {
        let mut chain = CaseChain::default();
        assert!(chain.next(None, Hash([1; 32])).is_ok());
        assert!(chain.next(None, Hash([2; 32])).is_ok());
        assert!(chain.next(Some(&place(1, Some([2; 32]))), Hash([3; 32])).is_ok());
        assert_eq!(chain.n, 1);
    }
}
