//! A ring with one key, a grant, and the request it covers.

use std::time::Duration;

use writ::domain::clock::Clock as _;
use writ::domain::digest::DraftHash;
use writ::domain::id::{ApprovalId, CredentialId};
use writ::domain::name::Audience;
use writ::domain::secret::Secret;
use writ::domain::time::Timestamp;
use writ::token::{Grant, KeyRing, RequestFacts, TokenError, VerifiedCredential, Verifier};

use crate::support::{ManualClock, SeededEntropy};

pub const LIFETIME: Duration = Duration::from_secs(60);
pub const AUDIENCE: &str = "https://proxy.shop.example";

pub struct World {
    pub dir: tempfile::TempDir,
    pub clock: ManualClock,
    pub entropy: SeededEntropy,
    pub ring: KeyRing,
    pub verifier: Verifier,
}

impl World {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (clock, entropy) = (ManualClock::new(), SeededEntropy::new(1));
        let ring = KeyRing::generate(dir.path(), clock.now(), Duration::from_secs(86_400), &entropy).unwrap();
        let verifier = Verifier::new(ring.public().clone(), audience());
        Self {
            dir,
            clock,
            entropy,
            ring,
            verifier,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn grant(&self) -> Grant {
        grant(self.now())
    }

    pub fn token(&self) -> Secret {
        self.mint(&self.grant())
    }

    pub fn mint(&self, grant: &Grant) -> Secret {
        self.ring.signing(self.now()).unwrap().mint(grant, &self.entropy).unwrap()
    }

    pub fn check(&self, token: &str, request: &RequestFacts) -> Result<VerifiedCredential, TokenError> {
        check(&self.verifier, token, request, self.now())
    }

    /// Why the token is refused for the request that its grant was made for.
    pub fn refusal(&self, token: &str) -> TokenError {
        self.check(token, &request()).expect_err("the credential was accepted")
    }
}

pub fn check(verifier: &Verifier, token: &str, request: &RequestFacts, now: Timestamp) -> Result<VerifiedCredential, TokenError> {
    let signed = verifier.read(token, now)?;
    verifier.authorize(signed, request, now)
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
