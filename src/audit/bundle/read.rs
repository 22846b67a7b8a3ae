//! Reading a bundle, or any directory in the layout of C2SP tlog-tiles.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tlog_tiles::tlog::{node_hash, split_stored_hash_index, stored_hash_count};

use super::layout::{self, Tile, WIDTH};
use super::lines::Lines;
use super::manifest::{Manifest, What};
use crate::audit::SignedHead;
use crate::audit::source::{KeptHead, LogSource, Page, SourceError};
use crate::audit::tree::{Hash, MAX_SIZE, Node};

/// The longest file that is read whole: the longest tile of events has 256 of them of at most 64 KiB.
pub(super) const LARGEST: u64 = (16 << 20) + 512;

/// The longest list of files.
const LARGEST_LIST: u64 = 256 << 20;

/// A directory that is read.
pub struct Bundle {
    dir: PathBuf,
    /// The list of files, if there is one that can be read.
    manifest: Option<Manifest>,
    head: KeptHead,
    older: Vec<u64>,
    lines: Option<Lines>,
    /// The tiles of events that are there.
    entries: BTreeSet<u64>,
    tiles: RefCell<BTreeMap<u8, (u64, Vec<u8>)>>,
}

impl Bundle {
    /// Opens a directory with a `checkpoint` in it.
    ///
    /// # Errors
    /// [`SourceError`] if there is none.
    pub fn open(dir: &Path) -> Result<Self, SourceError> {
        let told = |path: &Path, why: &dyn std::fmt::Display| SourceError(format!("{}: {why}", path.display()));
        let bytes =
            read(&dir.join("checkpoint"), LARGEST)?.ok_or_else(|| told(dir, &"there is no `checkpoint` in it, so it is no bundle"))?;
        let manifest = read(&dir.join(Manifest::FILE), LARGEST_LIST)?.and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // Whether it is good is for the verifier to say; until then its size is what the files are looked up by.
        let size = SignedHead::read(&text).map_or_else(|_| manifest.as_ref().map_or(0, |list| list.size), |head| head.size());
        // Whoever signed it: there is no such log, and nothing is looked up by a number that has no files.
        let size = if size > MAX_SIZE { 0 } else { size };
        let lines = dir.join("events.jsonl");
        let first = match manifest.as_ref().map(|list| &list.what) {
            Some(What::Range { first, .. } | What::Time { first, .. }) => *first,
            Some(What::Case { .. }) | None => 0,
        };
        Ok(Self {
            older: older(dir)?,
            lines: is_file(&lines).then(|| Lines::of(lines, first)),
            entries: layout::entries_below(&dir.join("tile/entries"), size)?,
            dir: dir.to_owned(),
            manifest,
            head: KeptHead {
                size,
                at: None,
                kept: false,
                text,
            },
            tiles: RefCell::default(),
        })
    }

    /// Its list of files.
    #[must_use]
    pub const fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Whether it should have a list of files and has none that can be read.
    pub(crate) fn lacks_manifest(&self) -> bool {
        self.manifest.is_none()
            && [Manifest::FILE, Manifest::SUM]
                .iter()
                .any(|file| self.dir.join(file).symlink_metadata().is_ok())
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The bytes of a file of it, if it is one that a bundle may have there.
    pub(crate) fn file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        read(&self.dir.join(path), LARGEST)
    }

    /// The bytes of its list of files.
    pub(crate) fn list(&self) -> Result<Option<Vec<u8>>, SourceError> {
        read(&self.dir.join(Manifest::FILE), LARGEST_LIST)
    }

    /// The events as lines, if it has them.
    pub(crate) const fn lines(&self) -> Option<&Lines> {
        self.lines.as_ref()
    }

    /// The tiles of events that it has, by their numbers.
    pub(crate) fn entries(&self, n: u64) -> Result<Option<Vec<Vec<u8>>>, SourceError> {
        let width = WIDTH.min(self.head.size.saturating_sub(n * WIDTH));
        let path = layout::entries_path(n, width);
        let Some(bytes) = self.file(&path)? else { return Ok(None) };
        let mut rest = bytes.as_slice();
        let mut found = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some((entry, after)) = after.split_at_checked(length) else {
                break;
            };
            found.push(entry.to_vec());
            rest = after;
        }
        // What does not come out even is not what was written: the verifier misses the rest.
        Ok(Some(found))
    }

    /// One hash of any level, made of those below it where the tiles do not have it.
    fn joined(&self, level: u8, n: u64) -> Result<Option<Hash>, SourceError> {
        if level.is_multiple_of(8) {
            return self.hash(level / 8, n);
        }
        let (left, right) = (self.joined(level - 1, 2 * n)?, self.joined(level - 1, 2 * n + 1)?);
        Ok(left.zip(right).map(|(left, right)| node_hash(left, right)))
    }

    /// One hash of a stored level.
    fn hash(&self, level: u8, n: u64) -> Result<Option<Hash>, SourceError> {
        let count = self.head.size.checked_shr(8 * u32::from(level)).unwrap_or(0);
        if n >= count {
            return Ok(None);
        }
        let number = n / WIDTH;
        let mut tiles = self.tiles.borrow_mut();
        if tiles.get(&level).is_none_or(|(held, _)| *held != number) {
            let width = WIDTH.min(count - number * WIDTH);
            let tile = Tile { level, n: number, width };
            let bytes = self.file(&tile.path())?.unwrap_or_default();
            tiles.insert(level, (number, bytes));
        }
        let at = usize::try_from((n % WIDTH) * 32).unwrap_or(usize::MAX);
        let bytes = tiles.get(&level).map_or(&[][..], |(_, bytes)| bytes);
        let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<32>());
        Ok(found.map(|hash| Hash(*hash)))
    }
}

/// Whether it is a file itself: a link leads out of what is verified, and a pipe or a device has no end.
pub(super) fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// A file's bytes; `None` if there is none of at most so many bytes. What else stands in its place the comparison with the list tells.
fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, SourceError> {
    if !is_file(path) {
        return Ok(None);
    }
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok((bytes.len() as u64 <= limit).then_some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SourceError(format!("{}: {error}", path.display()))),
    }
}

/// The sizes of the older heads in it.
fn older(dir: &Path) -> Result<Vec<u64>, SourceError> {
    let dir = dir.join("old-checkpoints");
    let told = |error: std::io::Error| SourceError(format!("{}: {error}", dir.display()));
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(told(error)),
    };
    let mut sizes = Vec::new();
    for entry in entries {
        let name = entry.map_err(told)?.file_name();
        sizes.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    sizes.sort_unstable();
    Ok(sizes)
}

impl LogSource for Bundle {
    fn size(&self) -> Result<u64, SourceError> {
        Ok(self.head.size)
    }

    fn held(&self) -> Result<(u64, u64), SourceError> {
        Ok(match self.manifest.as_ref().map(|list| &list.what) {
            Some(What::Range { first, last } | What::Time { first, last, .. }) => (*first, last.saturating_add(1)),
            Some(What::Case { .. }) | None => (0, u64::MAX),
        })
    }

    fn keeps_level(&self, level: u8) -> bool {
        level.is_multiple_of(8)
    }

    fn latest(&self) -> Result<Option<KeptHead>, SourceError> {
        Ok(Some(self.head.clone()))
    }

    fn heads(&self, above: Option<u64>, limit: usize) -> Result<Vec<KeptHead>, SourceError> {
        let mut found = Vec::new();
        let is_due = |size: &&u64| above.is_none_or(|above| **size > above);
        for size in self.older.iter().filter(is_due).filter(|size| **size != self.head.size).take(limit) {
            let bytes = self.file(&format!("old-checkpoints/{size}"))?.unwrap_or_default();
            found.push(KeptHead {
                size: *size,
                at: None,
                kept: true,
                text: String::from_utf8_lossy(&bytes).into_owned(),
            });
        }
        if found.len() < limit && is_due(&&self.head.size) {
            found.push(self.head.clone());
            found.sort_by_key(|head| head.size);
        }
        Ok(found)
    }

    fn leaves(&self, from: u64, limit: usize, page: &mut Page) -> Result<(), SourceError> {
        if let Some(lines) = &self.lines {
            return lines.fill(from, limit, page);
        }
        page.clear();
        // The next tile that is there, so that a gap shows as one.
        for n in self.entries.range(from / WIDTH..).copied() {
            if page.len() >= limit {
                break;
            }
            let found = self.entries(n)?.unwrap_or_default();
            for (seq, leaf) in (n * WIDTH..).zip(&found) {
                if seq >= from && page.len() < limit {
                    page.push(seq, leaf);
                }
            }
        }
        Ok(())
    }

    fn nodes(&self, from: u64, limit: usize) -> Result<Vec<Node>, SourceError> {
        let mut found = Vec::new();
        for index in from..stored_hash_count(self.head.size) {
            let (level, n) = split_stored_hash_index(index);
            if !level.is_multiple_of(8) {
                continue;
            }
            // Nothing goes on after a hole: the size that is counted to may be one that nobody has signed.
            let Some(hash) = self.hash(level / 8, n)? else { break };
            found.push((index, hash));
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    fn node(&self, index: u64) -> Result<Option<Hash>, SourceError> {
        if index >= stored_hash_count(self.head.size) {
            return Ok(None);
        }
        let (level, n) = split_stored_hash_index(index);
        self.joined(level, n)
    }
}
