//! Which class, activity and disposition of OCSF each type of event has. No class is for approvals or for credentials of this kind: what is
//! decided about a thing of writ's is Entity Management (3004), what is asked of writ or of a backend is API Activity (6003).

use super::words::{ApiActivity, Disposition, EntityActivity};
use crate::audit::{EventKind, Note};
use crate::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

/// What a record of Entity Management is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entity {
    /// A draft.
    Draft,
    /// An approval.
    Approval,
    /// A credential.
    Credential,
    /// A stop.
    Stop,
    /// A registered client.
    Client,
    /// A registered approver.
    Approver,
    /// An approver's key.
    ApproverKey,
    /// The log itself.
    Log,
    /// The policy that decides.
    Policy,
    /// The clock that deadlines are compared with.
    Clock,
}

impl Entity {
    /// Its `entity.type`.
    #[must_use]
    pub const fn caption(self) -> &'static str {
        match self {
            Self::Draft => "Draft",
            Self::Approval => "Approval",
            Self::Credential => "Capability Credential",
            Self::Stop => "Stop",
            Self::Client => "Client",
            Self::Approver => "Approver",
            Self::ApproverKey => "Approver Key",
            Self::Log => "Audit Log",
            Self::Policy => "Policy",
            Self::Clock => "Clock",
        }
    }

    /// The member of the event that is its `entity.uid`, from the outside in; empty where there is only one of its kind.
    #[must_use]
    pub const fn uid(self) -> &'static [&'static str] {
        match self {
            Self::Draft => &["draft", "id"],
            Self::Approval => &["approval", "id"],
            Self::Credential => &["credential", "id"],
            Self::Stop => &["stop", "id"],
            Self::Client | Self::Approver | Self::ApproverKey => &["subject"],
            Self::Policy => &["activated", "id"],
            Self::Log | Self::Clock => &[],
        }
    }
}

/// The class of a record, with its activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Entity Management, 3004.
    Entity(EntityActivity, Entity),
    /// API Activity, 6003.
    Api(ApiActivity),
}

/// How a type of event is written in OCSF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    class: Class,
    disposition: Option<Disposition>,
    alert: bool,
}

impl Mapping {
    const fn entity(entity: Entity, activity: EntityActivity) -> Self {
        Self::of(Class::Entity(activity, entity))
    }

    const fn api(activity: ApiActivity) -> Self {
        Self::of(Class::Api(activity))
    }

    const fn of(class: Class) -> Self {
        Self {
            class,
            disposition: None,
            alert: false,
        }
    }

    const fn with(self, disposition: Disposition) -> Self {
        Self {
            disposition: Some(disposition),
            ..self
        }
    }

    const fn alert(self) -> Self {
        Self { alert: true, ..self }
    }

    /// The class and the activity.
    #[must_use]
    pub const fn class(self) -> Class {
        self.class
    }

    /// What the control did, if the event tells of one.
    #[must_use]
    pub const fn disposition(self) -> Option<Disposition> {
        self.disposition
    }

    /// Whether a person should look.
    #[must_use]
    pub const fn is_alert(self) -> bool {
        self.alert
    }

    /// A type of a newer version: told, under its own name.
    pub(super) const NEWER: Self = Self::api(ApiActivity::Other);
}

/// How this type of event is written.
#[must_use]
pub const fn mapping(kind: EventKind) -> Mapping {
    match kind {
        EventKind::Draft(transition) => draft(transition),
        EventKind::Approval(transition) => approval(transition),
        EventKind::Credential(transition) => credential(transition),
        EventKind::Execution(transition) => execution(transition),
        EventKind::Stop(transition) => stop(transition),
        EventKind::Note(note) => noted(note),
    }
}

const fn draft(transition: DraftTransition) -> Mapping {
    use Disposition as D;
    use DraftTransition as T;
    use EntityActivity as A;
    match transition {
        T::Propose => Mapping::entity(Entity::Draft, A::Create),
        // The policy's answer to a call.
        T::AutoApprove => Mapping::api(ApiActivity::Update).with(D::Allowed),
        T::Hold => Mapping::api(ApiActivity::Update).with(D::Delayed),
        T::Deny => Mapping::api(ApiActivity::Update).with(D::Blocked),
        T::Approve => Mapping::entity(Entity::Draft, A::Update).with(D::Approved),
        T::Refuse => Mapping::entity(Entity::Draft, A::Update).with(D::Rejected),
        T::Withdraw | T::Expire | T::MarkStale => Mapping::entity(Entity::Draft, A::Deactivate),
        T::Supersede => Mapping::entity(Entity::Draft, A::Update),
        T::Revoke => Mapping::entity(Entity::Draft, A::Disable).with(D::AccessRevoked),
        T::Consume => Mapping::entity(Entity::Draft, A::Activate).with(D::Allowed),
        T::Release => Mapping::entity(Entity::Draft, A::Resume),
    }
}

const fn approval(transition: ApprovalTransition) -> Mapping {
    use ApprovalTransition as T;
    use Disposition as D;
    use EntityActivity as A;
    match transition {
        T::Request => Mapping::entity(Entity::Approval, A::Create).with(D::Delayed),
        T::GrantByPolicy => Mapping::entity(Entity::Approval, A::Create).with(D::Approved),
        T::Grant => Mapping::entity(Entity::Approval, A::Update).with(D::Approved),
        T::Refuse => Mapping::entity(Entity::Approval, A::Update).with(D::Rejected),
        T::Lapse | T::Void => Mapping::entity(Entity::Approval, A::Deactivate),
        T::Revoke => Mapping::entity(Entity::Approval, A::Disable).with(D::AccessRevoked),
    }
}

const fn credential(transition: CredentialTransition) -> Mapping {
    use CredentialTransition as T;
    use Disposition as D;
    use EntityActivity as A;
    match transition {
        T::Issue => Mapping::entity(Entity::Credential, A::Create).with(D::Allowed),
        T::Redeem => Mapping::entity(Entity::Credential, A::Activate).with(D::Allowed),
        T::Revoke => Mapping::entity(Entity::Credential, A::Disable).with(D::AccessRevoked),
        T::Lapse => Mapping::entity(Entity::Credential, A::Deactivate),
    }
}

const fn execution(transition: ExecutionTransition) -> Mapping {
    use ApiActivity as A;
    use Disposition as D;
    use ExecutionTransition as T;
    match transition {
        T::Claim | T::Dispatch | T::Resend => Mapping::api(A::Create).with(D::Allowed),
        T::Reclaim => Mapping::api(A::Update),
        T::Abort => Mapping::api(A::Update).with(D::Blocked),
        T::ConfirmApplied | T::ReconcileApplied | T::ResolveApplied => Mapping::api(A::Update).with(D::Approved),
        // Not an error: nobody knows yet.
        T::ConfirmPending | T::ReconcilePending | T::LoseTrack => Mapping::api(A::Update).with(D::Delayed),
        T::ConfirmNotApplied | T::ReconcileNotApplied | T::ResolveNotApplied => Mapping::api(A::Update).with(D::Error),
        T::HandOff => Mapping::api(A::Update).with(D::Delayed).alert(),
        T::Reopen => Mapping::api(A::Update).with(D::Error).alert(),
    }
}

const fn stop(transition: StopTransition) -> Mapping {
    use EntityActivity as A;
    use StopTransition as T;
    match transition {
        T::Place => Mapping::entity(Entity::Stop, A::Create).with(Disposition::Blocked).alert(),
        T::Lift => Mapping::entity(Entity::Stop, A::Disable).with(Disposition::Restored),
        T::Lapse => Mapping::entity(Entity::Stop, A::Deactivate).with(Disposition::Restored),
    }
}

const fn noted(note: Note) -> Mapping {
    use ApiActivity as A;
    use Disposition as D;
    use EntityActivity as E;
    match note {
        Note::AuthFailed | Note::AccessDenied | Note::RevokeDenied => Mapping::api(A::Other).with(D::Unauthorized),
        Note::RateLimited => Mapping::api(A::Other).with(D::Blocked),
        Note::ReadPerformed => Mapping::api(A::Read).with(D::Allowed),
        Note::ProposeDenied | Note::ExchangeDenied | Note::SendDenied => Mapping::api(A::Create).with(D::Blocked),
        Note::RecordDenied => Mapping::api(A::Create).with(D::Blocked).alert(),
        Note::RecordCounted => Mapping::entity(Entity::Approval, E::Update).with(D::Approved),
        Note::UseDenied => Mapping::api(A::Create).with(D::Unauthorized).alert(),
        Note::LookUp => Mapping::api(A::Read),
        Note::TakeOver => Mapping::api(A::Update),
        Note::LateAnswer | Note::BackendEvent => Mapping::api(A::Update).with(D::Logged),
        Note::BackendEventDenied => Mapping::api(A::Update).with(D::Blocked),
        Note::Contradicted => Mapping::api(A::Update).with(D::Detected).alert(),
        Note::ClientAdded => Mapping::entity(Entity::Client, E::Create),
        Note::ClientSecretReplaced | Note::ClientCertificateReplaced | Note::ClientPermissionsReplaced => {
            Mapping::entity(Entity::Client, E::Update)
        }
        Note::ClientRevoked => Mapping::entity(Entity::Client, E::Disable).with(D::AccessRevoked),
        Note::ApproverAdded => Mapping::entity(Entity::Approver, E::Create),
        Note::ApproverAuthorityReplaced => Mapping::entity(Entity::Approver, E::Update),
        Note::ApproverRevoked => Mapping::entity(Entity::Approver, E::Disable).with(D::AccessRevoked),
        Note::ApproverKeyRevoked => Mapping::entity(Entity::ApproverKey, E::Disable).with(D::AccessRevoked),
        Note::ProofReported => Mapping::api(A::Other).with(D::Logged),
        Note::LogKeyRotated => Mapping::entity(Entity::Log, E::Update).with(D::Approved),
        Note::LogRecovered => Mapping::entity(Entity::Log, E::Update).with(D::Restored).alert(),
        Note::LogHeartbeat => Mapping::entity(Entity::Log, E::Update).with(D::Logged),
        Note::AuditExported | Note::AuditRead => Mapping::api(A::Read).with(D::Allowed),
        Note::WitnessDisagreed => Mapping::entity(Entity::Log, E::Update).with(D::Detected).alert(),
        Note::LogUnwitnessed => Mapping::entity(Entity::Log, E::Suspend).with(D::Detected).alert(),
        Note::LogWitnessed => Mapping::entity(Entity::Log, E::Resume).with(D::Restored),
        Note::LogStarted => Mapping::entity(Entity::Log, E::Enable),
        Note::LogStopped => Mapping::entity(Entity::Log, E::Deactivate),
        Note::PolicyActivated => Mapping::entity(Entity::Policy, E::Activate),
        Note::AuditDisclosed => Mapping::api(A::Read).with(D::Logged).alert(),
        Note::PiiErased | Note::RetentionPruned => Mapping::entity(Entity::Log, E::Update).with(D::Logged).alert(),
        Note::RetentionHeld => Mapping::entity(Entity::Log, E::Suspend).with(D::Logged),
        Note::RetentionReleased => Mapping::entity(Entity::Log, E::Resume).with(D::Logged),
        Note::ClockSteppedBack => Mapping::entity(Entity::Clock, E::Suspend).with(D::Detected).alert(),
        Note::ClockCaughtUp => Mapping::entity(Entity::Clock, E::Resume).with(D::Restored),
        Note::ClockAccepted => Mapping::entity(Entity::Clock, E::Update).with(D::Approved).alert(),
    }
}
