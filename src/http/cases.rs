//! Cases: each step with its state, so that an orchestrator that crashed resumes only what is not done.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Authenticated;
use super::body::Segment;
use super::drafts::{READERS, only_own, visible};
use super::view::DraftView;
use super::{BrokerState, Code, Problem};
use crate::domain::lifecycle::{DraftState, ExecutionState};
use crate::domain::name::CaseId;
use crate::store::intent::DraftFilter;
use crate::store::record::DraftRecord;

/// One step of a case.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StepView {
    /// `done`, `failed`, `waiting`, `ready`, `running`, `unknown`, `closed`.
    status: &'static str,
    /// What the orchestrator should do next.
    next: &'static str,
    /// The draft.
    draft: DraftView,
}

/// A case.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CaseView {
    /// The support case.
    case_id: String,
    /// Whether every step is done or closed, or failed and made good by a later one.
    complete: bool,
    /// The steps, oldest first.
    steps: Vec<StepView>,
}

/// Every step of a support case with its state.
#[utoipa::path(
    get, path = "/v1/cases/{id}", operation_id = "show_case", tag = "cases", security(("client" = [])),
    params(("id" = String, Path, description = "the support case")),
    responses(
        (status = 200, description = "the case", body = CaseView),
    )
)]
pub(super) async fn show(State(state): State<BrokerState>, auth: Authenticated, Segment(id): Segment<CaseId>) -> Result<Response, Problem> {
    let caller = auth.with_role(READERS).await?;
    let filter = DraftFilter {
        tenant: Some(caller.client.tenant.clone()),
        case_id: Some(id.clone()),
        maker: only_own(&caller.client).then(|| caller.client.id.clone()),
        limit: PAGE,
        ..DraftFilter::default()
    };
    let drafts = every(&state, filter).await?;
    let seen: Vec<DraftRecord> = drafts.into_iter().filter_map(|d| visible(Some(d), &caller.client).ok()).collect();
    if seen.is_empty() {
        return Err(Problem::new(Code::NotFound, "there is no such thing, or it is not yours"));
    }
    let steps: Vec<StepView> = seen
        .iter()
        .map(|draft| {
            let (status, next) = standing(draft);
            StepView {
                status,
                next,
                draft: DraftView::of(draft, &caller.client),
            }
        })
        .collect();
    let complete = seen.iter().enumerate().all(|(index, draft)| match standing(draft).0 {
        "done" | "closed" => true,
        "failed" => seen.iter().skip(index + 1).any(|later| is_made_good(draft, later)),
        _ => false,
    });
    Ok(axum::Json(CaseView {
        case_id: id.to_string(),
        complete,
        steps,
    })
    .into_response())
}

/// How many drafts are read at a time.
const PAGE: u32 = 200;

/// Every draft that the filter finds, page by page.
async fn every(state: &BrokerState, mut filter: DraftFilter) -> Result<Vec<DraftRecord>, Problem> {
    let mut all = Vec::new();
    loop {
        let page = state.common.store.drafts(filter.clone()).await?;
        let full = page.len() == filter.limit as usize;
        filter.after = page.last().map(|draft| draft.id);
        all.extend(page);
        if !full {
            return Ok(all);
        }
    }
}

/// Whether a later step did what a failed one was to do.
fn is_made_good(failed: &DraftRecord, later: &DraftRecord) -> bool {
    let same_thing = later.resource.kind == failed.resource.kind && later.resource.id == failed.resource.id;
    let same_wish = later.operation == failed.operation && later.amount == failed.amount && later.fields == failed.fields;
    same_thing && same_wish && standing(later).0 == "done"
}

/// Where a step stands, and what to do about it.
fn standing(draft: &DraftRecord) -> (&'static str, &'static str) {
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
