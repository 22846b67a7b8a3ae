//! Read: operations of class `read`, never gated, only for clients that were granted them; only the declared fields get out.

use super::Proxy;
use crate::audit::{Actor, ActorKind, EventBody, EventKind, EventOutcome, Note, ProviderPart};
use crate::backend::{Credential, FactsError, ParamError, ReadError};
use crate::domain::draft::Resource;
use crate::domain::id::RequestId;
use crate::domain::json::Json;
use crate::domain::name::{CaseId, OperationName};
use crate::domain::operation::Stage;
use crate::domain::principal::Client;
use crate::store::StoreError;

/// A read.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// Which operation.
    pub operation: OperationName,
    /// Its declared parameters.
    pub parameters: Json,
    /// The support case.
    pub case_id: Option<CaseId>,
    /// The HTTP request.
    pub request: RequestId,
}

/// What a read gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// What was read.
    pub resource: Resource,
    /// The declared fields, masked where the operation says so.
    pub fields: Json,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadDenied {
    /// No backend file declares it.
    #[error("`{0}` is not a declared operation")]
    UnknownOperation(OperationName),
    /// It is not a read.
    #[error("`{0}` changes something; propose a draft with POST /v1/drafts")]
    NotARead(OperationName),
    /// The caller was not granted it.
    #[error("this client may not read `{0}`")]
    NotPermitted(OperationName),
    /// The parameters are not what the operation declares.
    #[error("{} parameter(s) are not what the operation declares", .0.len())]
    Parameters(Vec<ParamError>),
    /// The backend has no such thing.
    #[error("the backend has no such {0}")]
    Absent(String),
    /// The backend did not answer, or not with what is declared.
    #[error("the backend could not be read")]
    Unreadable(#[source] ReadError),
    /// The backend answered without what is declared.
    #[error("the backend's answer does not hold what the operation declares")]
    Unshaped(#[source] FactsError),
    /// The read could not be written down, so its answer is not given out.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Proxy {
    /// Runs a read for a client. What is read is given out only once the read is in the audit log; a read that found nothing is there too.
    ///
    /// # Errors
    /// [`ReadDenied`].
    pub async fn read(&self, client: &Client, request: ReadRequest) -> Result<ReadResult, ReadDenied> {
        let mut touched = None;
        let outcome = self.read_inner(client, &request, &mut touched).await;
        let kind = if touched.is_some() {
            Note::ReadPerformed
        } else {
            Note::AccessDenied
        };
        let event = EventBody {
            tenant: Some(client.tenant.clone()),
            case_id: request.case_id,
            operation: Some(request.operation),
            resource: touched,
            ..EventBody::new(EventKind::Note(kind), Actor::new(ActorKind::Client, client.id.as_str()))
        };
        let failed = |event: EventBody, code: &str| EventBody {
            outcome: EventOutcome::Failed,
            code: Some(code.to_owned()),
            ..event
        };
        let event = match &outcome {
            Ok(_) => answered(event, 200),
            Err(ReadDenied::Absent(_)) => failed(answered(event, 404), "not_found"),
            Err(ReadDenied::Unreadable(_) | ReadDenied::Unshaped(_)) => failed(event, "backend_unavailable"),
            Err(ReadDenied::UnknownOperation(_)) => event.denied("operation_unknown"),
            Err(ReadDenied::NotARead(_)) => event.denied("operation_is_not_a_read"),
            Err(ReadDenied::NotPermitted(_)) => event.denied("not_permitted"),
            // Neither a read nor a breach of permissions.
            Err(ReadDenied::Parameters(_) | ReadDenied::Store(_)) => return outcome,
        };
        let noted = self.note(request.request, event).await;
        let result = outcome?;
        noted?;
        Ok(result)
    }

    /// Reads; `touched` tells what, from the moment the backend was asked.
    async fn read_inner(&self, client: &Client, request: &ReadRequest, touched: &mut Option<Resource>) -> Result<ReadResult, ReadDenied> {
        let name = &request.operation;
        let operation = self
            .backends
            .operation(name)
            .ok_or_else(|| ReadDenied::UnknownOperation(name.clone()))?;
        if !operation.is_read() {
            return Err(ReadDenied::NotARead(name.clone()));
        }
        if !client.may(Stage::Read, name) {
            return Err(ReadDenied::NotPermitted(name.clone()));
        }
        let checked = operation.check(&request.parameters).map_err(ReadDenied::Parameters)?;
        let plan = operation.read_plan(&checked).ok_or_else(|| ReadDenied::NotARead(name.clone()))?;
        let resource = Resource {
            kind: operation.resource_type().clone(),
            id: checked.resource().clone(),
            version: None,
        };
        *touched = Some(resource.clone());
        let answer = self.clients.read(&plan, Credential::Read).await.map_err(ReadDenied::Unreadable)?;
        if answer.status == 404 {
            return Err(ReadDenied::Absent(operation.resource_type().to_string()));
        }
        let fields = operation.shape(&answer).map_err(ReadDenied::Unshaped)?;
        Ok(ReadResult { resource, fields })
    }
}

fn answered(event: EventBody, status: u16) -> EventBody {
    let provider = ProviderPart {
        status: Some(status),
        reference: None,
        rule: None,
        body_sha256: None,
    };
    EventBody {
        provider: Some(provider),
        ..event
    }
}
