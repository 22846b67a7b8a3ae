//! Why a step inside a transaction ended early.

use rusqlite::ErrorCode;

use crate::domain::id::OperationId;
use crate::store::health::{Pause, Trouble};
use crate::store::{Rejection, StoreError};

/// Why a step ended early; whatever it wrote is rolled back.
#[derive(Debug)]
pub(super) enum Failure {
    /// A guard said no.
    Rejected(Rejection),
    /// The database said no.
    Sql(rusqlite::Error),
    /// Nothing new begins now.
    Paused(Pause),
    /// A stored value does not read back.
    Corrupt(String),
    /// The log in the file is not the one that was signed, or cannot be signed.
    Sealed(String),
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
            Self::Paused(pause) => StoreError::Paused(pause),
            Self::Corrupt(why) => StoreError::Corrupt(why),
            Self::Sealed(why) => StoreError::Unavailable(why),
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

/// What an error says of the file.
pub(super) fn trouble_of(error: &rusqlite::Error) -> Trouble {
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return Trouble::Other;
    };
    match code.code {
        ErrorCode::DiskFull => Trouble::Full,
        ErrorCode::ReadOnly if code.extended_code == rusqlite::ffi::SQLITE_READONLY_DBMOVED => Trouble::Gone,
        ErrorCode::ReadOnly => Trouble::ReadOnly,
        ErrorCode::SystemIoFailure => Trouble::Doubt,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Trouble::Locked,
        _ => Trouble::Other,
    }
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
