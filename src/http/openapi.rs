//! The API's description (OpenAPI 3.1), generated from the handlers.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

use super::Problem;
use super::problem::{OauthError, ProblemBody};
use super::refusals;

/// What stands at the head of the document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "writ",
        description = "A short-lived credential broker for agents, with a thin execution proxy: one approved draft, one credential, one effect."
    ),
    components(schemas(ProblemBody, OauthError)),
    tags(
        (name = "drafts", description = "What would be sent, stored and decided"),
        (name = "approvals", description = "Signed records over a draft's hash"),
        (name = "credentials", description = "Exchange of an approval for a credential, and taking it back"),
        (name = "stops", description = "The kill switch"),
        (name = "executions", description = "Spending a credential, once"),
        (name = "handoffs", description = "What only a person can find out"),
        (name = "reads", description = "Looking, never gated"),
        (name = "webhooks", description = "What backends tell by themselves"),
        (name = "cases", description = "The steps of a support case"),
        (name = "audit", description = "What happened"),
        (name = "status", description = "Alive and ready"),
        (name = "well-known", description = "Metadata and public keys"),
    )
)]
struct Head;

/// The whole document, for every role.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = Head::openapi();
    document.merge(OpenApiRouter::<super::BrokerState>::into_openapi(super::broker_routes()));
    document.merge(OpenApiRouter::<super::ProxyState>::into_openapi(super::proxy_routes()));
    document.merge(OpenApiRouter::<super::Common>::into_openapi(super::common_routes()));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("client", SecurityScheme::Http(Http::new(HttpAuthScheme::Basic)));
    components.add_security_scheme("credential", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let signature = "the header that the backend's file names, such as `Stripe-Signature: t=SECONDS,v1=HEX`, or a signature in the body where the file says so";
    components.add_security_scheme(
        "signature",
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("stripe-signature", signature))),
    );
    for item in document.paths.paths.values_mut() {
        let calls = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        calls.into_iter().flatten().for_each(refusals::describe);
    }
    document
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "status",
    responses((status = 200, description = "the API's description (OpenAPI 3.1)", body = Object, content_type = "application/json"))
)]
pub(super) async fn serve() -> Response {
    match text() {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

/// The document as text, made once: anybody may ask for it, and all answers share its bytes.
fn text() -> Result<Bytes, serde_json::Error> {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    if let Some(text) = TEXT.get() {
        return Ok(text.clone());
    }
    let made = Bytes::from(serde_json::to_vec(&document())?);
    Ok(TEXT.get_or_init(|| made).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_shares_the_bytes_of_one_document() {
        let (first, second) = (text().unwrap(), text().unwrap());
        assert!(first.len() > 10_000 && first.as_ptr() == second.as_ptr());
    }
}
