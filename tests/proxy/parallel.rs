//! Many at once with one token: one is accepted, one request is on the wire.

use std::collections::BTreeSet;

use serde_json::json;
use writ::sandbox::demo;

use super::support::{held, one_key};
use crate::support::world::{World, execute_request, send};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_redeems_of_one_token_in_one_process_are_one_request() {
    let world = World::new().await;
    let held = held(&world).await;
    let router = world.app.router();
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let router = router.clone();
            let request = execute_request(&held.token, json!({ "draft_id": held.draft }));
            tokio::spawn(async move { send(&router, request).await })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for call in calls {
        let reply = call.await.unwrap();
        assert!([200, 202].contains(&reply.status), "{} {}", reply.status, reply.body);
        ids.insert(reply.body["id"].as_str().unwrap().to_owned());
    }
    world.app.settle().await;
    assert_eq!(ids.len(), 1);
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 1));
    let events = world.event_types().await;
    for once in ["credential.redeem", "draft.consume", "execution.claim", "execution.dispatch"] {
        assert_eq!(events.iter().filter(|t| *t == once).count(), 1, "{once}");
    }
    one_key(&world, &world.execution(&held.draft).await);
}

/// Two credentials for two drafts on one charge, issued while nothing was under way: the first one redeemed keeps the other out until its
/// outcome is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_drafts_on_one_charge_do_not_run_side_by_side() {
    let world = World::new().await;
    let first = held(&world).await;
    let other = super::support::refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    let second = super::support::exchanged(&world, "support-agent", other).await;
    world
        .sandbox
        .fault(writ::sandbox::Fault::once(writ::sandbox::FaultKind::Hold, "POST", "/v1/refunds"));
    world
        .execute_body(&first.token, json!({ "draft_id": first.draft }))
        .await
        .expect(202);
    world.sandbox.held(1).await;
    let body = json!({ "draft_id": second.draft });
    world.execute_body(&second.token, body).await.refused(409, "resource_busy");
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    // The charge has moved under the second one's approval: not even now.
    world.execute(&second.token, &second.draft).await.expect(202);
    assert_eq!(world.execution(&second.draft).await["code"], "resource_changed");
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
}

/// Tenants have their own drafts and people; a charge of the account they share is one charge.
#[tokio::test]
async fn another_tenant_does_not_get_at_a_charge_whose_outcome_is_open_nor_around_the_count() {
    let mut world = World::new().await;
    world
        .add_client("support-agent", |client| {
            client.id = "other-agent".parse().unwrap();
            client.tenant = "other".parse().unwrap();
        })
        .await;
    let theirs = world
        .call(
            "other-agent",
            "POST",
            "/v1/drafts",
            Some(World::refund_of(demo::CHARGE, 3_000, "usd")),
        )
        .await
        .expect(201);
    let first = super::support::held(&world).await;
    let third = world
        .call(
            "other-agent",
            "POST",
            "/v1/drafts",
            Some(World::refund_of(demo::CHARGE_EUR, 3_000, "eur")),
        )
        .await
        .expect(201);
    assert_eq!(
        third["state"], "awaiting_approval",
        "the same customer's third refund today: {third}"
    );
    world.sandbox.fault(writ::sandbox::Fault::once(
        writ::sandbox::FaultKind::DropAfter,
        "POST",
        "/v1/refunds",
    ));
    world.execute(&first.token, &first.draft).await.expect(202);
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", theirs["id"].as_str().unwrap()),
        ("subject_token_type", "urn:writ:token-type:draft"),
    ];
    world.exchange_form("other-agent", &form).await.refused(400, "resource_busy");
}
