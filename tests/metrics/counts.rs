//! The numbers: what was done, what waits and for how long, and nothing that a caller wrote.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use writ::config::Config;
use writ::sandbox::{Fault, FaultKind, demo};

use super::{sample, scrape};
use crate::proxy::support::{claimed, held};
use crate::support::world::World;

#[tokio::test]
async fn every_transition_of_a_refund_is_counted_once_with_its_outcome() {
    let world = World::new().await;
    assert_eq!(
        sample(&scrape(&world).await, "writ_events_total{event=\"draft.propose\",outcome=\"ok\"}"),
        None
    );
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    let text = scrape(&world).await;
    for event in [
        "draft.propose",
        "draft.auto_approve",
        "approval.grant_by_policy",
        "credential.issue",
        "credential.redeem",
        "draft.consume",
        "execution.claim",
        "execution.dispatch",
        "execution.confirm_applied",
    ] {
        let named = format!("writ_events_total{{event=\"{event}\",outcome=\"ok\"}}");
        assert_eq!(sample(&text, &named), Some(1.0), "{event} in\n{text}");
    }
    assert_eq!(
        sample(&text, "writ_store_calls_total{transition=\"redeem\",answer=\"applied\"}"),
        Some(1.0),
        "{text}"
    );
    let commits = sample(&text, "writ_store_commit_seconds_count").unwrap();
    assert!(commits >= 5.0, "{commits} commits");
    assert_eq!(sample(&text, "writ_store_commit_seconds_bucket{le=\"+Inf\"}"), Some(commits));
    assert_eq!(sample(&text, "writ_store_queue"), Some(0.0));
}

#[tokio::test]
async fn a_refusal_is_counted_with_its_code_and_not_as_a_transition() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    world.execute("no-token", &draft).await.refused(401, "credential_malformed");
    let text = scrape(&world).await;
    assert_eq!(
        sample(
            &text,
            "writ_denials_total{event=\"credential.use_denied\",code=\"credential_malformed\"}"
        ),
        Some(1.0),
        "{text}"
    );
    assert_eq!(sample(&text, "writ_events_total{event=\"credential.redeem\",outcome=\"ok\"}"), None);
}

#[tokio::test]
async fn what_has_no_known_outcome_is_told_with_its_age_and_its_money() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 1_000));
    world.execute(&token, &draft).await.expect(202);
    world.clock.advance(Duration::from_secs(90));
    let text = scrape(&world).await;
    assert_eq!(
        sample(&text, "writ_executions_unresolved{state=\"indeterminate\"}"),
        Some(1.0),
        "{text}"
    );
    let oldest = "writ_executions_unresolved_oldest_seconds{state=\"indeterminate\"}";
    assert_eq!(sample(&text, oldest), Some(90.0), "{text}");
    assert_eq!(
        sample(&text, "writ_executions_unresolved_minor_units{currency=\"usd\"}"),
        Some(4_000.0)
    );
    assert_eq!(sample(&text, "writ_executions_lost_track_total"), Some(1.0));
    world.later(Duration::from_secs(24 * 3600)).await;
    let text = scrape(&world).await;
    assert_eq!(
        sample(&text, "writ_executions_unresolved{state=\"handed_off\"}"),
        Some(1.0),
        "{text}"
    );
    assert_eq!(sample(&text, "writ_executions_unresolved{state=\"indeterminate\"}"), None);
    // A look begins with taking it over, and nobody died for that.
    assert_eq!(sample(&text, "writ_lease_takeovers_total"), Some(0.0), "{text}");
}

#[tokio::test]
async fn what_a_dead_process_claimed_is_counted_when_it_is_taken_over() {
    let mut world = World::new().await;
    let held = held(&world).await;
    claimed(&world, &held).await;
    world.restart();
    assert_eq!(sample(&scrape(&world).await, "writ_lease_takeovers_total"), Some(0.0));
    world.later(Duration::from_secs(61)).await;
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_lease_takeovers_total"), Some(1.0), "{text}");
}

#[tokio::test]
async fn a_stop_is_told_with_its_age_until_it_is_lifted() {
    let world = World::new().await;
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_stops_in_force"), Some(0.0), "{text}");
    assert_eq!(sample(&text, "writ_stops_in_force_oldest_seconds"), None);
    let body = json!({ "scope": "everything", "reason": "incident 7" });
    let placed = world.call("security", "POST", "/v1/stops", Some(body)).await.expect(201);
    world.clock.advance(Duration::from_secs(90));
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_stops_in_force"), Some(1.0), "{text}");
    assert_eq!(sample(&text, "writ_stops_in_force_oldest_seconds"), Some(90.0));
    let path = format!("/v1/stops/{}/resume", placed["stop"]["id"].as_str().unwrap());
    let body = json!({ "reason": "it is over" });
    world.call("security", "POST", &path, Some(body)).await.expect(200);
    assert_eq!(sample(&scrape(&world).await, "writ_stops_in_force"), Some(0.0));
}

#[tokio::test]
async fn what_waits_for_people_is_told_by_queue() {
    let world = World::new().await;
    world.held_draft().await;
    world.clock.advance(Duration::from_secs(600));
    let text = scrape(&world).await;
    assert_eq!(
        sample(&text, "writ_approvals_waiting{queue=\"finance.refunds\"}"),
        Some(1.0),
        "{text}"
    );
    let oldest = "writ_approvals_waiting_oldest_seconds{queue=\"finance.refunds\"}";
    assert_eq!(sample(&text, oldest), Some(600.0));
    assert_eq!(sample(&text, "writ_drafts_open{state=\"awaiting_approval\"}"), Some(1.0));
}

#[tokio::test]
async fn the_days_of_the_keys_run_down_and_past_the_end() {
    let world = World::new().await;
    let days = |text: &str| sample(text, "writ_expires_seconds{purpose=\"signing_key\"}").map(|seconds| seconds / 86_400.0);
    let before = days(&scrape(&world).await).unwrap();
    world.clock.advance(Duration::from_secs(10 * 86_400));
    let text = scrape(&world).await;
    assert!((before - days(&text).unwrap() - 10.0).abs() < 0.001, "{before}\n{text}");
    assert_eq!(sample(&text, "writ_well{watched=\"signing_key\"}"), Some(1.0));
    world.clock.advance(Duration::from_secs(90 * 86_400));
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_well{watched=\"signing_key\"}"), Some(0.0));
    // What has ended says for how long, and does not vanish from the alarm that waits for it.
    assert!(days(&text).unwrap() < 0.0, "{text}");
    world.clock.advance(Duration::from_secs(30 * 86_400));
    let text = scrape(&world).await;
    assert!(
        sample(&text, "writ_expires_seconds{purpose=\"verifying_key\"}").unwrap() < 0.0,
        "{text}"
    );
}

#[tokio::test]
async fn a_store_that_cannot_commit_is_not_well_and_the_rest_is_still_told() {
    let world = World::new().await;
    world.allowed_draft().await;
    let behind = rusqlite::Connection::open(world.path("data/writ.db")).unwrap();
    behind
        .execute_batch("CREATE TRIGGER full BEFORE UPDATE ON probe BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
        .unwrap();
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_well{watched=\"store\"}"), Some(0.0), "{text}");
    assert_eq!(sample(&text, "writ_drafts_open{state=\"approved\"}"), Some(1.0));
    behind.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(sample(&scrape(&world).await, "writ_well{watched=\"store\"}"), Some(1.0));
}

/// A label with what a caller sent would let anybody fill the memory of whoever keeps the metrics, and read there what others sent.
#[tokio::test]
async fn nothing_that_a_caller_sends_becomes_a_label() {
    let world = World::new().await;
    let mark = "mark5f2c";
    for (method, path) in [
        ("GET", format!("/v1/{mark}")),
        ("GET", format!("/v1/drafts/{mark}")),
        (mark, "/v1/drafts".to_owned()),
        ("GET", format!("/v1/drafts?state={mark}")),
    ] {
        let request = Request::builder().method(method).uri(path);
        world
            .send(
                request
                    .header("authorization", world.basic("support-agent"))
                    .body(Body::empty())
                    .unwrap(),
            )
            .await;
    }
    let mut body = World::refund(4_000);
    body["case_id"] = json!(mark);
    body["reason_code"] = json!(mark);
    world.propose(body).await.expect(201);
    let text = scrape(&world).await;
    for word in [mark, demo::CHARGE, "support-agent", "case-1"] {
        assert!(!text.contains(word), "{word} in\n{text}");
    }
    assert_eq!(
        sample(
            &text,
            "writ_http_requests_total{method=\"GET\",route=\"/v1/drafts/{id}\",status=\"404\"}"
        ),
        Some(1.0),
        "{text}"
    );
    assert_eq!(
        sample(&text, "writ_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}"),
        Some(1.0)
    );
    assert_eq!(
        sample(
            &text,
            "writ_http_requests_total{method=\"other\",route=\"/v1/drafts\",status=\"405\"}"
        ),
        Some(1.0)
    );
}

#[tokio::test]
async fn metrics_are_told_at_their_own_address_only() {
    let world = World::new().await;
    let (app, _) = world.another();
    let (listener, metrics) = (TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await);
    let (listener, metrics) = (listener.unwrap(), metrics.unwrap());
    let main = format!("http://{}", listener.local_addr().unwrap());
    let told = format!("http://{}", metrics.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(app.telling_at(metrics).serve(listener, shutdown.clone()));
    // Another test of this process may have installed it already; either way it is there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().http1_only().build().unwrap();
    let status = async |url: String| client.get(url).send().await.unwrap().status().as_u16();
    assert_eq!(status(format!("{main}/metrics")).await, 404);
    assert_eq!(status(format!("{told}/metrics")).await, 200);
    assert_eq!(status(format!("{told}/v1/drafts")).await, 404);
    shutdown.cancel();
    serving.await.unwrap().unwrap();
}

#[test]
fn an_address_for_metrics_must_be_one_address() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/metrics/config.toml")).unwrap();
    let parse = |text: &str| Config::parse("writ.toml", text, std::path::Path::new("."));
    let good = parse(&text).unwrap();
    assert_eq!(good.broker_metrics.unwrap().to_string(), "127.0.0.1:9464");
    assert_eq!(good.proxy_metrics, None);
    for bad in ["0.0.0.0:9464", "[::]:9464", "metrics"] {
        let mistakes = parse(&text.replace("127.0.0.1:9464", bad)).unwrap_err().to_string();
        assert!(mistakes.contains("broker.metrics_listen"), "{mistakes}");
    }
}

#[tokio::test]
async fn a_clock_that_is_behind_the_store_is_not_well() {
    let world = World::new().await;
    world.allowed_draft().await;
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_well{watched=\"clock\"}"), Some(1.0), "{text}");
    assert!(sample(&text, "writ_disk_free_bytes").unwrap() > 0.0, "{text}");
    world.clock.set_back(Duration::from_secs(3600));
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_well{watched=\"clock\"}"), Some(0.0), "{text}");
}
