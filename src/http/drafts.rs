//! Drafts: propose, show, list, withdraw.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::admission::admit;
use super::audit::{Told, told};
use super::auth::{Authenticated, refused};
use super::body::{Params, Segment, Strict, next_after, page_limit};
use super::view::{DraftPage, DraftView};
use super::{BrokerState, Code, Problem, wait};
use crate::audit::Note;
use crate::broker::ProposeRequest;
use crate::domain::digest::Digest;
use crate::domain::draft::Evidence;
use crate::domain::id::DraftId;
use crate::domain::json::Json;
use crate::domain::lifecycle::DraftState;
use crate::domain::name::{CaseId, OperationName, PrincipalId};
use crate::domain::principal::{Client, Role};
use crate::domain::text::deceptive;
use crate::edge::Work;
use crate::store::intent::DraftFilter;
use crate::store::log::EventRef;
use crate::store::record::DraftRecord;

/// What an orchestrator proposes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposeBody {
    /// A declared operation, such as `refund.create`.
    #[schema(value_type = String, example = "refund.create")]
    operation: OperationName,
    /// The operation's declared parameters; a closed list.
    #[schema(value_type = Object)]
    parameters: Json,
    /// The support case.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    case_id: Option<CaseId>,
    /// Why, as a code.
    #[serde(default)]
    reason_code: Option<ReasonCode>,
    /// The person whose wish it is, such as `usr_ann`; that person can then not approve it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    on_behalf_of: Option<PrincipalId>,
    /// What supports it, each by kind and SHA-256 (base64url).
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    evidence: Vec<Evidence>,
    /// The open draft of the same client that this one replaces.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    supersedes: Option<DraftId>,
}

/// A reason code: lower-case letters, digits and `_`, at most 64 characters.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String)]
pub(super) struct ReasonCode(String);

impl TryFrom<String> for ReasonCode {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let fits = !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if fits {
            Ok(Self(text))
        } else {
            Err("expected lower-case letters, digits and `_`, at most 64 characters")
        }
    }
}

/// Store a draft and have the policy decide it. The same proposal, while it is open or its outcome is, gives the open draft back.
#[utoipa::path(
    post, path = "/v1/drafts", operation_id = "propose_draft", tag = "drafts", security(("client" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes an exact repetition of this request give the same draft")),
    request_body = ProposeBody,
    responses(
        (status = 201, description = "the draft, decided", body = Told<DraftView>),
    )
)]
pub(super) async fn propose(
    State(state): State<BrokerState>,
    auth: Authenticated,
    headers: HeaderMap,
    body: Result<Strict<ProposeBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Orchestrator]).await?;
    let _place = admit(&state.common, Work::Begin)?;
    let request = match body.and_then(|body| proposal(&headers, body)) {
        Ok(request) => request,
        Err(problem) => return Err(refused(&state.common, &caller, Note::ProposeDenied, problem).await),
    };
    let draft = state.broker.propose(&caller, request).await?;
    let location = [(header::LOCATION, format!("/v1/drafts/{}", draft.id))];
    let view = told(&state.common, DraftView::of(&draft, &caller.client), EventRef::Proposed(draft.id)).await;
    Ok((StatusCode::CREATED, location, axum::Json(view)).into_response())
}

fn proposal(headers: &HeaderMap, body: Strict<ProposeBody>) -> Result<ProposeRequest, Problem> {
    Ok(ProposeRequest {
        operation: body.value.operation,
        parameters: body.value.parameters,
        case_id: body.value.case_id,
        reason_code: body.value.reason_code.map(|code| code.0),
        on_behalf_of: body.value.on_behalf_of,
        evidence: evidence(body.value.evidence)?,
        supersedes: body.value.supersedes,
        request_key: request_key(headers)?,
        request_hash: Digest::tagged("writ.request.v1", &body.json.canonical()),
    })
}

/// At most 16 pieces of evidence: a draft is kept for ever.
fn evidence(pieces: Vec<Evidence>) -> Result<Vec<Evidence>, Problem> {
    let unfit = |kind: &str| kind.is_empty() || kind.len() > 64 || deceptive(kind).is_some();
    if pieces.len() > 16 || pieces.iter().any(|piece| unfit(&piece.kind)) {
        let detail = "at most 16 pieces, each of a kind of 1 to 64 bytes that show as they are";
        return Err(Problem::at(Code::JsonInvalid, "/evidence", detail));
    }
    Ok(pieces)
}

/// The `Idempotency-Key` header: visible ASCII, at most 255 characters. It never reaches a backend.
fn request_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(text) if !text.is_empty() && text.len() <= 255 => Ok(Some(text.to_owned())),
        _ => Err(Problem::new(
            Code::ParameterInvalid,
            "the Idempotency-Key header must be 1 to 255 visible ASCII characters",
        )),
    }
}

/// How long to wait for a change.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Seconds to wait for the draft to leave the state it is in while people or the policy decide; at most 60.
    pub(super) wait: Option<u64>,
}

/// A draft as it stands.
#[utoipa::path(
    get, path = "/v1/drafts/{id}", operation_id = "show_draft", tag = "drafts", security(("client" = [])),
    params(("id" = String, Path, description = "the draft's id"), WaitQuery),
    responses(
        (status = 200, description = "the draft", body = DraftView),
    )
)]
pub(super) async fn show(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Segment(id): Segment<DraftId>,
    Params(query): Params<WaitQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(READERS).await?;
    let wait = wait::wish(query.wait)?;
    let read = || async { visible(state.common.store.draft(id).await?, &caller.client) };
    let decided = |draft: &DraftRecord| !matches!(draft.state, DraftState::Proposed | DraftState::AwaitingApproval);
    let draft = wait::until(&state.common, &caller.client.id, wait, read, decided).await?;
    Ok(axum::Json(DraftView::of(&draft, &caller.client)).into_response())
}

/// The draft's canonical bytes, exactly as they were hashed.
#[utoipa::path(
    get, path = "/v1/drafts/{id}/bytes", operation_id = "show_draft_bytes", tag = "drafts", security(("client" = [])),
    params(("id" = String, Path, description = "the draft's id")),
    responses(
        (status = 200, description = "the canonical bytes (RFC 8785)", body = Object, content_type = "application/json"),
    )
)]
pub(super) async fn bytes(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Segment(id): Segment<DraftId>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(READERS).await?;
    visible(state.common.store.draft(id).await?, &caller.client)?;
    let bytes = state.common.store.draft_bytes(id).await?;
    let bytes = bytes.ok_or_else(|| Problem::new(Code::NotFound, "there is no such thing, or it is not yours"))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// Take a draft back.
#[utoipa::path(
    post, path = "/v1/drafts/{id}/withdraw", operation_id = "withdraw_draft", tag = "drafts", security(("client" = [])),
    params(("id" = String, Path, description = "the draft's id")),
    responses(
        (status = 200, description = "the draft, withdrawn", body = DraftView),
    )
)]
pub(super) async fn withdraw(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Segment(id): Segment<DraftId>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Orchestrator]).await?;
    let _place = admit(&state.common, Work::Continue)?;
    let draft = state.broker.withdraw(&caller, id).await?;
    Ok(axum::Json(DraftView::of(&draft, &caller.client)).into_response())
}

/// Which drafts to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only drafts in this state.
    state: Option<String>,
    /// Only drafts of this support case.
    case: Option<String>,
    /// Only drafts on this resource, as `type:id`.
    resource: Option<String>,
    /// Only drafts after this one.
    after: Option<String>,
    /// At most this many, 1 to 100; 50 if not given.
    limit: Option<u32>,
}

/// Drafts, oldest first.
#[utoipa::path(
    get, path = "/v1/drafts", operation_id = "list_drafts", tag = "drafts", security(("client" = [])), params(ListQuery),
    responses(
        (status = 200, description = "a page of drafts", body = DraftPage),
    )
)]
pub(super) async fn list(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Params(query): Params<ListQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(READERS).await?;
    let wrong = |what: &str, why: &str| Problem::new(Code::ParameterInvalid, format!("{what}: {why}"));
    let limit = page_limit(query.limit)?;
    let in_state = match &query.state {
        None => None,
        Some(text) => {
            let known: Vec<&str> = DraftState::ALL.iter().map(|s| s.as_str()).collect();
            Some(DraftState::parse(text).ok_or_else(|| wrong("state", &format!("expected one of {}", known.join(", "))))?)
        }
    };
    let filter = DraftFilter {
        tenant: Some(caller.client.tenant.clone()),
        maker: only_own(&caller.client).then(|| caller.client.id.clone()),
        state: in_state,
        case_id: query
            .case
            .map(|c| c.parse())
            .transpose()
            .map_err(|e: crate::domain::name::NameError| wrong("case", &e.to_string()))?,
        resource: query.resource,
        after: query
            .after
            .map(|a| a.parse())
            .transpose()
            .map_err(|e: crate::domain::id::IdError| wrong("after", &e.to_string()))?,
        limit,
    };
    let drafts = state.common.store.drafts(filter).await?;
    let next = next_after(&drafts, limit, |draft| draft.id.to_string());
    let drafts = drafts.iter().map(|d| DraftView::of(d, &caller.client)).collect();
    Ok(axum::Json(DraftPage { drafts, next }).into_response())
}

/// Who may look at drafts at all.
pub(super) const READERS: &[Role] = &[Role::Orchestrator, Role::ApprovalService, Role::Auditor, Role::Operator];

/// An orchestrator sees its own drafts; the others those of their tenant.
pub(super) fn only_own(client: &Client) -> bool {
    !client.has_role(Role::ApprovalService) && !client.has_role(Role::Auditor) && !client.has_role(Role::Operator)
}

/// The draft, if the client may see it; what it may not see does not exist.
pub(super) fn visible(draft: Option<DraftRecord>, client: &Client) -> Result<DraftRecord, Problem> {
    draft
        .filter(|d| d.tenant == client.tenant && (!only_own(client) || d.maker == client.id))
        .ok_or_else(|| Problem::new(Code::NotFound, "there is no such thing, or it is not yours"))
}
