//! Old events lose their bytes and the log loses no proof; what is held, or is the only copy, stays.

use writ::audit::source::{LogSource as _, Nodes};
use writ::audit::tree::{check_consistency, check_inclusion, leaf_hash, prove_consistency, prove_inclusion};
use writ::audit::{LogKeys, SignedHead, TrustPolicy, verify};
use writ::domain::digest::Digest;
use writ::store::retention::{Held, NewHold, Prune};
use writ::store::sqlite::{Evidence, SqliteStore};
use writ::store::{Rejection, Store as _, StoreError};

use super::erasure::{findings, sqlite};
use crate::store::world::{World, applied};
use crate::support::log::{log_beside, open_store};

fn order(to: u64) -> Prune {
    Prune {
        to,
        bundle_sha256: Digest::of(b"bundle"),
    }
}

/// The events that are there.
async fn events(world: &World) -> Vec<serde_json::Value> {
    let stored = world.store().events(0, 10_000).await.unwrap();
    stored.iter().map(|event| serde_json::from_slice(&event.bytes).unwrap()).collect()
}

fn rejected<T: std::fmt::Debug>(answer: Result<T, StoreError>, by: &Rejection) {
    match answer {
        Err(StoreError::Rejected(rejection)) => assert_eq!(rejection, *by),
        other => panic!("{other:?}"),
    }
}

fn held(what: Held) -> NewHold {
    NewHold {
        what,
        reason: "dispute".to_owned(),
    }
}

#[tokio::test]
async fn what_is_held_and_the_last_event_stay_and_nothing_else_deletes_an_event() {
    let world = World::with_one_connection().await;
    world.settled(applied()).await;
    let store = sqlite(&world);
    let last = events(&world).await.len() as u64 - 1;
    for to in [last, last + 1, 1_000_000] {
        rejected(store.prune(world.op(), order(to)).await, &Rejection::NotPrunable(0, last - 1));
    }
    let by_hand = |sql: &str| rusqlite::Connection::open(&world.file).unwrap().execute(sql, []);
    assert!(by_hand("DELETE FROM event").is_err() && by_hand("DELETE FROM event WHERE seq = 0").is_err());
    let range = store.hold(world.op(), held(Held::Range { from: 2, to: 3 })).await.unwrap().value;
    let case = store
        .hold(world.op(), held(Held::Case("case-7".parse().unwrap())))
        .await
        .unwrap()
        .value;
    rejected(store.prune(world.op(), order(4)).await, &Rejection::Held(range));
    store.release(world.op(), range).await.unwrap();
    rejected(store.prune(world.op(), order(4)).await, &Rejection::Held(case));
    rejected(store.release(world.op(), range).await, &Rejection::NotFound);
    rejected(store.release(world.op(), 77).await, &Rejection::NotFound);
    let told: Vec<_> = events(&world)
        .await
        .into_iter()
        .filter(|e| e["type"].as_str().unwrap().starts_with("retention."))
        .collect();
    assert_eq!(
        told.iter().map(|e| e["type"].as_str().unwrap()).collect::<Vec<_>>(),
        ["retention.held", "retention.held", "retention.released"]
    );
    assert!(
        !serde_json::to_string(&told).unwrap().contains("dispute"),
        "the words are committed to: {told:?}"
    );
    // The table alone lifts nothing.
    assert_eq!(by_hand("UPDATE hold SET released_at = 1 WHERE released_at IS NULL"), Ok(1));
    let refused = store.prune(world.op(), order(4)).await.unwrap_err();
    assert!(refused.to_string().contains("stands in the log"), "{refused}");
    let vandal = rusqlite::Connection::open(&world.file).unwrap();
    vandal
        .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    vandal
        .execute("UPDATE hold SET released_at = NULL WHERE released_at = 1", [])
        .unwrap();
    store.release(world.op(), case).await.unwrap();
    assert_eq!(store.prune(world.op(), order(4)).await.unwrap(), (0, 5));
    assert!(by_hand("DELETE FROM event WHERE seq = 6").is_err(), "what is not pruned stays");
    assert!(by_hand("DELETE FROM hold").is_err());
    assert_eq!(findings(&world).1, [""; 0]);
}

#[tokio::test]
async fn a_pruned_log_goes_on_and_every_old_proof_still_verifies() {
    let world = World::with_two_connections().await;
    world.settled(applied()).await;
    let before = world.store().events(0, 1_000).await.unwrap();
    let to = before.len() as u64 - 2;
    let old = SignedHead::read(&Evidence::open(&world.file).unwrap().latest().unwrap().unwrap().text).unwrap();
    let store = sqlite(&world);
    store.prune(world.op(), order(to)).await.unwrap();

    // Every event that was there is still in the tree, and the old head is a prefix of the new one.
    let evidence = Evidence::open(&world.file).unwrap();
    for event in &before {
        let proof = prove_inclusion(old.size(), event.seq, &Nodes(&evidence)).unwrap();
        check_inclusion(&proof, old.size(), old.root(), event.seq, leaf_hash(&event.bytes)).unwrap();
    }
    let new = SignedHead::read(&evidence.latest().unwrap().unwrap().text).unwrap();
    let proof = prove_consistency(old.size(), new.size(), &Nodes(&evidence)).unwrap();
    check_consistency(&proof, (old.size(), old.root()), (new.size(), new.root())).unwrap();
    drop(evidence);

    // Reading, writing, starting anew, another process, the clock: as before.
    let left = world.store().events(0, 1_000).await.unwrap();
    assert_eq!(left.first().map(|event| event.seq), Some(to + 1));
    let pruned = events(&world).await.pop().unwrap();
    assert_eq!(
        (&pruned["type"], pruned["pruned"]["from"].as_u64(), pruned["pruned"]["to"].as_u64()),
        (&"retention.pruned".into(), Some(0), Some(to))
    );
    let last_of_case = before
        .iter()
        .rev()
        .find(|event| String::from_utf8_lossy(&event.bytes).contains("\"case_id\":\"case-7\""))
        .unwrap();
    let n: serde_json::Value = serde_json::from_slice(&last_of_case.bytes).unwrap();
    world.proposed().await;
    let next = events(&world).await.pop().unwrap();
    assert_eq!(next["case"]["n"].as_u64(), n["case"]["n"].as_u64().map(|n| n + 1), "{next}");
    assert_eq!(
        next["case"]["previous"],
        Digest::from_bytes(leaf_hash(&last_of_case.bytes).0).to_string()
    );
    let again = open_store(&world.file, world.clock.clone(), world.entropy.clone()).unwrap();
    again.propose(world.op(), world.new_draft()).await.unwrap();
    world.settled(applied()).await;
    again.probe().await.unwrap();
    let (seen, wrong) = findings(&world);
    assert_eq!(wrong, [""; 0]);
    assert_eq!(seen.commitments, seen.sealed, "the openings went with their events");

    // A second time, over the event that told of the first.
    let size = events(&world).await.last().unwrap()["seq"].as_u64().unwrap() + 1;
    let (from, gone) = store.prune(world.op(), order(size - 2)).await.unwrap();
    assert_eq!((from, gone), (to + 1, size - to - 2));
    world.proposed().await;
    let next = events(&world).await.pop().unwrap();
    assert!(next["case"]["previous"].is_string(), "{next}");
    assert_eq!(findings(&world).1, [""; 0]);
}

#[tokio::test]
async fn what_was_taken_away_without_the_logs_word_is_missing() {
    let world = World::with_one_connection().await;
    world.settled(applied()).await;
    sqlite(&world).prune(world.op(), order(3)).await.unwrap();
    world.proposed().await;
    assert_eq!(findings(&world).1, [""; 0]);
    let connection = rusqlite::Connection::open(&world.file).unwrap();
    connection
        .execute_batch("DROP TRIGGER event_stays; DELETE FROM event WHERE seq <= 5")
        .unwrap();
    let (_, wrong) = findings(&world);
    assert!(
        wrong.iter().any(|told| told.contains("does not say that they were pruned")),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn a_pruned_log_goes_on_under_another_name_and_only_if_it_says_that_it_was_pruned() {
    let world = World::with_one_connection().await;
    world.settled(applied()).await;
    let store = sqlite(&world);
    store.prune(world.op(), order(3)).await.unwrap();
    world.proposed().await;
    let backup = world.file.with_file_name("backup.db");
    store.backup(&backup).await.unwrap();
    world.proposed().await;
    let files = log_beside(&world.file);
    let recover = |file: &std::path::Path| {
        SqliteStore::recover(file, &files, &world.op(), world.clock.clone(), world.entropy.clone()).map_err(|error| error.to_string())
    };
    // One event more is gone than the log says, at its beginning and further on; and one byte is another.
    let last = events(&world).await.last().unwrap()["seq"].as_u64().unwrap();
    for (n, change) in [
        "DELETE FROM event WHERE seq = 4".to_owned(),
        "DELETE FROM event WHERE seq = 6".to_owned(),
        "UPDATE event SET body = replace(body, 'ok', 'no') WHERE seq = 5".to_owned(),
        format!("DELETE FROM event WHERE seq < {last} AND type = 'retention.pruned'"),
    ]
    .into_iter()
    .enumerate()
    {
        let forged = world.file.with_file_name(format!("forged-{n}.db"));
        std::fs::copy(&backup, &forged).unwrap();
        let vandal = rusqlite::Connection::open(&forged).unwrap();
        vandal
            .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .unwrap();
        assert_eq!(vandal.execute(&change, []).unwrap(), 1, "{change}");
        let refused = recover(&forged).unwrap_err();
        assert!(
            refused.contains("it was changed") || refused.contains("does not say that they were pruned"),
            "{change}: {refused}"
        );
        assert!(!files.next().exists(), "no key is made for what is refused");
    }
    let recovered = recover(&backup).unwrap();
    assert_eq!(recovered.origin.as_str(), "writ.test/audit/r2");
    let again = SqliteStore::open(
        &backup,
        &Default::default(),
        files.clone(),
        world.clock.clone(),
        world.entropy.clone(),
    )
    .unwrap();
    again.propose(world.op(), world.new_draft()).await.unwrap();
    let keys = LogKeys::load(&files, None).unwrap().known;
    let trust = TrustPolicy::of_logs(keys);
    let asked = verify::Asked {
        anchors: Vec::new(),
        max_age: None,
        now: world.now(),
        case: None,
        state: None,
    };
    let report = verify::verify(&Evidence::open(&backup).unwrap(), &trust, &asked).unwrap();
    assert_eq!((report.findings, report.pruned), (Vec::new(), Some(4)));
}
