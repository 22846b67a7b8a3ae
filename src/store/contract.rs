//! The contract every store keeps: transitions, not rows.
//!
//! * A transition is one atomic step: its guards, the state it changes, its operation record and its audit event. Whoever loses a guard
//!   gets a [`super::Rejection`] and has written nothing.
//! * Time is the store's own clock, read inside the step: a deadline that passes while the step waits its turn has passed.
//! * Every transition carries an operation id, made once per intent. The same id with the same input gives the first result again
//!   (`replayed`); with another input it is refused. [`Store::outcome_of`] answers "applied" or cancels the id for ever.
//! * Only [`StoreError::Ambiguous`] leaves the caller in doubt; then the same operation is repeated or `outcome_of` is asked. A proxy never
//!   calls a backend on anything but a definite, first [`Applied`].

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::backlog::Backlog;
use super::error::{Busy, StoreError};
use super::health::{Health, WitnessState};
use super::intent::{
    Abort, AcceptClock, CaseFilter, ClockAccepted, Close, Decide, Dispatch, DraftFilter, EventMarks, HandOff, HandoffFilter, Issue, Known,
    LookUp, NewDraft, Proposed, Receive, Received, Redeem, Redeemed, Resolve, Settle, TakeOver, Vote,
};
use super::log::{Consistency, EventPage, EventQuery, EventRef, Inclusion, ProvenEvent, Tile};
use super::record::{
    ApprovalRecord, ApproverEntry, CaseStanding, ClientEntry, CredentialRecord, DraftRecord, ExecutionRecord, StoredEvent, Swept,
};
use super::stop::{LiftStop, PlaceStop, RevokeApproval, RevokeCredential, RevokedApproval, StopFilter, StopRecord, StopStanding};
use super::tally::Tally;
use crate::audit::tree::Hash;
use crate::audit::{Actor, EventBody, SignedHead};
use crate::domain::client_certificate::ClientCertificate;
use crate::domain::digest::Digest;
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, OperationId, RequestId, StopId};
use crate::domain::name::{ClientId, KeyId, PrincipalId, TenantId};
use crate::domain::policy::PolicyRef;
use crate::domain::principal::{ApproverKey, Authority, Permission};

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

    /// Keeps what came of an attempt after somebody else took over: evidence beside the look-ups, and no change of state.
    async fn late_answer(&self, op: Op, settle: Settle) -> Result<Applied<()>, StoreError>;

    /// Records what a look-up found.
    async fn look_up(&self, op: Op, look_up: LookUp) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `execution.hand_off`.
    async fn hand_off(&self, op: Op, hand_off: HandOff) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `execution.resolve_applied` or `execution.resolve_not_applied`.
    async fn resolve(&self, op: Op, resolve: Resolve) -> Result<Applied<ExecutionRecord>, StoreError>;

    /// `stop.place`: from its commit on nothing that the stop covers is issued, spent or sent. What is in flight is listed in the same step.
    async fn place_stop(&self, op: Op, place: PlaceStop) -> Result<Applied<StopStanding>, StoreError>;

    /// `stop.lift`; one that has ended stays as it ended.
    async fn lift_stop(&self, op: Op, lift: LiftStop) -> Result<Applied<StopRecord>, StoreError>;

    /// `approval.revoke`, with `draft.revoke`, `credential.revoke` and `execution.abort` as far as nothing was sent; what was sent is not sent
    /// again. Refused once the outcome is final.
    async fn revoke_approval(&self, op: Op, revoke: RevokeApproval) -> Result<Applied<RevokedApproval>, StoreError>;

    /// `credential.revoke`; one that is spent or ended stays as it is.
    async fn revoke_credential(&self, op: Op, revoke: RevokeCredential) -> Result<Applied<CredentialRecord>, StoreError>;

    /// Writes a backend's event down, once: the same again writes nothing, the same id with other content is rejected.
    async fn receive(&self, op: Op, receive: Receive) -> Result<Applied<Received>, StoreError>;

    /// Takes this process's clock for right, though later times are written down: the only way back after a clock that had run far ahead.
    /// What was begun by those times ends. Refused unless the clock is behind, and unless the caller names the latest time.
    async fn accept_clock(&self, op: Op, accept: AcceptClock) -> Result<Applied<ClockAccepted>, StoreError>;

    /// `policy.activated`: writes down which policy decides from here on, unless the log names it last; gives whether it was written.
    async fn activate_policy(&self, op: Op, policy: PolicyRef) -> Result<Applied<bool>, StoreError>;

    /// Writes an event that changes no state: a denial, a read.
    async fn note(&self, op: Op, event: EventBody) -> Result<Applied<()>, StoreError>;

    /// Ends what is past its time: drafts, their cards, credentials. Only tidies: every guard compares the time itself.
    async fn sweep(&self, op: Op, limit: u32) -> Result<Applied<Swept>, StoreError>;

    /// Registers a client.
    async fn add_client(&self, op: Op, entry: ClientEntry) -> Result<Applied<()>, StoreError>;

    /// Replaces a client's secret.
    async fn replace_secret(&self, op: Op, client: ClientId, secret_sha256: Digest) -> Result<Applied<()>, StoreError>;

    /// Replaces the certificate that a client must show beside its secret; with none its secret is enough. One that another client has is refused.
    async fn replace_certificate(
        &self,
        op: Op,
        client: ClientId,
        certificate: Option<ClientCertificate>,
    ) -> Result<Applied<()>, StoreError>;

    /// Replaces everything that a client may do; nobody who is unknown or revoked gets any. It counts from the client's next call.
    async fn replace_permissions(&self, op: Op, client: ClientId, permissions: Vec<Permission>) -> Result<Applied<()>, StoreError>;

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
    async fn busy_resource(&self, draft: DraftId) -> Result<Option<Busy>, StoreError>;

    /// Drafts in the order of their ids.
    async fn drafts(&self, filter: DraftFilter) -> Result<Vec<DraftRecord>, StoreError>;

    /// How a support case stands as a whole, as far as its drafts are those that are asked for.
    async fn case_standing(&self, of: CaseFilter) -> Result<CaseStanding, StoreError>;

    /// The card a record answers.
    async fn approval(&self, id: ApprovalId) -> Result<Option<(DraftId, ApprovalRecord)>, StoreError>;

    /// A credential.
    async fn credential(&self, id: CredentialId) -> Result<Option<CredentialRecord>, StoreError>;

    /// Every credential that was issued for a draft, oldest first.
    async fn credentials(&self, draft: DraftId) -> Result<Vec<CredentialRecord>, StoreError>;

    /// Whether a credential could be redeemed now, but for another execution on the same resource.
    async fn is_usable(&self, credential: CredentialId) -> Result<bool, StoreError>;

    /// A stop with what is in flight within its scope. A tenant sees what concerns it, and of what is in flight its own.
    async fn stop(&self, id: StopId, viewer: Option<TenantId>) -> Result<Option<StopStanding>, StoreError>;

    /// The stops that are in force, or all of them, in the order of their ids.
    async fn stops(&self, filter: StopFilter) -> Result<Vec<StopRecord>, StoreError>;

    /// An execution.
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRecord>, StoreError>;

    /// The execution of a draft.
    async fn execution_of(&self, draft: DraftId) -> Result<Option<ExecutionRecord>, StoreError>;

    /// The execution that an event's marks name.
    async fn marked(&self, marks: EventMarks) -> Result<Option<ExecutionRecord>, StoreError>;

    /// Executions whose outcome is open and whose lease ran out, or whose next action is due, or that an event waits for; oldest first.
    async fn due(&self, limit: u32) -> Result<Vec<ExecutionRecord>, StoreError>;

    /// Executions that were handed to a person, in the order of their ids.
    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<ExecutionRecord>, StoreError>;

    /// A client, revoked ones included.
    async fn client(&self, id: &ClientId) -> Result<Option<ClientEntry>, StoreError>;

    /// The clients, revoked ones included, that are registered with one of these certificates.
    async fn certificate_holders(&self, certificates: Vec<ClientCertificate>) -> Result<Vec<ClientId>, StoreError>;

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

    /// The events that a query names, with the latest head.
    async fn search(&self, query: EventQuery) -> Result<EventPage, StoreError>;

    /// The latest signed head of the log; `None` of one that is empty.
    async fn head(&self) -> Result<Option<SignedHead>, StoreError>;

    /// An event with the proof that it is in the log. One that the tree does not prove is [`StoreError::Corrupt`]: the log was changed.
    async fn receipt(&self, of: EventRef) -> Result<Option<ProvenEvent>, StoreError>;

    /// The way from event `seq` to the root of the log of this size, or as it stands; `None` if there is no such event in it.
    async fn inclusion(&self, seq: u64, size: Option<u64>) -> Result<Option<Inclusion>, StoreError>;

    /// That the log of `new` events, or as it stands, begins with that of `old`; `None` if it had no such sizes in that order.
    async fn consistency(&self, old: u64, new: Option<u64>) -> Result<Option<Consistency>, StoreError>;

    /// The hashes of a tile; `None` if the log has not got all of them.
    async fn tile(&self, tile: Tile) -> Result<Option<Vec<Hash>>, StoreError>;

    /// Keeps a head of this log with what witnesses have put under it: the lines beneath it are replaced, and nothing else is. A head of another
    /// root than the one that is kept is [`StoreError::Corrupt`].
    async fn keep_cosigned(&self, head: SignedHead) -> Result<(), StoreError>;

    /// How witnesses stand to the log from here on, for [`Store::issue`] and [`Store::health`] of this handle.
    fn witnessed(&self, state: WitnessState);

    /// A beat: looks at the disk, the file and the clock, commits what the clock says, and puts down what waits beside the file; or says why it
    /// cannot. Called about once a second, so that a process whose clock is behind another's finds out soon.
    async fn probe(&self) -> Result<(), StoreError>;

    /// Copies the store to a new file, consistent and compact.
    async fn backup(&self, to: &Path) -> Result<(), StoreError>;

    /// How the store stands, from memory: as the last commit and the last beat found it.
    fn health(&self) -> Health;

    /// What waits, counted: for metrics and alarms.
    async fn backlog(&self) -> Result<Backlog, StoreError>;

    /// What this handle has counted of its own work since it was opened.
    fn tally(&self) -> Arc<Tally>;

    /// Changes whenever a transition took place in this process. Other processes' changes must be polled for.
    fn changes(&self) -> watch::Receiver<u64>;
}
