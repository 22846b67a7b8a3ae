//! Opening the file: which library, which settings, which version of the schema, and whether it is sound.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// The first library without the fault that could lose committed transactions in WAL mode with several connections.
const OLDEST_LIBRARY: i32 = 3_051_003;

/// `writ` in ASCII, in the file's header.
const APPLICATION_ID: i32 = 0x7772_6974;

/// Larger files are not checked page by page at start: it takes about three seconds a gigabyte.
const CHECK_BELOW: u64 = 2 << 30;

/// How long a connection waits for another process's transaction.
const BUSY: Duration = Duration::from_secs(5);

/// The migrations, oldest first; a file's `user_version` counts how many it has had.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001_first.sql"),
    include_str!("schema/0002_handoffs.sql"),
    include_str!("schema/0003_stops.sql"),
    include_str!("schema/0004_client_certificates.sql"),
    include_str!("schema/0005_backend_events.sql"),
    include_str!("schema/0006_attempt_secrets.sql"),
    include_str!("schema/0007_tree.sql"),
    include_str!("schema/0008_privacy.sql"),
];

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The SQLite library is too old.
    #[error("the SQLite library is {0}: 3.51.3 or newer is needed, since older ones can lose committed transactions")]
    OldLibrary(&'static str),
    /// The file's schema is newer than this program.
    #[error("{} has schema version {found}, this program knows {known}: run the newer program, or restore a backup made before it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// The newest version this program knows.
        known: usize,
    },
    /// The file is some other program's.
    #[error("{} is a database of another program: name a file that does not exist yet", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged or no database.
    #[error("{} is damaged or no database: {why}; restore it from a backup", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file cannot be opened or written.
    #[error("cannot open {}: {source}", path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The log in the file is not the one that was signed, or its key or head cannot be used.
    #[error("{}: {why}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// A thread could not be started.
    #[error("cannot start the store's threads: {0}")]
    Thread(#[source] std::io::Error),
}

impl OpenError {
    /// Something about the log of this file.
    pub(super) fn log(path: &Path, error: super::seal::SealError) -> Self {
        Self::Log {
            path: path.to_owned(),
            why: error.to_string(),
        }
    }
}

/// Makes the file ready: creates or migrates it, and checks it if it is not too large.
pub(super) fn prepare(path: &Path) -> Result<(), OpenError> {
    if rusqlite::version_number() < OLDEST_LIBRARY {
        return Err(OpenError::OldLibrary(rusqlite::version()));
    }
    let explain = |error| explained(path, error);
    // If the file exists, or cannot be made, opening it says so.
    drop(create_private(path));
    let mut connection = Connection::open(path).map_err(explain)?;
    // Before any setting is changed: another program's file stays as it was.
    if is_foreign(&connection).map_err(explain)? {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    settle(&connection).map_err(explain)?;
    let version: i32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(explain)?;
    refuse_newer(path, version)?;
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if size < CHECK_BELOW
        && let Some(why) = inconsistent(&connection, 1).map_err(explain)?.into_iter().next()
    {
        return Err(OpenError::Corrupt {
            path: path.to_owned(),
            why,
        });
    }
    migrate(path, &mut connection)
}

/// How often a log that is being copied is asked for again, and with what pause: half a second in all.
const CHECKPOINT_TRIES: u32 = 25;
const CHECKPOINT_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// A connection that may write.
pub(super) fn writer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    settle(&connection)?;
    // The checkpoint thread does it, so that no transition waits for one.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // What is erased or pruned must not stay readable in pages that nobody uses.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Copies everything that is committed from the write-ahead log into the file, flushes it and empties the log.
///
/// After a failed flush Linux takes its pages for written, so asking it to flush again proves nothing. Copied, they are written anew, and the
/// flush that follows is about them; a log that no longer reads back is found by the checks.
pub(super) fn rewrite_log(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let truncate = || connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    let mut is_busy = truncate()?;
    // For readers SQLite waits by itself, but not for another checkpoint, such as that of our own thread.
    for _ in 0..CHECKPOINT_TRIES {
        if !is_busy {
            break;
        }
        std::thread::sleep(CHECKPOINT_PAUSE);
        is_busy = truncate()?;
    }
    if is_busy {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(
            busy,
            Some("a reader holds the write-ahead log".to_owned()),
        ));
    }
    if std::fs::metadata(path).map_or(0, |meta| meta.len()) < CHECK_BELOW {
        let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if verdict != "ok" {
            let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(rusqlite::Error::SqliteFailure(corrupt, Some(verdict)));
        }
    }
    Ok(())
}

/// A connection that may only read.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = plain_reader(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// A connection that may only read this file; `VACUUM INTO` needs one that may write another.
pub(super) fn plain_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    guard(&connection)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn guard(connection: &Connection) -> rusqlite::Result<()> {
    // One plan for a statement, whatever is bound to it. Without it a column of a partial index that is compared with a parameter has the
    // statement compiled anew at every call.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)
}

fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    guard(connection)?;
    into_wal(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// Changing to WAL needs the file for itself and does not wait by itself: two processes that start on one new file meet here. So whoever
/// finds it taken waits as for any exclusive transaction, at most [`BUSY`], and tries again.
fn into_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut left = 100;
    loop {
        let mode: rusqlite::Result<String> = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Ok(_) => return Ok(()),
            Err(error) if is_busy(&error) && left > 0 => left -= 1,
            Err(error) => return Err(error),
        }
        connection.execute_batch("BEGIN EXCLUSIVE; ROLLBACK")?;
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn migrate(path: &Path, connection: &mut Connection) -> Result<(), OpenError> {
    let explain = |error| explained(path, error);
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(explain)?;
    // Read again inside the transaction: another process may have migrated meanwhile.
    let version: i32 = tx.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(explain)?;
    let done = refuse_newer(path, version)?;
    let application: i32 = tx.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(explain)?;
    let tables: i64 = tx
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(explain)?;
    if application != APPLICATION_ID && (tables > 0 || version != 0) {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    for migration in MIGRATIONS.iter().skip(done) {
        tx.execute_batch(migration).map_err(explain)?;
    }
    if done < MIGRATIONS.len() {
        tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(explain)?;
        tx.pragma_update(None, "user_version", i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX))
            .map_err(explain)?;
    }
    tx.commit().map_err(explain)
}

/// Whether the file holds something and is not ours. One statement, so that a file another process is just making is seen before or after.
fn is_foreign(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(BUSY)?;
    connection.query_row(
        "SELECT a.application_id <> ?1 AND (v.user_version <> 0 OR (SELECT count(*) FROM sqlite_schema) > 0)
         FROM pragma_application_id a, pragma_user_version v",
        [APPLICATION_ID],
        |row| row.get(0),
    )
}

fn refuse_newer(path: &Path, version: i32) -> Result<usize, OpenError> {
    let found = usize::try_from(version).unwrap_or(usize::MAX);
    if found > MIGRATIONS.len() {
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            known: MIGRATIONS.len(),
        });
    }
    Ok(found)
}

/// Takes a file that is only read: any version that this program knows.
pub(super) fn accept(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let explain = |error| explained(path, error);
    let application: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(explain)?;
    if application != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let version: i32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(explain)?;
    if version < SEALED {
        return Err(OpenError::Log {
            path: path.to_owned(),
            why: "it has no tree over its log yet: start `writ serve` on it once".to_owned(),
        });
    }
    refuse_newer(path, version).map(drop)
}

/// An empty database in memory with the schema of this version.
pub(super) fn schema(version: usize) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    for migration in MIGRATIONS.iter().take(version) {
        connection.execute_batch(migration)?;
    }
    Ok(connection)
}

/// The first version with a tree over the log.
const SEALED: i32 = 7;

/// Where tables and indexes do not say the same, at most so many.
pub(super) fn inconsistent(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({limit})"))?;
    let found: rusqlite::Result<Vec<String>> = statement.query_map([], |row| row.get(0))?.collect();
    Ok(found?.into_iter().filter(|line| line != "ok").collect())
}

/// Settings of a connection that reads a file it does not trust.
pub(super) fn restrict(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    guard(connection)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "query_only", true)
}

pub(super) fn explained(path: &Path, source: rusqlite::Error) -> OpenError {
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Corrupt {
            path: path.to_owned(),
            why: source.to_string(),
        },
        _ => OpenError::Sql {
            path: path.to_owned(),
            source,
        },
    }
}

/// Creates a file that only its owner can read.
pub(super) fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
