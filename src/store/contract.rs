//! The contract every store keeps: transitions, not rows.
//!
//! * A transition is one atomic step: its guards, the state it changes, its operation record and its audit event. Whoever loses a guard
//!   gets a [`Rejection`] and has written nothing.
//! * Time is the store's own clock, read inside the step: a deadline that passes while the step waits its turn has passed.
//! * Every transition carries an operation id, made once per intent. The same id with the same input gives the first result again
//!   (`replayed`); with another input it is refused. [`Store::outcome_of`] answers "applied" or cancels the id for ever.
//! * Only [`StoreError::Ambiguous`] leaves the caller in doubt; then the same operation is repeated or `outcome_of` is asked. A proxy never
//!   calls a backend on anything but a definite, first [`Applied`].

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::record::{
    ApprovalRecord, AttemptResult, CredentialRecord, DraftRecord, ExecutionRecord, ExecutionSummary, LookUpRecord, SignedRecord,
    StoredVerdict,
};
use crate::audit::{Actor, EventBody};
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::draft::{IdempotencyKey, Resource};
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, OperationId, RecordId, RequestId};
use crate::domain::lifecycle::{ApprovalState, CredentialState, DraftState, ExecutionState};
use crate::domain::money::Money;
use crate::domain::name::{Audience, BackendName, CaseId, ClientId, KeyId, OperationName, PrincipalId, TenantId};
use crate::domain::operation::Consequence;
use crate::domain::policy::{Answer, Requirement};
use crate::domain::principal::{Approver, ApproverKey, Authority, Client};
use crate::domain::time::Timestamp;

/// One intent to change the store.
#[derive(Debug, Clone)]
pub struct Op {
    /// Made once per intent and kept over retries.
    pub id: OperationId,
    /// Who wants it.
    pub actor: Actor,
    /// The HTTP request that led to it.
    pub request: Option<RequestId>,
}

/// A transition that took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied<T> {
    /// What it led to.
    pub value: T,
    /// The sequence number of its (last) event.
    pub seq: u64,
    /// Whether the operation id had been applied before and this is the first result again.
    pub replayed: bool,
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
    #[error("execution {execution} on the same resource is {state}")]
    ResourceBusy {
        /// The other execution.
        execution: ExecutionId,
        /// Where it stands.
        state: ExecutionState,
    },
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
    /// The operation id was used with other input.
    #[error("the operation id was used with other input")]
    OperationReused,
    /// The operation was cancelled by [`Store::outcome_of`].
    #[error("the operation was cancelled")]
    OperationCancelled,
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

/// What became of an operation whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationOutcome {
    /// It took place, with this event.
    Applied {
        /// The sequence number of its last event.
        seq: u64,
    },
    /// It did not take place and never will: its id is cancelled now.
    NeverApplied,
}

/// A draft to be stored.
#[derive(Debug, Clone, Serialize)]
pub struct NewDraft {
    /// Its id.
    pub id: DraftId,
    /// The tenant.
    pub tenant: TenantId,
    /// The client that makes it.
    pub maker: ClientId,
    /// The person answerable for the maker.
    pub owner: Option<PrincipalId>,
    /// The person whose wish it is.
    pub on_behalf_of: Option<PrincipalId>,
    /// The support case.
    pub case_id: Option<CaseId>,
    /// What is to be done.
    pub operation: OperationName,
    /// How far it reaches.
    pub consequence: Consequence,
    /// To what.
    pub resource: Resource,
    /// How much.
    pub amount: Option<Money>,
    /// The names of the fields a patch touches.
    pub fields: BTreeSet<String>,
    /// The customer it counts for, in the backend's words.
    pub subject: Option<String>,
    /// The backend.
    pub backend: BackendName,
    /// Hash over what makes two proposals the same: tenant, maker, operation, resource, parameters.
    pub content: Digest,
    /// The client's `Idempotency-Key`, with the hash of the request it came with.
    pub request_key: Option<(String, Digest)>,
    /// The canonical bytes.
    #[serde(skip)]
    pub document: Vec<u8>,
    /// Their hash.
    pub hash: DraftHash,
    /// The idempotency key.
    pub key: IdempotencyKey,
    /// The open draft of the same maker that this one replaces.
    pub supersedes: Option<DraftId>,
    /// First moment it can no longer be approved or executed.
    pub expires_at: Timestamp,
}

/// What makes a proposal one that came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The tenant.
    pub tenant: TenantId,
    /// The client that proposes.
    pub maker: ClientId,
    /// As [`NewDraft::content`].
    pub content: Digest,
    /// As [`NewDraft::request_key`].
    pub request_key: Option<(String, Digest)>,
}

/// What came of proposing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "as", content = "draft")]
pub enum Proposed {
    /// It is stored, with the count of recent drafts taken in the same step.
    Stored(Box<DraftRecord>),
    /// The same proposal is open, or its outcome is: here it is. Nothing was written.
    Open(Box<DraftRecord>),
}

/// The policy's answer about a proposed draft, and what follows.
#[derive(Debug, Clone, Serialize)]
pub struct Decide {
    /// The draft.
    pub draft: DraftId,
    /// The answer.
    pub verdict: StoredVerdict,
    /// What follows.
    pub then: Follow,
}

/// What follows from a policy's answer.
#[derive(Debug, Clone, Serialize)]
pub enum Follow {
    /// `auto_approve`: a rule signs.
    AutoApprove {
        /// The approval's id.
        approval: ApprovalId,
        /// Its nonce, which the record names.
        nonce: String,
        /// The rule's signed record.
        record: Box<SignedRecord>,
        /// First moment the grant can no longer be used.
        execute_by: Timestamp,
    },
    /// `hold`: a card opens.
    Hold {
        /// The approval's id.
        approval: ApprovalId,
        /// Its nonce.
        nonce: String,
        /// What must be signed.
        requirement: Requirement,
        /// First moment the card can no longer be answered.
        expires_at: Timestamp,
    },
    /// `deny`: it ends here.
    Deny {
        /// The rule's sentence.
        reason: String,
    },
}

/// How a draft ends without being executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum CloseAs {
    /// `withdraw`, by its maker.
    Withdrawn,
    /// `mark_stale`: what the approval was given for no longer holds.
    Stale,
}

/// A draft to be ended.
#[derive(Debug, Clone, Serialize)]
pub struct Close {
    /// The draft.
    pub draft: DraftId,
    /// How it ends.
    pub how: CloseAs,
    /// A stable code.
    pub code: String,
    /// Words for people.
    pub reason: Option<String>,
    /// What the policy in force says, where it is the policy that ends it.
    pub answer: Option<Answer>,
}

/// A verified record to be counted.
#[derive(Debug, Clone, Serialize)]
pub struct Vote {
    /// The draft.
    pub draft: DraftId,
    /// The hash the record is for.
    pub hash: DraftHash,
    /// The card's nonce the record names.
    pub nonce: String,
    /// The record.
    pub record: SignedRecord,
    /// How long after the last signature the grant may be used; the record's own `execute_by` and the draft's expiry narrow it.
    pub window: Duration,
}

/// A credential to be issued.
#[derive(Debug, Clone, Serialize)]
pub struct Issue {
    /// Its id.
    pub credential: CredentialId,
    /// The draft.
    pub draft: DraftId,
    /// The hash everything was checked against.
    pub hash: DraftHash,
    /// For whom.
    pub audience: Audience,
    /// The id of the root key that signs it.
    pub root_key_id: u32,
    /// First moment it is good no longer; never later than the grant's `execute_by` or the draft's expiry.
    pub expires_at: Timestamp,
    /// The records that counted; none of their keys may have been revoked meanwhile.
    pub records: Vec<RecordId>,
    /// What the policy in force said of them.
    pub answer: Answer,
}

/// A verified credential to be spent.
#[derive(Debug, Clone, Serialize)]
pub struct Redeem {
    /// The credential.
    pub credential: CredentialId,
    /// The approval it was given for, from the signed grant.
    pub approval: ApprovalId,
    /// The draft.
    pub draft: DraftId,
    /// The hash, from the signed grant.
    pub hash: DraftHash,
    /// The audience, from the signed grant.
    pub audience: Audience,
    /// The id a new execution gets.
    pub execution: ExecutionId,
    /// The proxy that takes it.
    pub holder: String,
    /// How long nobody else may take it.
    pub lease: Duration,
}

/// What came of redeeming.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "as", content = "execution")]
pub enum Redeemed {
    /// The credential is spent, the draft consumed, the execution the caller's.
    Claimed(Box<ExecutionRecord>),
    /// This draft was executed before: here is what is known. Nothing was written.
    Already(Box<ExecutionRecord>),
}

/// An execution whose lease ran out, to be taken over. `claimed` is reclaimed; `dispatched` loses track; in `pending` and the other
/// unresolved states only the lease changes hands.
#[derive(Debug, Clone, Serialize)]
pub struct TakeOver {
    /// The execution.
    pub execution: ExecutionId,
    /// The fencing token that was seen.
    pub fence: u64,
    /// The proxy that takes it.
    pub holder: String,
    /// How long nobody else may take it.
    pub lease: Duration,
}

/// What follows an abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AfterAbort {
    /// The draft is approved again, and may be exchanged again.
    Release,
    /// The draft is stale: what was approved no longer holds.
    Stale,
}

/// A claimed execution to be given up; nothing was sent.
#[derive(Debug, Clone, Serialize)]
pub struct Abort {
    /// The execution.
    pub execution: ExecutionId,
    /// The holder's fencing token.
    pub fence: u64,
    /// A stable code.
    pub code: String,
    /// What follows.
    pub then: AfterAbort,
}

/// An attempt to be written down before it is sent. From `claimed` it is `dispatch`, from `indeterminate` it is `resend`.
#[derive(Debug, Clone, Serialize)]
pub struct Dispatch {
    /// The execution.
    pub execution: ExecutionId,
    /// The holder's fencing token.
    pub fence: u64,
    /// SHA-256 of the body that will be sent.
    pub request_sha256: Digest,
    /// How long the holder keeps the lease from now.
    pub lease: Duration,
    /// The adapter's window minus its safety: bounds every later send, counted from the first.
    pub send_window: Duration,
}

/// What an attempt's answer amounts to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Settled {
    /// `confirm_applied`.
    Applied {
        /// The backend's own id of what it made.
        reference: Option<String>,
    },
    /// `confirm_pending`.
    Pending {
        /// The backend's own id of what it made.
        reference: Option<String>,
    },
    /// `confirm_not_applied`: the answer proves it, and no earlier attempt is in doubt.
    NotApplied {
        /// A stable code.
        code: String,
    },
    /// `lose_track`.
    Indeterminate {
        /// A stable code.
        code: String,
    },
}

/// An attempt's outcome to be recorded.
#[derive(Debug, Clone, Serialize)]
pub struct Settle {
    /// The execution.
    pub execution: ExecutionId,
    /// The holder's fencing token.
    pub fence: u64,
    /// The attempt.
    pub attempt: u32,
    /// What it amounts to.
    pub settled: Settled,
    /// What came back.
    pub result: AttemptResult,
    /// When the sweep should look at it next, if it is not over.
    pub next_action_at: Option<Timestamp>,
    /// Whether the holder keeps the lease, to go on at once.
    pub lease: Option<Duration>,
}

/// A look-up's result to be recorded.
#[derive(Debug, Clone, Serialize)]
pub struct LookUp {
    /// The execution.
    pub execution: ExecutionId,
    /// The holder's fencing token.
    pub fence: u64,
    /// What was found. [`Settled::Indeterminate`] changes no state.
    pub settled: Settled,
    /// What came back.
    pub result: LookUpRecord,
    /// When the sweep should look at it next, if it is not over.
    pub next_action_at: Option<Timestamp>,
}

/// An execution to be handed to a person.
#[derive(Debug, Clone, Serialize)]
pub struct HandOff {
    /// The execution.
    pub execution: ExecutionId,
    /// The holder's fencing token.
    pub fence: u64,
    /// A stable code.
    pub code: String,
}

/// What a person found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Resolution {
    /// It was done.
    Applied,
    /// It was not done.
    NotApplied,
}

/// An execution to be resolved by a person.
#[derive(Debug, Clone, Serialize)]
pub struct Resolve {
    /// The execution.
    pub execution: ExecutionId,
    /// What they found out.
    pub resolution: Resolution,
    /// How they know.
    pub evidence: String,
    /// The backend's own id, if they found it.
    pub reference: Option<String>,
}

/// An execution that the backend later said had failed.
#[derive(Debug, Clone, Serialize)]
pub struct Reopen {
    /// The execution.
    pub execution: ExecutionId,
    /// A stable code.
    pub code: String,
}

/// Which drafts to list; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftFilter {
    /// The tenant.
    pub tenant: Option<TenantId>,
    /// The client that made them.
    pub maker: Option<ClientId>,
    /// The state.
    pub state: Option<DraftState>,
    /// The support case.
    pub case_id: Option<CaseId>,
    /// The resource, as `type:id`.
    pub resource: Option<String>,
    /// Only drafts after this one, in the order of their ids.
    pub after: Option<DraftId>,
    /// At most this many.
    pub limit: u32,
}

/// A registered client and the hash of its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientEntry {
    /// The client.
    pub client: Client,
    /// SHA-256 of its secret. The secret is 256 random bits, so nothing slower is needed.
    pub secret_sha256: Digest,
}

/// An approver and their keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApproverEntry {
    /// The approver.
    pub approver: Approver,
    /// Their keys, revoked ones included.
    pub keys: Vec<ApproverKey>,
}

/// One stored event: its number and its exact bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place in the log, from 0.
    pub seq: u64,
    /// The canonical bytes.
    pub bytes: Vec<u8>,
}

/// How many things a sweep ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Drafts expired, with their approvals.
    pub drafts: u32,
    /// Credentials lapsed.
    pub credentials: u32,
}

/// Where state is kept. See the module's documentation for what holds for every method.
#[async_trait]
pub trait Store: Send + Sync {
    /// `draft.propose`: stores a draft, counts the customer's recent ones, and supersedes the named one, in one step.
    ///
    /// The same maker's same content while open (or while its execution's outcome is) gives the open one back, as does the same
    /// `Idempotency-Key` with the same request.
    async fn propose(&self, op: Op, new: NewDraft) -> Result<Applied<Proposed>, StoreError>;

    /// `draft.auto_approve`, `draft.hold` or `draft.deny`, from `proposed`.
    async fn decide(&self, op: Op, decide: Decide) -> Result<Applied<DraftRecord>, StoreError>;

    /// `draft.withdraw` from any open state, or `draft.mark_stale` from `approved`; voids the approval and revokes an unspent credential.
    async fn close(&self, op: Op, close: Close) -> Result<Applied<DraftRecord>, StoreError>;

    /// Counts a signature. The first denial refuses the card; the signature that meets the requirement grants it: the first decision wins.
    async fn vote(&self, op: Op, vote: Vote) -> Result<Applied<DraftRecord>, StoreError>;

    /// `credential.issue`; revokes the draft's earlier unspent one. Refused while another execution on the same resource is unresolved.
    async fn issue(&self, op: Op, issue: Issue) -> Result<Applied<CredentialRecord>, StoreError>;

    /// `credential.redeem`, `draft.consume` and `execution.claim`: all three or none.
    async fn redeem(&self, op: Op, redeem: Redeem) -> Result<Applied<Redeemed>, StoreError>;

    /// Takes over an execution whose lease ran out.
    async fn take_over(&self, op: Op, take: TakeOver) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `execution.abort` and `draft.release` (and `draft.mark_stale`): nothing was sent.
    async fn abort(&self, op: Op, abort: Abort) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `execution.dispatch` or `execution.resend`: durable before the first byte leaves.
    async fn dispatch(&self, op: Op, dispatch: Dispatch) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// Records what came of an attempt.
    async fn settle(&self, op: Op, settle: Settle) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// Records what a look-up found.
    async fn look_up(&self, op: Op, look_up: LookUp) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `execution.hand_off`.
    async fn hand_off(&self, op: Op, hand_off: HandOff) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `execution.resolve_applied` or `execution.resolve_not_applied`.
    async fn resolve(&self, op: Op, resolve: Resolve) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `execution.reopen`.
    async fn reopen(&self, op: Op, reopen: Reopen) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// Writes an event that changes no state: a denial, a read.
    async fn note(&self, op: Op, event: EventBody) -> Result<Applied<()>, StoreError>;

    /// Ends what is past its time: drafts, their cards, credentials. Only tidies: every guard compares the time itself.
    async fn sweep(&self, op: Op, limit: u32) -> Result<Applied<Swept>, StoreError>;

    /// Registers a client.
    async fn add_client(&self, op: Op, entry: ClientEntry) -> Result<Applied<()>, StoreError>;

    /// Replaces a client's secret.
    async fn replace_secret(&self, op: Op, client: ClientId, secret_sha256: Digest) -> Result<Applied<()>, StoreError>;

    /// Revokes a client.
    async fn revoke_client(&self, op: Op, client: ClientId) -> Result<Applied<()>, StoreError>;

    /// Registers an approver, or adds keys and authority to one.
    async fn add_approver(&self, op: Op, entry: ApproverEntry) -> Result<Applied<()>, StoreError>;

    /// Replaces everything that an approver may decide; their keys stay. Nobody who is unknown or revoked gets any.
    ///
    /// What was signed and not yet exchanged is judged by the new authority: the exchange looks it up again.
    async fn replace_authority(&self, op: Op, approver: PrincipalId, authority: Vec<Authority>) -> Result<Applied<()>, StoreError>;

    /// Revokes an approver and all their keys.
    async fn revoke_approver(&self, op: Op, approver: PrincipalId) -> Result<Applied<()>, StoreError>;

    /// Revokes one key.
    async fn revoke_key(&self, op: Op, kid: KeyId) -> Result<Applied<()>, StoreError>;

    /// What became of an operation whose answer was lost; cancels it if it did not take place.
    async fn outcome_of(&self, op: OperationId) -> Result<OperationOutcome, StoreError>;

    /// A draft.
    async fn draft(&self, id: DraftId) -> Result<Option<DraftRecord>, StoreError>;

    /// A draft's canonical bytes, exactly as they were hashed.
    async fn draft_bytes(&self, id: DraftId) -> Result<Option<Vec<u8>>, StoreError>;

    /// The draft that [`Store::propose`] would answer as open, found without reading any backend. Rejected if the `Idempotency-Key` came with
    /// another request.
    async fn known_draft(&self, known: Known) -> Result<Option<DraftRecord>, StoreError>;

    /// The unresolved execution of another draft on the same resource of the same backend, whichever tenant made it.
    async fn busy_resource(&self, draft: DraftId) -> Result<Option<ExecutionSummary>, StoreError>;

    /// Drafts in the order of their ids.
    async fn drafts(&self, filter: DraftFilter) -> Result<Vec<DraftRecord>, StoreError>;

    /// The card a record answers.
    async fn approval(&self, id: ApprovalId) -> Result<Option<(DraftId, ApprovalRecord)>, StoreError>;

    /// A credential.
    async fn credential(&self, id: CredentialId) -> Result<Option<CredentialRecord>, StoreError>;

    /// An execution.
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRecord>, StoreError>;

    /// The execution of a draft.
    async fn execution_of(&self, draft: DraftId) -> Result<Option<ExecutionRecord>, StoreError>;

    /// Executions whose outcome is open and whose lease ran out, or whose next action is due; oldest first.
    async fn due(&self, limit: u32) -> Result<Vec<ExecutionRecord>, StoreError>;

    /// A client, revoked ones included.
    async fn client(&self, id: &ClientId) -> Result<Option<ClientEntry>, StoreError>;

    /// Every client.
    async fn clients(&self) -> Result<Vec<ClientEntry>, StoreError>;

    /// An approver, revoked ones included.
    async fn approver(&self, id: &PrincipalId) -> Result<Option<ApproverEntry>, StoreError>;

    /// Every approver.
    async fn approvers(&self) -> Result<Vec<ApproverEntry>, StoreError>;

    /// An approver's key, revoked ones included.
    async fn approver_key(&self, kid: &KeyId) -> Result<Option<ApproverKey>, StoreError>;

    /// Events from `from` on, in order.
    async fn events(&self, from: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError>;

    /// Commits something, or says why it cannot.
    async fn probe(&self) -> Result<(), StoreError>;

    /// Copies the store to a new file, consistent and compact.
    async fn backup(&self, to: &Path) -> Result<(), StoreError>;

    /// Changes whenever a transition took place in this process. Other processes' changes must be polled for.
    fn changes(&self) -> watch::Receiver<u64>;
}
