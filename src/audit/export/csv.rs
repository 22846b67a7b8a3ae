//! CSV (RFC 4180) with a header line, for spreadsheets: what people look for, a column each. The rest of an event is in the other formats.

use super::read::Read;
use super::{Entry, ExportError};

/// One column: its name, and what stands in it.
struct Column {
    name: &'static str,
    what: &'static str,
    cell: fn(&Entry, &Read) -> Option<String>,
}

macro_rules! columns {
    ($($name:literal, $what:literal, $cell:expr;)*) => {
        const COLUMNS: &[Column] = &[$(Column { name: $name, what: $what, cell: $cell },)*];
    };
}

columns! {
    "seq", "the event's place in the log, from 0 without gaps", |entry, _| Some(entry.seq.to_string());
    "time", "when it was written, UTC; order is `seq`", |_, read| Some(read.event.time.clone());
    "type", "what happened", |_, read| Some(read.event.kind.clone());
    "outcome", "`ok`, `denied`, `failed` or `unknown`", |_, read| Some(read.event.outcome.as_str().to_owned());
    "code", "why it was denied or failed", |_, read| read.event.code.clone();
    "actor", "who did it, authenticated", |_, read| Some(read.event.actor.id.clone());
    "tenant", "the tenant", |_, read| read.event.tenant.clone();
    "case", "the support case", |_, read| read.event.case_id.clone();
    "operation", "the operation", |_, read| read.event.operation.clone();
    "resource", "what it touches, as `type:id`", |_, read| read.event.resource.as_ref().map(|r| format!("{}:{}", r.kind, r.id));
    "draft_id", "the draft", |_, read| read.event.draft.as_ref().map(|d| d.id.clone());
    "draft_hash", "the hash that was approved, base64url", |_, read| read.event.draft.as_ref().map(|d| d.hash.clone());
    "policy_hash", "SHA-256 of the policy in force, base64url", |_, read| read.event.policy.as_ref().map(|p| p.sha256.clone());
    "approver", "who signed", |_, read| read.event.approval.as_ref().and_then(|a| a.approver.clone());
    "credential_id", "the credential; never the token", |_, read| read.event.credential.as_ref().map(|c| c.id.clone());
    "idempotency_key", "the key that the backend is sent", |_, read| read.event.execution.as_ref().map(|e| e.idempotency_key.clone());
    "attempt", "which attempt, from 1", |_, read| read.event.attempt.as_ref().map(|a| a.n.to_string());
    "provider_status", "the HTTP status of the backend's answer", |_, read| {
        read.event.provider.as_ref().and_then(|p| p.status).map(|s| s.to_string())
    };
    "provider_ref", "the backend's own id of what it made", |_, read| read.event.provider.as_ref().and_then(|p| p.reference.clone());
    "amount_minor", "the amount in minor units", |_, read| read.event.amount.map(|a| a.minor.to_string());
    "currency", "its currency, ISO 4217 in lower case", |_, read| read.event.amount.map(|a| a.currency.to_string());
    "leaf_hash", "the leaf hash in hexadecimal", |entry, _| Some(entry.leaf_hash_hex());
}

/// The columns in order: name, and what stands in it.
pub fn columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    COLUMNS.iter().map(|column| (column.name, column.what))
}

/// The first line, its line end included.
#[must_use]
pub fn header() -> String {
    line(COLUMNS.iter().map(|column| column.name.to_owned()))
}

/// The entry in one record, its line end included. A cell that an event has nothing for is empty.
///
/// # Errors
/// [`ExportError`] if the leaf is no event, or not that of its hash and number.
pub fn record(entry: &Entry) -> Result<String, ExportError> {
    let read = Read::of(entry)?;
    Ok(line(COLUMNS.iter().map(|column| (column.cell)(entry, &read).unwrap_or_default())))
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|cell| quoted(&disarmed(&cell))).collect();
    format!("{}\r\n", cells.join(","))
}

/// A spreadsheet takes a cell that begins with one of these for a formula, and some leave white space before it out. An apostrophe in front makes it text;
/// a cell that begins with an apostrophe gets another, so that taking one away always gives back what was there.
fn disarmed(cell: &str) -> String {
    let risky = |c: char| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '\'') || c.is_whitespace() || c.is_control();
    if cell.starts_with(risky) {
        format!("'{cell}")
    } else {
        cell.to_owned()
    }
}

/// RFC 4180 section 2, rules 5 to 7. Semicolons too, which many spreadsheets split at.
fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', ';', '\r', '\n', '\t', '\'']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}
