//! Reading a bundle, or any directory in the layout of C2SP tlog-tiles.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tlog_tiles::tlog::{split_stored_hash_index, stored_hash_count};

use super::layout::{self, Tile, WIDTH};
use super::lines::Lines;
use super::manifest::{Manifest, What};
use crate::audit::SignedHead;
use crate::audit::source::{KeptHead, LogSource, Page, SourceError};
use crate::audit::tree::{Hash, Node};

/// A directory that is read.
pub struct Bundle {
    dir: PathBuf,
    /// The list of files, if there is one that can be read.
    manifest: Option<Manifest>,
    head: KeptHead,
    older: Vec<u64>,
    lines: Option<Lines>,
    tiles: RefCell<BTreeMap<u8, (u64, Vec<u8>)>>,
}

impl Bundle {
    /// Opens a directory with a `checkpoint` in it.
    ///
    /// # Errors
    /// [`SourceError`] if there is none.
    pub fn open(dir: &Path) -> Result<Self, SourceError> {
        let told = |path: &Path, why: &dyn std::fmt::Display| SourceError(format!("{}: {why}", path.display()));
        let checkpoint = dir.join("checkpoint");
        let bytes = std::fs::read(&checkpoint).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => told(dir, &"there is no `checkpoint` in it, so it is no bundle"),
            _ => told(&checkpoint, &error),
        })?;
        let manifest = match std::fs::read(dir.join(Manifest::FILE)) {
            Ok(bytes) => serde_json::from_slice::<Manifest>(&bytes).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(told(&dir.join(Manifest::FILE), &error)),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // Whether it is good is for the verifier to say; until then its size is what the files are looked up by.
        let size = SignedHead::read(&text).map_or_else(|_| manifest.as_ref().map_or(0, |list| list.size), |head| head.size());
        let lines = dir.join("events.jsonl");
        let first = match manifest.as_ref().map(|list| &list.what) {
            Some(What::Range { first, .. } | What::Time { first, .. }) => *first,
            Some(What::Case { .. }) | None => 0,
        };
        Ok(Self {
            older: older(dir)?,
            lines: lines.is_file().then(|| Lines::of(lines, first)),
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
        self.manifest.is_none() && [Manifest::FILE, Manifest::SUM].iter().any(|file| self.dir.join(file).exists())
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The bytes of a small file of it.
    pub(crate) fn file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        let at = self.dir.join(path);
        match std::fs::read(&at) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SourceError(format!("{}: {error}", at.display()))),
        }
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
        let mut n = from / WIDTH;
        while n * WIDTH < self.head.size && page.len() < limit {
            let Some(found) = self.entries(n)? else {
                // The next tile that is there, so that a gap shows as one.
                n += 1;
                continue;
            };
            for (seq, leaf) in (n * WIDTH..).zip(&found) {
                if seq >= from && page.len() < limit {
                    page.push(seq, leaf);
                }
            }
            n += 1;
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
            found.extend(self.hash(level / 8, n)?.map(|hash| (index, hash)));
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }
}
