//! What kinds of events there are: one for each transition, and notes of what changes no state.

use serde::{Serialize, Serializer};

use crate::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A draft changed state.
    Draft(DraftTransition),
    /// An approval changed state.
    Approval(ApprovalTransition),
    /// A credential changed state.
    Credential(CredentialTransition),
    /// An execution changed state.
    Execution(ExecutionTransition),
    /// A stop changed state.
    Stop(StopTransition),
    /// Something that changes no state but must be known.
    Note(Note),
}

impl EventKind {
    /// Every kind there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let drafts = DraftTransition::ALL.iter().map(|t| Self::Draft(*t));
        let approvals = ApprovalTransition::ALL.iter().map(|t| Self::Approval(*t));
        let credentials = CredentialTransition::ALL.iter().map(|t| Self::Credential(*t));
        let executions = ExecutionTransition::ALL.iter().map(|t| Self::Execution(*t));
        let stops = StopTransition::ALL.iter().map(|t| Self::Stop(*t));
        let notes = Note::ALL.iter().map(|n| Self::Note(*n));
        drafts
            .chain(approvals)
            .chain(credentials)
            .chain(executions)
            .chain(stops)
            .chain(notes)
    }

    /// The kind whose type is written so; `None` if there is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::all().find(|kind| kind.as_str() == text)
    }

    /// The event's type as written, such as `draft.approve`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft(t) => t.event(),
            Self::Approval(t) => t.event(),
            Self::Credential(t) => t.event(),
            Self::Execution(t) => t.event(),
            Self::Stop(t) => t.event(),
            Self::Note(n) => n.as_str(),
        }
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

macro_rules! notes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Events that change no state: denials, reads, look-ups, administration.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Note { $($(#[$doc])* $variant,)* }

        impl Note {
            /// Every note.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The event's type as written.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

notes! {
    /// A caller could not show who it is.
    AuthFailed = "auth.failed",
    /// Calls were refused because there were too many; `count` says how many since this was last written.
    RateLimited = "rate.limited",
    /// A caller asked for something its role or permissions do not cover.
    AccessDenied = "access.denied",
    /// A read ran and its declared fields were returned.
    ReadPerformed = "read.performed",
    /// A draft was not even stored.
    ProposeDenied = "draft.propose_denied",
    /// An approval record was refused.
    RecordDenied = "approval.record_denied",
    /// A signature was counted; the requirement is not met yet.
    RecordCounted = "approval.record_counted",
    /// An approval was not exchanged for a credential.
    ExchangeDenied = "credential.exchange_denied",
    /// A credential was refused at the proxy.
    UseDenied = "credential.use_denied",
    /// A client asked about a credential, or wanted it taken back, and was refused.
    RevokeDenied = "credential.revoke_denied",
    /// A request was not sent, because a stop covers it or its approval was taken back.
    SendDenied = "execution.send_denied",
    /// The outcome of a sent request was looked up.
    LookUp = "execution.look_up",
    /// Another proxy took over an execution whose outcome is open.
    TakeOver = "execution.take_over",
    /// The answer to a sent request came after somebody else had taken over, or could not be recorded as its outcome.
    LateAnswer = "execution.late_answer",
    /// A backend told something by itself, signed.
    BackendEvent = "backend.event",
    /// What came as a backend's event was refused: its signature, its time or its form.
    BackendEventDenied = "backend.event_denied",
    /// The backend shows as done what is known as certainly not done; a person must look.
    Contradicted = "execution.contradicted",
    /// A client was registered.
    ClientAdded = "client.add",
    /// A client's secret was replaced.
    ClientSecretReplaced = "client.replace_secret",
    /// The certificate that a client must show beside its secret was replaced.
    ClientCertificateReplaced = "client.replace_certificate",
    /// What a client may do was replaced.
    ClientPermissionsReplaced = "client.replace_permissions",
    /// A client was revoked.
    ClientRevoked = "client.revoke",
    /// An approver, or a key or authority of one, was registered.
    ApproverAdded = "approver.add",
    /// What an approver may decide was replaced.
    ApproverAuthorityReplaced = "approver.replace_authority",
    /// An approver was revoked, with all their keys.
    ApproverRevoked = "approver.revoke",
    /// One approver key was revoked.
    ApproverKeyRevoked = "approver.revoke_key",
    /// The log was read; `subject` says how. The first read of a caller in a minute has the SHA-256 of its query, the others are counted.
    AuditRead = "audit.read",
    /// A prover tried what must be refused and reported; `failed` if a guarantee did not hold, `proof` says how many.
    ProofReported = "proof.reported",
    /// The log's key was replaced; what follows is signed by the new one.
    LogKeyRotated = "log.key_rotated",
    /// The log goes on under another name, since under the old one it might contradict what it had signed.
    LogRecovered = "log.recovered",
    /// Nothing had happened for a while, and the log says that it lives.
    LogHeartbeat = "log.heartbeat",
    /// A witness refused the log's head, or knows a longer log: it was taken back or forked, or somebody signs with its key.
    WitnessDisagreed = "log.witness_disagreed",
    /// Too few witnesses have cosigned the log for a while; `count` says how many had.
    LogUnwitnessed = "log.unwitnessed",
    /// Enough witnesses have cosigned the log again.
    LogWitnessed = "log.witnessed",
    /// The store was opened by a process that will write to it.
    LogStarted = "log.start",
    /// A process that wrote to it ended as it was told to.
    LogStopped = "log.stop",
    /// A policy decides that is not the one the log names last.
    PolicyActivated = "policy.activated",
    /// Evidence was written out; `subject` says what, `count` how many events, `content_sha256` is that of the pack's list of files.
    AuditExported = "audit.exported",
    /// A value that an event commits to was shown.
    AuditDisclosed = "audit.disclosed",
    /// The openings of one person were destroyed, with their key; every proof stays good.
    PiiErased = "pii.erased",
    /// The bytes of old events were deleted, after a bundle of them was verified; their hashes stay.
    RetentionPruned = "retention.pruned",
    /// Events must not be pruned.
    RetentionHeld = "retention.held",
    /// They may be again.
    RetentionReleased = "retention.released",
    /// The clock was found behind the latest time in the store.
    ClockSteppedBack = "clock.stepped_back",
    /// The clock is past the latest time in the store again.
    ClockCaughtUp = "clock.caught_up",
    /// An operator accepted the clock, though later times were written down.
    ClockAccepted = "clock.accepted",
}
