//! SHA-256 digests under a domain tag, so that a hash of one thing is never the hash of another.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A SHA-256 digest. Written as 43 characters of unpadded base64url.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// SHA-256 over the bytes as they are.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_ring(&ring::digest::digest(&ring::digest::SHA256, bytes))
    }

    /// SHA-256 over `tag || 0x00 || bytes`.
    #[must_use]
    pub fn tagged(tag: &str, bytes: &[u8]) -> Self {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        context.update(tag.as_bytes());
        context.update(&[0]);
        context.update(bytes);
        Self::from_ring(&context.finish())
    }

    /// From the raw 32 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From 43 characters of unpadded base64url; `None` for anything else, non-canonical endings included.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    fn from_ring(digest: &ring::digest::Digest) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a SHA-256 digest in 43 characters of base64url"))
    }
}

/// The hash an approval is given for: SHA-256 over the draft's canonical bytes under the draft tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DraftHash(Digest);

impl DraftHash {
    /// The domain tag of a draft, version 1.
    pub const TAG: &'static str = "writ.draft.v1";

    /// The hash of a draft's canonical (RFC 8785) bytes.
    #[must_use]
    pub fn of_canonical(bytes: &[u8]) -> Self {
        Self(Digest::tagged(Self::TAG, bytes))
    }

    /// From a digest that was stored or received as a draft hash.
    #[must_use]
    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest itself.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl fmt::Display for DraftHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for DraftHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_as_it_was_written() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(
            Digest::parse("ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa1"),
            None,
            "non-canonical last character"
        );
    }

    #[test]
    fn the_same_bytes_under_two_tags_differ() {
        assert_ne!(Digest::tagged("a", b"x"), Digest::tagged("b", b"x"));
    }
}
