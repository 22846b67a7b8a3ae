//! Results of sent requests that the database did not take: one checksummed line each, flushed, in a file of their own, until it does.
//!
//! A line is the whole intent with its operation id, so that putting it down a second time changes nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::identity::beside;
use crate::audit::Actor;
use crate::domain::digest::Digest;
use crate::domain::id::{OperationId, RequestId};
use crate::store::Op;
use crate::store::intent::Settle;

/// One result that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// The version of this line: 1.
    v: u8,
    op: OperationId,
    actor: Actor,
    request: Option<RequestId>,
    /// What came of the attempt.
    pub(super) settle: Settle,
}

impl Waiting {
    /// A result with the operation that was to record it.
    pub(super) fn new(op: &Op, settle: &Settle) -> Self {
        Self {
            v: 1,
            op: op.id,
            actor: op.actor.clone(),
            request: op.request,
            settle: settle.clone(),
        }
    }

    /// The operation that was to record it.
    pub(super) fn op(&self) -> Op {
        Op {
            id: self.op,
            actor: self.actor.clone(),
            request: self.request,
        }
    }

    /// The operation under which it is kept as evidence, once somebody else's word stands: always the same for the same result.
    pub(super) fn late_op(&self) -> Op {
        let digest = Digest::tagged("writ late result v1", self.op.to_string().as_bytes());
        let mut id = [0; 16];
        for (to, from) in id.iter_mut().zip(digest.as_bytes()) {
            *to = *from;
        }
        Op {
            id: OperationId::from_bytes(id),
            ..self.op()
        }
    }
}

/// What a look at the file found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What can be put down.
    pub(super) waiting: Vec<Waiting>,
    /// The whole lines that do not read back.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// What was read; `None` if there was nothing.
    read: Option<Digest>,
}

/// The file of the results that wait.
#[derive(Debug)]
pub(super) struct Results {
    path: PathBuf,
    database: PathBuf,
}

impl Results {
    /// At this path, or beside the database.
    pub(super) fn at(path: Option<&Path>, database: &Path) -> Self {
        Self {
            path: path.map_or_else(|| beside(database, "-results"), Path::to_owned),
            database: database.to_owned(),
        }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a result down and flushes it. A line that was torn by an earlier failure does not spoil it.
    pub(super) fn append(&self, result: &Waiting) -> io::Result<()> {
        let json = serde_json::to_string(result).map_err(io::Error::other)?;
        let line = format!("\n{} {json}\n", Digest::of(json.as_bytes()));
        let is_new = !self.path.exists();
        let mode = std::fs::metadata(&self.database).map_or(0o600, |found| found.permissions().mode() & 0o777);
        let mut file = OpenOptions::new().append(true).create(true).mode(mode).open(&self.path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        file.write_all(line.as_bytes())?;
        file.sync_data()?;
        if is_new {
            File::open(directory(&self.path))?.sync_all()?;
        }
        Ok(())
    }

    /// Whether anything waits, at the price of one look at the file's length.
    pub(super) fn are_there(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| found.len() > 0)
    }

    /// Everything that waits.
    pub(super) fn read(&self) -> io::Result<Found> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::default()),
            Err(error) => return Err(error),
        };
        flock(&file, FlockOperation::LockShared)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut found = Found {
            read: (!bytes.is_empty()).then(|| Digest::of(&bytes)),
            ..Found::default()
        };
        // What does not end with a line end was never acknowledged to anybody.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        for line in bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n') {
            match parse(line) {
                _ if line.is_empty() => {}
                Some(waiting) => found.waiting.push(waiting),
                None => found.unreadable.push(line.to_vec()),
            }
        }
        Ok(found)
    }

    /// Empties the file, if nothing came since it was read, and says whether it did. Lines that could not be read are kept beside it for a person.
    pub(super) fn clear(&self, found: &Found) -> io::Result<bool> {
        let Some(read) = found.read else { return Ok(true) };
        let mut file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        // Another process may have emptied it meanwhile, and a result of the same length may have come: only the content tells.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if Digest::of(&bytes) != read {
            return Ok(false);
        }
        if !found.unreadable.is_empty() {
            let kept = beside(&self.path, ".unreadable");
            let mut kept = OpenOptions::new().append(true).create(true).mode(0o600).open(kept)?;
            for line in &found.unreadable {
                kept.write_all(line)?;
                kept.write_all(b"\n")?;
            }
            kept.sync_all()?;
            File::open(directory(&self.path))?.sync_all()?;
        }
        file.set_len(0)?;
        file.sync_all()?;
        Ok(true)
    }
}

/// The directory that holds the path; a bare name stands in the working directory.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A line, if its checksum is right and it is of a version that is known.
fn parse(line: &[u8]) -> Option<Waiting> {
    let (sum, json) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if Digest::parse(sum)? != Digest::of(json.as_bytes()) {
        return None;
    }
    serde_json::from_str(json).ok().filter(|waiting: &Waiting| waiting.v == 1)
}
