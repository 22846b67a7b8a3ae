//! What a store is asked for: the input of each transition, and what came of it where that is more than a record.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{AttemptResult, DraftRecord, EventFinding, ExecutionRecord, LookUpRecord, Said, SignedRecord, StoredVerdict};
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::draft::{IdempotencyKey, Resource};
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, RecordId};
use crate::domain::lifecycle::DraftState;
use crate::domain::money::Money;
use crate::domain::name::{Audience, BackendName, CaseId, ClientId, OperationName, PrincipalId, TenantId};
use crate::domain::operation::Consequence;
use crate::domain::policy::{Answer, Requirement};
use crate::domain::secret::SecretsMark;
use crate::domain::time::Timestamp;

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
    /// The secrets it goes out with, and whatever is read of it.
    pub secrets: SecretsMark,
    /// How long the holder keeps the lease from now.
    pub lease: Duration,
    /// The adapter's window minus its safety: bounds every later send, counted from the first.
    pub send_window: Duration,
}

/// What an attempt's answer amounts to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// The backend's events that were waiting for a look when this one began.
    pub events: Vec<String>,
}

/// What an event that agrees with its draft is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Weight {
    /// A look at the backend; only what that shows counts.
    Look,
    /// Its own word counts.
    Word,
}

/// What a backend's event is about.
#[derive(Debug, Clone, Serialize)]
pub enum About {
    /// Nothing that changes anything.
    Nothing {
        /// Why.
        finding: EventFinding,
        /// The execution it names, if it names one.
        execution: Option<ExecutionId>,
    },
    /// An execution, with whose draft it agrees.
    Execution {
        /// The execution.
        execution: ExecutionId,
        /// What it says.
        said: Said,
        /// The backend's own id of what was made.
        reference: Option<String>,
        /// The backend file's rule.
        rule: String,
        /// What it is good for.
        weight: Weight,
    },
}

/// A backend's event, signed by it, to be written down.
#[derive(Debug, Clone, Serialize)]
pub struct Receive {
    /// The backend.
    pub backend: BackendName,
    /// The backend's own id of it.
    pub event: String,
    /// Its type, in the backend's words.
    pub kind: String,
    /// SHA-256 of its bytes.
    pub content: Digest,
    /// What it is about.
    pub about: About,
}

/// What came of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// What was made of it so far.
    pub finding: EventFinding,
    /// Whether it came for the first time; otherwise nothing was written.
    pub first: bool,
}

/// By what an event names an execution, the surest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventMarks {
    /// The backend.
    pub backend: BackendName,
    /// The draft.
    pub draft: Option<DraftId>,
    /// The idempotency key, as the event has it.
    pub key: Option<String>,
    /// The backend's own id of what was made.
    pub reference: Option<String>,
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

/// Whether a case waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// It waits.
    Open,
    /// It has an outcome.
    Closed,
}

/// Which executions that were handed to a person to list; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandoffFilter {
    /// The tenant.
    pub tenant: Option<TenantId>,
    /// Whether it waits.
    pub case: Option<Case>,
    /// The operation.
    pub operation: Option<OperationName>,
    /// The backend.
    pub backend: Option<BackendName>,
    /// The code for why it was handed off.
    pub code: Option<String>,
    /// The support case.
    pub case_id: Option<CaseId>,
    /// The resource, as `type:id`.
    pub resource: Option<String>,
    /// Only executions after this one, in the order of their ids.
    pub after: Option<ExecutionId>,
    /// At most this many.
    pub limit: u32,
}

/// A clock to be taken for right, though later times are written down.
#[derive(Debug, Clone, Serialize)]
pub struct AcceptClock {
    /// The latest time in the store, as whoever asks has seen it.
    pub latest: Timestamp,
}

/// What ended because it was begun by times that have not come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockAccepted {
    /// Drafts, with their approvals.
    pub drafts: u32,
    /// Unspent credentials.
    pub credentials: u32,
    /// Executions that were claimed and not sent.
    pub executions: u32,
    /// Stops that had lapsed by the wrong times and are in force again, as new ones.
    #[serde(default)]
    pub stops: u32,
}

/// Which drafts of a support case count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseFilter {
    /// The case.
    pub case_id: CaseId,
    /// The tenant.
    pub tenant: TenantId,
    /// The client that made them, if only its own count.
    pub maker: Option<ClientId>,
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
