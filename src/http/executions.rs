//! Executions: spend a credential, watch what comes of it, and say what was found out.

use std::time::Duration;

use axum::extract::{FromRequest as _, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::admission::admit;
use super::audit::{Told, told};
use super::auth::{Authenticated, Requested, bearer, shows};
use super::body::{Params, Segment, Strict};
use super::rates::{self, ComesFrom};
use super::view::ExecutionView;
use super::{Code, Common, Problem, ProxyState, wait};
use crate::domain::id::{DraftId, ExecutionId, OperationId, RequestId};
use crate::domain::json::Json;
use crate::domain::lifecycle::ExecutionState;
use crate::domain::principal::{Client, Role};
use crate::edge::{Holder, Shown, Work};
use crate::proxy::{self, Denied, ExecuteError, ExecuteRequest, Fault, Logged, ResolveError, Subject};
use crate::store::Op;
use crate::store::intent::Resolution;
use crate::store::log::EventRef;
use crate::store::record::ExecutionRecord;
use crate::token::SignedCredential;

/// What to execute: the draft's id, or its whole document.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteBody {
    /// The draft's id.
    #[schema(value_type = Option<String>)]
    draft_id: Option<DraftId>,
    /// The draft's document, which must hash to the credential's hash.
    #[schema(value_type = Option<Object>)]
    draft: Option<Json>,
    /// `audit` of the exchange's answer, unchanged: the receipt that the credential's issue is in the log. A proxy with `require_receipt` spends no
    /// credential without it.
    audit: Option<AuditBody>,
}

/// An event and its receipt, as an answer brought them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditBody {
    /// The event's number.
    seq: Option<u64>,
    /// Its exact bytes, as text.
    event: String,
    /// The text of its `.tlog-proof` file.
    receipt: String,
}

impl From<AuditBody> for Logged {
    fn from(body: AuditBody) -> Self {
        Self {
            seq: body.seq,
            event: body.event,
            receipt: body.receipt,
        }
    }
}

/// Spend the credential and start the execution. A repeated call answers with what is known and never acts again.
#[utoipa::path(
    post, path = "/v1/executions", operation_id = "execute_draft", tag = "executions", security(("credential" = [])), params(WaitQuery),
    request_body = ExecuteBody,
    responses(
        (status = 202, description = "the execution has started, or is known already", body = Told<ExecutionView>),
        (status = 200, description = "the execution has an outcome", body = Told<ExecutionView>),
    )
)]
pub(super) async fn execute(
    State(state): State<ProxyState>,
    Requested(id): Requested,
    from: ComesFrom,
    query: Result<Params<WaitQuery>, Problem>,
    request: Request,
) -> Result<Response, Problem> {
    let Some(token) = bearer(request.headers()) else {
        return Err(stranger(&state, id, from, ExecuteError::Missing).await);
    };
    // A stranger's body is not even read.
    let credential = match state.proxy.recognise(&token) {
        Ok(credential) => credential,
        Err(error) => return Err(stranger(&state, id, from, error).await),
    };
    shows(request.extensions(), Shown::Known);
    let holder = Holder {
        credential: credential.grant().credential,
        tenant: credential.grant().resource.tenant.clone(),
    };
    let (wait, subject, logged) = match asked(&state, query, request).await {
        Ok(asked) => asked,
        Err(problem) => return Err(unreadable(&state, id, &holder, &credential, problem).await),
    };
    let place = admit(&state.common, Work::Execute)?;
    let asked = ExecuteRequest {
        credential,
        subject,
        logged,
    };
    let execution = {
        // A caller who hangs up is refused, counted and written down all the same.
        let state = state.clone();
        let tasks = state.proxy.tasks.clone();
        let work = tasks.spawn(async move {
            match state.proxy.execute(asked).await {
                Ok(execution) => Ok(execution),
                Err(denied) => Err(refused(&state, id, &holder, denied).await),
            }
        });
        work.await.unwrap_or_else(|_| Err(ExecuteError::BrokeOff.into()))?
    };
    // What is left is waiting, which takes nobody's place.
    drop(place);
    let execution = if wait.is_zero() {
        execution
    } else {
        let id = execution.id;
        let read = || async { state.common.store.execution(id).await?.ok_or_else(not_found) };
        wait::until(&state.common, &execution.maker, wait, read, is_over).await?
    };
    let status = if is_over(&execution) {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let location = [(header::LOCATION, format!("/v1/executions/{}", execution.id))];
    Ok((status, location, axum::Json(reached(&state.common, &execution).await)).into_response())
}

/// The execution, with the event by which it came to be as it stands.
async fn reached(common: &Common, execution: &ExecutionRecord) -> Told<ExecutionView> {
    let event = EventRef::Reached(execution.draft, execution.id, execution.state);
    told(common, ExecutionView::from(execution), event).await
}

/// How long to wait, and what to execute.
async fn asked(
    state: &ProxyState,
    query: Result<Params<WaitQuery>, Problem>,
    request: Request,
) -> Result<(Duration, Subject, Option<Logged>), Problem> {
    let wait = wait::wish(query?.0.wait)?;
    let body: ExecuteBody = Strict::from_request(request, state).await?.value;
    let subject = match (body.draft_id, body.draft) {
        (Some(id), None) => Subject::Id(id),
        (None, Some(document)) => Subject::Document(document),
        _ => return Err(Problem::new(Code::JsonInvalid, "send exactly one of `draft_id` and `draft`")),
    };
    Ok((wait, subject, body.audit.map(Logged::from)))
}

/// The answer to a call with a credential of ours that cannot be read; it counts as any other refusal that is the holder's fault.
async fn unreadable(state: &ProxyState, request: RequestId, holder: &Holder, credential: &SignedCredential, problem: Problem) -> Problem {
    if problem.code.status() >= 500 {
        return problem;
    }
    if let Err(too_many) = rates::refusal(&state.common, request, holder).await {
        return too_many;
    }
    state.proxy.note_unreadable(credential, request, problem.code.as_str()).await;
    problem
}

/// The answer to a call without a credential of ours; from where too many come it is that there are too many.
async fn stranger(state: &ProxyState, request: RequestId, from: ComesFrom, error: ExecuteError) -> Problem {
    if error.fault() == Fault::Ours {
        return error.into();
    }
    if let Err(too_many) = rates::failed(&state.common, request, from).await {
        return too_many;
    }
    let denied = Denied::stranger(error);
    state.proxy.note_denied(&denied, request).await;
    denied.error.into()
}

/// The answer to a refused call with a credential of ours: its own problem, unless the holder itself has brought too many that are no good. What nobody
/// is to blame for is answered as it is, however often.
async fn refused(state: &ProxyState, request: RequestId, holder: &Holder, denied: Denied) -> Problem {
    let is_noted = match denied.error.fault() {
        Fault::Ours => false,
        Fault::Nobodys => rates::conflict(&state.common, request, holder).await,
        Fault::Theirs => match rates::refusal(&state.common, request, holder).await {
            Ok(()) => true,
            Err(too_many) => return too_many,
        },
    };
    if is_noted {
        state.proxy.note_denied(&denied, request).await;
    }
    denied.error.into()
}

/// How long to wait for an outcome.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Seconds to wait for an outcome; at most 60.
    wait: Option<u64>,
}

/// How long to wait, and for what.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WatchQuery {
    /// Seconds to wait for an outcome; at most 60.
    wait: Option<u64>,
    /// Wait as long as the execution is in this state instead, such as `pending` or `applied`: a backend may say later that it failed.
    #[serde(rename = "while")]
    while_state: Option<String>,
}

/// An execution as it stands.
#[utoipa::path(
    get, path = "/v1/executions/{id}", operation_id = "show_execution", tag = "executions", security(("client" = [])),
    params(("id" = String, Path, description = "the execution's id"), WatchQuery),
    responses(
        (status = 200, description = "the execution", body = Told<ExecutionView>),
    )
)]
pub(super) async fn show(
    State(state): State<ProxyState>,
    auth: Authenticated,
    Segment(id): Segment<ExecutionId>,
    Params(query): Params<WatchQuery>,
) -> Result<Response, Problem> {
    let caller = auth
        .with_role(&[Role::Orchestrator, Role::Auditor, Role::Operator, Role::Proxy])
        .await?;
    let wait = wait::wish(query.wait)?;
    let read = || visible(&state.common, id, &caller.client);
    let watched = match query.while_state {
        None => None,
        Some(text) => {
            let known: Vec<&str> = ExecutionState::ALL.iter().map(|s| s.as_str()).collect();
            let wrong = || Problem::new(Code::ParameterInvalid, format!("while: expected one of {}", known.join(", ")));
            Some(ExecutionState::parse(&text).ok_or_else(wrong)?)
        }
    };
    let done = |execution: &ExecutionRecord| watched.map_or_else(|| is_over(execution), |state| execution.state != state);
    let execution = wait::until(&state.common, &caller.client.id, wait, read, done).await?;
    Ok(axum::Json(reached(&state.common, &execution).await).into_response())
}

/// What an operator found out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResolveBody {
    /// `applied` or `not_applied`.
    outcome: ResolveOutcome,
    /// How you know; recorded.
    evidence: String,
    /// The backend's own id, if you found it.
    #[serde(default)]
    reference: Option<String>,
}

/// What an operator found out.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResolveOutcome {
    /// It was done.
    Applied,
    /// It was not done.
    NotApplied,
}

/// Close an execution whose outcome only a person could find out.
#[utoipa::path(
    post, path = "/v1/executions/{id}/resolve", operation_id = "resolve_execution", tag = "executions", security(("client" = [])),
    params(("id" = String, Path, description = "the execution's id")),
    request_body = ResolveBody,
    responses(
        (status = 200, description = "the execution, resolved", body = ExecutionView),
    )
)]
pub(super) async fn resolve(
    State(state): State<ProxyState>,
    auth: Authenticated,
    Segment(id): Segment<ExecutionId>,
    body: Result<Strict<ResolveBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Operator]).await?;
    let body = body?;
    let _place = admit(&state.common, Work::Execute)?;
    visible(&state.common, id, &caller.client).await?;
    let resolution = match body.value.outcome {
        ResolveOutcome::Applied => Resolution::Applied,
        ResolveOutcome::NotApplied => Resolution::NotApplied,
    };
    let op = Op {
        id: OperationId::generate(&*state.common.clock, &*state.common.entropy),
        actor: caller.actor(),
        request: Some(caller.request),
    };
    let ResolveBody { evidence, reference, .. } = body.value;
    let execution = proxy::resolve(&*state.common.store, op, id, resolution, &evidence, reference)
        .await
        .map_err(|error| match error {
            ResolveError::EvidenceMissing | ResolveError::EvidenceDeceptive(_) => {
                Problem::at(Code::JsonInvalid, "/evidence", error.to_string())
            }
            ResolveError::ReferenceMalformed => Problem::at(Code::JsonInvalid, "/reference", error.to_string()),
            ResolveError::Store(error) => error.into(),
        })?;
    Ok(axum::Json(ExecutionView::from(&execution)).into_response())
}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, "there is no such thing, or it is not yours")
}

/// Whether the execution has an outcome that nothing in this program will change by itself.
fn is_over(execution: &ExecutionRecord) -> bool {
    !matches!(
        execution.state,
        ExecutionState::Claimed | ExecutionState::Dispatched | ExecutionState::Indeterminate
    )
}

async fn visible(common: &Common, id: ExecutionId, client: &Client) -> Result<ExecutionRecord, Problem> {
    let wide = [Role::Auditor, Role::Operator, Role::Proxy].iter().any(|r| client.has_role(*r));
    let execution = common.store.execution(id).await?;
    execution
        .filter(|e| e.tenant == client.tenant && (wide || e.maker == client.id))
        .ok_or_else(not_found)
}
