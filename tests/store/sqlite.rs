//! What only the SQLite file promises: constraints that no program gets past, and a start that refuses what it cannot trust.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use writ::domain::lifecycle::{
    ApprovalState, ApprovalTransition, CredentialState, CredentialTransition, DraftState, DraftTransition, ExecutionState,
    ExecutionTransition, StopState, StopTransition,
};
use writ::store::sqlite::{OpenError, SqliteStore};
use writ::store::{Rejection, StoreError};

use super::world::*;
use crate::support::log::{log_beside, open_store};
use crate::support::{ManualClock, SeededEntropy};

fn try_open(file: &Path) -> Result<SqliteStore, OpenError> {
    open_store(file, Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(2)))
}

fn raw(world: &World) -> Connection {
    let connection = Connection::open(&world.file).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection
}

/// The message with which the database refuses a statement.
fn refusal(connection: &Connection, sql: &str) -> String {
    connection.execute(sql, []).unwrap_err().to_string()
}

/// The states of a table's CHECK constraint, read from its text.
fn states_of(connection: &Connection, table: &str) -> BTreeSet<String> {
    let sql: String = connection
        .query_row("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1", [table], |row| {
            row.get(0)
        })
        .unwrap();
    let list = sql.split("CHECK (state IN (").nth(1).unwrap().split(')').next().unwrap();
    list.split(',').map(|word| word.trim().trim_matches('\'').to_owned()).collect()
}

#[tokio::test]
async fn the_schemas_states_are_the_lifecycles() {
    let world = World::with_one_connection().await;
    let connection = raw(&world);
    let words = |states: Vec<&str>| states.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(
        states_of(&connection, "draft"),
        words(DraftState::ALL.iter().map(|s| s.as_str()).collect())
    );
    assert_eq!(
        states_of(&connection, "approval"),
        words(ApprovalState::ALL.iter().map(|s| s.as_str()).collect())
    );
    assert_eq!(
        states_of(&connection, "credential"),
        words(CredentialState::ALL.iter().map(|s| s.as_str()).collect())
    );
    assert_eq!(
        states_of(&connection, "stop"),
        words(StopState::ALL.iter().map(|s| s.as_str()).collect())
    );
    assert_eq!(
        states_of(&connection, "execution"),
        words(ExecutionState::ALL.iter().map(|s| s.as_str()).collect())
    );
}

#[tokio::test]
async fn the_schemas_transitions_are_the_lifecycles() {
    let world = World::with_one_connection().await;
    let connection = raw(&world);
    let mut statement = connection
        .prepare("SELECT entity || '.' || transition, from_state, to_state FROM lifecycle")
        .unwrap();
    let stored: BTreeSet<(String, String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut expected = BTreeSet::new();
    macro_rules! expect {
        ($transition:ident) => {
            for t in $transition::ALL {
                for from in t.from() {
                    expected.insert((t.event().to_owned(), from.as_str().to_owned(), t.to().as_str().to_owned()));
                }
            }
        };
    }
    expect!(DraftTransition);
    expect!(ApprovalTransition);
    expect!(CredentialTransition);
    expect!(ExecutionTransition);
    expect!(StopTransition);
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn no_statement_changes_what_is_final() {
    let world = World::with_one_connection().await;
    let execution = world.indeterminate().await;
    let connection = raw(&world);
    for (sql, why) in [
        ("UPDATE event SET body = '{}' WHERE seq = 0", "an event never changes"),
        ("DELETE FROM event WHERE seq = 0", "an event is never deleted"),
        (
            "INSERT INTO event (seq, id, at, type, actor, body) VALUES (9999, 'x', 0, 'x', 'x', '{}')",
            "without gaps",
        ),
        ("UPDATE draft SET amount_minor = 1", "the content of a draft never changes"),
        ("UPDATE draft SET resource_id = 'ch_other'", "the content of a draft never changes"),
        ("UPDATE draft SET hash = 'x'", "the content of a draft never changes"),
        ("UPDATE draft SET idempotency_key = 'x'", "the content of a draft never changes"),
        ("UPDATE draft_document SET bytes = x'00'", "the content of a draft never changes"),
        ("DELETE FROM draft", "a draft is never deleted"),
        (
            "UPDATE approval SET state = 'requested'",
            "no transition of an approval leads there",
        ),
        ("UPDATE approval SET nonce = 'x'", "what an approval asks for never changes"),
        ("UPDATE approval_record SET decision = 'deny'", "a signed record never changes"),
        (
            "UPDATE credential SET state = 'issued'",
            "no transition of a credential leads there",
        ),
        (
            "UPDATE credential SET expires_at = expires_at + 1",
            "what a credential grants never changes",
        ),
        (
            "UPDATE execution SET state = 'claimed'",
            "no transition of an execution leads there",
        ),
        ("UPDATE draft SET state = 'proposed'", "no transition of a draft leads there"),
        ("UPDATE execution SET fence = 0", "a fencing token never goes back"),
        (
            "UPDATE execution SET send_until = send_until + 1",
            "the window for sending never moves",
        ),
        ("DELETE FROM execution", "an execution is never deleted"),
        ("UPDATE attempt SET conclusive = 1", "what came of an attempt never changes"),
    ] {
        let refusal = refusal(&connection, sql);
        assert!(refusal.contains(why), "{sql}: {refusal}");
    }
    assert_eq!(world.execution(execution.id).await, execution);
}

#[tokio::test]
async fn the_schema_itself_allows_one_execution_and_one_live_credential_a_draft() {
    let world = World::with_one_connection().await;
    world.indeterminate().await;
    world.issued().await;
    let connection = raw(&world);
    for (sql, column) in [
        (
            "INSERT INTO execution SELECT 'exe_other', draft, hash, credential, state, fence, holder, lease_until, claimed_at, first_sent_at, send_until, next_action_at, reference, code, evidence, changed_at, handed_off_at, handed_off_code FROM execution",
            "execution.draft",
        ),
        (
            "INSERT INTO credential SELECT 'crd_other', draft, hash, approval, audience, root_key_id, state, issued_at, expires_at, changed_at FROM credential WHERE state = 'issued'",
            "credential.draft",
        ),
        (
            "INSERT INTO approval SELECT 'apv_other', draft, hash, state, nonce, requirement, requested_at, expires_at, execute_by, changed_at, revocation FROM approval LIMIT 1",
            "approval.draft",
        ),
        (
            "INSERT INTO approval_record SELECT 'apr_other', approval, approver, kid, decision, reason, queues, step_up, execute_by, received_at, jws FROM approval_record LIMIT 1",
            "approval_record.approval, approval_record.approver",
        ),
    ] {
        let refusal = refusal(&connection, sql);
        assert!(refusal.contains(&format!("UNIQUE constraint failed: {column}")), "{sql}: {refusal}");
    }
    let other_hash = "INSERT INTO execution SELECT 'exe_other', (SELECT draft FROM credential WHERE state = 'issued'), hash, credential, state, fence, holder, lease_until, claimed_at, first_sent_at, send_until, next_action_at, reference, code, evidence, changed_at, handed_off_at, handed_off_code FROM execution";
    assert!(
        refusal(&connection, other_hash).contains("FOREIGN KEY"),
        "a hash that is not the draft's"
    );
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let world = World::with_one_connection().await;
    let execution = world.indeterminate().await;
    let draft = world.draft(execution.draft).await;
    let bytes = world.store().draft_bytes(draft.id).await.unwrap();
    let events = world.events().await;
    let World {
        stores,
        clock,
        entropy,
        file,
        _dir: dir,
        ..
    } = world;
    drop(stores);
    let store = open(&file, &clock, &entropy);
    assert_eq!(store.execution(execution.id).await.unwrap(), Some(execution));
    assert_eq!(store.draft_bytes(draft.id).await.unwrap(), bytes);
    assert_eq!(store.draft(draft.id).await.unwrap(), Some(draft));
    assert_eq!(store.events(0, 1000).await.unwrap().len(), events.len());
    drop(dir);
}

#[test]
fn a_newer_files_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("writ.db");
    drop(try_open(&file).unwrap());
    let connection = Connection::open(&file).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let error = try_open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("run the newer program"), "{error}");
}

#[test]
fn another_programs_file_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = std::fs::read(&file).unwrap();
    let error = try_open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), before, "not a byte of it has changed");
}

#[test]
fn a_file_that_is_no_database_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("writ.db");
    std::fs::write(&file, "this is a text file, and a long one: ".repeat(200)).unwrap();
    let error = try_open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("restore it from a backup"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_refused_in_words() {
    let world = World::with_one_connection().await;
    for _ in 0..20 {
        world.held(1).await;
    }
    let World {
        stores, file, _dir: dir, ..
    } = world;
    drop(stores);
    let mut bytes = std::fs::read(&file).unwrap();
    // Every page but the first, so that the file still says what it is.
    for byte in bytes.iter_mut().skip(3 * 4096).step_by(7) {
        *byte ^= 0x5a;
    }
    std::fs::write(&file, bytes).unwrap();
    let error = try_open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    drop(dir);
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let error = try_open(Path::new("/nonexistent/writ.db")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/writ.db"), "{error}");
}

#[tokio::test]
async fn a_backup_opens_and_equals_and_overwrites_nothing() {
    let world = World::with_one_connection().await;
    let execution = world.indeterminate().await;
    let copy = world.file.with_file_name("copy.db");
    world.store().backup(&copy).await.unwrap();
    // The copy goes on under the key of the original, from the head of that moment.
    let (from, to) = (log_beside(&world.file), log_beside(&copy));
    for (from, to) in [
        (from.key.clone(), to.key.clone()),
        (from.public(), to.public()),
        (from.head, to.head),
    ] {
        std::fs::copy(from, to).unwrap();
    }
    let store = open(&copy, &world.clock, &world.entropy);
    assert_eq!(store.execution(execution.id).await.unwrap(), Some(execution));
    assert_eq!(store.events(0, 1000).await.unwrap(), world.store().events(0, 1000).await.unwrap());
    store.probe().await.unwrap();
    let again = world.store().backup(&copy).await.unwrap_err();
    assert_eq!(again, StoreError::Rejected(Rejection::Exists(copy.display().to_string())));
    let nowhere = world.store().backup(Path::new("/nonexistent/copy.db")).await.unwrap_err();
    assert!(matches!(nowhere, StoreError::Unavailable(_)), "{nowhere}");
}

#[tokio::test]
async fn the_file_is_private_durable_and_in_wal_mode() {
    let world = World::with_one_connection().await;
    let connection = raw(&world);
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    let loose: i64 = connection
        .query_row(
            "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%' AND NOT strict",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(loose, 0, "every table is STRICT");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&world.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "nobody else reads it");
    }
}

#[tokio::test]
async fn a_probe_commits_and_is_no_change_others_wait_for() {
    let world = World::with_one_connection().await;
    let mut changes = world.store().changes();
    changes.mark_unchanged();
    world.clock.advance(MINUTE);
    world.store().probe().await.unwrap();
    assert!(!changes.has_changed().unwrap());
    let at: i64 = raw(&world).query_row("SELECT at FROM probe", [], |row| row.get(0)).unwrap();
    assert_eq!(at, writ::domain::clock::Clock::now(&*world.clock).millis());
    world.proposed().await;
    assert!(changes.has_changed().unwrap());
}

#[tokio::test]
async fn two_programs_may_start_on_one_new_file_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // They rarely meet at the change to WAL; over many files they do.
    for n in 0..40 {
        let file = dir.path().join(format!("{n}.db"));
        let together = std::sync::Arc::new(std::sync::Barrier::new(4));
        let starts = [(); 4].map(|()| {
            let (file, together) = (file.clone(), together.clone());
            std::thread::spawn(move || {
                together.wait();
                try_open(&file).map(drop)
            })
        });
        for start in starts {
            start.join().unwrap().unwrap();
        }
    }
}
