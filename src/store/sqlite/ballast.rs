//! Room set aside: given back to the file system when a result finds the disk full, and made again when there is room.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::identity::beside;

/// A file that holds nothing but its place.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    size: u64,
}

impl Ballast {
    /// Beside the database, of so many bytes; none at all if zero.
    pub(super) fn of(database: &Path, size: u64) -> Self {
        Self {
            path: beside(database, "-ballast"),
            size,
        }
    }

    /// How many bytes it takes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Whether it should be there and is not.
    pub(super) fn is_missing(&self) -> bool {
        self.size > 0 && std::fs::metadata(&self.path).map_or(0, |found| found.len()) < self.size
    }

    /// Takes its place. On an error nothing is taken.
    pub(super) fn make(&self, database: &Path) -> io::Result<()> {
        let made = self.fill(database);
        if made.is_err() {
            drop(std::fs::remove_file(&self.path));
        }
        made
    }

    fn fill(&self, database: &Path) -> io::Result<()> {
        let mode = std::fs::metadata(database)?.permissions().mode() & 0o777;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&self.path)?;
        if fallocate(&file, FallocateFlags::empty(), 0, self.size).is_err() {
            // A file system that cannot promise room gives it for bytes.
            let zeros = vec![0; 64 << 10];
            let mut left = self.size;
            while left > 0 {
                let part = usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len());
                file.write_all(zeros.get(..part).unwrap_or_default())?;
                left -= part as u64;
            }
        }
        file.sync_all()
    }

    /// Gives its place back; whether there was any.
    pub(super) fn free(&self) -> bool {
        self.size > 0 && std::fs::remove_file(&self.path).is_ok()
    }
}
