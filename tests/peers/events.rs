//! Events that code signed which nobody here wrote: a payment server that delivers them, and the official clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use writ::app::Outside;
use writ::domain::clock::Clock as _;
use writ::domain::secret::Secret;
use writ::sandbox::{demo, event_signature};

use crate::support::servers::{localstripe, node_client, python_client};
use crate::support::world::{Setup, World};

/// How long a delivery may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn secret(world: &World) -> Secret {
    Secret::new(std::fs::read_to_string(world.path("secrets/stripe-webhook")).unwrap())
}

async fn post(url: &str, body: &Value) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().http1_only().build().unwrap();
    let sent = client
        .post(url)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send();
    let response = sent.await.unwrap();
    let (status, text) = (response.status(), response.text().await.unwrap());
    assert_eq!(status, 200, "{url}: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_nobody_here_wrote_tells_of_a_failure_and_the_refund_reopens() {
    let started = tokio::task::spawn_blocking(|| {
        localstripe().map(|server| {
            let charge = server.charge(40_000, "usd");
            (server, charge)
        })
    });
    let Some((server, charge)) = started.await.unwrap() else { return };
    // The server signs by the machine's clock.
    let setup = Setup {
        stripe: Some(server.url.clone()),
        starts: Some(Outside::system().clock.now()),
        ..Setup::default()
    };
    let world = World::with(setup).await;
    let (receiver, router) = world.another();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let here = format!("http://{}/v1/webhooks/stripe", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    for (id, key) in [("forger", "whsec_of_somebody_else"), ("writ", secret(&world).expose())] {
        let hook = json!({ "url": here, "secret": key, "events": ["refund.failed"] });
        post(&format!("{}/_config/webhooks/{id}", server.url), &hook).await;
    }

    let draft = world.propose(World::refund_of(&charge, 4_000, "usd")).await.expect(201);
    let draft = draft["id"].as_str().unwrap().to_owned();
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await;
    let execution = world.execution(&draft).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    let refund = execution["reference"].as_str().unwrap();
    post(&format!("{}/_config/refunds/{refund}/fail", server.url), &json!({})).await;

    let begun = Instant::now();
    while world.execution(&draft).await["state"] == "applied" && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    receiver.settle().await;
    let execution = world.execution(&draft).await;
    assert_eq!(
        (&execution["state"], &execution["reference"]),
        (&json!("not_applied"), &json!(refund)),
        "{execution}"
    );
    assert_eq!(
        (&execution["events"][0]["type"], &execution["events"][0]["finding"]),
        (&json!("refund.failed"), &json!("confirmed"))
    );
    let types = world.event_types().await;
    let count = |kind: &str| types.iter().filter(|t| *t == kind).count();
    assert_eq!(
        (count("backend.event"), count("backend.event_denied"), count("execution.reopen")),
        (1, 1, 1),
        "the one that is signed under another secret is refused"
    );
    let url = server.url.clone();
    let shown = tokio::task::spawn_blocking(move || python_client(&url, &["show", &charge]))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(shown["refunds"][0]["status"], "failed", "as the official client sees it: {shown}");
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_clients_sign_and_verify_as_is_done_here() {
    let world = World::new().await;
    let held = world.allowed_draft().await;
    let token = world.credential(&held).await;
    world.execute(&token, &held).await.expect(202);
    let refund = world.sandbox.refunds(demo::CHARGE)[0].id.clone();
    let body = world.sandbox.event("refund.updated", &refund).unwrap();
    let (now, key) = (world.clock.now(), secret(&world));
    let ours = event_signature(&key, now, &body);
    let (secret, seconds) = (Arc::new(key.expose().to_owned()), now.seconds().to_string());
    let (theirs, payload) = (Arc::clone(&secret), body.clone());
    let calls = move || {
        let url = "http://127.0.0.1:9";
        let signed = node_client(url, &["sign", &theirs, &seconds, &payload])?;
        let good = python_client(url, &["verify", &theirs, &ours, &payload])?;
        let bad = python_client(url, &["verify", "whsec_another_secret_than_that", &ours, &payload])?;
        Some((signed, good, bad))
    };
    let Some((signed, good, bad)) = tokio::task::spawn_blocking(calls).await.unwrap() else {
        return;
    };
    assert_eq!((&good["verified"], &bad["verified"]), (&json!(true), &json!(false)));
    let request = Request::post("/v1/webhooks/stripe").header("stripe-signature", signed["header"].as_str().unwrap());
    let taken = world.send(request.body(Body::from(body)).unwrap()).await.expect(200);
    assert_eq!(taken["finding"], "agrees");
}
