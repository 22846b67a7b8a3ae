//! A signed head of the log: C2SP tlog-checkpoint in a signed note, with the witnesses' cosignatures beneath.

use std::fmt;

use signed_note::{Note, Signature};
use tlog_tiles::Checkpoint;

use super::key::{LogKey, Origin, VerifierKey};
use super::tree::Hash;
use crate::domain::time::Timestamp;

/// Longer texts are no checkpoint of ours or of a witness's.
pub const MAX_CHECKPOINT: usize = 16 << 10;

/// Why a text is not the head of the log that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Not a checkpoint.
    #[error("it is no signed checkpoint: expected the log's name, a size, a root in base64, a blank line and signature lines")]
    Malformed,
    /// Lines after the root.
    #[error("it has lines after the root, which no witness signs; no checkpoint of this program has any")]
    Extension,
    /// Another log's.
    #[error("it is the head of `{found}`, and not of `{expected}`")]
    Origin {
        /// Whose it is.
        found: String,
        /// Whose was expected.
        expected: String,
    },
    /// A signature of a known key that does not verify.
    #[error("the signature by {0} does not verify: the text was changed, or somebody else signed it")]
    Signature(String),
    /// None of the keys has signed it.
    #[error("none of the trusted keys has signed it")]
    Unsigned,
}

/// The head of a log as its text says; who signed it is another question.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedHead {
    origin: Origin,
    size: u64,
    root: [u8; 32],
    text: String,
}

impl SignedHead {
    /// Signs a head with each of the keys, all of one name.
    ///
    /// # Errors
    /// [`CheckpointError::Malformed`] without a key, or with keys of several logs.
    pub fn sign(size: u64, root: Hash, keys: &[&LogKey]) -> Result<Self, CheckpointError> {
        let origin = keys.first().ok_or(CheckpointError::Malformed)?.origin().clone();
        let body = Checkpoint::new(origin.as_str(), size, root, "")
            .map_err(|_| CheckpointError::Malformed)?
            .to_bytes();
        let signed = keys.iter().map(|key| {
            if *key.origin() != origin {
                return Err(CheckpointError::Malformed);
            }
            Signature::new(origin.as_str().to_owned(), key.verifier().id(), key.sign(&body)).map_err(|_| CheckpointError::Malformed)
        });
        let signatures = signed.collect::<Result<Vec<_>, _>>()?;
        let note = Note::new(&body, &signatures).map_err(|_| CheckpointError::Malformed)?;
        let text = String::from_utf8(note.to_bytes()).map_err(|_| CheckpointError::Malformed)?;
        Ok(Self {
            origin,
            size,
            root: root.0,
            text,
        })
    }

    /// Reads a text without looking at who signed it.
    ///
    /// # Errors
    /// [`CheckpointError::Malformed`] or [`CheckpointError::Extension`].
    pub fn read(text: &str) -> Result<Self, CheckpointError> {
        let malformed = CheckpointError::Malformed;
        if text.len() > MAX_CHECKPOINT {
            return Err(malformed);
        }
        let note = Note::from_bytes(text.as_bytes()).map_err(|_| malformed.clone())?;
        let body = [note.text(), b"\n"].concat();
        let read = Checkpoint::from_reader(&mut &body[..], false).map_err(|_| malformed.clone())?;
        if !read.extension().is_empty() {
            return Err(CheckpointError::Extension);
        }
        if read.to_bytes() != note.text() {
            return Err(malformed);
        }
        Ok(Self {
            origin: read.origin().parse().map_err(|_| malformed)?,
            size: read.size(),
            root: read.hash().0,
            text: text.to_owned(),
        })
    }

    /// The name of the log.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// How many events it covers.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The root of the tree over them.
    #[must_use]
    pub const fn root(&self) -> Hash {
        Hash(self.root)
    }

    /// The whole text, signatures and all.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn note(&self) -> Result<Note, CheckpointError> {
        Note::from_bytes(self.text.as_bytes()).map_err(|_| CheckpointError::Malformed)
    }

    fn lines(&self) -> impl Iterator<Item = Signature> + '_ {
        let block = self.text.rsplit_once("\n\n").map_or("", |(_, block)| block);
        block.lines().filter_map(|line| Signature::from_bytes(line.as_bytes()).ok())
    }

    /// Which of these log keys have signed it; at least one, all good. Lines of unknown keys are passed over.
    ///
    /// # Errors
    /// [`CheckpointError::Origin`] if none of the keys is of this log, [`CheckpointError::Signature`], [`CheckpointError::Unsigned`].
    pub fn signers<'k>(&self, keys: &'k [VerifierKey]) -> Result<Vec<&'k VerifierKey>, CheckpointError> {
        let mine: Vec<&VerifierKey> = keys.iter().filter(|key| !key.is_witness() && *key.name() == self.origin).collect();
        if mine.is_empty() {
            let expected: Vec<&str> = keys.iter().filter(|key| !key.is_witness()).map(|key| key.name().as_str()).collect();
            return Err(CheckpointError::Origin {
                found: self.origin.to_string(),
                expected: expected.join("` or `"),
            });
        }
        let note = self.note()?;
        let mut signers = Vec::new();
        for line in self.lines() {
            let Some(key) = mine.iter().find(|key| line.name() == self.origin.as_str() && line.id() == key.id()) else {
                continue;
            };
            if !key.verifies(note.text(), line.signature()) {
                return Err(CheckpointError::Signature(format!("{}+{:08x}", key.name(), key.id())));
            }
            if !signers.contains(key) {
                signers.push(*key);
            }
        }
        if signers.is_empty() {
            return Err(CheckpointError::Unsigned);
        }
        Ok(signers)
    }

    /// How many lines of keys with the log's own name it has, whoever they are.
    pub(super) fn own_lines(&self) -> usize {
        self.lines().filter(|line| line.name() == self.origin.as_str()).count()
    }

    /// Which of these witnesses have signed it, and when, by their clocks.
    ///
    /// # Errors
    /// [`CheckpointError::Signature`] if a line of a known witness does not verify.
    pub fn cosigners<'k>(&self, witnesses: &'k [VerifierKey]) -> Result<Vec<(&'k VerifierKey, Timestamp)>, CheckpointError> {
        let note = self.note()?;
        let mut found: Vec<(&VerifierKey, Timestamp)> = Vec::new();
        for line in self.lines() {
            let known = witnesses
                .iter()
                .find(|key| key.is_witness() && line.name() == key.name().as_str() && line.id() == key.id());
            let Some(key) = known else { continue };
            let bad = || CheckpointError::Signature(format!("{}+{:08x}", key.name(), key.id()));
            let (time, signature) = line.signature().split_first_chunk::<8>().ok_or_else(bad)?;
            let time = u64::from_be_bytes(*time);
            let message = [format!("cosignature/v1\ntime {time}\n").as_bytes(), note.text()].concat();
            if !key.verifies(&message, signature) {
                return Err(bad());
            }
            let seconds = i64::try_from(time).map_err(|_| bad())?;
            let at = Timestamp::from_millis(seconds.checked_mul(1000).ok_or_else(bad)?);
            if !found.iter().any(|(known, _)| *known == key) {
                found.push((key, at));
            }
        }
        Ok(found)
    }

    /// The same head with the cosignature that a witness answered with, and when by its clock. What else stands in the answer is left out; a
    /// line that this witness had on the head already is replaced.
    ///
    /// # Errors
    /// [`CheckpointError::Unsigned`] if the answer has no line of this witness, [`CheckpointError::Signature`] if it is not good.
    pub fn cosigned(&self, answer: &str, witness: &VerifierKey) -> Result<(Self, Timestamp), CheckpointError> {
        let is_theirs = |line: &str| {
            let signature = Signature::from_bytes(line.as_bytes()).ok();
            signature.is_some_and(|found| found.name() == witness.name().as_str() && found.id() == witness.id())
        };
        let line = answer.lines().find(|line| is_theirs(line)).ok_or(CheckpointError::Unsigned)?;
        let (body, block) = self.text.rsplit_once("\n\n").ok_or(CheckpointError::Malformed)?;
        let mut text = format!("{body}\n\n");
        for known in block.lines().filter(|known| !is_theirs(known)).chain([line]) {
            text.push_str(known);
            text.push('\n');
        }
        let cosigned = Self::read(&text)?;
        let found = cosigned.cosigners(std::slice::from_ref(witness))?;
        let (_, at) = found.first().ok_or(CheckpointError::Unsigned)?;
        let at = *at;
        Ok((cosigned, at))
    }

    /// The same head with the lines of another text of it besides its own. Of two lines by one witness the later stays, of two by one log the other's.
    ///
    /// # Errors
    /// [`CheckpointError::Malformed`] if the other is of another head, or the lines of both find no room.
    pub fn with_lines_of(&self, other: &Self) -> Result<Self, CheckpointError> {
        let malformed = CheckpointError::Malformed;
        let (body, block) = self.text.rsplit_once("\n\n").ok_or_else(|| malformed.clone())?;
        let (theirs, added) = other.text.rsplit_once("\n\n").ok_or_else(|| malformed.clone())?;
        if body != theirs {
            return Err(malformed);
        }
        let mut lines: Vec<&str> = block.lines().collect();
        for line in added.lines() {
            match lines.iter_mut().find(|own| signer_of(own) == signer_of(line)) {
                Some(own) if cosigned_at(own) > cosigned_at(line) => {}
                Some(own) => *own = line,
                None => lines.push(line),
            }
        }
        Self::read(&format!("{body}\n\n{}\n", lines.join("\n")))
    }

    /// How many signature lines it has, whoever they are by.
    #[must_use]
    pub fn line_count(&self) -> usize {
        self.lines().count()
    }
}

/// Whose signature line it is, by name and key; the line itself if it is none.
fn signer_of(line: &str) -> Result<(String, u32), &str> {
    let signature = Signature::from_bytes(line.as_bytes()).map_err(|_| line)?;
    Ok((signature.name().to_owned(), signature.id()))
}

/// The time in a cosignature, in seconds; `None` in a signature that has none.
fn cosigned_at(line: &str) -> Option<u64> {
    let signature = Signature::from_bytes(line.as_bytes()).ok()?;
    let (time, rest) = signature.signature().split_first_chunk::<8>()?;
    // A log's own is an Ed25519 signature and nothing else (C2SP signed-note).
    (rest.len() == 64).then(|| u64::from_be_bytes(*time))
}

impl fmt::Debug for SignedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedHead({} {} {})", self.origin, self.size, self.root())
    }
}
