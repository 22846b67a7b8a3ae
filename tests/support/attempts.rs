//! What the attempt log says of a request at the moment it arrives at the backend.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use writ::domain::digest::Digest;
use writ::sandbox::SeenRequest;

/// Whether the last attempt under this key has these bytes and no result yet. A request that was cut off before its body has none to compare.
pub fn is_written_down(store: &Path, seen: &SeenRequest) -> bool {
    let connection = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    let sql = "SELECT a.request_sha256 = ?2 OR ?3, a.result_at IS NULL
               FROM attempt a JOIN execution e ON e.id = a.execution JOIN draft d ON d.id = e.draft
               WHERE d.idempotency_key = ?1 ORDER BY a.n DESC LIMIT 1";
    let cut = seen.body_sha256 == Digest::of(b"");
    let last = connection.query_row(sql, (&seen.idempotency_key, seen.body_sha256.to_string(), cut), |row| {
        Ok(row.get::<_, bool>(0)? && row.get::<_, bool>(1)?)
    });
    last.optional().unwrap().unwrap_or(false)
}
