//! Whether a file has the schema of its version and nothing besides: what the store decides by goes through its triggers and its indexes, and whoever
//! writes to the file can drop, plant or hollow out either.

use rusqlite::Connection;

use super::connection::{inconsistent, schema};
use super::seal::SealError;

/// The schema as it was found good.
#[derive(Debug, Default)]
pub(super) struct Shape(Option<i64>);

impl Shape {
    /// Looks at everything the first time; and whenever the schema was changed since, at the tables and at what their indexes find. A trigger that is
    /// planted under a running process adds nothing to what who plants it can write, and what it writes to the log is found at the commit.
    pub(super) fn check(&mut self, connection: &Connection) -> Result<(), SealError> {
        let mut statement = connection.prepare_cached("PRAGMA schema_version")?;
        let version = statement.query_row([], |row| row.get(0))?;
        if self.0 == Some(version) {
            return Ok(());
        }
        let is_first = self.0.is_none();
        let mut found = different(connection, |kind| is_first || kind != "trigger")?;
        if found.is_empty() && !is_first {
            // It reads as it should and was changed in between: an index may have been made anew with less in it.
            found = inconsistent(connection, 1)?;
        }
        match found.into_iter().next() {
            Some(fault) => Err(SealError::Schema(fault)),
            None => {
                self.0 = Some(version);
                Ok(())
            }
        }
    }
}

/// Where the schema is not that of the file's version: a trigger that is gone or was planted, an index that leaves rows out, a view in a table's place.
pub(super) fn faults(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    different(connection, |_| true)
}

fn different(connection: &Connection, is_wanted: impl Fn(&str) -> bool) -> rusqlite::Result<Vec<String>> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let fresh = objects(&schema(usize::try_from(version).unwrap_or(0))?)?;
    let found = objects(connection)?;
    let gone = fresh.iter().filter(|object| is_wanted(&object.0) && !found.contains(object));
    let added = found.iter().filter(|object| is_wanted(&object.0) && !fresh.contains(object));
    let gone = gone.map(|(kind, name, _)| format!("the {kind} {name} of the schema is not there, or was changed"));
    let added = added.map(|(kind, name, _)| format!("the {kind} {name} is none of the schema's"));
    Ok(gone.chain(added).collect())
}

/// Every object of a schema: its kind, its name, and its text without the spaces that SQLite keeps as they were written.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<(String, String, String)>> {
    let mut statement =
        connection.prepare("SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name")?;
    let found = statement.query_map([], |row| {
        let sql: String = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, sql.split_whitespace().collect::<Vec<_>>().join(" ")))
    })?;
    found.collect()
}
