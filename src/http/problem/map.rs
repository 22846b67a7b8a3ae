//! From every error of the program to its problem: exhaustive, so that a new error cannot be forgotten.

use super::{Code, Fault, Problem, chain};
use crate::approval::RecordError;
use crate::backend::EventError;
use crate::broker::{AcceptError, DecideError, ExchangeError, ProposeError, RevokeApprovalError, StopError, TokenCallError, WithdrawError};
use crate::domain::json::JsonError;
use crate::domain::lifecycle::DraftState;
use crate::proxy::{EventDenied, ExecuteError, NotLogged, ReadDenied};
use crate::store::health::Pause;
use crate::store::{Rejection, StoreError};
use crate::token::TokenError;

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        Self::at(Code::JsonInvalid, error.pointer, error.reason)
    }
}

impl From<EventDenied> for Problem {
    fn from(denied: EventDenied) -> Self {
        let detail = denied.to_string();
        match denied {
            EventDenied::NotDeclared | EventDenied::Refused(EventError::NotDeclared) => Self::new(Code::NotFound, detail),
            EventDenied::Refused(EventError::SignatureMissing(_) | EventError::SignatureInvalid) => {
                Self::new(Code::EventSignatureInvalid, detail)
            }
            EventDenied::Refused(EventError::Time(_)) => Self::new(Code::EventTimeRefused, detail),
            EventDenied::Refused(EventError::Malformed(_)) => Self::new(Code::EventMalformed, detail),
            EventDenied::Reused => Self::new(Code::EventReused, detail),
            EventDenied::TooEarly => Self::new(Code::EventTooEarly, detail),
            EventDenied::Store(error) => error.into(),
        }
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
            StoreError::Paused(pause) => pause.into(),
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

impl From<Pause> for Problem {
    fn from(pause: Pause) -> Self {
        let (code, detail) = match pause {
            Pause::ClockBehind { .. } => (
                Code::ClockBehind,
                format!("{pause}; an operator must look at the clock, or wait until it is past it"),
            ),
            Pause::HeadUnwritten => (
                Code::AuditUnavailable,
                "the log's head cannot be written to its file outside the database; an operator must look at it".to_owned(),
            ),
            Pause::Unwitnessed => (
                Code::AuditUnavailable,
                "too few witnesses have cosigned the log lately, and no credential is issued until they have; an operator must look at them".to_owned(),
            ),
            Pause::DiskLow { .. } => (
                Code::DiskLow,
                "little room is left on the store's disk, and it is kept for what has begun; an operator must make room".to_owned(),
            ),
        };
        Self::new(code, detail).after(pause.retry_after())
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        match rejection {
            Rejection::EventReused(_) => Self::new(Code::EventReused, detail),
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
            Rejection::ClientRevoked(_) => Self::new(Code::CredentialNotLive, format!("{detail}; nothing of it runs any more")),
            Rejection::ResourceBusy(_) => Self::new(Code::ResourceBusy, format!("{detail}; wait until its outcome is known")),
            Rejection::Stopped(_) => Self::new(
                Code::Stopped,
                format!("{detail}; nothing was sent: ask an operator, and exchange the approval again once it is lifted"),
            ),
            Rejection::StopEnded(_) => Self::at(
                Code::JsonInvalid,
                "/expires_at",
                format!("{detail}: expected a moment that is to come"),
            ),
            Rejection::MustNotBeKept(_) => Self::new(Code::ValueNotKept, detail),
            Rejection::RequestKeyReused => Self::new(Code::IdempotencyKeyReused, format!("{detail}; send a new key with a new request")),
            Rejection::SendWindowClosed(_)
            | Rejection::Fenced { .. }
            | Rejection::Leased(_)
            | Rejection::OperationReused
            | Rejection::OperationCancelled
            | Rejection::AttemptInDoubt(_)
            | Rejection::SecretsChanged(_)
            | Rejection::LatestIs(_)
            | Rejection::ClockNotBehind(_)
            | Rejection::Erased(_)
            | Rejection::Held(_)
            | Rejection::NoSubjectsKey
            | Rejection::NotPrunable(..)
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
            ProposeError::MustNotBeKept { pointer, .. } => Self::at(Code::ValueNotKept, pointer, detail),
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

impl From<StopError> for Problem {
    fn from(error: StopError) -> Self {
        let detail = error.to_string();
        match error {
            StopError::UnknownOperation(_) => Self::at(Code::OperationUnknown, "/value", detail),
            StopError::NotFound => Rejection::NotFound.into(),
            StopError::OfAllTenants(_) => Self::new(Code::StopOfAllTenants, detail),
            StopError::Store(source) => source.into(),
        }
    }
}

impl From<RevokeApprovalError> for Problem {
    fn from(error: RevokeApprovalError) -> Self {
        match error {
            RevokeApprovalError::NotFound => Rejection::NotFound.into(),
            RevokeApprovalError::Store(StoreError::Rejected(rejection @ Rejection::ApprovalIs(_))) => Self::new(
                Code::ApprovalNotGranted,
                format!("{rejection}; read the draft to see where it stands"),
            ),
            RevokeApprovalError::Store(StoreError::Rejected(rejection @ Rejection::ExecutionIs(_))) => Self::new(
                Code::ApprovalUsed,
                format!("{rejection}, and that is final; what it did can only be made good at the backend"),
            ),
            RevokeApprovalError::Store(source) => source.into(),
        }
    }
}

impl From<TokenCallError> for Problem {
    fn from(error: TokenCallError) -> Self {
        let detail = error.to_string();
        match error {
            TokenCallError::AnotherClient => Self::new(Code::TokenOfAnotherClient, detail),
            TokenCallError::Check(source) => Self::new(of_token(source), detail),
            TokenCallError::Store(source) => source.into(),
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
            ExchangeError::ResourceBusy(_) => Self::new(Code::ResourceBusy, format!("{detail}; wait until its outcome is known")),
            ExchangeError::Stopped(stop) => Rejection::Stopped(stop).into(),
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
            ExecuteError::NotLogged(NotLogged::Missing) => Self::new(Code::ReceiptMissing, detail),
            ExecuteError::NotLogged(_) => Self::new(Code::ReceiptInvalid, format!("{detail}; exchange the approval again")),
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
            source @ ExecuteError::BrokeOff => Self::internal(&source),
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
    fn a_fault_of_ours_tells_the_caller_nothing() {
        let problem = Problem::from(StoreError::Corrupt("row 7 of secret_table".to_owned()));
        assert_eq!(problem.code, Code::Internal);
        assert!(!problem.detail.contains("secret_table"));
    }
}
