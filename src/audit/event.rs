//! One event: a closed record, its fields typed, so that what must never be in a log has no place to stand in.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize, Serializer};

use crate::domain::approval::Decision;
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::draft::{IdempotencyKey, Resource};
use crate::domain::id::{ApprovalId, CredentialId, DraftId, EventId, ExecutionId, RecordId, RequestId, VerdictId, WriterId};
use crate::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};
use crate::domain::money::Money;
use crate::domain::name::{Audience, CaseId, KeyId, OperationName, PrincipalId, TenantId};
use crate::domain::policy::{Outcome, PolicyRef};
use crate::domain::time::Timestamp;

use super::disclosure::Sensitive;
use super::privacy::{DisclosedPart, ErasedPart, HoldPart, PrunedPart};
use super::stop::StopPart;

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

/// Which draft, by id and by the hash everything else is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DraftPart {
    /// Its id.
    pub id: DraftId,
    /// Its hash.
    pub hash: DraftHash,
}

/// What the policy said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyPart {
    /// The verdict's id.
    pub verdict_id: VerdictId,
    /// Which policy.
    #[serde(flatten)]
    pub policy: PolicyRef,
    /// Its answer.
    pub outcome: Outcome,
    /// The ids of the rules that decided.
    pub rules: Vec<String>,
}

/// Which approval, and whose signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApprovalPart {
    /// The approval.
    pub id: ApprovalId,
    /// The record, if one came with this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_id: Option<RecordId>,
    /// Who signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approver: Option<PrincipalId>,
    /// With which key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<KeyId>,
    /// Yes or no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// SHA-256 of the signed record; the record itself is kept beside the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_sha256: Option<Digest>,
    /// The approver's own signature, where the event is the one that counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion: Option<AssertionPart>,
}

/// An approver's signature as a JSON Web Signature (RFC 7515) has it: with the record, whose hash stands beside it, it verifies by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssertionPart {
    /// The algorithm, as the record's header names it.
    pub alg: &'static str,
    /// The key.
    pub kid: KeyId,
    /// The signature, base64url.
    pub sig: String,
    /// SHA-256 of what is signed: the record's header and payload with the dot between them.
    pub signed_hash: Digest,
}

impl AssertionPart {
    /// The longest signature of the algorithms that are accepted.
    const LONGEST: usize = 86;

    /// Of a record that was verified with this key; `None` if it is no compact JWS by an algorithm that counts.
    #[must_use]
    pub fn of(kid: &KeyId, jws: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Header {
            alg: String,
        }
        let (signed, sig) = jws.rsplit_once('.')?;
        let (header, _) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        let alg = ["ES256", "Ed25519", "EdDSA"].into_iter().find(|known| *known == header.alg)?;
        let fits = sig.len() <= Self::LONGEST && URL_SAFE_NO_PAD.decode(sig).is_ok();
        fits.then(|| Self {
            alg,
            kid: kid.clone(),
            sig: sig.to_owned(),
            signed_hash: Digest::of(signed.as_bytes()),
        })
    }
}

/// Which credential; never the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CredentialPart {
    /// Its id.
    pub id: CredentialId,
    /// The id of the root key that signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_key_id: Option<u32>,
    /// For whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    /// First moment it is good no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Which execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutionPart {
    /// Its id.
    pub id: ExecutionId,
    /// The stored idempotency key.
    pub idempotency_key: IdempotencyKey,
    /// The fencing token after the event.
    pub fence: u64,
}

/// Which attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptPart {
    /// Its number, from 1.
    pub n: u32,
    /// SHA-256 of the body that is sent.
    pub request_sha256: Digest,
}

/// What the backend said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderPart {
    /// The HTTP status, if there was an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The backend's own id of what it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The adapter's rule that classified it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// SHA-256 of the answer's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<Digest>,
}

/// The state before and after; `from` is absent where the thing was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangePart {
    /// Before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'static str>,
    /// After.
    pub to: &'static str,
}

/// How many guarantees a prover tried, and what came of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProofPart {
    /// Those that held.
    pub passed: u32,
    /// Those that did not, or could not be tried to their end.
    pub failed: u32,
    /// Those of the failed in which something went through that must be refused.
    pub passed_through: u32,
    /// Those that there was nothing to try with.
    pub not_applicable: u32,
}

/// A clock that is behind the times that are written down, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockPart {
    /// The latest time in the store.
    pub latest: Timestamp,
    /// What the clock said.
    pub now: Timestamp,
}

/// What changed about the log itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogPart {
    /// The public key that signs from the head over this event on, as `name+id+key`.
    pub key: String,
    /// The one that signed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_key: Option<String>,
    /// The last head that was known of the log, where it goes on under another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_head: Option<HeadPart>,
}

/// A head of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeadPart {
    /// The log's name.
    pub origin: String,
    /// How many events it covers.
    pub size: u64,
    /// The root, in base64.
    pub root: String,
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
