//! What somebody can do to a log who can write to its database and has not got its key.

use rusqlite::Connection;

use super::copy::unclear;
use crate::audit::SignedHead;
use crate::audit::tree::{Edge, leaf_hash};
use crate::prove::outcome::Amiss;

/// A number as the database has it.
pub(super) fn row(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Changes a digit of an event's id; what stood there before.
pub(super) fn edit(db: &Connection, seq: u64) -> Result<String, Amiss> {
    let body: String = db.query_row("SELECT body FROM event WHERE seq = ?1", [row(seq)], |found| found.get(0))?;
    let edited = with_another_id(&body).ok_or_else(|| unclear(format!("event {seq} has no id that could be changed")))?;
    put(db, seq, &edited)?;
    Ok(body)
}

/// Puts these bytes in the place of an event's.
pub(super) fn put(db: &Connection, seq: u64, body: &str) -> Result<(), Amiss> {
    match db.execute("UPDATE event SET body = ?2 WHERE seq = ?1", (row(seq), body))? {
        1 => Ok(()),
        _ => Err(unclear(format!("there is no event {seq}"))),
    }
}

fn with_another_id(body: &str) -> Option<String> {
    let (before, rest) = body.split_once("\"id\":\"evt_")?;
    let (id, after) = rest.split_once('"')?;
    let (first, last) = id.split_at_checked(id.len().checked_sub(1)?)?;
    let other = if last == "0" { "1" } else { "0" };
    Some(format!("{before}\"id\":\"evt_{first}{other}\"{after}"))
}

/// Makes the tree anew over whatever the events are now.
pub(super) fn regrow(db: &Connection) -> Result<Edge, Amiss> {
    db.execute("DELETE FROM node", [])?;
    let mut events = db.prepare("SELECT body FROM event ORDER BY seq")?;
    let mut insert = db.prepare("INSERT INTO node (i, h) VALUES (?1, ?2)")?;
    let mut edge = Edge::default();
    for body in events.query_map([], |found| found.get::<_, String>(0))? {
        for (index, hash) in edge.push(leaf_hash(body?.as_bytes())).map_err(unclear)? {
            insert.execute((row(index), &hash.0[..]))?;
        }
    }
    Ok(edge)
}

/// Puts a head in the place of all there are.
pub(super) fn put_head(db: &Connection, head: &SignedHead) -> Result<(), Amiss> {
    db.execute("DELETE FROM checkpoint", [])?;
    let sql = "INSERT INTO checkpoint (size, at, kept, note) VALUES (?1, 0, 0, ?2)";
    db.execute(sql, (row(head.size()), head.text()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_event_differs_in_one_character_of_its_id() {
        let edited = with_another_id(r#"{"id":"evt_0a","seq":3}"#);
        assert_eq!(edited.as_deref(), Some(r#"{"id":"evt_00","seq":3}"#));
        assert_eq!(with_another_id(&edited.unwrap()).as_deref(), Some(r#"{"id":"evt_01","seq":3}"#));
        assert_eq!(with_another_id("{}"), None);
    }
}
