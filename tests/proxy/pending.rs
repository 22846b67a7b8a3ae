//! What the backend has taken and not finished: pending is the truth until it says more, and nothing is sent for it.

use std::time::Duration;

use serde_json::json;
use writ::sandbox::{Fault, FaultKind, RefundStatus, demo};

use super::support::{Held, MINUTE, held, one_key};
use crate::support::world::World;

async fn pending() -> (World, Held, String) {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::Pending, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "pending");
    let refund = world.sandbox.refunds(demo::CHARGE)[0].id.clone();
    assert_eq!(execution["reference"], json!(refund));
    (world, held, refund)
}

#[tokio::test]
async fn a_pending_refund_stays_pending_as_long_as_the_bank_takes() {
    let (world, held, _) = pending().await;
    for _ in 0..3 {
        world.later(MINUTE).await;
        world.later(Duration::from_secs(2 * 3600)).await;
    }
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "pending");
    assert!(!execution["lookups"].as_array().unwrap().is_empty());
    assert_eq!(world.writes(), 1);
    one_key(&world, &execution);
}

#[tokio::test]
async fn a_pending_refund_that_succeeds_is_applied() {
    let (world, held, refund) = pending().await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Succeeded));
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!((&execution["state"], &execution["reference"]), (&json!("applied"), &json!(refund)));
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn a_pending_refund_that_comes_back_is_not_applied_and_may_be_proposed_again() {
    let (world, held, refund) = pending().await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    world.later(MINUTE).await;
    assert_eq!(world.execution(&held.draft).await["state"], "not_applied");
    assert!(world.event_types().await.contains(&"execution.reopen".to_owned()));
    let again = world.propose(World::refund(4_000)).await.expect(201);
    assert_ne!(again["id"], json!(held.draft));
}

#[tokio::test]
async fn a_pending_refund_that_a_list_does_not_show_stays_pending() {
    let (world, held, _) = pending().await;
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 3));
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["lookups"][0]["finding"]),
        (&json!("pending"), &json!("inconclusive"))
    );
}

#[tokio::test]
async fn a_pending_refund_whose_rules_have_changed_goes_to_a_person_and_can_be_resolved() {
    let (mut world, held, _) = pending().await;
    let file = world.path("policies/backends/stripe.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n# one comment more\n")).unwrap();
    world.restart();
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("handed_off"), &json!("adapter_changed"))
    );
    let body = json!({ "outcome": "applied", "evidence": "the provider's dashboard shows it" });
    let resolved = super::support::resolve(&world, "operations", &execution, body).await.expect(200);
    assert_eq!(resolved["state"], "applied");
    assert_eq!(world.writes(), 1);
    let again = world.propose(World::refund(4_000)).await.expect(201);
    assert_ne!(again["id"], json!(held.draft), "the same may be proposed anew");
}

/// One of the two ids is not ours: neither its success nor its failure is.
#[tokio::test]
async fn a_pending_refund_that_a_list_shows_under_another_id_is_a_persons_case() {
    for status in [RefundStatus::Succeeded, RefundStatus::Failed] {
        let (world, held, refund) = pending().await;
        assert!(world.sandbox.settle(&refund, status));
        world.sandbox.fault(Fault::once(FaultKind::OtherId, "GET", "/v1/refunds"));
        world.later(MINUTE).await;
        let execution = world.execution(&held.draft).await;
        assert_eq!(
            (&execution["state"], &execution["code"], &execution["lookups"][0]["finding"]),
            (&json!("handed_off"), &json!("other_reference"), &json!("inconclusive")),
            "{status:?}"
        );
        assert_eq!(execution["reference"], json!(refund), "what was named first is kept");
        assert_eq!(world.writes(), 1);
    }
}
