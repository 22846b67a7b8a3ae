//! One event: a closed record, its fields typed, so that what must never be in a log has no place to stand in.

use serde::{Deserialize, Serialize};

use crate::domain::digest::Digest;
use crate::domain::draft::Resource;
use crate::domain::id::{EventId, RequestId, WriterId};
use crate::domain::money::Money;
use crate::domain::name::{CaseId, OperationName, TenantId};
use crate::domain::policy::PolicyRef;
use crate::domain::time::Timestamp;

use super::disclosure::Sensitive;
use super::kind::EventKind;
use super::parts::{
    ApprovalPart, AttemptPart, ChangePart, ClockPart, CredentialPart, DraftPart, ExecutionPart, LogPart, PolicyPart, ProofPart,
    ProviderPart,
};
use super::privacy::{DisclosedPart, ErasedPart, HoldPart, PrunedPart};
use super::stop::StopPart;

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A registered client, authenticated.
    Client,
    /// A person, by a signature or at the operator's console.
    Person,
    /// A rule of the policy.
    Rule,
    /// The program itself: a sweep, a resumed execution.
    System,
    /// Nobody that could be authenticated.
    Anonymous,
}

impl ActorKind {
    /// The kind as written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Person => "person",
            Self::Rule => "rule",
            Self::System => "system",
            Self::Anonymous => "anonymous",
        }
    }
}

/// Who did it, always authenticated or `anonymous`; never what a request says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The kind.
    pub kind: ActorKind,
    /// The id within the kind.
    pub id: String,
}

impl Actor {
    /// An actor of this kind and id.
    #[must_use]
    pub fn new(kind: ActorKind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }

    /// The program itself, named by the part that acts.
    #[must_use]
    pub fn system(part: &str) -> Self {
        Self::new(ActorKind::System, part)
    }
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventOutcome {
    /// As asked.
    Ok,
    /// Refused.
    Denied,
    /// It was tried and certainly failed.
    Failed,
    /// It was tried and nobody knows yet.
    Unknown,
}

impl EventOutcome {
    /// The outcome that is written so; `None` if there is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|outcome| outcome.as_str() == text)
    }

    /// Every outcome.
    pub const ALL: &'static [Self] = &[Self::Ok, Self::Denied, Self::Failed, Self::Unknown];

    /// The outcome as written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// Everything of an event that its writer knows; the store adds the number, the id and the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventBody {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// Who did it.
    pub actor: Actor,
    /// How it ended.
    pub outcome: EventOutcome,
    /// A stable code for a denial, a failure or a reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The HTTP request that led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The support case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case_id: Option<CaseId>,
    /// The operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationName>,
    /// What it touches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// How much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<Money>,
    /// Which draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftPart>,
    /// What the policy said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyPart>,
    /// The policy that came into force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activated: Option<PolicyRef>,
    /// Which approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPart>,
    /// Which credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialPart>,
    /// Which execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionPart>,
    /// Which attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptPart>,
    /// What the backend said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderPart>,
    /// The stop that was placed or lifted, or that stands in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopPart>,
    /// Whom an administrative event is about: a client, an approver, a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How many calls the event stands for, where it is not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What a prover found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofPart>,
    /// SHA-256 of what an administrative event put in force, of the evidence a person gave, of what a read asked for, or of a prover's report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_sha256: Option<Digest>,
    /// The value that was shown to somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disclosed: Option<DisclosedPart>,
    /// Whose openings were destroyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased: Option<ErasedPart>,
    /// Which events lost their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<PrunedPart>,
    /// Which events must not be pruned, or may be again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldPart>,
    /// Values that the event commits to and does not hold.
    #[serde(skip)]
    pub sensitive: Vec<Sensitive>,
    /// The change of state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ChangePart>,
    /// What the clock said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockPart>,
    /// What changed about the log itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogPart>,
}

impl EventBody {
    /// An event of this kind by this actor that ended well; the other fields are filled in by struct update.
    #[must_use]
    pub fn new(kind: EventKind, actor: Actor) -> Self {
        Self {
            kind,
            actor,
            outcome: EventOutcome::Ok,
            code: None,
            request_id: None,
            tenant: None,
            case_id: None,
            operation: None,
            resource: None,
            amount: None,
            draft: None,
            policy: None,
            activated: None,
            approval: None,
            credential: None,
            execution: None,
            attempt: None,
            provider: None,
            stop: None,
            subject: None,
            count: None,
            proof: None,
            content_sha256: None,
            disclosed: None,
            erased: None,
            pruned: None,
            hold: None,
            sensitive: Vec::new(),
            state: None,
            clock: None,
            log: None,
        }
    }

    /// The same event, ended as a denial with this code.
    #[must_use]
    pub fn denied(self, code: impl Into<String>) -> Self {
        Self {
            outcome: EventOutcome::Denied,
            code: Some(code.into()),
            ..self
        }
    }
}

/// Which process wrote it, and which of that process's events it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WriterPart {
    /// The process, named anew at each start.
    pub id: WriterId,
    /// Its events are numbered from 0, without gaps.
    pub n: u64,
}

/// The event's place among those of its case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CasePlace {
    /// From 1, without gaps.
    pub n: u64,
    /// The leaf hash of the case's event before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
}

/// A whole event, as its canonical bytes are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The version of this object, [`Event::VERSION`].
    pub v: u8,
    /// Its place in the log, from 0, without gaps.
    pub seq: u64,
    /// Its id.
    pub id: EventId,
    /// When it was written, by the store's clock; order is `seq`, not time.
    pub time: Timestamp,
    /// The name of the log.
    pub origin: String,
    /// Who wrote it.
    pub writer: WriterPart,
    /// Its place in its case, if it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<CasePlace>,
    /// The members that were kept back, since they had the form of something that must not be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<&'static str>,
    /// The commitments to values that are not written, sorted; how they were hashed is [`Event::sd_alg`].
    #[serde(rename = "_sd", skip_serializing_if = "Vec::is_empty")]
    pub sd: Vec<Digest>,
    /// How they were hashed, as RFC 9901 names it.
    #[serde(rename = "_sd_alg", skip_serializing_if = "Option::is_none")]
    pub sd_alg: Option<&'static str>,
    /// The rest.
    #[serde(flatten)]
    pub body: EventBody,
}

impl Event {
    /// The version that is written now. 1 had no `origin`, `writer` and `case`.
    pub const VERSION: u8 = 2;
}
