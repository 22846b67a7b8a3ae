//! A record on its way from text to evidence: parsed, then verified under the key its `kid` names.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::approval::{Claims, Decision};
use crate::domain::json::{Json, JsonError};
use crate::domain::name::{Audience, KeyId};
use crate::domain::principal::ApproverKey;
use crate::domain::text::deceptive_in_lines;
use crate::domain::time::Timestamp;

use super::header::Header;
use super::step_up::StepUp;
use super::{LEEWAY_SECONDS, MAX_LIFETIME_SECONDS, MAX_REASON_CHARS, MAX_RECORD_BYTES, RECORD_VERSION, RecordError, signature};

/// A record whose shape is right and whose signature nobody has looked at. It tells only which key to look up.
#[derive(Debug)]
pub struct UnverifiedRecord {
    jws: String,
    header: Header,
    payload: Vec<u8>,
    signature: Vec<u8>,
    /// Length of `header.payload`, the signed bytes, within `jws`.
    signed: usize,
}

impl UnverifiedRecord {
    /// Reads size, encoding and header of a compact JWS. The claims stay unread until the signature is known to fit.
    ///
    /// # Errors
    /// [`RecordError`]: too large, malformed, or a header that is not exactly `typ`, `alg` and `kid`.
    pub fn parse(jws: &str) -> Result<Self, RecordError> {
        if jws.len() > MAX_RECORD_BYTES {
            return Err(RecordError::TooLarge { length: jws.len() });
        }
        let (signed, signature) = jws.rsplit_once('.').ok_or(RecordError::Malformed { part: "signature" })?;
        let (header, payload) = signed.split_once('.').ok_or(RecordError::Malformed { part: "payload" })?;
        let header = Header::read(&decode(header, "header")?)?;
        Ok(Self {
            header,
            payload: decode(payload, "payload")?,
            signature: decode(signature, "signature")?,
            signed: signed.len(),
            jws: jws.to_owned(),
        })
    }

    /// The key that the record says it was signed with; to be looked up in the registry and nowhere else.
    #[must_use]
    pub fn kid(&self) -> &KeyId {
        &self.header.kid
    }

    /// Verifies a record that is handed in at `now`: key, signature, audience, times, and that record and key agree on issuer and approver.
    ///
    /// Top-level claims that are not ours are ignored, but the whole payload must be JSON that every language reads alike: no key twice, no
    /// fractions.
    ///
    /// The key's window must hold both the time of signing and `now`: a key that has retired cannot approve with a backdated record.
    ///
    /// # Errors
    /// The first thing that is wrong, as a [`RecordError`].
    pub fn verify(self, key: &ApproverKey, audience: &Audience, now: Timestamp) -> Result<VerifiedRecord, RecordError> {
        if now < key.not_before {
            return Err(RecordError::KeyNotYetValid { kid: key.kid.clone() });
        }
        if key.not_after.is_some_and(|end| now >= end) {
            return Err(RecordError::KeyExpired { kid: key.kid.clone() });
        }
        let claims = self.claims_signed_by(key, now)?;
        if claims.aud != audience.as_str() {
            return Err(RecordError::AudienceWrong);
        }
        check_reason(&claims)?;
        check_times(&claims, now)?;
        Ok(self.verified(claims))
    }

    /// Verifies a record again that was accepted and stored earlier: the signature, and that the key is not revoked at `now`.
    ///
    /// The record's own `exp` bounds when it may be handed in, not how long the approval holds; that is the card's and the draft's to say.
    ///
    /// # Errors
    /// The first thing that is wrong, as a [`RecordError`].
    pub fn verify_stored(self, key: &ApproverKey, now: Timestamp) -> Result<VerifiedRecord, RecordError> {
        let claims = self.claims_signed_by(key, now)?;
        Ok(self.verified(claims))
    }

    /// The claims, once the key is found good at signing and unrevoked at `now`, and its signature fits.
    fn claims_signed_by(&self, key: &ApproverKey, now: Timestamp) -> Result<Claims, RecordError> {
        let kid = || key.kid.clone();
        if self.header.kid != key.kid {
            return Err(RecordError::KeyMismatch {
                named: self.header.kid.clone(),
                given: kid(),
            });
        }
        if key.revoked_at.is_some_and(|at| at <= now) {
            return Err(RecordError::KeyRevoked { kid: kid() });
        }
        if self.header.algorithm.kind() != key.kind {
            return Err(RecordError::AlgorithmNotForKey { kid: kid() });
        }
        let message = self.jws.as_bytes().get(..self.signed).unwrap_or_default();
        signature::verify(key, message, &self.signature)?;

        let json = Json::parse(&self.payload).map_err(RecordError::ClaimsMalformed)?;
        let claims: Claims = json.decode().map_err(RecordError::ClaimsMalformed)?;
        check_content(&claims)?;
        if claims.iss != key.issuer {
            return Err(RecordError::IssuerMismatch { kid: kid() });
        }
        if claims.sub != key.approver {
            return Err(RecordError::SubjectMismatch { kid: kid() });
        }
        // `iat` has whole seconds and another machine's clock: the leeway keeps a key usable from the moment it is registered.
        if claims.iat.saturating_add(LEEWAY_SECONDS) < key.not_before.seconds() {
            return Err(RecordError::KeyNotYetValid { kid: kid() });
        }
        if key.not_after.is_some_and(|end| Timestamp::from_seconds(claims.iat) >= end) {
            return Err(RecordError::KeyExpired { kid: kid() });
        }
        Ok(claims)
    }

    fn verified(self, claims: Claims) -> VerifiedRecord {
        VerifiedRecord {
            claims,
            kid: self.header.kid,
            jws: self.jws,
        }
    }
}

/// A record whose signature, key and claims have been checked. Only the verification makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedRecord {
    claims: Claims,
    kid: KeyId,
    jws: String,
}

impl VerifiedRecord {
    /// What it says.
    #[must_use]
    pub const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The key it was signed with.
    #[must_use]
    pub const fn kid(&self) -> &KeyId {
        &self.kid
    }

    /// The record as it came, to be stored as evidence.
    #[must_use]
    pub fn jws(&self) -> &str {
        &self.jws
    }

    /// How the approver had authenticated when they signed.
    #[must_use]
    pub fn step_up(&self) -> StepUp {
        StepUp::of(&self.claims)
    }
}

/// Unpadded base64url in its only spelling: no padding, no white space, no stray bits at the end.
fn decode(text: &str, part: &'static str) -> Result<Vec<u8>, RecordError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| RecordError::Malformed { part })
}

/// Whether people can read the reason as it stands. Asked when a record is made and when it is handed in: one that counted goes on counting.
pub(super) fn check_reason(claims: &Claims) -> Result<(), RecordError> {
    match deceptive_in_lines(claims.apr.reason.as_deref().unwrap_or_default()) {
        None => Ok(()),
        Some(why) => Err(RecordError::ClaimsMalformed(JsonError {
            pointer: "/apr/reason".to_owned(),
            reason: why,
        })),
    }
}

/// What the types of the claims cannot say.
pub(super) fn check_content(claims: &Claims) -> Result<(), RecordError> {
    let apr = &claims.apr;
    if apr.v != RECORD_VERSION {
        return Err(RecordError::VersionUnknown { given: apr.v });
    }
    if apr.by.id != claims.sub {
        return Err(RecordError::ApproverMismatch);
    }
    if URL_SAFE_NO_PAD.decode(&apr.request_nonce).map_or(0, |nonce| nonce.len()) != 16 {
        return Err(RecordError::NonceMalformed);
    }
    let reason = apr.reason.as_deref().unwrap_or_default();
    if apr.decision == Decision::Deny && reason.trim().is_empty() {
        return Err(RecordError::ReasonMissing);
    }
    if reason.chars().count() > MAX_REASON_CHARS {
        return Err(RecordError::ReasonTooLong);
    }
    if claims.exp <= claims.iat || claims.exp <= claims.nbf {
        return Err(RecordError::TimesDisordered);
    }
    if claims.exp.saturating_sub(claims.iat) > MAX_LIFETIME_SECONDS {
        return Err(RecordError::LifetimeTooLong);
    }
    Ok(())
}

fn check_times(claims: &Claims, now: Timestamp) -> Result<(), RecordError> {
    let latest = now.seconds().saturating_add(LEEWAY_SECONDS);
    if claims.iat > latest {
        return Err(RecordError::IssuedInFuture);
    }
    if claims.nbf > latest {
        return Err(RecordError::NotYetValid);
    }
    if now >= Timestamp::from_seconds(claims.exp) {
        return Err(RecordError::Expired);
    }
    Ok(())
}
