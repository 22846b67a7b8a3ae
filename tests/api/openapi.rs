//! The API's description is about this API: every route, and no other.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use crate::support::peers::{output, python, script};
use crate::support::world::World;

/// Every route there is.
const ROUTES: &[(&str, &[&str])] = &[
    ("/.well-known/biscuit-web-keys", &["get"]),
    ("/.well-known/oauth-authorization-server", &["get"]),
    ("/healthz", &["get"]),
    ("/oauth2/introspect", &["post"]),
    ("/oauth2/revoke", &["post"]),
    ("/oauth2/token", &["post"]),
    ("/openapi.json", &["get"]),
    ("/readyz", &["get"]),
    ("/v1/approvals", &["post"]),
    ("/v1/approvals/{id}/revoke", &["post"]),
    ("/v1/audit/checkpoint", &["get"]),
    ("/v1/audit/consistency", &["get"]),
    ("/v1/audit/events", &["get"]),
    ("/v1/audit/proof", &["get"]),
    ("/v1/audit/stream", &["get"]),
    ("/v1/audit/tile/{level}/{index}", &["get"]),
    ("/v1/cases/{id}", &["get"]),
    ("/v1/drafts", &["get", "post"]),
    ("/v1/drafts/{id}", &["get"]),
    ("/v1/drafts/{id}/bytes", &["get"]),
    ("/v1/drafts/{id}/withdraw", &["post"]),
    ("/v1/executions", &["post"]),
    ("/v1/executions/{id}", &["get"]),
    ("/v1/executions/{id}/resolve", &["post"]),
    ("/v1/handoffs", &["get"]),
    ("/v1/handoffs/{id}", &["get"]),
    ("/v1/proofs", &["post"]),
    ("/v1/reads", &["post"]),
    ("/v1/stops", &["get", "post"]),
    ("/v1/stops/{id}", &["get"]),
    ("/v1/stops/{id}/resume", &["post"]),
    ("/v1/webhooks/{backend}", &["post"]),
];

const METHODS: [&str; 7] = ["get", "post", "put", "delete", "patch", "options", "trace"];

async fn document(world: &World) -> Value {
    let request = Request::get("/openapi.json").body(Body::empty()).unwrap();
    world.send(request).await.expect(200)
}

#[tokio::test]
async fn it_is_openapi_3_1_and_lists_exactly_the_routes() {
    let world = World::new().await;
    let document = document(&world).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."), "{}", document["openapi"]);
    let listed: BTreeMap<&str, BTreeSet<&str>> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, item)| (path.as_str(), METHODS.into_iter().filter(|m| item.get(*m).is_some()).collect()))
        .collect();
    let expected: BTreeMap<&str, BTreeSet<&str>> = ROUTES
        .iter()
        .map(|(path, methods)| (*path, methods.iter().copied().collect()))
        .collect();
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn the_router_answers_exactly_what_is_listed() {
    let world = World::new().await;
    for (path, methods) in ROUTES {
        for method in METHODS {
            let request = Request::builder()
                .method(method.to_uppercase().as_str())
                .uri(
                    path.replace("{id}", "x")
                        .replace("{backend}", "x")
                        .replace("{level}/{index}", "x/x"),
                )
                .body(Body::empty());
            let reply = world.send(request.unwrap()).await;
            assert_eq!(reply.status == 405, !methods.contains(&method), "{method} {path} {}", reply.body);
            assert!(
                !reply.body["detail"].as_str().unwrap_or_default().contains("no such path"),
                "{method} {path}"
            );
        }
    }
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_call_says_who_may_make_it() {
    let world = World::new().await;
    let document = document(&world).await;
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    let open = [
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/.well-known/",
        "/v1/audit/checkpoint",
        "/v1/audit/consistency",
    ];
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let Some(call) = item.get(method) else { continue };
            let scheme = call["security"]
                .pointer("/0")
                .and_then(Value::as_object)
                .and_then(|s| s.keys().next());
            let expected = match path.as_str() {
                path if open.iter().any(|start| path.starts_with(start)) => None,
                "/v1/executions" => Some("credential"),
                "/v1/webhooks/{backend}" => Some("signature"),
                _ => Some("client"),
            };
            assert_eq!(scheme.map(String::as_str), expected, "{method} {path}");
            if expected.is_some() {
                // Whoever did not sign is no client who could show who it is: a backend is told that its event is wrong.
                let refused = if expected == Some("signature") { "400" } else { "401" };
                assert!(call["responses"][refused].is_object(), "{method} {path} says nothing of problems");
                assert!(
                    call["responses"]["default"].is_null(),
                    "{method} {path} has answers that it does not name"
                );
            }
        }
    }
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                into.push(reference.clone());
            }
            members.values().for_each(|v| collect(v, into));
        }
        Value::Array(items) => items.iter().for_each(|v| collect(v, into)),
        _ => {}
    }
}

#[tokio::test]
async fn a_validator_that_nobody_here_wrote_finds_no_mistake_in_it() {
    let Some(mut python) = python() else { return };
    let world = World::new().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document(&world).await.to_string()).unwrap();
    let said = output(python.arg(script("openapi.py")).arg(file.path()));
    assert_eq!(said.trim(), "valid");
}
