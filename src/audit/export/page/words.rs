//! What happened, in a sentence for people.

use crate::audit::export::Kind;
use crate::audit::{EventKind, Note};
use crate::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

/// The sentence; the type as it is written where there is none.
pub(super) fn sentence(kind: Kind, written: &str) -> &str {
    let Kind::Known(kind) = kind else {
        return written;
    };
    match kind {
        EventKind::Draft(transition) => draft(transition),
        EventKind::Approval(transition) => approval(transition),
        EventKind::Credential(transition) => credential(transition),
        EventKind::Execution(transition) => execution(transition),
        EventKind::Stop(transition) => stop(transition),
        EventKind::Note(kind) => note(kind).unwrap_or(written),
    }
}

const fn draft(transition: DraftTransition) -> &'static str {
    use DraftTransition as T;
    match transition {
        T::Propose => "The draft was proposed",
        T::AutoApprove => "The policy allowed it; a rule signed",
        T::Hold => "The policy asked for people to sign",
        T::Deny => "The policy denied it",
        T::Approve => "The draft was approved",
        T::Refuse => "A person refused the draft",
        T::Withdraw => "Its maker took the draft back",
        T::Supersede => "A newer draft took its place",
        T::Expire => "The draft's time was over",
        T::MarkStale => "What the approval was given for no longer held",
        T::Revoke => "The draft's approval was taken back",
        T::Consume => "The draft was claimed for an execution",
        T::Release => "The draft was given back; nothing had been sent",
    }
}

const fn approval(transition: ApprovalTransition) -> &'static str {
    use ApprovalTransition as T;
    match transition {
        T::Request => "People were asked to sign",
        T::GrantByPolicy => "A rule of the policy granted the approval",
        T::Grant => "The last signature that was needed granted the approval",
        T::Refuse => "A person refused the approval",
        T::Lapse => "The approval's time was over",
        T::Void => "The draft went away, so there was nothing left to approve",
        T::Revoke => "The approval was taken back",
    }
}

const fn credential(transition: CredentialTransition) -> &'static str {
    use CredentialTransition as T;
    match transition {
        T::Issue => "A credential was issued",
        T::Redeem => "The credential was spent",
        T::Revoke => "The credential was revoked",
        T::Lapse => "The credential expired unused",
    }
}

const fn execution(transition: ExecutionTransition) -> &'static str {
    use ExecutionTransition as T;
    match transition {
        T::Claim => "A proxy took the execution",
        T::Reclaim => "Another proxy took the execution; nothing had been sent",
        T::Abort => "It was given up before anything was sent",
        T::Dispatch => "The attempt was written down, and then sent",
        T::Resend => "The same request was written down again, and then sent under the same key",
        T::ConfirmApplied => "The backend answered that it is done",
        T::ConfirmPending => "The backend answered that it is under way",
        T::ConfirmNotApplied => "The backend's answer proves that it was not done",
        T::LoseTrack => "No answer came, or one that proves nothing",
        T::ReconcileApplied => "A look at the backend proved that it is done",
        T::ReconcileNotApplied => "A look at the backend proved that it was not done",
        T::ReconcilePending => "A look at the backend found it under way",
        T::HandOff => "It was handed to a person",
        T::ResolveApplied => "An operator found out that it is done",
        T::ResolveNotApplied => "An operator found out that it was not done",
        T::Reopen => "The backend said later that it failed after all",
    }
}

const fn stop(transition: StopTransition) -> &'static str {
    use StopTransition as T;
    match transition {
        T::Place => "A stop was placed",
        T::Lift => "A stop was lifted",
        T::Lapse => "A stop's time was over",
    }
}

const fn note(note: Note) -> Option<&'static str> {
    Some(match note {
        Note::ProposeDenied => "A proposal was denied and not stored",
        Note::RecordDenied => "An approval record was refused",
        Note::RecordCounted => "A signature was counted",
        Note::ExchangeDenied => "No credential was given for the approval",
        Note::UseDenied => "A credential was refused at the proxy",
        Note::RevokeDenied => "A question about a credential, or its revocation, was refused",
        Note::SendDenied => "The request was kept from being sent",
        Note::LookUp => "The backend was looked at",
        Note::TakeOver => "Another proxy took over, with the outcome open",
        Note::LateAnswer => "An answer came late",
        Note::BackendEvent => "The backend told something by itself, signed",
        Note::BackendEventDenied => "What came as the backend's event was refused",
        Note::Contradicted => "The backend shows as done what is known as not done; a person must look",
        Note::AccessDenied => "Something was asked that the caller may not do",
        Note::ReadPerformed => "Declared fields were read",
        _ => return None,
    })
}
