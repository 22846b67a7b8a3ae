//! One signature under one registered key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};

use crate::domain::principal::{ApproverKey, KeyKind};

use super::RecordError;

/// The raw public key: an uncompressed P-256 point or 32 bytes of Ed25519. `None` for anything else.
pub(super) fn public_bytes(kind: KeyKind, public: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(public).ok()?;
    match (kind, bytes.as_slice()) {
        (KeyKind::Es256, [4, point @ ..]) if point.len() == 64 => Some(bytes),
        (KeyKind::Ed25519, key) if key.len() == 32 => Some(bytes),
        _ => None,
    }
}

pub(super) fn verify(key: &ApproverKey, message: &[u8], signature: &[u8]) -> Result<(), RecordError> {
    let bytes = public_bytes(key.kind, &key.public).ok_or_else(|| RecordError::KeyUnusable { kid: key.kid.clone() })?;
    let invalid = |_| RecordError::SignatureInvalid { kid: key.kid.clone() };
    match key.kind {
        KeyKind::Es256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes).verify(message, signature),
        KeyKind::Ed25519 => UnparsedPublicKey::new(&ED25519, bytes).verify(message, signature),
    }
    .map_err(invalid)
}
