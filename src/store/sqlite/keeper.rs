//! What surrounds every transaction: the file must be the one that was opened, and the clock and the room left are
//! looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;

use super::Tools;
use super::clock::Watch;
use super::failure::Failure;
use super::identity::Identity;
use super::seal::Seal;
use super::shape::Shape;
use super::writer::{Around, Ran};
use crate::audit::tree::Hash;
use crate::store::health::{FileState, LogState, Trouble};

/// Looks after one file.
pub(super) struct Keeper {
    path: PathBuf,
    identity: Identity,
    watch: Watch,
    seal: Seal,
    shape: Shape,
    /// The last events could not be sealed.
    is_refused: bool,
    tools: Arc<Tools>,
}

impl Keeper {
    /// Of the file at this path, which must stay the one that this is the identity of.
    pub(super) fn new(path: &Path, identity: Identity, seal: Seal, tools: Arc<Tools>) -> Self {
        Self {
            path: path.to_owned(),
            identity,
            watch: Watch::default(),
            seal,
            shape: Shape::default(),
            is_refused: false,
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
        self.shape.check(connection)?;
        if self.tools.reread_log.swap(false, Ordering::SeqCst) {
            let reread = self.seal.reread(connection, self.tools.clock.now());
            reread.inspect_err(|_| self.tools.reread_log.store(true, Ordering::SeqCst))?;
        }
        self.seal.catch_up(connection)?;
        self.tools.writer.begin(self.seal.origin(), self.seal.size(), self.seal.own());
        self.watch.look(connection, &self.tools)
    }

    fn last(&mut self, connection: &Connection, leaves: &[Hash]) -> Result<(), Failure> {
        let sealed = self.seal.seal(connection, leaves, self.tools.clock.now());
        // A beat has no events and says nothing of whether they can be sealed.
        if sealed.is_err() || !leaves.is_empty() {
            self.is_refused = sealed.is_err();
        }
        Ok(sealed?)
    }

    fn committed(&mut self) {
        self.seal.settle();
        let kept = self.seal.write_head_file();
        if let Err(why) = &kept
            && self.tools.pulse.health().log.is_kept()
        {
            tracing::error!(
                why,
                "the log's head cannot be written down outside the database; nothing new begins until it can"
            );
        }
        self.tools
            .pulse
            .log(if kept.is_ok() { LogState::Kept } else { LogState::HeadUnwritten });
    }

    fn ended(&mut self, state: FileState) {
        let refused = FileState::Failed(Trouble::Log);
        self.tools
            .pulse
            .file(if self.is_refused && state.is_sound() { refused } else { state });
    }
}
