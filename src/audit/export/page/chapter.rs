//! The chapters of a refund's story, and which chapter each event belongs to.

use crate::audit::{EventKind, Note};
use crate::domain::lifecycle::{DraftTransition, ExecutionTransition};

/// One chapter, in the order in which things happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chapter {
    Asked,
    Policy,
    Approval,
    Credential,
    Sending,
    Answer,
    Ended,
    Other,
}

impl Chapter {
    pub(super) const ALL: [Self; 8] = [
        Self::Asked,
        Self::Policy,
        Self::Approval,
        Self::Credential,
        Self::Sending,
        Self::Answer,
        Self::Ended,
        Self::Other,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Asked => "What was asked",
            Self::Policy => "What the policy said",
            Self::Approval => "Who approved, and with which key",
            Self::Credential => "The life of the credential",
            Self::Sending => "The key and the attempts",
            Self::Answer => "What the backend answered",
            Self::Ended => "How it ended without being sent",
            Self::Other => "What else happened",
        }
    }

    /// What is said if no event belongs here; nothing, if that goes without saying.
    pub(super) const fn nothing(self) -> Option<&'static str> {
        match self {
            Self::Asked => Some("No event tells of a proposal."),
            Self::Policy => Some("No event tells of an answer of the policy."),
            Self::Approval => Some("No event tells of an approval."),
            Self::Credential => Some("No credential was issued."),
            Self::Sending => Some("Nothing was sent."),
            Self::Answer => Some("No event tells of an answer."),
            Self::Ended | Self::Other => None,
        }
    }

    pub(super) const fn of(kind: EventKind) -> Self {
        match kind {
            EventKind::Draft(transition) => match transition {
                DraftTransition::Propose => Self::Asked,
                DraftTransition::AutoApprove | DraftTransition::Hold | DraftTransition::Deny => Self::Policy,
                DraftTransition::Approve | DraftTransition::Refuse => Self::Approval,
                DraftTransition::Consume | DraftTransition::Release => Self::Sending,
                DraftTransition::Withdraw
                | DraftTransition::Supersede
                | DraftTransition::Expire
                | DraftTransition::MarkStale
                | DraftTransition::Revoke => Self::Ended,
            },
            EventKind::Approval(_) => Self::Approval,
            EventKind::Credential(_) => Self::Credential,
            EventKind::Execution(transition) => match transition {
                ExecutionTransition::Claim
                | ExecutionTransition::Reclaim
                | ExecutionTransition::Abort
                | ExecutionTransition::Dispatch
                | ExecutionTransition::Resend => Self::Sending,
                ExecutionTransition::ConfirmApplied
                | ExecutionTransition::ConfirmPending
                | ExecutionTransition::ConfirmNotApplied
                | ExecutionTransition::LoseTrack
                | ExecutionTransition::ReconcileApplied
                | ExecutionTransition::ReconcileNotApplied
                | ExecutionTransition::ReconcilePending
                | ExecutionTransition::HandOff
                | ExecutionTransition::ResolveApplied
                | ExecutionTransition::ResolveNotApplied
                | ExecutionTransition::Reopen => Self::Answer,
            },
            EventKind::Stop(_) => Self::Other,
            EventKind::Note(note) => Self::of_note(note),
        }
    }

    const fn of_note(note: Note) -> Self {
        match note {
            Note::ProposeDenied => Self::Asked,
            Note::RecordDenied | Note::RecordCounted => Self::Approval,
            Note::ExchangeDenied | Note::UseDenied | Note::RevokeDenied => Self::Credential,
            Note::SendDenied | Note::TakeOver => Self::Sending,
            Note::LookUp | Note::LateAnswer | Note::BackendEvent | Note::BackendEventDenied | Note::Contradicted => Self::Answer,
            // What does not belong to one refund, and whatever is added later.
            _ => Self::Other,
        }
    }
}
