//! Events as lines of a file: each line is the exact bytes of one.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use crate::audit::source::{Page, SourceError};

/// The longest line that is read: what is longer is no event.
const LONGEST: u64 = 1 << 20;

/// A page is full with so many bytes, however few its lines are.
const FULL: usize = 16 << 20;

/// A file of lines, read from one end to the other. Asked for what it has passed, it begins anew. A line that is too long is given as far as it was
/// read, which is no event that anybody has signed, and is the last.
pub(crate) struct Lines {
    path: PathBuf,
    /// The number of the first line's event.
    first: u64,
    open: RefCell<Option<Open>>,
}

struct Open {
    reader: BufReader<File>,
    next: u64,
    line: Vec<u8>,
    is_over: bool,
}

impl Lines {
    /// The lines of this file, the first of which is the event `first`.
    pub(crate) const fn of(path: PathBuf, first: u64) -> Self {
        Self {
            path,
            first,
            open: RefCell::new(None),
        }
    }

    fn begun(&self) -> Result<Open, SourceError> {
        let file = File::open(&self.path).map_err(|error| self.told(&error))?;
        Ok(Open {
            reader: BufReader::with_capacity(1 << 18, file),
            next: self.first,
            line: Vec::new(),
            is_over: false,
        })
    }

    /// Reads the next line, without its end.
    fn line(&self, open: &mut Open) -> Result<bool, SourceError> {
        use std::io::Read as _;
        open.line.clear();
        if open.is_over {
            return Ok(false);
        }
        let mut limited = (&mut open.reader).take(LONGEST);
        limited.read_until(b'\n', &mut open.line).map_err(|error| self.told(&error))?;
        open.is_over = open.line.len() as u64 >= LONGEST;
        if open.line.last() == Some(&b'\n') {
            open.line.pop();
        } else if open.line.is_empty() {
            return Ok(false);
        }
        let Some(next) = open.next.checked_add(1) else { return Ok(false) };
        open.next = next;
        Ok(true)
    }

    /// Fills the page with up to `limit` events from this number on.
    pub(crate) fn fill(&self, from: u64, limit: usize, page: &mut Page) -> Result<(), SourceError> {
        page.clear();
        let mut kept = self.open.borrow_mut();
        let mut open = match kept.take() {
            Some(open) if open.next <= from => open,
            _ => self.begun()?,
        };
        let mut filled = 0;
        while page.len() < limit && filled < FULL && self.line(&mut open)? {
            let seq = open.next - 1;
            if seq >= from {
                filled += open.line.len();
                page.push(seq, &open.line);
            }
        }
        *kept = Some(open);
        Ok(())
    }

    fn told(&self, why: &dyn std::fmt::Display) -> SourceError {
        SourceError(format!("{}: {why}", self.path.display()))
    }
}
