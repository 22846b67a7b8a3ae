//! A log as whoever exports or verifies it reads it: everything of one moment, wherever it is kept.

use super::tree::{Hash, HashReader, Node, TreeError};
use crate::domain::time::Timestamp;

/// Why a log cannot be read: a sentence with the place and what to do. It says nothing about whether the log is good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// A head as it is kept, whoever put it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptHead {
    /// How many events it is filed under; what it says itself is in its text.
    pub size: u64,
    /// When it was made, where that is kept.
    pub at: Option<Timestamp>,
    /// Whether it is kept for good: where a key was replaced.
    pub kept: bool,
    /// The signed text.
    pub text: String,
}

/// An event whose bytes the log says were pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// Its number.
    pub seq: u64,
    /// The number of the event that tells of it.
    pub told: u64,
}

/// How many events a reader asks for at a time.
pub const PAGE: usize = 1024;

/// Some events in the order of their numbers, one after the other in one buffer that is used again.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    ends: Vec<(u64, usize)>,
}

impl Page {
    /// Forgets what is in it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds an event.
    pub fn push(&mut self, seq: u64, leaf: &[u8]) {
        self.bytes.extend_from_slice(leaf);
        self.ends.push((seq, self.bytes.len()));
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of the last one.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.ends.last().map(|(seq, _)| *seq)
    }

    /// The events with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let parts = starts.zip(&self.ends);
        parts.map(|(start, (seq, end))| (*seq, self.bytes.get(start..*end).unwrap_or_default()))
    }
}

/// A log, read at one moment. Nothing that it gives is believed.
pub trait LogSource {
    /// How many events it claims to have, those that were pruned included.
    ///
    /// # Errors
    /// [`SourceError`].
    fn size(&self) -> Result<u64, SourceError>;

    /// The first event that it means to hold, and the first that it does not: a part of a log has not lost the rest.
    ///
    /// # Errors
    /// [`SourceError`].
    fn held(&self) -> Result<(u64, u64), SourceError> {
        Ok((0, u64::MAX))
    }

    /// Whether it means to be the whole log, so that what it does not hold must have been pruned, and the log itself must say so.
    fn is_whole(&self) -> bool {
        false
    }

    /// Whether it keeps the nodes of this level; tiles keep every eighth.
    fn keeps_level(&self, _level: u8) -> bool {
        true
    }

    /// The latest head.
    ///
    /// # Errors
    /// [`SourceError`].
    fn latest(&self) -> Result<Option<KeptHead>, SourceError>;

    /// Up to `limit` heads that are filed under more than `above` events, smallest first; from the very first where `above` is `None`.
    ///
    /// # Errors
    /// [`SourceError`].
    fn heads(&self, above: Option<u64>, limit: usize) -> Result<Vec<KeptHead>, SourceError>;

    /// Fills the page with up to `limit` events that are there, from the number `from` on. An empty page is the end.
    ///
    /// # Errors
    /// [`SourceError`].
    fn leaves(&self, from: u64, limit: usize, page: &mut Page) -> Result<(), SourceError>;

    /// Up to `limit` nodes of the tree that are there, from the number `from` on, smallest number first.
    ///
    /// # Errors
    /// [`SourceError`].
    fn nodes(&self, from: u64, limit: usize) -> Result<Vec<Node>, SourceError>;

    /// The event with this leaf hash, if it is not there and the log says that it was pruned.
    ///
    /// # Errors
    /// [`SourceError`].
    fn gone(&self, _leaf: Hash) -> Result<Option<Gone>, SourceError> {
        Ok(None)
    }

    /// One node.
    ///
    /// # Errors
    /// [`SourceError`].
    fn node(&self, index: u64) -> Result<Option<Hash>, SourceError> {
        let found = self.nodes(index, 1)?;
        Ok(found.first().filter(|(i, _)| *i == index).map(|(_, hash)| *hash))
    }
}

/// The nodes of a source, for proofs.
pub struct Nodes<'a, S: ?Sized>(pub &'a S);

impl<S: LogSource + ?Sized> HashReader for Nodes<'_, S> {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, TreeError> {
        let each = indexes.iter().map(|index| {
            let found = self.0.node(*index).map_err(|_| TreeError::IndexesNotInTree)?;
            found.ok_or(TreeError::IndexesNotInTree)
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_back_each_event_with_its_number() {
        let mut page = Page::default();
        page.push(7, b"one");
        page.push(8, b"");
        page.push(9, b"three");
        let found: Vec<_> = page.iter().collect();
        assert_eq!(found, [(7, &b"one"[..]), (8, b""), (9, b"three")]);
        assert_eq!((page.len(), page.last()), (3, Some(9)));
        page.clear();
        assert!(page.is_empty() && page.iter().next().is_none());
    }
}
