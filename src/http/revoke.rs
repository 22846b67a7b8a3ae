//! Credentials by their token: taken back (RFC 7009), and asked about (RFC 7662). A token is never echoed, logged or stored.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::Authenticated;
use super::token::form;
use super::{BrokerState, Problem};
use crate::broker::Caller;
use crate::domain::json::Json;
use crate::domain::principal::Role;
use crate::domain::secret::Secret;

const NO_STORE: [(header::HeaderName, &str); 2] = [(header::CACHE_CONTROL, "no-store"), (header::PRAGMA, "no-cache")];

/// A credential, by its token. Other parameters are ignored (RFC 6749 section 3.2).
#[derive(Deserialize, ToSchema)]
pub(super) struct TokenForm {
    /// The credential.
    token: String,
    /// Not looked at: there is one kind of token here.
    #[serde(rename = "token_type_hint")]
    #[schema(rename = "token_type_hint")]
    _hint: Option<String>,
}

/// Take a credential back. A token that is no credential, or is spent or over, is answered in the same way.
#[utoipa::path(
    post, path = "/oauth2/revoke", operation_id = "revoke_token", tag = "credentials", security(("client" = [])),
    request_body(content = TokenForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "the token is good for nothing now"),
    )
)]
pub(super) async fn revoke(State(state): State<BrokerState>, auth: Result<Authenticated, Problem>, request: Request) -> Response {
    const ROLES: &[Role] = &[Role::Orchestrator, Role::Operator, Role::Security];
    let revoked = async {
        let (caller, token) = asked(&state, auth, ROLES, request).await?;
        Ok::<(), Problem>(state.broker.revoke_token(&caller, &token).await?)
    };
    match revoked.await {
        Ok(()) => (StatusCode::OK, NO_STORE).into_response(),
        Err(problem) => problem.into_oauth(),
    }
}

/// Whether a credential could be used now. Of one that could not, nothing but that is said.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct IntrospectionView {
    /// Whether it could be used now: issued, not spent, in time, not revoked, not stopped.
    active: bool,
    /// The client it was issued to.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    /// `Bearer`
    #[serde(skip_serializing_if = "Option::is_none")]
    token_type: Option<&'static str>,
    /// For whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<String>,
    /// The broker's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<String>,
    /// When it was issued, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<i64>,
    /// First second it is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    nbf: Option<i64>,
    /// First second it is good no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
    /// The credential's id, as it stands in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    credential_id: Option<String>,
    /// What it allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    authorization_details: Option<Json>,
}

/// Ask whether a credential could be used now.
#[utoipa::path(
    post, path = "/oauth2/introspect", operation_id = "introspect_token", tag = "credentials", security(("client" = [])),
    request_body(content = TokenForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "whether it could be used", body = IntrospectionView),
    )
)]
pub(super) async fn introspect(State(state): State<BrokerState>, auth: Result<Authenticated, Problem>, request: Request) -> Response {
    const ROLES: &[Role] = &[Role::Orchestrator, Role::Proxy, Role::Operator, Role::Security];
    let told = async {
        let (caller, token) = asked(&state, auth, ROLES, request).await?;
        let known = state.broker.introspect(&caller, &token).await?;
        let known = known.as_ref();
        Ok::<_, Problem>(IntrospectionView {
            active: known.is_some(),
            client_id: known.map(|k| k.client.to_string()),
            token_type: known.map(|_| "Bearer"),
            aud: known.map(|k| k.audience.to_string()),
            iss: known.map(|_| state.common.public_url.trim_end_matches('/').to_owned()),
            iat: known.map(|k| k.issued_at.seconds()),
            nbf: known.map(|k| k.not_before.seconds()),
            exp: known.map(|k| k.expires_at.seconds()),
            credential_id: known.map(|k| k.credential.to_string()),
            authorization_details: known.map(|k| k.authorization_details.clone()),
        })
    };
    match told.await {
        Ok(view) => (NO_STORE, axum::Json(view)).into_response(),
        Err(problem) => problem.into_oauth(),
    }
}

async fn asked(
    state: &BrokerState,
    auth: Result<Authenticated, Problem>,
    roles: &[Role],
    request: Request,
) -> Result<(Caller, Secret), Problem> {
    let caller = auth?.with_role(roles).await?;
    let form: TokenForm = form(state, request).await?;
    Ok((caller, Secret::new(form.token)))
}
