//! What was handed to a person.

use rusqlite::{Connection, named_params};

use super::failure::Failure;
use super::read::split_resource;
use super::rows::{self, word};
use crate::domain::id::ExecutionId;
use crate::store::intent::{Case, HandoffFilter};
use crate::store::record::ExecutionRecord;

/// Executions that were handed to a person, in the order of their ids.
pub(super) fn handoffs(connection: &Connection, filter: &HandoffFilter) -> Result<Vec<ExecutionRecord>, Failure> {
    let (kind, resource) = split_resource(filter.resource.as_deref());
    let ids = rows::all(
        connection,
        "SELECT e.id FROM execution e JOIN draft d ON d.id = e.draft
         WHERE e.handed_off_at IS NOT NULL AND e.id > :after
            AND (:tenant IS NULL OR d.tenant = :tenant)
            AND (:open IS NULL OR (e.state = 'handed_off') = :open)
            AND (:operation IS NULL OR d.operation = :operation)
            AND (:backend IS NULL OR d.backend = :backend)
            AND (:code IS NULL OR e.handed_off_code = :code)
            AND (:case_id IS NULL OR d.case_id = :case_id)
            AND (:type IS NULL OR (d.resource_type = :type AND d.resource_id = :resource))
         ORDER BY e.id LIMIT :limit",
        named_params! {
            ":after": filter.after.map(|id| id.to_string()).unwrap_or_default(),
            ":tenant": filter.tenant.as_ref().map(|t| t.as_str()), ":open": filter.case.map(|case| case == Case::Open),
            ":operation": filter.operation.as_ref().map(|o| o.as_str()), ":backend": filter.backend.as_ref().map(|b| b.as_str()),
            ":code": filter.code, ":case_id": filter.case_id.as_ref().map(|c| c.as_str()), ":type": kind, ":resource": resource,
            ":limit": filter.limit,
        },
        |row| word::<ExecutionId>(row, "id"),
    )?;
    let found: Result<Vec<_>, _> = ids.into_iter().map(|id| rows::execution(connection, id)).collect();
    Ok(found?.into_iter().flatten().collect())
}
