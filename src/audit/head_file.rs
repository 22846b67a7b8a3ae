//! The last head that was signed, kept outside the database: whoever can write to the database alone cannot take the log back.
//!
//! Two places of one file, written in turn and flushed, so that a write that is cut short leaves the other. It only ever grows: of several
//! processes the one that comes late with an older head changes nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::checkpoint::SignedHead;
use super::durable::sync_dir_of;
use super::files::owned_like;
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
        let file = self.locked().map_err(told)?;
        let is_new = file.metadata().map_err(told)?.len() == 0;
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
        file.write_all_at(&self.padded(head)?, offset(slot)).map_err(told)?;
        file.sync_data().map_err(told)?;
        if is_new {
            sync_dir_of(&self.path)?;
        }
        self.kept = Some(head.clone());
        Ok(())
    }

    /// Puts this head in the place of whatever stands there, at once: where a log goes on under another name. Whoever reads the file meanwhile, or after
    /// a power cut, finds what stood there or this head.
    ///
    /// # Errors
    /// A sentence with what the system said; then what stood there stands there still.
    pub fn replace(&self, head: &SignedHead) -> Result<(), String> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let beside = self.path.with_file_name(name);
        let told = |error: io::Error| format!("{}: {error}", beside.display());
        let mut bytes = self.padded(head)?;
        bytes.resize(2 * SLOT, 0);
        let standing = self.locked().map_err(|error| self.told(&error))?;
        let _none_was_left = std::fs::remove_file(&beside);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o660).open(&beside).map_err(told)?;
        let meta = standing.metadata().map_err(|error| self.told(&error))?;
        file.set_permissions(meta.permissions()).map_err(told)?;
        owned_like(&self.path, &meta, &beside)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(told)?;
        std::fs::rename(&beside, &self.path).map_err(told)?;
        sync_dir_of(&self.path)
    }

    /// The file, made if it is not there, while no other process writes to it.
    fn locked(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o660);
        loop {
            let file = options.open(&self.path)?;
            file.lock()?;
            let (own, now) = (file.metadata()?, std::fs::metadata(&self.path));
            // Another one was put in its place while this one was waited for.
            if now.is_ok_and(|now| (now.dev(), now.ino()) == (own.dev(), own.ino())) {
                return Ok(file);
            }
        }
    }

    /// A head's text, as long as its room.
    fn padded(&self, head: &SignedHead) -> Result<Vec<u8>, String> {
        let mut bytes = head.text().as_bytes().to_vec();
        if bytes.len() > SLOT {
            return Err(format!("{}: a head of {} bytes finds no room", self.path.display(), bytes.len()));
        }
        bytes.resize(SLOT, 0);
        Ok(bytes)
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::audit::LogKey;
    use crate::audit::tree::Hash;
    use crate::domain::clock::Entropy;

    struct Ones;

    impl Entropy for Ones {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(1);
        }
    }

    #[test]
    fn a_head_is_put_in_the_place_of_another_at_once_and_a_writer_that_waited_follows_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("writ.head");
        let key = |name: &str| LogKey::generate(&name.parse().unwrap(), &Ones).unwrap().0;
        let (old, new) = (key("a.example/log"), key("a.example/log/r2"));
        let known = [old.verifier().clone(), new.verifier().clone()];
        let head = |key: &LogKey, size| SignedHead::sign(size, Hash([7; 32]), &[key]).unwrap();
        let mut file = HeadFile::at(path.clone());
        file.keep(&head(&old, 4), &known).unwrap();
        file.keep(&head(&old, 5), &known).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let (mut reader, mut before) = (File::open(&path).unwrap(), Vec::new());
        let stood = std::fs::read(&path).unwrap();
        file.replace(&head(&new, 3)).unwrap();
        reader.read_to_end(&mut before).unwrap();
        assert_eq!(before, stood, "whoever had it open reads what stood there, as a whole");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(file.heads().unwrap(), [head(&new, 3)], "nothing of the old one is left");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        // A process that waits for the old file writes to the new one.
        let standing = file.locked().unwrap();
        let (known_too, path_too, next) = (known.clone(), path.clone(), head(&new, 6));
        let waits = std::thread::spawn(move || HeadFile::at(path_too).keep(&next, &known_too));
        let aside = dir.path().join("aside");
        std::fs::copy(&path, &aside).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        drop(standing);
        waits.join().unwrap().unwrap();
        assert_eq!(file.read(&known).unwrap(), Some(head(&new, 6)));
    }
}
