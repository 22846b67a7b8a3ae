//! Proposals that come again, drafts that are replaced, taken back, waited for and read as bytes.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::digest::{Digest, DraftHash};
use writ::sandbox::{Fault, FaultKind, demo};

use crate::support::world::{Reply, World};

fn id(draft: &Value) -> &str {
    draft["id"].as_str().unwrap()
}

async fn propose_under(world: &World, key: &str, body: &Value) -> Reply {
    let request = Request::post("/v1/drafts")
        .header("authorization", world.basic("support-agent"))
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body.to_string()));
    world.send(request.unwrap()).await
}

fn cards(events: &[String]) -> usize {
    events.iter().filter(|e| *e == "approval.request").count()
}

#[tokio::test]
async fn the_same_proposal_gives_the_open_draft_back_and_no_second_card() {
    let world = World::new().await;
    let first = world.propose(World::refund(24_000)).await.expect(201);
    let again = world.propose(World::refund(24_000)).await.expect(201);
    assert_eq!(again, first);
    let mut other_words = World::refund(24_000);
    other_words["case_id"] = json!("case-2");
    other_words["reason_code"] = json!("lost_in_post");
    assert_eq!(
        id(&world.propose(other_words).await.expect(201)),
        id(&first),
        "a case number does not make it another refund"
    );
    let (a, b) = tokio::join!(world.propose(World::refund(23_000)), world.propose(World::refund(23_000)));
    assert_eq!(id(&a.expect(201)), id(&b.expect(201)));
    assert_eq!(cards(&world.event_types().await), 2);
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn the_same_proposal_gives_the_draft_back_while_its_outcome_is_unknown_and_a_new_one_after() {
    let world = World::new().await;
    // 240.00 of 400.00: once it has run, the charge no longer holds as much again.
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    world.hand_in(&record).await.expect(200);
    let token = world.credential(&draft).await;
    world.sandbox.fault(Fault::times(FaultKind::DropAfter, "POST", "/v1/refunds", 1000));
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 1000));
    world.execute(&token, &draft).await.expect(202);
    assert_eq!(world.execution(&draft).await["state"], "indeterminate");
    let writes = world.writes();

    let again = world.propose(World::refund(24_000)).await.expect(201);
    assert_eq!((id(&again), &again["state"]), (draft.as_str(), &json!("consumed")), "{again}");
    assert_eq!(cards(&world.event_types().await), 1);
    assert_eq!(world.writes(), writes);

    let execution = id(&world.execution(&draft).await).to_owned();
    let found = json!({ "outcome": "not_applied", "evidence": "the provider's dashboard shows no refund" });
    let path = format!("/v1/executions/{execution}/resolve");
    world.call("operations", "POST", &path, Some(found)).await.expect(200);
    // In truth it was applied, so now the backend's word stands against a second one.
    let anew = world.propose(World::refund(24_000)).await;
    world
        .denied(&anew, 409, "facts_do_not_support", "draft.propose_denied", writes)
        .await;
    let smaller = world.propose(World::refund(16_000)).await.expect(201);
    assert_ne!(id(&smaller), draft);
}

#[tokio::test]
async fn after_it_is_settled_the_same_proposal_is_a_new_draft() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    assert_eq!(world.execution(&draft).await["state"], "applied");
    let anew = world.propose(World::refund(4_000)).await.expect(201);
    assert_ne!(id(&anew), draft);
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn an_open_draft_whose_time_is_over_does_not_stand_in_the_way() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    world.clock.advance(Duration::from_secs(3_600));
    let anew = world.propose(World::refund(24_000)).await.expect(201);
    assert_ne!(id(&anew), draft);
    assert_eq!(world.draft(&draft).await["state"], "expired");
}

#[tokio::test]
async fn an_idempotency_key_replays_its_own_request_and_refuses_any_other() {
    let world = World::new().await;
    let body = World::refund(24_000);
    let first = propose_under(&world, "k-1", &body).await.expect(201);
    assert_eq!(propose_under(&world, "k-1", &body).await.expect(201), first);
    for other in [World::refund(24_001), World::refund_of(demo::CHARGE_OTHER, 24_000, "usd"), {
        let mut same_refund = body.clone();
        same_refund["case_id"] = json!("case-2");
        same_refund
    }] {
        let reply = propose_under(&world, "k-1", &other).await;
        world.denied(&reply, 422, "idempotency_key_reused", "draft.propose_denied", 0).await;
    }
    let withdrawn = format!("/v1/drafts/{}/withdraw", id(&first));
    world.call("support-agent", "POST", &withdrawn, None).await.expect(200);
    let replayed = propose_under(&world, "k-1", &body).await.expect(201);
    assert_eq!(
        (id(&replayed), &replayed["state"]),
        (id(&first), &json!("withdrawn")),
        "an exact retry never proposes anew"
    );
    assert_ne!(id(&propose_under(&world, "k-2", &body).await.expect(201)), id(&first));
    for wrong in ["", &"k".repeat(256), "k\u{e9}"] {
        let reply = propose_under(&world, wrong, &body).await;
        world.denied(&reply, 400, "parameter_invalid", "draft.propose_denied", 0).await;
    }
}

#[tokio::test]
async fn an_exact_retry_is_answered_while_the_backend_is_away() {
    let world = World::new().await;
    let body = World::refund(24_000);
    let first = propose_under(&world, "k-1", &body).await.expect(201);
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/charges/*", 1000));
    assert_eq!(propose_under(&world, "k-1", &body).await.expect(201), first);
    let reply = world.propose(World::refund(100)).await.refused(503, "backend_unavailable");
    assert_eq!(reply.headers["retry-after"], "1");
}

#[tokio::test]
async fn a_newer_draft_replaces_an_open_one_of_the_same_client_and_nothing_else() {
    let mut world = World::new().await;
    world.add_client("support-agent", |c| c.id = "other-agent".parse().unwrap()).await;
    let replacing = |old: &str, amount: i64| {
        let mut body = World::refund(amount);
        body["supersedes"] = json!(old);
        body
    };
    let old = world.held_draft().await;
    let foreign = world.call("other-agent", "POST", "/v1/drafts", Some(replacing(&old, 23_000))).await;
    world.denied(&foreign, 409, "supersedes_invalid", "draft.propose_denied", 0).await;
    assert_eq!(world.draft(&old).await["state"], "awaiting_approval");
    let nowhere = world.propose(replacing("drf_0192f0c1a2b37c4d8e5f60718293a4b5", 23_000)).await;
    world.denied(&nowhere, 409, "supersedes_invalid", "draft.propose_denied", 0).await;
    assert_eq!(
        foreign.body["detail"], nowhere.body["detail"],
        "another client's draft looks like none"
    );

    let record = world.record("usr_mia", &old, Decision::Approve).await;
    let new = world.propose(replacing(&old, 23_000)).await.expect(201);
    assert_eq!(new["supersedes"], json!(old));
    assert_eq!(world.draft(&old).await["state"], "superseded");
    let late = world.hand_in(&record).await;
    world.denied(&late, 409, "approval_decided", "approval.record_denied", 0).await;
    let twice = world.propose(replacing(&old, 22_000)).await;
    world.denied(&twice, 409, "supersedes_invalid", "draft.propose_denied", 0).await;
    assert_eq!(twice.body["draft_state"], "superseded");
    let same = world.propose(replacing(id(&new), 23_000)).await.expect(201);
    assert_ne!(id(&same), id(&new), "a proposal may replace its own equal");
}

#[tokio::test]
async fn a_draft_that_is_taken_back_takes_its_approval_and_its_credential_along() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    let path = format!("/v1/drafts/{draft}/withdraw");
    let withdrawn = world.call("support-agent", "POST", &path, None).await.expect(200);
    assert_eq!(
        (&withdrawn["state"], &withdrawn["code"]),
        (&json!("withdrawn"), &json!("withdrawn_by_maker"))
    );
    assert_eq!(
        world.call("support-agent", "POST", &path, None).await.expect(200),
        withdrawn,
        "twice is once"
    );
    world.execute(&token, &draft).await.refused(401, "credential_not_live");
    let refused = world.exchange(&draft).await;
    world
        .denied(&refused, 400, "draft_not_approved", "credential.exchange_denied", 0)
        .await;
    let spent = world.propose(World::refund(4_100)).await.expect(201);
    let token = world.credential(id(&spent)).await;
    world.execute(&token, id(&spent)).await.expect(202);
    let path = format!("/v1/drafts/{}/withdraw", id(&spent));
    world.call("support-agent", "POST", &path, None).await.refused(409, "draft_closed");
}

#[tokio::test]
async fn a_wait_ends_when_people_have_decided_and_never_asks_for_too_long() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let path = format!("/v1/drafts/{draft}?wait=60");
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    let (waited, _) = tokio::join!(world.call("support-agent", "GET", &path, None), world.hand_in(&record));
    assert_eq!(waited.expect(200)["state"], "approved");
    for wrong in ["wait=61", "wait=-1", "wait=x", "wait=1&wait=2", "wiat=1"] {
        let path = format!("/v1/drafts/{draft}?{wrong}");
        world
            .call("support-agent", "GET", &path, None)
            .await
            .refused(400, "parameter_invalid");
    }
}

#[tokio::test]
async fn the_bytes_hash_to_the_draft_s_hash_and_hold_the_request_that_would_be_sent() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let path = format!("/v1/drafts/{draft}/bytes");
    let request = Request::get(&path)
        .header("authorization", world.basic("review-desk"))
        .body(Body::empty());
    let response = tower::ServiceExt::oneshot(world.app.router(), request.unwrap()).await.unwrap();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let card = world.card(&draft).await;
    assert_eq!(DraftHash::of_canonical(&bytes).to_string(), card["draft_hash"].as_str().unwrap());
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    let sent = &document["request"];
    assert_eq!((&sent["method"], &sent["backend"]), (&json!("POST"), &json!("stripe")));
    assert_eq!(sent["url"], format!("{}/v1/refunds", world.sandbox.url));
    let body = sent["body"].as_str().unwrap();
    assert!(body.contains("amount=24000") && body.contains(demo::CHARGE), "{body}");
    assert_eq!(sent["body_sha256"], Digest::of(body.as_bytes()).to_string());
    assert!(!String::from_utf8_lossy(&bytes).contains(world.sandbox.write_key().expose()));
    assert_eq!(serde_json::to_vec(&document).unwrap().len(), bytes.len(), "no space, nothing twice");
}
