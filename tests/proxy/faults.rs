//! Everything the backend can do to a request: in the end there is exactly one effect, or none that anybody claims, under one key.

use std::time::Duration;

use serde_json::{Value, json};
use writ::sandbox::{Fault, FaultKind, RefundStatus, demo};

use super::support::{MINUTE, address_draft, exchanged, held, one_key, sent, until};
use crate::support::world::{Setup, World};

/// A world whose backends are waited for a short time only: a request that hangs is real time.
async fn impatient() -> World {
    let mut edits = Vec::new();
    for (path, total) in [
        ("policies/backends/stripe.toml", "total_timeout   = \"30s\""),
        ("policies/backends/shop.toml", "total_timeout   = \"15s\""),
    ] {
        edits.push((path, "connect_timeout = \"3s\"", "connect_timeout = \"700ms\"".to_owned()));
        edits.push((path, total, "total_timeout = \"700ms\"".to_owned()));
    }
    World::with(Setup { edits, ..Setup::default() }).await
}

/// Faults after which the effect stands, whatever the answer said, and those after which the same request goes again.
const STANDS: [FaultKind; 6] = [
    FaultKind::DropAfter,
    FaultKind::Error500After,
    FaultKind::Hang,
    FaultKind::Truncate,
    FaultKind::Oversize,
    FaultKind::WrongAmount,
];
const GOES_AGAIN: [FaultKind; 5] = [
    FaultKind::DropBefore,
    FaultKind::Error503Before,
    FaultKind::RateLimit,
    FaultKind::InFlight,
    FaultKind::Redirect,
];

#[tokio::test]
async fn a_refund_whose_answer_is_lost_or_wrong_is_found_and_not_sent_again() {
    for kind in STANDS {
        let world = impatient().await;
        let held = held(&world).await;
        world.sandbox.fault(Fault::once(kind, "POST", "/v1/refunds"));
        world.execute(&held.token, &held.draft).await.expect(202);
        let lost = world.execution(&held.draft).await;
        assert!(
            ["indeterminate", "applied"].contains(&lost["state"].as_str().unwrap()),
            "{kind:?} {lost}"
        );
        let execution = until(&world, &held.draft, "applied", 5).await;
        let refunds = world.sandbox.refunds(demo::CHARGE);
        assert_eq!(refunds.len(), 1, "{kind:?}");
        assert_eq!(
            (refunds[0].amount, json!(refunds[0].id)),
            (4_000, execution["reference"].clone()),
            "{kind:?}"
        );
        assert_eq!(world.writes(), 1, "{kind:?}: a look-up was enough");
        one_key(&world, &execution);
    }
}

#[tokio::test]
async fn a_refund_that_was_turned_away_or_never_arrived_goes_again_under_its_key() {
    for kind in GOES_AGAIN {
        let world = World::new().await;
        let held = held(&world).await;
        world.sandbox.fault(Fault::once(kind, "POST", "/v1/refunds"));
        world.execute(&held.token, &held.draft).await.expect(202);
        let execution = until(&world, &held.draft, "applied", 5).await;
        assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1, "{kind:?}");
        assert_eq!(world.writes(), 2, "{kind:?}");
        assert!(sent(&world).iter().all(|r| r.path == "/v1/refunds"), "a redirect was followed");
        one_key(&world, &execution);
    }
}

#[tokio::test]
async fn a_change_of_address_survives_every_fault_with_one_effect() {
    let path = format!("/customers/{}", demo::CUSTOMER);
    for kind in STANDS.into_iter().filter(|k| *k != FaultKind::WrongAmount).chain(GOES_AGAIN) {
        let world = impatient().await;
        let held = exchanged(&world, "support-agent", address_draft(&world).await).await;
        world.sandbox.fault(Fault::once(kind, "PATCH", &path));
        world.execute(&held.token, &held.draft).await.expect(202);
        let execution = until(&world, &held.draft, "applied", 5).await;
        let (version, customer) = world.sandbox.customer(demo::CUSTOMER).unwrap();
        assert_eq!(
            (version, &customer["shipping_address"]["line1"]),
            (2, &json!("7 Hill Road")),
            "{kind:?}"
        );
        assert_eq!(world.writes(), if STANDS.contains(&kind) { 1 } else { 2 }, "{kind:?}");
        one_key(&world, &execution);
    }
}

#[tokio::test]
async fn too_many_requests_is_waited_out_as_long_as_the_answer_asks() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::RateLimit, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["code"], "not_executed");
    assert_eq!(world.later(std::time::Duration::from_millis(999)).await, 0, "Retry-After: 1");
    assert_eq!(world.writes(), 1);
    assert_eq!(world.later(std::time::Duration::from_millis(1)).await, 1);
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
}

#[tokio::test]
async fn a_backend_that_turns_everything_away_has_done_nothing_and_the_state_says_so() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::times(FaultKind::RateLimit, "POST", "/v1/refunds", 100));
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = until(&world, &held.draft, "not_applied", 15).await;
    assert_eq!(execution["code"], "never_executed");
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (4, 0));
    one_key(&world, &execution);
    let again = world.propose(World::refund(4_000)).await.expect(201);
    assert_ne!(again["id"], json!(held.draft), "it is over, so the same may be proposed anew");
}

#[tokio::test]
async fn a_file_that_wants_no_second_try_gets_none() {
    let on = "on              = [\"in_flight\", \"not_executed\"]";
    let world = World::with(Setup::edit(
        "policies/backends/stripe.toml",
        on,
        "on              = [\"in_flight\"]",
    ))
    .await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::RateLimit, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("not_applied"), &json!("too many requests"))
    );
    assert_eq!(world.later(MINUTE).await, 0);
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn a_refusal_by_the_backend_proves_that_nothing_was_done() {
    let world = World::new().await;
    let draft = super::support::refund_on(&world, demo::CHARGE, 10_000, "usd").await;
    let held = exchanged(&world, "support-agent", draft).await;
    world.sandbox.fault(Fault::once(FaultKind::Hold, "POST", "/v1/refunds"));
    let running = world.execute_body(&held.token, json!({ "draft_id": held.draft })).await.expect(202);
    world.sandbox.held(1).await;
    // After the last look at the charge, somebody else refunds all of it.
    refund_all(&world).await;
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["id"], running["id"]);
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("not_applied"), &json!("refused as invalid"))
    );
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1, "only the other one");
    // The approval was for this one attempt at it.
    world.exchange(&held.draft).await.refused(400, "draft_not_approved");
    world.execute(&held.token, &held.draft).await.expect(200);
    assert_eq!(world.writes(), 1);
}

async fn refund_all(world: &World) {
    let body = format!("charge={}&amount=40000", demo::CHARGE);
    world.arrange("POST", "/v1/refunds", &[], &body).await;
}

#[tokio::test]
async fn a_refusal_after_a_lost_attempt_is_never_called_not_applied() {
    for lost in [FaultKind::DropBefore, FaultKind::Error503Before, FaultKind::InFlight] {
        let world = World::new().await;
        let held = held(&world).await;
        world.sandbox.fault(Fault::once(lost, "POST", "/v1/refunds"));
        world.execute(&held.token, &held.draft).await.expect(202);
        refund_all(&world).await;
        let execution = until(&world, &held.draft, "handed_off", 15).await;
        let outcomes: Vec<&Value> = execution["attempts"].as_array().unwrap().iter().map(|a| &a["outcome"]).collect();
        assert!(
            outcomes.contains(&&json!("failed")),
            "{lost:?}: the backend did refuse: {execution}"
        );
        let states: Vec<_> = world.events().await.iter().map(|e| e["state"]["to"].clone()).collect();
        assert!(!states.contains(&json!("not_applied")), "{lost:?}");
        assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1, "only the other one");
    }
}

#[tokio::test]
async fn a_backend_that_never_answers_is_asked_four_times_and_then_handed_to_a_person() {
    let world = World::new().await;
    let held = held(&world).await;
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "POST", "/v1/refunds", 100));
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = until(&world, &held.draft, "handed_off", 20).await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (4, 0));
    assert_eq!(execution["code"], "unresolved");
    one_key(&world, &execution);
    let looked = execution["lookups"].as_array().unwrap();
    assert!(looked.len() > 4 && looked.iter().all(|l| l["finding"] == "absent"), "{execution}");
}

#[tokio::test]
async fn a_look_up_that_cannot_be_read_decides_nothing() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world.sandbox.fault(Fault::once(FaultKind::Error503Before, "GET", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = until(&world, &held.draft, "applied", 5).await;
    // Nor is it a reason to send: the next look found what the first could not read.
    let found: Vec<_> = execution["lookups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["finding"].clone())
        .collect();
    assert_eq!(found, ["inconclusive", "applied"]);
    assert_eq!(world.writes(), 1);
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    one_key(&world, &execution);
}

#[tokio::test]
async fn a_refund_with_this_draft_on_its_label_and_another_amount_is_a_persons_case() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::times(FaultKind::DropBefore, "POST", "/v1/refunds", 1));
    world.execute(&held.token, &held.draft).await.expect(202);
    let key = world.execution(&held.draft).await["idempotency_key"].as_str().unwrap().to_owned();
    let body = format!(
        "charge={}&amount=100&metadata[writ_key]={key}&metadata[writ_draft]={}",
        demo::CHARGE,
        held.draft
    );
    world.arrange("POST", "/v1/refunds", &[], &body).await;
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "POST", "/v1/refunds", 100));
    until(&world, &held.draft, "handed_off", 15).await;
}

#[tokio::test]
async fn no_fault_leads_to_a_second_refund_when_it_strikes_twice_in_a_row() {
    for first in STANDS.into_iter().chain(GOES_AGAIN) {
        let world = impatient().await;
        let held = held(&world).await;
        for kind in [FaultKind::DropBefore, first] {
            world.sandbox.fault(Fault::once(kind, "POST", "/v1/refunds"));
        }
        world.execute(&held.token, &held.draft).await.expect(202);
        let execution = until(&world, &held.draft, "applied", 8).await;
        let refunds = world.sandbox.refunds(demo::CHARGE);
        assert_eq!(refunds.len(), 1, "{first:?}");
        assert_eq!(refunds[0].status, RefundStatus::Succeeded);
        one_key(&world, &execution);
    }
}

#[tokio::test]
async fn what_was_only_turned_away_is_not_sent_after_the_time_of_its_approval() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::times(FaultKind::RateLimit, "POST", "/v1/refunds", 2));
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["code"], "not_executed");
    // The approval can be used for five minutes; the file would try for ten.
    world.later(Duration::from_secs(6 * 60)).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("not_applied"), &json!("execution_window_over"))
    );
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 0));
}

#[tokio::test]
async fn what_was_only_turned_away_is_not_sent_after_the_resource_has_moved() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::RateLimit, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let body = format!("charge={}&amount=1000", demo::CHARGE);
    world.arrange("POST", "/v1/refunds", &headers, &body).await;
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("not_applied"), &json!("resource_changed"))
    );
    assert_eq!(world.writes(), 1);
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1, "the one that was made elsewhere");
}
