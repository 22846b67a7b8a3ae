//! Every read is itself in the log: the first before it is answered, the rest as a count, none lost at the end.

use std::time::Duration;

use serde_json::{Value, json};
use writ::http::{note_all_reads, note_reads};

use super::{audit, elsewhere, found};
use crate::support::listening::Listening;
use crate::support::world::World;

const MINUTE: Duration = Duration::from_secs(60);

async fn reads(world: &World) -> Vec<Value> {
    let events = world.events().await;
    events.into_iter().filter(|event| event["type"] == "audit.read").collect()
}

#[tokio::test]
async fn a_read_that_cannot_be_recorded_is_not_answered() {
    let world = World::new().await;
    world.allowed_draft().await;
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch("CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'full'); END")
        .unwrap();
    for path in [
        "/v1/audit/events",
        "/v1/audit/proof?seq=0",
        "/v1/audit/tile/0/000.p/1",
        "/v1/cases/case-1",
        "/v1/audit/stream",
    ] {
        audit(&world, path).await.refused(503, "store_unavailable");
    }
    file.execute_batch("DROP TRIGGER full").unwrap();
    audit(&world, "/v1/audit/events").await.expect(200);
    let told = reads(&world).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["count"], Value::Null, "what was refused was no read");
}

#[tokio::test]
async fn the_first_read_of_a_minute_is_told_at_once_and_the_others_as_a_count() {
    let mut world = World::new().await;
    elsewhere(&mut world).await;
    let common = world.app.common();
    for n in 0..5 {
        found(&world, &format!("after_seq={n}")).await;
    }
    audit(&world, "/v1/audit/proof?seq=0").await.expect(200);
    world.call("elsewhere", "GET", "/v1/audit/events", None).await.expect(200);
    let told = reads(&world).await;
    assert_eq!(told.len(), 2, "one for each caller: {told:?}");
    assert_eq!(
        (&told[0]["actor"], &told[0]["tenant"], &told[0]["subject"]),
        (&json!({ "kind": "client", "id": "security" }), &json!("main"), &json!("events"))
    );
    assert!(told[0]["content_sha256"].is_string() && told[0]["request_id"].is_string());
    assert_eq!(told[1]["tenant"], "other");
    note_reads(&common).await;
    assert_eq!(reads(&world).await.len(), 2, "the minute is not over");
    world.clock.advance(MINUTE);
    note_reads(&common).await;
    note_reads(&common).await;
    let told = reads(&world).await;
    assert_eq!(told.len(), 3, "whoever read once is told of once: {told:?}");
    assert_eq!((&told[2]["count"], &told[2]["subject"]), (&json!(5), &json!("several")));
    // The next minute begins with a read that is told at once; what is counted then is told at the end of the process.
    found(&world, "after_seq=1").await;
    found(&world, "after_seq=2").await;
    assert_eq!(reads(&world).await.len(), 4);
    note_all_reads(&common).await;
    note_all_reads(&common).await;
    let told = reads(&world).await;
    assert_eq!(
        (told.len(), &told[4]["count"], &told[4]["subject"]),
        (5, &json!(1), &json!("events"))
    );
}

#[tokio::test]
async fn counts_that_cannot_be_written_down_are_counted_on() {
    let world = World::new().await;
    let common = world.app.common();
    for _ in 0..3 {
        found(&world, "after_seq=1").await;
    }
    world.clock.advance(MINUTE);
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch("CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'full'); END")
        .unwrap();
    note_reads(&common).await;
    file.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(reads(&world).await.len(), 1);
    found(&world, "after_seq=1").await;
    note_all_reads(&common).await;
    let told = reads(&world).await;
    let counted: u64 = told.iter().map(|event| event["count"].as_u64().unwrap_or(1)).sum();
    assert_eq!(counted, 4, "{told:?}");
}

#[tokio::test]
async fn reads_that_were_only_counted_are_written_down_when_the_process_ends() {
    let mut served = Listening::new().await;
    let basic = served.world.basic("security");
    let head = format!("GET /v1/audit/events HTTP/1.1\r\nauthorization: {basic}");
    for _ in 0..4 {
        assert_eq!(served.http1(None, &head, "").await.unwrap().0, 200);
    }
    served.ended().await;
    let told = reads(&served.world).await;
    let counted: u64 = told.iter().map(|event| event["count"].as_u64().unwrap_or(1)).sum();
    assert_eq!(counted, 4, "{told:?}");
}
