//! Reads that are more than one row by its id.

use rusqlite::{Connection, named_params};

use super::failure::Failure;
use super::rows::{self, number, word};
use super::step::{whole, words};
use crate::domain::id::{DraftId, ExecutionId};
use crate::domain::lifecycle::ExecutionState;
use crate::domain::time::Timestamp;
use crate::store::intent::{CaseFilter, DraftFilter};
use crate::store::record::{CaseStanding, DraftRecord, ExecutionRecord, StoredEvent};

/// The kind and the id of `type:id`; without a colon nothing has that id.
pub(super) fn split_resource(text: Option<&str>) -> (Option<&str>, Option<&str>) {
    match text {
        None => (None, None),
        Some(text) => text.split_once(':').map_or((Some(text), None), |(kind, id)| (Some(kind), Some(id))),
    }
}

/// Drafts in the order of their ids.
pub(super) fn drafts(connection: &Connection, filter: &DraftFilter) -> Result<Vec<DraftRecord>, Failure> {
    let (kind, resource) = split_resource(filter.resource.as_deref());
    let mut sql = "SELECT * FROM draft WHERE id > :after".to_owned();
    // Only what is asked for stands in the statement, so that an index can serve it.
    for (asked, clause) in [
        (filter.tenant.is_some(), " AND tenant = :tenant"),
        (filter.maker.is_some(), " AND maker = :maker"),
        (filter.state.is_some(), " AND state = :state"),
        (filter.case_id.is_some(), " AND case_id = :case_id"),
        (kind.is_some(), " AND resource_type = :type AND resource_id = :resource"),
    ] {
        if asked {
            sql.push_str(clause);
        }
    }
    sql.push_str(" ORDER BY id LIMIT :limit");
    let after = filter.after.map(|id| id.to_string()).unwrap_or_default();
    let tenant = filter.tenant.as_ref().map(|t| t.as_str());
    let maker = filter.maker.as_ref().map(|m| m.as_str());
    let state = filter.state.map(crate::domain::lifecycle::DraftState::as_str);
    let case_id = filter.case_id.as_ref().map(|c| c.as_str());
    let all: [(&str, &dyn rusqlite::ToSql); 8] = [
        (":after", &after),
        (":tenant", &tenant),
        (":maker", &maker),
        (":state", &state),
        (":case_id", &case_id),
        (":type", &kind),
        (":resource", &resource),
        (":limit", &filter.limit),
    ];
    let used: Vec<_> = all.into_iter().filter(|(name, _)| sql.contains(name)).collect();
    let found = rows::all(connection, &sql, used.as_slice(), rows::draft_row)?;
    found.into_iter().map(|draft| rows::whole_draft(connection, draft)).collect()
}

/// How the case stands. What failed is made good by a later draft that did the same to the same thing.
pub(super) fn case_standing(connection: &Connection, of: &CaseFilter) -> Result<CaseStanding, Failure> {
    let found = rows::first(
        connection,
        "WITH step AS (
            SELECT d.*, d.state = 'consumed' AND e.state IS 'applied' AS done, d.state IN ('denied', 'withdrawn', 'superseded') AS over,
                d.state IN ('stale', 'expired') OR (d.state = 'consumed' AND e.state IS 'not_applied') AS failed
            FROM draft d LEFT JOIN execution e ON e.draft = d.id
            WHERE d.case_id = :case_id AND d.tenant = :tenant AND (:maker IS NULL OR d.maker = :maker)
         ), wish AS (
            SELECT count(*) AS steps, sum(NOT (done OR over OR failed)) AS open,
                coalesce(max(CASE WHEN failed THEN id END), '') AS failed, coalesce(max(CASE WHEN done THEN id END), '') AS done
            FROM step GROUP BY resource_type, resource_id, operation, amount_minor, currency, fields
         )
         SELECT coalesce(sum(steps), 0) AS steps, coalesce(sum(open > 0 OR failed > done), 0) AS wanting FROM wish",
        named_params! {
            ":case_id": of.case_id.as_str(), ":tenant": of.tenant.as_str(), ":maker": of.maker.as_ref().map(|maker| maker.as_str()),
        },
        |row| {
            Ok(CaseStanding {
                steps: row.get("steps")?,
                complete: row.get::<_, i64>("wanting")? == 0,
            })
        },
    )?;
    found.ok_or_else(|| Failure::Corrupt("a sum has no row".to_owned()))
}

/// The first condition is that of the index, in its words: what has ended is not looked at.
pub(super) const DUE: &str = "SELECT id FROM execution INDEXED BY execution_open
     WHERE state IN ('claimed', 'dispatched', 'pending', 'indeterminate', 'handed_off') AND lease_until <= :now AND (
        (state IN (SELECT value FROM json_each(:by_itself)) AND (next_action_at IS NULL OR next_action_at <= :now))
        OR (state IN (SELECT value FROM json_each(:when_asked)) AND next_action_at <= :now))
     UNION SELECT e.id FROM backend_event b JOIN execution e ON e.id = b.execution WHERE b.look_at <= :now AND e.lease_until <= :now
     ORDER BY id LIMIT :limit";

/// Executions that somebody should look at: the lease ran out, and the outcome is open or the next action is due.
pub(super) fn due(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<ExecutionRecord>, Failure> {
    const BY_ITSELF: &[ExecutionState] = &[ExecutionState::Claimed, ExecutionState::Dispatched, ExecutionState::Indeterminate];
    const WHEN_ASKED: &[ExecutionState] = &[ExecutionState::Pending, ExecutionState::HandedOff];
    let ids = rows::all(
        connection,
        DUE,
        named_params! {
            ":now": now.millis(), ":limit": limit, ":by_itself": words(BY_ITSELF, ExecutionState::as_str),
            ":when_asked": words(WHEN_ASKED, ExecutionState::as_str),
        },
        |row| word::<ExecutionId>(row, "id"),
    )?;
    let mut due = Vec::new();
    for id in ids {
        match rows::execution(connection, id) {
            Ok(found) => due.extend(found),
            // One row that cannot be read keeps nobody from looking after the others.
            Err(Failure::Corrupt(why)) => {
                tracing::error!(execution.id = %id, why, "an execution that is due cannot be read: a person must look")
            }
            Err(other) => return Err(other),
        }
    }
    Ok(due)
}

/// A draft's canonical bytes.
pub(super) fn draft_bytes(connection: &Connection, id: DraftId) -> Result<Option<Vec<u8>>, Failure> {
    rows::opt_value(connection, "SELECT bytes FROM draft_document WHERE draft = ?1", [id.to_string()])
}

/// Events from `from` on.
pub(super) fn events(connection: &Connection, from: u64, limit: u32) -> Result<Vec<StoredEvent>, Failure> {
    let sql = "SELECT seq, body FROM event WHERE seq >= ?1 ORDER BY seq LIMIT ?2";
    rows::all(connection, sql, (whole(from), limit), |row| {
        Ok(StoredEvent {
            seq: number(row, "seq")?,
            bytes: rows::text(row, "body")?.into_bytes(),
        })
    })
}
