//! The keys that openings are kept under: one for each person, wrapped by a key that lies outside the database. Whoever destroys a person's key
//! has erased what was said of them, in every copy that was sealed with it.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use zeroize::Zeroizing;

use super::disclosure::{Disclosure, SensitiveField};
use crate::domain::clock::{Entropy, random};
use crate::domain::digest::Digest;
use crate::domain::secret::Secret;

/// What the key file begins with.
const PREFIX: &str = "AUDIT+SUBJECTS+KEY+";

/// A key of 256 bits, wiped on drop.
pub type SubjectKey = Zeroizing<[u8; 32]>;

/// The name under which something is found without being read: the first 128 bits of a keyed hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub [u8; 16]);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl serde::Serialize for Tag {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Of a value of this field under the key of its period. Case and outer spaces do not count.
#[must_use]
pub fn tag(key: &SubjectKey, field: &str, value: &str) -> Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &**key));
    context.update(field.as_bytes());
    context.update(&[0]);
    context.update(value.trim().to_lowercase().as_bytes());
    let mut tag = [0; 16];
    tag.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
    Tag(tag)
}

/// The key that wraps the others. Prints without it.
pub struct Vault(SubjectKey);

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(..)")
    }
}

impl Vault {
    /// The text of a new key file.
    #[must_use]
    pub fn generate(entropy: &dyn Entropy) -> Secret {
        let key = Zeroizing::new(random::<32>(entropy));
        Secret::new(format!("{PREFIX}{}\n", STANDARD.encode(*key)))
    }

    /// Reads the key file; `None` if there is none.
    ///
    /// # Errors
    /// A sentence with the file and what is wrong with it.
    pub fn load(path: &Path) -> Result<Option<Self>, String> {
        let at = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
        let mode = match std::fs::metadata(path) {
            Ok(meta) => meta.permissions().mode() & 0o777,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&error)),
        };
        if mode & 0o027 != 0 {
            return Err(at(&format!(
                "it can be read or changed by others (mode {mode:04o}); run `chmod 600` on it, or `chmod 640` if broker and proxy are two users"
            )));
        }
        let text = std::fs::read_to_string(path).map(Secret::new).map_err(|error| at(&error))?;
        let key = text
            .expose()
            .trim()
            .strip_prefix(PREFIX)
            .and_then(|key| STANDARD.decode(key).ok())
            .map(Zeroizing::new);
        let key = key.and_then(|key| <[u8; 32]>::try_from(&**key).ok());
        let key = key.ok_or_else(|| at(&format!("expected `{PREFIX}` and 32 bytes in base64")))?;
        Ok(Some(Self(Zeroizing::new(key))))
    }

    /// A new key, and the same wrapped for what it is for.
    #[must_use]
    pub fn new_key(&self, of: &[u8], entropy: &dyn Entropy) -> Option<(SubjectKey, Vec<u8>)> {
        let key = Zeroizing::new(random::<32>(entropy));
        let wrapped = seal(&self.0, &[b"writ.wrapped-key.v1\0", of].concat(), &*key, entropy)?;
        Some((key, wrapped))
    }

    /// The key that was wrapped for this; `None` if it was not, or not by this vault.
    #[must_use]
    pub fn unwrap_key(&self, of: &[u8], wrapped: &[u8]) -> Option<SubjectKey> {
        let key = open(&self.0, &[b"writ.wrapped-key.v1\0", of].concat(), wrapped)?;
        <[u8; 32]>::try_from(&**key).ok().map(Zeroizing::new)
    }
}

/// What an opening is sealed for: its place in the log and its commitment, so that none can stand in for another.
fn place(seq: u64, field: SensitiveField, digest: &Digest) -> Vec<u8> {
    [
        b"writ.opening.v1\0",
        &seq.to_be_bytes()[..],
        digest.as_bytes(),
        field.as_str().as_bytes(),
    ]
    .concat()
}

/// An opening, sealed with a person's key.
#[must_use]
pub fn seal_opening(key: &SubjectKey, seq: u64, field: SensitiveField, opening: &Disclosure, entropy: &dyn Entropy) -> Option<Vec<u8>> {
    seal(key, &place(seq, field, &opening.digest()), opening.expose().as_bytes(), entropy)
}

/// The opening of this commitment; `None` if it is another's, or was changed.
#[must_use]
pub fn open_opening(key: &SubjectKey, seq: u64, field: SensitiveField, digest: &Digest, sealed: &[u8]) -> Option<Disclosure> {
    let text = open(key, &place(seq, field, digest), sealed)?;
    let opening = Disclosure::parse(std::str::from_utf8(&text).ok()?)?;
    (opening.digest() == *digest).then_some(opening)
}

fn cipher(key: &SubjectKey) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &**key).ok().map(LessSafeKey::new)
}

/// AES-256-GCM, the nonce in front. A key seals few things, so that a random nonce does not come twice.
fn seal(key: &SubjectKey, for_what: &[u8], plain: &[u8], entropy: &dyn Entropy) -> Option<Vec<u8>> {
    let nonce = random::<NONCE_LEN>(entropy);
    let mut text = plain.to_vec();
    let sealed = cipher(key)?.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(for_what), &mut text);
    sealed.ok().map(|()| [&nonce[..], &text].concat())
}

fn open(key: &SubjectKey, for_what: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut text = Zeroizing::new(text.to_vec());
    let opened = cipher(key)?
        .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(for_what), &mut text)
        .ok()?
        .len();
    text.truncate(opened);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(std::sync::atomic::AtomicU8);
    impl Entropy for Count {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        }
    }

    #[test]
    fn an_opening_opens_with_its_own_key_at_its_own_place_and_nowhere_else() {
        let entropy = Count(1.into());
        let (vault, other) = (Vault(Zeroizing::new([1; 32])), Vault(Zeroizing::new([2; 32])));
        let (key, wrapped) = vault.new_key(b"cus_1", &entropy).unwrap();
        assert_eq!(vault.unwrap_key(b"cus_1", &wrapped), Some(key.clone()));
        assert_eq!(vault.unwrap_key(b"cus_2", &wrapped), None);
        assert_eq!(other.unwrap_key(b"cus_1", &wrapped), None);
        let opening = Disclosure::of(SensitiveField::Customer, "cus_1", &entropy);
        let digest = opening.digest();
        let sealed = seal_opening(&key, 7, SensitiveField::Customer, &opening, &entropy).unwrap();
        assert_eq!(
            open_opening(&key, 7, SensitiveField::Customer, &digest, &sealed),
            Some(opening.clone())
        );
        assert_eq!(open_opening(&key, 8, SensitiveField::Customer, &digest, &sealed), None);
        assert_eq!(open_opening(&key, 7, SensitiveField::Reason, &digest, &sealed), None);
        assert_eq!(
            open_opening(&Zeroizing::new([3; 32]), 7, SensitiveField::Customer, &digest, &sealed),
            None
        );
        let mut changed = sealed.clone();
        changed[20] ^= 1;
        assert_eq!(open_opening(&key, 7, SensitiveField::Customer, &digest, &changed), None);
        assert!(!String::from_utf8_lossy(&sealed).contains(opening.expose()));
    }

    #[test]
    fn a_tag_is_of_one_field_one_key_and_any_spelling() {
        let key = Zeroizing::new([1; 32]);
        assert_eq!(tag(&key, "customer", " Cus_1 "), tag(&key, "customer", "cus_1"));
        assert_ne!(tag(&key, "customer", "cus_1"), tag(&key, "subject", "cus_1"));
        assert_ne!(tag(&key, "customer", "cus_1"), tag(&Zeroizing::new([2; 32]), "customer", "cus_1"));
    }
}
