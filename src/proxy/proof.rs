//! Proof: what leaves is what the log tells of. The rows say what is to be sent; whoever can write them, and has no key, could say anything.

use super::dispatch::unsent;
use super::handoff::Reason;
use super::logged::{Issue, NotLogged, Said, says, tells_of, text};
use super::{Parts, Plan};
use crate::audit::{EventKind, EventOutcome, ReceiptError};
use crate::domain::draft::{CompiledRequest, IdempotencyKey};
use crate::domain::json::Json;
use crate::domain::lifecycle::{ExecutionState, ExecutionTransition};
use crate::store::StoreError;
use crate::store::intent::AfterAbort;
use crate::store::log::{EventQuery, EventRef, Order};
use crate::store::record::ExecutionRecord;
use crate::token::GrantResource;

/// What stands on an execution of which the log does not show that it may be sent, and in the event that tells so.
pub(super) const NOT_LOGGED: &str = "issue_not_logged";

/// The request of an execution whose credential was issued, and spent on it, by what a signed head of the log covers. Only [`Parts::prove`]
/// makes one, and nothing is sent without.
pub(super) struct Proof {
    request: CompiledRequest,
    key: IdempotencyKey,
}

impl Proof {
    /// What is to be sent.
    pub(super) const fn request(&self) -> &CompiledRequest {
        &self.request
    }

    /// The key, which follows from the bytes that were approved and from no row.
    pub(super) const fn key(&self) -> &IdempotencyKey {
        &self.key
    }
}

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unproven {
    /// The log does not tell of it: whatever made the row, it was no issue and no redeem.
    #[error("{0}")]
    NotLogged(String),
    /// The log tells of sends that the row knows nothing of.
    #[error("the log tells of more attempts than the execution has: it was set back")]
    SetBack,
    /// It could not be looked up.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<NotLogged> for Unproven {
    fn from(why: NotLogged) -> Self {
        match why {
            // Nothing of the log can be believed now. That says nothing about this execution.
            NotLogged::Receipt(ReceiptError::Head(_) | ReceiptError::Proof { .. } | ReceiptError::Malformed) => {
                Self::Store(StoreError::Corrupt(format!("the log's head is not believed: {why}")))
            }
            other => Self::NotLogged(other.to_string()),
        }
    }
}

impl Parts {
    /// Whether the log shows that this is to be sent: that the credential was issued for exactly these bytes, and that the execution was claimed
    /// with it, each by an event under a head that a key of the log has signed.
    pub(super) async fn prove(&self, execution: &ExecutionRecord, plan: &Plan<'_>) -> Result<Proof, Unproven> {
        let document = &plan.document;
        let missing = |what: &str| Unproven::NotLogged(format!("there is no {what}"));
        let credential = self.store.credential(execution.credential).await?;
        let credential = credential.ok_or_else(|| missing("credential"))?;
        let issue = Issue {
            credential: execution.credential,
            draft_hash: execution.hash,
            audience: &credential.audience,
            approval: credential.approval,
            operation: &document.operation,
            resource: GrantResource::new(document.tenant.clone(), &document.resource),
            expires_at: credential.expires_at,
        };
        let issued = self.believed(EventRef::Issued(execution.credential)).await?;
        tells_of(&issued.ok_or_else(|| missing("event of the credential's issue"))?, &issue)?;
        let claimed = self.believed(EventRef::Claimed(execution.draft, execution.id)).await?;
        tells_of_claim(&claimed.ok_or_else(|| missing("event of the execution's claim"))?, execution)?;
        let draft = self.store.draft(execution.draft).await?;
        let approval = draft.and_then(|draft| draft.approval).map(|approval| approval.id);
        if approval != Some(issue.approval) {
            return Err(missing("approval of the draft that the credential was issued for"));
        }
        // What was never written down as sent is sent for the first time, under other conditions: the log has the last word about that.
        if execution.attempts.is_empty() {
            let sent = EventRef::Reached(execution.draft, execution.id, ExecutionState::Dispatched);
            if self.store.receipt(sent).await?.is_some() {
                return Err(Unproven::SetBack);
            }
        }
        Ok(Proof {
            request: document.request.clone(),
            key: IdempotencyKey::of(&execution.hash),
        })
    }

    async fn believed(&self, of: EventRef) -> Result<Option<Json>, Unproven> {
        match self.store.receipt(of).await? {
            None => Ok(None),
            Some(proven) => Ok(Some(self.log.believe(&proven)?)),
        }
    }

    /// Nothing is sent for an execution of which the log does not show that it may be: a person must look.
    pub(super) async fn unproven(&self, execution: &ExecutionRecord, why: Unproven) -> Result<ExecutionRecord, StoreError> {
        if let Unproven::Store(error) = why {
            return Err(error);
        }
        tracing::error!(
            execution.id = %execution.id, draft.id = %execution.draft, credential.id = %execution.credential, %why,
            "the log does not show that this may be sent: nothing is sent, and somebody may have written to the database"
        );
        if !self.was_told(execution).await? {
            self.store.note(self.op(None), unsent(execution, self.actor(), NOT_LOGGED)).await?;
        }
        match (execution.state, why) {
            (ExecutionState::Indeterminate, _) => self.hand_off(execution, Reason::IssueNotLogged).await,
            // Given up would be to say that nothing was sent, which the log denies. It stays a claim, which keeps its resource.
            (_, Unproven::SetBack) => Err(StoreError::Corrupt(format!("execution {}: {}", execution.id, Unproven::SetBack))),
            _ => self.abort(execution, NOT_LOGGED, AfterAbort::Stale).await,
        }
    }

    /// Whether the log tells already that this execution cannot be shown: it is told once, however often it is tried.
    async fn was_told(&self, execution: &ExecutionRecord) -> Result<bool, StoreError> {
        let told = self.store.search(EventQuery {
            draft: Some(execution.draft),
            kind: Some(EventKind::Note(crate::audit::Note::SendDenied)),
            outcome: Some(EventOutcome::Denied),
            order: Order::NewestFirst,
            limit: 16,
            ..EventQuery::default()
        });
        let id = execution.id.to_string();
        let told = told.await?;
        let mut read = told.events.iter().filter_map(|event| Json::parse_deeper(&event.bytes).ok());
        Ok(read.any(|event| text(&event, &["code"]) == Some(NOT_LOGGED) && text(&event, &["execution", "id"]) == Some(id.as_str())))
    }
}

/// Whether the event is the claim of this execution, with this credential.
fn tells_of_claim(event: &Json, execution: &ExecutionRecord) -> Result<(), NotLogged> {
    let claim = EventKind::Execution(ExecutionTransition::Claim);
    let expected: [Said<'_>; 5] = [
        ("type", &["type"], claim.as_str().to_owned()),
        ("outcome", &["outcome"], EventOutcome::Ok.as_str().to_owned()),
        ("execution", &["execution", "id"], execution.id.to_string()),
        ("draft", &["draft", "hash"], execution.hash.to_string()),
        ("credential", &["credential", "id"], execution.credential.to_string()),
    ];
    says(event, expected)
}
