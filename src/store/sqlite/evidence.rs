//! The log in a database file, read as evidence: one read transaction, nothing is written, and nothing but the bytes is believed.

use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Params, Row};

use super::connection::{self, OpenError};
use super::pruned;
use super::step::whole;
use crate::audit::source::{Gone, KeptHead, LogSource, Page, SourceError};
use crate::audit::tree::{Hash, Node};
use crate::domain::time::Timestamp;

/// The log and what it tells of, at one moment.
pub struct Evidence {
    path: PathBuf,
    connection: Connection,
}

impl Evidence {
    /// Opens any database of this program, also one that runs, one that is older, and a copy on a medium that cannot be written.
    ///
    /// # Errors
    /// [`OpenError`] if it is no database of this program, one of a newer one, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| connection::explained(path, source);
        let connection = match open(path, "") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && is_at_rest(path) => open(path, "&immutable=1"),
            other => other,
        };
        let connection = connection.map_err(failed)?;
        connection::accept(path, &connection)?;
        connection.execute_batch("BEGIN").map_err(failed)?;
        let evidence = Self {
            path: path.to_owned(),
            connection,
        };
        // The transaction is of the moment of its first look.
        evidence.number("SELECT count(*) FROM sqlite_schema", []).map_err(failed)?;
        Ok(evidence)
    }

    /// The numbers of a case's events, by the search columns, in order; of one tenant's case of this name, if one is named.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn case(&self, case: &str, tenant: Option<&str>) -> Result<Vec<u64>, SourceError> {
        let sql = "SELECT seq FROM event WHERE case_id = ?1 AND (?2 IS NULL OR tenant IS ?2) ORDER BY seq";
        self.all(sql, (case, tenant), |row| unsigned(row, 0))
    }

    /// The tenants that have a case of this name.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn tenants(&self, case: &str) -> Result<Vec<Option<String>>, SourceError> {
        self.all(
            "SELECT DISTINCT tenant FROM event WHERE case_id = ?1 ORDER BY tenant",
            [case],
            |row| row.get(0),
        )
    }

    /// The first and the last event of the time from `from` up to and without `until`.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn between(&self, from: Timestamp, until: Timestamp) -> Result<Option<(u64, u64)>, SourceError> {
        let sql = "SELECT min(seq), max(seq) FROM event WHERE at >= ?1 AND at < ?2 HAVING count(*) > 0";
        let found = self.all(sql, (from.millis(), until.millis()), |row| {
            Ok((unsigned(row, 0)?, unsigned(row, 1)?))
        })?;
        Ok(found.into_iter().next())
    }

    fn number(&self, sql: &str, params: impl Params) -> rusqlite::Result<u64> {
        self.connection.prepare_cached(sql)?.query_row(params, |row| unsigned(row, 0))
    }

    /// Every row of a query.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, SourceError> {
        let found = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_map(params, |row| read(row))?.collect()
        };
        found().map_err(|error| self.failed(&error))
    }

    /// Looks at every row of a query, one after the other.
    pub(super) fn each(&self, sql: &str, mut look: impl FnMut(&Row<'_>) -> rusqlite::Result<()>) -> Result<(), SourceError> {
        let mut found = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                look(row)?;
            }
            Ok(())
        };
        found().map_err(|error| self.failed(&error))
    }

    /// The connection, in its read transaction.
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Tells an error with the file it is about.
    pub(super) fn failed(&self, error: &rusqlite::Error) -> SourceError {
        SourceError(format!("{}: {error}", self.path.display()))
    }
}

impl LogSource for Evidence {
    fn size(&self) -> Result<u64, SourceError> {
        self.number("SELECT coalesce(max(seq) + 1, 0) FROM event", [])
            .map_err(|error| self.failed(&error))
    }

    fn held(&self) -> Result<(u64, u64), SourceError> {
        let first = self.number("SELECT coalesce(min(seq), 0) FROM event", []);
        // It means to hold everything up to its head: an end that is not there was cut off.
        Ok((first.map_err(|error| self.failed(&error))?, u64::MAX))
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn latest(&self) -> Result<Option<KeptHead>, SourceError> {
        let found = self.all("SELECT size, at, kept, note FROM checkpoint ORDER BY size DESC LIMIT 1", [], head)?;
        Ok(found.into_iter().next())
    }

    fn heads(&self, above: Option<u64>, limit: usize) -> Result<Vec<KeptHead>, SourceError> {
        let above = above.map_or(-1, whole);
        let sql = "SELECT size, at, kept, note FROM checkpoint WHERE size > ?1 ORDER BY size LIMIT ?2";
        self.all(sql, (above, whole(limit as u64)), head)
    }

    fn leaves(&self, from: u64, limit: usize, page: &mut Page) -> Result<(), SourceError> {
        page.clear();
        let mut read = || -> rusqlite::Result<()> {
            let sql = "SELECT seq, body FROM event WHERE seq >= ?1 ORDER BY seq LIMIT ?2";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query((whole(from), whole(limit as u64)))?;
            while let Some(row) = rows.next()? {
                page.push(unsigned(row, 0)?, bytes(row.get_ref(1)?));
            }
            Ok(())
        };
        read().map_err(|error| self.failed(&error))
    }

    fn nodes(&self, from: u64, limit: usize) -> Result<Vec<Node>, SourceError> {
        let sql = "SELECT i, h FROM node WHERE i >= ?1 ORDER BY i LIMIT ?2";
        self.all(sql, (whole(from), whole(limit as u64)), |row| {
            Ok((unsigned(row, 0)?, hash(row, 1)?))
        })
    }

    fn gone(&self, leaf: Hash) -> Result<Option<Gone>, SourceError> {
        pruned::gone(&self.connection, leaf).map_err(|error| self.failed(&error))
    }

    fn node(&self, index: u64) -> Result<Option<Hash>, SourceError> {
        let found = || -> rusqlite::Result<Option<Hash>> {
            let mut statement = self.connection.prepare_cached("SELECT h FROM node WHERE i = ?1")?;
            statement.query_row([whole(index)], |row| hash(row, 0)).optional()
        };
        found().map_err(|error| self.failed(&error))
    }
}

fn head(row: &Row<'_>) -> rusqlite::Result<KeptHead> {
    Ok(KeptHead {
        size: unsigned(row, 0)?,
        at: row.get_ref(1)?.as_i64().ok().map(Timestamp::from_millis),
        kept: row.get_ref(2)?.as_i64() == Ok(1),
        text: String::from_utf8_lossy(bytes(row.get_ref(3)?)).into_owned(),
    })
}

/// What a column holds, whatever somebody has put there: it is for the verifier to say that it is wrong.
pub(super) fn bytes(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => &[],
    }
}

/// A hash; one that no event has, where the column holds something else.
fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Hash> {
    Ok(Hash(bytes(row.get_ref(column)?).try_into().unwrap_or_default()))
}

/// A number that cannot be negative, by the schema; where somebody has made it so nonetheless, it is one that no log has.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let found = row.get_ref(column)?.as_i64().ok();
    Ok(found.and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX))
}

/// A connection that may only read, with everything that keeps the file's schema from running anything.
fn open(path: &Path, more: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{}?mode=ro{more}", escaped(path)), flags)?;
    connection::restrict(&connection)?;
    // The header is read only now; a file that cannot be opened says so here.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// The path in a `file:` address.
fn escaped(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let each = path.as_os_str().as_bytes().iter();
    each.map(|byte| {
        if plain(*byte) {
            char::from(*byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    })
    .collect()
}

/// Whether nobody has the file open: then there is no write-ahead log, and its shared memory need not be made.
fn is_at_rest(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    path.is_file() && std::fs::metadata(log).map_or(true, |found| found.len() == 0)
}
