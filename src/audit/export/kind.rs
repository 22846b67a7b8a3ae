//! An event's type as it is read back.

use crate::audit::{EventKind, Note};
use crate::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

/// Every type of event that this version writes.
pub fn kinds() -> impl Iterator<Item = EventKind> {
    let drafts = DraftTransition::ALL.iter().copied().map(EventKind::Draft);
    let approvals = ApprovalTransition::ALL.iter().copied().map(EventKind::Approval);
    let credentials = CredentialTransition::ALL.iter().copied().map(EventKind::Credential);
    let executions = ExecutionTransition::ALL.iter().copied().map(EventKind::Execution);
    let stops = StopTransition::ALL.iter().copied().map(EventKind::Stop);
    let notes = Note::ALL.iter().copied().map(EventKind::Note);
    drafts
        .chain(approvals)
        .chain(credentials)
        .chain(executions)
        .chain(stops)
        .chain(notes)
}

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
        kinds().find(|kind| kind.as_str() == text).map_or(Self::Newer, Self::Known)
    }
}
