//! The store takes some steps and refuses others: what is not in the log does not happen, and what has happened is found again.

use serde_json::json;
use writ::sandbox::demo;

use super::support::{MINUTE, held, one_key, refused, still_good, until};
use crate::support::world::{Setup, World, execute_request};

/// From now on no event of this type can be written, until the connection's trigger is dropped.
fn refuse(world: &World, event: &str) -> rusqlite::Connection {
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    let trigger =
        format!("CREATE TRIGGER full BEFORE INSERT ON event WHEN NEW.type = '{event}' BEGIN SELECT RAISE(ABORT, 'the disk is full'); END");
    file.execute_batch(&trigger).unwrap();
    file
}

fn allow(file: &rusqlite::Connection) {
    file.execute_batch("DROP TRIGGER full").unwrap();
}

#[tokio::test]
async fn a_redeem_that_cannot_be_logged_spends_nothing() {
    for event in ["credential.redeem", "draft.consume", "execution.claim"] {
        let world = World::new().await;
        let held = held(&world).await;
        let file = refuse(&world, event);
        let request = execute_request(&held.token, json!({ "draft_id": held.draft }));
        assert!(world.send(request).await.status >= 500, "{event}");
        world.app.settle().await;
        assert_eq!(world.writes(), 0);
        allow(&file);
        still_good(&world, &held).await;
    }
}

#[tokio::test]
async fn an_attempt_that_cannot_be_logged_is_not_sent() {
    let world = World::new().await;
    let held = held(&world).await;
    let file = refuse(&world, "execution.dispatch");
    world.execute(&held.token, &held.draft).await.expect(202);
    world.later(MINUTE).await;
    assert_eq!(world.execution(&held.draft).await["state"], "claimed");
    assert_eq!(world.writes(), 0);
    allow(&file);
    let execution = until(&world, &held.draft, "applied", 3).await;
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    one_key(&world, &execution);
}

#[tokio::test]
async fn an_answer_that_cannot_be_logged_is_looked_up_later() {
    // The proxy tries for as long as its lease lasts, in real time: the shortest one there may be.
    let mut setup = Setup::edit("writ.toml", "lease    = \"60s\"", "lease    = \"5s\"");
    for (file, total) in [
        ("policies/backends/stripe.toml", "total_timeout   = \"30s\""),
        ("policies/backends/shop.toml", "total_timeout   = \"15s\""),
    ] {
        setup.edits.push((file, total, "total_timeout = \"3s\"".to_owned()));
    }
    let world = World::with(setup).await;
    let held = held(&world).await;
    let file = refuse(&world, "execution.confirm_applied");
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    assert_eq!(world.execution(&held.draft).await["state"], "dispatched", "nobody calls it done");
    allow(&file);
    let execution = until(&world, &held.draft, "applied", 3).await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 1));
    one_key(&world, &execution);
}

#[tokio::test]
async fn a_read_that_cannot_be_logged_gives_nothing_out() {
    let world = World::new().await;
    let file = refuse(&world, "read.performed");
    let body = json!({ "operation": "customer.read", "parameters": { "customer": demo::CUSTOMER } });
    let reply = world.call("support-agent", "POST", "/v1/reads", Some(body.clone())).await;
    assert!(
        reply.status >= 500 && reply.body.get("fields").is_none(),
        "{} {}",
        reply.status,
        reply.body
    );
    allow(&file);
    world.call("support-agent", "POST", "/v1/reads", Some(body)).await.expect(200);
}

#[tokio::test]
async fn a_denial_stands_also_when_it_cannot_be_logged() {
    let world = World::new().await;
    let held = held(&world).await;
    let other = super::support::refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    let file = refuse(&world, "credential.use_denied");
    let request = execute_request(&held.token, json!({ "draft_id": other }));
    world.send(request).await.refused(403, "credential_draft_mismatch");
    assert_eq!(world.writes(), 0);
    allow(&file);
    refused(&world, &held.token, json!({ "draft_id": other }), 403, "credential_draft_mismatch").await;
    still_good(&world, &held).await;
}
