//! The draft: what would be sent, written down once, hashed, and never edited.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use super::digest::{Digest, DraftHash};
use super::id::DraftId;
use super::json::{Json, JsonError, canonical};
use super::money::Money;
use super::name::{BackendName, CaseId, ClientId, OperationName, PrincipalId, ResourceId, ResourceType, TenantId};
use super::operation::Consequence;
use super::policy::PolicyRef;
use super::time::Timestamp;

/// What an operation touches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: ResourceType,
    /// The backend's id for it.
    pub id: ResourceId,
    /// The version that was inspected, as the backend writes it (an `ETag`, say).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

/// Who made the draft: always the authenticated client, and the person answerable for it by the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Maker {
    /// The client.
    pub client: ClientId,
    /// Its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<PrincipalId>,
}

/// Something outside the draft that supports it, named by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// What it is, such as `photo`.
    pub kind: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

/// Where the idempotency key goes when the request is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in", deny_unknown_fields)]
pub enum KeyPlacement {
    /// In this header; `quoted` writes it as a structured-field string, with quotation marks.
    Header {
        /// The header's name.
        name: String,
        /// Whether it stands in quotation marks.
        quoted: bool,
    },
    /// In the body, at `key_offsets`.
    Body,
    /// Nowhere: the backend has no idempotency. Such a request is sent once and never again.
    None,
}

/// The exact outgoing request. The key is derived from the draft's hash, so it is not in here: a body that carries it holds
/// [`KEY_PLACEHOLDER`] at each of `key_offsets`, and nothing else is ever filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompiledRequest {
    /// The backend it goes to.
    pub backend: BackendName,
    /// The HTTP method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Headers besides authentication and the key, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    /// SHA-256 of the body as it stands here.
    pub body_sha256: Digest,
    /// Where the key goes.
    pub idempotency_key: KeyPlacement,
    /// Byte offsets of the placeholder in the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_offsets: Vec<u32>,
}

/// What stands in a compiled body where the key will stand: a UUID of version 8 that no hash can produce by design of its zeros.
pub const KEY_PLACEHOLDER: &str = "00000000-0000-8000-8000-000000000000";

impl CompiledRequest {
    /// The body as it goes out: the placeholder replaced by the key, every other byte as it was approved.
    #[must_use]
    pub fn wire_body(&self, key: &IdempotencyKey) -> Vec<u8> {
        let mut bytes = self.body.clone().into_bytes();
        let text = key.to_string();
        for offset in &self.key_offsets {
            let start = *offset as usize;
            if let Some(slot) = bytes.get_mut(start..start + KEY_PLACEHOLDER.len()) {
                slot.copy_from_slice(text.as_bytes());
            }
        }
        bytes
    }
}

/// The adapter that compiled the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterRef {
    /// The backend's name.
    pub name: BackendName,
    /// SHA-256 over the adapter file's bytes.
    pub sha256: Digest,
}

/// The draft's content, version 1. Its canonical bytes are what is stored, hashed, shown, approved and executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftDocument {
    /// The version of this object: 1.
    pub v: u8,
    /// The draft's id.
    pub id: DraftId,
    /// 16 random bytes in base64url: two equal legitimate refunds differ, and a hash cannot be guessed from its parts.
    pub salt: String,
    /// The tenant.
    pub tenant: TenantId,
    /// What is to be done.
    pub operation: OperationName,
    /// How far it reaches.
    pub consequence: Consequence,
    /// To what.
    pub resource: Resource,
    /// How much, on operations that move money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Money>,
    /// The operation's declared parameters, closed.
    pub parameters: Json,
    /// Who made it.
    pub maker: Maker,
    /// The person whose wish it is, if the maker acts for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<PrincipalId>,
    /// The support case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_id: Option<CaseId>,
    /// Why, as a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<String>,
    /// What supports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What the backend said when the draft was made.
    pub facts: Json,
    /// The exact outgoing request.
    pub request: CompiledRequest,
    /// What stands if it fails, such as `no refund is created`.
    pub on_failure: String,
    /// The adapter that compiled it.
    pub adapter: AdapterRef,
    /// The policy in force when it was made.
    pub policy: PolicyRef,
    /// The draft it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<DraftId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// First moment it can no longer be approved or executed.
    pub expires_at: Timestamp,
}

impl DraftDocument {
    /// The canonical bytes and their hash.
    ///
    /// # Errors
    /// [`JsonError`] if a member does not fit the strict subset of JSON.
    pub fn seal(&self) -> Result<SealedDraft, JsonError> {
        let bytes = canonical(self)?;
        let hash = DraftHash::of_canonical(&bytes);
        Ok(SealedDraft {
            bytes,
            hash,
            key: IdempotencyKey::of(&hash),
        })
    }

    /// Reads a document from bytes that were stored or received.
    ///
    /// # Errors
    /// [`JsonError`] with the place and the reason.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        Json::parse_deeper(bytes)?.decode()
    }
}

/// A draft as it is stored: bytes, their hash, and the key that follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedDraft {
    /// The canonical bytes.
    pub bytes: Vec<u8>,
    /// Their hash.
    pub hash: DraftHash,
    /// The idempotency key.
    pub key: IdempotencyKey,
}

/// The key a backend recognises a repetition by: a lower-case UUID of version 8, which follows from the draft's hash alone. Nothing a
/// caller sends becomes one, and a store restored from a backup cannot mint a second one for the same draft.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Uuid);

impl IdempotencyKey {
    /// The domain tag of a key, version 1.
    pub const TAG: &'static str = "writ.idempotency-key.v1";

    /// The key of the draft with this hash.
    #[must_use]
    pub fn of(hash: &DraftHash) -> Self {
        let digest = Digest::tagged(Self::TAG, hash.digest().as_bytes());
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(digest.as_bytes()) {
            *to = *from;
        }
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// From stored text; `None` unless it is a lower-case UUID.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self).filter(|key| key.to_string() == text)
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IdempotencyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?)
            .ok_or_else(|| de::Error::custom("not an idempotency key: expected a lower-case UUID"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_follows_from_the_hash_and_is_a_version_8_uuid() {
        let hash = DraftHash::of_canonical(b"{}");
        let key = IdempotencyKey::of(&hash).to_string();
        assert_eq!(key, IdempotencyKey::of(&hash).to_string());
        assert_eq!(key.len(), 36);
        assert_eq!(key.as_bytes()[14], b'8');
        assert!(matches!(key.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_ne!(key, IdempotencyKey::of(&DraftHash::of_canonical(b"[]")).to_string());
    }

    #[test]
    fn only_the_placeholder_is_replaced_in_the_body() {
        let body = format!("a={KEY_PLACEHOLDER}&b={KEY_PLACEHOLDER}");
        let request = CompiledRequest {
            backend: "stripe".parse().unwrap(),
            method: "POST".to_owned(),
            url: "https://api.example/v1/refunds".to_owned(),
            headers: BTreeMap::new(),
            body_sha256: Digest::of(body.as_bytes()),
            body,
            idempotency_key: KeyPlacement::Body,
            key_offsets: vec![2],
        };
        let key = IdempotencyKey::of(&DraftHash::of_canonical(b"{}"));
        assert_eq!(
            String::from_utf8(request.wire_body(&key)).unwrap(),
            format!("a={key}&b={KEY_PLACEHOLDER}")
        );
    }
}
