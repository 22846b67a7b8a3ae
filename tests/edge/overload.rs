//! A store that stands still: new drafts are refused while exchanges and executions are still let in, and all of them end well.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::listening::soon;
use crate::support::world::{Reply, Setup, World};

/// Room for eight calls: four of them may be drafts, six exchanges.
const CALLS: &str = "[limits]\ncalls = 8\n[proxy]\n";

/// A store that is locked for longer answers that it is away, and no longer stands still.
const STANDS_STILL: Duration = Duration::from_secs(5);

/// Starts a call and waits until it stands in the store's queue: it was let in, and is not answered. `None` if the store has given up waiting,
/// which a busy machine may bring about.
async fn let_in(world: &Arc<World>, locked: Instant, call: impl Future<Output = Reply> + Send + 'static) -> Option<JoinHandle<Reply>> {
    let before = world.app.store.tally().waiting();
    let call = tokio::spawn(call);
    soon("the call stands in the store's queue", async || {
        call.is_finished() || locked.elapsed() >= STANDS_STILL || world.app.store.tally().waiting() > before
    })
    .await;
    if locked.elapsed() >= STANDS_STILL {
        return None;
    }
    assert!(!call.is_finished(), "it was answered while the store stood still");
    Some(call)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drafts_are_refused_before_executions_are_harmed() {
    for _ in 0..5 {
        if run().await.is_some() {
            return;
        }
    }
    panic!("the machine is too slow for what happens within {STANDS_STILL:?}");
}

/// The whole of it; `None` if the machine was too slow.
async fn run() -> Option<()> {
    let world = Arc::new(World::with(Setup::edit("writ.toml", "[proxy]\n", CALLS)).await);
    // On another charge: what is under way on one keeps the other waiting.
    let charge = world.charge(9_000, "usd").await;
    let second = world.propose(World::refund_of(&charge, 4_100, "usd")).await.expect(201);
    let first = world.allowed_draft().await;
    let second = second["id"].as_str().unwrap().to_owned();
    let credential = world.credential(&first).await;
    let lock = rusqlite::Connection::open(world.path("data/writ.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let locked = Instant::now();
    let mut drafts = JoinSet::new();
    for amount in 0..12 {
        let world = world.clone();
        drafts.spawn(async move { world.propose(World::refund(100 + amount)).await });
    }
    for _ in 0..8 {
        let refused = drafts.join_next().await.unwrap().unwrap();
        if locked.elapsed() >= STANDS_STILL {
            return None;
        }
        let refused = refused.refused(503, "overloaded");
        assert_eq!(refused.headers["retry-after"], "1");
    }
    let looked = world.call("support-agent", "GET", "/v1/drafts", None).await;
    looked.expect(200);
    let exchange = let_in(&world, locked, {
        let world = world.clone();
        async move { world.exchange(&second).await }
    });
    let exchange = exchange.await?;
    let execute = let_in(&world, locked, {
        let (world, first) = (world.clone(), first.clone());
        async move { world.execute_body(&credential, json!({ "draft_id": first })).await }
    });
    let execute = execute.await?;
    let refused = world.propose(World::refund(200)).await;
    if locked.elapsed() >= STANDS_STILL {
        return None;
    }
    refused.refused(503, "overloaded");
    lock.execute_batch("ROLLBACK").unwrap();
    exchange.await.unwrap().expect(200);
    execute.await.unwrap().expect(202);
    while let Some(draft) = drafts.join_next().await {
        draft.unwrap().expect(201);
    }
    world.app.settle().await;
    assert_eq!(
        (world.execution(&first).await["state"].as_str(), world.writes()),
        (Some("applied"), 1)
    );
    world.propose(World::refund(300)).await.expect(201);
    Some(())
}
