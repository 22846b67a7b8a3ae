//! What waits: drafts without a decision or an execution, executions without a known outcome, what backends told and does not fit, and stops.
//! Only open rows are read, by their indexes.

use rusqlite::Connection;

use super::failure::Failure;
use super::rows::{self, at, number, text, word};
use crate::store::backlog::{Backlog, OddEvents, OpenDrafts, OpenExecutions, OpenMoney, OpenQueue, OpenStops};

pub(super) fn backlog(connection: &Connection) -> Result<Backlog, Failure> {
    Ok(Backlog {
        drafts: rows::all(
            connection,
            "SELECT state, count(*) AS n, min(changed_at) AS since FROM draft
             WHERE settled_at IS NULL AND state IN ('proposed', 'awaiting_approval', 'approved') GROUP BY state",
            [],
            |row| {
                Ok(OpenDrafts {
                    state: word(row, "state")?,
                    count: number(row, "n")?,
                    since: at(row, "since")?,
                })
            },
        )?,
        queues: rows::all(
            connection,
            "SELECT json_extract(need.value, '$.queue') AS queue, count(DISTINCT draft.id) AS n, min(approval.requested_at) AS since
             FROM draft JOIN approval ON approval.draft = draft.id, json_each(approval.requirement, '$.all_of') AS need
             WHERE draft.settled_at IS NULL AND draft.state = 'awaiting_approval' AND approval.state = 'requested' GROUP BY 1",
            [],
            |row| {
                Ok(OpenQueue {
                    queue: word(row, "queue")?,
                    count: number(row, "n")?,
                    since: at(row, "since")?,
                })
            },
        )?,
        executions: rows::all(
            connection,
            "SELECT state, count(*) AS n, min(claimed_at) AS since FROM execution
             WHERE state IN ('claimed', 'dispatched', 'pending', 'indeterminate', 'handed_off') GROUP BY state",
            [],
            |row| {
                Ok(OpenExecutions {
                    state: word(row, "state")?,
                    count: number(row, "n")?,
                    since: at(row, "since")?,
                })
            },
        )?,
        money: rows::all(
            connection,
            "SELECT draft.currency AS currency, sum(draft.amount_minor) AS minor FROM execution JOIN draft ON draft.id = execution.draft
             WHERE execution.state IN ('claimed', 'dispatched', 'pending', 'indeterminate', 'handed_off') AND draft.currency IS NOT NULL
             GROUP BY 1",
            [],
            |row| {
                Ok(OpenMoney {
                    currency: text(row, "currency")?,
                    minor: number(row, "minor")?,
                })
            },
        )?,
        events: rows::all(
            connection,
            "SELECT finding, count(*) AS n, max(received_at) AS last FROM backend_event
             WHERE finding IN ('waits', 'not_confirmed', 'contradicts', 'disagrees', 'not_executed', 'adapter_changed') GROUP BY finding",
            [],
            |row| {
                Ok(OddEvents {
                    finding: word(row, "finding")?,
                    count: number(row, "n")?,
                    last: at(row, "last")?,
                })
            },
        )?,
        stops: rows::first(
            connection,
            "SELECT count(*) AS n, min(placed_at) AS since FROM stop WHERE state = 'active' HAVING n > 0",
            [],
            |row| {
                Ok(OpenStops {
                    count: number(row, "n")?,
                    since: at(row, "since")?,
                })
            },
        )?,
    })
}
