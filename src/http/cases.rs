//! Cases: each step with its state, so that an orchestrator that crashed resumes only what is not done.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::audit::case::CaseLog;
use super::audit::reads;
use super::auth::Authenticated;
use super::body::{Params, Segment, next_after, page_limit};
use super::drafts::{READERS, only_own};
use super::view::{CredentialView, DraftView, ExecutionView};
use super::{BrokerState, Code, Problem};
use crate::domain::lifecycle::{DraftState, ExecutionState};
use crate::domain::name::CaseId;
use crate::domain::principal::{Client, Role};
use crate::store::Store;
use crate::store::intent::{CaseFilter, DraftFilter};
use crate::store::record::DraftRecord;

/// One step of a case.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StepView {
    /// `done`, `failed`, `waiting`, `ready`, `running`, `unknown`, `closed`.
    status: &'static str,
    /// What the orchestrator should do next.
    next: &'static str,
    /// The draft: what is done to what, its hash and stored key, what the policy said, and who signed.
    draft: DraftView,
    /// Every credential that was issued for it.
    credentials: Vec<CredentialView>,
    /// Its execution, with each attempt and what the backend answered. Not told to an approval service.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionView>,
}

/// A case.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CaseView {
    /// The support case.
    case_id: String,
    /// Whether every step, of whichever page, is done or closed, or failed and made good by a later one.
    complete: bool,
    /// A page of the steps, oldest first.
    steps: Vec<StepView>,
    /// Pass as `after` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// What the log has of the case, for auditors, on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<CaseLog>,
}

/// Which of its steps.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CaseQuery {
    /// Only steps after that of this draft.
    after: Option<String>,
    /// At most this many, 1 to 100; 50 if not given.
    limit: Option<u32>,
}

/// The steps of a support case, each with its state, and whether the whole case is complete.
#[utoipa::path(
    get, path = "/v1/cases/{id}", operation_id = "show_case", tag = "cases", security(("client" = [])),
    params(("id" = String, Path, description = "the support case"), CaseQuery),
    responses(
        (status = 200, description = "the case, with a page of its steps", body = CaseView),
    )
)]
pub(super) async fn show(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Segment(id): Segment<CaseId>,
    Params(query): Params<CaseQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(READERS).await?;
    let limit = page_limit(query.limit)?;
    let after = query.after.map(|text| text.parse()).transpose();
    let after = after.map_err(|error: crate::domain::id::IdError| Problem::new(Code::ParameterInvalid, format!("after: {error}")))?;
    let (tenant, maker) = (
        caller.client.tenant.clone(),
        only_own(&caller.client).then(|| caller.client.id.clone()),
    );
    let store = &state.common.store;
    let whole = CaseFilter {
        case_id: id.clone(),
        tenant: tenant.clone(),
        maker: maker.clone(),
    };
    let standing = store.case_standing(whole).await?;
    if standing.steps == 0 {
        return Err(Problem::new(Code::NotFound, "there is no such thing, or it is not yours"));
    }
    let page = DraftFilter {
        tenant: Some(tenant),
        case_id: Some(id.clone()),
        maker,
        after,
        limit,
        ..DraftFilter::default()
    };
    let drafts = store.drafts(page).await?;
    let mut steps = Vec::with_capacity(drafts.len());
    for draft in &drafts {
        steps.push(step_view(&**store, draft, &caller.client).await?);
    }
    let log = if caller.client.has_role(Role::Auditor) && after.is_none() {
        reads::record(&state.common, &caller, &format!("case {id}"), "").await?;
        Some(CaseLog::read(&**store, &id, &caller.client).await?)
    } else {
        None
    };
    Ok(axum::Json(CaseView {
        case_id: id.to_string(),
        complete: standing.complete,
        steps,
        next: next_after(&drafts, limit, |draft| draft.id.to_string()),
        log,
    })
    .into_response())
}

async fn step_view(store: &dyn Store, draft: &DraftRecord, viewer: &Client) -> Result<StepView, Problem> {
    let (status, next) = step(draft);
    let sees_executions = [Role::Orchestrator, Role::Auditor, Role::Operator]
        .iter()
        .any(|role| viewer.has_role(*role));
    let execution = if sees_executions && draft.execution.is_some() {
        store.execution_of(draft.id).await?
    } else {
        None
    };
    Ok(StepView {
        status,
        next,
        draft: DraftView::of(draft, viewer),
        credentials: store.credentials(draft.id).await?.iter().map(CredentialView::from).collect(),
        execution: execution.as_ref().map(ExecutionView::from),
    })
}

/// Where a step stands, and what to do about it.
fn step(draft: &DraftRecord) -> (&'static str, &'static str) {
    match (draft.state, draft.execution.as_ref().map(|e| e.state)) {
        (DraftState::Proposed, _) => ("waiting", "propose it again; the open draft is answered"),
        (DraftState::AwaitingApproval, _) => ("waiting", "wait for the approval"),
        (DraftState::Approved, _) => ("ready", "exchange the approval for a credential and execute"),
        (DraftState::Consumed, Some(ExecutionState::Applied)) => ("done", "nothing"),
        (DraftState::Consumed, Some(ExecutionState::NotApplied)) => ("failed", "propose it anew if it is still wanted"),
        (DraftState::Consumed, Some(ExecutionState::Pending)) => ("running", "wait; the backend has accepted it"),
        (DraftState::Consumed, Some(ExecutionState::Indeterminate)) => {
            ("unknown", "wait; it is being looked up and must not be sent by other means")
        }
        (DraftState::Consumed, Some(ExecutionState::HandedOff)) => ("unknown", "an operator must find out what happened"),
        (DraftState::Consumed, _) => ("running", "wait for the outcome"),
        (DraftState::Stale, _) => ("failed", "propose it anew on what holds now"),
        (DraftState::Expired, _) => ("failed", "propose it anew if it is still wanted"),
        (DraftState::Denied | DraftState::Withdrawn | DraftState::Superseded, _) => ("closed", "nothing"),
    }
}
