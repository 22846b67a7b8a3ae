//! Between the exchange and the first byte: what moved is not touched, what cannot be read is tried again later.

use serde_json::json;
use writ::sandbox::{Fault, FaultKind, demo};

use super::support::{address, address_draft, exchanged, held, refund_on, refused, still_good};
use crate::support::world::World;

#[tokio::test]
async fn a_charge_that_was_refunded_in_between_ends_the_draft_and_nothing_is_sent() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = format!("charge={}&amount=100", demo::CHARGE);
    world.arrange("POST", "/v1/refunds", &[], &body).await;
    let writes = world.writes();
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("aborted"), &json!("resource_changed"))
    );
    assert_eq!(world.writes(), writes);
    let draft = world.app.store.draft(held.draft.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(draft.state.as_str(), "stale");
    refused(&world, &held.token, json!({ "draft_id": held.draft }), 409, "credential_spent").await;
    world.exchange(&held.draft).await.refused(400, "draft_not_approved");
    // A new draft sees the charge as it is now.
    still_good(&world, &exchanged(&world, "support-agent", world.allowed_draft().await).await).await;
}

#[tokio::test]
async fn a_customer_that_was_changed_in_between_is_not_touched() {
    let world = World::new().await;
    let held = exchanged(&world, "support-agent", address_draft(&world).await).await;
    let path = format!("/customers/{}", demo::CUSTOMER);
    let other = "{\"shipping_address\":{\"line1\":\"1 Other\",\"city\":\"Salem\",\"postal_code\":\"97301\",\"country\":\"US\"}}";
    world.arrange("PATCH", &path, &[("if-match", "\"1\"")], other).await;
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["code"], "resource_changed");
    let (version, customer) = world.sandbox.customer(demo::CUSTOMER).unwrap();
    assert_eq!((version, &customer["shipping_address"]["line1"]), (2, &json!("1 Other")));
    world.propose(address()).await.refused(409, "facts_do_not_support");
}

/// After the last look the backend's own If-Match is the guard: the answer is a plain no.
#[tokio::test]
async fn a_customer_that_changes_after_the_last_look_is_guarded_by_the_entity_tag() {
    let world = World::new().await;
    let held = exchanged(&world, "support-agent", address_draft(&world).await).await;
    let path = format!("/customers/{}", demo::CUSTOMER);
    world.sandbox.fault(Fault::once(FaultKind::Hold, "PATCH", &path));
    world.execute_body(&held.token, json!({ "draft_id": held.draft })).await.expect(202);
    world.sandbox.held(1).await;
    world
        .arrange("PATCH", &path, &[("if-match", "\"1\"")], "{\"email\":\"ada@example.net\"}")
        .await;
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("not_applied"), &json!("the customer has changed since"))
    );
    assert_eq!(world.sandbox.customer(demo::CUSTOMER).unwrap().0, 2);
}

#[tokio::test]
async fn a_precondition_that_cannot_be_read_releases_the_draft_and_a_new_exchange_works() {
    for kind in [
        FaultKind::DropBefore,
        FaultKind::Error503Before,
        FaultKind::Truncate,
        FaultKind::Oversize,
        FaultKind::Redirect,
    ] {
        let world = World::new().await;
        let held = held(&world).await;
        world.sandbox.fault(Fault::once(kind, "GET", "/v1/charges/*"));
        world.execute(&held.token, &held.draft).await.expect(202);
        let aborted = world.execution(&held.draft).await;
        assert_eq!(
            (&aborted["state"], &aborted["code"]),
            (&json!("aborted"), &json!("precondition_unreadable")),
            "{kind:?}"
        );
        assert_eq!(world.writes(), 0);
        // The spent credential stays spent; the approval does not.
        refused(&world, &held.token, json!({ "draft_id": held.draft }), 409, "credential_spent").await;
        let again = exchanged(&world, "support-agent", held.draft.clone()).await;
        still_good(&world, &again).await;
        let execution = world.execution(&held.draft).await;
        assert_eq!(execution["id"], aborted["id"], "one execution for each draft");
        assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    }
}

#[tokio::test]
async fn an_exchange_that_cannot_read_the_resource_leaves_the_approval_good() {
    for kind in [FaultKind::DropBefore, FaultKind::Error503Before] {
        let world = World::new().await;
        let draft = refund_on(&world, demo::CHARGE, 4_000, "usd").await;
        world.sandbox.fault(Fault::once(kind, "GET", "/v1/charges/*"));
        world.exchange(&draft).await.refused(503, "backend_unavailable");
        still_good(&world, &exchanged(&world, "support-agent", draft).await).await;
    }
}
