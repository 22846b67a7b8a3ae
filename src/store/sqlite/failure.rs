//! Why a step inside a transaction ended early.

use rusqlite::ErrorCode;

use crate::domain::id::OperationId;
use crate::store::{Rejection, StoreError};

/// Why a step ended early; whatever it wrote is rolled back.
#[derive(Debug)]
pub(super) enum Failure {
    /// A guard said no.
    Rejected(Rejection),
    /// The database said no.
    Sql(rusqlite::Error),
    /// A stored value does not read back.
    Corrupt(String),
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Failure {
    /// What the caller is told, once it is certain that the step has been rolled back.
    pub(super) fn rolled_back(self) -> StoreError {
        match self {
            Self::Rejected(rejection) => StoreError::Rejected(rejection),
            Self::Corrupt(why) => StoreError::Corrupt(why),
            Self::Sql(error) if is_corruption(&error) => StoreError::Corrupt(error.to_string()),
            Self::Sql(error) => StoreError::Unavailable(error.to_string()),
        }
    }
}

fn is_corruption(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch)
    )
}

/// Whether a commit that failed like this is known to have changed nothing.
pub(super) fn is_known_lost(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy))
}

/// What the caller of a step that wrote is told when its commit failed.
pub(super) fn commit_failed(error: &rusqlite::Error, op: Option<OperationId>) -> StoreError {
    let why = format!("commit: {error}");
    match op {
        Some(op) if !is_known_lost(error) => StoreError::Ambiguous { op, why },
        _ => StoreError::Unavailable(why),
    }
}
