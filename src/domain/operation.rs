//! What an operation does to the world, and what follows from it.

use serde::{Deserialize, Serialize};

/// How far an operation reaches, from nothing to who may enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consequence {
    /// Looks, changes nothing.
    Read,
    /// Changes a record.
    Write,
    /// Moves money.
    Money,
    /// Changes who can sign in or recover an account.
    Access,
}

impl Consequence {
    /// The word used in files, events and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Money => "money",
            Self::Access => "access",
        }
    }
}

/// What a client may do with an operation; three separate permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Run a read.
    Read,
    /// Propose a draft.
    Draft,
    /// Exchange an approval for a credential.
    Execute,
}
