//! What clients and proxies look up: the authorization server's metadata (RFC 8414) and the public keys.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::BrokerState;
use super::token::GRANT_TYPE;

/// Authorization server metadata.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Metadata {
    /// The broker's name.
    issuer: String,
    /// Where approvals are exchanged.
    token_endpoint: String,
    /// How clients authenticate there.
    token_endpoint_auth_methods_supported: Vec<&'static str>,
    /// Where credentials are taken back (RFC 7009).
    revocation_endpoint: String,
    /// How clients authenticate there.
    revocation_endpoint_auth_methods_supported: Vec<&'static str>,
    /// Where credentials are asked about (RFC 7662).
    introspection_endpoint: String,
    /// How clients authenticate there.
    introspection_endpoint_auth_methods_supported: Vec<&'static str>,
    /// The grant types.
    grant_types_supported: Vec<&'static str>,
    /// The types of authorization details.
    authorization_details_types_supported: Vec<&'static str>,
    /// None: there is no authorization endpoint.
    response_types_supported: Vec<&'static str>,
    /// Where the public keys of credentials are.
    biscuit_web_keys_uri: String,
}

/// The authorization server's metadata (RFC 8414).
#[utoipa::path(
    get, path = "/.well-known/oauth-authorization-server", tag = "well-known",
    responses((status = 200, description = "the metadata", body = Metadata))
)]
pub(super) async fn authorization_server(State(state): State<BrokerState>) -> axum::Json<Metadata> {
    let url = state.common.public_url.trim_end_matches('/');
    axum::Json(Metadata {
        issuer: url.to_owned(),
        token_endpoint: format!("{url}/oauth2/token"),
        token_endpoint_auth_methods_supported: vec!["client_secret_basic"],
        revocation_endpoint: format!("{url}/oauth2/revoke"),
        revocation_endpoint_auth_methods_supported: vec!["client_secret_basic"],
        introspection_endpoint: format!("{url}/oauth2/introspect"),
        introspection_endpoint_auth_methods_supported: vec!["client_secret_basic"],
        grant_types_supported: vec![GRANT_TYPE],
        authorization_details_types_supported: vec!["urn:writ:authorization:draft"],
        response_types_supported: Vec::new(),
        biscuit_web_keys_uri: format!("{url}/.well-known/biscuit-web-keys"),
    })
}

/// The public keys that verify credentials, as Biscuit web keys.
#[utoipa::path(
    get, path = "/.well-known/biscuit-web-keys", tag = "well-known",
    responses((status = 200, description = "the keys", body = Vec<Object>, content_type = "application/json"))
)]
pub(super) async fn biscuit_web_keys(State(state): State<BrokerState>) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "max-age=15")];
    (headers, state.broker.signing_keys().public().to_json()).into_response()
}
