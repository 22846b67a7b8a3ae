//! A ring with one key, a grant, the request it covers, and a forger that holds whatever key a test hands it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use biscuit_auth::builder::Term;
use biscuit_auth::datalog::SymbolTable;
use biscuit_auth::{Algorithm, Biscuit, KeyPair, PrivateKey};
use writ::domain::clock::Clock as _;
use writ::domain::digest::DraftHash;
use writ::domain::id::{ApprovalId, CredentialId};
use writ::domain::name::Audience;
use writ::domain::secret::Secret;
use writ::domain::time::Timestamp;
use writ::token::{
    CONTEXT, Grant, KeySet, Minter, PublishedKey, RequestFacts, RootKeyId, RootPublicKey, TokenError, VerifiedCredential, Verifier,
};

use crate::support::{ManualClock, SeededEntropy};

pub const LIFETIME: Duration = Duration::from_secs(60);
pub const AUDIENCE: &str = "https://proxy.shop.example";

/// The check that a minted token carries, as text.
pub const CHECK: &str = "check if grant($o, $r, $d, $a, $c, $j, $n, $e), request($o, $r, $d, $a), time($t), $n <= $t, $t < $e;";

/// A broker with root key 1 and a proxy that knows it.
pub struct World {
    pub clock: ManualClock,
    pub entropy: SeededEntropy,
    pub root: KeyPair,
    pub minter: Minter,
    pub verifier: Verifier,
}

impl World {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        let root = root([7; 32]);
        Self {
            minter: minter(1, &root),
            verifier: Verifier::new(key_set(&[(1, &root)]), audience()),
            entropy: SeededEntropy::new(1),
            clock,
            root,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn grant(&self) -> Grant {
        grant(self.now())
    }

    pub fn mint(&self, grant: &Grant) -> Secret {
        self.minter.mint(grant, &self.entropy).unwrap()
    }

    pub fn token(&self) -> Secret {
        self.mint(&self.grant())
    }

    /// The bytes of a good token.
    pub fn bytes(&self) -> Vec<u8> {
        URL_SAFE.decode(self.token().expose()).unwrap()
    }

    pub fn check(&self, token: &str, request: &RequestFacts) -> Result<VerifiedCredential, TokenError> {
        check(&self.verifier, token, request, self.now())
    }

    /// Why the token is refused for the request that its grant was made for.
    pub fn refusal(&self, token: &str) -> TokenError {
        self.check(token, &request()).expect_err("the credential was accepted")
    }

    /// Why a good token is refused for another request.
    pub fn refusal_for(&self, change: impl FnOnce(&mut RequestFacts)) -> TokenError {
        let mut request = request();
        change(&mut request);
        self.check(self.token().expose(), &request)
            .expect_err("the credential was accepted")
    }

    /// A token signed with the real root over anything at all.
    pub fn signed(&self, code: &str) -> String {
        forge(&self.root, Some(1), Some(CONTEXT), code)
    }
}

pub fn check(verifier: &Verifier, token: &str, request: &RequestFacts, now: Timestamp) -> Result<VerifiedCredential, TokenError> {
    let signed = verifier.read(token, now)?;
    verifier.authorize(signed, request, now)
}

pub fn root(seed: [u8; 32]) -> KeyPair {
    KeyPair::from(&PrivateKey::from_bytes(&seed, Algorithm::Ed25519).unwrap())
}

pub fn minter(kid: u32, root: &KeyPair) -> Minter {
    let pem = Secret::new(root.to_private_key_pem().unwrap().to_string());
    Minter::from_pkcs8_pem(RootKeyId::new(kid), &pem).unwrap()
}

pub fn published(key: &KeyPair) -> PublishedKey {
    PublishedKey {
        key: RootPublicKey::from_bytes(&key.public().to_bytes()).unwrap(),
        not_before: Timestamp::from_millis(0),
        not_after: None,
    }
}

pub fn key_set(keys: &[(u32, &KeyPair)]) -> KeySet {
    let mut set = KeySet::new();
    for (kid, key) in keys {
        set.insert(RootKeyId::new(*kid), published(key)).unwrap();
    }
    set
}

pub fn audience() -> Audience {
    AUDIENCE.parse().unwrap()
}

pub fn grant(now: Timestamp) -> Grant {
    let (not_before, expires_at) = Grant::window(now, LIFETIME);
    let request = request();
    Grant {
        operation: request.operation,
        resource: request.resource,
        draft_hash: request.draft_hash,
        audience: audience(),
        credential: CredentialId::from_bytes([0xc1; 16]),
        jti: ApprovalId::from_bytes([0xa1; 16]),
        not_before,
        expires_at,
    }
}

pub fn request() -> RequestFacts {
    RequestFacts {
        operation: "refund.create".parse().unwrap(),
        resource: "shop/charge:ch_4821".parse().unwrap(),
        draft_hash: DraftHash::of_canonical(b"{\"amount\":24000}"),
    }
}

/// The grant as Datalog text, for tokens that no minter of ours would make.
pub fn grant_code(grant: &Grant) -> String {
    let bytes = |bytes: &[u8]| Term::Bytes(bytes.to_vec());
    let date = |at: Timestamp| Term::Date(u64::try_from(at.seconds()).unwrap());
    format!(
        "grant(\"{}\", \"{}\", {}, \"{}\", \"{}\", {}, {}, {});",
        grant.operation,
        grant.resource,
        bytes(grant.draft_hash.digest().as_bytes()),
        grant.audience,
        grant.credential,
        bytes(grant.jti.as_bytes()),
        date(grant.not_before),
        date(grant.expires_at)
    )
}

pub fn forge(root: &KeyPair, kid: Option<u32>, context: Option<&str>, code: &str) -> String {
    let mut builder = Biscuit::builder().code(code).unwrap();
    if let Some(kid) = kid {
        builder = builder.root_key_id(kid);
    }
    if let Some(context) = context {
        builder = builder.context(context.to_owned());
    }
    // The same next key every time, so that the same token comes out.
    builder
        .build_with_key_pair(root, SymbolTable::new(), &super::support::root([5; 32]))
        .unwrap()
        .to_base64()
        .unwrap()
}

/// The token as the library reads it, to be rewritten by whoever holds it.
pub fn opened(world: &World) -> Biscuit {
    opened_by(world.token().expose(), &world.root)
}

pub fn opened_by(token: &str, root: &KeyPair) -> Biscuit {
    Biscuit::from_base64(token, root.public()).unwrap()
}
