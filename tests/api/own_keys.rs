//! An agent that wants to choose the key: whatever it sends, the wire shows the stored one.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::support::world::World;

const CHOSEN: &str = "11111111-2222-8333-8444-555555555555";

#[tokio::test]
async fn a_key_among_the_parameters_or_in_the_body_is_refused() {
    let world = World::new().await;
    for name in ["idempotency_key", "idempotency-key", "key", "metadata", "metadata[writ_key]"] {
        let mut inside = World::refund(4_000);
        inside["parameters"][name] = json!(CHOSEN);
        let reply = world.propose(inside).await;
        world
            .denied(&reply, 400, "operation_parameters_invalid", "draft.propose_denied", 0)
            .await;
        let mut beside = World::refund(4_000);
        beside[name] = json!(CHOSEN);
        let reply = world.propose(beside).await;
        world.denied(&reply, 400, "json_invalid", "draft.propose_denied", 0).await;
    }
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world
        .execute_body(&token, json!({ "draft_id": draft, "idempotency_key": CHOSEN }))
        .await
        .refused(400, "json_invalid");
    assert_eq!(world.writes(), 0);
    assert_eq!(world.draft(&draft).await["state"], "approved");
}

#[tokio::test]
async fn a_key_in_a_header_never_reaches_the_backend() {
    let world = World::new().await;
    let with_keys = |path: &str, authorization: String, content_type: &str, body: String| {
        let request = Request::post(path)
            .header("authorization", authorization)
            .header("content-type", content_type)
            .header("idempotency-key", CHOSEN)
            .header("x-idempotency-key", CHOSEN)
            .header("stripe-idempotency-key", CHOSEN)
            .body(Body::from(body));
        request.unwrap()
    };
    let basic = world.basic("support-agent");
    let propose = with_keys("/v1/drafts", basic.clone(), "application/json", World::refund(4_000).to_string());
    let draft = world.send(propose).await.expect(201);
    let id = draft["id"].as_str().unwrap();
    let form = format!(
        "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={id}&subject_token_type=urn:writ:token-type:draft"
    );
    let exchange = with_keys("/oauth2/token", basic, "application/x-www-form-urlencoded", form);
    let token = world.send(exchange).await.expect(200)["access_token"].as_str().unwrap().to_owned();
    let execute = with_keys(
        "/v1/executions",
        format!("Bearer {token}"),
        "application/json",
        json!({ "draft_id": id }).to_string(),
    );
    world.send(execute).await.expect(202);
    world.app.settle().await;
    let stored = draft["idempotency_key"].as_str().unwrap();
    assert_ne!(stored, CHOSEN);
    let sent: Vec<_> = world.sandbox.requests().into_iter().filter(|r| r.method != "GET").collect();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].idempotency_key.as_deref(), Some(stored));
    assert!(sent[0].body.contains(stored), "the body names it too: {}", sent[0].body);
    assert!(world.sandbox.requests().iter().all(|r| !format!("{r:?}").contains(CHOSEN)));
}

#[tokio::test]
async fn two_equal_refunds_that_are_both_meant_have_two_keys() {
    let world = World::new().await;
    let mut keys: Vec<Value> = Vec::new();
    for _ in 0..2 {
        let draft = world.propose(World::refund(4_000)).await.expect(201);
        keys.push(draft["idempotency_key"].clone());
        let id = draft["id"].as_str().unwrap();
        let token = world.credential(id).await;
        world.execute(&token, id).await.expect(202);
    }
    assert_ne!(keys[0], keys[1]);
    assert_eq!(world.writes(), 2);
}
