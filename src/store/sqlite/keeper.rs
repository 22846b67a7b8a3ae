//! What surrounds every transaction: the file must be the one that was opened, and the clock and the room left are
//! looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use super::Tools;
use super::clock::Watch;
use super::failure::Failure;
use super::identity::Identity;
use super::writer::{Around, Ran};
use crate::store::health::FileState;

/// Looks after one file.
pub(super) struct Keeper {
    path: PathBuf,
    identity: Identity,
    watch: Watch,
    tools: Arc<Tools>,
}

impl Keeper {
    /// Of the file at this path, as it is now.
    pub(super) fn new(path: &Path, tools: Arc<Tools>) -> Self {
        Self {
            path: path.to_owned(),
            identity: Identity::default(),
            watch: Watch::default(),
            tools,
        }
    }
}

/// What this process may still write where the file is, in bytes.
fn free(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

impl Around for Keeper {
    fn in_place(&mut self) -> Result<(), String> {
        self.identity.check(&self.path)
    }

    fn first(&mut self, connection: &Connection) -> Result<Ran<()>, Failure> {
        self.tools.pulse.disk(free(&self.path));
        self.watch.look(connection, &self.tools)
    }

    fn ended(&mut self, state: FileState) {
        self.tools.pulse.file(state);
    }
}
