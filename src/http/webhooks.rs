//! Webhooks: what a backend tells by itself. No client calls this; the signature says who does.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::{Requested, shows};
use super::body;
use super::rates::{self, ComesFrom};
use super::{Code, Problem, ProxyState};
use crate::domain::id::RequestId;
use crate::edge::Shown;
use crate::proxy::{EventDenied, Taken, Teller};
use crate::store::record::EventFinding;

/// What became of an event.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TakenView {
    /// The backend's own id of it; the hash of what was signed if that reads in more than one way.
    event_id: String,
    /// `ignored` (it means nothing here), `not_ours`, `not_executed`, `disagrees`, `adapter_changed`, `agrees`, `waits` (the backend is
    /// looked at because of it), `believed`; if it came before, also what a look made of it: `confirmed`, `late`, `not_confirmed`, `contradicts`.
    finding: &'static str,
    /// Whether it had come before; then nothing was changed.
    again: bool,
}

impl From<Taken> for TakenView {
    fn from(taken: Taken) -> Self {
        Self {
            event_id: taken.event,
            finding: taken.finding.map_or("ignored", EventFinding::as_str),
            again: taken.again,
        }
    }
}

/// Take an event of a backend's. It is signed over these bytes or over values in them, as the backend's file says; it is on disk when this is answered.
#[utoipa::path(
    post, path = "/v1/webhooks/{backend}", operation_id = "take_event", tag = "webhooks", security(("signature" = [])),
    params(("backend" = String, Path, description = "the backend's name")),
    request_body(content = Object, description = "the event, in the backend's own words", content_type = "application/json"),
    responses(
        (status = 200, description = "the event was taken, or had been before", body = TakenView),
    )
)]
pub(super) async fn take(
    State(state): State<ProxyState>,
    Requested(id): Requested,
    from: ComesFrom,
    backend: Result<Path<String>, axum::extract::rejection::PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let Path(backend) = backend.map_err(|_| Problem::new(Code::NotFound, "no backend of this name sends events here"))?;
    let headers = request.headers().clone();
    let connection = request.extensions().clone();
    let bytes = body::bytes(request, &state).await?;
    let taken = match state.proxy.take_event(&backend, &headers, &bytes, id).await {
        Ok(taken) => taken,
        Err(denied) => return Err(refused(&state, id, from, &backend, denied).await),
    };
    shows(&connection, Shown::Known);
    Ok(axum::Json(TakenView::from(taken)).into_response())
}

/// The answer to an event that was not taken. Too many that nobody signed are answered so; both kinds are written down only so often.
async fn refused(state: &ProxyState, request: RequestId, from: ComesFrom, backend: &str, denied: EventDenied) -> Problem {
    let is_noted = match state.proxy.teller(backend, &denied) {
        None => false,
        Some(Teller::Stranger) => match rates::failed(&state.common, request, from).await {
            Ok(()) => true,
            Err(too_many) => return too_many,
        },
        Some(Teller::Backend) => match backend.parse() {
            Ok(name) => rates::event(&state.common, request, &name).await,
            Err(_) => false,
        },
    };
    if is_noted {
        state.proxy.note_event_denied(backend, &denied, request).await;
    }
    denied.into()
}
