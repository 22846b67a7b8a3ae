//! Every way in which a credential is refused.

use super::key_set::RootKeyId;
use super::{CONTEXT, MAX_LIFETIME, MAX_TOKEN_CHARS};

/// Why a credential does not count. Carries nothing of the token but its key id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No text at all.
    #[error("the credential is empty; send the token that the exchange answered with")]
    Empty,
    /// Longer than [`MAX_TOKEN_CHARS`].
    #[error("the credential has more than {MAX_TOKEN_CHARS} characters; send the token as the exchange answered it")]
    TooLong,
    /// Not base64url.
    #[error("the credential is not base64url; send the token as the exchange answered it")]
    NotBase64,
    /// Not a Biscuit.
    #[error("the credential is not a Biscuit token; send the token as the exchange answered it")]
    Malformed,
    /// Somebody appended a block.
    #[error("the credential has more than one block; an attenuated token is not accepted, so send the one that was issued")]
    ExtraBlocks,
    /// Somebody sealed it.
    #[error("the credential is sealed; send the one that was issued")]
    Sealed,
    /// No key id.
    #[error("the credential names no root key; send the one that was issued")]
    KeyIdMissing,
    /// A key nobody here knows.
    #[error("root key {0} is not known here; exchange the approval for a new credential")]
    KeyUnknown(RootKeyId),
    /// A key whose time has not come.
    #[error("root key {0} is not valid yet; check the clocks of broker and proxy")]
    KeyNotYetValid(RootKeyId),
    /// A key whose time is over.
    #[error("root key {0} is retired; exchange the approval for a new credential")]
    KeyRetired(RootKeyId),
    /// Not signed by the key it names.
    #[error("the signature is not by root key {0}")]
    SignatureInvalid(RootKeyId),
    /// A token for something else under the same key.
    #[error("the token's context is not `{CONTEXT}`; it is not a credential")]
    ContextWrong,
    /// Signed by us, and not one grant of the expected form.
    #[error("the credential does not hold exactly one grant of the expected form")]
    GrantMalformed,
    /// For another operation.
    #[error("the credential is for another operation than the draft's")]
    OperationMismatch,
    /// For another tenant.
    #[error("the credential is for another tenant")]
    TenantMismatch,
    /// For another resource.
    #[error("the credential is for another resource than the draft's")]
    ResourceMismatch,
    /// For another draft, or for this one before it was changed.
    #[error("the credential is for a draft with another hash")]
    DraftMismatch,
    /// For another verifier.
    #[error("the credential is for another audience")]
    AudienceMismatch,
    /// Too early.
    #[error("the credential is not valid yet; check the clocks of broker and proxy")]
    NotYetValid,
    /// Too late.
    #[error("the credential has expired; exchange the approval for a new one")]
    Expired,
    /// Good for longer than any credential may be: a fault of the broker, refused all the same.
    #[error("the credential lives longer than {} s", MAX_LIFETIME.as_secs())]
    LifetimeTooLong,
    /// A check in the token, or the verifier's policy, does not hold.
    #[error("a check in the credential does not hold for this request")]
    ChecksFailed,
    /// The evaluation ran out of its budget: our fault and not the credential's, so the same request may be repeated.
    #[error("the credential could not be checked within the time allowed; try again")]
    BudgetExhausted,
    /// The library panicked over the token.
    #[error("the credential could not be checked; send the token as the exchange answered it")]
    VerifierFailed,
}

impl TokenError {
    /// The stable word for this refusal, for answers, events and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "credential_empty",
            Self::TooLong => "credential_too_long",
            Self::NotBase64 => "credential_not_base64",
            Self::Malformed => "credential_malformed",
            Self::ExtraBlocks => "credential_extra_blocks",
            Self::Sealed => "credential_sealed",
            Self::KeyIdMissing => "credential_key_id_missing",
            Self::KeyUnknown(_) => "credential_key_unknown",
            Self::KeyNotYetValid(_) => "credential_key_not_yet_valid",
            Self::KeyRetired(_) => "credential_key_retired",
            Self::SignatureInvalid(_) => "credential_signature_invalid",
            Self::ContextWrong => "credential_context_wrong",
            Self::GrantMalformed => "credential_grant_malformed",
            Self::OperationMismatch => "credential_operation_mismatch",
            Self::TenantMismatch => "credential_tenant_mismatch",
            Self::ResourceMismatch => "credential_resource_mismatch",
            Self::DraftMismatch => "credential_draft_mismatch",
            Self::AudienceMismatch => "credential_audience_mismatch",
            Self::NotYetValid => "credential_not_yet_valid",
            Self::Expired => "credential_expired",
            Self::LifetimeTooLong => "credential_lifetime_too_long",
            Self::ChecksFailed => "credential_checks_failed",
            Self::BudgetExhausted => "credential_budget_exhausted",
            Self::VerifierFailed => "credential_verifier_failed",
        }
    }

    /// Whether the fault is ours and the same credential may be tried again; everything else is a refusal.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::BudgetExhausted)
    }
}
