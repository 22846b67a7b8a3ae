//! Which stop an event is about.

use serde::Serialize;

use crate::domain::id::StopId;
use crate::domain::time::Timestamp;

/// Which stop. A denial names it by its id alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StopPart {
    /// Its id.
    pub id: StopId,
    /// What kind of thing it covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
    /// Which one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// First moment it no longer counts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl StopPart {
    /// The stop that stands in the way.
    #[must_use]
    pub const fn named(id: StopId) -> Self {
        Self {
            id,
            scope: None,
            value: None,
            expires_at: None,
        }
    }
}
