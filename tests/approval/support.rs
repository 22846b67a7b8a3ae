//! A registered key of each kind, a good record, and a forger that signs whatever a test writes.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use biscuit_auth::{Algorithm, KeyPair, PrivateKey};
use serde_json::{Value, json};
use writ::approval::{RecordError, RecordSigner, UnverifiedRecord, VerifiedRecord};
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::name::Audience;
use writ::domain::principal::{ApproverKey, KeyKind};
use writ::domain::secret::Secret;
use writ::domain::time::Timestamp;

pub const AUDIENCE: &str = "https://broker.shop.example";
pub const ISSUER: &str = "https://approvals.shop.example";
/// When the good record is signed, in seconds.
pub const SIGNED_AT: i64 = 1_790_000_000;

/// A key pair that signs through a library other than the one under test, and the same signature every time.
pub struct TestKey {
    pub kid: &'static str,
    pub kind: KeyKind,
    public: String,
    pair: KeyPair,
}

pub fn p256() -> &'static TestKey {
    static KEY: LazyLock<TestKey> = LazyLock::new(|| TestKey::new("appr-p256", KeyKind::Es256, [0x51; 32]));
    &KEY
}

pub fn ed25519() -> &'static TestKey {
    static KEY: LazyLock<TestKey> = LazyLock::new(|| TestKey::new("appr-ed25519", KeyKind::Ed25519, [0x52; 32]));
    &KEY
}

impl TestKey {
    pub fn new(kid: &'static str, kind: KeyKind, seed: [u8; 32]) -> Self {
        let algorithm = match kind {
            KeyKind::Es256 => Algorithm::Secp256r1,
            KeyKind::Ed25519 => Algorithm::Ed25519,
        };
        let pair = KeyPair::from(&PrivateKey::from_bytes(&seed, algorithm).unwrap());
        let public = signer(&pair, kid).public();
        Self { kid, kind, public, pair }
    }

    pub fn signer(&self) -> RecordSigner {
        signer(&self.pair, self.kid)
    }

    /// As the registry keeps it: valid from a day before the good record, without end.
    pub fn registered(&self) -> ApproverKey {
        ApproverKey {
            kid: self.kid.parse().unwrap(),
            approver: "usr_mia".parse().unwrap(),
            issuer: ISSUER.to_owned(),
            kind: self.kind,
            public: self.public.clone(),
            not_before: Timestamp::from_seconds(SIGNED_AT - 86_400),
            not_after: None,
            revoked_at: None,
        }
    }

    pub fn alg(&self) -> &'static str {
        match self.kind {
            KeyKind::Es256 => "ES256",
            KeyKind::Ed25519 => "EdDSA",
        }
    }

    pub fn header(&self) -> Value {
        json!({"alg": self.alg(), "kid": self.kid, "typ": "approval+jwt"})
    }

    /// A compact JWS over these very texts.
    pub fn sign(&self, header: &str, payload: &str) -> String {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let signature = self.pair.sign(message.as_bytes()).unwrap();
        let bytes = match self.kind {
            KeyKind::Es256 => fixed(signature.to_bytes()),
            KeyKind::Ed25519 => signature.to_bytes().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    pub fn record(&self, claims: &Value) -> String {
        self.sign(&self.header().to_string(), &claims.to_string())
    }

    /// The good record after a change to its header.
    pub fn with_header(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut header = self.header();
        change(&mut header);
        self.sign(&header.to_string(), &claims().to_string())
    }

    /// The good record after a change to its claims, signed after the change.
    pub fn with_claims(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = claims();
        change(&mut claims);
        self.record(&claims)
    }
}

fn signer(pair: &KeyPair, kid: &str) -> RecordSigner {
    let pem = Secret::new(pair.to_private_key_pem().unwrap().to_string());
    RecordSigner::from_pkcs8_pem(&pem, kid.parse().unwrap()).unwrap()
}

/// `r` and `s` of 32 bytes each, out of their DER sequence.
fn fixed(der: &[u8]) -> Vec<u8> {
    let number = |at: usize| {
        let bytes = &der[at + 2..at + 2 + usize::from(der[at + 1])];
        let significant = &bytes[bytes.iter().position(|b| *b != 0).unwrap()..];
        [vec![0; 32 - significant.len()], significant.to_vec()].concat()
    };
    let second = 4 + usize::from(der[3]);
    [number(2), number(second)].concat()
}

/// What the good record says.
pub fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "sub": "usr_mia",
        "aud": AUDIENCE,
        "jti": "apr_0192f0c1a2b37c4d8e5f60718293a4b5",
        "iat": SIGNED_AT,
        "nbf": SIGNED_AT,
        "exp": SIGNED_AT + 900,
        "apr": {
            "v": 1,
            "decision": "approve",
            "draft_id": "drf_0192f0c1a2b37c4d8e5f60718293a4b5",
            "draft_hash": DraftHash::of_canonical(b"{\"amount\":24000}").to_string(),
            "request_nonce": "u0cB6h0QqkM0d2o3s5lJ1g",
            "verdict_id": "vrd_0192f0c1a2b37c4d8e5f60718293a4b5",
            "policy": {"id": "support-refunds", "version": 7, "sha256": Digest::of(b"policy").to_string()},
            "by": {"type": "human", "id": "usr_mia", "queue": "finance.refunds", "amr": ["hwk", "user"], "auth_time": SIGNED_AT - 10},
            "reason": "the photo shows the crack"
        }
    })
}

pub fn audience() -> Audience {
    AUDIENCE.parse().unwrap()
}

/// Ten seconds after the good record was signed.
pub fn now() -> Timestamp {
    Timestamp::from_seconds(SIGNED_AT + 10)
}

pub fn verify(jws: &str, key: &ApproverKey, now: Timestamp) -> Result<VerifiedRecord, RecordError> {
    UnverifiedRecord::parse(jws)?.verify(key, &audience(), now)
}

/// The code with which a record of the P-256 key is refused.
pub fn refused(jws: &str) -> &'static str {
    verify(jws, &p256().registered(), now())
        .expect_err("the record was accepted")
        .code()
}
