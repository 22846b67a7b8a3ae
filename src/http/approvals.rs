//! Approvals: a signed record comes in.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::{Authenticated, refused};
use super::body::Strict;
use super::problem::ProblemBody;
use super::view::DraftView;
use super::{BrokerState, Problem};
use crate::audit::Note;
use crate::domain::principal::Role;

/// A signed approval record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalBody {
    /// The record: a compact JWS of type `approval+jwt`.
    record: String,
}

/// A counted record.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AcceptedView {
    /// The approver.
    approver: String,
    /// `approve` or `deny`.
    decision: String,
    /// The draft as it stands now.
    draft: DraftView,
}

/// Hand in a signed approval record. The first denial, or the signature that completes what is needed, decides.
#[utoipa::path(
    post, path = "/v1/approvals", operation_id = "hand_in_approval", tag = "approvals", security(("client" = [])),
    request_body = ApprovalBody,
    responses(
        (status = 200, description = "the record was counted", body = AcceptedView),
        (status = "default", description = "a problem", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn accept(
    State(state): State<BrokerState>,
    auth: Authenticated,
    body: Result<Strict<ApprovalBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::ApprovalService]).await?;
    let body = match body {
        Ok(body) => body,
        Err(problem) => return Err(refused(&state.common, &caller, Note::RecordDenied, problem).await),
    };
    let accepted = state.broker.accept(&caller, &body.value.record).await?;
    let view = AcceptedView {
        approver: accepted.approver.to_string(),
        decision: accepted.decision.as_str().to_owned(),
        draft: DraftView::of(&accepted.draft, &caller.client),
    };
    Ok(axum::Json(view).into_response())
}
