//! The private keys on disk: one PKCS#8 file for each, and the public set beside them.
//!
//! A change writes the private file first and then replaces the public set, so a crash leaves a private key that nobody uses, never a published
//! key that nobody holds.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use biscuit_auth::{Algorithm, KeyPair, PrivateKey};
use zeroize::Zeroizing;

use crate::domain::clock::{Entropy, random};
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::settings::why_not;

use super::key_set::{KeySet, KeySetError, PublishedKey, RootKeyId, RootPublicKey};
use super::mint::Minter;
use super::{CLOCK_SKEW, KEY_OVERLAP, MAX_LIFETIME};

/// The file of the public set, within the directory of the ring.
pub const PUBLIC_KEYS_FILE: &str = "credential-keys.json";

/// The times of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// From publishing the new key until it signs: long enough for every proxy to have read it.
    pub settle: Duration,
    /// From then until the old key stops verifying: at least the life of a credential and the skew of clocks.
    pub overlap: Duration,
    /// How long the new key may sign, from then on.
    pub lifetime: Duration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(30),
            overlap: KEY_OVERLAP,
            lifetime: Duration::from_secs(90 * 24 * 3600),
        }
    }
}

/// Why the keys cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError {
    /// A file or directory.
    #[error("{}: {}", path.display(), why_not(path, source))]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No keys at all.
    #[error("there are no keys in {}; make the first with `writ keys generate`", dir.display())]
    NoKeys {
        /// The directory.
        dir: PathBuf,
    },
    /// A private key that others on the machine can read.
    #[error("{} can be read by others (mode {mode:04o}); run `chmod 600` on it, and rotate the keys if it was copied", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Not a private key.
    #[error("{} is not an Ed25519 private key in PKCS#8 PEM", path.display())]
    KeyUnreadable {
        /// The file.
        path: PathBuf,
    },
    /// The private key is not the published one.
    #[error("{} does not belong to the public key published as {kid}", path.display())]
    KeyMismatch {
        /// The file.
        path: PathBuf,
        /// The published id.
        kid: RootKeyId,
    },
    /// The public set.
    #[error("{}: {source}", path.display())]
    PublicSet {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: KeySetError,
    },
    /// Keys are there already.
    #[error("{} exists already; to replace the signing key, rotate", path.display())]
    AlreadyThere {
        /// The public set.
        path: PathBuf,
    },
    /// A key that the set does not have.
    #[error("there is no key {0} in the set")]
    NoSuchKey(RootKeyId),
    /// Nothing to sign with.
    #[error("no private key may sign now: every key is past its date or not there; rotate the keys")]
    PastDate,
    /// Key numbers have run out.
    #[error("no key id is left")]
    IdsExhausted,
}

/// One key of the ring, for a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingKey {
    /// Its id.
    pub kid: RootKeyId,
    /// Its public half and its window.
    pub published: PublishedKey,
    /// Until when it may sign, if its private half is here and its window ends.
    pub signs_until: Option<Timestamp>,
    /// Whether it is the one that signs at the moment of asking.
    pub signs: bool,
}

/// The broker's root keys. Prints without them.
#[derive(Debug)]
pub struct KeyRing {
    minters: BTreeMap<RootKeyId, Minter>,
    public: KeySet,
}

impl KeyRing {
    /// Reads the public set and every private key of it that is there.
    ///
    /// # Errors
    /// [`KeyRingError`]: a file that cannot be read, is open to others, or does not belong.
    pub fn load(dir: &Path) -> Result<Self, KeyRingError> {
        let public = read_public(dir)?;
        let mut minters = BTreeMap::new();
        for (kid, published) in public.iter() {
            let path = private_path(dir, kid);
            let Some(pem) = read_private(&path)? else { continue };
            let minter = Minter::from_pkcs8_pem(kid, &pem).ok_or_else(|| KeyRingError::KeyUnreadable { path: path.clone() })?;
            if minter.public() != Some(published.key) {
                return Err(KeyRingError::KeyMismatch { path, kid });
            }
            minters.insert(kid, minter);
        }
        Ok(Self { minters, public })
    }

    /// Makes the directory if need be, and in it the first key, which signs from `now` on.
    ///
    /// # Errors
    /// [`KeyRingError::AlreadyThere`] if there are keys; others from the file system.
    pub fn generate(dir: &Path, now: Timestamp, lifetime: Duration, entropy: &dyn Entropy) -> Result<Self, KeyRingError> {
        let path = dir.join(PUBLIC_KEYS_FILE);
        if path.exists() {
            return Err(KeyRingError::AlreadyThere { path });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))?;
        let mut public = KeySet::new();
        add_key(dir, &mut public, now, lifetime, entropy)?;
        write_public(dir, &public)?;
        Self::load(dir)
    }

    /// Publishes a new key that signs once it has settled, and ends every older key after the overlap. The old files stay.
    ///
    /// # Errors
    /// [`KeyRingError`] from reading or writing; the published set is then what it was.
    pub fn rotate(dir: &Path, now: Timestamp, rotation: Rotation, entropy: &dyn Entropy) -> Result<Self, KeyRingError> {
        let mut public = read_public(dir)?;
        let signs_from = now.plus(rotation.settle);
        let old_ends = signs_from.plus(rotation.overlap);
        let old: Vec<RootKeyId> = public.iter().map(|(kid, _)| kid).collect();
        for kid in old {
            if let Some(key) = public.find_mut(kid) {
                key.not_after = Some(key.not_after.map_or(old_ends, |end| end.min(old_ends)));
            }
        }
        add_key(dir, &mut public, signs_from, rotation.lifetime, entropy)?;
        write_public(dir, &public)?;
        Self::load(dir)
    }

    /// Ends a key at once, for when it may be known to others. What it signed stops counting as soon as the proxies read the set.
    ///
    /// # Errors
    /// [`KeyRingError::NoSuchKey`]; others from the file system.
    pub fn retire(dir: &Path, kid: RootKeyId, now: Timestamp) -> Result<Self, KeyRingError> {
        let mut public = read_public(dir)?;
        let key = public.find_mut(kid).ok_or(KeyRingError::NoSuchKey(kid))?;
        key.not_after = Some(key.not_after.map_or(now, |end| end.min(now)));
        write_public(dir, &public)?;
        Self::load(dir)
    }

    /// The public set, as it is published.
    #[must_use]
    pub const fn public(&self) -> &KeySet {
        &self.public
    }

    /// The newest key that may sign at `now`.
    ///
    /// # Errors
    /// [`KeyRingError::PastDate`] if there is none: the broker is not ready.
    pub fn signing(&self, now: Timestamp) -> Result<&Minter, KeyRingError> {
        let may_sign = |kid: &RootKeyId| {
            self.public
                .find(*kid)
                .is_some_and(|key| key.not_before <= now && signs_until(key).is_none_or(|end| now < end))
        };
        self.minters
            .iter()
            .rev()
            .find(|(kid, _)| may_sign(kid))
            .map(|(_, minter)| minter)
            .ok_or(KeyRingError::PastDate)
    }

    /// Until when the newest key that signs, or will, may sign, or when the last one ended if none may; `None` if it has no end, or if there is none.
    #[must_use]
    pub fn signs_until(&self, now: Timestamp) -> Option<Timestamp> {
        let key = self.minters.keys().rev().find_map(|kid| {
            let key = self.public.find(*kid)?;
            (signs_until(key).is_none_or(|end| now < end)).then_some(key)
        });
        match key {
            Some(key) => signs_until(key),
            None => {
                let ends = self.minters.keys().filter_map(|kid| signs_until(self.public.find(*kid)?));
                ends.filter(|end| *end <= now).max()
            }
        }
    }

    /// The keys whose time is not over and whose private half is not here, oldest first.
    #[must_use]
    pub fn missing(&self, now: Timestamp) -> Vec<RootKeyId> {
        let missing =
            |(kid, key): &(RootKeyId, &PublishedKey)| key.not_after.is_none_or(|end| now < end) && !self.minters.contains_key(kid);
        self.public.iter().filter(missing).map(|(kid, _)| kid).collect()
    }

    /// Every key with its window and what it does at `now`, oldest first.
    #[must_use]
    pub fn list(&self, now: Timestamp) -> Vec<RingKey> {
        let signing = self.signing(now).ok().map(Minter::kid);
        self.public
            .iter()
            .map(|(kid, published)| RingKey {
                kid,
                published: *published,
                signs_until: if self.minters.contains_key(&kid) {
                    signs_until(published)
                } else {
                    None
                },
                signs: signing == Some(kid),
            })
            .collect()
    }
}

/// A key stops signing while the last credential it signs can still be verified to its end.
fn signs_until(key: &PublishedKey) -> Option<Timestamp> {
    key.not_after.map(|end| end.minus(MAX_LIFETIME).minus(CLOCK_SKEW))
}

fn add_key(dir: &Path, public: &mut KeySet, from: Timestamp, lifetime: Duration, entropy: &dyn Entropy) -> Result<(), KeyRingError> {
    let kid = next_id(dir, public)?;
    let path = private_path(dir, kid);
    let unreadable = || KeyRingError::KeyUnreadable { path: path.clone() };
    let seed = Zeroizing::new(random::<32>(entropy));
    let private = PrivateKey::from_bytes(seed.as_ref(), Algorithm::Ed25519).map_err(|_| unreadable())?;
    let key = RootPublicKey::from_bytes(&private.public().to_bytes()).ok_or_else(unreadable)?;
    let pem = KeyPair::from(&private).to_private_key_pem().map_err(|_| unreadable())?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(at(&path))?;
    file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(at(&path))?;
    let published = PublishedKey {
        key,
        not_before: from,
        not_after: Some(from.plus(lifetime).plus(KEY_OVERLAP)),
    };
    public.insert(kid, published).map_err(|source| KeyRingError::PublicSet {
        path: dir.join(PUBLIC_KEYS_FILE),
        source,
    })
}

/// One more than any id that was ever given, published or only written: an id is never used twice.
fn next_id(dir: &Path, public: &KeySet) -> Result<RootKeyId, KeyRingError> {
    let mut highest = public.iter().map(|(kid, _)| kid.number()).max().unwrap_or(0);
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let name = entry.map_err(at(dir))?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("credential-")?.strip_suffix(".pem")?.parse().ok());
        highest = highest.max(number.unwrap_or(0));
    }
    highest.checked_add(1).map(RootKeyId::new).ok_or(KeyRingError::IdsExhausted)
}

fn private_path(dir: &Path, kid: RootKeyId) -> PathBuf {
    dir.join(format!("credential-{kid}.pem"))
}

fn read_public(dir: &Path) -> Result<KeySet, KeyRingError> {
    let path = dir.join(PUBLIC_KEYS_FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(KeyRingError::NoKeys { dir: dir.to_owned() }),
        Err(error) => return Err(at(&path)(error)),
    };
    KeySet::from_json(&bytes).map_err(|source| KeyRingError::PublicSet { path, source })
}

fn write_public(dir: &Path, public: &KeySet) -> Result<(), KeyRingError> {
    let path = dir.join(PUBLIC_KEYS_FILE);
    let draft = dir.join(format!(".{PUBLIC_KEYS_FILE}.new"));
    let written = File::create(&draft).and_then(|mut file| {
        // Public, whatever the umask of whoever rotates: the proxy runs as another user, and one that cannot read the new set rejects the new key.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(&public.to_json())?;
        file.write_all(b"\n")?;
        file.sync_all()
    });
    written.map_err(at(&draft))?;
    fs::rename(&draft, &path).map_err(at(&path))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))
}

/// The private key's text, or `None` if it is not kept here. The mode is that of the open file, so that nobody swaps it in between.
fn read_private(path: &Path) -> Result<Option<Secret>, KeyRingError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    let mode = file.metadata().map_err(at(path))?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyRingError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(at(path))?;
    Ok(Some(Secret::new(text)))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> KeyRingError {
    let path = path.to_owned();
    move |source| KeyRingError::Io { path, source }
}
