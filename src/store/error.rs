//! Why a transition has no result.

use crate::audit::scan::Hit;
use crate::domain::id::{ExecutionId, OperationId, RecordId, StopId};
use crate::domain::lifecycle::{ApprovalState, CredentialState, DraftState, ExecutionState};
use crate::domain::name::{ClientId, KeyId, PrincipalId};
use crate::domain::time::Timestamp;
use crate::store::health::Pause;

/// The execution that keeps a resource busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The execution; which one is not told if it is another tenant's.
    pub execution: Option<ExecutionId>,
    /// Where it stands.
    pub state: ExecutionState,
}

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.execution {
            Some(execution) => write!(f, "execution {execution} on the same resource is {}", self.state),
            None => write!(f, "another tenant's execution on the same resource is {}", self.state),
        }
    }
}

/// Why a transition did not take place, for certain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// There is no such thing, or it is another tenant's.
    #[error("not found")]
    NotFound,
    /// The draft is not in a state this can start from.
    #[error("the draft is {0}")]
    DraftIs(DraftState),
    /// The approval is not in a state this can start from.
    #[error("the approval is {0}")]
    ApprovalIs(ApprovalState),
    /// The credential is not in a state this can start from.
    #[error("the credential is {0}")]
    CredentialIs(CredentialState),
    /// The execution is not in a state this can start from.
    #[error("the execution is {0}")]
    ExecutionIs(ExecutionState),
    /// The draft's time is over.
    #[error("the draft expired at {0}")]
    DraftExpired(Timestamp),
    /// The card's time is over.
    #[error("the approval request expired at {0}")]
    ApprovalExpired(Timestamp),
    /// The execution window after the approval is over.
    #[error("the approval could be used until {0}")]
    WindowExpired(Timestamp),
    /// The credential's time is over.
    #[error("the credential expired at {0}")]
    CredentialExpired(Timestamp),
    /// The backend would no longer recognise the key: nothing may be sent any more.
    #[error("the idempotency key was good for sending until {0}")]
    SendWindowClosed(Timestamp),
    /// The hash is not the stored draft's.
    #[error("the hash is not the stored draft's")]
    HashMismatch,
    /// The nonce is not the card's.
    #[error("the nonce is not this approval request's")]
    NonceMismatch,
    /// The signed grant is not the stored credential's.
    #[error("the grant is not the stored credential's")]
    GrantMismatch,
    /// The approver made the draft, owns its maker, or is the one it is for.
    #[error("{0} cannot approve this draft: they made it, own its maker, or it is for them")]
    SelfApproval(PrincipalId),
    /// The approver has answered this card before.
    #[error("{0} has already answered this approval request")]
    AlreadyAnswered(PrincipalId),
    /// A record with this id was used for something else.
    #[error("the record {0} was used before")]
    RecordReused(RecordId),
    /// The key that signed a record that counts is revoked.
    #[error("the key {0} is revoked")]
    KeyRevoked(KeyId),
    /// The client that made the draft is revoked.
    #[error("the client {0} is revoked")]
    ClientRevoked(ClientId),
    /// Another execution on the same resource has no known outcome.
    #[error("{0}")]
    ResourceBusy(Busy),
    /// A stop covers it.
    #[error("stop {0} covers it")]
    Stopped(StopId),
    /// The stop's time would be over before it begins.
    #[error("the stop would have ended at {0}")]
    StopEnded(Timestamp),
    /// Somebody else has taken over since: the lease or fencing token is not the current one.
    #[error("the lease was lost: fencing token {given}, now {current}")]
    Fenced {
        /// What the caller holds.
        given: u64,
        /// What is current.
        current: u64,
    },
    /// Somebody else still has it.
    #[error("the lease runs until {0}")]
    Leased(Timestamp),
    /// This or an earlier attempt may have had its effect, so no answer to this one proves that nothing was done.
    #[error("attempt {0} may have had its effect")]
    AttemptInDoubt(u32),
    /// The client's `Idempotency-Key` was used with another request.
    #[error("the Idempotency-Key was used with another request")]
    RequestKeyReused,
    /// An attempt that may have had its effect went out with other secrets: under these the backend need not know its key.
    #[error("attempt {0} may have had its effect and went out with other secrets")]
    SecretsChanged(u32),
    /// The backend's event came before with other content.
    #[error("event {0} came before with other content")]
    EventReused(String),
    /// The operation id was used with other input.
    #[error("the operation id was used with other input")]
    OperationReused,
    /// The operation was cancelled by [`super::Store::outcome_of`].
    #[error("the operation was cancelled")]
    OperationCancelled,
    /// The latest time in the store is another than the one that was named.
    #[error("the latest time in the store is {0}")]
    LatestIs(Timestamp),
    /// The clock is not behind the latest time in the store.
    #[error("the clock is not behind the latest time in the store, {0}")]
    ClockNotBehind(Timestamp),
    /// The opening of that event's value was erased.
    #[error("the value of event {0} was erased, and nobody can show it any more")]
    Erased(u64),
    /// The key that people's keys are kept under is not there.
    #[error(
        "audit-subjects.key is missing, so that nobody can tell what the log commits to about anybody: put it back beside the log's key; if there never was one, `writ keys generate --subjects` makes it, for what comes from then on"
    )]
    NoSubjectsKey,
    /// A hold covers events that were to be pruned.
    #[error("hold {0} covers some of the events; release it first, or prune less")]
    Held(u64),
    /// There is nothing to prune there.
    #[error("the events from {0} to {1} can be pruned: what is older is gone, and the last event stays")]
    NotPrunable(u64, u64),
    /// An id has the form of something that must not be written down.
    #[error("the id has the form of {}, which is never kept: choose another", .0.what())]
    MustNotBeKept(Hit),
    /// The id is taken.
    #[error("{0} exists already")]
    Exists(String),
}

/// Why a transition has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It did not take place, and will not.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// It did not take place; it may be tried again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// It did not take place: nothing new begins now.
    #[error(transparent)]
    Paused(#[from] Pause),
    /// It may have taken place: repeat the same operation or ask for its outcome.
    #[error("the store did not say whether operation {op} took place: {why}")]
    Ambiguous {
        /// The operation.
        op: OperationId,
        /// What went wrong.
        why: String,
    },
    /// What is stored does not make sense; the process must stop.
    #[error("the store is corrupt: {0}")]
    Corrupt(String),
}
