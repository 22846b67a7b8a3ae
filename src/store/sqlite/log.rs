//! The log as it is read, with its proofs, each answer from one snapshot.

use rusqlite::Connection;

use super::failure::Failure;
use super::seal::{Nodes, latest};
use crate::audit::SignedHead;
use crate::audit::tree;
use crate::store::log::Consistency;

/// The latest head.
pub(super) fn head(connection: &Connection) -> Result<Option<SignedHead>, Failure> {
    Ok(latest(connection)?)
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

fn missing() -> Failure {
    Failure::Corrupt("the tree of the log lacks nodes: see `writ audit verify --help`".to_owned())
}
