//! What a store gives back: records as they stand after a transition.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::audit::{DraftPart, EventBody, ExecutionPart};
use crate::domain::approval::Decision;
use crate::domain::client_certificate::ClientCertificate;
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::draft::{IdempotencyKey, Resource};
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, RecordId, VerdictId};
use crate::domain::lifecycle::{ApprovalState, CredentialState, DraftState, ExecutionState};
use crate::domain::money::Money;
use crate::domain::name::{Audience, BackendName, CaseId, ClientId, KeyId, OperationName, PrincipalId, QueueName, TenantId};
use crate::domain::operation::Consequence;
use crate::domain::policy::{Answer, Requirement, Signature};
use crate::domain::principal::{Approver, ApproverKey, Client};
use crate::domain::secret::SecretsMark;
use crate::domain::time::Timestamp;

/// How a support case stands as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseStanding {
    /// How many drafts it has.
    pub steps: i64,
    /// Whether each of them is done or closed, or failed and made good by a later one.
    pub complete: bool,
}

/// A draft as it stands. Its document's bytes are read apart ([`super::Store::draft_bytes`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftRecord {
    /// Its id.
    pub id: DraftId,
    /// The tenant.
    pub tenant: TenantId,
    /// The client that made it.
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
    /// The hash of its bytes.
    pub hash: DraftHash,
    /// Its idempotency key.
    pub key: IdempotencyKey,
    /// Where it stands.
    pub state: DraftState,
    /// How many drafts of this operation for the same customer counted in the last 24 hours when it was stored, this one included.
    pub recent: u64,
    /// The draft it replaces.
    pub supersedes: Option<DraftId>,
    /// What the policy said; absent while `proposed`.
    pub verdict: Option<StoredVerdict>,
    /// The approval, once there is one.
    pub approval: Option<ApprovalRecord>,
    /// Why it ended, if it ended without being executed.
    pub closed: Option<Closing>,
    /// Its execution, if there is one.
    pub execution: Option<ExecutionSummary>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// First moment it can no longer be approved or executed.
    pub expires_at: Timestamp,
    /// When its state last changed.
    pub changed_at: Timestamp,
}

impl DraftRecord {
    /// The event, told of this draft.
    #[must_use]
    pub fn tell(&self, event: EventBody) -> EventBody {
        EventBody {
            tenant: Some(self.tenant.clone()),
            case_id: self.case_id.clone(),
            operation: Some(self.operation.clone()),
            resource: Some(self.resource.clone()),
            amount: self.amount,
            draft: Some(DraftPart {
                id: self.id,
                hash: self.hash,
            }),
            ..event
        }
    }
}

/// A policy's answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredVerdict {
    /// Its id.
    pub id: VerdictId,
    /// The answer.
    pub answer: Answer,
}

/// Why a draft ended without being executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// A stable code.
    pub code: String,
    /// The words of the person or the rule.
    pub reason: Option<String>,
    /// Who ended it.
    pub by: String,
}

/// An approval as it stands, with its signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// Its id.
    pub id: ApprovalId,
    /// Where it stands.
    pub state: ApprovalState,
    /// The card's nonce: 16 random bytes in base64url. Shown only to those who hand in records.
    pub nonce: String,
    /// What must be signed.
    pub requirement: Requirement,
    /// When the card opened.
    pub requested_at: Timestamp,
    /// First moment the card can no longer be answered.
    pub expires_at: Timestamp,
    /// First moment the grant can no longer be exchanged or executed; absent until it is granted.
    pub execute_by: Option<Timestamp>,
    /// Who took it back after it was granted, and why.
    #[serde(default)]
    pub revocation: Option<Closing>,
    /// The records that came, oldest first.
    pub records: Vec<SignedRecord>,
}

impl ApprovalRecord {
    /// The approving signatures, as they counted when they came.
    #[must_use]
    pub fn signatures(&self) -> Vec<Signature> {
        self.records
            .iter()
            .filter(|r| r.decision == Decision::Approve)
            .map(SignedRecord::signature)
            .collect()
    }
}

/// One signed approval record, verified before it came here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedRecord {
    /// Its `jti`.
    pub id: RecordId,
    /// Who signed.
    pub approver: PrincipalId,
    /// With which key.
    pub kid: KeyId,
    /// Yes or no.
    pub decision: Decision,
    /// The approver's words.
    pub reason: Option<String>,
    /// The queues in which it counted when it came.
    pub queues: BTreeSet<QueueName>,
    /// Whether the approver had authenticated afresh.
    pub step_up: bool,
    /// The record's own bound on the execution, if it set one.
    pub execute_by: Option<Timestamp>,
    /// When it came.
    pub received_at: Timestamp,
    /// The record itself, JWS compact. Evidence, not a secret: it is good for one draft's one card.
    pub jws: String,
}

impl SignedRecord {
    /// The signature as it counted when the record came.
    #[must_use]
    pub fn signature(&self) -> Signature {
        Signature {
            approver: self.approver.clone(),
            queues: self.queues.clone(),
            step_up: self.step_up,
        }
    }
}

/// An execution in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionSummary {
    /// Its id.
    pub id: ExecutionId,
    /// Where it stands.
    pub state: ExecutionState,
    /// The backend's own id of what it made.
    pub reference: Option<String>,
}

/// A credential as it stands; the token itself is never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialRecord {
    /// Its id.
    pub id: CredentialId,
    /// The draft it is for.
    pub draft: DraftId,
    /// The approval it was given for; its bytes are the signed `jti`.
    pub approval: ApprovalId,
    /// The draft's hash.
    pub hash: DraftHash,
    /// For whom.
    pub audience: Audience,
    /// The id of the root key that signed it.
    pub root_key_id: u32,
    /// Where it stands.
    pub state: CredentialState,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// First moment it is good no longer.
    pub expires_at: Timestamp,
}

/// An execution as it stands, with its attempts and look-ups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionRecord {
    /// Its id.
    pub id: ExecutionId,
    /// The draft it executes.
    pub draft: DraftId,
    /// The draft's hash.
    pub hash: DraftHash,
    /// The tenant.
    pub tenant: TenantId,
    /// The client that made the draft.
    pub maker: ClientId,
    /// What is done.
    pub operation: OperationName,
    /// To what.
    pub resource: Resource,
    /// How much.
    pub amount: Option<Money>,
    /// The stored idempotency key.
    pub key: IdempotencyKey,
    /// The backend.
    pub backend: BackendName,
    /// The credential that was redeemed last.
    pub credential: CredentialId,
    /// Where it stands.
    pub state: ExecutionState,
    /// The fencing token: grows with every claim and take-over; a holder of an older one writes nothing.
    pub fence: u64,
    /// Which proxy has it.
    pub holder: String,
    /// Until when nobody else may take it.
    pub lease_until: Timestamp,
    /// When it was first claimed.
    pub claimed_at: Timestamp,
    /// When the first request was written down to be sent.
    pub first_sent_at: Option<Timestamp>,
    /// First moment nothing may be sent any more: first send plus window minus safety.
    pub send_until: Option<Timestamp>,
    /// When the sweep looks at it next.
    pub next_action_at: Option<Timestamp>,
    /// The backend's own id of what it made.
    pub reference: Option<String>,
    /// A stable code for why it ended or stands as it does.
    pub code: Option<String>,
    /// What an operator wrote when resolving it.
    pub evidence: Option<String>,
    /// When it was last handed to a person, and why; stays after it is resolved.
    #[serde(default)]
    pub handed_off: Option<HandedOff>,
    /// When its state last changed.
    pub changed_at: Timestamp,
    /// Every attempt, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// Every look-up, oldest first.
    pub lookups: Vec<LookUpRecord>,
    /// What the backend told about it by itself, in the order in which it came.
    #[serde(default)]
    pub events: Vec<EventRecord>,
}

impl ExecutionRecord {
    /// The event, told of this execution and its draft.
    #[must_use]
    pub fn tell(&self, event: EventBody) -> EventBody {
        EventBody {
            tenant: Some(self.tenant.clone()),
            operation: Some(self.operation.clone()),
            resource: Some(self.resource.clone()),
            amount: self.amount,
            draft: Some(DraftPart {
                id: self.draft,
                hash: self.hash,
            }),
            execution: Some(self.part()),
            ..event
        }
    }

    /// This execution, as an event names it.
    #[must_use]
    pub const fn part(&self) -> ExecutionPart {
        ExecutionPart {
            id: self.id,
            idempotency_key: self.key,
            fence: self.fence,
        }
    }

    /// The events because of which the backend is to be looked at now.
    #[must_use]
    pub fn told(&self, now: Timestamp) -> Vec<String> {
        let due = self.events.iter().filter(|event| event.look_at.is_some_and(|at| at <= now));
        due.map(|event| event.id.clone()).collect()
    }

    /// Whether an earlier attempt may have had its effect: one without a result, or with one that proves nothing.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.attempts.iter().any(AttemptRecord::is_in_doubt)
    }

    /// The first attempt that may have had its effect and is not known to have gone out with these secrets.
    #[must_use]
    pub fn sent_otherwise(&self, secrets: SecretsMark) -> Option<u32> {
        let mut otherwise = self.attempts.iter().filter(|a| a.secrets.is_none_or(|mark| mark != secrets));
        otherwise.find(|attempt| attempt.is_in_doubt()).map(|attempt| attempt.n)
    }
}

/// That an execution was handed to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOff {
    /// When.
    pub at: Timestamp,
    /// A stable code for why.
    pub code: String,
}

/// One attempt: written before it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Its number, from 1.
    pub n: u32,
    /// SHA-256 of the body that was to be sent.
    pub request_sha256: Digest,
    /// The secrets it was to go out with; not known of what an earlier version sent.
    pub secrets: Option<SecretsMark>,
    /// When it was written down.
    pub sent_at: Timestamp,
    /// What came of it; absent while nothing is known.
    pub result: Option<AttemptResult>,
}

impl AttemptRecord {
    /// Whether it may have had its effect, for all that its own answer says.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.result.as_ref().is_none_or(|result| !result.conclusive)
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// When it was recorded.
    pub at: Timestamp,
    /// `answer`, `not_sent` or `lost`, and for an answer what it was classified as.
    pub outcome: String,
    /// Whether it proves that this attempt had its effect or had none.
    pub conclusive: bool,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The adapter's rule that classified it.
    pub rule: Option<String>,
    /// SHA-256 of the answer's body.
    pub body_sha256: Option<Digest>,
}

/// One look-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookUpRecord {
    /// When it was recorded.
    pub at: Timestamp,
    /// The adapter's step.
    pub step: String,
    /// What it found: `applied`, `pending`, `not_applied` or `inconclusive`.
    pub finding: String,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// SHA-256 of the answer's body.
    pub body_sha256: Option<Digest>,
}

impl LookUpRecord {
    /// The step that looks at nothing but the attempts: each of them certainly had no effect.
    pub const BY_ATTEMPTS: &'static str = "attempts";
}

/// What a backend's event says became of a draft's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It stands.
    Applied,
    /// It is under way.
    Pending,
    /// It failed.
    Failed,
}

impl Said {
    /// The word used in the store and in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

/// What was made of a backend's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventFinding {
    /// It is about nothing that was executed here.
    NotOurs,
    /// It names a draft that was never executed.
    NotExecuted,
    /// It names a draft and does not say what the draft says.
    Disagrees,
    /// It cannot be judged: the backend's file has changed since the draft was made.
    AdapterChanged,
    /// It says what is known.
    Agrees,
    /// The backend is to be looked at because of it.
    Waits,
    /// Its own word counted.
    Believed,
    /// A look at the backend showed what it says.
    Confirmed,
    /// A look at the backend showed what came after it.
    Late,
    /// The backend never showed what it says.
    NotConfirmed,
    /// It says that something was done that is known as certainly not done; a person must look.
    Contradicts,
}

impl EventFinding {
    /// The word used in the store and in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotOurs => "not_ours",
            Self::NotExecuted => "not_executed",
            Self::Disagrees => "disagrees",
            Self::AdapterChanged => "adapter_changed",
            Self::Agrees => "agrees",
            Self::Waits => "waits",
            Self::Believed => "believed",
            Self::Confirmed => "confirmed",
            Self::Late => "late",
            Self::NotConfirmed => "not_confirmed",
            Self::Contradicts => "contradicts",
        }
    }
}

/// One event of the backend's about an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// The backend's own id of it.
    pub id: String,
    /// Its type, in the backend's words.
    pub kind: String,
    /// When it came.
    pub at: Timestamp,
    /// What it says, if it agrees with the draft.
    pub said: Option<Said>,
    /// The backend's own id of what was made, as the event has it.
    pub reference: Option<String>,
    /// What was made of it.
    pub finding: EventFinding,
    /// When the backend is to be looked at because of it; absent once that is over.
    pub look_at: Option<Timestamp>,
}

/// A registered client and the hash of its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientEntry {
    /// The client.
    pub client: Client,
    /// SHA-256 of its secret. The secret is 256 random bits, so nothing slower is needed.
    pub secret_sha256: Digest,
    /// The certificate it must show beside its secret, if one is registered.
    pub certificate: Option<ClientCertificate>,
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
