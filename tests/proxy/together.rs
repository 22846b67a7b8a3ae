//! Two at once: drafts that together exceed the charge, and a credential whose time runs out while the store is slow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use writ::sandbox::Refund;

use super::support::{Held, exchanged, held, refund_on, refused, still_good};
use crate::support::world::{Setup, World, execute_request, send};

/// A charge over 120.00 USD of nobody in particular, and two drafts on it, both approved and exchanged: 100.00 and 90.00.
async fn both() -> (World, String, Held, Held) {
    let world = World::new().await;
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let charge = world
        .arrange("POST", "/v1/charges", &headers, "amount=12000&currency=usd&source=tok_visa")
        .await;
    let charge = charge["id"].as_str().unwrap().to_owned();
    let first = refund_on(&world, &charge, 10_000, "usd").await;
    let second = refund_on(&world, &charge, 9_000, "usd").await;
    let first = exchanged(&world, "support-agent", first).await;
    let second = exchanged(&world, "support-agent", second).await;
    (world, charge, first, second)
}

fn total(refunds: &[Refund]) -> i64 {
    refunds.iter().map(|refund| refund.amount).sum()
}

#[tokio::test]
async fn of_two_approved_drafts_that_together_exceed_the_charge_the_first_executed_runs() {
    for turned in [false, true] {
        let (world, charge, mut first, mut second) = both().await;
        if turned {
            std::mem::swap(&mut first, &mut second);
        }
        still_good(&world, &first).await;
        let sent = world.writes();
        world.execute(&second.token, &second.draft).await.expect(202);
        let execution = world.execution(&second.draft).await;
        assert_eq!(
            (&execution["state"], &execution["code"]),
            (&json!("aborted"), &json!("resource_changed")),
            "{execution}"
        );
        assert_eq!(world.draft(&second.draft).await["state"], "stale");
        world.exchange(&second.draft).await.refused(400, "draft_not_approved");
        assert_eq!(world.writes(), sent, "the backend is not even asked");
        let refunds = world.sandbox.refunds(&charge);
        assert_eq!((refunds.len(), total(&refunds)), (1, if turned { 9_000 } else { 10_000 }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_drafts_that_together_exceed_the_charge_one_runs_when_both_are_executed_at_two_processes_at_once() {
    for turned in [false, true] {
        let (world, charge, mut first, mut second) = both().await;
        if turned {
            std::mem::swap(&mut first, &mut second);
        }
        let (here, (other, there)) = (world.app.router(), world.another());
        let call = |held: &Held| execute_request(&held.token, json!({ "draft_id": held.draft }));
        let (one, two) = (call(&first), call(&second));
        let one = tokio::spawn(async move { send(&here, one).await });
        let two = tokio::spawn(async move { send(&there, two).await });
        for reply in [one.await.unwrap(), two.await.unwrap()] {
            // Kept out at once, or accepted and found too much before anything is sent.
            assert!([202, 409].contains(&reply.status), "{}", reply.body);
        }
        world.app.settle().await;
        other.settle().await;
        let refunds = world.sandbox.refunds(&charge);
        assert_eq!(refunds.len(), 1, "{refunds:?}");
        assert!(total(&refunds) <= 12_000);
        let mut applied = 0;
        for held in [&first, &second] {
            let draft = world.draft(&held.draft).await;
            if draft["state"] == "consumed" {
                assert_eq!(draft["execution"]["state"], "applied", "{draft}");
                applied += 1;
            }
        }
        assert_eq!(applied, 1);
    }
}

/// A world whose approvals, and so their credentials, are good for two seconds; and one credential in it.
async fn short() -> (World, Held) {
    let world = World::with(Setup::edit("writ.toml", "execution_window = \"5m\"", "execution_window = \"2s\"")).await;
    let held = held(&world).await;
    (world, held)
}

#[tokio::test]
async fn a_credential_of_two_seconds_is_good_for_1_99_of_them_and_not_for_two() {
    let (world, held) = short().await;
    world.clock.advance(Duration::from_millis(1_990));
    still_good(&world, &held).await;
    let (world, held) = short().await;
    world.clock.advance(Duration::from_millis(2_000));
    refused(&world, &held.token, json!({ "draft_id": held.draft }), 401, "credential_expired").await;
}

/// Redeemed at 1.99 s, verified in time, and then the store is held up past the end: the step that spends it reads the clock itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_whose_time_runs_out_while_the_store_is_slow_is_refused() {
    let (world, held) = short().await;
    world.clock.advance(Duration::from_millis(1_990));
    let deadline = Instant::now() + Duration::from_secs(4);
    let waits_until = async |n: usize| {
        while world.app.store.tally().waiting() != n {
            assert!(Instant::now() < deadline, "the store's queue never held {n}");
            tokio::task::yield_now().await;
        }
    };
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The writing thread takes this and stands at the lock; what comes after it waits in the queue.
    let store = Arc::clone(&world.app.store);
    let mut probe = Box::pin(async move { store.probe().await });
    tokio::select! {
        biased;
        done = &mut probe => panic!("the store was not held up: {done:?}"),
        () = std::future::ready(()) => {}
    }
    waits_until(0).await;
    let router = world.app.router();
    let request = execute_request(&held.token, json!({ "draft_id": held.draft }));
    let call = tokio::spawn(async move { send(&router, request).await });
    waits_until(1).await;
    world.clock.advance(Duration::from_millis(10));
    file.execute_batch("COMMIT").unwrap();
    call.await.unwrap().refused(401, "credential_expired");
    probe.await.unwrap();
    world.app.settle().await;
    assert_eq!(world.writes(), 0);
    let credential = world.app.store.credential(held.grant.credential).await.unwrap().unwrap();
    assert_ne!(credential.state.as_str(), "redeemed");
    assert!(world.app.store.execution_of(held.draft.parse().unwrap()).await.unwrap().is_none());
}
