//! The process ends in each state it can end in; whoever comes next carries on, and there is one effect.

use std::time::Duration;

use serde_json::json;
use writ::domain::approval::Decision;
use writ::domain::digest::Digest;
use writ::sandbox::{Fault, FaultKind, demo};
use writ::store::intent::Dispatch;
use writ::store::{Rejection, StoreError};

use super::support::{MINUTE, claimed, exchanged, held, one_key, refund_on, still_good, until};
use crate::support::world::World;

#[tokio::test]
async fn what_was_claimed_and_not_sent_is_sent_once_after_the_lease() {
    let mut world = World::new().await;
    let held = held(&world).await;
    claimed(&world, &held).await;
    world.restart();
    assert_eq!(
        world.later(Duration::from_secs(59)).await,
        0,
        "the lease of whoever claimed it still runs"
    );
    assert_eq!(world.later(Duration::from_secs(1)).await, 1);
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "applied");
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    one_key(&world, &execution);
    let types = world.event_types().await;
    assert_eq!(types.iter().filter(|t| *t == "execution.reclaim").count(), 1);
}

/// The window of the approval is five minutes. A claim that outlived it may not be sent, and must not block its charge for ever.
#[tokio::test]
async fn what_was_claimed_and_found_too_late_is_given_up() {
    for late in [Duration::from_secs(301), Duration::from_secs(5 * 3600)] {
        let mut world = World::new().await;
        let held = held(&world).await;
        let other = refund_on(&world, demo::CHARGE, 3_900, "usd").await;
        claimed(&world, &held).await;
        world.exchange(&other).await.refused(400, "resource_busy");
        world.restart();
        assert_eq!(world.later(late).await, 1);
        let execution = world.execution(&held.draft).await;
        assert_eq!(
            (&execution["state"], &execution["code"]),
            (&json!("aborted"), &json!("execution_window_over"))
        );
        assert_eq!(world.later(MINUTE).await, 0, "nobody looks at it again");
        assert_eq!(world.writes(), 0);
        // The charge is free again. It is the customer's third refund today, so a person approves it.
        let anew = world.propose(World::refund(4_100)).await.expect(201);
        let draft = anew["id"].as_str().unwrap().to_owned();
        let record = world.record("usr_mia", &draft, Decision::Approve).await;
        world.hand_in(&record).await.expect(200);
        still_good(&world, &exchanged(&world, "support-agent", draft).await).await;
    }
}

#[tokio::test]
async fn what_was_written_down_to_be_sent_is_looked_up_before_it_goes_again() {
    for arrived in [false, true] {
        let mut world = World::new().await;
        let held = held(&world).await;
        let execution = claimed(&world, &held).await;
        let document = world.app.store.draft_bytes(execution.draft).await.unwrap().unwrap();
        let request = writ::domain::draft::DraftDocument::parse(&document).unwrap().request;
        let body = String::from_utf8(request.wire_body(&execution.key)).unwrap();
        let dispatch = Dispatch {
            execution: execution.id,
            fence: execution.fence,
            request_sha256: Digest::of(body.as_bytes()),
            secrets: world
                .app
                .proxy
                .as_ref()
                .unwrap()
                .clients
                .of(&execution.backend)
                .unwrap()
                .secrets_mark(),
            lease: Duration::from_secs(60),
            send_window: Duration::from_secs(23 * 3600),
        };
        world.app.store.dispatch(world.op(), dispatch).await.unwrap();
        if arrived {
            let key = execution.key.to_string();
            world.arrange("POST", "/v1/refunds", &[("idempotency-key", &key)], &body).await;
        }
        world.restart();
        assert_eq!(world.later(Duration::from_secs(59)).await, 0);
        let done = until(&world, &held.draft, "applied", 3).await;
        assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
        assert_eq!(world.writes(), usize::from(!arrived), "arrived: {arrived}");
        assert_eq!(done["attempts"].as_array().unwrap().len(), if arrived { 1 } else { 2 });
        let looked = world
            .sandbox
            .requests()
            .iter()
            .position(|r| r.path == "/v1/refunds" && r.method == "GET");
        assert!(looked.is_some());
    }
}

#[tokio::test]
async fn what_had_no_known_outcome_is_found_out_by_the_next_process() {
    for lost in [FaultKind::DropBefore, FaultKind::DropAfter] {
        let mut world = World::new().await;
        let held = held(&world).await;
        world.sandbox.fault(Fault::once(lost, "POST", "/v1/refunds"));
        world.execute(&held.token, &held.draft).await.expect(202);
        assert_eq!(world.execution(&held.draft).await["state"], "indeterminate");
        world.restart();
        let execution = until(&world, &held.draft, "applied", 3).await;
        assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1, "{lost:?}");
        one_key(&world, &execution);
    }
}

/// Ended, started and ended again between any two steps: the store's row is all that counts.
#[tokio::test]
async fn a_process_that_ends_after_every_round_still_has_one_effect() {
    let mut world = World::new().await;
    let held = held(&world).await;
    for kind in [FaultKind::DropBefore, FaultKind::Error503Before, FaultKind::DropAfter] {
        world.sandbox.fault(Fault::once(kind, "POST", "/v1/refunds"));
    }
    world.sandbox.fault(Fault::times(FaultKind::Truncate, "GET", "/v1/refunds", 2));
    claimed(&world, &held).await;
    for _ in 0..8 {
        world.restart();
        world.later(MINUTE).await;
    }
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    one_key(&world, &execution);
}

/// The attempt log names the bytes; a second attempt with other bytes under the same key is refused before it leaves.
#[tokio::test]
async fn an_attempt_with_other_bytes_under_the_key_is_refused_by_the_store() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropBefore, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.app.store.execution_of(held.draft.parse().unwrap()).await.unwrap().unwrap();
    let dispatch = Dispatch {
        execution: execution.id,
        fence: execution.fence,
        request_sha256: Digest::of(b"amount=9000"),
        secrets: execution.attempts[0].secrets.unwrap(),
        lease: MINUTE,
        send_window: MINUTE,
    };
    let refused = world.app.store.dispatch(world.op(), dispatch).await;
    assert!(matches!(refused, Err(StoreError::Rejected(Rejection::HashMismatch))), "{refused:?}");
    assert_eq!(
        until(&world, &held.draft, "applied", 3).await["attempts"].as_array().unwrap().len(),
        2
    );
}
