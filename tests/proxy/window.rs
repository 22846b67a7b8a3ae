//! The window closes: first send plus window minus safety, stored in the row, on the wall clock. Past it no send, only look-ups, then a person.

use std::time::Duration;

use serde_json::json;
use writ::domain::clock::Clock as _;
use writ::sandbox::{Fault, FaultKind, demo};
use writ::store::record::ExecutionRecord;

use super::support::{Held, MINUTE, held, one_key, until};
use crate::support::world::{Setup, World};

/// What the shipped file says: the backend remembers a key for a day, and the last hour of it is kept clear.
const WINDOW: Duration = Duration::from_secs(23 * 3600);

/// How long the file below goes on trying: as long as the loader lets it.
const GIVE_UP: Duration = Duration::from_secs(22 * 3600);

async fn record(world: &World, held: &Held) -> ExecutionRecord {
    world.app.store.execution_of(held.draft.parse().unwrap()).await.unwrap().unwrap()
}

/// A refund whose requests are lost on the way, at a backend whose file would go on trying for nearly as long as a key is remembered.
async fn lost(times: u32) -> (World, Held) {
    let file = "policies/backends/stripe.toml";
    let edits = vec![
        (file, "attempts        = 4", "attempts        = 20".to_owned()),
        (file, "give_up         = \"10m\"", "give_up         = \"22h\"".to_owned()),
    ];
    let world = World::with(Setup { edits, ..Setup::default() }).await;
    let held = held(&world).await;
    world
        .sandbox
        .fault(Fault::times(FaultKind::DropBefore, "POST", "/v1/refunds", times));
    world.execute(&held.token, &held.draft).await.expect(202);
    (world, held)
}

#[tokio::test]
async fn the_end_of_the_window_is_stored_with_the_first_send_and_moves_with_no_other() {
    let (mut world, held) = lost(3).await;
    let first = world.clock.now();
    for sends in 1..=3 {
        let row = record(&world, &held).await;
        assert_eq!(row.attempts.len(), sends);
        assert_eq!((row.first_sent_at, row.send_until), (Some(first), Some(first.plus(WINDOW))));
        // Sent again by a process that knows of the first send only what the row says.
        world.restart();
        world.later(Duration::from_secs(3600)).await;
    }
    one_key(&world, &world.execution(&held.draft).await);
}

/// The loader keeps the file's patience inside the window, so it is the patience that ends first.
#[tokio::test]
async fn the_key_goes_again_until_the_last_millisecond_and_then_never() {
    for (early, writes, state) in [(1, 2, "applied"), (0, 1, "handed_off")] {
        let (mut world, held) = lost(1).await;
        world.restart();
        world.later(GIVE_UP - Duration::from_millis(early)).await;
        let execution = world.execution(&held.draft).await;
        assert_eq!(execution["state"], state, "{early} ms before the end: {execution}");
        assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (writes, writes - 1));
        assert_eq!(execution["lookups"].as_array().unwrap().len(), 1, "it was looked up either way");
    }
}

/// The row decides, whatever the file says today: here it says that the window is over, and the file would try for hours yet.
#[tokio::test]
async fn past_the_stored_end_the_key_is_not_sent_it_is_looked_up_and_then_a_person_decides() {
    for (kind, effects) in [(FaultKind::DropBefore, 0), (FaultKind::DropAfter, 1)] {
        let (world, held) = lost(1).await;
        world.sandbox.fault(Fault::once(kind, "POST", "/v1/refunds"));
        if effects == 1 {
            world.sandbox.fault(Fault::times(FaultKind::EmptyList, "GET", "/v1/refunds", 4));
            world.later(MINUTE).await;
        }
        let sent = world.writes();
        let file = rusqlite::Connection::open(&world.config.store).unwrap();
        file.execute_batch("DROP TRIGGER execution_window_is_final; UPDATE execution SET send_until = first_sent_at + 1000")
            .unwrap();
        for _ in 0..2 {
            world.later(MINUTE).await;
            assert_eq!(world.execution(&held.draft).await["state"], "indeterminate");
        }
        let looks = record(&world, &held).await.lookups.len();
        assert!(looks >= 2, "only {looks} look-ups");
        if effects == 1 {
            // The list shows it at last.
            until(&world, &held.draft, "applied", 4).await;
        } else {
            world.later(GIVE_UP).await;
            let execution = world.execution(&held.draft).await;
            assert_eq!(
                (&execution["state"], &execution["code"]),
                (&json!("handed_off"), &json!("unresolved"))
            );
        }
        assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (sent, effects));
    }
}

/// Another address, or another secret for writing, is another place that may never have seen the key.
#[tokio::test]
async fn at_another_address_the_key_is_neither_sent_nor_looked_up() {
    let (mut world, held) = lost(1).await;
    let reads = world.sandbox.requests().len();
    let file = world.path("policies/backends/stripe.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("127.0.0.1", "localhost")).unwrap();
    world.restart();
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("handed_off"), &json!("adapter_changed"))
    );
    assert_eq!((world.writes(), world.sandbox.requests().len()), (1, reads));
}

/// Another key for looking up that the sandbox knows, as after a rotation.
fn rotate(world: &mut World) {
    let known = std::fs::read_to_string(world.path("secrets/stripe-write")).unwrap();
    std::fs::write(world.path("secrets/stripe-read"), known).unwrap();
    world.restart();
}

#[tokio::test]
async fn under_other_secrets_the_key_is_not_sent_and_absence_proves_nothing() {
    let (mut world, held) = lost(1).await;
    rotate(&mut world);
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("handed_off"), &json!("secrets_changed"))
    );
    world.later(GIVE_UP).await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 0));
}

#[tokio::test]
async fn under_other_secrets_what_was_done_is_still_found() {
    let mut world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    rotate(&mut world);
    let execution = until(&world, &held.draft, "applied", 3).await;
    one_key(&world, &execution);
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 1));
}

#[tokio::test]
async fn a_claim_that_was_not_sent_goes_out_with_the_secrets_that_are_in_force() {
    let mut world = World::new().await;
    let held = held(&world).await;
    super::support::claimed(&world, &held).await;
    rotate(&mut world);
    let execution = until(&world, &held.draft, "applied", 3).await;
    one_key(&world, &execution);
}
