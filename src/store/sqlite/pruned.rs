//! Whether an event that is not there was pruned, as the log itself says.

use rusqlite::{Connection, OptionalExtension as _};

use super::seal;
use super::step::whole;
use crate::audit::Note;
use crate::audit::source::Gone;
use crate::audit::tree::{Hash, leaf_index, leaf_number};

/// The event with this leaf hash, if the tree has it among those that the log says are pruned, and its bytes are not there.
///
/// The tree is looked through from the last pruned event back: a case that is in part there ended not long before that.
pub(super) fn gone(connection: &Connection, leaf: Hash) -> rusqlite::Result<Option<Gone>> {
    let kind = Note::RetentionPruned.as_str();
    let mut upto =
        connection.prepare_cached("SELECT max(CAST(json_extract(body, '$.pruned.to') AS INTEGER)) FROM event WHERE type = ?1")?;
    let upto: Option<i64> = upto.query_row([kind], |row| row.get(0))?;
    let Some(upto) = upto.and_then(|upto| u64::try_from(upto).ok()) else {
        return Ok(None);
    };
    let upto = upto.min(seal::size(connection)?);
    let mut find = connection.prepare_cached("SELECT i FROM node WHERE i <= ?1 AND h = ?2 ORDER BY i DESC LIMIT 1")?;
    let index: Option<i64> = find
        .query_row((whole(leaf_index(upto)), &leaf.0[..]), |row| row.get(0))
        .optional()?;
    let Some(seq) = index.and_then(|index| u64::try_from(index).ok()).and_then(leaf_number) else {
        return Ok(None);
    };
    let mut told = connection.prepare_cached(
        "SELECT seq FROM event WHERE type = ?1 AND CAST(json_extract(body, '$.pruned.to') AS INTEGER) >= ?2
            AND NOT EXISTS (SELECT 1 FROM event WHERE seq = ?2) ORDER BY seq LIMIT 1",
    )?;
    let told: Option<i64> = told.query_row((kind, whole(seq)), |row| row.get(0)).optional()?;
    Ok(told.and_then(|told| u64::try_from(told).ok()).map(|told| Gone { seq, told }))
}
