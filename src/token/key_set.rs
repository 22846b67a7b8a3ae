//! The public keys that credentials are verified with: id to key and window, and their published form.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use biscuit_auth::{Algorithm, PublicKey};
use serde::{Deserialize, Serialize};

use crate::domain::json::{Json, JsonError};
use crate::domain::time::Timestamp;

use super::{CLOCK_SKEW, TokenError};

/// The number of a root key (`root_key_id`). Never used for a second key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RootKeyId(u32);

impl RootKeyId {
    /// From its number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for RootKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An Ed25519 public key of a root, parsed once. Written `ed25519/` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RootPublicKey(PublicKey);

impl RootPublicKey {
    /// From 32 bytes; `None` if they are not a point of the curve.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        PublicKey::from_bytes(bytes, Algorithm::Ed25519).ok().map(Self)
    }

    pub(super) const fn inner(&self) -> PublicKey {
        self.0
    }

    fn hex(self) -> String {
        self.0.to_bytes_hex()
    }
}

impl fmt::Display for RootPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ed25519/{}", self.hex())
    }
}

impl fmt::Debug for RootPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for RootPublicKey {
    type Err = KeySetError;
    fn from_str(text: &str) -> Result<Self, KeySetError> {
        let hex = text.strip_prefix("ed25519/").unwrap_or(text);
        PublicKey::from_bytes_hex(hex, Algorithm::Ed25519)
            .map(Self)
            .map_err(|_| KeySetError::KeyUnreadable)
    }
}

/// A root's public key and when it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedKey {
    /// The key.
    pub key: RootPublicKey,
    /// First moment it signs.
    pub not_before: Timestamp,
    /// First moment at which nothing it signed counts any longer, if there is one.
    pub not_after: Option<Timestamp>,
}

/// Why a set of keys is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// Not the JSON it should be.
    #[error("the key set cannot be read, {0}")]
    Json(JsonError),
    /// Another algorithm. On P-256 one token has two valid signatures, so only Ed25519 roots are accepted.
    #[error("key {kid} has the algorithm `{algorithm}`; only `ed25519` is accepted")]
    AlgorithmRefused {
        /// The key.
        kid: RootKeyId,
        /// What it says it is.
        algorithm: String,
    },
    /// Not a public key.
    #[error("not an Ed25519 public key: expected `ed25519/` and 64 hex digits")]
    KeyUnreadable,
    /// One id for two keys.
    #[error("key id {0} appears twice; an id names one key for ever")]
    IdTwice(RootKeyId),
    /// One key under two ids: then the unsigned id in a token could be changed without harm to the signature.
    #[error("keys {0} and {1} are the same key; each id needs a key of its own")]
    KeyTwice(RootKeyId, RootKeyId),
}

/// One element of the Biscuit web key array. `not_before` is ours; other readers skip it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebKey {
    algorithm: String,
    key_bytes: String,
    key_id: RootKeyId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

/// The public keys that credentials may be signed with. No two ids share a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet(BTreeMap<RootKeyId, PublishedKey>);

impl KeySet {
    /// A set without keys, which verifies nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key.
    ///
    /// # Errors
    /// [`KeySetError::IdTwice`] or [`KeySetError::KeyTwice`]; the set is unchanged.
    pub fn insert(&mut self, kid: RootKeyId, key: PublishedKey) -> Result<(), KeySetError> {
        if self.0.contains_key(&kid) {
            return Err(KeySetError::IdTwice(kid));
        }
        if let Some((other, _)) = self.0.iter().find(|(_, known)| known.key == key.key) {
            return Err(KeySetError::KeyTwice(*other, kid));
        }
        self.0.insert(kid, key);
        Ok(())
    }

    /// Reads the Biscuit web key array (`/.well-known/biscuit-web-keys`, or the file of a key ring).
    ///
    /// # Errors
    /// [`KeySetError`] with what is wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Self, KeySetError> {
        let keys: Vec<WebKey> = Json::parse(bytes).and_then(|json| json.decode()).map_err(KeySetError::Json)?;
        let mut set = Self::new();
        for web in keys {
            if web.algorithm != "ed25519" {
                return Err(KeySetError::AlgorithmRefused {
                    kid: web.key_id,
                    algorithm: web.algorithm,
                });
            }
            let key = PublishedKey {
                key: web.key_bytes.parse()?,
                not_before: web.not_before.unwrap_or(Timestamp::from_millis(0)),
                not_after: web.expires_at,
            };
            set.insert(web.key_id, key)?;
        }
        Ok(set)
    }

    /// Writes the Biscuit web key array, oldest key first.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let keys: Vec<WebKey> = self
            .0
            .iter()
            .map(|(kid, published)| WebKey {
                algorithm: "ed25519".to_owned(),
                key_bytes: published.key.hex(),
                key_id: *kid,
                issuer: None,
                not_before: Some(published.not_before),
                expires_at: published.not_after,
            })
            .collect();
        // Cannot fail: text and integers only.
        serde_json::to_vec_pretty(&keys).unwrap_or_default()
    }

    /// The keys, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (RootKeyId, &PublishedKey)> {
        self.0.iter().map(|(kid, key)| (*kid, key))
    }

    /// The key of that id, whatever its window.
    #[must_use]
    pub fn find(&self, kid: RootKeyId) -> Option<&PublishedKey> {
        self.0.get(&kid)
    }

    pub(super) fn find_mut(&mut self, kid: RootKeyId) -> Option<&mut PublishedKey> {
        self.0.get_mut(&kid)
    }

    /// The key of that id, if it verifies at `now`. Never another key in its place.
    pub(super) fn verifying(&self, kid: Option<u32>, now: Timestamp) -> Result<(RootKeyId, RootPublicKey), TokenError> {
        let kid = kid.map(RootKeyId).ok_or(TokenError::KeyIdMissing)?;
        let published = self.0.get(&kid).ok_or(TokenError::KeyUnknown(kid))?;
        if now.plus(CLOCK_SKEW) < published.not_before {
            return Err(TokenError::KeyNotYetValid(kid));
        }
        if published.not_after.is_some_and(|end| now >= end) {
            return Err(TokenError::KeyRetired(kid));
        }
        Ok((kid, published.key))
    }
}
