//! What only a person can find out: nothing more is sent, the resource is kept, and the operator's word with its evidence ends it.

use std::time::Duration;

use serde_json::{Value, json};
use writ::sandbox::{Fault, FaultKind, demo};
use writ::store::Rejection;
use writ::store::StoreError;
use writ::store::intent::{Resolution, Resolve};

use super::support::{Held, MINUTE, exchanged, held, one_key, refund_on, resolve, still_good, until};
use crate::support::world::World;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A refund whose answer was lost, at a backend whose list cannot be read, a day later. `effect`: whether it was made.
pub async fn handed_off(lost: FaultKind) -> (World, Held, Value) {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(lost, "POST", "/v1/refunds"));
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 1_000));
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["state"], "indeterminate");
    let reads = world.sandbox.requests().len();
    world.later(DAY).await;
    assert!(world.sandbox.requests().len() > reads, "it was looked up");
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "handed_off", "{execution}");
    (world, held, execution)
}

#[tokio::test]
async fn past_the_window_nothing_is_sent_it_is_looked_up_and_handed_off() {
    for (lost, refunds) in [(FaultKind::DropAfter, 1), (FaultKind::DropBefore, 0)] {
        let (world, held, execution) = handed_off(lost).await;
        for _ in 0..3 {
            world.later(DAY).await;
        }
        assert_eq!(world.execution(&held.draft).await["state"], "handed_off");
        assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, refunds));
        one_key(&world, &execution);
    }
}

#[tokio::test]
async fn past_the_window_a_refund_that_is_in_the_list_is_applied() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    world.later(DAY).await;
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 1));
}

#[tokio::test]
async fn only_an_operator_with_evidence_resolves_it() {
    let (world, _held, execution) = handed_off(FaultKind::DropAfter).await;
    let finding = json!({ "outcome": "applied", "evidence": "seen in the dashboard", "reference": "re_seen" });
    for client in ["support-agent", "review-desk", "security"] {
        resolve(&world, client, &execution, finding.clone())
            .await
            .refused(403, "role_missing");
    }
    for bad in [
        json!({ "outcome": "applied" }),
        json!({ "outcome": "applied", "evidence": "  " }),
        json!({ "outcome": "applied", "evidence": "x".repeat(1001) }),
        json!({ "outcome": "applied", "evidence": "seen \u{202e}not" }),
        json!({ "outcome": "failed", "evidence": "seen" }),
    ] {
        resolve(&world, "operations", &execution, bad).await.refused(400, "json_invalid");
    }
    let resolved = resolve(&world, "operations", &execution, finding.clone()).await.expect(200);
    assert_eq!((&resolved["state"], &resolved["reference"]), (&json!("applied"), &json!("re_seen")));
    resolve(&world, "operations", &execution, finding)
        .await
        .refused(409, "execution_not_open");
    let record = world
        .app
        .store
        .execution(execution["id"].as_str().unwrap().parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.evidence.as_deref(), Some("seen in the dashboard"));
    let events = world.events().await;
    let event = events.iter().find(|e| e["type"] == "execution.resolve_applied").unwrap();
    assert_eq!(
        (&event["actor"]["id"], &event["provider"]["reference"]),
        (&json!("operations"), &json!("re_seen"))
    );
}

#[tokio::test]
async fn what_is_applied_is_not_taken_back_on_a_person_s_word() {
    let world = World::new().await;
    let held = held(&world).await;
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    for outcome in ["applied", "not_applied"] {
        let finding = json!({ "outcome": outcome, "evidence": "the bank sent it back" });
        resolve(&world, "operations", &execution, finding)
            .await
            .refused(409, "execution_not_open");
    }
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
}

#[tokio::test]
async fn while_it_is_unresolved_the_open_draft_comes_back_and_the_charge_is_kept() {
    let (world, held, execution) = handed_off(FaultKind::DropBefore).await;
    let same = world.propose(World::refund(4_000)).await;
    assert_eq!(same.body["id"], json!(held.draft), "no second card: {}", same.body);
    world.exchange(&held.draft).await.refused(400, "draft_not_approved");
    let other = refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    world.exchange(&other).await.refused(400, "resource_busy");
    let elsewhere = exchanged(&world, "support-agent", refund_on(&world, demo::CHARGE_OTHER, 3_900, "usd").await).await;
    still_good(&world, &elsewhere).await;

    let finding = json!({ "outcome": "not_applied", "evidence": "not in the dashboard" });
    resolve(&world, "operations", &execution, finding).await.expect(200);
    still_good(&world, &exchanged(&world, "support-agent", other).await).await;
    let anew = world.propose(World::refund(4_000)).await.expect(201);
    assert_ne!(anew["id"], json!(held.draft));
    let sent = super::support::sent(&world);
    let keys: std::collections::BTreeSet<_> = sent.iter().map(|r| r.idempotency_key.clone()).collect();
    assert_eq!(keys.len(), sent.len(), "another draft, another key");
}

/// The effect stands and takes up the charge: the facts alone would refuse the same proposal, and so make it look like a new case.
#[tokio::test]
async fn the_open_draft_comes_back_even_when_its_own_effect_would_forbid_it_now() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, writ::domain::approval::Decision::Approve).await;
    world.hand_in(&record).await.expect(200);
    let held = exchanged(&world, "support-agent", draft).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["state"], "indeterminate");
    let same = world.propose(World::refund(24_000)).await.body;
    assert_eq!(same["id"], json!(held.draft), "{same}");
    // And while the backend cannot be read at all.
    world.sandbox.fault(Fault::times(FaultKind::DropBefore, "GET", "/v1/charges/*", 1));
    let same = world.propose(World::refund(24_000)).await.body;
    assert_eq!(same["id"], json!(held.draft), "{same}");
    until(&world, &held.draft, "applied", 3).await;
    world.propose(World::refund(24_000)).await.refused(503, "backend_unavailable");
    world.propose(World::refund(24_000)).await.refused(409, "facts_do_not_support");
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn a_resolution_through_the_store_is_the_last_word_also_for_a_proxy_that_comes_back() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropBefore, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.app.store.execution_of(held.draft.parse().unwrap()).await.unwrap().unwrap();
    let resolve = Resolve {
        execution: execution.id,
        resolution: Resolution::NotApplied,
        evidence: "asked the provider".to_owned(),
        reference: None,
    };
    world.app.store.resolve(world.op(), resolve.clone()).await.unwrap();
    let again = world.app.store.resolve(world.op(), resolve).await;
    assert!(matches!(again, Err(StoreError::Rejected(Rejection::ExecutionIs(_)))), "{again:?}");
    for _ in 0..3 {
        assert_eq!(world.later(MINUTE).await, 0);
    }
    world.execute(&held.token, &held.draft).await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 0));
}
