//! The keys of the log, apart from those of credentials: C2SP signed notes with Ed25519.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use signed_note::{is_key_name_valid, key_id};
use zeroize::Zeroizing;

use crate::domain::clock::{Entropy, random};
use crate::domain::secret::Secret;

/// The kind of signature that the log itself makes: Ed25519 over the note's text.
const ED25519_NOTE: u8 = 0x01;

/// The longest name, so that a checkpoint with several signatures stays small.
const MAX_NAME: usize = 200;

/// Why a key or a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogKeyError {
    /// The name.
    #[error("a log's name is a host and a path such as `broker.example/audit`: no scheme, no space, no `+`, at most {MAX_NAME} characters")]
    Name,
    /// Not a key at all.
    #[error("expected a key of the form `{0}`")]
    Form(&'static str),
    /// Another algorithm.
    #[error("only Ed25519 keys (type 1, or type 4 for a witness) are understood")]
    Algorithm,
    /// The id in the text is not that of the key in the text.
    #[error("the key's id does not belong to it: it was changed or cut short")]
    Id,
}

/// The name of a log: the first line of its checkpoints and the name of its keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

impl Origin {
    /// The name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = LogKeyError;

    fn from_str(text: &str) -> Result<Self, LogKeyError> {
        let plain = text.len() <= MAX_NAME && text.bytes().all(|b| b.is_ascii_graphic());
        if plain && is_key_name_valid(text) && !text.contains("://") {
            Ok(Self(text.to_owned()))
        } else {
            Err(LogKeyError::Name)
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key that verifies: a log's, or a witness's. Written `name+id+key`, as `vkey` of C2SP signed-note.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VerifierKey {
    name: Origin,
    id: u32,
    kind: u8,
    public: [u8; 32],
}

/// The kind of a witness's signature: Ed25519 over a time and the note's text.
const ED25519_COSIGNATURE: u8 = 0x04;

impl VerifierKey {
    fn new(name: Origin, kind: u8, public: [u8; 32]) -> Self {
        let id = key_id(name.as_str(), &typed(kind, &public));
        Self { name, id, kind, public }
    }

    /// The key of a witness of this name.
    #[must_use]
    pub fn witness(name: Origin, public: [u8; 32]) -> Self {
        Self::new(name, ED25519_COSIGNATURE, public)
    }

    /// Whose key it is.
    #[must_use]
    pub const fn name(&self) -> &Origin {
        &self.name
    }

    /// The first four bytes of a hash over name and key, which signatures carry.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Whether it is a witness's, whose signatures carry a time.
    #[must_use]
    pub const fn is_witness(&self) -> bool {
        self.kind == ED25519_COSIGNATURE
    }

    /// The public key, 32 bytes.
    #[must_use]
    pub const fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// Whether this is a signature over `text` by this log key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public).verify(message, signature).is_ok()
    }
}

const VKEY: &str = "name+id+base64(type, public key)";

impl FromStr for VerifierKey {
    type Err = LogKeyError;

    fn from_str(text: &str) -> Result<Self, LogKeyError> {
        let form = LogKeyError::Form(VKEY);
        let (name, rest) = text.trim().split_once('+').ok_or(form)?;
        let (id, key) = rest.split_once('+').ok_or(form)?;
        let (kind, public) = untyped(key).ok_or(form)?;
        if !matches!(kind, ED25519_NOTE | ED25519_COSIGNATURE) {
            return Err(LogKeyError::Algorithm);
        }
        let made = Self::new(name.parse()?, kind, public);
        if id != format!("{:08x}", made.id) {
            return Err(LogKeyError::Id);
        }
        Ok(made)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}+{:08x}+{}",
            self.name,
            self.id,
            STANDARD.encode(typed(self.kind, &self.public))
        )
    }
}

fn typed(kind: u8, key: &[u8]) -> Vec<u8> {
    [&[kind], key].concat()
}

fn untyped(text: &str) -> Option<(u8, [u8; 32])> {
    let bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
    let (kind, key) = bytes.split_first()?;
    Some((*kind, key.try_into().ok()?))
}

/// The private key of a log. Prints without it.
pub struct LogKey {
    pair: Ed25519KeyPair,
    verifier: VerifierKey,
}

const SKEY: &str = "PRIVATE+KEY+name+id+base64(type, seed)";

impl LogKey {
    /// A new key for a log of this name, and its text for the key file.
    ///
    /// # Errors
    /// [`LogKeyError::Form`] if the library takes no seed of 32 bytes any more.
    pub fn generate(name: &Origin, entropy: &dyn Entropy) -> Result<(Self, Secret), LogKeyError> {
        let seed = Zeroizing::new(random::<32>(entropy));
        let made = Self::from_seed(name, &seed).ok_or(LogKeyError::Form(SKEY))?;
        let typed = Zeroizing::new(typed(ED25519_NOTE, &*seed));
        let text = format!("PRIVATE+KEY+{name}+{:08x}+{}\n", made.verifier.id, STANDARD.encode(&*typed));
        Ok((made, Secret::new(text)))
    }

    fn from_seed(name: &Origin, seed: &[u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let public = pair.public_key().as_ref().try_into().ok()?;
        let verifier = VerifierKey::new(name.clone(), ED25519_NOTE, public);
        Some(Self { pair, verifier })
    }

    /// Reads the text of a key file.
    ///
    /// # Errors
    /// [`LogKeyError`]: what is wrong with it; never any of its text.
    pub fn parse(text: &Secret) -> Result<Self, LogKeyError> {
        let form = LogKeyError::Form(SKEY);
        let rest = text.expose().trim().strip_prefix("PRIVATE+KEY+").ok_or(form)?;
        let (name, rest) = rest.split_once('+').ok_or(form)?;
        let (id, seed) = rest.split_once('+').ok_or(form)?;
        let (kind, seed) = untyped(seed).ok_or(form)?;
        let seed = Zeroizing::new(seed);
        if kind != ED25519_NOTE {
            return Err(LogKeyError::Algorithm);
        }
        let made = Self::from_seed(&name.parse()?, &seed).ok_or(form)?;
        if id != format!("{:08x}", made.verifier.id) {
            return Err(LogKeyError::Id);
        }
        Ok(made)
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub const fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// Whose key it is.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.verifier.name
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogKey").field(&self.verifier.name.0).finish_non_exhaustive()
    }
}
