//! Issue: an approval is exchanged for a credential (RFC 8693), after everything was checked again now.

use std::time::Duration;

use super::details::{details, same_details};
use super::review::{about_draft, of_rejection};
use super::{AcceptError, Broker, Caller};
use crate::approval::{RecordError, UnverifiedRecord};
use crate::audit::{EventBody, EventKind, Note, StopPart};
use crate::backend::{ReadError, Stale};
use crate::crash_points::{Point, reached};
use crate::domain::id::{CredentialId, DraftId, StopId};
use crate::domain::json::{Json, JsonError};
use crate::domain::lifecycle::DraftState;
use crate::domain::name::{Audience, KeyId, OperationName, PrincipalId};
use crate::domain::operation::Stage;
use crate::domain::policy::Rule;
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::store::intent::Issue;
use crate::store::record::DraftRecord;
use crate::store::{Busy, Rejection, StoreError};
use crate::token::{Grant, GrantResource, KeyRingError, MintError};

/// What stands for the approval: a record to be counted now, or a draft whose records are stored already.
#[derive(Debug, Clone)]
pub enum SubjectToken {
    /// `urn:writ:token-type:approval-record`: an `approval+jwt`.
    Record(String),
    /// `urn:writ:token-type:draft`: a draft's id.
    Draft(DraftId),
}

/// An exchange, as RFC 8693 section 2.1 has it.
#[derive(Debug, Clone)]
pub struct ExchangeRequest {
    /// What stands for the approval.
    pub subject: SubjectToken,
    /// For whom the credential shall be.
    pub audience: Option<Audience>,
    /// What the credential shall allow (RFC 9396), if the caller says so; must equal the draft.
    pub authorization_details: Option<Json>,
}

/// A credential, issued.
#[derive(Debug)]
pub struct Issued {
    /// The token. It is stored nowhere.
    pub token: Secret,
    /// Its id.
    pub credential: CredentialId,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// First moment it is good no longer.
    pub expires_at: Timestamp,
    /// What it allows, in the form of RFC 9396.
    pub authorization_details: Json,
}

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The record was not counted.
    #[error(transparent)]
    Accept(#[from] AcceptError),
    /// There is no such draft of this caller.
    #[error("there is no such draft")]
    NotFound,
    /// The caller may not execute this operation.
    #[error("this client may not execute `{0}`")]
    NotPermitted(OperationName),
    /// No proxy answers to this audience.
    #[error("`{0}` is not an audience this broker issues for")]
    Audience(Audience),
    /// The wish and the draft differ.
    #[error("authorization_details: {0}")]
    Details(JsonError),
    /// More signatures are needed.
    #[error("{given} of {needed} signatures have come")]
    Unmet {
        /// How many places are filled.
        given: usize,
        /// How many there are.
        needed: usize,
    },
    /// The draft is not approved, or no longer.
    #[error("the draft is {state}")]
    NotApproved {
        /// Where it stands.
        state: DraftState,
        /// The words of whoever ended it.
        reason: Option<String>,
    },
    /// A stored record no longer verifies.
    #[error("a stored approval record no longer verifies")]
    Record(#[source] RecordError),
    /// An approver's key was revoked, or is no longer registered.
    #[error("the approver key `{0}` is revoked or no longer registered")]
    KeyRevoked(KeyId),
    /// With the authority that holds now, the signatures no longer suffice.
    #[error("the approval no longer suffices: {0} no longer counts")]
    AuthorityGone(PrincipalId),
    /// The policy in force now denies it.
    #[error("the policy now denies it")]
    PolicyDenies(Vec<Rule>),
    /// The adapter that compiled the request has changed since.
    #[error("the backend's adapter file has changed since the draft was made")]
    AdapterChanged,
    /// The resource has moved since the draft was made.
    #[error("the resource has changed since the draft was made: {0}")]
    ResourceMoved(Stale),
    /// The resource could not be read.
    #[error("the backend could not be read")]
    Unreadable(#[source] ReadError),
    /// The backend's answer does not tell whether the resource has moved; the draft stands as it stood.
    #[error("the backend did not show the resource")]
    Blind(#[source] Stale),
    /// Another execution on the same resource has no known outcome.
    #[error("{0}")]
    ResourceBusy(Busy),
    /// A stop covers it.
    #[error("stop {0} covers the draft")]
    Stopped(StopId),
    /// No key may sign now.
    #[error(transparent)]
    NoSigningKey(#[from] KeyRingError),
    /// The token could not be built.
    #[error(transparent)]
    Mint(#[from] MintError),
    /// The store refused, or did not answer.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for ExchangeError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(Rejection::ResourceBusy(busy)) => Self::ResourceBusy(busy),
            StoreError::Rejected(Rejection::Stopped(stop)) => Self::Stopped(stop),
            StoreError::Rejected(Rejection::KeyRevoked(kid)) => Self::KeyRevoked(kid),
            StoreError::Rejected(Rejection::DraftIs(state)) => Self::NotApproved { state, reason: None },
            other => Self::Store(other),
        }
    }
}

impl Broker {
    /// Exchanges an approval for a credential.
    ///
    /// # Errors
    /// [`ExchangeError`]; no credential exists that the caller does not have.
    pub async fn exchange(&self, caller: &Caller, request: ExchangeRequest) -> Result<Issued, ExchangeError> {
        let draft = match self.subject_draft(caller, &request.subject).await {
            Ok(draft) => draft,
            Err(error) => {
                self.note_refusal(caller, None, &error).await;
                return Err(error);
            }
        };
        let issued = self.exchange_draft(caller, &draft, &request).await;
        if let Err(error) = &issued {
            self.note_refusal(caller, Some(draft), error).await;
        }
        issued
    }

    async fn note_refusal(&self, caller: &Caller, draft: Option<DraftRecord>, error: &ExchangeError) {
        let Some(code) = error.denial() else { return };
        let stop = match error {
            ExchangeError::Stopped(stop) => Some(StopPart::named(*stop)),
            _ => None,
        };
        let event = EventBody {
            stop,
            ..EventBody::new(EventKind::Note(Note::ExchangeDenied), caller.actor()).denied(code)
        };
        self.note_denial(caller, about_draft(event, draft)).await;
    }

    /// The draft the subject token stands for; a record that has not come before is counted first.
    async fn subject_draft(&self, caller: &Caller, subject: &SubjectToken) -> Result<DraftRecord, ExchangeError> {
        let mine = |d: &DraftRecord| d.tenant == caller.client.tenant && d.maker == caller.client.id;
        match subject {
            SubjectToken::Draft(id) => self.store.draft(*id).await?.filter(mine).ok_or(ExchangeError::NotFound),
            SubjectToken::Record(jws) => {
                let unverified = UnverifiedRecord::parse(jws).map_err(AcceptError::Record)?;
                let kid = unverified.kid().clone();
                let key = self.store.approver_key(&kid).await?.ok_or(AcceptError::UnknownKey(kid))?;
                let record = unverified.verify_stored(&key, self.clock.now()).map_err(AcceptError::Record)?;
                let stored = self
                    .store
                    .draft(record.claims().apr.draft_id)
                    .await?
                    .filter(mine)
                    .ok_or(ExchangeError::NotFound)?;
                // Byte for byte the stored record: its times were looked at when it came, and all the rest is looked at again below.
                let known = stored.approval.iter().flat_map(|a| &a.records).any(|r| r.jws == *jws);
                if known {
                    Ok(stored)
                } else {
                    Ok(self.accept(caller, jws).await?.draft)
                }
            }
        }
    }

    async fn exchange_draft(&self, caller: &Caller, draft: &DraftRecord, request: &ExchangeRequest) -> Result<Issued, ExchangeError> {
        if !caller.client.may(Stage::Execute, &draft.operation) {
            return Err(ExchangeError::NotPermitted(draft.operation.clone()));
        }
        let audience = self.audience(request.audience.as_ref())?;
        let details = details(draft);
        if let Some(wish) = &request.authorization_details {
            same_details(wish, &details).map_err(ExchangeError::Details)?;
        }
        let now = self.clock.now();
        let execute_by = self.standing(draft, now)?;
        self.resource_is_free(draft).await?;
        let (records, answer) = self.recheck(caller, draft, now).await?;
        let operation = self.backends.operation(&draft.operation).ok_or(ExchangeError::AdapterChanged)?;
        let document = self.document(draft).await?;
        if document.adapter != *operation.backend().adapter() {
            self.stale(caller, draft, "adapter_changed", None, None).await?;
            return Err(ExchangeError::AdapterChanged);
        }
        // What no document says in so many words and the policy is asked about.
        let checked = operation.check(&document.parameters).map_err(|_| fields_differ(draft))?;
        if *checked.fields() != draft.fields {
            return Err(fields_differ(draft));
        }
        if let Some(plan) = operation.precondition(&document) {
            let answer = self.look(&plan).await.map_err(ExchangeError::Unreadable)?;
            if let Err(moved) = operation.precondition_holds(&document, &answer) {
                // An answer that shows nothing says nothing about the resource: the approval stays good for another try.
                if moved.is_blind() {
                    return Err(ExchangeError::Blind(moved));
                }
                self.stale(caller, draft, "resource_changed", Some(moved.to_string()), None).await?;
                return Err(ExchangeError::ResourceMoved(moved));
            }
        }
        let keys = self.signing_keys();
        let minter = keys.signing(now)?;
        // Whole seconds, as the token writes them, so that row and token agree.
        let until = now.plus(operation.credential_lifetime()).min(execute_by).min(draft.expires_at);
        let expires_at = Timestamp::from_seconds(until.seconds());
        if expires_at <= now {
            return Err(StoreError::from(Rejection::WindowExpired(until)).into());
        }
        let credential = CredentialId::generate(&*self.clock, &*self.entropy);
        let issue = Issue {
            credential,
            draft: draft.id,
            hash: draft.hash,
            audience: audience.clone(),
            root_key_id: minter.kid().number(),
            expires_at,
            records,
            answer,
        };
        reached(Point::ExchangeChecked);
        // The row first: a token whose row was never written is good for nothing, and a row whose token was lost is replaced by the next
        // exchange.
        let issued = self.store.issue(self.op_of(caller), issue).await?.value;
        let grant = Grant {
            operation: draft.operation.clone(),
            resource: GrantResource::new(draft.tenant.clone(), &draft.resource),
            draft_hash: draft.hash,
            audience,
            credential,
            jti: issued.approval,
            not_before: Grant::window(issued.issued_at, Duration::ZERO).0,
            expires_at: issued.expires_at,
        };
        let token = minter.mint(&grant, &*self.entropy)?;
        reached(Point::ExchangeMinted);
        Ok(Issued {
            token,
            credential,
            issued_at: issued.issued_at,
            expires_at: issued.expires_at,
            authorization_details: details,
        })
    }

    fn audience(&self, wish: Option<&Audience>) -> Result<Audience, ExchangeError> {
        match (wish, self.settings.proxies.as_slice()) {
            (Some(wish), known) => known
                .iter()
                .find(|a| *a == wish)
                .cloned()
                .ok_or_else(|| ExchangeError::Audience(wish.clone())),
            (None, [only]) => Ok(only.clone()),
            (None, _) => Err(ExchangeError::Audience(self.settings.audience.clone())),
        }
    }
}

fn fields_differ(draft: &DraftRecord) -> ExchangeError {
    tracing::error!(
        draft.id = %draft.id,
        "the draft's row names other fields than its document: somebody has written to the database, and nothing is issued"
    );
    ExchangeError::Store(StoreError::Corrupt(format!(
        "draft {}: column fields is not what its document says",
        draft.id
    )))
}

impl ExchangeError {
    /// The event's code, if the exchange is refused; what is down refuses nothing.
    pub(super) fn denial(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable(_) | Self::Blind(_) | Self::NoSigningKey(_) | Self::Mint(_) => None,
            Self::Accept(error) => error.denial(),
            Self::NotFound => Some("not_found"),
            Self::NotPermitted(_) => Some("not_permitted"),
            Self::Audience(_) => Some("audience_unknown"),
            Self::Details(_) => Some("authorization_details_differ"),
            Self::Unmet { .. } => Some("approval_pending"),
            Self::NotApproved { .. } => Some("draft_not_approved"),
            Self::Record(error) => Some(error.code()),
            Self::KeyRevoked(_) => Some("approver_key_revoked"),
            Self::AuthorityGone(_) => Some("approval_insufficient"),
            Self::PolicyDenies(_) => Some("policy_denies"),
            Self::AdapterChanged => Some("adapter_changed"),
            Self::ResourceMoved(_) => Some("resource_changed"),
            Self::ResourceBusy(_) => Some("resource_busy"),
            Self::Stopped(_) => Some("stopped"),
            Self::Store(StoreError::Rejected(rejection)) => Some(of_rejection(rejection)),
            Self::Store(_) => None,
        }
    }
}
