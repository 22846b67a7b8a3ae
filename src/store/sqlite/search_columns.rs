//! Whether what events are found by is what the events say: the schema, the columns beside the bytes, and the indexes.

use super::connection::inconsistent;
use super::evidence::Evidence;
use super::shape::faults;
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
        faults.extend(self.index_faults()?);
        Ok(faults)
    }

    /// Where the file's schema is not that of its version: a trigger that is gone or was planted, an index that leaves rows out, a view in a table's place.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn schema_faults(&self) -> Result<Vec<String>, SourceError> {
        faults(self.connection()).map_err(|error| self.failed(&error))
    }

    /// Where a table and its indexes do not say the same, whatever their definitions say.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn index_faults(&self) -> Result<Vec<String>, SourceError> {
        let found = inconsistent(self.connection(), 10).map_err(|error| self.failed(&error))?;
        Ok(found.into_iter().map(|line| format!("the tables: {line}")).collect())
    }
}
