//! The events of the log, by what they are about.

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::reads;
use super::tree::hex;
use crate::audit::tree::leaf_hash;
use crate::audit::{EventKind, EventOutcome, SignedHead};
use crate::domain::draft::Resource;
use crate::domain::principal::Role;
use crate::domain::time::Timestamp;
use crate::http::auth::Authenticated;
use crate::http::body::Params;
use crate::http::{BrokerState, Code, Problem};
use crate::store::log::{EventQuery, Order, With};
use crate::store::record::StoredEvent;

/// The longest page.
const MOST: u32 = 1000;

/// Which events: all that is given must hold, each exactly.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct EventsQuery {
    /// The support case.
    case_id: Option<String>,
    /// The draft's id.
    draft: Option<String>,
    /// The approval's id.
    approval: Option<String>,
    /// The credential's id.
    credential: Option<String>,
    /// Whoever signed the record.
    approver: Option<String>,
    /// The client that did it.
    client: Option<String>,
    /// The operation.
    operation: Option<String>,
    /// What it touches, as `type:id`.
    resource: Option<String>,
    /// The type, such as `credential.use_denied`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// `ok`, `denied`, `failed` or `unknown`.
    outcome: Option<String>,
    /// Not before this moment (RFC 3339).
    from: Option<String>,
    /// Before this moment (RFC 3339).
    to: Option<String>,
    /// Only what comes after the event with this number: `next_after_seq` of the page before.
    after_seq: Option<u64>,
    /// At most this many, 1 to 1000; 100 if not given.
    limit: Option<u32>,
    /// `asc`, oldest first, or `desc`; `asc` if not given.
    order: Option<String>,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventPage {
    /// The events.
    events: Vec<EventLine>,
    /// Pass as `after_seq` for the next page, or to go on later from here; absent where nothing comes after.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after_seq: Option<u64>,
    /// How the log stood when the page was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<HeadView>,
    /// Whether this is all that there was then.
    complete: bool,
}

/// One event.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventLine {
    /// Its place in the log.
    seq: u64,
    /// SHA-256 over a zero byte and its exact bytes, in hexadecimal: its leaf in the tree.
    leaf_hash: String,
    /// Its exact bytes, as text.
    event: String,
}

impl From<&StoredEvent> for EventLine {
    fn from(event: &StoredEvent) -> Self {
        Self {
            seq: event.seq,
            leaf_hash: hex(&leaf_hash(&event.bytes)),
            event: String::from_utf8_lossy(&event.bytes).into_owned(),
        }
    }
}

/// The log's head.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct HeadView {
    /// How many events it covers, those of other tenants among them.
    size: u64,
    /// The signed checkpoint.
    checkpoint: String,
}

impl From<&SignedHead> for HeadView {
    fn from(head: &SignedHead) -> Self {
        Self {
            size: head.size(),
            checkpoint: head.text().to_owned(),
        }
    }
}

/// A parameter, if it is there.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, text: Option<String>) -> Result<Option<T>, Problem> {
    let read = text.map(|text| text.parse()).transpose();
    read.map_err(|error: T::Err| wrong(name, &error))
}

fn wrong(name: &str, why: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::ParameterInvalid, format!("{name}: {why}"))
}

/// A parameter that is read by `read`; `expected` says what that takes.
fn read<T>(name: &str, text: Option<String>, expected: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Problem> {
    let found = text.map(|text| read(&text).ok_or_else(|| wrong(name, &format!("expected {expected}"))));
    found.transpose()
}

/// A number of an event, if it can be one.
pub(in crate::http) fn event_number(name: &str, number: Option<u64>) -> Result<Option<u64>, Problem> {
    match number.filter(|number| i64::try_from(*number).is_err()) {
        Some(_) => Err(wrong(name, &format!("expected at most {}", i64::MAX))),
        None => Ok(number),
    }
}

impl TryFrom<EventsQuery> for EventQuery {
    type Error = Problem;

    fn try_from(query: EventsQuery) -> Result<Self, Problem> {
        let limit = match query.limit.unwrap_or(100) {
            limit @ 1..=MOST => limit,
            _ => return Err(wrong("limit", &format!("expected 1 to {MOST}"))),
        };
        let time = "a time such as 2026-09-21T14:13:20Z";
        Ok(Self {
            viewer: None,
            case_id: parsed("case_id", query.case_id)?,
            draft: parsed("draft", query.draft)?,
            approval: parsed("approval", query.approval)?,
            credential: parsed("credential", query.credential)?,
            approver: parsed("approver", query.approver)?,
            client: parsed("client", query.client)?,
            operation: parsed("operation", query.operation)?,
            resource: read("resource", query.resource, "`type:id`", resource)?,
            kind: read(
                "type",
                query.kind,
                "the type of an event, such as `credential.use_denied`",
                EventKind::parse,
            )?,
            outcome: read("outcome", query.outcome, "ok, denied, failed or unknown", EventOutcome::parse)?,
            from: read("from", query.from, time, Timestamp::parse)?,
            to: read("to", query.to, time, Timestamp::parse)?,
            after: event_number("after_seq", query.after_seq)?,
            limit,
            order: read("order", query.order, "asc or desc", |order| match order {
                "asc" => Some(Order::OldestFirst),
                "desc" => Some(Order::NewestFirst),
                _ => None,
            })?
            .unwrap_or_default(),
            with: With::Events,
        })
    }
}

fn resource(text: &str) -> Option<Resource> {
    let (kind, id) = text.split_once(':')?;
    Some(Resource {
        kind: kind.parse().ok()?,
        id: id.parse().ok()?,
        version: None,
    })
}

/// Audit events by what they are about. Those of other tenants are left out, so that numbers are missing.
#[utoipa::path(
    get, path = "/v1/audit/events", operation_id = "list_events", tag = "audit", security(("client" = [])), params(EventsQuery),
    responses(
        (status = 200, description = "a page of events", body = EventPage),
    )
)]
pub(in crate::http) async fn list(
    State(state): State<BrokerState>,
    auth: Authenticated,
    uri: Uri,
    Params(query): Params<EventsQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Auditor]).await?;
    let query = EventQuery {
        viewer: Some(caller.client.tenant.clone()),
        ..query.try_into()?
    };
    reads::record(&state.common, &caller, "events", uri.query().unwrap_or_default()).await?;
    let page = state.common.store.search(query.clone()).await?;
    Ok(axum::Json(EventPage {
        events: page.events.iter().map(EventLine::from).collect(),
        next_after_seq: page.next(&query),
        head: page.head.as_ref().map(HeadView::from),
        complete: page.complete,
    })
    .into_response())
}
