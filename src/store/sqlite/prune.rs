//! Pruning: the bytes of old events go, their hashes and the signed heads stay, so that every proof that was ever given out still verifies.
//!
//! The log tells first; the bytes go after that, some at a time. If we die in between, the log has said what is pruned, and the next call goes
//! on where this one stopped.

use rusqlite::named_params;

use super::failure::Failure;
use super::rows;
use super::seal::Nodes;
use super::step::{Step, whole};
use super::writer::{Ran, Wrote};
use crate::audit::tree::{Edge, leaf_hash};
use crate::audit::{EventBody, EventKind, HoldPart, Note, PrunedPart, Sensitive, SensitiveField};
use crate::domain::digest::Digest;
use crate::domain::name::CaseId;
use crate::store::Rejection;
use crate::store::retention::{Held, NewHold, Prune};

/// So many events go in one transaction: others wait for it.
const BATCH: i64 = 2_000;

/// The name under which the end of a case is kept once its events are gone: not the case's own.
pub(super) fn case_key(tenant: Option<&str>, case: &str) -> String {
    let text = format!("{}\0{}\0{case}", u8::from(tenant.is_some()), tenant.unwrap_or_default());
    Digest::tagged("writ.case.v1", text.as_bytes()).to_string()
}

/// `retention.pruned`: from here on the bytes of the events up to and with `to` may go.
pub(super) fn prune(step: &mut Step<'_>, prune: &Prune) -> Result<u64, Failure> {
    step.needs_clock()?;
    let first: Option<i64> = rows::value(step.connection, "SELECT min(seq) FROM event", [])?;
    let from = u64::try_from(first.unwrap_or(0)).unwrap_or(0);
    let size: i64 = rows::value(step.connection, "SELECT coalesce(max(seq) + 1, 0) FROM event", [])?;
    // The last event stays: the next one is numbered by it.
    if prune.to < from || whole(prune.to) + 1 >= size {
        return Err(Rejection::NotPrunable(from, u64::try_from(size - 2).unwrap_or(0)).into());
    }
    let held = rows::opt_value::<i64>(
        step.connection,
        "SELECT h.id FROM hold h WHERE h.released_at IS NULL AND (
            (h.first IS NOT NULL AND h.first <= :to AND h.last >= :from)
            OR EXISTS (SELECT 1 FROM event e WHERE e.case_id = h.case_id AND e.seq <= :to)) ORDER BY h.id LIMIT 1",
        named_params! { ":from": whole(from), ":to": whole(prune.to) },
    )?;
    if let Some(hold) = held {
        return Err(Rejection::Held(u64::try_from(hold).unwrap_or(0)).into());
    }
    holds_as_told(step)?;
    let root = Edge::read(prune.to + 1, &Nodes(step.connection)).and_then(|edge| edge.root());
    let root = root.map_err(|error| Failure::Corrupt(format!("the tree over the log has no root at {}: {error}", prune.to + 1)))?;
    keep_case_tails(step, prune.to)?;
    let event = step.event(EventKind::Note(Note::RetentionPruned));
    step.emit(EventBody {
        pruned: Some(PrunedPart {
            from,
            to: prune.to,
            root: root.to_string(),
            bundle_sha256: prune.bundle_sha256,
        }),
        ..event
    })?;
    Ok(from)
}

/// What the log says is held must be held by the table too, in the same words: whoever writes to the table alone lifts no hold.
fn holds_as_told(step: &Step<'_>) -> Result<(), Failure> {
    let lifted = rows::opt_value::<i64>(
        step.connection,
        "WITH told AS (SELECT seq, json_extract(body, '$.type') AS type, json_extract(body, '$.hold.id') AS id,
                json_extract(body, '$.hold.case_id') AS case_id, json_extract(body, '$.hold.from') AS first, json_extract(body, '$.hold.to') AS last
            FROM event NOT INDEXED WHERE json_extract(body, '$.type') IN (:held, :released))
         SELECT held.id FROM told held WHERE held.type = :held
            AND NOT EXISTS (SELECT 1 FROM told later WHERE later.type = :released AND later.id = held.id AND later.seq > held.seq)
            AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.id = held.id AND h.released_at IS NULL
                AND h.case_id IS held.case_id AND h.first IS held.first AND h.last IS held.last) LIMIT 1",
        named_params! { ":held": Note::RetentionHeld.as_str(), ":released": Note::RetentionReleased.as_str() },
    )?;
    lifted.map_or(Ok(()), |id| {
        Err(Failure::Corrupt(format!(
            "hold {id} stands in the log and nothing there lifts it, and the table of holds says otherwise: nothing is pruned"
        )))
    })
}

/// The last of each case's events that goes is remembered, so that the case's next event names it.
fn keep_case_tails(step: &Step<'_>, to: u64) -> Result<(), Failure> {
    let tails = rows::all(
        step.connection,
        "SELECT tenant, case_id, json_extract(body, '$.case.n') AS n, body FROM event e
         WHERE case_id IS NOT NULL AND seq <= ?1
            AND NOT EXISTS (SELECT 1 FROM event l WHERE l.case_id = e.case_id AND l.tenant IS e.tenant AND l.seq > e.seq)",
        [whole(to)],
        |row| {
            let (tenant, case) = (rows::opt_text(row, "tenant")?, rows::text(row, "case_id")?);
            let leaf = leaf_hash(rows::text(row, "body")?.as_bytes());
            Ok((
                case_key(tenant.as_deref(), &case),
                row.get::<_, Option<i64>>("n")?.unwrap_or(0),
                leaf.0,
            ))
        },
    )?;
    for (key, n, leaf) in tails {
        step.change(
            "INSERT INTO case_tail (case_key, n, leaf) VALUES (?1, ?2, ?3)
             ON CONFLICT (case_key) DO UPDATE SET n = excluded.n, leaf = excluded.leaf",
            (key, n, &leaf[..]),
        )?;
    }
    Ok(())
}

/// Deletes some of what the log says is pruned; gives how many events went.
pub(super) fn sweep(connection: &rusqlite::Connection) -> Result<Ran<usize>, Failure> {
    let to = rows::opt_value::<i64>(
        connection,
        "SELECT json_extract(body, '$.pruned.to') FROM event WHERE type = ?1 ORDER BY seq DESC LIMIT 1",
        [Note::RetentionPruned.as_str()],
    )?;
    let Some(to) = to else { return Ok(Ran::quiet(0, Wrote::Nothing)) };
    let first: i64 = rows::value(connection, "SELECT coalesce(min(seq), 0) FROM event", [])?;
    let end = to.min(first + BATCH - 1);
    let gone = connection.prepare_cached("DELETE FROM event WHERE seq <= ?1")?.execute([end])?;
    connection.prepare_cached("DELETE FROM event_tag WHERE seq <= ?1")?.execute([end])?;
    connection.prepare_cached("DELETE FROM opening WHERE seq <= ?1")?.execute([end])?;
    if end == to {
        // Keys that nothing is left of; with a period's key its tags cannot be guessed any more.
        connection.execute(
            "DELETE FROM subject_key WHERE NOT EXISTS (SELECT 1 FROM opening WHERE subject = subject_key.tag)",
            [],
        )?;
        connection.execute(
            "DELETE FROM tag_key WHERE period < (SELECT max(period) FROM tag_key)
                AND NOT EXISTS (SELECT 1 FROM subject_key WHERE subject_key.period <= tag_key.period)",
            [],
        )?;
    }
    Ok(Ran::quiet(gone, if gone > 0 { Wrote::Rows } else { Wrote::Nothing }))
}

/// `retention.held`.
pub(super) fn hold(step: &mut Step<'_>, new: &NewHold) -> Result<u64, Failure> {
    let id: i64 = rows::value(step.connection, "SELECT coalesce(max(id) + 1, 1) FROM hold", [])?;
    let (case_id, range) = match &new.what {
        Held::Case(case) => (Some(case.clone()), None),
        Held::Range { from, to } => (None, Some((*from, *to))),
    };
    let by = step.by();
    step.change(
        "INSERT INTO hold (id, case_id, first, last, reason, placed_by, placed_at) VALUES (:id, :case, :first, :last, :reason, :by, :now)",
        named_params! {
            ":id": id, ":case": case_id.as_ref().map(|case| case.as_str()), ":first": range.map(|(from, _)| whole(from)),
            ":last": range.map(|(_, to)| whole(to)), ":reason": new.reason, ":by": by, ":now": step.now.millis(),
        },
    )?;
    let id = u64::try_from(id).unwrap_or(0);
    tell_hold(step, Note::RetentionHeld, id, case_id, range, Some(&new.reason))?;
    Ok(id)
}

/// `retention.released`.
pub(super) fn release(step: &mut Step<'_>, id: &u64) -> Result<(), Failure> {
    let released = step.change(
        "UPDATE hold SET released_at = ?1 WHERE id = ?2 AND released_at IS NULL",
        (step.now.millis(), whole(*id)),
    )?;
    if released == 0 {
        return Err(Rejection::NotFound.into());
    }
    let what = rows::first(
        step.connection,
        "SELECT case_id, first, last FROM hold WHERE id = ?1",
        [whole(*id)],
        |row| {
            let range = rows::opt_number(row, "first")?.zip(rows::opt_number(row, "last")?);
            Ok((rows::opt_word::<CaseId>(row, "case_id")?, range))
        },
    )?;
    let (case_id, range) = what.unwrap_or_default();
    tell_hold(step, Note::RetentionReleased, *id, case_id, range, None)
}

fn tell_hold(
    step: &mut Step<'_>,
    note: Note,
    id: u64,
    case_id: Option<CaseId>,
    range: Option<(u64, u64)>,
    reason: Option<&String>,
) -> Result<(), Failure> {
    let sensitive = reason.map(|reason| Sensitive {
        field: SensitiveField::Reason,
        value: reason.clone(),
        subject: format!("hold:{id}"),
    });
    let event = step.event(EventKind::Note(note));
    step.emit(EventBody {
        hold: Some(HoldPart {
            id,
            case_id,
            from: range.map(|(from, _)| from),
            to: range.map(|(_, to)| to),
        }),
        sensitive: sensitive.into_iter().collect(),
        ..event
    })
}
