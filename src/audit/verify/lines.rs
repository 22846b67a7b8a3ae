//! Verifying events that are nothing but lines of a file, by a head that came another way.

use std::path::Path;

use super::pass::Pass;
use super::report::Report;
use super::{Asked, SourceError, TrustPolicy};
use crate::audit::brief::Brief;
use crate::audit::bundle::lines::Lines;
use crate::audit::source::{KeptHead, LogSource, PAGE, Page};
use crate::audit::tree::Node;
use crate::audit::{Note, SignedHead, VerifierKey};

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
    let lines = Lines::of(path.to_owned(), 0);
    let (size, keys) = looked_through(&lines, trust).map_err(|error| match error {
        Looked::Source(error) => error,
        Looked::Later => told("it does not begin with the log's first event: verify the directory that it is in"),
    })?;
    let mut heads: Vec<&SignedHead> = asked.anchors.iter().flat_map(|anchor| anchor.heads()).collect();
    heads.sort_by_key(|head| std::cmp::Reverse(head.size()));
    // Whoever could write where the heads were kept could put larger ones there, which nobody signed.
    let signed = heads.iter().find(|head| head.signers(&keys).is_ok());
    let head = signed
        .or(heads.first())
        .ok_or_else(|| told("lines of events have no head of their own: name one with --against, or verify their directory"))?;
    let source = Headed {
        size,
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

/// Why lines are not verified.
enum Looked {
    Source(SourceError),
    /// They begin later in the log.
    Later,
}

/// How many lines there are, and the keys that may have signed heads over them: those that are trusted, and those that the lines name as
/// successors. Which of these are believed the pass tells.
fn looked_through(lines: &Lines, trust: &TrustPolicy) -> Result<(u64, Vec<VerifierKey>), Looked> {
    let (mut keys, mut page, mut next) = (trust.logs().to_vec(), Page::default(), 0);
    loop {
        lines.fill(next, PAGE, &mut page).map_err(Looked::Source)?;
        let Some(last) = page.last() else { return Ok((next, keys)) };
        for (n, leaf) in page.iter() {
            let Ok(event) = Brief::read(leaf) else { continue };
            if n == 0 && event.seq > 0 {
                return Err(Looked::Later);
            }
            let is_about_keys = [Note::LogKeyRotated, Note::LogRecovered]
                .iter()
                .any(|note| event.kind == note.as_str());
            let key = event.log.as_ref().filter(|_| is_about_keys).and_then(|log| log.key.parse().ok());
            keys.extend(key);
        }
        next = last + 1;
    }
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
