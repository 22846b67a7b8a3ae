//! Propose: parse, check, read the facts, compile the exact request, hash, store; then ask the policy.

use serde::Serialize;

use super::{Broker, Caller, DecideError};
use crate::audit::scan::{Hit, scan};
use crate::audit::{EventBody, EventKind, Note};
use crate::backend::{CompileError, FactsError, ParamError, ReadError};
use crate::crash_points::{Point, reached};
use crate::domain::digest::Digest;
use crate::domain::draft::{DraftDocument, Evidence, Maker, Resource};
use crate::domain::id::DraftId;
use crate::domain::json::{Json, JsonError, canonical};
use crate::domain::lifecycle::DraftState;
use crate::domain::name::{CaseId, ClientId, OperationName, PrincipalId, ResourceId, ResourceType, TenantId};
use crate::domain::operation::Stage;
use crate::store::intent::{Known, NewDraft, Proposed};
use crate::store::record::DraftRecord;
use crate::store::{Rejection, StoreError};

/// What an orchestrator proposes.
#[derive(Debug, Clone)]
pub struct ProposeRequest {
    /// What is to be done.
    pub operation: OperationName,
    /// The operation's declared parameters.
    pub parameters: Json,
    /// The support case.
    pub case_id: Option<CaseId>,
    /// Why, as a code.
    pub reason_code: Option<String>,
    /// The person whose wish it is.
    pub on_behalf_of: Option<PrincipalId>,
    /// What supports it.
    pub evidence: Vec<Evidence>,
    /// The draft this one replaces.
    pub supersedes: Option<DraftId>,
    /// The `Idempotency-Key` header of the request.
    pub request_key: Option<String>,
    /// SHA-256 of the request's canonical body.
    pub request_hash: Digest,
}

/// Why a proposal was not stored, or not decided.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// No backend file declares it.
    #[error("`{0}` is not a declared operation")]
    UnknownOperation(OperationName),
    /// It is a read; reads are not drafted.
    #[error("`{0}` is a read; call POST /v1/reads")]
    IsRead(OperationName),
    /// The caller may not draft it.
    #[error("this client may not draft `{0}`")]
    NotPermitted(OperationName),
    /// The parameters are not what the operation declares.
    #[error("{} parameter(s) are not what the operation declares", .0.len())]
    Parameters(Vec<ParamError>),
    /// An identifier or a code has the form of something that must not be written down.
    #[error("it has the form of {}, which is never kept: name the thing by an id that is none", .hit.what())]
    MustNotBeKept {
        /// Where it stands in the request.
        pointer: &'static str,
        /// What it looks like.
        hit: Hit,
    },
    /// The backend did not say what is needed.
    #[error("the backend could not be read")]
    Unreadable(#[source] ReadError),
    /// The backend's facts do not support the draft.
    #[error(transparent)]
    Facts(FactsError),
    /// The request could not be compiled.
    #[error(transparent)]
    Compile(CompileError),
    /// The document does not fit the strict subset of JSON.
    #[error(transparent)]
    Document(#[from] JsonError),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is stored, but the policy's answer could not be.
    #[error(transparent)]
    Decide(#[from] DecideError),
}

/// What makes two proposals the same, whatever the facts, the time and the salt.
#[derive(Serialize)]
struct Content<'a> {
    tenant: &'a TenantId,
    maker: &'a ClientId,
    operation: &'a OperationName,
    resource_type: &'a ResourceType,
    resource_id: &'a ResourceId,
    parameters: &'a Json,
    on_behalf_of: &'a Option<PrincipalId>,
}

impl Broker {
    /// Stores a draft and decides it. A proposal that is open already is answered with the open draft.
    ///
    /// # Errors
    /// [`ProposeError`]; nothing is stored except on [`ProposeError::Decide`], where a repeated proposal goes on.
    pub async fn propose(&self, caller: &Caller, request: ProposeRequest) -> Result<DraftRecord, ProposeError> {
        let operation = request.operation.clone();
        let proposed = self.store_draft(caller, request).await;
        if let Err(error) = &proposed
            && let Some(code) = error.denial()
        {
            let event = EventBody::new(EventKind::Note(Note::ProposeDenied), caller.actor()).denied(code);
            self.note_denial(
                caller,
                EventBody {
                    operation: Some(operation),
                    ..event
                },
            )
            .await;
        }
        match proposed? {
            Proposed::Stored(draft) => Ok(self.decide(Some(caller.request), *draft).await?),
            // The process died between storing and deciding: the repeated proposal goes on where it stopped.
            Proposed::Open(draft) if draft.state == DraftState::Proposed => Ok(self.decide(Some(caller.request), *draft).await?),
            Proposed::Open(draft) => Ok(*draft),
        }
    }

    async fn store_draft(&self, caller: &Caller, request: ProposeRequest) -> Result<Proposed, ProposeError> {
        let operation = self
            .backends
            .operation(&request.operation)
            .ok_or_else(|| ProposeError::UnknownOperation(request.operation.clone()))?;
        if operation.is_read() {
            return Err(ProposeError::IsRead(request.operation));
        }
        if !caller.client.may(Stage::Draft, &request.operation) {
            return Err(ProposeError::NotPermitted(request.operation));
        }
        let checked = operation.check(&request.parameters).map_err(ProposeError::Parameters)?;
        keepable(&request, checked.resource())?;
        let content = Content {
            tenant: &caller.client.tenant,
            maker: &caller.client.id,
            operation: &request.operation,
            resource_type: operation.resource_type(),
            resource_id: checked.resource(),
            parameters: checked.params(),
            on_behalf_of: &request.on_behalf_of,
        };
        let content = Digest::tagged("writ.content.v1", &canonical(&content)?);
        let known = Known {
            tenant: caller.client.tenant.clone(),
            maker: caller.client.id.clone(),
            content,
            request_key: request.request_key.map(|key| (key, request.request_hash)),
        };
        // Before any backend is read: what the first one did to the backend must not keep a repeated proposal from finding it.
        if let Some(open) = self
            .store
            .known_draft(known.clone())
            .await?
            .filter(|d| Some(d.id) != request.supersedes)
        {
            return Ok(Proposed::Open(Box::new(open)));
        }
        let plans = operation.fact_reads(&checked);
        let mut answers = Vec::with_capacity(plans.len());
        for plan in &plans {
            answers.push(self.look(plan).await.map_err(ProposeError::Unreadable)?);
        }
        let facts = operation.facts(&checked, &answers).map_err(ProposeError::Facts)?;
        let id = DraftId::generate(&*self.clock, &*self.entropy);
        let compiled = operation.compile(&id, &checked, &facts).map_err(ProposeError::Compile)?;
        let resource = Resource {
            kind: operation.resource_type().clone(),
            id: checked.resource().clone(),
            version: facts.resource_version.clone(),
        };
        let resource_name = resource.to_string();
        let created_at = self.clock.now();
        let document = DraftDocument {
            v: 1,
            id,
            salt: self.nonce(),
            tenant: caller.client.tenant.clone(),
            operation: request.operation.clone(),
            consequence: operation.consequence(),
            resource: resource.clone(),
            amount: checked.amount(),
            parameters: checked.params().clone(),
            maker: Maker {
                client: caller.client.id.clone(),
                owner: caller.client.owner.clone(),
            },
            on_behalf_of: request.on_behalf_of.clone(),
            case_id: request.case_id.clone(),
            reason_code: request.reason_code,
            evidence: request.evidence,
            facts: facts.json,
            request: compiled,
            on_failure: operation.on_failure().to_owned(),
            adapter: operation.backend().adapter().clone(),
            policy: self.policy.reference().clone(),
            supersedes: request.supersedes,
            created_at,
            expires_at: created_at.plus(self.settings.draft_lifetime),
        };
        let sealed = document.seal()?;
        let new = NewDraft {
            id,
            tenant: document.tenant,
            maker: caller.client.id.clone(),
            owner: caller.client.owner.clone(),
            on_behalf_of: request.on_behalf_of,
            case_id: request.case_id,
            operation: request.operation,
            consequence: document.consequence,
            resource,
            amount: document.amount,
            fields: checked.fields().clone(),
            // A charge without a customer counts for itself, so that leaving the customer out is no way around the count.
            subject: facts.subject.or(Some(resource_name)),
            backend: document.adapter.name,
            content,
            request_key: known.request_key,
            document: sealed.bytes,
            hash: sealed.hash,
            key: sealed.key,
            supersedes: request.supersedes,
            expires_at: document.expires_at,
        };
        reached(Point::ProposeCompiled);
        Ok(self.store.propose(self.op_of(caller), new).await?.value)
    }
}

/// Refuses what would stay in the log for ever and must not: the texts of the request that events or their search columns are made of.
fn keepable(request: &ProposeRequest, resource: &ResourceId) -> Result<(), ProposeError> {
    let check = |pointer: &'static str, text: &str| scan(text).map_or(Ok(()), |hit| Err(ProposeError::MustNotBeKept { pointer, hit }));
    check("/parameters", resource.as_str())?;
    check("/case_id", request.case_id.as_ref().map_or("", |id| id.as_str()))?;
    check("/on_behalf_of", request.on_behalf_of.as_ref().map_or("", |id| id.as_str()))?;
    check("/reason_code", request.reason_code.as_deref().unwrap_or_default())?;
    request.evidence.iter().try_for_each(|piece| check("/evidence", &piece.kind))
}

impl ProposeError {
    /// The event's code, if the refusal is the caller's doing and so belongs in the log.
    fn denial(&self) -> Option<&'static str> {
        match self {
            Self::UnknownOperation(_) => Some("operation_unknown"),
            Self::IsRead(_) => Some("operation_is_read"),
            Self::NotPermitted(_) => Some("not_permitted"),
            Self::MustNotBeKept { .. } => Some("value_not_kept"),
            Self::Parameters(_) | Self::Compile(_) => Some("operation_parameters_invalid"),
            Self::Facts(source) if source.is_blind() => None,
            Self::Facts(_) => Some("facts_do_not_support"),
            Self::Store(StoreError::Rejected(Rejection::RequestKeyReused)) => Some("idempotency_key_reused"),
            Self::Store(StoreError::Rejected(_)) => Some("supersedes_invalid"),
            Self::Unreadable(_) | Self::Document(_) | Self::Store(_) | Self::Decide(_) => None,
        }
    }
}
