//! Which file is open: SQLite goes on happily in one that nobody finds any more.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The device and number of the database and of its companions, as they were first seen.
#[derive(Debug, Default)]
pub(super) struct Identity([Option<(u64, u64)>; 3]);

/// What is added to the name of the file.
const COMPANIONS: [&str; 3] = ["", "-wal", "-shm"];

impl Identity {
    /// Whether each is still what it was. All are there while a connection is open.
    pub(super) fn check(&mut self, path: &Path) -> Result<(), String> {
        for (known, companion) in self.0.iter_mut().zip(COMPANIONS) {
            let file = beside(path, companion);
            let found = match std::fs::metadata(&file) {
                Ok(found) => (found.dev(), found.ino()),
                Err(error) => {
                    // Before the first connection the companions need not be there.
                    if known.is_none() && !companion.is_empty() {
                        continue;
                    }
                    return Err(format!("{}: {error}: nothing is written any more", file.display()));
                }
            };
            if *known.get_or_insert(found) != found {
                return Err(format!(
                    "{} is another file than the one that is open: nothing is written any more",
                    file.display()
                ));
            }
        }
        Ok(())
    }
}

/// The file whose name is this one's and `more`.
pub(super) fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(more);
    PathBuf::from(name)
}
