//! Anchors: heads of the log that somebody kept outside it.

use std::path::Path;

use super::epochs::Epochs;
use super::report::{Anchor, Fault, Report};
use crate::audit::source::SourceError;
use crate::audit::tree::Hash;
use crate::audit::{HeadFile, Receipt, SignedHead, heads_in_lines};

/// The longest head file: two places of 4096 bytes.
const HEAD_FILE: usize = 8192;

/// Heads from one place outside. Anybody may have written into it: one that no key of the log has signed counts only if there is no other.
#[derive(Debug, Clone)]
pub struct OutsideHead {
    /// Where they come from.
    pub from: String,
    /// The heads, largest first.
    heads: Vec<SignedHead>,
}

impl OutsideHead {
    /// These heads.
    #[must_use]
    pub fn new(from: String, mut heads: Vec<SignedHead>) -> Self {
        heads.sort_by(|a, b| b.size().cmp(&a.size()).then_with(|| a.text().cmp(b.text())));
        heads.dedup();
        Self { from, heads }
    }

    /// Reads a checkpoint, a receipt, the head file of a log, the checkpoint of a directory, or the head lines that a process printed.
    ///
    /// # Errors
    /// [`SourceError`] if there is no head in it.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let told = |why: &dyn std::fmt::Display| SourceError(format!("{}: {why}", path.display()));
        let file = if path.is_dir() { path.join("checkpoint") } else { path.to_owned() };
        let bytes = std::fs::read(&file).map_err(|error| told(&error))?;
        let from = path.display().to_string();
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let whole = Receipt::read(text).map(|receipt| receipt.head).ok();
            if let Some(head) = whole.or_else(|| SignedHead::read(text).ok()) {
                return Ok(Self::new(from, vec![head]));
            }
        }
        let mut heads = Vec::new();
        if bytes.contains(&0) && bytes.len() <= HEAD_FILE {
            heads.extend(HeadFile::at(file).heads().map_err(SourceError)?);
        }
        match heads_in_lines(&bytes) {
            Ok(found) => heads.extend(found),
            Err(error) if heads.is_empty() => return Err(told(&error)),
            Err(_) => {}
        }
        if heads.is_empty() {
            return Err(told(
                &"it holds no head of a log: name a checkpoint, a receipt, a head file, a bundle, or the lines that a broker printed",
            ));
        }
        Ok(Self::new(from, heads))
    }

    /// The heads, largest first.
    pub(super) fn heads(&self) -> &[SignedHead] {
        &self.heads
    }

    /// Compares them with a log, of which `root` tells what it was at a size; what it does not know, `unknown` judges. Of those that are signed
    /// each must be of this history, and the largest is what the log is anchored by.
    pub(super) fn compare(
        &self,
        epochs: &Epochs,
        root: impl Fn(u64) -> Option<Hash>,
        unknown: impl Fn(u64) -> (Fault, String),
        report: &mut Report,
    ) {
        let from = &self.from;
        let (mut anchor, mut refused, mut is_seen) = (None, None, false);
        for head in &self.heads {
            let size = head.size();
            let there = root(size);
            let is_same = there.is_some_and(|there| there == head.root());
            // A smaller one of the same history says nothing new, whoever signed it.
            if is_same && is_seen {
                continue;
            }
            match epochs.vouch(head) {
                Ok(()) if is_same => {
                    is_seen = true;
                    // Every log begins with no events: that shows nothing of this one.
                    anchor = anchor.or((size > 0).then_some(size));
                }
                Ok(()) if there.is_none() => {
                    let (fault, why) = unknown(size);
                    return report.find(fault, why);
                }
                Ok(()) => {
                    let why = format!("{from} shows another history of the first {size} events: it was rewritten");
                    return report.find(Fault::RolledBack, why);
                }
                Err((fault, why)) if epochs.is_signed(head) => return report.find(fault, format!("{from}: {why}")),
                Err(found) => {
                    refused.get_or_insert(found);
                }
            }
        }
        if let (false, Some((fault, why))) = (is_seen, refused) {
            return report.find(fault, format!("{from}: {why}"));
        }
        report.anchors.extend(anchor.map(|size| Anchor {
            what: from.clone(),
            size,
            at: None,
        }));
    }
}
