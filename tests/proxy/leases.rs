//! Two proxies on one store: the second takes over only after the lease, and the first one, slow and back again, writes nothing.

use serde_json::json;
use writ::domain::time::Timestamp;
use writ::sandbox::{Fault, FaultKind, demo};

use super::support::{MINUTE, held, one_key};
use crate::support::world::World;

async fn fence(world: &World, draft: &str) -> (u64, String, Timestamp) {
    let execution = world.app.store.execution_of(draft.parse().unwrap()).await.unwrap().unwrap();
    (execution.fence, execution.holder, execution.lease_until)
}

#[tokio::test]
async fn a_slow_proxy_that_had_not_sent_is_fenced_and_sends_nothing() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::Hold, "GET", "/v1/charges/*"));
    world.execute_body(&held.token, json!({ "draft_id": held.draft })).await.expect(202);
    // The first proxy stands before its last look at the charge.
    world.sandbox.held(1).await;
    let (second, _) = world.another();
    let sweep = async || {
        let taken = second.proxy.as_ref().unwrap().sweep().await.unwrap();
        second.settle().await;
        taken
    };
    assert_eq!(sweep().await, 0, "the lease runs");
    let before = fence(&world, &held.draft).await.0;
    world.clock.advance(MINUTE);
    assert_eq!(sweep().await, 1);
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
    assert_eq!(fence(&world, &held.draft).await.0, before + 1);
    let events = world.events().await.len();
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    assert_eq!(world.events().await.len(), events, "the fenced one wrote nothing");
    let execution = world.execution(&held.draft).await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 1));
    one_key(&world, &execution);
}

#[tokio::test]
async fn a_slow_proxy_that_had_sent_is_fenced_and_its_answer_is_not_written() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::Hold, "POST", "/v1/refunds"));
    world.execute_body(&held.token, json!({ "draft_id": held.draft })).await.expect(202);
    world.sandbox.held(1).await;
    let (second, _) = world.another();
    world.clock.advance(MINUTE);
    assert_eq!(second.proxy.as_ref().unwrap().sweep().await.unwrap(), 1);
    second.settle().await;
    // The second one looked, found nothing, and asked again under the same key: the backend is still busy with the first.
    let busy = world.execution(&held.draft).await;
    assert_eq!((&busy["state"], &busy["code"]), (&json!("indeterminate"), &json!("in_flight")));
    let events = world.events().await.len();
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    // The fenced one changed nothing, and left what it knows for whoever finds out what happened.
    let after = world.events().await;
    assert_eq!(after.len(), events + 1);
    let late = after.last().unwrap();
    assert_eq!(
        (&late["type"], &late["code"], &late["provider"]["status"]),
        (&json!("execution.late_answer"), &json!("applied"), &json!(200))
    );
    let kept = world.execution(&held.draft).await;
    assert_eq!(kept["state"], "indeterminate");
    let seen = kept["lookups"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&seen["step"], &seen["finding"], &seen["status"]),
        (&json!("late answer"), &json!("applied"), &json!(200)),
        "{kept}"
    );
    world.clock.advance(MINUTE);
    second.proxy.as_ref().unwrap().sweep().await.unwrap();
    second.settle().await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    one_key(&world, &execution);
}

#[tokio::test]
async fn two_sweeps_at_once_take_an_execution_over_once() {
    let world = World::new().await;
    let held = held(&world).await;
    super::support::claimed(&world, &held).await;
    let (second, _) = world.another();
    world.clock.advance(MINUTE);
    let (one, other) = tokio::join!(world.app.proxy.as_ref().unwrap().sweep(), second.proxy.as_ref().unwrap().sweep());
    assert_eq!(one.unwrap() + other.unwrap(), 1);
    world.app.settle().await;
    second.settle().await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "applied");
    one_key(&world, &execution);
}

/// A lease that a backend can outlast would let a second proxy send while the first still waits.
#[tokio::test]
async fn a_lease_shorter_than_a_backends_timeout_is_refused_at_start() {
    let world = World::new().await;
    let mut config = world.config.clone();
    config.lease = std::time::Duration::from_secs(30);
    let outside = writ::app::Outside {
        clock: world.clock.clone(),
        entropy: world.entropy.clone(),
    };
    let refused = writ::app::check(&config, writ::app::Part::Proxy, &outside, &|_| None).unwrap_err();
    assert!(refused.to_string().contains("proxy.lease"), "{refused}");
    config.lease = std::time::Duration::from_secs(60);
    writ::app::check(&config, writ::app::Part::Proxy, &outside, &|_| None).unwrap();
}
