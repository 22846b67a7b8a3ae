//! A prover's report at the broker: who may hand one in, what is refused, and the one event that comes of it.

use serde_json::{Value, json};
use writ::domain::digest::Digest;

use crate::metrics::{sample, scrape};
use crate::support::world::World;

/// A report of a run in which everything held.
pub fn report() -> Value {
    json!({ "report_sha256": Digest::of(b"a report"), "passed": 40, "failed": 0, "passed_through": 0, "not_applicable": 2 })
}

fn with(member: &str, value: Value) -> Value {
    let mut body = report();
    body[member] = value;
    body
}

/// Every event of a report that is in the log.
async fn reported(world: &World) -> Vec<Value> {
    let events = world.app.store.events(0, 1_000).await.unwrap();
    let events = events.iter().map(|event| serde_json::from_slice::<Value>(&event.bytes).unwrap());
    events.filter(|event| event["type"] == "proof.reported").collect()
}

#[tokio::test]
async fn only_a_prover_reports_proofs() {
    let world = World::new().await;
    for client in ["support-agent", "review-desk", "security", "operations"] {
        let reply = world.call(client, "POST", "/v1/proofs", Some(report())).await;
        reply.refused(403, "role_missing");
    }
    for path in ["/v1/audit/events", "/v1/handoffs", "/v1/stops"] {
        world.call("prover", "GET", path, None).await.refused(403, "role_missing");
    }
    assert_eq!(reported(&world).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_report_without_a_hash_or_with_counts_that_cannot_be_is_not_written_down() {
    let world = World::new().await;
    for (member, value) in [
        ("report_sha256", json!("")),
        ("report_sha256", json!("AAAA")),
        ("passed", json!(10_001)),
        ("failed", json!(-1)),
        ("passed_through", json!(1)),
        ("not_applicable", json!("2")),
        ("note", json!("free text has no place in the log")),
    ] {
        let reply = world.call("prover", "POST", "/v1/proofs", Some(with(member, value))).await;
        reply.refused(400, "json_invalid");
    }
    assert_eq!(reported(&world).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_report_is_one_event_with_its_counts_and_its_hash_and_a_failed_one_says_so() {
    let world = World::new().await;
    let text = scrape(&world).await;
    for outcome in ["ok", "failed"] {
        // There from the start, so that the first failure is an increase.
        let named = format!("writ_proofs_total{{outcome=\"{outcome}\"}}");
        assert_eq!(sample(&text, &named), Some(0.0), "{text}");
    }
    let told = world.call("prover", "POST", "/v1/proofs", Some(report())).await.expect(201);
    assert_eq!(told, json!({ "outcome": "ok" }));
    let body = json!({ "report_sha256": Digest::of(b"another"), "passed": 39, "failed": 2, "passed_through": 1, "not_applicable": 1 });
    let told = world.call("prover", "POST", "/v1/proofs", Some(body)).await.expect(201);
    assert_eq!(told, json!({ "outcome": "failed" }));
    let events = reported(&world).await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["outcome"], "ok");
    assert_eq!(events[0]["content_sha256"], json!(Digest::of(b"a report")));
    assert_eq!(events[1]["outcome"], "failed");
    let counts = json!({ "passed": 39, "failed": 2, "passed_through": 1, "not_applicable": 1 });
    assert_eq!(events[1]["proof"], counts);
    assert_eq!(events[1]["actor"], json!({ "kind": "client", "id": "prover" }));
    assert_eq!(events[1]["tenant"], "main");
    let text = scrape(&world).await;
    assert_eq!(sample(&text, "writ_proofs_total{outcome=\"ok\"}"), Some(1.0), "{text}");
    assert_eq!(sample(&text, "writ_proofs_total{outcome=\"failed\"}"), Some(1.0), "{text}");
}
