//! Who calls too often, or fails too often, is told so and does not fill the log.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use writ::domain::clock::Clock as _;
use writ::domain::secret::Secret;
use writ::sandbox::{Fault, FaultKind, event_signature};

use crate::support::listening::Listening;
use crate::support::world::{Reply, Setup, World};

async fn limited(lines: &str) -> World {
    World::with(Setup::edit("writ.toml", "[proxy]\n", &format!("[limits]\n{lines}\n[proxy]\n"))).await
}

/// The `rate.limited` events' counts.
async fn counts(world: &World) -> Vec<u64> {
    let events = world.events().await;
    let limited = events.iter().filter(|event| event["type"] == "rate.limited");
    limited.map(|event| event["count"].as_u64().unwrap()).collect()
}

async fn list(world: &World, client: &str) -> Reply {
    world.call(client, "GET", "/v1/drafts", None).await
}

#[tokio::test]
async fn a_client_that_calls_too_often_is_told_when_to_come_back_and_no_other_is() {
    let world = limited("client_rate = 30\nclient_burst = 5").await;
    for _ in 0..5 {
        list(&world, "support-agent").await.expect(200);
    }
    for _ in 0..10 {
        let reply = list(&world, "support-agent").await.refused(429, "rate_limited");
        assert_eq!(reply.headers["retry-after"], "2");
        assert_eq!(reply.headers["content-type"], "application/problem+json");
    }
    let oauth = world
        .exchange("drf_0192f0c1a2b37c4d8e5f60718293a4b5")
        .await
        .refused(429, "rate_limited");
    assert_eq!(oauth.body["error"], "temporarily_unavailable");
    list(&world, "review-desk").await.expect(200);
    assert_eq!(counts(&world).await, [1], "eleven refusals are one event");
    world.clock.advance(Duration::from_secs(1));
    list(&world, "support-agent").await.refused(429, "rate_limited");
    world.clock.advance(Duration::from_secs(1));
    list(&world, "support-agent").await.expect(200);
    // The next refusal a minute later tells of all that were only counted.
    world.clock.advance(Duration::from_secs(60));
    while list(&world, "support-agent").await.status == 200 {}
    assert_eq!(counts(&world).await, [1, 12]);
    let events = world.events().await;
    let told = events.iter().rfind(|event| event["type"] == "rate.limited").unwrap();
    assert_eq!(
        (&told["actor"]["id"], &told["code"]),
        (&json!("support-agent"), &json!("rate_limited"))
    );
    assert_eq!(told["tenant"], "main", "other tenants' auditors do not see it");
}

#[tokio::test]
async fn failed_authentications_do_not_fill_the_log_and_lock_nobody_out() {
    let world = limited("failure_rate = 1\nfailure_burst = 5").await;
    let wrong = || {
        let request = Request::get("/v1/drafts").header(header::AUTHORIZATION, "Basic c3VwcG9ydC1hZ2VudDp4");
        world.send(request.body(Body::empty()).unwrap())
    };
    let before = world.events().await.len();
    for _ in 0..5 {
        wrong().await.refused(401, "unauthenticated");
    }
    for _ in 0..200 {
        let reply = wrong().await.refused(429, "rate_limited");
        assert_eq!(reply.headers["retry-after"], "60");
    }
    assert_eq!(
        world.events().await.len() - before,
        6,
        "five failures, and one event for the two hundred"
    );
    list(&world, "support-agent").await.expect(200);
    world.clock.advance(Duration::from_secs(61));
    wrong().await.refused(401, "unauthenticated");
    wrong().await.refused(429, "rate_limited");
    assert_eq!(counts(&world).await, [1, 200]);
}

#[tokio::test]
async fn refused_credentials_do_not_fill_the_log_and_a_good_one_is_spent_all_the_same() {
    let world = limited("failure_rate = 1\nfailure_burst = 5").await;
    let draft = world.allowed_draft().await;
    let good = world.credential(&draft).await;
    let before = world.events().await.len();
    let forged = |token: &'static str| world.execute_body(token, json!({ "draft_id": draft }));
    for _ in 0..5 {
        forged("AAAA").await.refused(401, "credential_malformed");
    }
    for _ in 0..200 {
        forged("AAAA").await.refused(429, "rate_limited");
    }
    let none = Request::post("/v1/executions")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json!({ "draft_id": draft }).to_string()));
    world.send(none.unwrap()).await.refused(429, "rate_limited");
    assert_eq!(world.events().await.len() - before, 6);
    assert_eq!(world.writes(), 0);
    world.execute(&good, &draft).await.expect(202);
    let execution: Value = world.execution(&draft).await;
    assert_eq!((execution["state"].as_str(), world.writes()), (Some("applied"), 1));
}

/// Tries a secret that is wrong.
async fn wrong(world: &World) -> Reply {
    let request = Request::get("/v1/drafts").header(header::AUTHORIZATION, "Basic c3VwcG9ydC1hZ2VudDp4");
    world.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_credential_of_ours_is_refused_in_its_own_words_whatever_strangers_do() {
    let world = limited("all_failures_rate = 1\nall_failures_burst = 5").await;
    let first = world.allowed_draft().await;
    let second = world.propose(World::refund(3_000)).await.expect(201)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let credential = world.credential(&first).await;
    for _ in 0..5 {
        wrong(&world).await.refused(401, "unauthenticated");
    }
    wrong(&world).await.refused(429, "rate_limited");
    let elsewhere = world.execute_body(&credential, json!({ "draft_id": second })).await;
    world
        .denied(&elsewhere, 403, "credential_draft_mismatch", "credential.use_denied", 0)
        .await;
    world.clock.advance(Duration::from_secs(301));
    let late = world.execute_body(&credential, json!({ "draft_id": first })).await;
    world.denied(&late, 401, "credential_expired", "credential.use_denied", 0).await;
}

#[tokio::test]
async fn a_credential_that_is_refused_too_often_is_told_so_and_no_other_is() {
    let world = limited("failure_rate = 1\nfailure_burst = 5").await;
    let (first, charge) = (world.allowed_draft().await, world.charge(9_000, "usd").await);
    let second = world.propose(World::refund_of(&charge, 4_100, "usd")).await.expect(201);
    let second = second["id"].as_str().unwrap().to_owned();
    let (one, other) = (world.credential(&first).await, world.credential(&second).await);
    for _ in 0..5 {
        let reply = world.execute_body(&one, json!({ "draft_id": second })).await;
        assert_eq!(reply.code(), "credential_resource_mismatch");
    }
    let before = world.events().await.len();
    for _ in 0..50 {
        let reply = world
            .execute_body(&one, json!({ "draft_id": second }))
            .await
            .refused(429, "rate_limited");
        assert_eq!(reply.headers["retry-after"], "60");
    }
    let events = world.events().await;
    assert_eq!(events.len() - before, 1);
    let told = events.last().unwrap();
    assert_eq!((&told["type"], &told["tenant"]), (&json!("rate.limited"), &json!("main")));
    let reply = world.execute_body(&other, json!({ "draft_id": first })).await;
    assert_eq!(
        reply.code(),
        "credential_resource_mismatch",
        "another credential has a count of its own"
    );
    wrong(&world).await.refused(401, "unauthenticated");
    world.execute(&one, &first).await.expect(202);
}

#[tokio::test]
async fn what_nobody_is_to_blame_for_is_not_counted_against_whoever_is_told_so() {
    let world = limited("failure_rate = 1\nfailure_burst = 3").await;
    let draft = world.allowed_draft().await;
    let credential = world.credential(&draft).await;
    let stop = json!({ "scope": "operation", "value": "refund.*", "reason": "looking" });
    let stop = world.call("security", "POST", "/v1/stops", Some(stop)).await.expect(201);
    let before = world.events().await.len();
    for _ in 0..20 {
        let reply = world.execute_body(&credential, json!({ "draft_id": draft })).await;
        reply.refused(409, "stopped");
    }
    assert_eq!(
        world.events().await.len() - before,
        4,
        "three refusals, and one event for the others"
    );
    for _ in 0..3 {
        wrong(&world).await.refused(401, "unauthenticated");
    }
    let path = format!("/v1/stops/{}/resume", stop["stop"]["id"].as_str().unwrap());
    let lifted = world
        .call("security", "POST", &path, Some(json!({ "reason": "all is well" })))
        .await;
    lifted.expect(200);
    for _ in 0..3 {
        let reply = world
            .execute_body(&credential, json!({ "draft_id": "drf_0192f0c1a2b37c4d8e5f60718293a4b5" }))
            .await;
        world.denied(&reply, 404, "not_found", "credential.use_denied", 0).await;
    }
    world.execute(&credential, &draft).await.expect(202);
}

#[tokio::test]
async fn a_spent_credential_is_its_holders_fault_and_the_time_is_nobodys() {
    let world = limited("failure_rate = 1\nfailure_burst = 3").await;
    let draft = world.allowed_draft().await;
    let spent = world.credential(&draft).await;
    world.sandbox.fault(Fault::once(FaultKind::DropBefore, "GET", "/v1/charges/*"));
    world.execute(&spent, &draft).await.expect(202);
    for _ in 0..3 {
        let reply = world.execute(&spent, &draft).await;
        world.denied(&reply, 409, "credential_spent", "credential.use_denied", 0).await;
    }
    let again = world.credential(&draft).await;
    for _ in 0..3 {
        world.execute(&spent, &draft).await.refused(429, "rate_limited");
    }
    world.clock.advance(Duration::from_secs(301));
    for _ in 0..20 {
        world.execute(&again, &draft).await.refused(401, "credential_expired");
    }
    let denied = world
        .events()
        .await
        .into_iter()
        .filter(|event| event["type"] == "credential.use_denied");
    assert_eq!(denied.count(), 6, "three of each; the others are counted");
}

#[tokio::test]
async fn a_call_that_cannot_be_read_counts_as_any_other_that_is_refused() {
    let world = limited("failure_rate = 1\nfailure_burst = 3").await;
    let draft = world.allowed_draft().await;
    let credential = world.credential(&draft).await;
    let broken = |token: &str| {
        let request = Request::post("/v1/executions")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::CONTENT_TYPE, "application/json");
        world.send(request.body(Body::from("{")).unwrap())
    };
    for _ in 0..3 {
        let reply = broken("AAAA").await;
        world.denied(&reply, 401, "credential_malformed", "credential.use_denied", 0).await;
        let reply = broken(&credential).await;
        world.denied(&reply, 400, "json_invalid", "credential.use_denied", 0).await;
        let told = world.events().await.pop().unwrap();
        assert!(told["credential"]["id"].is_string(), "{told}");
    }
    for token in ["AAAA", &credential] {
        broken(token).await.refused(429, "rate_limited");
    }
    world.execute(&credential, &draft).await.expect(202);
}

#[tokio::test]
async fn failures_from_everywhere_are_told_as_that_and_no_address_is_blamed_for_them() {
    let world = limited("all_failures_rate = 1\nall_failures_burst = 2").await;
    for _ in 0..2 {
        wrong(&world).await.refused(401, "unauthenticated");
    }
    wrong(&world).await.refused(429, "rate_limited");
    let told = world.events().await.pop().unwrap();
    assert_eq!(
        (&told["type"], &told["subject"]),
        (&json!("rate.limited"), &json!("everywhere")),
        "{told}"
    );
}

#[tokio::test]
async fn refusals_that_cannot_be_written_down_are_counted_on() {
    let world = limited("client_rate = 1\nclient_burst = 1").await;
    list(&world, "support-agent").await.expect(200);
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch("CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'full'); END")
        .unwrap();
    for _ in 0..3 {
        list(&world, "support-agent").await.refused(429, "rate_limited");
    }
    file.execute_batch("DROP TRIGGER full").unwrap();
    world.clock.advance(Duration::from_secs(60));
    list(&world, "support-agent").await.expect(200);
    list(&world, "support-agent").await.refused(429, "rate_limited");
    assert_eq!(counts(&world).await, [4], "three of them while nothing could be written");
}

/// Delivers these bytes as an event of the backend's, signed with this secret.
async fn deliver(world: &World, secret: &Secret, body: &str) -> Reply {
    let signature = event_signature(secret, world.clock.now(), body);
    let request = Request::post("/v1/webhooks/stripe").header("stripe-signature", signature);
    world.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn events_that_nobody_signed_do_not_fill_the_log_and_signed_ones_are_taken_all_the_same() {
    let world = limited("failure_rate = 1\nfailure_burst = 5").await;
    let ours = Secret::new(std::fs::read_to_string(world.path("secrets/stripe-webhook")).unwrap());
    let forged = Secret::new("whsec_0123456789abcdef".to_owned());
    let before = world.events().await.len();
    for _ in 0..5 {
        let reply = deliver(&world, &forged, "{}").await;
        world
            .denied(&reply, 400, "event_signature_invalid", "backend.event_denied", 0)
            .await;
    }
    for _ in 0..200 {
        let reply = deliver(&world, &forged, "{}").await.refused(429, "rate_limited");
        assert_eq!(reply.headers["retry-after"], "60");
    }
    assert_eq!(world.events().await.len() - before, 6);
    // What the backend signed keeps its own code, and a count of its own.
    for _ in 0..20 {
        deliver(&world, &ours, "{}").await.refused(400, "event_malformed");
    }
    assert_eq!(world.events().await.len() - before, 12);
    let told = world.events().await;
    let told = told.last().unwrap();
    assert_eq!((&told["type"], &told["subject"]), (&json!("rate.limited"), &json!("stripe")));
    let event = json!({ "id": "evt_1", "type": "customer.created" }).to_string();
    assert_eq!(deliver(&world, &ours, &event).await.expect(200)["finding"], "ignored");
}

#[tokio::test]
async fn refusals_that_were_only_counted_are_written_down_when_the_process_ends() {
    let mut served = Listening::with("", "failure_rate = 1\nfailure_burst = 5").await;
    let head = "GET /v1/drafts HTTP/1.1\r\nauthorization: Basic c3VwcG9ydC1hZ2VudDp4";
    for _ in 0..15 {
        served.http1(None, head, "").await.unwrap();
    }
    served.ended().await;
    assert_eq!(counts(&served.world).await, [1, 9]);
}
