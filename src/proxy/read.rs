//! Read: operations of class `read`, never gated, only for clients that were granted them; only the declared fields get out.

use super::Proxy;
use crate::audit::{Actor, ActorKind, EventBody, EventKind, Note, ProviderPart};
use crate::backend::{Credential, FactsError, ParamError, ReadError};
use crate::domain::draft::Resource;
use crate::domain::id::RequestId;
use crate::domain::json::Json;
use crate::domain::name::{CaseId, OperationName};
use crate::domain::operation::Stage;
use crate::domain::principal::Client;

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
}

impl Proxy {
    /// Runs a read for a client.
    ///
    /// # Errors
    /// [`ReadDenied`].
    pub async fn read(&self, client: &Client, request: ReadRequest) -> Result<ReadResult, ReadDenied> {
        let outcome = self.read_inner(client, &request).await;
        let kind = if outcome.is_ok() { Note::ReadPerformed } else { Note::AccessDenied };
        let event = EventBody {
            tenant: Some(client.tenant.clone()),
            case_id: request.case_id,
            operation: Some(request.operation),
            ..EventBody::new(EventKind::Note(kind), Actor::new(ActorKind::Client, client.id.as_str()))
        };
        match &outcome {
            Ok(result) => {
                let provider = ProviderPart {
                    status: Some(200),
                    reference: None,
                    rule: None,
                    body_sha256: None,
                };
                self.note(
                    Some(request.request),
                    EventBody {
                        resource: Some(result.resource.clone()),
                        provider: Some(provider),
                        ..event
                    },
                )
                .await;
            }
            Err(ReadDenied::UnknownOperation(_) | ReadDenied::NotARead(_) | ReadDenied::NotPermitted(_)) => {
                self.note(Some(request.request), event.denied("not_permitted")).await;
            }
            Err(_) => {}
        }
        outcome
    }

    async fn read_inner(&self, client: &Client, request: &ReadRequest) -> Result<ReadResult, ReadDenied> {
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
        let answer = self.clients.read(&plan, Credential::Read).await.map_err(ReadDenied::Unreadable)?;
        if answer.status == 404 {
            return Err(ReadDenied::Absent(operation.resource_type().to_string()));
        }
        let fields = operation.shape(&answer).map_err(ReadDenied::Unshaped)?;
        let resource = Resource {
            kind: operation.resource_type().clone(),
            id: checked.resource().clone(),
            version: None,
        };
        Ok(ReadResult { resource, fields })
    }
}
