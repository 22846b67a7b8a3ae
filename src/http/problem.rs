//! The only file that knows status codes: every refusal and failure, once, with its stable code (RFC 9457).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::approval::RecordError;
use crate::broker::{AcceptError, DecideError, ExchangeError, ProposeError, WithdrawError};
use crate::domain::json::JsonError;
use crate::domain::lifecycle::DraftState;
use crate::proxy::{ExecuteError, ReadDenied};
use crate::store::{Rejection, StoreError};
use crate::token::TokenError;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:literal, $title:literal;)*) => {
        /// What went wrong, as a word that never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $title] $variant,)* }

        impl Code {
            /// Every code, in the order of the journey.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// What it means, in one sentence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
}

codes! {
    JsonInvalid = "json_invalid", 400, "The body is not JSON of the strict subset, or not of the expected shape.";
    ParameterInvalid = "parameter_invalid", 400, "A path, query or header value is not what is expected there.";
    BodyTooLarge = "body_too_large", 413, "The body is longer than this endpoint takes.";
    MediaTypeUnsupported = "media_type_unsupported", 415, "The content type is not what this endpoint takes.";
    NotFound = "not_found", 404, "There is no such thing, or it is not the caller's.";
    MethodNotAllowed = "method_not_allowed", 405, "The path exists, but not with this method.";
    Unauthenticated = "unauthenticated", 401, "The client's id and secret are missing or wrong.";
    RoleMissing = "role_missing", 403, "The client does not have the role this call needs.";
    NotPermitted = "not_permitted", 403, "The client's permissions do not cover this operation at this stage.";

    OperationUnknown = "operation_unknown", 400, "No backend file declares this operation.";
    OperationIsRead = "operation_is_read", 400, "Reads are not drafted; call POST /v1/reads.";
    OperationIsNotARead = "operation_is_not_a_read", 400, "The operation changes something; propose a draft.";
    OperationParametersInvalid = "operation_parameters_invalid", 400, "The parameters are not what the operation declares.";
    FactsDoNotSupport = "facts_do_not_support", 409, "What the backend says contradicts the draft.";
    BackendUnavailable = "backend_unavailable", 503, "The backend could not be read; nothing was changed.";
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The Idempotency-Key header was used with another request.";
    SupersedesInvalid = "supersedes_invalid", 409, "The draft to be replaced is not an open draft of this client.";
    DraftClosed = "draft_closed", 409, "The draft is no longer open.";
    DraftExpired = "draft_expired", 409, "The draft's time is over.";

    RecordTooLarge = "record_too_large", 413, "The approval record is too long.";
    RecordMalformed = "record_malformed", 400, "The approval record is not a compact JWS.";
    RecordHeaderMalformed = "record_header_malformed", 400, "The record's header cannot be read.";
    RecordHeaderEmbedsKey = "record_header_embeds_key", 400, "The record brings its own key.";
    RecordHeaderCritical = "record_header_critical", 400, "The record asks for a critical extension.";
    RecordHeaderUnencoded = "record_header_unencoded", 400, "The record asks for an unencoded payload.";
    RecordHeaderUnknownMember = "record_header_unknown_member", 400, "The record's header has a member that is not expected.";
    RecordTypeRefused = "record_type_refused", 400, "The token is not of type approval+jwt.";
    RecordAlgorithmNone = "record_algorithm_none", 400, "The record is unsigned.";
    RecordAlgorithmRefused = "record_algorithm_refused", 400, "The record's algorithm is not accepted.";
    RecordAlgorithmNotForKey = "record_algorithm_not_for_key", 400, "The key is registered for another algorithm.";
    RecordKeyMismatch = "record_key_mismatch", 400, "The record names another key.";
    RecordKeyNotYetValid = "record_key_not_yet_valid", 403, "The approver key is not valid yet.";
    RecordKeyExpired = "record_key_expired", 403, "The approver key is past its last moment.";
    RecordKeyRevoked = "record_key_revoked", 403, "The approver key is revoked.";
    RecordKeyUnusable = "record_key_unusable", 500, "The registered approver key is unusable.";
    RecordSignatureInvalid = "record_signature_invalid", 400, "The record's signature does not fit.";
    RecordClaimsMalformed = "record_claims_malformed", 400, "The record's claims cannot be read.";
    RecordVersionUnknown = "record_version_unknown", 400, "The record's version is not known here.";
    RecordAudienceWrong = "record_audience_wrong", 400, "The record is for another broker.";
    RecordIssuerMismatch = "record_issuer_mismatch", 400, "The record's issuer is not the key's.";
    RecordSubjectMismatch = "record_subject_mismatch", 400, "The record's subject is not the key's approver.";
    RecordApproverMismatch = "record_approver_mismatch", 400, "The record names two approvers.";
    RecordTimesDisordered = "record_times_disordered", 400, "The record's times are out of order.";
    RecordLifetimeTooLong = "record_lifetime_too_long", 400, "The record is good for too long.";
    RecordIssuedInFuture = "record_issued_in_future", 400, "The record was signed in the future.";
    RecordNotYetValid = "record_not_yet_valid", 400, "The record is not valid yet.";
    RecordExpired = "record_expired", 400, "The record has expired.";
    RecordNonceMalformed = "record_nonce_malformed", 400, "The record's nonce is not 16 bytes in base64url.";
    RecordReasonMissing = "record_reason_missing", 400, "A denial needs a reason.";
    RecordReasonTooLong = "record_reason_too_long", 400, "The reason is too long.";
    ApproverKeyUnknown = "approver_key_unknown", 403, "No approver key with this id is registered.";
    DraftHashMismatch = "draft_hash_mismatch", 409, "The record is for another draft hash than the stored one.";
    RequestNonceMismatch = "request_nonce_mismatch", 409, "The record answers another approval request.";
    VerdictMismatch = "verdict_mismatch", 409, "The record names another verdict or policy than the one that asked.";
    SelfApproval = "self_approval", 403, "The approver made the draft, owns its maker, or it is for them.";
    ApproverWithoutAuthority = "approver_without_authority", 403, "The approver has no authority here.";
    ApproverOverLimit = "approver_over_limit", 403, "The amount is above what the approver may approve.";
    StepUpMissing = "step_up_missing", 403, "The approver must authenticate afresh to sign this.";
    ApprovalDecided = "approval_decided", 409, "The approval request was decided already; the first decision stands.";
    ApprovalAnswered = "approval_answered", 409, "This approver has answered the approval request already.";
    ApprovalExpired = "approval_expired", 409, "The approval request's time is over.";
    RecordReused = "record_reused", 409, "A record with this id was handed in before.";

    GrantTypeUnsupported = "grant_type_unsupported", 400, "Only token exchange (RFC 8693) is offered here.";
    TokenTypeUnsupported = "token_type_unsupported", 400, "The token type is not one of this endpoint's.";
    AudienceUnknown = "audience_unknown", 400, "This broker issues for no such audience.";
    AuthorizationDetailsDiffer = "authorization_details_differ", 400, "The authorization details are not what the draft says.";
    ApprovalPending = "approval_pending", 400, "More signatures are needed.";
    DraftNotApproved = "draft_not_approved", 400, "The draft is not approved, or no longer.";
    ExecutionWindowOver = "execution_window_over", 400, "The time in which the approval could be used is over.";
    ApproverKeyRevoked = "approver_key_revoked", 400, "The key behind the approval has been revoked since.";
    ApprovalInsufficient = "approval_insufficient", 400, "With the authority that holds now, the approval no longer suffices.";
    PolicyDenies = "policy_denies", 400, "The policy in force now denies it.";
    AdapterChanged = "adapter_changed", 409, "The backend's file has changed since the draft was made.";
    ResourceChanged = "resource_changed", 409, "The resource has changed since the draft was made.";
    ResourceBusy = "resource_busy", 409, "Another execution on the same resource has no known outcome yet.";

    CredentialMissing = "credential_missing", 401, "There is no bearer token in the Authorization header.";
    CredentialEmpty = "credential_empty", 401, "The credential is empty.";
    CredentialTooLong = "credential_too_long", 401, "The credential is too long.";
    CredentialNotBase64 = "credential_not_base64", 401, "The credential is not base64url.";
    CredentialMalformed = "credential_malformed", 401, "The credential is not a Biscuit.";
    CredentialExtraBlocks = "credential_extra_blocks", 401, "The credential has more than one block.";
    CredentialSealed = "credential_sealed", 401, "The credential is sealed.";
    CredentialKeyIdMissing = "credential_key_id_missing", 401, "The credential names no root key.";
    CredentialKeyUnknown = "credential_key_unknown", 401, "The credential's root key is not known here.";
    CredentialKeyNotYetValid = "credential_key_not_yet_valid", 401, "The credential's root key is not valid yet.";
    CredentialKeyRetired = "credential_key_retired", 401, "The credential's root key is retired.";
    CredentialSignatureInvalid = "credential_signature_invalid", 401, "The credential's signature does not fit.";
    CredentialContextWrong = "credential_context_wrong", 401, "The token is not a credential.";
    CredentialGrantMalformed = "credential_grant_malformed", 401, "The credential does not hold one grant.";
    CredentialOperationMismatch = "credential_operation_mismatch", 403, "The credential is for another operation.";
    CredentialTenantMismatch = "credential_tenant_mismatch", 403, "The credential is for another tenant.";
    CredentialResourceMismatch = "credential_resource_mismatch", 403, "The credential is for another resource.";
    CredentialDraftMismatch = "credential_draft_mismatch", 403, "The credential is for another draft.";
    CredentialAudienceMismatch = "credential_audience_mismatch", 403, "The credential is for another audience.";
    CredentialNotYetValid = "credential_not_yet_valid", 401, "The credential is not valid yet.";
    CredentialExpired = "credential_expired", 401, "The credential has expired.";
    CredentialLifetimeTooLong = "credential_lifetime_too_long", 401, "The credential lives longer than any may.";
    CredentialChecksFailed = "credential_checks_failed", 403, "A check in the credential does not hold.";
    CredentialBudgetExhausted = "credential_budget_exhausted", 503, "The credential could not be checked in time; try again.";
    CredentialVerifierFailed = "credential_verifier_failed", 401, "The credential could not be checked.";
    CredentialUnknown = "credential_unknown", 401, "The credential was never issued here, or its record is gone.";
    CredentialNotLive = "credential_not_live", 401, "The credential was revoked, replaced or lapsed.";
    CredentialSpent = "credential_spent", 409, "The credential was spent before.";
    DraftNotExecutable = "draft_not_executable", 409, "The draft is no longer approved.";
    ExecutionNotOpen = "execution_not_open", 409, "The execution is not waiting for anybody's finding.";

    StoreUnavailable = "store_unavailable", 503, "The store did not take it; nothing was changed. Try again.";
    StoreAmbiguous = "store_ambiguous", 503, "The store did not say whether it took it; ask for the state before trying again.";
    SigningKeyPastDate = "signing_key_past_date", 503, "The signing key is past its date; an operator must rotate it.";
    NotReady = "not_ready", 503, "The service is not ready.";
    Internal = "internal", 500, "Something went wrong here; the request id finds it in the log.";
}

/// One place in the input and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// JSON pointer (RFC 6901) into the body.
    pub pointer: String,
    /// What is wrong and what is expected.
    pub detail: String,
}

/// A problem document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ProblemBody {
    /// `urn:writ:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong here, and what to do.
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// The places in the input, if the input is at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
    /// The policy's rules, if a rule stands in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Where the draft stands, if that stands in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_state: Option<String>,
}

/// A refusal or failure on its way out.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The code.
    pub code: Code,
    detail: String,
    errors: Vec<Fault>,
    rules: Vec<String>,
    draft_state: Option<DraftState>,
}

impl Problem {
    /// A problem with this code, in these words.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            rules: Vec::new(),
            draft_state: None,
        }
    }

    /// A fault of ours: the caller learns nothing of it, the log everything.
    #[must_use]
    pub fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(error = %chain(error), "a request failed");
        Self::new(
            Code::Internal,
            "something went wrong; the request id in the X-Request-Id header finds it in the log",
        )
    }

    /// One place in the input.
    #[must_use]
    pub fn at(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let fault = Fault {
            pointer: pointer.into(),
            detail: detail.into(),
        };
        let detail = if fault.pointer.is_empty() {
            fault.detail.clone()
        } else {
            format!("{}: {}", fault.pointer, fault.detail)
        };
        Self {
            errors: vec![fault],
            ..Self::new(code, detail)
        }
    }

    fn with_state(self, state: DraftState) -> Self {
        Self {
            draft_state: Some(state),
            ..self
        }
    }

    /// The document.
    #[must_use]
    pub fn body(&self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:writ:problem:{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            detail: self.detail.clone(),
            code: self.code.as_str().to_owned(),
            errors: self.errors.clone(),
            rules: self.rules.clone(),
            draft_state: self.draft_state.map(|s| s.as_str().to_owned()),
        }
    }

    fn respond(&self, status: u16, content_type: &'static str, body: impl Serialize) -> Response {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(challenge) = self.challenge() {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if self.code.status() == 503 {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// RFC 6749 section 5.2, RFC 8693 section 2.2.2: the token endpoint's own form, with our code beside it.
    #[must_use]
    pub fn into_oauth(self) -> Response {
        let body = OauthError {
            error: self.oauth_error().to_owned(),
            error_description: self.detail.clone(),
            code: self.code.as_str().to_owned(),
            rules: self.rules.clone(),
            draft_state: self.draft_state.map(|s| s.as_str().to_owned()),
        };
        // A refusal is 400 there, whatever it would be elsewhere, except for a client that could not show who it is and for a body that was not read.
        let status = match self.code.status() {
            status @ (401 | 413 | 415 | 500..) => status,
            _ => 400,
        };
        self.respond(status, "application/json", body)
    }

    const fn oauth_error(&self) -> &'static str {
        match self.code {
            Code::Unauthenticated => "invalid_client",
            Code::NotPermitted | Code::RoleMissing => "unauthorized_client",
            Code::GrantTypeUnsupported => "unsupported_grant_type",
            Code::AudienceUnknown => "invalid_target",
            Code::AuthorizationDetailsDiffer => "invalid_authorization_details",
            Code::ApprovalPending => "authorization_pending",
            Code::BackendUnavailable | Code::StoreUnavailable | Code::StoreAmbiguous | Code::SigningKeyPastDate | Code::NotReady => {
                "temporarily_unavailable"
            }
            Code::Internal | Code::RecordKeyUnusable => "server_error",
            _ => "invalid_request",
        }
    }

    const fn challenge(&self) -> Option<&'static str> {
        match self.code {
            Code::Unauthenticated => Some("Basic realm=\"writ\", charset=\"UTF-8\""),
            Code::CredentialMissing => Some("Bearer"),
            code if code.status() == 401 => Some("Bearer error=\"invalid_token\""),
            _ => None,
        }
    }
}

/// The error form of the token endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OauthError {
    /// The standard's word (RFC 6749 section 5.2, RFC 8693, RFC 8628, RFC 9396).
    pub error: String,
    /// What is wrong here, and what to do.
    pub error_description: String,
    /// The stable code.
    pub code: String,
    /// The policy's rules, if a rule stands in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Where the draft stands, if that stands in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_state: Option<String>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        self.respond(self.code.status(), "application/problem+json", body)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        Self::at(Code::JsonInvalid, error.pointer, error.reason)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(rejection) => rejection.into(),
            StoreError::Unavailable(why) => {
                tracing::error!(%why, "the store is unavailable");
                Self::new(
                    Code::StoreUnavailable,
                    "the store did not take it and nothing was changed; try again",
                )
            }
            StoreError::Ambiguous { op, why } => {
                tracing::error!(%op, %why, "the store did not say whether an operation took place");
                Self::new(
                    Code::StoreAmbiguous,
                    "it is not known whether this took place; read the state before trying again",
                )
            }
            StoreError::Corrupt(_) => Self::internal(&error),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        match rejection {
            Rejection::NotFound => Self::new(Code::NotFound, "there is no such thing, or it is not yours"),
            Rejection::DraftIs(state) => Self::new(Code::DraftClosed, detail).with_state(state),
            Rejection::ApprovalIs(_) => Self::new(Code::ApprovalDecided, format!("{detail}; the first decision stands")),
            Rejection::CredentialIs(_) => Self::new(Code::CredentialNotLive, format!("{detail}; exchange the approval again")),
            Rejection::ExecutionIs(_) => Self::new(Code::ExecutionNotOpen, detail),
            Rejection::DraftExpired(_) => Self::new(Code::DraftExpired, format!("{detail}; propose it again")),
            Rejection::ApprovalExpired(_) => Self::new(Code::ApprovalExpired, format!("{detail}; propose the draft again")),
            Rejection::WindowExpired(_) => Self::new(Code::ExecutionWindowOver, format!("{detail}; propose the draft again")),
            Rejection::CredentialExpired(_) => Self::new(Code::CredentialExpired, format!("{detail}; exchange the approval again")),
            Rejection::HashMismatch => Self::new(Code::DraftHashMismatch, detail),
            Rejection::NonceMismatch => Self::new(Code::RequestNonceMismatch, detail),
            Rejection::GrantMismatch => Self::new(Code::CredentialDraftMismatch, detail),
            Rejection::SelfApproval(_) => Self::new(Code::SelfApproval, detail),
            Rejection::AlreadyAnswered(_) => Self::new(Code::ApprovalAnswered, detail),
            Rejection::RecordReused(_) => Self::new(Code::RecordReused, detail),
            Rejection::KeyRevoked(_) => Self::new(Code::RecordKeyRevoked, detail),
            Rejection::ResourceBusy { .. } => Self::new(Code::ResourceBusy, format!("{detail}; wait until its outcome is known")),
            Rejection::RequestKeyReused => Self::new(Code::IdempotencyKeyReused, format!("{detail}; send a new key with a new request")),
            Rejection::SendWindowClosed(_)
            | Rejection::Fenced { .. }
            | Rejection::Leased(_)
            | Rejection::OperationReused
            | Rejection::OperationCancelled
            | Rejection::AttemptInDoubt(_)
            | Rejection::Exists(_) => Self::internal(&rejection),
        }
    }
}

impl From<ProposeError> for Problem {
    fn from(error: ProposeError) -> Self {
        let detail = error.to_string();
        match error {
            ProposeError::UnknownOperation(_) => Self::new(Code::OperationUnknown, detail),
            ProposeError::IsRead(_) => Self::new(Code::OperationIsRead, detail),
            ProposeError::NotPermitted(_) => Self::new(Code::NotPermitted, detail),
            ProposeError::Parameters(faults) => Self::parameters(faults),
            ProposeError::Unreadable(source) => Self::unreadable(&source),
            ProposeError::Facts(source) if source.is_blind() => Self::unreadable(&source),
            ProposeError::Facts(source) => Self::new(Code::FactsDoNotSupport, source.to_string()),
            ProposeError::Compile(source) => Self::new(Code::OperationParametersInvalid, source.to_string()),
            ProposeError::Document(source) => source.into(),
            ProposeError::Store(StoreError::Rejected(Rejection::RequestKeyReused)) => Rejection::RequestKeyReused.into(),
            ProposeError::Store(StoreError::Rejected(Rejection::DraftIs(state))) => Self::new(
                Code::SupersedesInvalid,
                format!("the draft to be replaced is {state}; leave `supersedes` out"),
            )
            .with_state(state),
            ProposeError::Store(StoreError::Rejected(Rejection::NotFound)) => Self::new(
                Code::SupersedesInvalid,
                "the draft to be replaced is not an open draft of this client; leave `supersedes` out",
            ),
            ProposeError::Store(source) | ProposeError::Decide(DecideError::Store(source)) => source.into(),
            ProposeError::Decide(source @ DecideError::Sign(_)) => Self::internal(&source),
        }
    }
}

impl Problem {
    fn parameters(faults: Vec<crate::backend::ParamError>) -> Self {
        let errors: Vec<Fault> = faults
            .into_iter()
            .map(|f| Fault {
                pointer: format!("/parameters{}", f.pointer),
                detail: f.reason,
            })
            .collect();
        let detail = errors
            .iter()
            .map(|f| format!("{}: {}", f.pointer, f.detail))
            .collect::<Vec<_>>()
            .join("; ");
        Self {
            errors,
            ..Self::new(Code::OperationParametersInvalid, detail)
        }
    }

    fn unreadable(source: &dyn std::error::Error) -> Self {
        tracing::warn!(error = %chain(source), "a backend could not be read");
        Self::new(
            Code::BackendUnavailable,
            "the backend could not be read; nothing was changed, try again later",
        )
    }
}

impl From<WithdrawError> for Problem {
    fn from(error: WithdrawError) -> Self {
        match error {
            WithdrawError::NotFound => Rejection::NotFound.into(),
            WithdrawError::Store(source) => source.into(),
        }
    }
}

impl From<AcceptError> for Problem {
    fn from(error: AcceptError) -> Self {
        let detail = error.to_string();
        match error {
            AcceptError::Record(source) => Self::new(of_record(&source), detail),
            AcceptError::UnknownKey(_) => Self::new(Code::ApproverKeyUnknown, format!("{detail}; register it with `writ approver add`")),
            AcceptError::NotFound => Rejection::NotFound.into(),
            AcceptError::HashMismatch => Self::new(Code::DraftHashMismatch, detail),
            AcceptError::NonceMismatch => Self::new(Code::RequestNonceMismatch, detail),
            AcceptError::VerdictMismatch => Self::new(Code::VerdictMismatch, detail),
            AcceptError::SelfApproval(_) => Self::new(Code::SelfApproval, detail),
            AcceptError::NoAuthority(_) => Self::new(Code::ApproverWithoutAuthority, detail),
            AcceptError::OverLimit(_) => Self::new(Code::ApproverOverLimit, detail),
            AcceptError::StepUpMissing(_) => Self::new(Code::StepUpMissing, detail),
            AcceptError::Store(StoreError::Rejected(Rejection::DraftIs(state))) => {
                let detail = format!("the draft is {state}; the first decision stands");
                Self::new(Code::ApprovalDecided, detail).with_state(state)
            }
            AcceptError::Store(source) => source.into(),
        }
    }
}

impl From<ExchangeError> for Problem {
    fn from(error: ExchangeError) -> Self {
        let detail = error.to_string();
        match error {
            ExchangeError::Accept(source) => source.into(),
            ExchangeError::NotFound => Rejection::NotFound.into(),
            ExchangeError::NotPermitted(_) => Self::new(Code::NotPermitted, detail),
            ExchangeError::Audience(_) => Self::new(Code::AudienceUnknown, detail),
            ExchangeError::Details(_) => Self::new(Code::AuthorizationDetailsDiffer, detail),
            ExchangeError::Unmet { .. } => {
                Self::new(Code::ApprovalPending, format!("{detail}; wait and exchange again")).with_state(DraftState::AwaitingApproval)
            }
            ExchangeError::NotApproved { state, reason } => {
                let detail = reason.map_or_else(|| detail.clone(), |words| format!("{detail}: {words}"));
                Self::new(Code::DraftNotApproved, detail).with_state(state)
            }
            ExchangeError::Record(source) => Self::new(of_record(&source), format!("{detail}: {source}")),
            ExchangeError::KeyRevoked(_) => Self::new(Code::ApproverKeyRevoked, format!("{detail}; propose the draft again")),
            ExchangeError::AuthorityGone(_) => Self::new(Code::ApprovalInsufficient, format!("{detail}; propose the draft again")),
            ExchangeError::PolicyDenies(rules) => {
                let sentences: Vec<&str> = rules.iter().map(|r| r.reason.as_str()).collect();
                let detail = format!("{detail}: {}", sentences.join(" "));
                Self {
                    rules: rules.iter().map(|r| r.id.clone()).collect(),
                    ..Self::new(Code::PolicyDenies, detail)
                }
            }
            ExchangeError::AdapterChanged => Self::new(Code::AdapterChanged, format!("{detail}; propose it again")),
            ExchangeError::ResourceMoved(_) => Self::new(Code::ResourceChanged, detail),
            ExchangeError::Unreadable(source) => Self::unreadable(&source),
            ExchangeError::Blind(source) => Self::unreadable(&source),
            ExchangeError::ResourceBusy { .. } => Self::new(Code::ResourceBusy, format!("{detail}; wait until its outcome is known")),
            ExchangeError::NoSigningKey(source) => {
                tracing::error!(error = %source, "no credential can be signed");
                Self::new(
                    Code::SigningKeyPastDate,
                    "no key may sign now; an operator must run `writ keys rotate`",
                )
            }
            ExchangeError::Mint(source) => Self::internal(&source),
            ExchangeError::Store(source) => source.into(),
        }
    }
}

impl From<ExecuteError> for Problem {
    fn from(error: ExecuteError) -> Self {
        let detail = error.to_string();
        match error {
            ExecuteError::Missing => Self::new(Code::CredentialMissing, detail),
            ExecuteError::Token(source) => Self::new(of_token(source), detail),
            ExecuteError::Document(source) => Self::at(Code::JsonInvalid, format!("/draft{}", source.pointer), source.reason),
            ExecuteError::NotFound => Rejection::NotFound.into(),
            ExecuteError::Refused(Rejection::NotFound) => Self::new(
                Code::CredentialUnknown,
                "the credential was never issued here, or its record is gone",
            ),
            ExecuteError::Refused(Rejection::DraftIs(state)) => {
                Self::new(Code::DraftNotExecutable, format!("the draft is {state}; nothing was sent")).with_state(state)
            }
            ExecuteError::Refused(Rejection::CredentialIs(crate::domain::lifecycle::CredentialState::Redeemed)) => Self::new(
                Code::CredentialSpent,
                "the credential was spent before; exchange the approval again if its draft still stands approved",
            ),
            ExecuteError::Refused(source) => source.into(),
            ExecuteError::Store(source) => source.into(),
        }
    }
}

impl From<ReadDenied> for Problem {
    fn from(error: ReadDenied) -> Self {
        let detail = error.to_string();
        match error {
            ReadDenied::UnknownOperation(_) => Self::new(Code::OperationUnknown, detail),
            ReadDenied::NotARead(_) => Self::new(Code::OperationIsNotARead, detail),
            ReadDenied::NotPermitted(_) => Self::new(Code::NotPermitted, detail),
            ReadDenied::Parameters(faults) => Self::parameters(faults),
            ReadDenied::Absent(_) => Self::new(Code::NotFound, detail),
            ReadDenied::Unreadable(source) => Self::unreadable(&source),
            ReadDenied::Unshaped(source) => Self::unreadable(&source),
            ReadDenied::Store(source) => source.into(),
        }
    }
}

const fn of_record(error: &RecordError) -> Code {
    match error {
        RecordError::TooLarge { .. } => Code::RecordTooLarge,
        RecordError::Malformed { .. } => Code::RecordMalformed,
        RecordError::HeaderMalformed(_) => Code::RecordHeaderMalformed,
        RecordError::HeaderEmbedsKey { .. } => Code::RecordHeaderEmbedsKey,
        RecordError::HeaderCritical => Code::RecordHeaderCritical,
        RecordError::HeaderUnencoded => Code::RecordHeaderUnencoded,
        RecordError::HeaderUnknownMember { .. } => Code::RecordHeaderUnknownMember,
        RecordError::TypeRefused => Code::RecordTypeRefused,
        RecordError::AlgorithmNone => Code::RecordAlgorithmNone,
        RecordError::AlgorithmRefused => Code::RecordAlgorithmRefused,
        RecordError::AlgorithmNotForKey { .. } => Code::RecordAlgorithmNotForKey,
        RecordError::KeyMismatch { .. } => Code::RecordKeyMismatch,
        RecordError::KeyNotYetValid { .. } => Code::RecordKeyNotYetValid,
        RecordError::KeyExpired { .. } => Code::RecordKeyExpired,
        RecordError::KeyRevoked { .. } => Code::RecordKeyRevoked,
        RecordError::KeyUnusable { .. } => Code::RecordKeyUnusable,
        RecordError::SignatureInvalid { .. } => Code::RecordSignatureInvalid,
        RecordError::ClaimsMalformed(_) => Code::RecordClaimsMalformed,
        RecordError::VersionUnknown { .. } => Code::RecordVersionUnknown,
        RecordError::AudienceWrong => Code::RecordAudienceWrong,
        RecordError::IssuerMismatch { .. } => Code::RecordIssuerMismatch,
        RecordError::SubjectMismatch { .. } => Code::RecordSubjectMismatch,
        RecordError::ApproverMismatch => Code::RecordApproverMismatch,
        RecordError::TimesDisordered => Code::RecordTimesDisordered,
        RecordError::LifetimeTooLong => Code::RecordLifetimeTooLong,
        RecordError::IssuedInFuture => Code::RecordIssuedInFuture,
        RecordError::NotYetValid => Code::RecordNotYetValid,
        RecordError::Expired => Code::RecordExpired,
        RecordError::NonceMalformed => Code::RecordNonceMalformed,
        RecordError::ReasonMissing => Code::RecordReasonMissing,
        RecordError::ReasonTooLong => Code::RecordReasonTooLong,
    }
}

const fn of_token(error: TokenError) -> Code {
    match error {
        TokenError::Empty => Code::CredentialEmpty,
        TokenError::TooLong => Code::CredentialTooLong,
        TokenError::NotBase64 => Code::CredentialNotBase64,
        TokenError::Malformed => Code::CredentialMalformed,
        TokenError::ExtraBlocks => Code::CredentialExtraBlocks,
        TokenError::Sealed => Code::CredentialSealed,
        TokenError::KeyIdMissing => Code::CredentialKeyIdMissing,
        TokenError::KeyUnknown(_) => Code::CredentialKeyUnknown,
        TokenError::KeyNotYetValid(_) => Code::CredentialKeyNotYetValid,
        TokenError::KeyRetired(_) => Code::CredentialKeyRetired,
        TokenError::SignatureInvalid(_) => Code::CredentialSignatureInvalid,
        TokenError::ContextWrong => Code::CredentialContextWrong,
        TokenError::GrantMalformed => Code::CredentialGrantMalformed,
        TokenError::OperationMismatch => Code::CredentialOperationMismatch,
        TokenError::TenantMismatch => Code::CredentialTenantMismatch,
        TokenError::ResourceMismatch => Code::CredentialResourceMismatch,
        TokenError::DraftMismatch => Code::CredentialDraftMismatch,
        TokenError::AudienceMismatch => Code::CredentialAudienceMismatch,
        TokenError::NotYetValid => Code::CredentialNotYetValid,
        TokenError::Expired => Code::CredentialExpired,
        TokenError::LifetimeTooLong => Code::CredentialLifetimeTooLong,
        TokenError::ChecksFailed => Code::CredentialChecksFailed,
        TokenError::BudgetExhausted => Code::CredentialBudgetExhausted,
        TokenError::VerifierFailed => Code::CredentialVerifierFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_and_its_problem_carry_the_same_code() {
        for error in [
            TokenError::Empty,
            TokenError::Expired,
            TokenError::DraftMismatch,
            TokenError::BudgetExhausted,
        ] {
            assert_eq!(of_token(error).as_str(), error.code());
        }
        for error in [RecordError::AlgorithmNone, RecordError::Expired, RecordError::ReasonMissing] {
            assert_eq!(of_record(&error).as_str(), error.code());
        }
    }

    #[test]
    fn codes_are_distinct_words() {
        let mut words: Vec<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
    }

    #[test]
    fn a_fault_of_ours_tells_the_caller_nothing() {
        let problem = Problem::from(StoreError::Corrupt("row 7 of secret_table".to_owned()));
        assert_eq!(problem.code, Code::Internal);
        assert!(!problem.detail.contains("secret_table"));
    }
}
