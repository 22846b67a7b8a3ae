//! Public keys as people have them: the registry's base64url, or PEM as `openssl pkey -pubout` writes it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

use super::{SignerError, check_public_key};
use crate::domain::principal::KeyKind;

/// `SubjectPublicKeyInfo` of P-256 (RFC 5480) up to the uncompressed point.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01,
    0x07, 0x03, 0x42, 0x00,
];
/// `SubjectPublicKeyInfo` of Ed25519 (RFC 8410) up to the key.
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Reads a public key of the kind, in either form, into the registry's.
///
/// # Errors
/// [`SignerError::PublicKeyUnreadable`] if it is not one of that kind.
pub fn read_public_key(kind: KeyKind, text: &str) -> Result<String, SignerError> {
    let text = text.trim();
    if !text.starts_with("-----BEGIN") {
        check_public_key(kind, text)?;
        return Ok(text.to_owned());
    }
    let info = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).map_err(|_| SignerError::PublicKeyUnreadable)?;
    let prefix: &[u8] = match kind {
        KeyKind::Es256 => &P256,
        KeyKind::Ed25519 => &ED25519,
    };
    let key = info.strip_prefix(prefix).ok_or(SignerError::PublicKeyUnreadable)?;
    let public = URL_SAFE_NO_PAD.encode(key);
    check_public_key(kind, &public)?;
    Ok(public)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Both made by `openssl genpkey` and `openssl pkey -pubout`.
    const P256_PEM: &str = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEIjwsY8lTbDCDkBaNK6ETtV6gvixO\nVz+iB4EX56Wt0hIo4aAHXFeo13E3YTrxaFJDsOFiiADRMPXN9QksRXBW6w==\n-----END PUBLIC KEY-----";
    const ED25519_PEM: &str =
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAJ1wr8VmtW/D5Ozgf07TbRUwwu2w+AH0W75vLoeAlj64=\n-----END PUBLIC KEY-----";

    #[test]
    fn a_key_of_another_kind_is_refused() {
        assert!(read_public_key(KeyKind::Ed25519, P256_PEM).is_err());
        assert!(read_public_key(KeyKind::Es256, ED25519_PEM).is_err());
        assert!(read_public_key(KeyKind::Es256, "AAAA").is_err());
        assert!(read_public_key(KeyKind::Es256, "-----BEGIN PUBLIC KEY-----").is_err());
    }

    #[test]
    fn pem_and_base64url_mean_the_same_key() {
        for (kind, pem) in [(KeyKind::Es256, P256_PEM), (KeyKind::Ed25519, ED25519_PEM)] {
            let public = read_public_key(kind, pem).unwrap();
            assert_eq!(read_public_key(kind, &format!(" {public}\n")).unwrap(), public);
        }
    }
}
