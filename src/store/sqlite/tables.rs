//! The tables of the state, as the verifier compares them with the log.

use rusqlite::Row;

use super::evidence::Evidence;
use super::failure::Failure;
use super::registry;
use crate::audit::source::SourceError;
use crate::audit::verify::{Registered, StateRow, StateTables, Thing, VoteRow};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// The id and the state come first, then the facts.
const fn query(thing: Thing) -> &'static str {
    match thing {
        Thing::Draft => "SELECT id, state, hash FROM draft",
        Thing::Approval => "SELECT id, state, draft FROM approval",
        Thing::Credential => "SELECT id, state, draft, approval, hash, audience, root_key_id, expires_at FROM credential",
        Thing::Execution => "SELECT id, state, draft, fence FROM execution",
        Thing::Stop => "SELECT id, state, scope, value FROM stop",
    }
}

/// Which column of a query is a time.
const ENDS: &str = "expires_at";

impl StateTables for Evidence {
    fn things(&self, thing: Thing, each: &mut dyn FnMut(&StateRow<'_>)) -> Result<(), SourceError> {
        self.each(query(thing), |row| {
            let facts = facts(row, 2)?;
            let (id, state) = (text(row, 0)?.unwrap_or_default(), text(row, 1)?.unwrap_or_default());
            each(&StateRow {
                id: &id,
                state: &state,
                facts: &facts,
            });
            Ok(())
        })
    }

    fn votes(&self, each: &mut dyn FnMut(&VoteRow<'_>)) -> Result<(), SourceError> {
        self.each("SELECT id, approval, approver, kid, decision, jws FROM approval_record", |row| {
            let id = text(row, 0)?.unwrap_or_default();
            let mut facts = facts(row, 1)?;
            if let Some(jws) = facts.last_mut() {
                *jws = jws.as_ref().map(|jws| Digest::of(jws.as_bytes()).to_string());
            }
            each(&VoteRow { id: &id, facts: &facts });
            Ok(())
        })
    }

    fn registered(&self) -> Result<Vec<Registered>, SourceError> {
        let failed = |failure: Failure| SourceError(format!("who is registered cannot be read: {}", failure.rolled_back()));
        let clients = registry::clients(self.connection()).map_err(failed)?;
        let approvers = registry::approvers(self.connection()).map_err(failed)?;
        let clients = clients.into_iter().map(|entry| {
            Ok(Registered::Client {
                id: entry.client.id.to_string(),
                is_revoked: entry.client.revoked_at.is_some(),
                content: registry::client_content(&entry)?,
            })
        });
        let approvers = approvers.into_iter().map(|entry| {
            Ok(Registered::Approver {
                id: entry.approver.id.to_string(),
                is_revoked: entry.approver.revoked_at.is_some(),
                content: registry::approver_content(&entry)?,
                keys: entry
                    .keys
                    .iter()
                    .map(|key| (key.kid.to_string(), key.revoked_at.is_some()))
                    .collect(),
            })
        });
        clients.chain(approvers).collect::<Result<_, _>>().map_err(failed)
    }
}

/// The columns from this one on, as the log writes them.
fn facts(row: &Row<'_>, from: usize) -> rusqlite::Result<Vec<Option<String>>> {
    let statement = row.as_ref();
    (from..statement.column_count())
        .map(|column| {
            let is_time = statement.column_name(column)? == ENDS;
            match row.get_ref(column)?.as_i64() {
                Ok(at) if is_time => Ok(Some(Timestamp::from_millis(at).to_string())),
                _ => text(row, column),
            }
        })
        .collect()
}

/// A column as text, whatever is in it.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Integer(n) => Some(n.to_string()),
        ValueRef::Real(x) => Some(x.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}
