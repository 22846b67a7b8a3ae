//! Verifying events that are nothing but lines of a file, by a head that came another way.

use std::path::Path;

use super::pass::Pass;
use super::report::Report;
use super::{Asked, SourceError, TrustPolicy};
use crate::audit::SignedHead;
use crate::audit::brief::Brief;
use crate::audit::bundle::lines::Lines;
use crate::audit::source::{KeptHead, LogSource, Page};
use crate::audit::tree::Node;

/// The lines and the head over them.
struct Headed {
    lines: Lines,
    size: u64,
    head: KeptHead,
}

/// Verifies the lines of a file, from the log's first event on, by the largest of the heads from outside.
///
/// # Errors
/// [`SourceError`] if it cannot be read, there is no head to compare it with, or it does not begin with the first event.
pub fn verify_lines(path: &Path, trust: &TrustPolicy, asked: &Asked<'_>) -> Result<Report, SourceError> {
    let told = |why: &str| SourceError(format!("{}: {why}", path.display()));
    let largest = asked.anchors.iter().map(|anchor| &anchor.head).max_by_key(|head| head.size());
    let head: &SignedHead =
        largest.ok_or_else(|| told("lines of events have no head of their own: name one with --against, or verify their directory"))?;
    let lines = Lines::of(path.to_owned(), 0);
    let mut page = Page::default();
    lines.fill(0, 1, &mut page)?;
    let first = page
        .iter()
        .next()
        .and_then(|(_, leaf)| Brief::read(leaf).ok())
        .map(|event| event.seq);
    if first.is_some_and(|first| first > 0) {
        return Err(told(
            "it does not begin with the log's first event: verify the directory that it is in",
        ));
    }
    let source = Headed {
        size: Lines::count(path)?,
        head: KeptHead {
            size: head.size(),
            at: None,
            kept: true,
            text: head.text().to_owned(),
        },
        lines,
    };
    Pass::new(&source, trust, asked).run()?.settled()
}

impl LogSource for Headed {
    fn size(&self) -> Result<u64, SourceError> {
        Ok(self.size)
    }

    fn keeps_level(&self, _level: u8) -> bool {
        false
    }

    fn latest(&self) -> Result<Option<KeptHead>, SourceError> {
        Ok(Some(self.head.clone()))
    }

    fn heads(&self, above: Option<u64>, _limit: usize) -> Result<Vec<KeptHead>, SourceError> {
        let is_due = above.is_none_or(|above| self.head.size > above);
        Ok(is_due.then(|| self.head.clone()).into_iter().collect())
    }

    fn leaves(&self, from: u64, limit: usize, page: &mut Page) -> Result<(), SourceError> {
        self.lines.fill(from, limit, page)
    }

    fn nodes(&self, _from: u64, _limit: usize) -> Result<Vec<Node>, SourceError> {
        Ok(Vec::new())
    }
}
