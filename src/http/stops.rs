//! Stops: place one, look at them, lift one.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::auth::Authenticated;
use super::body::{Params, Segment, Strict, next_after, page_limit};
use super::view::{AmountView, ResourceView};
use super::{BrokerState, Code, Problem};
use crate::broker::StopRequest;
use crate::domain::id::StopId;
use crate::domain::principal::Role;
use crate::domain::stop::{Reason, ScopeError, StopScope};
use crate::domain::time::Timestamp;
use crate::store::stop::{InFlight, StopRecord, StopStanding, Stops};

/// Who may stop, and let go on.
const STOPPERS: &[Role] = &[Role::Operator, Role::Security];
/// Who may look at stops.
const WATCHERS: &[Role] = &[Role::Operator, Role::Security, Role::Auditor];

/// What to stop, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopBody {
    /// `credential`, `draft`, `approval`, `approver`, `client`, `operation`, `tenant` or `everything`; of the caller's tenant.
    scope: String,
    /// Which one: an id, a name, or for operations a pattern such as `refund.*`. Left out for `everything`.
    #[serde(default)]
    value: Option<String>,
    /// Why; kept with the stop.
    reason: String,
    /// First moment it no longer counts, in RFC 3339; until it is lifted if it is left out.
    #[serde(default)]
    expires_at: Option<String>,
}

/// Why something goes on, or is taken back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReasonBody {
    /// Why; recorded.
    reason: String,
}

impl ReasonBody {
    pub(super) fn reason(&self) -> Result<Reason, Problem> {
        reason(&self.reason)
    }
}

fn reason(text: &str) -> Result<Reason, Problem> {
    text.parse()
        .map_err(|error: crate::domain::stop::ReasonError| Problem::at(Code::JsonInvalid, "/reason", error.to_string()))
}

impl StopBody {
    fn request(&self) -> Result<StopRequest, Problem> {
        let scope = StopScope::parse(&self.scope, self.value.as_deref()).map_err(|error| {
            let pointer = if error == ScopeError::Word { "/scope" } else { "/value" };
            Problem::at(Code::JsonInvalid, pointer, error.to_string())
        })?;
        let expires_at = self.expires_at.as_deref().map(|text| {
            let expected = "expected a moment in RFC 3339 such as `2026-12-31T23:59:59Z`";
            Timestamp::parse(text).ok_or_else(|| Problem::at(Code::JsonInvalid, "/expires_at", expected))
        });
        Ok(StopRequest {
            scope,
            reason: reason(&self.reason)?,
            expires_at: expires_at.transpose()?,
        })
    }
}

/// A stop as it stands.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct StopView {
    /// Its id.
    id: String,
    /// `active`, `lifted` or `lapsed`.
    state: String,
    /// Whether it counts now: it is active, and its time is not over.
    in_force: bool,
    /// What kind of thing it covers.
    scope: String,
    /// Which one; absent for everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The only tenant whose drafts it covers; absent if it covers every tenant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Why it was placed.
    reason: String,
    /// Who placed it.
    placed_by: String,
    /// When.
    placed_at: String,
    /// First moment it no longer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Who ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Why, if somebody lifted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_reason: Option<String>,
}

impl StopView {
    /// The stop as it stands at `now`.
    pub(crate) fn at(stop: &StopRecord, now: Timestamp) -> Self {
        let ended = stop.ended.as_ref();
        Self {
            id: stop.id.to_string(),
            state: stop.state.to_string(),
            in_force: stop.in_force(now),
            scope: stop.scope.word().to_owned(),
            value: stop.scope.value(),
            tenant: stop.tenant.as_ref().map(ToString::to_string),
            reason: stop.reason.to_string(),
            placed_by: stop.placed_by.clone(),
            placed_at: stop.placed_at.to_string(),
            expires_at: stop.expires_at.map(|at| at.to_string()),
            ended_by: ended.map(|end| end.by.clone()),
            ended_at: ended.map(|end| end.at.to_string()),
            end_reason: ended.and_then(|end| end.reason.as_ref()).map(ToString::to_string),
        }
    }
}

/// An execution whose outcome is open.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct InFlightView {
    /// The execution.
    execution_id: String,
    /// Its draft.
    draft_id: String,
    /// `claimed` was not sent, and is not while the stop counts; `dispatched`, `pending`, `indeterminate` and `handed_off` may have had their effect.
    state: String,
    /// The tenant.
    tenant: String,
    /// What is done.
    operation: String,
    /// To what.
    resource: ResourceView,
    /// How much.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<AmountView>,
}

impl From<&InFlight> for InFlightView {
    fn from(open: &InFlight) -> Self {
        Self {
            execution_id: open.execution.to_string(),
            draft_id: open.draft.to_string(),
            state: open.state.to_string(),
            tenant: open.tenant.to_string(),
            operation: open.operation.to_string(),
            resource: (&open.resource).into(),
            amount: open.amount.map(Into::into),
        }
    }
}

/// Money of one currency in flight.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct TotalView {
    /// ISO 4217, lower case.
    currency: String,
    /// How many executions.
    executions: u32,
    /// Minor units of all of them.
    minor: i64,
    /// Minor units of those that were not sent, and are not while the stop counts.
    unsent_minor: i64,
}

/// A stop with what is in flight within its scope.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct StopStandingView {
    /// The stop.
    stop: StopView,
    /// Every execution it covers whose outcome is open, oldest first.
    in_flight: Vec<InFlightView>,
    /// What is in flight, added up by currency.
    totals: Vec<TotalView>,
}

impl StopStandingView {
    /// The stop and what is in flight as they stand at `now`.
    pub(crate) fn at(standing: &StopStanding, now: Timestamp) -> Self {
        let totals = standing.totals().into_iter().map(|(currency, total)| TotalView {
            currency: currency.to_string(),
            executions: total.executions,
            minor: total.minor,
            unsent_minor: total.unsent_minor,
        });
        Self {
            stop: StopView::at(&standing.stop, now),
            in_flight: standing.in_flight.iter().map(Into::into).collect(),
            totals: totals.collect(),
        }
    }
}

/// A page of stops.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StopPage {
    /// The stops, oldest first.
    stops: Vec<StopView>,
    /// Pass as `after` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Stop something. Once this is answered nothing that the stop covers is issued, spent or sent; what may have been sent before is in the answer.
#[utoipa::path(
    post, path = "/v1/stops", operation_id = "place_stop", tag = "stops", security(("client" = [])),
    request_body = StopBody,
    responses(
        (status = 201, description = "the stop, and what is in flight", body = StopStandingView),
    )
)]
pub(super) async fn place(
    State(state): State<BrokerState>,
    auth: Authenticated,
    body: Result<Strict<StopBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(STOPPERS).await?;
    let standing = state.broker.place_stop(&caller, body?.value.request()?).await?;
    let location = [(header::LOCATION, format!("/v1/stops/{}", standing.stop.id))];
    let view = StopStandingView::at(&standing, state.common.clock.now());
    Ok((StatusCode::CREATED, location, axum::Json(view)).into_response())
}

/// Which stops to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// `true` lists those that have ended too.
    #[serde(default)]
    ended: bool,
    /// Only stops after this one.
    after: Option<String>,
    /// At most this many, 1 to 100; 50 if not given.
    limit: Option<u32>,
}

/// The stops that concern the caller's tenant, oldest first.
#[utoipa::path(
    get, path = "/v1/stops", operation_id = "list_stops", tag = "stops", security(("client" = [])), params(ListQuery),
    responses(
        (status = 200, description = "a page of stops", body = StopPage),
    )
)]
pub(super) async fn list(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Params(query): Params<ListQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(WATCHERS).await?;
    let which = if query.ended { Stops::All } else { Stops::InForce };
    let limit = page_limit(query.limit)?;
    let after = query.after.map(|text| text.parse()).transpose();
    let after = after.map_err(|error: crate::domain::id::IdError| Problem::new(Code::ParameterInvalid, format!("after: {error}")))?;
    let stops = state.broker.stops(&caller, which, after, limit).await?;
    let next = next_after(&stops, limit, |stop| stop.id.to_string());
    let now = state.common.clock.now();
    let stops = stops.iter().map(|stop| StopView::at(stop, now)).collect();
    Ok(axum::Json(StopPage { stops, next }).into_response())
}

/// A stop, and what is in flight now of what it covers.
#[utoipa::path(
    get, path = "/v1/stops/{id}", operation_id = "show_stop", tag = "stops", security(("client" = [])),
    params(("id" = String, Path, description = "the stop's id")),
    responses(
        (status = 200, description = "the stop", body = StopStandingView),
    )
)]
pub(super) async fn show(State(state): State<BrokerState>, auth: Authenticated, Segment(id): Segment<StopId>) -> Result<Response, Problem> {
    let caller = auth.with_role(WATCHERS).await?;
    let standing = state.broker.stop(&caller, id).await?;
    Ok(axum::Json(StopStandingView::at(&standing, state.common.clock.now())).into_response())
}

/// Lift a stop. What was given up meanwhile is approved again, and can be exchanged as long as its time lasts.
#[utoipa::path(
    post, path = "/v1/stops/{id}/resume", operation_id = "resume_stop", tag = "stops", security(("client" = [])),
    params(("id" = String, Path, description = "the stop's id")),
    request_body = ReasonBody,
    responses(
        (status = 200, description = "the stop, ended", body = StopView),
    )
)]
pub(super) async fn resume(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Segment(id): Segment<StopId>,
    body: Result<Strict<ReasonBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(STOPPERS).await?;
    let stop = state.broker.lift_stop(&caller, id, body?.value.reason()?).await?;
    Ok(axum::Json(StopView::at(&stop, state.common.clock.now())).into_response())
}
