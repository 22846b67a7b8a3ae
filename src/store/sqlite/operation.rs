//! One record for each intent, in the transaction of what it led to: the same intent again finds it.

use rusqlite::{Connection, OptionalExtension, named_params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Tools;
use super::failure::Failure;
use super::rows::{self, to_json};
use super::step::{Step, whole};
use super::writer::{Ran, Wrote};
use crate::domain::digest::Digest;
use crate::domain::id::OperationId;
use crate::store::contract::OperationOutcome;
use crate::store::{Applied, Op, Rejection};

/// Runs a transition once for its operation id.
pub(super) fn once<I: Serialize, T: Serialize + DeserializeOwned>(
    connection: &Connection,
    tools: &Tools,
    op: &Op,
    kind: &'static str,
    input: &I,
    transition: impl FnOnce(&mut Step<'_>, &I) -> Result<T, Failure>,
) -> Result<Ran<Applied<T>>, Failure> {
    let asked = serde_json::to_vec(&(kind, input)).map_err(|error| Failure::Corrupt(format!("an input has no JSON form: {error}")))?;
    let fingerprint = Digest::of(&asked).to_string();
    if let Some(found) = find(connection, op.id)? {
        let value = found.result(&fingerprint)?;
        return Ok(Ran::quiet(value, Wrote::Nothing));
    }
    let mut step = Step::new(connection, tools, op);
    let value = transition(&mut step, input)?;
    let Some(seq) = step.seq() else {
        // Nothing was written, so there is nothing that a repetition could write twice.
        let last: i64 = rows::value(connection, "SELECT coalesce(max(seq), 0) FROM event", [])?;
        let seq = u64::try_from(last).unwrap_or(0);
        let applied = Applied {
            value,
            seq,
            replayed: false,
        };
        return Ok(Ran::quiet(applied, Wrote::Nothing));
    };
    step.insert(
        "INSERT INTO operation (id, kind, fingerprint, result, seq, at, cancelled)
         VALUES (:id, :kind, :fingerprint, :result, :seq, :now, 0)",
        op.id,
        named_params! {
            ":id": op.id.to_string(), ":kind": kind, ":fingerprint": fingerprint, ":result": to_json(&value)?, ":seq": whole(seq),
            ":now": step.now.millis(),
        },
    )?;
    let (told, leaves) = step.into_events();
    Ok(Ran {
        value: Applied {
            value,
            seq,
            replayed: false,
        },
        wrote: Wrote::Events,
        told,
        leaves,
    })
}

/// What an operation came to; `None` in its columns where it was cancelled.
struct Found {
    fingerprint: Option<String>,
    result: Option<String>,
    seq: Option<i64>,
}

impl Found {
    fn result<T: DeserializeOwned>(&self, fingerprint: &str) -> Result<Applied<T>, Failure> {
        let (Some(stored), Some(result), Some(seq)) = (&self.fingerprint, &self.result, self.seq) else {
            return Err(Rejection::OperationCancelled.into());
        };
        if stored != fingerprint {
            return Err(Rejection::OperationReused.into());
        }
        Ok(Applied {
            value: serde_json::from_str(result)
                .map_err(|error| Failure::Corrupt(format!("a stored result does not read back: {error}")))?,
            seq: u64::try_from(seq).unwrap_or(0),
            replayed: true,
        })
    }
}

fn find(connection: &Connection, id: OperationId) -> Result<Option<Found>, Failure> {
    let mut statement = connection.prepare_cached("SELECT fingerprint, result, seq FROM operation WHERE id = ?1")?;
    let found = statement.query_row([id.to_string()], |row| {
        Ok(Found {
            fingerprint: row.get(0)?,
            result: row.get(1)?,
            seq: row.get(2)?,
        })
    });
    Ok(found.optional()?)
}

/// What became of an operation; cancels it if it did not take place, so that a late repetition cannot.
pub(super) fn outcome_of(connection: &Connection, tools: &Tools, id: OperationId) -> Result<Ran<OperationOutcome>, Failure> {
    let mut wrote = Wrote::Nothing;
    let value = match find(connection, id)? {
        Some(Found { seq: Some(seq), .. }) => OperationOutcome::Applied {
            seq: u64::try_from(seq).unwrap_or(0),
        },
        Some(_) => OperationOutcome::NeverApplied,
        None => {
            connection
                .prepare_cached("INSERT INTO operation (id, at, cancelled) VALUES (?1, ?2, 1)")?
                .execute((id.to_string(), tools.clock.now().millis()))?;
            wrote = Wrote::Rows;
            OperationOutcome::NeverApplied
        }
    };
    Ok(Ran::quiet(value, wrote))
}
