//! Two payment servers and the official clients: one server counts every POST, the other honours keys, and so does the sandbox.

use std::sync::Arc;

use serde_json::Value;
use writ::sandbox::{Fault, FaultKind, Sandbox, SandboxConfig, demo};

use crate::support::servers::{Server, localstripe, node_client, python_client, stateful_mock};
use crate::support::{ManualClock, SeededEntropy};

const KEY: &str = "3f6c1f0a-6d1e-8c55-9f43-0a1b2c3d4e5f";

/// Charges 400.00, refunds 120.00 of it twice under one key, and returns what both clients then see. `None` if a peer is missing.
fn refunded_twice(server: &Server) -> Option<(Value, Value)> {
    let charge = server.charge(40_000, "usd");
    for _ in 0..2 {
        let refund = node_client(&server.url, &["refund", &charge, "12000", KEY])?;
        assert_eq!(refund["amount"], 12_000, "{refund}");
    }
    let seen = [
        python_client(&server.url, &["show", &charge])?,
        node_client(&server.url, &["show", &charge])?,
    ];
    let [python, node] = seen;
    Some((python, node))
}

fn refunds(seen: &Value) -> usize {
    seen["refunds"].as_array().unwrap().len()
}

#[test]
fn localstripe_refunds_twice_under_one_key_and_so_counts_what_is_sent() {
    let Some((python, node)) = localstripe().and_then(|server| refunded_twice(&server)) else {
        return;
    };
    assert_eq!((refunds(&python), refunds(&node)), (2, 2));
    assert_eq!(python["charge"]["amount_refunded"], 24_000);
}

#[test]
fn the_stateful_mock_refunds_once_under_one_key() {
    let Some((python, node)) = stateful_mock().and_then(|server| refunded_twice(&server)) else {
        return;
    };
    assert_eq!((refunds(&python), refunds(&node)), (1, 1));
    assert_eq!(node["charge"]["amount_refunded"], 12_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_clients_read_the_sandbox_as_they_read_the_provider() {
    let config = SandboxConfig::new(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(1)));
    let sandbox = Sandbox::start(SandboxConfig {
        write_key: writ::domain::secret::Secret::new("sk_test_peer".to_owned()),
        ..config
    })
    .await
    .unwrap();
    let url = sandbox.url.clone();
    sandbox.fault(Fault::once(FaultKind::InFlight, "POST", "/v1/refunds"));
    let calls = move || {
        let busy = python_client(&url, &["refund", demo::CHARGE, "24000", KEY])?;
        let first = python_client(&url, &["refund", demo::CHARGE, "24000", KEY])?;
        let again = node_client(&url, &["refund", demo::CHARGE, "24000", KEY])?;
        let other = node_client(&url, &["refund", demo::CHARGE, "24001", KEY])?;
        let mismatch = python_client(&url, &["refund", demo::CHARGE, "24001", KEY])?;
        let over = python_client(&url, &["refund", demo::CHARGE, "24001", "another-key"])?;
        let shown = [
            python_client(&url, &["show", demo::CHARGE])?,
            node_client(&url, &["show", demo::CHARGE])?,
        ];
        Some((busy, first, again, [other, mismatch], over, shown))
    };
    let Some((busy, first, again, [other, mismatch], over, [python, node])) = tokio::task::spawn_blocking(calls).await.unwrap() else {
        return;
    };
    assert_eq!(busy["error"]["code"], "idempotency_key_in_use", "{busy}");
    assert_eq!(busy["error"]["status"], 409);
    assert_eq!(first["id"], again["id"]);
    assert_eq!(other["error"]["type"], "StripeIdempotencyError");
    assert_eq!(mismatch["error"]["type"], "IdempotencyError");
    assert_eq!(over["error"]["type"], "InvalidRequestError");
    assert_eq!((refunds(&python), refunds(&node)), (1, 1));
    assert_eq!(python["charge"], node["charge"]);
    assert_eq!(python["charge"]["amount_refunded"], 24_000);
}
