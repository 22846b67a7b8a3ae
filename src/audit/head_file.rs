//! The last head that was signed, kept outside the database: whoever can write to the database alone cannot take the log back.
//!
//! Two places of one file, written in turn and flushed, so that a write that is cut short leaves the other. It only ever grows: of several
//! processes the one that comes late with an older head changes nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::checkpoint::SignedHead;
use super::key::VerifierKey;

/// The room for one head, in bytes.
const SLOT: usize = 4096;

/// The file.
#[derive(Debug, Clone)]
pub struct HeadFile {
    path: PathBuf,
    /// What was written last by this handle: its signature need not be checked again.
    kept: Option<SignedHead>,
}

impl HeadFile {
    /// The file at this path, there or not.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self { path, kept: None }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The latest head in it that one of these keys has signed; `None` if there is no file.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or holds no head of this log.
    pub fn read(&self, keys: &[VerifierKey]) -> Result<Option<SignedHead>, String> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.told(&error)),
        };
        // Not while another process writes.
        file.lock_shared().map_err(|error| self.told(&error))?;
        let heads = slots(&file).map_err(|error| self.told(&error))?;
        match latest(heads, |head| head.signers(keys).is_ok()) {
            Some((_, head)) => Ok(Some(head)),
            None => Err(format!(
                "{} holds no head that a key of this log has signed: put the right file back, or see `writ store recover-log --help`",
                self.path.display()
            )),
        }
    }

    /// Every head in it, whoever signed it.
    ///
    /// # Errors
    /// A sentence: the file cannot be read.
    pub fn heads(&self) -> Result<Vec<SignedHead>, String> {
        let file = File::open(&self.path).map_err(|error| self.told(&error))?;
        file.lock_shared().map_err(|error| self.told(&error))?;
        let heads = slots(&file).map_err(|error| self.told(&error))?;
        Ok(heads.into_iter().flatten().collect())
    }

    /// Writes a head down and flushes it, unless a later one stands there. The head is one that the caller has signed or checked.
    ///
    /// # Errors
    /// A sentence with what the system said.
    pub fn keep(&mut self, head: &SignedHead, keys: &[VerifierKey]) -> Result<(), String> {
        let told = |error: io::Error| self.told(&error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o660);
        let file = options.open(&self.path).map_err(told)?;
        file.lock().map_err(told)?;
        let is_known = |standing: &SignedHead| standing == head || self.kept.as_ref() == Some(standing);
        let stands = latest(slots(&file).map_err(told)?, |standing| {
            is_known(standing) || standing.signers(keys).is_ok()
        });
        let slot = match stands {
            Some((_, standing))
                if standing.origin() == head.origin() && standing.size() == head.size() && standing.root() != head.root() =>
            {
                return Err(format!(
                    "{} holds another head of {} events: the log was forked; stop every process and repair nothing before it is looked at",
                    self.path.display(),
                    head.size()
                ));
            }
            Some((_, standing)) if standing.origin() == head.origin() && standing.size() >= head.size() => return Ok(()),
            Some((0, _)) => 1,
            _ => 0,
        };
        let mut bytes = head.text().as_bytes().to_vec();
        if bytes.len() > SLOT {
            return Err(format!("{}: a head of {} bytes finds no room", self.path.display(), bytes.len()));
        }
        bytes.resize(SLOT, 0);
        file.write_all_at(&bytes, offset(slot)).map_err(told)?;
        file.sync_data().map_err(told)?;
        self.kept = Some(head.clone());
        Ok(())
    }

    /// Puts this head in the place of whatever stands there: where a log goes on under another name.
    ///
    /// # Errors
    /// A sentence with what the system said.
    pub fn replace(&self, head: &SignedHead) -> Result<(), String> {
        let told = |error: io::Error| self.told(&error);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o660)
            .open(&self.path)
            .map_err(told)?;
        file.lock().map_err(told)?;
        let mut bytes = head.text().as_bytes().to_vec();
        bytes.resize(2 * SLOT, 0);
        file.write_all_at(&bytes, 0).map_err(told)?;
        file.sync_data().map_err(told)
    }

    fn told(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }
}

const fn offset(slot: usize) -> u64 {
    (slot * SLOT) as u64
}

fn slots(file: &File) -> io::Result<[Option<SignedHead>; 2]> {
    let read = |slot: usize| {
        let mut bytes = vec![0; SLOT];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, offset(slot) + filled as u64)? {
                0 => break,
                n => filled += n,
            }
        }
        let text = String::from_utf8(bytes).unwrap_or_default();
        io::Result::Ok(SignedHead::read(text.trim_end_matches('\0')).ok())
    };
    Ok([read(0)?, read(1)?])
}

/// The later of the good ones, and where it stands. The older is looked at only if the later is not good.
fn latest(heads: [Option<SignedHead>; 2], is_good: impl Fn(&SignedHead) -> bool) -> Option<(usize, SignedHead)> {
    let mut heads: Vec<(usize, SignedHead)> = heads
        .into_iter()
        .enumerate()
        .filter_map(|(slot, head)| Some((slot, head?)))
        .collect();
    heads.sort_by_key(|(_, head)| std::cmp::Reverse(head.size()));
    heads.into_iter().find(|(_, head)| is_good(head))
}
