//! Reads: never gated, only the declared fields.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admission::admit;
use super::auth::Authenticated;
use super::body::Strict;
use super::view::ResourceView;
use super::{Problem, ProxyState};
use crate::domain::json::Json;
use crate::domain::name::{CaseId, OperationName};
use crate::domain::principal::Role;
use crate::edge::Work;
use crate::proxy::ReadRequest;

/// What to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadBody {
    /// An operation of class `read`, such as `order.read`.
    #[schema(value_type = String, example = "order.read")]
    operation: OperationName,
    /// The operation's declared parameters; a closed list.
    #[schema(value_type = Object)]
    parameters: Json,
    /// The support case.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    case_id: Option<CaseId>,
}

/// What was read.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReadView {
    /// What was read.
    resource: ResourceView,
    /// The fields the operation declares, masked where it says so.
    #[schema(value_type = Object)]
    fields: Json,
}

/// Run a read.
#[utoipa::path(
    post, path = "/v1/reads", operation_id = "run_read", tag = "reads", security(("client" = [])),
    request_body = ReadBody,
    responses(
        (status = 200, description = "the declared fields", body = ReadView),
    )
)]
pub(super) async fn read(
    State(state): State<ProxyState>,
    auth: Authenticated,
    body: Result<Strict<ReadBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Orchestrator]).await?;
    let body = body?;
    let _place = admit(&state.common, Work::Begin)?;
    let request = ReadRequest {
        operation: body.value.operation,
        parameters: body.value.parameters,
        case_id: body.value.case_id,
        request: caller.request,
    };
    let result = state.proxy.read(&caller.client, request).await?;
    Ok(axum::Json(ReadView {
        resource: (&result.resource).into(),
        fields: result.fields,
    })
    .into_response())
}
