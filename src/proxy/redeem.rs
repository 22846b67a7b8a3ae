//! Redeem: verify the credential offline, then spend it, consume the draft and claim the execution in one step, or do none of the three.

use super::{Logged, NotLogged, Proxy};
use crate::audit::{Actor, ActorKind, CredentialPart, EventBody, EventKind, Note, StopPart};
use crate::crash_points::{Point, reached};
use crate::domain::digest::DraftHash;
use crate::domain::draft::DraftDocument;
use crate::domain::id::{CredentialId, DraftId, ExecutionId, RequestId};
use crate::domain::json::{Json, JsonError};
use crate::domain::lifecycle::{CredentialState, DraftState};
use crate::domain::secret::Secret;
use crate::store::intent::{Redeem, Redeemed};
use crate::store::record::{DraftRecord, ExecutionRecord};
use crate::store::{Rejection, StoreError};
use crate::token::{GrantResource, RequestFacts, SignedCredential, TokenError};

/// What is to be executed.
#[derive(Debug, Clone)]
pub enum Subject {
    /// The draft with this id.
    Id(DraftId),
    /// This document, which must hash to the credential's hash.
    Document(Json),
}

/// A call of the execute endpoint.
#[derive(Debug)]
pub struct ExecuteRequest {
    /// The bearer token, whose signature is right.
    pub credential: SignedCredential,
    /// What is to be executed.
    pub subject: Subject,
    /// The receipt that the credential's issue is in the log, if it came.
    pub logged: Option<Logged>,
}

/// A call that executed nothing, and what was learnt about it. It is not written down yet: see [`Proxy::note_denied`].
#[derive(Debug)]
pub struct Denied {
    /// Why.
    pub error: ExecuteError,
    seen: Seen,
}

impl Denied {
    /// Whoever called brought no credential of ours.
    #[must_use]
    pub fn stranger(error: ExecuteError) -> Self {
        Self {
            error,
            seen: Seen::default(),
        }
    }
}

/// Whose fault it is that nothing was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The caller's: the credential is no good, not for this, or was used before.
    Theirs,
    /// Nobody's: it is good, but something stands in the way that the caller is not to blame for: a stop, another execution, the time.
    Nobodys,
    /// Ours: nothing was refused, and the same call may succeed later.
    Ours,
}

/// Why nothing was executed by this call.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// No bearer token came, or more than one.
    #[error("send the credential as one `Authorization: Bearer TOKEN`")]
    Missing,
    /// The credential is no good, or not for this.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// It is not shown that the credential's issue is in the log.
    #[error(transparent)]
    NotLogged(#[from] NotLogged),
    /// The document in the body is not a draft.
    #[error("draft: {0}")]
    Document(JsonError),
    /// There is no such draft.
    #[error("there is no such draft")]
    NotFound,
    /// The store refused: spent, revoked, expired, withdrawn.
    #[error(transparent)]
    Refused(Rejection),
    /// The store did not answer.
    #[error(transparent)]
    Store(StoreError),
    /// The work ended before it had an answer; what it did is in the store.
    #[error("the execution's task ended without an answer")]
    BrokeOff,
}

impl From<StoreError> for ExecuteError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(rejection) => Self::Refused(rejection),
            other => Self::Store(other),
        }
    }
}

impl Proxy {
    /// Spends the credential and starts the execution; or answers with what is known, if the draft was executed before.
    ///
    /// # Errors
    /// [`Denied`]; nothing was sent, and the credential is still good for its own draft if it was before.
    pub async fn execute(&self, request: ExecuteRequest) -> Result<ExecutionRecord, Denied> {
        // The work belongs to the process and not to the connection: a caller who hangs up between the redeem and what follows changes
        // nothing.
        let proxy = self.clone();
        let seen = Seen::of(&request.credential);
        let work = self.tasks.spawn(async move { proxy.redeem_and_start(request).await });
        work.await.unwrap_or(Err(Denied {
            error: ExecuteError::BrokeOff,
            seen,
        }))
    }

    /// Whether a token is a credential at all: one that a broker of ours signed. Whether it may be used is still open.
    ///
    /// # Errors
    /// [`ExecuteError::Token`]: whoever brought it is a stranger.
    pub fn recognise(&self, token: &Secret) -> Result<SignedCredential, ExecuteError> {
        Ok(self.verifier.read(token.expose(), self.clock.now())?)
    }

    async fn redeem_and_start(&self, request: ExecuteRequest) -> Result<ExecutionRecord, Denied> {
        let mut seen = Seen::of(&request.credential);
        match self.redeem(request, &mut seen).await {
            Err(error) => Err(Denied { error, seen }),
            Ok(Redeemed::Claimed(execution)) => {
                reached(Point::RedeemClaimed);
                let proxy = self.clone();
                let claimed = execution.clone();
                self.tasks.spawn(async move { proxy.drive(*claimed).await });
                Ok(*execution)
            }
            Ok(Redeemed::Already(execution)) => Ok(*execution),
        }
    }

    /// Writes a refused call down; what is our fault refuses nothing. The refusal stands, written down or not.
    pub async fn note_denied(&self, denied: &Denied, request: RequestId) {
        let Some(code) = denied.error.denial() else { return };
        let stop = match &denied.error {
            ExecuteError::Refused(Rejection::Stopped(stop)) => Some(StopPart::named(*stop)),
            _ => None,
        };
        let event = EventBody {
            stop,
            ..denied.seen.event()
        };
        let _ = self.note(request, event.denied(code)).await;
    }

    /// Writes down that a use of this credential was refused because the call around it cannot be read.
    pub async fn note_unreadable(&self, credential: &SignedCredential, request: RequestId, code: &'static str) {
        let _ = self.note(request, Seen::of(credential).event().denied(code)).await;
    }

    async fn redeem(&self, request: ExecuteRequest, seen: &mut Seen) -> Result<Redeemed, ExecuteError> {
        let now = self.clock.now();
        let (id, hash) = match request.subject {
            Subject::Id(id) => (id, None),
            Subject::Document(json) => {
                let document: DraftDocument = json.decode().map_err(ExecuteError::Document)?;
                (document.id, Some(DraftHash::of_canonical(&json.canonical())))
            }
        };
        let draft = self.store.draft(id).await?.ok_or(ExecuteError::NotFound)?;
        let facts = RequestFacts {
            operation: draft.operation.clone(),
            resource: GrantResource::new(draft.tenant.clone(), &draft.resource),
            // A document that was sent along speaks for itself: if it is not the stored one, its hash is not the signed one.
            draft_hash: hash.unwrap_or(draft.hash),
        };
        seen.draft = Some(draft);
        let verified = self.verifier.authorize(request.credential, &facts, now)?;
        let grant = verified.grant();
        if self.settings.require_receipt {
            self.log.check(grant, request.logged.as_ref())?;
        }
        let redeem = Redeem {
            credential: grant.credential,
            approval: grant.jti,
            draft: id,
            hash: grant.draft_hash,
            audience: grant.audience.clone(),
            execution: ExecutionId::generate(&*self.clock, &*self.entropy),
            holder: self.settings.holder.clone(),
            lease: self.settings.lease,
        };
        reached(Point::RedeemVerified);
        Ok(self.surely(|op| self.store.redeem(op, redeem.clone())).await?.value)
    }
}

/// What was learnt about the call before it was refused; the credential only once its signature held.
#[derive(Debug, Default)]
struct Seen {
    credential: Option<CredentialId>,
    draft: Option<DraftRecord>,
}

impl Seen {
    fn of(credential: &SignedCredential) -> Self {
        Self {
            credential: Some(credential.grant().credential),
            draft: None,
        }
    }

    fn event(&self) -> EventBody {
        let event = EventBody::new(EventKind::Note(Note::UseDenied), Actor::new(ActorKind::Anonymous, "bearer"));
        let credential = self.credential.map(|id| CredentialPart {
            id,
            root_key_id: None,
            audience: None,
            expires_at: None,
        });
        let event = EventBody { credential, ..event };
        match &self.draft {
            Some(draft) => draft.tell(event),
            None => event,
        }
    }
}

impl ExecuteError {
    /// Whose fault it is.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Missing | Self::NotLogged(_) | Self::Document(_) | Self::NotFound => Fault::Theirs,
            Self::Token(error) => of_token(error),
            Self::Refused(rejection) => of_rejection(rejection),
            Self::Store(_) | Self::BrokeOff => Fault::Ours,
        }
    }

    /// The event's code, if the call is refused; what is down refuses nothing.
    fn denial(&self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("credential_missing"),
            Self::Token(error) if error.is_ours() => None,
            Self::Token(error) => Some(error.code()),
            Self::NotLogged(NotLogged::Missing) => Some("receipt_missing"),
            Self::NotLogged(_) => Some("receipt_invalid"),
            Self::Document(_) => Some("json_invalid"),
            Self::NotFound => Some("not_found"),
            Self::Refused(rejection) => Some(match rejection {
                Rejection::CredentialExpired(_) => "credential_expired",
                Rejection::CredentialIs(CredentialState::Redeemed) => "credential_spent",
                Rejection::CredentialIs(_) | Rejection::ClientRevoked(_) => "credential_not_live",
                Rejection::KeyRevoked(_) => "record_key_revoked",
                Rejection::GrantMismatch | Rejection::HashMismatch => "credential_draft_mismatch",
                Rejection::NotFound => "credential_unknown",
                Rejection::ResourceBusy(_) => "resource_busy",
                Rejection::Stopped(_) => "stopped",
                Rejection::DraftExpired(_) => "draft_expired",
                Rejection::WindowExpired(_) => "execution_window_over",
                _ => "draft_not_executable",
            }),
            Self::Store(_) | Self::BrokeOff => None,
        }
    }
}

const fn of_token(error: &TokenError) -> Fault {
    match error {
        TokenError::NotYetValid | TokenError::Expired | TokenError::KeyNotYetValid(_) | TokenError::KeyRetired(_) => Fault::Nobodys,
        TokenError::BudgetExhausted => Fault::Ours,
        TokenError::Empty
        | TokenError::TooLong
        | TokenError::NotBase64
        | TokenError::Malformed
        | TokenError::ExtraBlocks
        | TokenError::Sealed
        | TokenError::KeyIdMissing
        | TokenError::KeyUnknown(_)
        | TokenError::SignatureInvalid(_)
        | TokenError::ContextWrong
        | TokenError::GrantMalformed
        | TokenError::OperationMismatch
        | TokenError::TenantMismatch
        | TokenError::ResourceMismatch
        | TokenError::DraftMismatch
        | TokenError::AudienceMismatch
        | TokenError::LifetimeTooLong
        | TokenError::ChecksFailed
        | TokenError::VerifierFailed => Fault::Theirs,
    }
}

const fn of_rejection(rejection: &Rejection) -> Fault {
    match rejection {
        Rejection::ResourceBusy(_)
        | Rejection::Stopped(_)
        | Rejection::DraftIs(DraftState::Expired)
        | Rejection::DraftExpired(_)
        | Rejection::ApprovalExpired(_)
        | Rejection::WindowExpired(_)
        | Rejection::CredentialExpired(_) => Fault::Nobodys,
        Rejection::NotFound
        | Rejection::DraftIs(_)
        | Rejection::ApprovalIs(_)
        | Rejection::CredentialIs(_)
        | Rejection::HashMismatch
        | Rejection::GrantMismatch
        | Rejection::KeyRevoked(_)
        | Rejection::ClientRevoked(_) => Fault::Theirs,
        // No redeem is refused with these: where one comes all the same it is a defect.
        Rejection::ExecutionIs(_)
        | Rejection::SendWindowClosed(_)
        | Rejection::NonceMismatch
        | Rejection::SelfApproval(_)
        | Rejection::AlreadyAnswered(_)
        | Rejection::RecordReused(_)
        | Rejection::StopEnded(_)
        | Rejection::Fenced { .. }
        | Rejection::Leased(_)
        | Rejection::AttemptInDoubt(_)
        | Rejection::RequestKeyReused
        | Rejection::SecretsChanged(_)
        | Rejection::EventReused(_)
        | Rejection::OperationReused
        | Rejection::OperationCancelled
        | Rejection::LatestIs(_)
        | Rejection::ClockNotBehind(_)
        | Rejection::MustNotBeKept(_)
        | Rejection::Erased(_)
        | Rejection::Held(_)
        | Rejection::NoSubjectsKey
        | Rejection::NotPrunable(..)
        | Rejection::Exists(_) => Fault::Ours,
    }
}
