//! What each call can be refused with, for its description: every answer that is no success, by its status and its codes.

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Ref, Type};
use utoipa::openapi::{Content, Header, RefOr, Response, ResponseBuilder};

use super::problem::Code;
use super::problem::Code as C;

/// A call that a client makes.
const CLIENT: &[Code] = &[C::Unauthenticated, C::RoleMissing, C::RateLimited, C::StoreUnavailable];
/// A call with a JSON body.
const BODY: &[Code] = &[C::JsonInvalid, C::BodyTooLarge, C::MediaTypeUnsupported];
/// A call that is about one thing.
const ONE: &[Code] = &[C::NotFound];
/// A call with parameters in its query or headers.
const PARAMETERS: &[Code] = &[C::ParameterInvalid];
/// A call that changes something.
const CHANGE: &[Code] = &[C::StoreAmbiguous];
/// A call with which something begins that rests on the time.
const BEGIN: &[Code] = &[C::StoreAmbiguous, C::ClockBehind];

/// A call that takes a place among those that are worked on.
const PLACE: &[Code] = &[C::Overloaded];

const PROPOSE: &[Code] = &[
    C::OperationUnknown,
    C::OperationIsRead,
    C::NotPermitted,
    C::OperationParametersInvalid,
    C::ValueNotKept,
    C::FactsDoNotSupport,
    C::BackendUnavailable,
    C::IdempotencyKeyReused,
    C::SupersedesInvalid,
    C::DiskLow,
    C::AuditUnavailable,
];

const READ: &[Code] = &[
    C::OperationUnknown,
    C::OperationIsNotARead,
    C::NotPermitted,
    C::OperationParametersInvalid,
    C::BackendUnavailable,
];

/// What is wrong with a record, and with whom it is by.
const RECORD: &[Code] = &[
    C::RecordTooLarge,
    C::RecordMalformed,
    C::RecordHeaderMalformed,
    C::RecordHeaderEmbedsKey,
    C::RecordHeaderCritical,
    C::RecordHeaderUnencoded,
    C::RecordHeaderUnknownMember,
    C::RecordTypeRefused,
    C::RecordAlgorithmNone,
    C::RecordAlgorithmRefused,
    C::RecordAlgorithmNotForKey,
    C::RecordKeyNotYetValid,
    C::RecordKeyExpired,
    C::RecordKeyRevoked,
    C::RecordSignatureInvalid,
    C::RecordClaimsMalformed,
    C::RecordVersionUnknown,
    C::RecordAudienceWrong,
    C::RecordIssuerMismatch,
    C::RecordSubjectMismatch,
    C::RecordApproverMismatch,
    C::RecordTimesDisordered,
    C::RecordLifetimeTooLong,
    C::RecordIssuedInFuture,
    C::RecordNotYetValid,
    C::RecordExpired,
    C::RecordNonceMalformed,
    C::RecordReasonMissing,
    C::RecordReasonTooLong,
    C::ApproverKeyUnknown,
    C::DraftHashMismatch,
    C::RequestNonceMismatch,
    C::VerdictMismatch,
    C::SelfApproval,
    C::ApproverWithoutAuthority,
    C::ApproverOverLimit,
    C::StepUpMissing,
    C::ApprovalDecided,
    C::ApprovalAnswered,
    C::ApprovalExpired,
    C::RecordReused,
    C::ExecutionWindowOver,
];

/// A call with a form at the token endpoint or beside it.
const FORM: &[Code] = &[C::ParameterInvalid, C::BodyTooLarge, C::MediaTypeUnsupported];

const EXCHANGE: &[Code] = &[
    C::GrantTypeUnsupported,
    C::TokenTypeUnsupported,
    C::NotPermitted,
    C::AudienceUnknown,
    C::AuthorizationDetailsDiffer,
    C::ApprovalPending,
    C::DraftNotApproved,
    C::DraftExpired,
    C::ExecutionWindowOver,
    C::ApproverKeyRevoked,
    C::ApprovalInsufficient,
    C::PolicyDenies,
    C::AdapterChanged,
    C::ResourceChanged,
    C::ResourceBusy,
    C::BackendUnavailable,
    C::SigningKeyPastDate,
    C::DiskLow,
    C::AuditUnavailable,
    C::Stopped,
];

const EXECUTE: &[Code] = &[
    C::CredentialMissing,
    C::CredentialEmpty,
    C::CredentialTooLong,
    C::CredentialNotBase64,
    C::CredentialMalformed,
    C::CredentialExtraBlocks,
    C::CredentialSealed,
    C::CredentialKeyIdMissing,
    C::CredentialKeyUnknown,
    C::CredentialKeyNotYetValid,
    C::CredentialKeyRetired,
    C::CredentialSignatureInvalid,
    C::CredentialContextWrong,
    C::CredentialGrantMalformed,
    C::CredentialOperationMismatch,
    C::CredentialTenantMismatch,
    C::CredentialResourceMismatch,
    C::CredentialDraftMismatch,
    C::CredentialAudienceMismatch,
    C::CredentialNotYetValid,
    C::CredentialExpired,
    C::CredentialLifetimeTooLong,
    C::CredentialChecksFailed,
    C::CredentialBudgetExhausted,
    C::CredentialUnknown,
    C::CredentialNotLive,
    C::CredentialSpent,
    C::ReceiptMissing,
    C::ReceiptInvalid,
    C::DraftNotExecutable,
    C::DraftExpired,
    C::ExecutionWindowOver,
    C::RecordKeyRevoked,
    C::ResourceBusy,
    C::RateLimited,
    C::Stopped,
    C::StoreUnavailable,
];

/// An event of a backend's.
const EVENT: &[Code] = &[
    C::BodyTooLarge,
    C::JsonInvalid,
    C::EventSignatureInvalid,
    C::EventTimeRefused,
    C::EventMalformed,
    C::EventReused,
    C::EventTooEarly,
    C::RateLimited,
    C::StoreUnavailable,
];

/// A call about the tree that anybody may make.
const TREE: &[Code] = &[C::NotFound, C::Overloaded, C::StoreUnavailable];

/// The calls by their operation ids. What can stop any of them, a defect of ours, is added to each.
const CALLS: &[(&str, &[&[Code]])] = &[
    ("biscuit_web_keys", &[]),
    ("authorization_server", &[]),
    ("healthz", &[]),
    ("openapi", &[]),
    ("readyz", &[&[C::NotReady]]),
    ("propose_draft", &[CLIENT, PLACE, BODY, PARAMETERS, BEGIN, PROPOSE]),
    ("list_drafts", &[CLIENT, PARAMETERS]),
    ("show_draft", &[CLIENT, ONE, PARAMETERS]),
    ("show_draft_bytes", &[CLIENT, ONE]),
    ("withdraw_draft", &[CLIENT, PLACE, ONE, CHANGE, &[C::DraftClosed]]),
    ("hand_in_approval", &[CLIENT, PLACE, BODY, ONE, BEGIN, RECORD]),
    (
        "revoke_approval",
        &[CLIENT, BODY, ONE, CHANGE, &[C::ApprovalNotGranted, C::ApprovalUsed]],
    ),
    ("exchange_token", &[CLIENT, PLACE, FORM, ONE, BEGIN, EXCHANGE, RECORD]),
    (
        "revoke_token",
        &[CLIENT, FORM, CHANGE, &[C::TokenOfAnotherClient, C::CredentialBudgetExhausted]],
    ),
    ("introspect_token", &[CLIENT, FORM, &[C::CredentialBudgetExhausted]]),
    ("execute_draft", &[PLACE, BODY, ONE, PARAMETERS, BEGIN, EXECUTE]),
    ("show_execution", &[CLIENT, ONE, PARAMETERS]),
    ("resolve_execution", &[CLIENT, PLACE, BODY, ONE, CHANGE, &[C::ExecutionNotOpen]]),
    ("list_handoffs", &[CLIENT, PARAMETERS]),
    ("show_handoff", &[CLIENT, ONE]),
    ("take_event", &[ONE, CHANGE, EVENT]),
    ("place_stop", &[CLIENT, BODY, ONE, CHANGE, &[C::OperationUnknown]]),
    ("list_stops", &[CLIENT, PARAMETERS]),
    ("show_stop", &[CLIENT, ONE]),
    ("resume_stop", &[CLIENT, BODY, ONE, CHANGE, &[C::StopOfAllTenants]]),
    ("run_read", &[CLIENT, PLACE, BODY, ONE, READ]),
    ("show_case", &[CLIENT, ONE, PARAMETERS]),
    ("list_events", &[CLIENT, PARAMETERS]),
    ("stream_events", &[CLIENT, PARAMETERS, PLACE]),
    ("show_checkpoint", &[TREE]),
    ("prove_consistency", &[TREE, PARAMETERS]),
    ("prove_inclusion", &[CLIENT, ONE, PARAMETERS]),
    ("show_tile", &[CLIENT, ONE]),
    ("report_proof", &[CLIENT, BODY, CHANGE]),
];

/// The codes of a call; `None` for one that is not in the table.
fn codes(call: &str) -> Option<Vec<Code>> {
    let (_, groups) = CALLS.iter().find(|(name, _)| *name == call)?;
    let mut codes: Vec<Code> = groups.iter().flat_map(|group| group.iter().copied()).chain([C::Internal]).collect();
    codes.sort_unstable();
    codes.dedup();
    Some(codes)
}

/// Puts every refusal of a call into its description, in the form that the call answers in.
pub(super) fn describe(operation: &mut Operation) {
    let call = operation.operation_id.clone().unwrap_or_default();
    let Some(codes) = codes(&call) else { return };
    // The token endpoint and those beside it answer in a form of their own.
    let oauth = call.ends_with("_token");
    let responses = &mut operation.responses.responses;
    responses.remove("default");
    let status = |code: Code| if oauth { code.oauth_status() } else { code.status() };
    let mut statuses: Vec<u16> = codes.iter().map(|code| status(*code)).collect();
    statuses.sort_unstable();
    statuses.dedup();
    for each in statuses {
        let told: Vec<Code> = codes.iter().copied().filter(|code| status(*code) == each).collect();
        responses.insert(each.to_string(), RefOr::T(refusal(each, &told, oauth)));
    }
    for response in responses.values_mut() {
        if let RefOr::T(response) = response {
            response
                .headers
                .insert("X-Request-Id".to_owned(), header("finds the request in the log"));
        }
    }
}

fn refusal(status: u16, codes: &[Code], oauth: bool) -> Response {
    let words: Vec<String> = codes.iter().map(|code| format!("`{}`", code.as_str())).collect();
    let (form, media) = if oauth {
        ("OauthError", "application/json")
    } else {
        ("ProblemBody", "application/problem+json")
    };
    let known = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(codes.iter().map(|code| code.as_str())));
    let schema = AllOfBuilder::new()
        .item(Ref::from_schema_name(form))
        .item(ObjectBuilder::new().schema_type(Type::Object).property("code", known));
    let mut response = ResponseBuilder::new()
        .description(words.join(", "))
        .content(media, Content::new(Some(schema)));
    match status {
        401 => response = response.header("WWW-Authenticate", header("how to authenticate")),
        429 | 503 => response = response.header("Retry-After", header("seconds until trying again is worth it")),
        _ => {}
    }
    response.build()
}

fn header(description: &str) -> Header {
    let mut header = Header::default();
    header.description = Some(description.to_owned());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_a_refusal_of_some_call_but_for_a_known_few() {
        let named: Vec<Code> = CALLS.iter().filter_map(|(call, _)| codes(call)).flatten().collect();
        let unnamed: Vec<&str> = Code::ALL
            .iter()
            .filter(|code| !named.contains(code))
            .map(|code| code.as_str())
            .collect();
        // A head is refused before it is any call's; a method that no call has; a key that the registry does not take; a record is verified under
        // the key it names.
        assert_eq!(
            unnamed,
            [
                "head_too_large",
                "method_not_allowed",
                "record_key_mismatch",
                "record_key_unusable",
                "credential_verifier_failed"
            ]
        );
    }
}
