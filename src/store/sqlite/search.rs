//! Events by what they are about, through the columns that are taken from their own bytes.

use rusqlite::Connection;
use rusqlite::types::ToSql;

use super::failure::Failure;
use super::log::{prove, stored};
use super::rows;
use super::seal::latest;
use super::step::whole;
use crate::audit::{ActorKind, EventKind};
use crate::domain::time::Timestamp;
use crate::store::log::{EventPage, EventQuery, Order, With};

type Value = Box<dyn ToSql>;

/// What is bound, by its name in the statement.
type Bound = Vec<(&'static str, Value)>;

/// The events that the query names.
pub(super) fn search(connection: &Connection, query: &EventQuery) -> Result<EventPage, Failure> {
    let asked = Asked::of(query);
    let (sql, params) = asked.statement(query);
    let params: Vec<(&str, &dyn ToSql)> = params.iter().map(|(name, value)| (*name, &**value)).collect();
    let mut events = rows::all(connection, &sql, params.as_slice(), stored)?;
    let complete = events.len() <= query.limit as usize;
    events.truncate(query.limit as usize);
    let head = latest(connection)?;
    let receipts = match (query.with, &head) {
        (With::Proofs, Some(head)) => events
            .iter()
            .map(|event| prove(connection, head, event))
            .collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    Ok(EventPage {
        events,
        receipts,
        head,
        complete,
    })
}

/// The conditions of a query, with what is bound in them.
struct Asked {
    conditions: Vec<String>,
    params: Bound,
}

impl Asked {
    fn of(query: &EventQuery) -> Self {
        let mut asked = Self {
            conditions: Vec::new(),
            params: Vec::new(),
        };
        let text = |value: &dyn std::fmt::Display| Box::new(value.to_string()) as Value;
        // What names one thing finds few events by its index. What many events have in common is then only looked at, not searched by.
        let by_id = [
            ("case_id", ":case_id", query.case_id.as_ref().map(|v| text(v))),
            ("draft", ":draft", query.draft.as_ref().map(|v| text(v))),
            ("approval", ":approval", query.approval.as_ref().map(|v| text(v))),
            ("credential", ":credential", query.credential.as_ref().map(|v| text(v))),
            (
                "resource",
                ":resource",
                query.resource.as_ref().map(|r| text(&format!("{}:{}", r.kind, r.id))),
            ),
        ];
        for (column, name, value) in by_id {
            asked.equals(column, name, value);
        }
        let plus = if asked.params.is_empty() { "" } else { "+" };
        let common = [
            ("approver", ":approver", query.approver.as_ref().map(|v| text(v))),
            ("actor", ":actor", query.client.as_ref().map(|v| text(v))),
            ("type", ":type", query.kind.map(|kind| text(&EventKind::as_str(kind)))),
            ("operation", ":operation", query.operation.as_ref().map(|v| text(v))),
            ("outcome", ":outcome", query.outcome.map(|outcome| text(&outcome.as_str()))),
        ];
        for (column, name, value) in common {
            asked.equals(&format!("{plus}{column}"), name, value);
        }
        if query.client.is_some() {
            // A person or a part of the program may bear a client's name.
            asked.equals(
                "json_extract(body, '$.actor.kind')",
                ":actor_kind",
                Some(text(&ActorKind::Client.as_str())),
            );
        }
        if let Some(viewer) = &query.viewer {
            asked.holds("(tenant = :viewer OR tenant IS NULL)", ":viewer", text(viewer));
        }
        let moment = |at: Timestamp| Box::new(at.millis()) as Value;
        if let Some(from) = query.from {
            asked.holds(&format!("{plus}at >= :from"), ":from", moment(from));
        }
        if let Some(to) = query.to {
            asked.holds(&format!("{plus}at < :to"), ":to", moment(to));
        }
        if let Some(after) = query.after {
            let beyond = match query.order {
                Order::OldestFirst => "seq > :after",
                Order::NewestFirst => "seq < :after",
            };
            asked.holds(beyond, ":after", Box::new(whole(after)));
        }
        asked
    }

    fn equals(&mut self, column: &str, name: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.holds(&format!("{column} = {name}"), name, value);
        }
    }

    fn holds(&mut self, condition: &str, name: &'static str, value: Value) {
        self.conditions.push(condition.to_owned());
        self.params.push((name, value));
    }

    /// One more than the limit, to see whether any is left.
    fn statement(mut self, query: &EventQuery) -> (String, Bound) {
        let conditions = if self.conditions.is_empty() {
            "1".to_owned()
        } else {
            self.conditions.join(" AND ")
        };
        let order = match query.order {
            Order::OldestFirst => "ASC",
            Order::NewestFirst => "DESC",
        };
        self.params.push((":limit", Box::new(i64::from(query.limit) + 1)));
        let sql = format!("SELECT seq, body FROM event WHERE {conditions} ORDER BY seq {order} LIMIT :limit");
        (sql, self.params)
    }
}
