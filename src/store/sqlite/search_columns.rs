//! Whether what events are found by is what the events say: the schema, the columns beside the bytes, and the indexes.

use rusqlite::Connection;

use super::connection::schema;
use super::evidence::Evidence;
use crate::audit::source::SourceError;

/// The columns that the writer fills, each with what it must be by the event's bytes. The others are computed from the bytes by the schema.
const COLUMNS: &str = "SELECT seq FROM event NOT INDEXED WHERE
    seq IS NOT json_extract(body, '$.seq') OR id IS NOT json_extract(body, '$.id') OR type IS NOT json_extract(body, '$.type')
    OR actor IS NOT json_extract(body, '$.actor.id') OR draft IS NOT json_extract(body, '$.draft.id')
    OR execution IS NOT json_extract(body, '$.execution.id')
    OR at IS NOT unixepoch(json_extract(body, '$.time')) * 1000 + CAST(substr(json_extract(body, '$.time'), 21, 3) AS INTEGER)
    LIMIT 20";

impl Evidence {
    /// What is wrong with what events are found by, one sentence each.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn search_faults(&self) -> Result<Vec<String>, SourceError> {
        let mut faults = self.schema_faults()?;
        if !faults.is_empty() {
            // Whatever is asked of another schema means nothing.
            return Ok(faults);
        }
        let wrong = self.all(COLUMNS, [], |row| row.get::<_, i64>(0))?;
        faults.extend(
            wrong
                .iter()
                .map(|seq| format!("event {seq} is not found by what it says: a column beside its bytes was changed")),
        );
        for table in ["event", "node", "checkpoint"] {
            let said = self.all(&format!("PRAGMA integrity_check({table})"), [], |row| row.get::<_, String>(0))?;
            faults.extend(
                said.into_iter()
                    .filter(|line| line != "ok")
                    .map(|line| format!("the table {table}: {line}")),
            );
        }
        Ok(faults)
    }

    /// Where the file's schema is not that of its version: a trigger that is gone or was planted, an index that leaves rows out, a view in a table's place.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn schema_faults(&self) -> Result<Vec<String>, SourceError> {
        let version = self.all("PRAGMA user_version", [], |row| row.get::<_, i64>(0))?;
        let version = version.first().and_then(|version| usize::try_from(*version).ok()).unwrap_or(0);
        let fresh = schema(version)
            .and_then(|fresh| objects(&fresh))
            .map_err(|error| self.failed(&error))?;
        let found = objects(self.connection()).map_err(|error| self.failed(&error))?;
        let gone = fresh.iter().filter(|object| !found.contains(object));
        let added = found.iter().filter(|object| !fresh.contains(object));
        let gone = gone.map(|(kind, name, _)| format!("the {kind} {name} of the schema is not there, or was changed"));
        let added = added.map(|(kind, name, _)| format!("the {kind} {name} is none of the schema's"));
        Ok(gone.chain(added).collect())
    }
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
