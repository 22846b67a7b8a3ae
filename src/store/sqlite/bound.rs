//! What a draft's hash binds: the columns that repeat the document are believed only as far as they are what the document says.
//!
//! The columns are there to be searched by. Whoever can write them must not decide by them what people are asked, and who may answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;

use super::failure::Failure;
use super::rows;
use crate::domain::digest::DraftHash;
use crate::domain::draft::{DraftDocument, IdempotencyKey};
use crate::domain::id::DraftId;
use crate::domain::name::BackendName;
use crate::store::record::{DraftRecord, ExecutionRecord};

/// So many documents are remembered by each thread.
const REMEMBERED: usize = 2_000;

thread_local! {
    /// The documents that were read, without what no column repeats. What has this hash says this, whatever stands in the file later.
    static READ: RefCell<HashMap<(DraftId, DraftHash), Arc<DraftDocument>>> = RefCell::default();
}

/// What the bytes with this hash say of this draft.
pub(super) fn document(connection: &Connection, id: DraftId, hash: DraftHash) -> Result<Arc<DraftDocument>, Failure> {
    if let Some(known) = READ.with_borrow(|read| read.get(&(id, hash)).cloned()) {
        return Ok(known);
    }
    let corrupt = |why: &str| Failure::Corrupt(format!("draft {id}: {why}"));
    let sql = "SELECT bytes FROM draft_document WHERE draft = ?1";
    let bytes: Vec<u8> = rows::opt_value(connection, sql, [id.to_string()])?.ok_or_else(|| corrupt("it has no bytes"))?;
    if DraftHash::of_canonical(&bytes) != hash {
        return Err(corrupt("its bytes do not hash to its hash"));
    }
    let document = DraftDocument::parse(&bytes).map_err(|error| corrupt(&error.to_string()))?;
    if document.id != id {
        return Err(corrupt("its bytes are those of another draft"));
    }
    let document = Arc::new(document);
    READ.with_borrow_mut(|read| {
        if read.len() >= REMEMBERED {
            read.clear();
        }
        read.insert((id, hash), Arc::clone(&document));
    });
    Ok(document)
}

/// Refuses a draft's row that says anything else than its document.
pub(super) fn check_draft(connection: &Connection, draft: &DraftRecord, backend: &BackendName) -> Result<(), Failure> {
    let document = document(connection, draft.id, draft.hash)?;
    let is_same = [
        ("tenant", draft.tenant == document.tenant),
        ("maker", draft.maker == document.maker.client),
        ("owner", draft.owner == document.maker.owner),
        ("on_behalf_of", draft.on_behalf_of == document.on_behalf_of),
        ("case_id", draft.case_id == document.case_id),
        ("operation", draft.operation == document.operation),
        ("consequence", draft.consequence == document.consequence),
        ("resource", draft.resource == document.resource),
        ("amount", draft.amount == document.amount),
        ("idempotency_key", draft.key == IdempotencyKey::of(&draft.hash)),
        ("backend", *backend == document.request.backend),
        ("supersedes", draft.supersedes == document.supersedes),
        ("expires_at", draft.expires_at == document.expires_at),
    ];
    refuse(draft.id, &is_same)
}

/// Refuses an execution that takes from its draft's row anything else than what the document says.
pub(super) fn check_execution(connection: &Connection, execution: &ExecutionRecord) -> Result<(), Failure> {
    let document = document(connection, execution.draft, execution.hash)?;
    let is_same = [
        ("tenant", execution.tenant == document.tenant),
        ("maker", execution.maker == document.maker.client),
        ("operation", execution.operation == document.operation),
        ("resource", execution.resource == document.resource),
        ("amount", execution.amount == document.amount),
        ("idempotency_key", execution.key == IdempotencyKey::of(&execution.hash)),
        ("backend", execution.backend == document.request.backend),
    ];
    refuse(execution.draft, &is_same)
}

fn refuse(draft: DraftId, is_same: &[(&str, bool)]) -> Result<(), Failure> {
    let Some((column, _)) = is_same.iter().find(|(_, same)| !same) else {
        return Ok(());
    };
    tracing::error!(
        draft.id = %draft, column,
        "the draft's row says something else than its document: somebody has written to the database, and nothing is decided by it"
    );
    Err(Failure::Corrupt(format!(
        "draft {draft}: column {column} is not what its document says: see `writ audit verify --help`"
    )))
}
