//! Issue: an approval is exchanged for a credential (RFC 8693), after everything was checked again now.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decide::question;
use super::review::{about_draft, is_self, of_rejection};
use super::{AcceptError, Broker, Caller};
use crate::approval::{RecordError, UnverifiedRecord};
use crate::audit::{EventBody, EventKind, Note};
use crate::backend::{ReadError, Stale};
use crate::domain::approval::Decision;
use crate::domain::draft::DraftDocument;
use crate::domain::id::{CredentialId, DraftId, ExecutionId, RecordId};
use crate::domain::json::{Json, JsonError};
use crate::domain::lifecycle::{DraftState, ExecutionState};
use crate::domain::name::{Audience, KeyId, OperationName, PrincipalId};
use crate::domain::operation::Stage;
use crate::domain::policy::{Outcome, Rule, Signature};
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::store::contract::{Close, CloseAs, DraftFilter, Issue};
use crate::store::record::{DraftRecord, SignedRecord};
use crate::store::{Rejection, StoreError};
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
    #[error("execution {execution} on the same resource is {state}")]
    ResourceBusy {
        /// The other execution.
        execution: ExecutionId,
        /// Where it stands.
        state: ExecutionState,
    },
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
            StoreError::Rejected(Rejection::ResourceBusy { execution, state }) => Self::ResourceBusy { execution, state },
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
        let event = EventBody::new(EventKind::Note(Note::ExchangeDenied), caller.actor()).denied(code);
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
        let records = self.recheck(caller, draft, now).await?;
        let operation = self.backends.operation(&draft.operation).ok_or(ExchangeError::AdapterChanged)?;
        let document = self.document(draft).await?;
        if document.adapter != *operation.backend().adapter() {
            self.stale(caller, draft, "adapter_changed", None).await?;
            return Err(ExchangeError::AdapterChanged);
        }
        if let Some(plan) = operation.precondition(&document) {
            let answer = self.look(&plan).await.map_err(ExchangeError::Unreadable)?;
            if let Err(moved) = operation.precondition_holds(&document, &answer) {
                // An answer that shows nothing says nothing about the resource: the approval stays good for another try.
                if moved.is_blind() {
                    return Err(ExchangeError::Blind(moved));
                }
                self.stale(caller, draft, "resource_changed", Some(moved.to_string())).await?;
                return Err(ExchangeError::ResourceMoved(moved));
            }
        }
        let keys = self.signing_keys();
        let minter = keys.signing(now)?;
        // Whole seconds, as the token writes them, so that row and token agree.
        let until = now.plus(operation.credential_lifetime()).min(execute_by).min(draft.expires_at);
        let expires_at = Timestamp::from_seconds(until.seconds());
        let credential = CredentialId::generate(&*self.clock, &*self.entropy);
        let issue = Issue {
            credential,
            draft: draft.id,
            hash: draft.hash,
            audience: audience.clone(),
            root_key_id: minter.kid().number(),
            expires_at,
            records,
        };
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

    /// Whether the draft stands approved and in time; until when the grant may be used.
    fn standing(&self, draft: &DraftRecord, now: Timestamp) -> Result<Timestamp, ExchangeError> {
        let approval = draft.approval.as_ref();
        match draft.state {
            DraftState::Approved => {}
            DraftState::AwaitingApproval => {
                let (given, needed) = approval.map_or((0, 1), |a| (a.requirement.filled(&a.signatures()), a.requirement.needed()));
                return Err(ExchangeError::Unmet { given, needed });
            }
            state => {
                let reason = draft.closed.as_ref().and_then(|c| c.reason.clone());
                return Err(ExchangeError::NotApproved { state, reason });
            }
        }
        let execute_by = approval.and_then(|a| a.execute_by).ok_or(ExchangeError::NotApproved {
            state: draft.state,
            reason: None,
        })?;
        if now >= draft.expires_at {
            return Err(StoreError::from(Rejection::DraftExpired(draft.expires_at)).into());
        }
        if now >= execute_by {
            return Err(StoreError::from(Rejection::WindowExpired(execute_by)).into());
        }
        Ok(execute_by)
    }

    /// Whether no other execution on the resource is open. The store looks again when it issues; here, so that what such an execution has done
    /// to the resource is not taken for somebody else's change while nobody knows whether it did anything.
    async fn resource_is_free(&self, draft: &DraftRecord) -> Result<(), ExchangeError> {
        const PAGE: u32 = 100;
        let mut filter = DraftFilter {
            tenant: Some(draft.tenant.clone()),
            state: Some(DraftState::Consumed),
            resource: Some(draft.resource.to_string()),
            limit: PAGE,
            ..DraftFilter::default()
        };
        loop {
            let page = self.store.drafts(filter.clone()).await?;
            let open = page.iter().filter(|d| d.id != draft.id).filter_map(|d| d.execution.as_ref());
            if let Some(execution) = open.into_iter().find(|e| ExecutionState::UNRESOLVED.contains(&e.state)) {
                return Err(ExchangeError::ResourceBusy {
                    execution: execution.id,
                    state: execution.state,
                });
            }
            match page.last() {
                Some(last) if page.len() == PAGE as usize => filter.after = Some(last.id),
                _ => return Ok(()),
            }
        }
    }

    /// Verifies every approving record again, with the keys and the authority that hold now, and asks the policy whether they are enough.
    /// Gives the ids of the records that count.
    async fn recheck(&self, caller: &Caller, draft: &DraftRecord, now: Timestamp) -> Result<Vec<RecordId>, ExchangeError> {
        let approval = draft.approval.as_ref().ok_or(ExchangeError::NotFound)?;
        let mut signatures: Vec<Signature> = Vec::new();
        let mut counted = Vec::new();
        let mut lost: Option<ExchangeError> = None;
        for record in approval.records.iter().filter(|r| r.decision == Decision::Approve) {
            match self.recheck_record(draft, record, now).await {
                Ok(queues) => {
                    // A rule's record stands for pass one of the policy, which is asked again below; it is nobody's signature.
                    if !record.approver.is_rule() {
                        signatures.push(Signature {
                            approver: record.approver.clone(),
                            queues,
                            step_up: record.step_up,
                        });
                    }
                    counted.push(record.id);
                }
                Err(error @ ExchangeError::Store(_)) => return Err(error),
                Err(error) => lost = Some(error),
            }
        }
        let enough = !counted.is_empty() && approval.requirement.is_met(&signatures);
        if !enough {
            let error = lost.unwrap_or(ExchangeError::Unmet {
                given: approval.requirement.filled(&signatures),
                needed: approval.requirement.needed(),
            });
            self.stale(
                caller,
                draft,
                error.denial().unwrap_or("approval_insufficient"),
                Some(error.to_string()),
            )
            .await?;
            return Err(error);
        }
        let answer = self.policy.confirm(&question(draft), &signatures);
        if answer.outcome != Outcome::Allow {
            let reasons: Vec<&str> = answer.rules.iter().map(|r| r.reason.as_str()).collect();
            self.stale(caller, draft, "policy_denies", Some(reasons.join(" "))).await?;
            return Err(ExchangeError::PolicyDenies(answer.rules));
        }
        Ok(counted)
    }

    async fn recheck_record(
        &self,
        draft: &DraftRecord,
        record: &SignedRecord,
        now: Timestamp,
    ) -> Result<BTreeSet<crate::domain::name::QueueName>, ExchangeError> {
        let key = self.store.approver_key(&record.kid).await?.filter(|k| k.revoked_at.is_none());
        let key = key.ok_or_else(|| ExchangeError::KeyRevoked(record.kid.clone()))?;
        let verified = UnverifiedRecord::parse(&record.jws)
            .and_then(|r| r.verify_stored(&key, now))
            .map_err(ExchangeError::Record)?;
        let claims = verified.claims();
        let same = claims.apr.draft_hash == draft.hash
            && claims.apr.draft_id == draft.id
            && claims.sub == record.approver
            && claims.apr.decision == record.decision;
        if !same || is_self(&record.approver, draft) {
            return Err(ExchangeError::AuthorityGone(record.approver.clone()));
        }
        if record.approver.is_rule() {
            return Ok(BTreeSet::new());
        }
        match self.authority(&record.approver, draft, now).await {
            Ok(queues) => Ok(queues),
            Err(AcceptError::Store(error)) => Err(ExchangeError::Store(error)),
            Err(_) => Err(ExchangeError::AuthorityGone(record.approver.clone())),
        }
    }

    /// The stored document; its bytes must hash to the draft's hash.
    async fn document(&self, draft: &DraftRecord) -> Result<DraftDocument, ExchangeError> {
        let bytes = self.store.draft_bytes(draft.id).await?.ok_or(ExchangeError::NotFound)?;
        if crate::domain::digest::DraftHash::of_canonical(&bytes) != draft.hash {
            return Err(ExchangeError::Store(StoreError::Corrupt(format!(
                "the bytes of draft {} do not hash to its hash",
                draft.id
            ))));
        }
        DraftDocument::parse(&bytes).map_err(|error| ExchangeError::Store(StoreError::Corrupt(format!("draft {}: {error}", draft.id))))
    }

    /// `draft.mark_stale`: what was approved no longer holds, and no later exchange may find it approved.
    async fn stale(&self, caller: &Caller, draft: &DraftRecord, code: &str, reason: Option<String>) -> Result<(), ExchangeError> {
        let close = Close {
            draft: draft.id,
            how: CloseAs::Stale,
            code: code.to_owned(),
            reason,
        };
        match self.store.close(self.op_of(caller), close).await {
            // Somebody closed or consumed it first: their word stands.
            Ok(_) | Err(StoreError::Rejected(Rejection::DraftIs(_))) => Ok(()),
            Err(error) => Err(ExchangeError::Store(error)),
        }
    }
}

/// What a credential for this draft allows, in the form of RFC 9396.
fn details(draft: &DraftRecord) -> Json {
    let text = |s: String| Json::String(s);
    let mut members = std::collections::BTreeMap::from([
        ("type".to_owned(), text("urn:writ:authorization:draft".to_owned())),
        ("operation".to_owned(), text(draft.operation.to_string())),
        ("resource".to_owned(), text(draft.resource.to_string())),
        ("draft_id".to_owned(), text(draft.id.to_string())),
        ("draft_hash".to_owned(), text(draft.hash.to_string())),
    ]);
    if let Some(money) = draft.amount {
        let amount = std::collections::BTreeMap::from([
            ("minor".to_owned(), Json::Integer(money.minor())),
            ("currency".to_owned(), text(money.currency().to_string())),
        ]);
        members.insert("amount".to_owned(), Json::Object(amount));
    }
    Json::Array(vec![Json::Object(members)])
}

/// The wish must be exactly what the draft allows: nothing more, nothing less, nothing else.
fn same_details(wish: &Json, ours: &Json) -> Result<(), JsonError> {
    if wish == ours {
        return Ok(());
    }
    let members = |json: &Json| match json {
        Json::Array(items) => match items.as_slice() {
            [Json::Object(members)] => Some(members.clone()),
            _ => None,
        },
        _ => None,
    };
    let (Some(wish), Some(ours)) = (members(wish), members(ours)) else {
        return Err(JsonError {
            pointer: String::new(),
            reason: "expected an array of one object".to_owned(),
        });
    };
    let differs = wish.iter().find(|(key, value)| ours.get(*key) != Some(value)).map(|(key, _)| key);
    let place = differs
        .or_else(|| ours.keys().find(|key| !wish.contains_key(*key)))
        .map_or_else(String::new, |key| format!("/0/{key}"));
    Err(JsonError {
        pointer: place,
        reason: "differs from the approved draft; leave authorization_details out or repeat what the draft says".to_owned(),
    })
}

impl ExchangeError {
    /// The event's code, if the exchange is refused; what is down refuses nothing.
    fn denial(&self) -> Option<&'static str> {
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
            Self::ResourceBusy { .. } => Some("resource_busy"),
            Self::Store(StoreError::Rejected(rejection)) => Some(of_rejection(rejection)),
            Self::Store(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_wish_that_differs_is_refused_at_its_place() {
        let ours = json(r#"[{"type":"t","amount":{"minor":1,"currency":"usd"}}]"#);
        assert!(same_details(&ours, &ours).is_ok());
        let wider = json(r#"[{"type":"t","amount":{"minor":2,"currency":"usd"}}]"#);
        assert_eq!(same_details(&wider, &ours).unwrap_err().pointer, "/0/amount");
        let more = json(r#"[{"type":"t","amount":{"minor":1,"currency":"usd"},"extra":1}]"#);
        assert_eq!(same_details(&more, &ours).unwrap_err().pointer, "/0/extra");
        let less = json(r#"[{"type":"t"}]"#);
        assert_eq!(same_details(&less, &ours).unwrap_err().pointer, "/0/amount");
        assert!(same_details(&json("[]"), &ours).is_err());
    }
}
