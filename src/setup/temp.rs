//! A directory of a run's own, gone when the run is over, however it ends.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::domain::clock::{Entropy, random};

/// A directory of mode 0700 that is removed when this is dropped.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    /// A new directory below `parent`, named after what it is for.
    pub(crate) fn new(parent: &Path, of: &str, entropy: &dyn Entropy) -> io::Result<Self> {
        let name: String = random::<8>(entropy).iter().map(|byte| format!("{byte:02x}")).collect();
        let path = parent.join(format!("writ-{of}-{name}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A task that is being dropped may still close its database: a second look finds what it left.
        for _ in 0..3 {
            if fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                return;
            }
        }
        tracing::error!(path = %self.0.display(), "a throw-away directory could not be removed; delete it by hand");
    }
}
