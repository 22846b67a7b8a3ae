//! Rows to records.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Params, Row};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::bound;
use super::failure::Failure;
use crate::domain::draft::Resource;
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId};
use crate::domain::money::Money;
use crate::domain::name::BackendName;
use crate::domain::time::Timestamp;
use crate::store::record::{
    ApprovalRecord, AttemptRecord, AttemptResult, CredentialRecord, DraftRecord, ExecutionRecord, ExecutionSummary, HandedOff,
    LookUpRecord, SignedRecord,
};

fn broken(column: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Corrupt(format!("column {column}: {why}"))
}

fn raw<T: FromSql>(row: &Row<'_>, column: &str) -> Result<T, Failure> {
    row.get(column).map_err(|error| match error {
        rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..) => broken(column, error),
        other => Failure::Sql(other),
    })
}

fn parsed<T: for<'de> Deserialize<'de>>(column: &str, text: &str) -> Result<T, Failure> {
    T::deserialize(StrDeserializer::<WordError>::new(text)).map_err(|error| broken(column, error))
}

/// A word, a name, an id or a digest.
pub(super) fn word<T: for<'de> Deserialize<'de>>(row: &Row<'_>, column: &str) -> Result<T, Failure> {
    parsed(column, &raw::<String>(row, column)?)
}

/// A word that may be absent.
pub(super) fn opt_word<T: for<'de> Deserialize<'de>>(row: &Row<'_>, column: &str) -> Result<Option<T>, Failure> {
    raw::<Option<String>>(row, column)?.map(|text| parsed(column, &text)).transpose()
}

/// A value kept as JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T, Failure> {
    serde_json::from_str(&raw::<String>(row, column)?).map_err(|error| broken(column, error))
}

/// A value kept as JSON that may be absent.
pub(super) fn opt_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<Option<T>, Failure> {
    raw::<Option<String>>(row, column)?
        .map(|text| serde_json::from_str(&text).map_err(|error| broken(column, error)))
        .transpose()
}

/// A moment.
pub(super) fn at(row: &Row<'_>, column: &str) -> Result<Timestamp, Failure> {
    Ok(Timestamp::from_millis(raw(row, column)?))
}

/// A moment that may be absent.
pub(super) fn opt_at(row: &Row<'_>, column: &str) -> Result<Option<Timestamp>, Failure> {
    Ok(raw::<Option<i64>>(row, column)?.map(Timestamp::from_millis))
}

/// A number within the range of its type.
pub(super) fn number<T: TryFrom<i64>>(row: &Row<'_>, column: &str) -> Result<T, Failure> {
    T::try_from(raw::<i64>(row, column)?).map_err(|_| broken(column, "out of range"))
}

/// A number that may be absent.
pub(super) fn opt_number<T: TryFrom<i64>>(row: &Row<'_>, column: &str) -> Result<Option<T>, Failure> {
    raw::<Option<i64>>(row, column)?
        .map(|n| T::try_from(n).map_err(|_| broken(column, "out of range")))
        .transpose()
}

/// A column of text that may be empty.
pub(super) fn opt_text(row: &Row<'_>, column: &str) -> Result<Option<String>, Failure> {
    Ok(row.get(column)?)
}

/// A value as JSON text, to be stored.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Corrupt(format!("a value has no JSON form: {error}")))
}

/// Every row of a query, each read by `read`.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// The first row of a query, if it has one.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// The one value of a query of one row.
pub(super) fn value<T: FromSql>(connection: &Connection, sql: &str, params: impl Params) -> Result<T, Failure> {
    Ok(connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
}

/// The one value of a query of at most one row.
pub(super) fn opt_value<T: FromSql>(connection: &Connection, sql: &str, params: impl Params) -> Result<Option<T>, Failure> {
    Ok(connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
}

/// The draft with its approval and its execution in one line.
pub(super) fn draft(connection: &Connection, id: DraftId) -> Result<Option<DraftRecord>, Failure> {
    let found = first(connection, "SELECT * FROM draft WHERE id = ?1", [id.to_string()], draft_row)?;
    found.map(|row| whole_draft(connection, row)).transpose()
}

/// The draft of a row, if that says what the draft's document says, with what stands in other tables.
pub(super) fn whole_draft(connection: &Connection, row: DraftRow) -> Result<DraftRecord, Failure> {
    let DraftRow { draft, backend } = row;
    bound::check_draft(connection, &draft, &backend)?;
    let execution = first(
        connection,
        "SELECT id, state, reference FROM execution WHERE draft = ?1",
        [draft.id.to_string()],
        |row| {
            Ok(ExecutionSummary {
                id: word(row, "id")?,
                state: word(row, "state")?,
                reference: raw(row, "reference")?,
            })
        },
    )?;
    Ok(DraftRecord {
        approval: approval_of(connection, draft.id)?,
        execution,
        ..draft
    })
}

/// One row of `draft`, as somebody has written it: [`whole_draft`] makes a draft of it.
pub(super) struct DraftRow {
    draft: DraftRecord,
    backend: BackendName,
}

/// One row of `draft`.
pub(super) fn draft_row(row: &Row<'_>) -> Result<DraftRow, Failure> {
    let draft = DraftRecord {
        id: word(row, "id")?,
        tenant: word(row, "tenant")?,
        maker: word(row, "maker")?,
        owner: opt_word(row, "owner")?,
        on_behalf_of: opt_word(row, "on_behalf_of")?,
        case_id: opt_word(row, "case_id")?,
        operation: word(row, "operation")?,
        consequence: word(row, "consequence")?,
        resource: resource(row)?,
        amount: amount(row)?,
        fields: json(row, "fields")?,
        hash: word(row, "hash")?,
        key: word(row, "idempotency_key")?,
        state: word(row, "state")?,
        recent: number(row, "recent")?,
        supersedes: opt_word(row, "supersedes")?,
        verdict: opt_json(row, "verdict")?,
        approval: None,
        closed: opt_json(row, "closed")?,
        execution: None,
        created_at: at(row, "created_at")?,
        expires_at: at(row, "expires_at")?,
        changed_at: at(row, "changed_at")?,
    };
    Ok(DraftRow {
        draft,
        backend: word(row, "backend")?,
    })
}

/// What a draft touches.
pub(super) fn resource(row: &Row<'_>) -> Result<Resource, Failure> {
    Ok(Resource {
        kind: word(row, "resource_type")?,
        id: word(row, "resource_id")?,
        version: raw(row, "resource_version")?,
    })
}

/// How much a draft is about.
pub(super) fn amount(row: &Row<'_>) -> Result<Option<Money>, Failure> {
    let Some(minor) = raw::<Option<i64>>(row, "amount_minor")? else {
        return Ok(None);
    };
    let money = Money::new(minor, word(row, "currency")?).map_err(|error| broken("amount_minor", error))?;
    Ok(Some(money))
}

fn approval_of(connection: &Connection, draft: DraftId) -> Result<Option<ApprovalRecord>, Failure> {
    let found = first(
        connection,
        "SELECT * FROM approval WHERE draft = ?1",
        [draft.to_string()],
        approval_row,
    )?;
    found
        .map(|approval| {
            Ok(ApprovalRecord {
                records: records(connection, approval.id)?,
                ..approval
            })
        })
        .transpose()
}

/// The approval and whose it is.
pub(super) fn approval(connection: &Connection, id: ApprovalId) -> Result<Option<(DraftId, ApprovalRecord)>, Failure> {
    let draft = first(connection, "SELECT draft FROM approval WHERE id = ?1", [id.to_string()], |row| {
        word(row, "draft")
    })?;
    let Some(draft) = draft else { return Ok(None) };
    Ok(approval_of(connection, draft)?.map(|approval| (draft, approval)))
}

fn approval_row(row: &Row<'_>) -> Result<ApprovalRecord, Failure> {
    Ok(ApprovalRecord {
        id: word(row, "id")?,
        state: word(row, "state")?,
        nonce: raw(row, "nonce")?,
        requirement: json(row, "requirement")?,
        requested_at: at(row, "requested_at")?,
        expires_at: at(row, "expires_at")?,
        execute_by: opt_at(row, "execute_by")?,
        revocation: opt_json(row, "revocation")?,
        records: Vec::new(),
    })
}

fn records(connection: &Connection, approval: ApprovalId) -> Result<Vec<SignedRecord>, Failure> {
    let sql = "SELECT * FROM approval_record WHERE approval = ?1 ORDER BY received_at, id";
    all(connection, sql, [approval.to_string()], |row| {
        Ok(SignedRecord {
            id: word(row, "id")?,
            approver: word(row, "approver")?,
            kid: word(row, "kid")?,
            decision: word(row, "decision")?,
            reason: raw(row, "reason")?,
            queues: json(row, "queues")?,
            step_up: raw(row, "step_up")?,
            execute_by: opt_at(row, "execute_by")?,
            received_at: at(row, "received_at")?,
            jws: raw(row, "jws")?,
        })
    })
}

/// A credential.
pub(super) fn credential(connection: &Connection, id: CredentialId) -> Result<Option<CredentialRecord>, Failure> {
    first(
        connection,
        "SELECT * FROM credential WHERE id = ?1",
        [id.to_string()],
        credential_row,
    )
}

/// One row of `credential`.
pub(super) fn credential_row(row: &Row<'_>) -> Result<CredentialRecord, Failure> {
    Ok(CredentialRecord {
        id: word(row, "id")?,
        draft: word(row, "draft")?,
        approval: word(row, "approval")?,
        hash: word(row, "hash")?,
        audience: word(row, "audience")?,
        root_key_id: number(row, "root_key_id")?,
        state: word(row, "state")?,
        issued_at: at(row, "issued_at")?,
        expires_at: at(row, "expires_at")?,
    })
}

const EXECUTION: &str = "SELECT e.*, d.tenant, d.maker, d.operation, d.resource_type, d.resource_id, d.resource_version, d.amount_minor, \
     d.currency, d.idempotency_key, d.backend FROM execution e JOIN draft d ON d.id = e.draft";

/// An execution with its attempts and look-ups, if its draft's row says what the document says.
pub(super) fn execution(connection: &Connection, id: ExecutionId) -> Result<Option<ExecutionRecord>, Failure> {
    execution_where(connection, "e.id = ?1", &id.to_string())
}

/// The execution of a draft.
pub(super) fn execution_of(connection: &Connection, draft: DraftId) -> Result<Option<ExecutionRecord>, Failure> {
    execution_where(connection, "e.draft = ?1", &draft.to_string())
}

fn execution_where(connection: &Connection, what: &str, id: &str) -> Result<Option<ExecutionRecord>, Failure> {
    let found = first(connection, &format!("{EXECUTION} WHERE {what}"), [id], execution_row)?;
    let Some(execution) = found else { return Ok(None) };
    bound::check_execution(connection, &execution)?;
    let id = execution.id.to_string();
    Ok(Some(ExecutionRecord {
        attempts: all(
            connection,
            "SELECT * FROM attempt WHERE execution = ?1 ORDER BY n",
            [&id],
            attempt_row,
        )?,
        lookups: all(
            connection,
            "SELECT * FROM look_up WHERE execution = ?1 ORDER BY n",
            [&id],
            look_up_row,
        )?,
        events: super::told::of(connection, &id)?,
        ..execution
    }))
}

fn execution_row(row: &Row<'_>) -> Result<ExecutionRecord, Failure> {
    Ok(ExecutionRecord {
        id: word(row, "id")?,
        draft: word(row, "draft")?,
        hash: word(row, "hash")?,
        tenant: word(row, "tenant")?,
        maker: word(row, "maker")?,
        operation: word(row, "operation")?,
        resource: resource(row)?,
        amount: amount(row)?,
        key: word(row, "idempotency_key")?,
        backend: word(row, "backend")?,
        credential: word(row, "credential")?,
        state: word(row, "state")?,
        fence: number(row, "fence")?,
        holder: raw(row, "holder")?,
        lease_until: at(row, "lease_until")?,
        claimed_at: at(row, "claimed_at")?,
        first_sent_at: opt_at(row, "first_sent_at")?,
        send_until: opt_at(row, "send_until")?,
        next_action_at: opt_at(row, "next_action_at")?,
        reference: raw(row, "reference")?,
        code: raw(row, "code")?,
        evidence: raw(row, "evidence")?,
        handed_off: opt_at(row, "handed_off_at")?
            .zip(raw::<Option<String>>(row, "handed_off_code")?)
            .map(|(at, code)| HandedOff { at, code }),
        changed_at: at(row, "changed_at")?,
        attempts: Vec::new(),
        lookups: Vec::new(),
        events: Vec::new(),
    })
}

fn attempt_row(row: &Row<'_>) -> Result<AttemptRecord, Failure> {
    let result = match opt_at(row, "result_at")? {
        None => None,
        Some(at) => Some(AttemptResult {
            at,
            outcome: raw(row, "outcome")?,
            conclusive: raw(row, "conclusive")?,
            status: opt_number(row, "status")?,
            rule: raw(row, "rule")?,
            body_sha256: opt_word(row, "body_sha256")?,
        }),
    };
    Ok(AttemptRecord {
        n: number(row, "n")?,
        request_sha256: word(row, "request_sha256")?,
        secrets: opt_word(row, "secrets")?,
        sent_at: at(row, "sent_at")?,
        result,
    })
}

fn look_up_row(row: &Row<'_>) -> Result<LookUpRecord, Failure> {
    Ok(LookUpRecord {
        at: at(row, "at")?,
        step: raw(row, "step")?,
        finding: raw(row, "finding")?,
        status: opt_number(row, "status")?,
        body_sha256: opt_word(row, "body_sha256")?,
    })
}

/// Free text.
pub(super) fn text(row: &Row<'_>, column: &str) -> Result<String, Failure> {
    raw(row, column)
}
