//! The proofs of the log, each answer from one snapshot.

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension as _};

use super::failure::Failure;
use super::pruned;
use super::rows::{self, number};
use super::seal::{Nodes, latest};
use super::step::whole;
use crate::audit::tree::{self, Hash, HashReader as _, TreeError, leaf_hash};
use crate::audit::{Receipt, SignedHead};
use crate::domain::lifecycle::{CredentialTransition, DraftTransition, ExecutionTransition};
use crate::store::log::{Consistency, EventRef, Inclusion, ProvenEvent, Tile};
use crate::store::record::StoredEvent;

/// The latest head.
pub(super) fn head(connection: &Connection) -> Result<Option<SignedHead>, Failure> {
    Ok(latest(connection)?)
}

/// An event with its proof by the latest head.
pub(super) fn receipt(connection: &Connection, of: EventRef) -> Result<Option<ProvenEvent>, Failure> {
    let Some(event) = find(connection, of)? else { return Ok(None) };
    let head = latest(connection)?.ok_or_else(|| Failure::Corrupt("the log has events and no head".to_owned()))?;
    if let EventRef::Pruned(leaf) = of {
        let leaf = Hash(*leaf.as_bytes());
        let gone = pruned::gone(connection, leaf)?.filter(|gone| gone.told == event.seq);
        if gone.is_none_or(|gone| way(connection, &head, gone.seq, leaf).is_err()) {
            return Ok(None);
        }
    }
    let receipt = prove(connection, &head, &event)?;
    Ok(Some(ProvenEvent { event, receipt }))
}

/// The last event that tells of it.
fn find(connection: &Connection, of: EventRef) -> Result<Option<StoredEvent>, Failure> {
    let one = |condition: &str, params: &[&dyn ToSql]| {
        let sql = format!("SELECT seq, body FROM event WHERE {condition} ORDER BY seq DESC LIMIT 1");
        rows::first(connection, &sql, params, stored)
    };
    match of {
        EventRef::Number(seq) => match i64::try_from(seq) {
            Ok(seq) => one("seq = ?1", &[&seq]),
            Err(_) => Ok(None),
        },
        EventRef::Pruned(leaf) => match pruned::gone(connection, Hash(*leaf.as_bytes()))? {
            Some(gone) => one("seq = ?1", &[&whole(gone.told)]),
            None => Ok(None),
        },
        EventRef::Proposed(draft) => one(
            "draft = ?1 AND +type = ?2",
            &[&draft.to_string(), &DraftTransition::Propose.event()],
        ),
        EventRef::Counted(draft, record) => one(
            "draft = ?1 AND json_extract(body, '$.approval.record_id') = ?2",
            &[&draft.to_string(), &record.to_string()],
        ),
        EventRef::Issued(credential) => one(
            "credential = ?1 AND +type = ?2",
            &[&credential.to_string(), &CredentialTransition::Issue.event()],
        ),
        EventRef::Claimed(draft, execution) => one(
            "draft = ?1 AND execution = ?2 AND +type = ?3",
            &[&draft.to_string(), &execution.to_string(), &ExecutionTransition::Claim.event()],
        ),
        EventRef::Reached(draft, execution, state) => one(
            "draft = ?1 AND execution = ?2 AND type LIKE 'execution.%' AND json_extract(body, '$.state.to') = ?3",
            &[&draft.to_string(), &execution.to_string(), &state.as_str()],
        ),
    }
}

/// An event.
pub(super) fn stored(row: &rusqlite::Row<'_>) -> Result<StoredEvent, Failure> {
    Ok(StoredEvent {
        seq: number(row, "seq")?,
        bytes: rows::text(row, "body")?.into_bytes(),
    })
}

/// The receipt, looked at before it is given out: one that shows nothing is a log that was changed.
pub(super) fn prove(connection: &Connection, head: &SignedHead, event: &StoredEvent) -> Result<Receipt, Failure> {
    let seq = event.seq;
    let proof = way(connection, head, seq, leaf_hash(&event.bytes)).map_err(|_| {
        Failure::Corrupt(format!(
            "event {seq} is not what the tree of the log has: see `writ audit verify --help`"
        ))
    })?;
    Ok(Receipt {
        index: seq,
        proof,
        head: head.clone(),
    })
}

/// The way from a leaf to the root that the head signs, if it leads there.
fn way(connection: &Connection, head: &SignedHead, seq: u64, leaf: Hash) -> Result<Vec<Hash>, TreeError> {
    let proof = tree::prove_inclusion(head.size(), seq, &Nodes(connection))?;
    tree::check_inclusion(&proof, head.size(), head.root(), seq, leaf)?;
    Ok(proof)
}

/// The way from an event to the root of the log as it was at `size`, or is; `None` if it had no such event, or never had that size.
pub(super) fn inclusion(connection: &Connection, seq: u64, size: Option<u64>) -> Result<Option<Inclusion>, Failure> {
    let Some(last) = latest(connection)? else { return Ok(None) };
    let size = size.unwrap_or(last.size());
    if size > last.size() || seq >= size {
        return Ok(None);
    }
    let Some(event) = find(connection, EventRef::Number(seq))? else {
        return Ok(None);
    };
    let head = if size == last.size() { Some(last) } else { kept(connection, size)? };
    let proof = match &head {
        Some(head) => prove(connection, head, &event)?.proof,
        None => tree::prove_inclusion(size, seq, &Nodes(connection)).map_err(|_| missing())?,
    };
    Ok(Some(Inclusion {
        leaf: leaf_hash(&event.bytes),
        size,
        proof,
        head,
    }))
}

/// The head of exactly this size, if it was kept.
fn kept(connection: &Connection, size: u64) -> rusqlite::Result<Option<SignedHead>> {
    let mut statement = connection.prepare_cached("SELECT note FROM checkpoint WHERE size = ?1")?;
    let note = statement.query_row([whole(size)], |row| row.get::<_, String>(0)).optional()?;
    Ok(note.and_then(|note| SignedHead::read(&note).ok()))
}

/// That the log of `new` events, or of all there are, begins with that of `old`; `None` if it never had those sizes in that order.
pub(super) fn consistency(connection: &Connection, old: u64, new: Option<u64>) -> Result<Option<Consistency>, Failure> {
    let last = latest(connection)?.map_or(0, |head| head.size());
    let new = new.unwrap_or(last);
    if old > new || new > last {
        return Ok(None);
    }
    let proof = tree::prove_consistency(old, new, &Nodes(connection)).map_err(|_| missing())?;
    Ok(Some(Consistency { old, new, proof }))
}

/// A tile's hashes; `None` if the log has not got all of them.
pub(super) fn tile(connection: &Connection, tile: Tile) -> Result<Option<Vec<Hash>>, Failure> {
    let last = latest(connection)?.map_or(0, |head| head.size());
    let Some(indexes) = tree::tile_indexes(last, tile.level, tile.index, tile.width) else {
        return Ok(None);
    };
    Nodes(connection).read_hashes(&indexes).map(Some).map_err(|_| missing())
}

fn missing() -> Failure {
    Failure::Corrupt("the tree of the log lacks nodes: see `writ audit verify --help`".to_owned())
}
