//! Signing records: the rule's own key at the broker, and an approver's key on the command line.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Serialize;
use zeroize::{Zeroize as _, Zeroizing};

use crate::domain::approval::Claims;
use crate::domain::json;
use crate::domain::name::KeyId;
use crate::domain::principal::KeyKind;
use crate::domain::secret::Secret;

use super::record::{check_content, check_reason};
use super::{MAX_RECORD_BYTES, RECORD_TYPE, RecordError, signature};

/// Why a key could not be used, or a record not be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// Not one PKCS#8 private key.
    #[error("the private key is not PKCS#8 of kind {expected}; expected a PEM block `PRIVATE KEY`")]
    KeyUnreadable {
        /// What was expected.
        expected: &'static str,
    },
    /// The public key's text is not a key of its kind.
    #[error("the public key is not one of its kind: expected base64url of 65 bytes (uncompressed P-256 point) or 32 bytes (Ed25519)")]
    PublicKeyUnreadable,
    /// The record would be refused by every verifier.
    #[error("the record would be refused: {0}")]
    Refused(#[from] RecordError),
    /// The operating system gave no randomness.
    #[error("the operating system gave no randomness; try again")]
    NoRandomness,
}

/// A new key pair for an approver.
#[derive(Debug)]
pub struct GeneratedKey {
    /// PKCS#8 in PEM.
    pub private_pem: Secret,
    /// The public key as the registry keeps it: see [`crate::domain::principal::ApproverKey::public`].
    pub public: String,
}

enum Key {
    // The pair does not keep its nonce source; ring takes one with every signature.
    Es256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Signs approval records with one key. Prints without the key.
pub struct RecordSigner {
    kid: KeyId,
    key: Key,
}

impl std::fmt::Debug for RecordSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordSigner({}, {:?})", self.kid, self.kind())
    }
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a KeyId,
    typ: &'a str,
}

impl RecordSigner {
    /// From a PKCS#8 private key in PEM, of either kind.
    ///
    /// # Errors
    /// [`SignerError::KeyUnreadable`] if it is not that.
    pub fn from_pkcs8_pem(pem: &Secret, kid: KeyId) -> Result<Self, SignerError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.expose().as_bytes()).map_err(|_| unreadable())?;
        Self::from_pkcs8_der(key.secret_pkcs8_der(), kid)
    }

    /// From a PKCS#8 private key in DER, of either kind.
    ///
    /// # Errors
    /// [`SignerError::KeyUnreadable`] if it is not that.
    pub fn from_pkcs8_der(der: &[u8], kid: KeyId) -> Result<Self, SignerError> {
        let key = match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &system_random()) {
            Ok(pair) => Key::Es256(pair),
            // OpenSSL writes Ed25519 keys without their public half; it is recomputed.
            Err(_) => Key::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| unreadable())?),
        };
        Ok(Self { kid, key })
    }

    /// A new key pair of the kind.
    ///
    /// # Errors
    /// [`SignerError::NoRandomness`] if the operating system gives none.
    pub fn generate(kind: KeyKind) -> Result<GeneratedKey, SignerError> {
        let random = system_random();
        let mut der = Zeroizing::new(Vec::new());
        let public = match kind {
            KeyKind::Es256 => {
                let document =
                    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(|_| SignerError::NoRandomness)?;
                der.extend_from_slice(document.as_ref());
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).map_err(|_| unreadable())?;
                URL_SAFE_NO_PAD.encode(pair.public_key())
            }
            KeyKind::Ed25519 => {
                let mut seed = Zeroizing::new([0; 32]);
                random.fill(seed.as_mut()).map_err(|_| SignerError::NoRandomness)?;
                der.extend_from_slice(&ED25519_PKCS8_PREFIX);
                der.extend_from_slice(seed.as_ref());
                let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).map_err(|_| unreadable())?;
                URL_SAFE_NO_PAD.encode(pair.public_key())
            }
        };
        Ok(GeneratedKey {
            private_pem: pem(&der),
            public,
        })
    }

    /// The key's id, which becomes the record's `kid`.
    #[must_use]
    pub const fn kid(&self) -> &KeyId {
        &self.kid
    }

    /// The key's kind.
    #[must_use]
    pub const fn kind(&self) -> KeyKind {
        match self.key {
            Key::Es256(_) => KeyKind::Es256,
            Key::Ed25519(_) => KeyKind::Ed25519,
        }
    }

    /// The public key, as the registry keeps it.
    #[must_use]
    pub fn public(&self) -> String {
        match &self.key {
            Key::Es256(pair) => URL_SAFE_NO_PAD.encode(pair.public_key()),
            Key::Ed25519(pair) => URL_SAFE_NO_PAD.encode(pair.public_key()),
        }
    }

    /// Signs the claims: a compact JWS. An Ed25519 signature is written under the name `EdDSA`, which more libraries read than `Ed25519`.
    ///
    /// # Errors
    /// [`SignerError::Refused`] if no verifier would accept these claims; [`SignerError::NoRandomness`].
    pub fn sign(&self, claims: &Claims) -> Result<String, SignerError> {
        check_content(claims)?;
        check_reason(claims)?;
        let payload = json::canonical(claims).map_err(RecordError::ClaimsMalformed)?;
        let jws = self.sign_bytes(RECORD_TYPE, &payload)?;
        if jws.len() > MAX_RECORD_BYTES {
            return Err(RecordError::TooLarge { length: jws.len() }.into());
        }
        Ok(jws)
    }

    /// Signs these bytes, whatever they say: a compact JWS of this type. A type of its own keeps what is no approval from passing for one (RFC
    /// 8725 section 3.11).
    ///
    /// # Errors
    /// [`SignerError::NoRandomness`].
    pub fn sign_bytes(&self, typ: &str, payload: &[u8]) -> Result<String, SignerError> {
        let header = Header {
            alg: match self.key {
                Key::Es256(_) => "ES256",
                Key::Ed25519(_) => "EdDSA",
            },
            kid: &self.kid,
            typ,
        };
        let header = json::canonical(&header).map_err(RecordError::HeaderMalformed)?;
        let mut jws = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let signature = match &self.key {
            Key::Es256(pair) => pair.sign(&system_random(), jws.as_bytes()).map_err(|_| SignerError::NoRandomness)?,
            Key::Ed25519(pair) => pair.sign(jws.as_bytes()),
        };
        jws.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut jws);
        Ok(jws)
    }
}

/// Whether `public` is a key of the kind, in the registry's form; to be asked before a key is registered.
///
/// # Errors
/// [`SignerError::PublicKeyUnreadable`] if it is not.
pub fn check_public_key(kind: KeyKind, public: &str) -> Result<(), SignerError> {
    signature::public_bytes(kind, public)
        .map(|_| ())
        .ok_or(SignerError::PublicKeyUnreadable)
}

/// `PrivateKeyInfo` (RFC 5958, RFC 8410 section 7) up to the 32 bytes of seed. Version 1, because OpenSSL does not read version 2 everywhere.
const ED25519_PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

fn unreadable() -> SignerError {
    SignerError::KeyUnreadable {
        expected: "P-256 or Ed25519",
    }
}

/// PEM with lines of 64 characters (RFC 7468).
fn pem(der: &[u8]) -> Secret {
    let mut body = STANDARD.encode(der);
    let mut text = Zeroizing::new(String::from("-----BEGIN PRIVATE KEY-----\n"));
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(64).unwrap_or((rest, ""));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str("-----END PRIVATE KEY-----\n");
    body.zeroize();
    Secret::new(std::mem::take(&mut *text))
}

/// ring accepts only its own source of randomness, for keys and for the nonce of each ECDSA signature, so `Entropy` cannot be handed on.
#[allow(
    clippy::disallowed_methods,
    reason = "ring's trait is sealed: this is the only place that signs with ECDSA"
)]
fn system_random() -> SystemRandom {
    SystemRandom::new()
}
