//! Broker and proxy apart: each holds its own secrets only, and a refund still runs through both.

use std::fs;

use axum::http::{Request, header};
use serde_json::json;
use writ::app::{App, Outside, Part};
use writ::sandbox::{KeyUsed, demo};

use crate::support::world::{World, execute_request, send};

fn assemble(world: &World, part: Part) -> Result<App, writ::app::Faults> {
    let outside = Outside {
        clock: world.clock.clone(),
        entropy: world.entropy.clone(),
    };
    App::assemble(&world.config, part, outside, &|_| None)
}

/// Moves the secrets of this kind out of the directory, and back.
fn hide(world: &World, kind: &str) {
    for backend in ["stripe", "shop"] {
        let file = world.path(&format!("secrets/{backend}-{kind}"));
        fs::rename(&file, file.with_extension("hidden")).unwrap();
    }
}

fn show(world: &World, kind: &str) {
    for backend in ["stripe", "shop"] {
        let file = world.path(&format!("secrets/{backend}-{kind}"));
        fs::rename(file.with_extension("hidden"), file).unwrap();
    }
}

#[tokio::test]
async fn a_broker_without_write_secrets_and_a_proxy_without_private_keys_refund_together() {
    let world = World::new().await;
    hide(&world, "write");
    hide(&world, "read");
    let broker = assemble(&world, Part::Broker).unwrap();
    assert!(assemble(&world, Part::Proxy).is_err(), "a proxy needs them");
    show(&world, "write");
    show(&world, "read");
    hide(&world, "facts");
    for entry in fs::read_dir(&world.config.keys).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "pem") {
            fs::remove_file(path).unwrap();
        }
    }
    let proxy = assemble(&world, Part::Proxy).unwrap();
    assert!(assemble(&world, Part::Broker).is_err(), "a broker needs them");

    let authorization = world.basic("support-agent");
    let call = |path: &str, kind: &str, body: String| {
        Request::post(path)
            .header(header::AUTHORIZATION, &authorization)
            .header(header::CONTENT_TYPE, kind)
            .body(body.into())
            .unwrap()
    };
    let propose = || call("/v1/drafts", "application/json", World::refund(4_000).to_string());
    send(&proxy.router(), propose()).await.refused(404, "not_found");
    let draft = send(&broker.router(), propose()).await.expect(201);
    let draft = draft["id"].as_str().unwrap();
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
        .append_pair("subject_token", draft)
        .append_pair("subject_token_type", "urn:writ:token-type:draft")
        .finish();
    let exchange = || call("/oauth2/token", "application/x-www-form-urlencoded", form.clone());
    send(&proxy.router(), exchange()).await.refused(404, "not_found");
    let issued = send(&broker.router(), exchange()).await.expect(200);
    let token = issued["access_token"].as_str().unwrap();
    let execute = || execute_request(token, json!({ "draft_id": draft }));
    send(&broker.router(), execute()).await.refused(404, "not_found");
    assert_eq!(world.writes(), 0);
    send(&proxy.router(), execute()).await.expect(202);
    proxy.settle().await;
    assert_eq!(world.execution(draft).await["state"], "applied");
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    let used = |method: &str| -> Vec<KeyUsed> {
        let requests = world.sandbox.requests();
        requests.iter().filter(|r| r.method == method).map(|r| r.key).collect()
    };
    assert_eq!(used("POST"), [KeyUsed::Write]);
    assert!(used("GET").iter().all(|key| *key == KeyUsed::Read));
}
