//! Refusals that many calls share, provoked at each of them. Together with the tests of each call they produce everything that the description
//! lists; `tests/documented` counts.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use biscuit_auth::KeyPair;
use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::clock::Clock as _;
use writ::token::{CONTEXT, Grant, KeySet, Verifier};

use crate::support::world::{Reply, World};
use crate::token::support::{CHECK, forge, grant_code};

const ID: &str = "0192f0c1a2b37c4d8e5f60718293a4b5";

/// A call that a client makes: who may make it, who may not, and where there is a body, one of the right shape.
struct Call {
    method: &'static str,
    path: String,
    client: &'static str,
    other: &'static str,
    body: Option<Value>,
}

fn call(method: &'static str, path: &str, client: &'static str, other: &'static str, body: Option<Value>) -> Call {
    let path = path.replace("{id}", ID);
    Call {
        method,
        path,
        client,
        other,
        body,
    }
}

/// Every call that takes JSON or nothing.
fn calls() -> Vec<Call> {
    let reason = || Some(json!({ "reason": "a test" }));
    vec![
        call("POST", "/v1/drafts", "support-agent", "security", Some(World::refund(4_000))),
        call("GET", "/v1/drafts", "support-agent", "", None),
        call("GET", "/v1/drafts/drf_{id}", "support-agent", "", None),
        call("GET", "/v1/drafts/drf_{id}/bytes", "support-agent", "", None),
        call("POST", "/v1/drafts/drf_{id}/withdraw", "support-agent", "security", None),
        call(
            "POST",
            "/v1/approvals",
            "review-desk",
            "support-agent",
            Some(json!({ "record": "a.b.c" })),
        ),
        call("POST", "/v1/approvals/apv_{id}/revoke", "operations", "support-agent", reason()),
        call("GET", "/v1/executions/exe_{id}", "operations", "review-desk", None),
        call(
            "POST",
            "/v1/executions/exe_{id}/resolve",
            "operations",
            "support-agent",
            Some(json!({ "outcome": "applied", "evidence": "seen" })),
        ),
        call("GET", "/v1/handoffs", "operations", "support-agent", None),
        call("GET", "/v1/handoffs/exe_{id}", "operations", "support-agent", None),
        call(
            "POST",
            "/v1/reads",
            "support-agent",
            "security",
            Some(json!({ "operation": "charge.read", "parameters": { "charge": "ch_nobodys" } })),
        ),
        call(
            "POST",
            "/v1/stops",
            "operations",
            "support-agent",
            Some(json!({ "scope": "client", "value": "support-agent", "reason": "a test" })),
        ),
        call("GET", "/v1/stops", "operations", "support-agent", None),
        call("GET", "/v1/stops/stp_{id}", "operations", "support-agent", None),
        call("POST", "/v1/stops/stp_{id}/resume", "operations", "support-agent", reason()),
        call("GET", "/v1/cases/case-none", "support-agent", "", None),
        call("GET", "/v1/audit/events", "security", "support-agent", None),
        call("GET", "/v1/audit/stream", "security", "support-agent", None),
        call("GET", "/v1/audit/proof?seq=0", "security", "support-agent", None),
        call("GET", "/v1/audit/tile/0/999", "security", "support-agent", None),
        call("POST", "/v1/proofs", "prover", "security", Some(super::proofs::report())),
    ]
}

/// The three calls of the token endpoint and beside it.
const FORMS: [&str; 3] = ["/oauth2/token", "/oauth2/revoke", "/oauth2/introspect"];

async fn sent(world: &World, method: &str, path: &str, client: &str, media: &str, body: String) -> Reply {
    let mut request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media);
    if !client.is_empty() {
        request = request.header(header::AUTHORIZATION, world.basic(client));
    }
    world.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn every_call_refuses_strangers_and_clients_without_the_role() {
    let world = World::new().await;
    for call in calls() {
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
        let reply = sent(&world, call.method, &call.path, "", "application/json", body.clone()).await;
        reply.refused(401, "unauthenticated");
        if !call.other.is_empty() {
            let reply = sent(&world, call.method, &call.path, call.other, "application/json", body).await;
            reply.refused(403, "role_missing");
        }
    }
    for path in FORMS {
        let form = "application/x-www-form-urlencoded";
        sent(&world, "POST", path, "", form, String::new())
            .await
            .refused(401, "unauthenticated");
        sent(&world, "POST", path, "review-desk", form, String::new())
            .await
            .refused(400, "role_missing");
    }
}

#[tokio::test]
async fn every_body_is_refused_that_is_too_long_of_another_type_or_no_json() {
    let world = World::new().await;
    let long = " ".repeat(writ::http::MAX_BODY + 1);
    for call in calls().into_iter().filter(|call| call.body.is_some()) {
        let send = |media: &'static str, body: String| sent(&world, call.method, &call.path, call.client, media, body);
        send("application/json", long.clone()).await.refused(413, "body_too_large");
        send("text/plain", "{}".to_owned()).await.refused(415, "media_type_unsupported");
        send("application/json", "{\"a\":1,\"a\":1}".to_owned())
            .await
            .refused(400, "json_invalid");
    }
    for path in FORMS {
        let send = |media: &'static str, body: String| sent(&world, "POST", path, "support-agent", media, body);
        let form = "application/x-www-form-urlencoded";
        send(form, long.clone()).await.refused(413, "body_too_large");
        send("application/json", "{}".to_owned())
            .await
            .refused(415, "media_type_unsupported");
        send(form, "token=a&token=b".to_owned()).await.refused(400, "parameter_invalid");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_what_is_not_asked_for_is_refused() {
    let world = World::new().await;
    for call in calls() {
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
        let about_one = call.path.contains(ID) || call.path.ends_with("none") || call.path.contains("/tile/") || call.path == "/v1/reads";
        if about_one {
            let reply = sent(&world, call.method, &call.path, call.client, "application/json", body).await;
            reply.refused(404, "not_found");
        } else if call.method == "GET" {
            let path = format!("{}?surprise=1", call.path);
            sent(&world, "GET", &path, call.client, "", body)
                .await
                .refused(400, "parameter_invalid");
        }
    }
    for path in ["/v1/drafts/drf_", "/v1/executions/exe_"] {
        let path = format!("{path}{ID}?wait=61");
        sent(&world, "GET", &path, "operations", "", String::new())
            .await
            .refused(400, "parameter_invalid");
    }
}

#[tokio::test]
async fn a_store_that_answers_nothing_is_told_at_every_call_and_says_nothing_of_itself() {
    let world = World::new().await;
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch("ALTER TABLE client RENAME TO gone").unwrap();
    let mut replies = Vec::new();
    for call in calls() {
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
        replies.push(sent(&world, call.method, &call.path, call.client, "application/json", body).await);
    }
    for path in FORMS {
        replies.push(
            sent(
                &world,
                "POST",
                path,
                "support-agent",
                "application/x-www-form-urlencoded",
                String::new(),
            )
            .await,
        );
    }
    for reply in replies {
        let reply = reply.refused(503, "store_unavailable");
        assert_eq!(reply.headers["retry-after"], "1");
        assert!(
            !reply.body.to_string().contains("gone") && !reply.body.to_string().contains("table"),
            "{}",
            reply.body
        );
    }
}

/// Four seconds: more than the store tolerates, less than the clocks of two processes may differ.
#[tokio::test]
async fn a_clock_behind_is_told_wherever_something_would_begin() {
    let world = World::new().await;
    world.clock.advance(Duration::from_secs(60));
    let approved = world.allowed_draft().await;
    let token = world.credential(&approved).await;
    let other = world.propose(World::refund(4_100)).await.expect(201)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let held = world.held_draft().await;
    let record = world.record("usr_mia", &held, Decision::Approve).await;
    world.clock.set_back(Duration::from_secs(4));
    world.propose(World::refund(4_200)).await.refused(503, "clock_behind");
    world.exchange(&other).await.refused(503, "clock_behind");
    world.hand_in(&record).await.refused(503, "clock_behind");
    let body = json!({ "draft_id": approved });
    world.execute_body(&token, body.clone()).await.refused(503, "clock_behind");
    assert_eq!(world.writes(), 0);
    world.clock.set_back(Duration::from_secs(2 * 86_400));
    world.execute_body(&token, body).await.refused(401, "credential_key_not_yet_valid");
}

#[tokio::test]
async fn a_key_outside_its_time_signs_nothing_at_either_door() {
    let mut world = World::new().await;
    let (now, minute) = (world.clock.now(), Duration::from_secs(60));
    world
        .add_approver("usr_mia", "usr_early", |entry| entry.keys[0].not_before = now.plus(minute * 60))
        .await;
    world
        .add_approver("usr_mia", "usr_late", |entry| entry.keys[0].not_after = Some(now.plus(minute)))
        .await;
    let draft = world.held_draft().await;
    world.clock.advance(minute);
    for (approver, code) in [("usr_early", "record_key_not_yet_valid"), ("usr_late", "record_key_expired")] {
        let record = world.record(approver, &draft, Decision::Approve).await;
        world.hand_in(&record).await.refused(403, code);
        world.refused_at_the_exchange(&record, code).await;
    }
    world.hand_in("W10.e30.AA").await.refused(400, "record_header_malformed");
    world.refused_at_the_exchange("W10.e30.AA", "record_header_malformed").await;
}

#[tokio::test]
async fn an_execution_is_refused_for_what_is_wrong_with_the_call() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    let bearer = format!("Bearer {token}");
    let send = |path: &'static str, media: &'static str, body: String| {
        let request = Request::post(path)
            .header(header::AUTHORIZATION, &bearer)
            .header(header::CONTENT_TYPE, media);
        world.send(request.body(Body::from(body)).unwrap())
    };
    let body = json!({ "draft_id": draft }).to_string();
    send("/v1/executions?wait=61", "application/json", body.clone())
        .await
        .refused(400, "parameter_invalid");
    send("/v1/executions", "text/plain", body.clone())
        .await
        .refused(415, "media_type_unsupported");
    send("/v1/executions", "application/json", " ".repeat(writ::http::MAX_BODY + 1))
        .await
        .refused(413, "body_too_large");
    send(
        "/v1/executions",
        "application/json",
        json!({ "draft_id": format!("drf_{ID}") }).to_string(),
    )
    .await
    .refused(404, "not_found");
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch("ALTER TABLE draft RENAME TO gone").unwrap();
    send("/v1/executions", "application/json", body)
        .await
        .refused(503, "store_unavailable");
    assert_eq!(world.writes(), 0);
}

/// Tokens that only whoever holds the root key could make.
#[tokio::test]
async fn a_token_that_the_root_key_signed_is_still_no_credential_unless_it_is_exactly_one() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    let keys = KeySet::from_json(&std::fs::read(world.path("keys/credential-keys.json")).unwrap()).unwrap();
    let verifier = Verifier::new(keys, world.config.proxy_audience.clone());
    let signed = verifier.read(&token, world.clock.now()).unwrap();
    let (good, kid) = (signed.grant().clone(), signed.kid().number());
    let pem = std::fs::read_to_string(world.path(&format!("keys/credential-{kid}.pem"))).unwrap();
    let root = KeyPair::from_private_key_pem(&pem).unwrap();
    let code = |grant: &Grant| format!("{} {CHECK}", grant_code(grant));
    let endless = Grant {
        expires_at: good.expires_at.plus(Duration::from_secs(3_600)),
        ..good.clone()
    };
    for (context, code, refusal, status) in [
        (None, code(&good), "credential_context_wrong", 401),
        (Some(CONTEXT), "nothing(1);".to_owned(), "credential_grant_malformed", 401),
        (Some(CONTEXT), code(&endless), "credential_lifetime_too_long", 401),
        (
            Some(CONTEXT),
            format!("{} check if nothing(1);", code(&good)),
            "credential_checks_failed",
            403,
        ),
    ] {
        let token = forge(&root, Some(kid), context, &code);
        world
            .execute_body(&token, json!({ "draft_id": draft }))
            .await
            .refused(status, refusal);
    }
    assert_eq!(world.writes(), 0);
    world.execute(&token, &draft).await.expect(202);
}
