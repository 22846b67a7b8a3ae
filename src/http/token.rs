//! The token endpoint: token exchange (RFC 8693) in a form body, errors in the form of RFC 6749.

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admission::admit;
use super::audit::{Told, told};
use super::auth::{Authenticated, refused};
use super::body;
use super::{BrokerState, Code, Problem};
use crate::audit::Note;
use crate::broker::{ExchangeRequest, SubjectToken};
use crate::domain::json::Json;
use crate::domain::principal::Role;
use crate::edge::Work;
use crate::store::log::EventRef;

/// The grant type of token exchange.
pub(super) const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The subject token is a signed approval record.
const APPROVAL_RECORD: &str = "urn:writ:token-type:approval-record";
/// The subject token is the id of a draft whose records are stored.
const DRAFT: &str = "urn:writ:token-type:draft";
/// What is issued.
const CREDENTIAL: &str = "urn:writ:token-type:credential";

/// A token exchange. A parameter that appears twice, or that this endpoint does not know, is refused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExchangeForm {
    /// `urn:ietf:params:oauth:grant-type:token-exchange`
    grant_type: String,
    /// The approval record, or the draft's id.
    subject_token: String,
    /// `urn:writ:token-type:approval-record` or `urn:writ:token-type:draft`
    subject_token_type: String,
    /// `urn:writ:token-type:credential`, or nothing.
    requested_token_type: Option<String>,
    /// The proxy's audience; may be left out where there is only one.
    audience: Option<String>,
    /// RFC 9396; must repeat exactly what the draft says.
    authorization_details: Option<String>,
}

/// A credential.
#[derive(Serialize, ToSchema)]
pub(super) struct ExchangeView {
    /// The credential. It belongs in the orchestrator's memory and in one Authorization header.
    access_token: String,
    /// `urn:writ:token-type:credential`
    issued_token_type: &'static str,
    /// `Bearer`
    token_type: &'static str,
    /// Seconds until it is good no longer.
    expires_in: i64,
    /// The credential's id, as it stands in the audit log.
    credential_id: String,
    /// What it allows.
    #[schema(value_type = Vec<Object>)]
    authorization_details: Json,
}

/// Exchange an approval for a credential.
#[utoipa::path(
    post, path = "/oauth2/token", operation_id = "exchange_token", tag = "credentials", security(("client" = [])),
    request_body(content = ExchangeForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "the credential", body = Told<ExchangeView>),
    )
)]
pub(super) async fn exchange(State(state): State<BrokerState>, auth: Result<Authenticated, Problem>, request: Request) -> Response {
    match exchange_inner(&state, auth, request).await {
        Ok(view) => (
            [(header::CACHE_CONTROL, "no-store"), (header::PRAGMA, "no-cache")],
            axum::Json(view),
        )
            .into_response(),
        Err(problem) => problem.into_oauth(),
    }
}

async fn exchange_inner(
    state: &BrokerState,
    auth: Result<Authenticated, Problem>,
    request: Request,
) -> Result<Told<ExchangeView>, Problem> {
    let caller = auth?.with_role(&[Role::Orchestrator]).await?;
    let form = form(state, request).await;
    let _place = admit(&state.common, Work::Continue)?;
    let asked = match form.and_then(exchange_request) {
        Ok(asked) => asked,
        Err(problem) => return Err(refused(&state.common, &caller, Note::ExchangeDenied, problem).await),
    };
    let issued = state.broker.exchange(&caller, asked).await?;
    let view = ExchangeView {
        // The one place where a credential leaves.
        access_token: issued.token.expose().to_owned(),
        issued_token_type: CREDENTIAL,
        token_type: "Bearer",
        expires_in: i64::try_from(issued.expires_at.since(issued.issued_at).as_secs()).unwrap_or(0),
        credential_id: issued.credential.to_string(),
        authorization_details: issued.authorization_details,
    };
    Ok(told(&state.common, view, EventRef::Issued(issued.credential)).await)
}

/// What the form asks for.
fn exchange_request(form: ExchangeForm) -> Result<ExchangeRequest, Problem> {
    if form.grant_type != GRANT_TYPE {
        return Err(Problem::new(
            Code::GrantTypeUnsupported,
            format!("grant_type must be `{GRANT_TYPE}`"),
        ));
    }
    let subject = match form.subject_token_type.as_str() {
        APPROVAL_RECORD => SubjectToken::Record(form.subject_token),
        DRAFT => {
            let id = form
                .subject_token
                .parse()
                .map_err(|e: crate::domain::id::IdError| Problem::new(Code::ParameterInvalid, format!("subject_token: {e}")))?;
            SubjectToken::Draft(id)
        }
        other => {
            return Err(token_type(
                "subject_token_type",
                other,
                &format!("`{APPROVAL_RECORD}` or `{DRAFT}`"),
            ));
        }
    };
    if let Some(other) = form.requested_token_type.as_deref().filter(|t| *t != CREDENTIAL) {
        return Err(token_type("requested_token_type", other, &format!("`{CREDENTIAL}`")));
    }
    let audience = form
        .audience
        .map(|a| a.parse())
        .transpose()
        .map_err(|e: crate::domain::name::NameError| Problem::new(Code::AudienceUnknown, e.to_string()))?;
    let authorization_details = form
        .authorization_details
        .map(|text| Json::parse(text.as_bytes()))
        .transpose()
        .map_err(|e| Problem::new(Code::AuthorizationDetailsDiffer, format!("authorization_details: {e}")))?;
    Ok(ExchangeRequest {
        subject,
        audience,
        authorization_details,
    })
}

fn token_type(what: &str, given: &str, expected: &str) -> Problem {
    let shown: String = given.chars().take(80).flat_map(char::escape_debug).collect();
    Problem::new(
        Code::TokenTypeUnsupported,
        format!("{what} `{shown}` is not offered: expected {expected}"),
    )
}

/// RFC 6749 section 3.2: parameters must not be repeated, and empty ones count as absent.
pub(super) async fn form<T: DeserializeOwned>(state: &BrokerState, request: Request) -> Result<T, Problem> {
    if body::media_type(&request).as_deref() != Some("application/x-www-form-urlencoded") {
        return Err(Problem::new(
            Code::MediaTypeUnsupported,
            "send the body as `Content-Type: application/x-www-form-urlencoded`",
        ));
    }
    let bytes = body::bytes(request, state).await?;
    let mut members = serde_json::Map::new();
    for (name, value) in form_urlencoded::parse(&bytes) {
        if value.is_empty() {
            continue;
        }
        if members.insert(name.to_string(), value.to_string().into()).is_some() {
            return Err(Problem::new(Code::ParameterInvalid, format!("{name} appears twice")));
        }
    }
    serde_json::from_value(serde_json::Value::Object(members)).map_err(|e| Problem::new(Code::ParameterInvalid, e.to_string()))
}
