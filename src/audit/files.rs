//! Where a log's keys and its head lie, outside the database: the private key, the public keys it ever had, and the head.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::checkpoint::SignedHead;
use super::durable::sync_dir_of;
use super::key::{LogKey, Origin, VerifierKey};
use super::vault::Vault;
use crate::domain::clock::Entropy;
use crate::domain::secret::Secret;

/// The paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFiles {
    /// The private key that signs now.
    pub key: PathBuf,
    /// The last head that was signed; best on another disk than the database.
    pub head: PathBuf,
}

impl LogFiles {
    /// The public keys, oldest first: a C2SP tlog-policy, and what outsiders need to verify the log.
    #[must_use]
    pub fn public(&self) -> PathBuf {
        self.key.with_extension("pub")
    }

    /// The key that wraps the keys of the people that events are about. It must not lie in a backup with the database.
    #[must_use]
    pub fn subjects(&self) -> PathBuf {
        self.key.with_file_name("audit-subjects.key")
    }

    /// The key that a rotation has announced and not yet put in place.
    #[must_use]
    pub fn next(&self) -> PathBuf {
        self.key.with_extension("key.next")
    }

    /// Makes the key that will sign next, beside the one that signs now, and publishes its public half. It signs once the log says so.
    ///
    /// A key that was made before and never put in place is given again.
    ///
    /// # Errors
    /// A sentence with the file and what to do.
    pub fn announce(&self, name: &Origin, entropy: &dyn Entropy) -> Result<LogKey, String> {
        let next = self.next();
        if next.exists() {
            let key = read_key(&next)?;
            if key.origin() == name {
                self.publish(&key)?;
                return Ok(key);
            }
            std::fs::remove_file(&next).map_err(|error| format!("{}: {error}", next.display()))?;
        }
        let (key, text) = LogKey::generate(name, entropy).map_err(|error| error.to_string())?;
        write_like(&self.key, &next, text.expose())?;
        self.publish(&key)?;
        Ok(key)
    }

    /// Adds a public key to those that are published.
    fn publish(&self, key: &LogKey) -> Result<(), String> {
        let public = self.public();
        let mut known = read_public(&public)?;
        if !known.contains(key.verifier()) {
            known.push(key.verifier().clone());
            replace(&public, &policy_text(&known))?;
        }
        Ok(())
    }

    /// The keys under which a receipt is believed: the newest, and while a rotation is unfinished the one before it too, since either may sign.
    /// Who has stolen a key that was replaced shows nothing with it.
    ///
    /// # Errors
    /// A sentence with the file and what is wrong.
    pub fn believed(&self) -> Result<Vec<VerifierKey>, String> {
        // Looked at first: a rotation that ends in between leaves one key too many, and only until the next look.
        let count = if self.next().exists() { 2 } else { 1 };
        let mut keys = read_public(&self.public())?;
        Ok(keys.split_off(keys.len().saturating_sub(count)))
    }

    /// Puts the announced key in the place of the one that signed, which is gone with that.
    ///
    /// # Errors
    /// A sentence with the file and what the system said.
    pub fn take_next(&self) -> Result<(), String> {
        let next = self.next();
        std::fs::rename(&next, &self.key).map_err(|error| format!("{}: {error}", next.display()))?;
        sync_dir_of(&self.key)
    }

    /// Makes the first key of a log of this name. What is there already is not touched.
    ///
    /// # Errors
    /// A sentence with the file and what to do.
    pub fn generate(&self, name: &Origin, entropy: &dyn Entropy) -> Result<(), String> {
        let (key, text) = LogKey::generate(name, entropy).map_err(|error| error.to_string())?;
        write_new(&self.key, text.expose(), 0o600)?;
        write_new(&self.public(), &policy_text(std::slice::from_ref(key.verifier())), 0o644)?;
        if self.subjects().exists() {
            return Ok(());
        }
        write_new(&self.subjects(), Vault::generate(entropy).expose(), 0o600)
    }
}

/// The public keys of a log, oldest first, from the file that has nothing else.
///
/// # Errors
/// A sentence with the file and what is wrong.
pub fn read_public(path: &Path) -> Result<Vec<VerifierKey>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    read_log_lines(&text).map_err(|why| format!("{}: {why}", path.display()))
}

/// The keys as they were read.
#[derive(Debug)]
pub struct LogKeys {
    /// The one that signs.
    pub signing: LogKey,
    /// Every key of this log, public halves, oldest first.
    pub known: Vec<VerifierKey>,
}

impl LogKeys {
    /// Reads them. `latest` is the last head of the log: a key that was announced signs if it has signed that.
    ///
    /// # Errors
    /// A sentence with the file, what is wrong and what to do.
    pub fn load(files: &LogFiles, latest: Option<&SignedHead>) -> Result<Self, String> {
        let mut signing = read_key(&files.key)?;
        if let Some(latest) = latest
            && files.next().exists()
        {
            let next = read_key(&files.next())?;
            if latest.signers(std::slice::from_ref(next.verifier())).is_ok() {
                signing = next;
            }
        }
        let public = files.public();
        let known = read_public(&public)?;
        if !known.contains(signing.verifier()) {
            return Err(format!(
                "{} does not name the key in {}: the public keys of a log stand there, oldest first",
                public.display(),
                files.key.display()
            ));
        }
        Ok(Self { signing, known })
    }
}

/// A private key of a log. The group may read it, since broker and proxy may be two users; nobody else.
pub(crate) fn read_key(path: &Path) -> Result<LogKey, String> {
    let at = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("{}: {error}; make the log's key with `writ keys generate --log`", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    let mode = std::fs::metadata(path).map_err(at)?.permissions().mode() & 0o777;
    if mode & 0o027 != 0 {
        return Err(format!(
            "{} can be read or changed by others (mode {mode:04o}); run `chmod 600` on it, or `chmod 640` if broker and proxy are two users",
            path.display()
        ));
    }
    let text = std::fs::read_to_string(path).map(Secret::new).map_err(at)?;
    LogKey::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The keys in the `log` lines of a C2SP tlog-policy, such as the file of a log's public keys.
///
/// # Errors
/// A sentence with the line and what is wrong.
pub fn read_log_lines(text: &str) -> Result<Vec<VerifierKey>, String> {
    let mut keys = Vec::new();
    for (n, line) in (1..).zip(text.lines()) {
        let Some(key) = line.trim().strip_prefix("log ") else { continue };
        let key = key.split_whitespace().next().unwrap_or_default();
        keys.push(key.parse().map_err(|error| format!("line {n}: {error}"))?);
    }
    if keys.is_empty() {
        return Err("it names no key: expected lines `log name+id+key`".to_owned());
    }
    Ok(keys)
}

/// The public keys as a tlog-policy, oldest first.
#[must_use]
pub(super) fn policy_text(keys: &[VerifierKey]) -> String {
    let mut text = "# The public keys of this log, oldest first. Hand this file to whoever shall verify it, by a way that the log's host does not control.\n".to_owned();
    for key in keys {
        text.push_str(&format!("log {key}\n"));
    }
    text
}

/// A new file with the mode, the owner and the group of an old one, as far as the system lets us.
fn write_like(old: &Path, new: &Path, text: &str) -> Result<(), String> {
    let meta = std::fs::metadata(old).map_err(|error| format!("{}: {error}", old.display()))?;
    write_new(new, text, meta.mode() & 0o740)?;
    owned_like(old, &meta, new)
}

/// Gives a new file the owner and the group of an old one, as far as the system lets us.
pub(super) fn owned_like(old: &Path, meta: &std::fs::Metadata, new: &Path) -> Result<(), String> {
    let own = std::fs::metadata(new).map_err(|error| format!("{}: {error}", new.display()))?;
    if (own.uid(), own.gid()) != (meta.uid(), meta.gid()) {
        std::os::unix::fs::chown(new, Some(meta.uid()), Some(meta.gid())).map_err(|error| {
            format!(
                "{}: {error}; run this as the owner of {}, so that whoever reads that file can read this one",
                new.display(),
                old.display()
            )
        })?;
    }
    Ok(())
}

/// Replaces a public file at once: whoever reads it finds the old text or the new one.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let new = path.with_extension("pub.new");
    let _none_was_left = std::fs::remove_file(&new);
    write_new(&new, text, 0o644)?;
    std::fs::rename(&new, path).map_err(|error| format!("{}: {error}", path.display()))?;
    sync_dir_of(path)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(at)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(at)?;
    sync_dir_of(path)
}
