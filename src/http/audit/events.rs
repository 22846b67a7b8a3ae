//! The audit log, read by its sequence number.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::domain::json::Json;
use crate::domain::principal::{Client, Role};
use crate::http::auth::Authenticated;
use crate::http::body::Params;
use crate::http::{BrokerState, Code, Problem};

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct EventsQuery {
    /// The first sequence number; 0 if not given.
    from: Option<u64>,
    /// At most this many, 1 to 1000; 100 if not given.
    limit: Option<u32>,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventPage {
    /// Each event's exact bytes, as text.
    events: Vec<EventLine>,
    /// Pass as `from` for the next page.
    next: u64,
}

/// One event.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventLine {
    /// Its place in the log.
    seq: u64,
    /// Its canonical bytes, as text.
    event: String,
}

/// Whether the event is of the client's tenant, or of none.
fn is_for(bytes: &[u8], client: &Client) -> bool {
    let event = Json::parse_deeper(bytes);
    let tenant = event.as_ref().ok().and_then(|e| e.member("tenant")).and_then(Json::as_str);
    tenant.is_none_or(|tenant| tenant == client.tenant.as_str())
}

/// Audit events in the order in which they were written. Those of other tenants are left out, so that numbers may be missing.
#[utoipa::path(
    get, path = "/v1/audit/events", operation_id = "list_events", tag = "audit", security(("client" = [])), params(EventsQuery),
    responses(
        (status = 200, description = "a page of events", body = EventPage),
    )
)]
pub(in crate::http) async fn list(
    State(state): State<BrokerState>,
    auth: Authenticated,
    Params(query): Params<EventsQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Auditor]).await?;
    let limit = match query.limit.unwrap_or(100) {
        limit @ 1..=1000 => limit,
        _ => return Err(Problem::new(Code::ParameterInvalid, "limit: expected 1 to 1000")),
    };
    let from = query.from.unwrap_or(0);
    if i64::try_from(from).is_err() {
        return Err(Problem::new(Code::ParameterInvalid, "from: expected at most 9223372036854775807"));
    }
    let events = state.common.store.events(from, limit).await?;
    let next = events.last().map_or(from, |e| e.seq + 1);
    let events = events
        .into_iter()
        .filter(|event| is_for(&event.bytes, &caller.client))
        .map(|e| EventLine {
            seq: e.seq,
            event: String::from_utf8_lossy(&e.bytes).into_owned(),
        })
        .collect();
    Ok(axum::Json(EventPage { events, next }).into_response())
}
