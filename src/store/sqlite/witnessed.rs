//! Heads that witnesses have cosigned: kept, so that they can be given out, one for each minute.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use super::failure::Failure;
use super::step::whole;
use super::writer::{Ran, Wrote};
use crate::audit::SignedHead;
use crate::domain::time::Timestamp;

/// Keeps the head with its lines, and with those that another process has put under it meanwhile. What was cosigned by fewer within the same minute and is not the latest head makes room for it.
pub(super) fn keep(connection: &Connection, head: &SignedHead, now: Timestamp) -> Result<Ran<()>, Failure> {
    match note_of(connection, head.size())? {
        Some(stands) if stands.root() != head.root() || stands.origin() != head.origin() => {
            return Err(Failure::Corrupt(format!(
                "the head of {} events is not the one that was cosigned: see `writ audit verify --help`",
                head.size()
            )));
        }
        Some(stands) => {
            let both = stands.with_lines_of(head);
            let head = both.as_ref().unwrap_or(head);
            let mut replace = connection.prepare_cached("UPDATE checkpoint SET note = :note WHERE size = :size")?;
            replace.execute(named_params! { ":note": head.text(), ":size": whole(head.size()) })?;
        }
        None => {
            let mut insert = connection.prepare_cached("INSERT INTO checkpoint (size, at, kept, note) VALUES (:size, :now, 0, :note)")?;
            insert.execute(named_params! { ":size": whole(head.size()), ":now": now.millis(), ":note": head.text() })?;
        }
    }
    thin(connection, head, now)?;
    Ok(Ran::quiet((), Wrote::Rows))
}

fn note_of(connection: &Connection, size: u64) -> rusqlite::Result<Option<SignedHead>> {
    let mut statement = connection.prepare_cached("SELECT note FROM checkpoint WHERE size = ?1")?;
    let note = statement.query_row([whole(size)], |row| row.get::<_, String>(0)).optional()?;
    Ok(note.and_then(|note| SignedHead::read(&note).ok()))
}

fn thin(connection: &Connection, head: &SignedHead, now: Timestamp) -> rusqlite::Result<()> {
    let mut earlier =
        connection.prepare_cached("SELECT size, note FROM checkpoint WHERE size < :size AND kept = 0 AND at / 60000 = :now / 60000")?;
    let found = earlier.query_map(named_params! { ":size": whole(head.size()), ":now": now.millis() }, |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut delete = connection.prepare_cached("DELETE FROM checkpoint WHERE size = ?1")?;
    for found in found.collect::<Result<Vec<_>, _>>()? {
        let lines = SignedHead::read(&found.1).map_or(0, |earlier| earlier.line_count());
        if lines <= head.line_count() {
            delete.execute([found.0])?;
        }
    }
    Ok(())
}
