//! Every refusal and failure, once, with its stable code and its status.

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

            /// The status at the token endpoint. A refusal is 400 there, whatever it would be elsewhere, except for a client that could not show
            /// who it is and for a body that was not read.
            #[must_use]
            pub const fn oauth_status(self) -> u16 {
                match self.status() {
                    status @ (401 | 413 | 415 | 429 | 500..) => status,
                    _ => 400,
                }
            }
        }
    };
}

codes! {
    JsonInvalid = "json_invalid", 400, "The body is not JSON of the strict subset, or not of the expected shape.";
    ParameterInvalid = "parameter_invalid", 400, "A path, query or header value is not what is expected there.";
    BodyTooLarge = "body_too_large", 413, "The body is longer than this endpoint takes.";
    HeadTooLarge = "head_too_large", 431, "The request has too many header fields.";
    MediaTypeUnsupported = "media_type_unsupported", 415, "The content type is not what this endpoint takes.";
    NotFound = "not_found", 404, "There is no such thing, or it is not the caller's.";
    MethodNotAllowed = "method_not_allowed", 405, "The path exists, but not with this method.";
    Unauthenticated = "unauthenticated", 401, "The client's id and secret are missing or wrong, or its certificate is.";
    RateLimited = "rate_limited", 429, "The caller has called, or has failed, too often.";
    RoleMissing = "role_missing", 403, "The client does not have the role this call needs.";
    NotPermitted = "not_permitted", 403, "The client's permissions do not cover this operation at this stage.";

    OperationUnknown = "operation_unknown", 400, "No backend file declares this operation.";
    OperationIsRead = "operation_is_read", 400, "Reads are not drafted; call POST /v1/reads.";
    OperationIsNotARead = "operation_is_not_a_read", 400, "The operation changes something; propose a draft.";
    OperationParametersInvalid = "operation_parameters_invalid", 400, "The parameters are not what the operation declares.";
    ValueNotKept = "value_not_kept", 400, "An identifier has the form of a card number, a token or a secret, which is never kept.";
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
    ReceiptMissing = "receipt_missing", 403, "The receipt that the credential's issue is in the log did not come with it.";
    ReceiptInvalid = "receipt_invalid", 403, "The receipt does not show that the credential's issue is in the log.";
    DraftNotExecutable = "draft_not_executable", 409, "The draft is no longer approved.";
    ExecutionNotOpen = "execution_not_open", 409, "The execution is not waiting for anybody's finding.";

    Stopped = "stopped", 409, "A stop covers it: nothing of it is issued, spent or sent.";
    StopOfAllTenants = "stop_of_all_tenants", 403, "The stop covers every tenant, and only the command line lifts it.";
    ApprovalNotGranted = "approval_not_granted", 409, "Only an approval that is granted can be taken back.";
    ApprovalUsed = "approval_used", 409, "What the approval released has run, and its outcome is known.";
    TokenOfAnotherClient = "token_of_another_client", 403, "The credential was issued to another client.";

    EventSignatureInvalid = "event_signature_invalid", 400, "The event is not signed, or not under a secret that is known here.";
    EventTimeRefused = "event_time_refused", 400, "The event was signed too long ago, or in the future.";
    EventMalformed = "event_malformed", 400, "The event is not JSON, has a key twice, is not the one of its request, or lacks its id or type.";
    EventReused = "event_reused", 409, "An event with this id came before with other content.";
    EventTooEarly = "event_too_early", 503, "The request the event is about is still under way.";

    StoreUnavailable = "store_unavailable", 503, "The store did not take it; nothing was changed. Try again.";
    StoreAmbiguous = "store_ambiguous", 503, "The store did not say whether it took it; ask for the state before trying again.";
    ClockBehind = "clock_behind", 503, "The clock is behind the latest time in the store; nothing new begins until it is past it.";
    AuditUnavailable = "audit_unavailable", 503, "The log's head cannot be kept outside the database, or too few witnesses have seen it; nothing new begins until it can.";
    DiskLow = "disk_low", 503, "Little room is left on the store's disk; it is kept for what has begun.";
    SigningKeyPastDate = "signing_key_past_date", 503, "The signing key is past its date; an operator must rotate it.";
    Overloaded = "overloaded", 503, "There is too much to do; new drafts are refused before anything else is.";
    NotReady = "not_ready", 503, "The service is not ready.";
    Internal = "internal", 500, "Something went wrong here; the request id finds it in the log.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_words() {
        let mut words: Vec<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
    }
}
