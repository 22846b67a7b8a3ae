//! Handoffs: executions whose outcome only a person can find out, each with everything that is known and what can be done.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::auth::Authenticated;
use super::body::{Params, Segment, next_after, page_limit};
use super::view::{AmountView, ExecutionView, ResourceView};
use super::{Code, Problem, ProxyState};
use crate::domain::draft::DraftDocument;
use crate::domain::id::ExecutionId;
use crate::domain::lifecycle::ExecutionState;
use crate::domain::principal::Role;
use crate::domain::time::Timestamp;
use crate::proxy::{Reason, actions, look_for};
use crate::store::intent::{Case, HandoffFilter};
use crate::store::record::{DraftRecord, ExecutionRecord};

const READERS: &[Role] = &[Role::Operator, Role::Auditor];

/// Why it was handed off.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WhyView {
    /// A stable code.
    code: String,
    /// The reason in a sentence.
    sentence: String,
}

impl WhyView {
    fn of(code: &str) -> Self {
        let unknown = "it was handed off by a version of the program that had other reasons";
        Self {
            code: code.to_owned(),
            sentence: Reason::parse(code).map_or(unknown, Reason::sentence).to_owned(),
        }
    }
}

/// A handoff in one line.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffLine {
    /// The execution.
    execution_id: String,
    /// The draft it executes.
    draft_id: String,
    /// `open` while it waits for a person, then `closed`.
    status: &'static str,
    /// When it was handed off.
    handed_off_at: String,
    /// How long it has waited, in seconds; absent once it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
    /// Why.
    why: WhyView,
    /// The backend.
    backend: String,
    /// The operation.
    operation: String,
    /// What it touches.
    resource: ResourceView,
    /// How much.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<AmountView>,
}

impl HandoffLine {
    /// The handoff as it stands at `now`; nothing if it was never handed off.
    pub(crate) fn of(execution: &ExecutionRecord, now: Timestamp) -> Option<Self> {
        let handed_off = execution.handed_off.as_ref()?;
        let is_open = execution.state == ExecutionState::HandedOff;
        Some(Self {
            execution_id: execution.id.to_string(),
            draft_id: execution.draft.to_string(),
            status: if is_open { "open" } else { "closed" },
            handed_off_at: handed_off.at.to_string(),
            age_seconds: is_open.then(|| now.since(handed_off.at).as_secs()),
            why: WhyView::of(&handed_off.code),
            backend: execution.backend.to_string(),
            operation: execution.operation.to_string(),
            resource: (&execution.resource).into(),
            amount: execution.amount.map(Into::into),
        })
    }
}

/// A page of handoffs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffPage {
    /// The handoffs, oldest execution first.
    handoffs: Vec<HandoffLine>,
    /// Pass as `after` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The exact request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestView {
    /// The method.
    method: String,
    /// The URL.
    url: String,
    /// Headers, without the secret.
    #[schema(value_type = Object)]
    headers: std::collections::BTreeMap<String, String>,
    /// The body as it went out, with the key where it carries one.
    body: String,
    /// SHA-256 of the body as it went out; the attempts name the same.
    body_sha256: String,
}

/// The draft.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubjectView {
    /// Its id.
    id: String,
    /// Its hash.
    draft_hash: String,
    /// The client that made it.
    maker: String,
    /// The person whose wish it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_behalf_of: Option<String>,
    /// The support case.
    #[serde(skip_serializing_if = "Option::is_none")]
    case_id: Option<String>,
    /// When it was stored.
    created_at: String,
    /// Exactly what was sent.
    request: RequestView,
}

/// One thing to look for at the backend.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LookForView {
    /// What it is.
    what: &'static str,
    /// Its value.
    value: String,
    /// Where it stands there.
    #[serde(rename = "where")]
    place: String,
}

/// The time in which the key could be sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WindowView {
    /// When the first request was written down to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_sent_at: Option<String>,
    /// First moment the key may not be sent any more; absent where nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    send_until: Option<String>,
    /// Whether that moment has passed.
    over: bool,
}

/// The call that does it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallView {
    /// Method and path.
    request: String,
    /// The body.
    #[schema(value_type = Object)]
    body: serde_json::Value,
}

/// One thing that can be done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ActionView {
    /// `resolve_applied`, `resolve_not_applied` or `wait`.
    name: &'static str,
    /// The command that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The call that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<CallView>,
    /// What follows from it.
    means: &'static str,
}

/// A handoff with everything that is known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffView {
    /// The case in one line.
    #[serde(flatten)]
    line: HandoffLine,
    /// The draft and its exact request.
    draft: SubjectView,
    /// The execution, with every attempt and every look-up.
    execution: ExecutionView,
    /// The time in which the key could be sent.
    window: WindowView,
    /// What to look for at the backend.
    look_for: Vec<LookForView>,
    /// What can be done; empty once the case is closed.
    actions: Vec<ActionView>,
    /// What the person who closed it wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
}

impl HandoffView {
    /// Everything about the handoff as it stands at `now`; nothing if it was never handed off.
    pub(crate) fn of(execution: &ExecutionRecord, draft: &DraftRecord, document: &DraftDocument, now: Timestamp) -> Option<Self> {
        let line = HandoffLine::of(execution, now)?;
        let request = &document.request;
        let wire = request.wire_body(&execution.key);
        let actions = if execution.state == ExecutionState::HandedOff {
            actions(execution)
        } else {
            Vec::new()
        };
        Some(Self {
            line,
            draft: SubjectView {
                id: draft.id.to_string(),
                draft_hash: draft.hash.to_string(),
                maker: draft.maker.to_string(),
                on_behalf_of: draft.on_behalf_of.as_ref().map(ToString::to_string),
                case_id: draft.case_id.as_ref().map(ToString::to_string),
                created_at: draft.created_at.to_string(),
                request: RequestView {
                    method: request.method.clone(),
                    url: request.url.clone(),
                    headers: request.headers.clone(),
                    body: String::from_utf8_lossy(&wire).into_owned(),
                    body_sha256: crate::domain::digest::Digest::of(&wire).to_string(),
                },
            },
            execution: execution.into(),
            window: WindowView {
                first_sent_at: execution.first_sent_at.map(|t| t.to_string()),
                send_until: execution.send_until.map(|t| t.to_string()),
                over: execution.send_until.is_some_and(|until| until <= now),
            },
            look_for: look_for(execution, document)
                .into_iter()
                .map(|l| LookForView {
                    what: l.what,
                    value: l.value,
                    place: l.place,
                })
                .collect(),
            actions: actions
                .into_iter()
                .map(|a| ActionView {
                    name: a.name,
                    command: a.command,
                    call: a.call.map(|(request, body)| CallView { request, body }),
                    means: a.means,
                })
                .collect(),
            evidence: execution.evidence.clone(),
        })
    }
}

/// Which handoffs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HandoffQuery {
    /// `open` (if not given), `closed` or `all`.
    status: Option<String>,
    /// Only of this operation.
    operation: Option<String>,
    /// Only at this backend.
    backend: Option<String>,
    /// Only those handed off for this reason: `adapter_changed`, `secrets_changed`, `key_mismatch`, `other_reference`, `unresolved`, `pending_too_long` or `issue_not_logged`.
    why: Option<String>,
    /// Only of this support case.
    case: Option<String>,
    /// Only on this resource, as `type:id`.
    resource: Option<String>,
    /// Only executions after this one.
    after: Option<String>,
    /// At most this many, 1 to 100; 50 if not given.
    limit: Option<u32>,
}

/// A value of the query that is parsed into `T`.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, text: Option<String>) -> Result<Option<T>, Problem> {
    let wrong = |error: &T::Err| Problem::new(Code::ParameterInvalid, format!("{name}: {error}"));
    text.map(|text| text.parse::<T>()).transpose().map_err(|error| wrong(&error))
}

/// Executions that were handed to a person, oldest first.
#[utoipa::path(
    get, path = "/v1/handoffs", operation_id = "list_handoffs", tag = "handoffs", security(("client" = [])), params(HandoffQuery),
    responses(
        (status = 200, description = "a page of handoffs", body = HandoffPage),
    )
)]
pub(super) async fn list(
    State(state): State<ProxyState>,
    auth: Authenticated,
    Params(query): Params<HandoffQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(READERS).await?;
    let wrong = |what: &str, why: &str| Problem::new(Code::ParameterInvalid, format!("{what}: {why}"));
    let limit = page_limit(query.limit)?;
    let case = match query.status.as_deref() {
        None | Some("open") => Some(Case::Open),
        Some("closed") => Some(Case::Closed),
        Some("all") => None,
        Some(_) => return Err(wrong("status", "expected `open`, `closed` or `all`")),
    };
    if let Some(why) = &query.why
        && Reason::parse(why).is_none()
    {
        let known: Vec<&str> = Reason::ALL.iter().map(|r| r.as_str()).collect();
        return Err(wrong("why", &format!("expected one of {}", known.join(", "))));
    }
    let filter = HandoffFilter {
        tenant: Some(caller.client.tenant.clone()),
        case,
        operation: parsed("operation", query.operation)?,
        backend: parsed("backend", query.backend)?,
        code: query.why,
        case_id: parsed("case", query.case)?,
        resource: query.resource,
        after: parsed("after", query.after)?,
        limit,
    };
    let found = state.common.store.handoffs(filter).await?;
    let next = next_after(&found, limit, |execution| execution.id.to_string());
    let now = state.common.clock.now();
    let handoffs = found.iter().filter_map(|execution| HandoffLine::of(execution, now)).collect();
    Ok(axum::Json(HandoffPage { handoffs, next }).into_response())
}

/// One handoff: the draft, every attempt, every look-up, and what can be done.
#[utoipa::path(
    get, path = "/v1/handoffs/{id}", operation_id = "show_handoff", tag = "handoffs", security(("client" = [])),
    params(("id" = String, Path, description = "the execution's id")),
    responses(
        (status = 200, description = "the handoff", body = HandoffView),
    )
)]
pub(super) async fn show(
    State(state): State<ProxyState>,
    auth: Authenticated,
    Segment(id): Segment<ExecutionId>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(READERS).await?;
    let not_found = || Problem::new(Code::NotFound, "there is no such thing, or it is not yours");
    let store = &state.common.store;
    let execution = store.execution(id).await?.filter(|e| e.tenant == caller.client.tenant);
    let execution = execution.ok_or_else(not_found)?;
    let draft = store.draft(execution.draft).await?.ok_or_else(not_found)?;
    let bytes = store.draft_bytes(execution.draft).await?.ok_or_else(not_found)?;
    let document = DraftDocument::parse(&bytes).map_err(|error| Problem::internal(&error))?;
    let view = HandoffView::of(&execution, &draft, &document, state.common.clock.now()).ok_or_else(not_found)?;
    Ok(axum::Json(view).into_response())
}
