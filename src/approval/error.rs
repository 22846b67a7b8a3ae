//! Every way in which a record is refused.

use crate::domain::json::JsonError;
use crate::domain::name::KeyId;

use super::{LEEWAY_SECONDS, MAX_LIFETIME_SECONDS, MAX_REASON_CHARS, MAX_RECORD_BYTES, RECORD_TYPE, RECORD_VERSION};

/// Why a record does not count. Everything here is the record's fault, except [`RecordError::KeyUnusable`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Longer than [`MAX_RECORD_BYTES`].
    #[error("the record has {length} bytes, more than {MAX_RECORD_BYTES}; shorten the reason or drop claims of your own")]
    TooLarge {
        /// Its length in bytes.
        length: usize,
    },
    /// Not `header.payload.signature` in unpadded base64url.
    #[error(
        "the record is not a compact JWS: expected three parts of unpadded base64url joined by dots, and the {part} is not; send it as the signing library returned it"
    )]
    Malformed {
        /// The first part that is wrong.
        part: &'static str,
    },
    /// The header is not the JSON object it should be.
    #[error("the record's header cannot be read, {0}; expected exactly the members `typ`, `alg` and `kid`, all text")]
    HeaderMalformed(JsonError),
    /// The record brings its own key, or says where to fetch one (RFC 7515 sections 4.1.2 to 4.1.8).
    #[error("the header member `{name}` offers a key; a record is verified only with a key registered here, so sign without it")]
    HeaderEmbedsKey {
        /// The member.
        name: String,
    },
    /// The record asks for an extension (RFC 7515 section 4.1.11).
    #[error("the header member `crit` asks for an extension; none is supported, so sign without it")]
    HeaderCritical,
    /// The payload would not be base64url (RFC 7797).
    #[error("the header member `b64` asks for an unencoded payload; sign the payload in base64url, without it")]
    HeaderUnencoded,
    /// Any other member.
    #[error("the header member `{name}` is not expected; a record has exactly `typ`, `alg` and `kid`")]
    HeaderUnknownMember {
        /// The member, cut to 80 characters.
        name: String,
    },
    /// Another type of token.
    #[error("the header's `typ` is not `{RECORD_TYPE}`; another kind of token is not an approval")]
    TypeRefused,
    /// `none`: no signature at all.
    #[error("the header's `alg` is `none`; an unsigned record is worth nothing, so sign it with ES256 or Ed25519")]
    AlgorithmNone,
    /// An algorithm that is not accepted for any key.
    #[error("the header's `alg` is not accepted; sign with ES256, Ed25519 or EdDSA")]
    AlgorithmRefused,
    /// An accepted algorithm, but not the one this key is registered for.
    #[error("key `{kid}` is not registered for the algorithm in the header; sign with the one it was registered for")]
    AlgorithmNotForKey {
        /// The key.
        kid: KeyId,
    },
    /// The caller looked up another key than the record names.
    #[error("the record names key `{named}`, and `{given}` was given to verify it")]
    KeyMismatch {
        /// The record's `kid`.
        named: KeyId,
        /// The key that was given.
        given: KeyId,
    },
    /// Signed, or handed in, before the key's first moment.
    #[error("key `{kid}` is not valid yet; sign after its first moment or use another key")]
    KeyNotYetValid {
        /// The key.
        kid: KeyId,
    },
    /// Signed, or handed in, after the key's last moment.
    #[error("key `{kid}` is past its last moment; sign with its successor")]
    KeyExpired {
        /// The key.
        kid: KeyId,
    },
    /// The key was revoked.
    #[error("key `{kid}` is revoked; no signature by it counts any more")]
    KeyRevoked {
        /// The key.
        kid: KeyId,
    },
    /// The registry holds something that is not a key of its kind: our fault.
    #[error("the public key registered as `{kid}` is not a key of its kind; register it again")]
    KeyUnusable {
        /// The key.
        kid: KeyId,
    },
    /// The signature is not this key's over these bytes.
    #[error("the signature does not fit the record and key `{kid}`; it was changed after signing, or signed with another key")]
    SignatureInvalid {
        /// The key.
        kid: KeyId,
    },
    /// The payload is not the claims of an approval.
    #[error("the record's claims cannot be read, {0}")]
    ClaimsMalformed(JsonError),
    /// A version of `apr` from another time.
    #[error("`apr.v` is {given}; this broker reads version {RECORD_VERSION}")]
    VersionUnknown {
        /// The version in the record.
        given: u8,
    },
    /// For somebody else.
    #[error("`aud` is not this broker; sign a record for it")]
    AudienceWrong,
    /// `iss` is not the service the key is registered for.
    #[error("`iss` is not the issuer that key `{kid}` is registered for")]
    IssuerMismatch {
        /// The key.
        kid: KeyId,
    },
    /// `sub` is not the approver the key belongs to.
    #[error("`sub` is not the approver that key `{kid}` is registered for")]
    SubjectMismatch {
        /// The key.
        kid: KeyId,
    },
    /// `apr.by.id` names somebody else than `sub`.
    #[error("`apr.by.id` and `sub` name different approvers; they must be equal")]
    ApproverMismatch,
    /// `exp` is not after `iat` and `nbf`.
    #[error("`exp` is not later than `iat` and `nbf`; correct the times and sign again")]
    TimesDisordered,
    /// Good for too long.
    #[error("`exp` is more than {MAX_LIFETIME_SECONDS} s after `iat`; sign a record with a shorter life")]
    LifetimeTooLong,
    /// Signed in the future.
    #[error("`iat` lies more than {LEEWAY_SECONDS} s in the future; set the signing service's clock")]
    IssuedInFuture,
    /// Not valid yet.
    #[error("`nbf` lies more than {LEEWAY_SECONDS} s in the future; hand the record in later")]
    NotYetValid,
    /// No longer valid.
    #[error("the record is past its `exp`; ask the approver again")]
    Expired,
    /// `apr.request_nonce` is not 16 bytes in base64url.
    #[error("`apr.request_nonce` is not 16 bytes in unpadded base64url; copy it from the approval request")]
    NonceMalformed,
    /// A denial without a reason.
    #[error("`apr.reason` is required on a denial: the agent is told exactly this text")]
    ReasonMissing,
    /// A reason that nobody would read.
    #[error("`apr.reason` has more than {MAX_REASON_CHARS} characters; shorten it")]
    ReasonTooLong,
}

impl RecordError {
    /// The stable word for this refusal, for answers, events and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "record_too_large",
            Self::Malformed { .. } => "record_malformed",
            Self::HeaderMalformed(_) => "record_header_malformed",
            Self::HeaderEmbedsKey { .. } => "record_header_embeds_key",
            Self::HeaderCritical => "record_header_critical",
            Self::HeaderUnencoded => "record_header_unencoded",
            Self::HeaderUnknownMember { .. } => "record_header_unknown_member",
            Self::TypeRefused => "record_type_refused",
            Self::AlgorithmNone => "record_algorithm_none",
            Self::AlgorithmRefused => "record_algorithm_refused",
            Self::AlgorithmNotForKey { .. } => "record_algorithm_not_for_key",
            Self::KeyMismatch { .. } => "record_key_mismatch",
            Self::KeyNotYetValid { .. } => "record_key_not_yet_valid",
            Self::KeyExpired { .. } => "record_key_expired",
            Self::KeyRevoked { .. } => "record_key_revoked",
            Self::KeyUnusable { .. } => "record_key_unusable",
            Self::SignatureInvalid { .. } => "record_signature_invalid",
            Self::ClaimsMalformed(_) => "record_claims_malformed",
            Self::VersionUnknown { .. } => "record_version_unknown",
            Self::AudienceWrong => "record_audience_wrong",
            Self::IssuerMismatch { .. } => "record_issuer_mismatch",
            Self::SubjectMismatch { .. } => "record_subject_mismatch",
            Self::ApproverMismatch => "record_approver_mismatch",
            Self::TimesDisordered => "record_times_disordered",
            Self::LifetimeTooLong => "record_lifetime_too_long",
            Self::IssuedInFuture => "record_issued_in_future",
            Self::NotYetValid => "record_not_yet_valid",
            Self::Expired => "record_expired",
            Self::NonceMalformed => "record_nonce_malformed",
            Self::ReasonMissing => "record_reason_missing",
            Self::ReasonTooLong => "record_reason_too_long",
        }
    }
}
