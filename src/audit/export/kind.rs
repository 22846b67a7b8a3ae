//! An event's type as it is read back.

use crate::audit::EventKind;

/// What kind of thing an event tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A type that this version knows.
    Known(EventKind),
    /// A type of a newer version. It is exported under its own name.
    Newer,
}

impl Kind {
    /// The kind with this type.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        EventKind::parse(text).map_or(Self::Newer, Self::Known)
    }
}
