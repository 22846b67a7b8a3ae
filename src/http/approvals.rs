//! Approvals: a signed record comes in, and a granted approval is taken back.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admission::admit;
use super::audit::{Told, told};
use super::auth::{Authenticated, refused};
use super::body::{Segment, Strict};
use super::stops::ReasonBody;
use super::view::DraftView;
use super::{BrokerState, Problem};
use crate::audit::Note;
use crate::domain::id::ApprovalId;
use crate::domain::principal::Role;
use crate::edge::Work;
use crate::store::log::EventRef;
use crate::store::stop::RevokedApproval;

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
        (status = 200, description = "the record was counted", body = Told<AcceptedView>),
    )
)]
pub(super) async fn accept(
    State(state): State<BrokerState>,
    auth: Authenticated,
    body: Result<Strict<ApprovalBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::ApprovalService]).await?;
    let _place = admit(&state.common, Work::Continue)?;
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
    let event = EventRef::Counted(accepted.draft.id, accepted.record);
    Ok(axum::Json(told(&state.common, view, event).await).into_response())
}

/// An approval that was taken back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevokedView {
    /// The approval.
    approval_id: String,
    /// `nothing_sent`: the draft is closed, and nothing of it will be sent. `sent`: a request was sent, or may have been; the draft's execution says
    /// where it stands, it is looked up as before, and it is not sent again.
    reached: &'static str,
    /// The draft as it stands now.
    draft: DraftView,
}

impl RevokedView {
    /// What came of taking this approval back.
    pub(crate) fn of(id: ApprovalId, revoked: &RevokedApproval) -> Self {
        Self {
            approval_id: id.to_string(),
            reached: revoked.reached.as_str(),
            draft: DraftView::without_nonce(&revoked.draft),
        }
    }
}

/// Take a granted approval back, with everything it released and that was not sent.
#[utoipa::path(
    post, path = "/v1/approvals/{id}/revoke", operation_id = "revoke_approval", tag = "approvals", security(("client" = [])),
    params(("id" = String, Path, description = "the approval's id")),
    request_body = ReasonBody,
    responses(
        (status = 200, description = "the approval is taken back", body = RevokedView),
    )
)]
pub(super) async fn revoke(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Segment(id): Segment<ApprovalId>,
    body: Result<Strict<ReasonBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::ApprovalService, Role::Operator, Role::Security]).await?;
    let revoked = state.broker.revoke_approval(&caller, id, body?.value.reason()?).await?;
    Ok(axum::Json(RevokedView::of(id, &revoked)).into_response())
}
