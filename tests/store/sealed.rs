//! The seal of the log: what the running store signs, what it refuses to sign, and what a start finds.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use writ::audit::tree::{self, Edge, Hash, leaf_hash};
use writ::audit::{Actor, EventBody, EventKind, HeadFile, LogFiles, LogKeys, LogPart, Note, SignedHead};
use writ::store::health::{FileState, Trouble};
use writ::store::sqlite::{Recovered, SqliteStore};
use writ::store::{Store, StoreError};

use super::world::*;
use crate::support::log::{log_beside, open_store};
use crate::support::{ManualClock, SeededEntropy};

/// A connection that the schema's triggers do not bind.
fn vandal(file: &Path) -> Connection {
    let connection = Connection::open(file).unwrap();
    connection
        .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    connection
}

fn note(n: usize) -> EventBody {
    EventBody::new(EventKind::Note(Note::AccessDenied), Actor::system(&format!("test-{n}")))
}

async fn write(world: &World, store: &Arc<dyn Store>, n: usize) -> Result<(), StoreError> {
    store.note(world.op(), note(n)).await.map(drop)
}

fn head(file: &Path) -> SignedHead {
    let files = log_beside(file);
    let keys = LogKeys::load(&files, None).unwrap();
    HeadFile::at(files.head).read(&keys.known).unwrap().unwrap()
}

fn again(world: &World) -> Result<SqliteStore, String> {
    let clock = Arc::<ManualClock>::clone(&world.clock);
    open_store(&world.file, clock, Arc::new(SeededEntropy::new(5))).map_err(|error| error.to_string())
}

fn bodies(file: &Path) -> Vec<String> {
    let connection = Connection::open(file).unwrap();
    let mut statement = connection.prepare("SELECT body FROM event ORDER BY seq").unwrap();
    let found = statement.query_map([], |row| row.get(0)).unwrap();
    found.map(Result::unwrap).collect()
}

fn root_of(bodies: &[String]) -> Hash {
    let mut edge = Edge::default();
    for body in bodies {
        edge.push(leaf_hash(body.as_bytes())).unwrap();
    }
    edge.root().unwrap()
}

#[tokio::test]
async fn rows_that_somebody_else_wrote_are_never_signed() {
    let world = World::with_one_connection().await;
    write(&world, world.store(), 1).await.unwrap();
    let before = head(&world.file);
    vandal(&world.file)
        .execute(
            "INSERT INTO event (seq, id, at, type, actor, body)
             SELECT seq + 1, 'evt_forged', at, 'approval.grant', 'usr_mia', body FROM event ORDER BY seq DESC LIMIT 1",
            [],
        )
        .unwrap();
    let refused = write(&world, world.store(), 2).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Unavailable(why) if why.contains("under no head that the key of the log has signed")),
        "{refused}"
    );
    assert_eq!(world.store().health().file, FileState::Failed(Trouble::Log));
    assert_eq!(head(&world.file), before, "nothing was signed");
    let restart = again(&world).unwrap_err();
    assert!(restart.contains("under no head"), "{restart}");
}

#[tokio::test]
async fn a_trigger_that_writes_along_is_found_before_the_commit() {
    let world = World::with_one_connection().await;
    world.proposed().await;
    let events = bodies(&world.file).len();
    Connection::open(&world.file)
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER along AFTER INSERT ON event WHEN NEW.id NOT LIKE 'evt_x%' BEGIN
                INSERT INTO event (seq, id, at, type, actor, body) VALUES (NEW.seq + 1, 'evt_x' || NEW.seq, NEW.at, 'x', 'x', '{}'); END",
        )
        .unwrap();
    let refused = write(&world, world.store(), 1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert_eq!(bodies(&world.file).len(), events, "nothing was committed");
    // A beat has no event to seal and succeeds; that the log cannot be written stays known.
    world.store().probe().await.unwrap();
    assert_eq!(world.store().health().file, FileState::Failed(Trouble::Log));
    Connection::open(&world.file).unwrap().execute_batch("DROP TRIGGER along").unwrap();
    write(&world, world.store(), 2).await.unwrap();
    assert_eq!(world.store().health().file, FileState::Sound);
}

#[tokio::test]
async fn a_log_that_is_taken_back_under_a_running_store_stops_it_and_its_next_start() {
    let world = World::with_one_connection().await;
    for n in 0..5 {
        write(&world, world.store(), n).await.unwrap();
    }
    let size = head(&world.file).size();
    let vandal = vandal(&world.file);
    vandal
        .execute("DELETE FROM event WHERE seq >= ?1", [i64::try_from(size).unwrap() - 2])
        .unwrap();
    vandal
        .execute("DELETE FROM checkpoint WHERE size > ?1", [i64::try_from(size).unwrap() - 2])
        .unwrap();
    let refused = write(&world, world.store(), 9).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Unavailable(why) if why.contains(&format!("covers {size} events and the database has {}", size - 2))),
        "{refused}"
    );
    let restart = again(&world).unwrap_err();
    assert!(
        restart.contains("was taken back") && restart.contains("writ store recover-log"),
        "{restart}"
    );
}

#[tokio::test]
async fn another_history_under_the_head_is_refused_at_the_start() {
    let world = World::with_one_connection().await;
    for n in 0..5 {
        write(&world, world.store(), n).await.unwrap();
    }
    // An event is changed and the whole tree made anew; only the signature cannot be made.
    let vandal = vandal(&world.file);
    vandal
        .execute(
            "UPDATE event SET body = replace(body, 'access.denied', 'access.passed') WHERE seq = 3",
            [],
        )
        .unwrap();
    let mut edge = Edge::default();
    for body in bodies(&world.file) {
        for (index, hash) in edge.push(leaf_hash(body.as_bytes())).unwrap() {
            vandal
                .execute("UPDATE node SET h = ?2 WHERE i = ?1", (i64::try_from(index).unwrap(), &hash.0[..]))
                .unwrap();
        }
    }
    drop(world.store().probe().await);
    let restart = again(&world).unwrap_err();
    assert!(restart.contains("is not the one that was signed"), "{restart}");
}

#[tokio::test]
async fn without_its_head_file_or_with_another_logs_nothing_starts() {
    let world = World::with_one_connection().await;
    let files = log_beside(&world.file);
    let kept = std::fs::read(&files.head).unwrap();
    std::fs::remove_file(&files.head).unwrap();
    let restart = again(&world).unwrap_err();
    assert!(restart.contains("is missing") && restart.contains("put the file back"), "{restart}");
    assert!(!files.head.exists(), "it is not made anew");

    std::fs::write(&files.head, b"nothing of a head").unwrap();
    let restart = again(&world).unwrap_err();
    assert!(restart.contains("holds no head that a key of this log has signed"), "{restart}");

    std::fs::write(&files.head, kept).unwrap();
    again(&world).unwrap();
}

#[tokio::test]
async fn a_first_seal_that_was_not_committed_is_made_again_and_over_nothing_else() {
    let world = World::with_one_connection().await;
    for n in 0..3 {
        write(&world, world.store(), n).await.unwrap();
    }
    let before = head(&world.file);
    // The head is in the file, and of the first seal the database has nothing.
    let unsealed = |file: &Path| {
        let copy = vandal(file);
        copy.execute_batch("DELETE FROM node; DELETE FROM checkpoint").unwrap();
        copy
    };
    let forged = unsealed(&world.file);
    let was = bodies(&world.file)[2].clone();
    forged
        .execute(
            "UPDATE event SET body = replace(body, 'access.denied', 'access.passed') WHERE seq = 2",
            [],
        )
        .unwrap();
    let refused = again(&world).unwrap_err();
    assert!(refused.contains("is not the one that was signed"), "{refused}");
    forged.execute("UPDATE event SET body = ?1 WHERE seq = 2", [was]).unwrap();
    again(&world).unwrap();
    assert_eq!(head(&world.file), before);
    assert_eq!(before.root(), root_of(&bodies(&world.file)));
}

#[tokio::test]
async fn a_key_that_others_can_read_or_that_is_none_is_refused_without_its_text() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with_one_connection().await;
    let key = log_beside(&world.file).key;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = again(&world).unwrap_err();
    assert!(open.contains("can be read or changed by others (mode 0644)"), "{open}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = std::fs::read_to_string(&key).unwrap();
    for bad in [
        "",
        "PRIVATE+KEY+a+b+c",
        &text.replace("writ.test", "writ.best"),
        &text[..text.len() - 5],
    ] {
        std::fs::write(&key, bad).unwrap();
        let refused = again(&world).unwrap_err();
        assert!(refused.contains("log.key"), "{refused}");
        assert!(!refused.contains(text.rsplit('+').next().unwrap().trim()), "{refused}");
    }
}

#[tokio::test]
async fn every_answer_is_covered_by_the_head_file_and_every_proof_of_every_size_holds() {
    let world = World::with_two_connections().await;
    world.settled(applied()).await;
    let bodies = bodies(&world.file);
    let head = head(&world.file);
    assert_eq!(head.size(), bodies.len() as u64);
    assert_eq!(head.root(), root_of(&bodies));
    let connection = Connection::open(&world.file).unwrap();
    let nodes: Vec<[u8; 32]> = {
        let mut statement = connection.prepare("SELECT h FROM node ORDER BY i").unwrap();
        let found = statement.query_map([], |row| row.get(0)).unwrap();
        found.map(Result::unwrap).collect()
    };
    assert_eq!(nodes.len() as u64, tree::node_count(head.size()));
    let nodes = Stored(nodes);
    for size in 1..=head.size() {
        let root = root_of(&bodies[..usize::try_from(size).unwrap()]);
        let proof = tree::prove_consistency(size, head.size(), &nodes).unwrap();
        tree::check_consistency(&proof, (size, root), (head.size(), head.root())).unwrap();
        for seq in 0..size {
            let leaf = leaf_hash(bodies[usize::try_from(seq).unwrap()].as_bytes());
            let proof = tree::prove_inclusion(size, seq, &nodes).unwrap();
            tree::check_inclusion(&proof, size, root, seq, leaf).unwrap();
        }
    }
}

struct Stored(Vec<[u8; 32]>);

impl tree::HashReader for Stored {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tree::TreeError> {
        let each = indexes.iter().map(|i| self.0.get(usize::try_from(*i).unwrap()).copied().map(Hash));
        each.collect::<Option<_>>().ok_or(tree::TreeError::IndexesNotInTree)
    }
}

/// Makes the next key and has the log say so, as `writ keys rotate --log` does, up to the commit.
async fn rotate(world: &World, store: &Arc<dyn Store>, files: &LogFiles) -> String {
    let before = LogKeys::load(files, None).unwrap();
    let key = files.announce(before.signing.origin(), &SeededEntropy::new(99)).unwrap();
    let event = EventBody {
        log: Some(LogPart {
            key: key.verifier().to_string(),
            previous_key: Some(before.signing.verifier().to_string()),
            previous_head: None,
        }),
        ..EventBody::new(EventKind::Note(Note::LogKeyRotated), Actor::system("test"))
    };
    store.note(world.op(), event).await.unwrap();
    key.verifier().to_string()
}

#[tokio::test]
async fn at_a_rotation_both_keys_sign_and_every_process_goes_on_with_the_new_one() {
    let world = World::with_two_connections().await;
    let files = log_beside(&world.file);
    let old = LogKeys::load(&files, None).unwrap().signing.verifier().clone();
    write(&world, &world.stores[0], 1).await.unwrap();
    write(&world, &world.stores[1], 2).await.unwrap();
    let new = rotate(&world, &world.stores[0], &files).await;
    let boundary = head(&world.file);
    let signers: Vec<String> = boundary
        .signers(&[old.clone(), new.parse().unwrap()])
        .unwrap()
        .into_iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(signers, [old.to_string(), new.clone()]);
    // The other process has not been told, and the new key is not in its place yet.
    write(&world, &world.stores[1], 3).await.unwrap();
    let by = |head: &SignedHead, key: &str| head.signers(&[key.parse().unwrap()]).is_ok();
    assert!(by(&head(&world.file), &new) && !by(&head(&world.file), &old.to_string()));
    // A start before the new key is in its place, and one after it.
    again(&world).unwrap();
    files.take_next().unwrap();
    write(&world, &world.stores[0], 4).await.unwrap();
    again(&world).unwrap();
    write(&world, &world.stores[1], 5).await.unwrap();
    assert!(by(&head(&world.file), &new));
    let kept: i64 = Connection::open(&world.file)
        .unwrap()
        .query_row(
            "SELECT count(*) FROM checkpoint WHERE kept AND size = ?1",
            [i64::try_from(boundary.size()).unwrap()],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(kept, 1, "the boundary stays");
}

#[tokio::test]
async fn a_rotation_without_an_announced_key_is_not_written() {
    let world = World::with_one_connection().await;
    let size = head(&world.file).size();
    let event = EventBody::new(EventKind::Note(Note::LogKeyRotated), Actor::system("test"));
    let refused = world.store().note(world.op(), event).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Unavailable(why) if why.contains("log.key.next")),
        "{refused}"
    );
    assert_eq!(head(&world.file).size(), size);
    write(&world, world.store(), 1).await.unwrap();
}

fn recover(world: &World, file: &Path, files: &LogFiles) -> Result<Recovered, String> {
    let (clock, entropy) = (Arc::<ManualClock>::clone(&world.clock), Arc::<SeededEntropy>::clone(&world.entropy));
    SqliteStore::recover(file, files, &world.op(), clock, entropy).map_err(|error| error.to_string())
}

fn open_at(world: &World, file: &Path, files: &LogFiles) -> Result<SqliteStore, String> {
    let clock = Arc::<ManualClock>::clone(&world.clock);
    let entropy = Arc::new(SeededEntropy::new(9));
    SqliteStore::open(file, &Default::default(), files.clone(), clock, entropy).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_backup_from_before_an_earlier_recovery_goes_on_under_a_name_of_its_own() {
    let world = World::with_one_connection().await;
    write(&world, world.store(), 1).await.unwrap();
    let (backup, again) = (world.file.with_file_name("backup.db"), world.file.with_file_name("again.db"));
    world.store().backup(&backup).await.unwrap();
    std::fs::copy(&backup, &again).unwrap();
    write(&world, world.store(), 2).await.unwrap();
    let files = log_beside(&world.file);
    let first = recover(&world, &backup, &files).unwrap();
    let store = open_at(&world, &backup, &files).unwrap();
    store.note(world.op(), note(3)).await.unwrap();
    drop(store);
    let refused = open_at(&world, &again, &files).unwrap_err();
    assert!(refused.contains("that of") || refused.contains("was taken back"), "{refused}");
    let second = recover(&world, &again, &files).unwrap();
    assert_eq!(
        (first.origin.as_str(), second.origin.as_str()),
        ("writ.test/audit/r2", "writ.test/audit/r3")
    );
    assert_eq!(second.before.map(|head| head.origin), Some("writ.test/audit/r2".to_owned()));
    let store = open_at(&world, &again, &files).unwrap();
    store.note(world.op(), note(4)).await.unwrap();
}

#[tokio::test]
async fn a_restored_database_goes_on_under_another_name_and_only_as_it_was_signed() {
    let world = World::with_one_connection().await;
    write(&world, world.store(), 1).await.unwrap();
    let backup = world.file.with_file_name("backup.db");
    world.store().backup(&backup).await.unwrap();
    for n in 2..5 {
        write(&world, world.store(), n).await.unwrap();
    }
    let lost = head(&world.file);
    let mut files = log_beside(&world.file);
    let recover = |file: &Path, files: &LogFiles| recover(&world, file, files);
    let before = [&files.key, &files.head].map(|file| (file.clone(), std::fs::read(file).unwrap()));
    let open = |file: &Path, files: &LogFiles| open_at(&world, file, files);
    let refused = open(&backup, &files).unwrap_err();
    assert!(refused.contains("was taken back"), "{refused}");

    let forged = world.file.with_file_name("forged.db");
    std::fs::copy(&backup, &forged).unwrap();
    vandal(&forged)
        .execute("UPDATE event SET body = replace(body, 'access.denied', 'access.passed')", [])
        .unwrap();
    let refused = recover(&forged, &files).unwrap_err();
    assert!(refused.contains("is not the one that was signed"), "{refused}");

    let recovered = recover(&backup, &files).unwrap();
    assert_eq!(recovered.origin.as_str(), "writ.test/audit/r2");
    assert_eq!(recovered.before.as_ref().map(|head| head.size), Some(lost.size()));
    // Killed after the commit and before the files were in place: nothing opens it, and the same command again puts them there.
    std::fs::rename(&files.key, files.next()).unwrap();
    std::fs::copy(files.next(), &files.key).unwrap();
    for (file, bytes) in before {
        std::fs::write(file, bytes).unwrap();
    }
    let refused = open(&backup, &files).unwrap_err();
    assert!(refused.contains("that of") || refused.contains("under no head"), "{refused}");
    // The announced key is gone, or is another: that is said, and the files stay as they are.
    let (announced, aside) = (files.next(), files.key.with_extension("aside"));
    let old_head = std::fs::read(&files.head).unwrap();
    std::fs::rename(&announced, &aside).unwrap();
    let refused = recover(&backup, &files).unwrap_err();
    assert!(
        refused.contains("log.key.next") && refused.contains("writ.test/audit/r2"),
        "{refused}"
    );
    std::fs::copy(&files.key, &announced).unwrap();
    let refused = recover(&backup, &files).unwrap_err();
    assert!(refused.contains("log.key.next"), "{refused}");
    assert_eq!(std::fs::read(&files.head).unwrap(), old_head);
    std::fs::rename(&aside, &announced).unwrap();
    let again = recover(&backup, &files).unwrap();
    assert_eq!((again.origin, again.size), (recovered.origin, recovered.size));
    let store = open(&backup, &files).unwrap();
    store.note(world.op(), note(7)).await.unwrap();
    let keys = LogKeys::load(&files, None).unwrap();
    let now = HeadFile::at(files.head.clone()).read(&keys.known).unwrap().unwrap();
    assert_eq!(now.origin().as_str(), "writ.test/audit/r2");
    now.signers(&keys.known).unwrap();
    let last = bodies(&backup).pop().unwrap();
    assert!(last.contains("\"origin\":\"writ.test/audit/r2\""), "{last}");
    // Whoever knows the old name's key is not shown the new one's head for it.
    let old: Vec<_> = keys
        .known
        .iter()
        .filter(|key| key.name().as_str() == "writ.test/audit")
        .cloned()
        .collect();
    assert!(now.signers(&old).is_err());
    files.head.set_extension("gone");
    assert!(open(&backup, &files).unwrap_err().contains("is missing"));
}

#[tokio::test]
async fn a_head_that_cannot_be_written_down_stops_what_is_new_and_not_what_has_begun() {
    let world = World::with_one_connection().await;
    let execution = world.dispatched().await;
    let files = log_beside(&world.file);
    std::fs::remove_file(&files.head).unwrap();
    std::fs::create_dir(&files.head).unwrap();
    world.store().settle(world.op(), world.settle(&execution, applied())).await.unwrap();
    let paused = world.store().propose(world.op(), world.new_draft()).await.unwrap_err();
    assert!(matches!(paused, StoreError::Paused(_)), "{paused}");
    std::fs::remove_dir(&files.head).unwrap();
    world.store().probe().await.unwrap();
    write(&world, world.store(), 1).await.unwrap();
    world.store().propose(world.op(), world.new_draft()).await.unwrap();
    assert_eq!(head(&world.file).size(), bodies(&world.file).len() as u64);
}

#[tokio::test]
async fn a_quiet_log_says_that_it_lives() {
    let world = World::with_two_connections().await;
    write(&world, world.store(), 1).await.unwrap();
    let size = bodies(&world.file).len();
    world.clock.advance(std::time::Duration::from_secs(599));
    world.stores[0].probe().await.unwrap();
    assert_eq!(bodies(&world.file).len(), size);
    world.clock.advance(std::time::Duration::from_secs(1));
    for store in &world.stores {
        store.probe().await.unwrap();
    }
    let bodies = bodies(&world.file);
    assert_eq!(bodies.len(), size + 1, "of two processes one says so");
    assert!(bodies[size].contains("\"type\":\"log.heartbeat\""));
}
