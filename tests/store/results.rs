//! Results that the database did not take: kept beside it, put down once it does, and never twice.

use std::io::Write as _;
use std::path::PathBuf;

use writ::domain::lifecycle::ExecutionState;
use writ::store::record::ExecutionRecord;
use writ::store::{Op, StoreError};

use super::world::*;

fn file(world: &World) -> PathBuf {
    world.file.with_file_name("writ.db-results")
}

fn kept(world: &World) -> String {
    std::fs::read_to_string(file(world)).unwrap_or_default()
}

/// A sent request whose result the database refuses; the operation that was to record it.
async fn refused(world: &World) -> (ExecutionRecord, Op, rusqlite::Connection) {
    let execution = world.dispatched().await;
    let behind = rusqlite::Connection::open(&world.file).unwrap();
    behind
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON event WHEN NEW.type = 'execution.confirm_applied' BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .unwrap();
    let op = world.op();
    let settle = world.settle(&execution, applied());
    for _ in 0..3 {
        let answer = world.stores[0].settle(op.clone(), settle.clone()).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(kept(world).lines().filter(|l| !l.is_empty()).count(), 1, "it is kept once");
    (execution, op, behind)
}

async fn count(world: &World, kind: &str) -> usize {
    world.types_after(0).await.iter().filter(|t| *t == kind).count()
}

#[tokio::test]
async fn a_result_that_waited_is_put_down_once_by_whoever_comes_first() {
    let world = World::with_two_connections().await;
    let (execution, op, behind) = refused(&world).await;
    assert!(
        world.stores[1].probe().await.is_err(),
        "what waits is not put down while the store refuses it"
    );
    assert_eq!(world.stores[1].health().waiting_results, 1);
    behind.execute_batch("DROP TRIGGER full").unwrap();
    for store in &world.stores {
        store.probe().await.unwrap();
        assert_eq!(store.health().waiting_results, 0);
    }
    assert_eq!(world.execution(execution.id).await.state, ExecutionState::Applied);
    assert_eq!(kept(&world), "");
    // The proxy's own repetition comes later and finds it done.
    let again = world.stores[0].settle(op, world.settle(&execution, applied())).await.unwrap();
    assert!(again.replayed);
    assert_eq!(count(&world, "execution.confirm_applied").await, 1);
}

#[tokio::test]
async fn a_result_that_waited_until_somebody_else_took_over_is_evidence_and_changes_nothing() {
    let world = World::with_two_connections().await;
    let (execution, _, behind) = refused(&world).await;
    world.clock.advance(2 * MINUTE);
    world.stores[1].take_over(world.op(), world.take_over(&execution)).await.unwrap();
    behind.execute_batch("DROP TRIGGER full").unwrap();
    let line = kept(&world);
    for _ in 0..2 {
        world.store().probe().await.unwrap();
        // As if the process had died before it could empty the file.
        std::fs::write(file(&world), &line).unwrap();
    }
    assert_eq!(world.execution(execution.id).await.state, ExecutionState::Indeterminate);
    assert_eq!(count(&world, "execution.late_answer").await, 1);
    let events = world.events().await;
    let late = events.iter().find(|e| e["type"] == "execution.late_answer").unwrap();
    assert_eq!(
        (&late["provider"]["reference"], &late["provider"]["status"]),
        (&"re_1".into(), &200.into()),
        "{late}"
    );
}

#[tokio::test]
async fn a_torn_or_changed_line_spoils_no_other_and_is_kept_for_a_person() {
    let world = World::with_one_connection().await;
    let (execution, _, behind) = refused(&world).await;
    let good = kept(&world);
    // Changed on disk: another result than the one that was written.
    let changed = good.replacen("re_1", "re_2", 1);
    assert_ne!(changed, good);
    std::fs::write(file(&world), &changed).unwrap();
    // Torn, and then followed by a good line, as another append writes it.
    let mut append = std::fs::OpenOptions::new().append(true).open(file(&world)).unwrap();
    append.write_all(&good.as_bytes()[..good.len() / 2]).unwrap();
    append.write_all(good.as_bytes()).unwrap();
    behind.execute_batch("DROP TRIGGER full").unwrap();
    world.store().probe().await.unwrap();
    let applied = world.execution(execution.id).await;
    assert_eq!(
        (applied.state, applied.reference.as_deref()),
        (ExecutionState::Applied, Some("re_1"))
    );
    assert_eq!(kept(&world), "");
    let unread = std::fs::read_to_string(world.file.with_file_name("writ.db-results.unreadable")).unwrap();
    assert!(unread.contains("re_2"), "{unread}");
}

/// The sweep is quicker than the beat: without this the result would come too late by a moment, and be evidence only.
#[tokio::test]
async fn a_result_that_waited_is_put_down_before_its_execution_is_taken_over() {
    let world = World::with_two_connections().await;
    let (execution, _, behind) = refused(&world).await;
    world.clock.advance(2 * MINUTE);
    behind.execute_batch("DROP TRIGGER full").unwrap();
    let taken = world.stores[1].take_over(world.op(), world.take_over(&execution)).await;
    assert!(matches!(taken, Err(StoreError::Rejected(_))), "{taken:?}");
    let settled = world.execution(execution.id).await;
    assert_eq!(
        (settled.state, settled.reference.as_deref()),
        (ExecutionState::Applied, Some("re_1"))
    );
    assert_eq!(count(&world, "execution.late_answer").await, 0);
}

#[tokio::test]
async fn a_second_damaged_line_does_not_take_the_place_of_the_first() {
    let world = World::with_one_connection().await;
    for damaged in ["0 first", "0 second"] {
        std::fs::write(file(&world), format!("\n{damaged}\n")).unwrap();
        world.store().probe().await.unwrap();
        assert_eq!(kept(&world), "");
    }
    let unread = std::fs::read_to_string(world.file.with_file_name("writ.db-results.unreadable")).unwrap();
    assert_eq!(unread, "0 first\n0 second\n");
}
