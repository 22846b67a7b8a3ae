//! What callers see of a draft, an approval, an execution. The shapes of the API, apart from the shapes of the store.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::draft::Resource;
use crate::domain::money::Money;
use crate::domain::policy::Requirement;
use crate::domain::principal::{Client, Role};
use crate::store::record::{ApprovalRecord, CredentialRecord, DraftRecord, ExecutionRecord, ExecutionSummary, Said, StoredVerdict};

/// What an operation touches.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ResourceView {
    /// Its kind, such as `charge`.
    #[serde(rename = "type")]
    kind: String,
    /// The backend's id for it.
    id: String,
    /// The version that was inspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl From<&Resource> for ResourceView {
    fn from(resource: &Resource) -> Self {
        Self {
            kind: resource.kind.to_string(),
            id: resource.id.to_string(),
            version: resource.version.clone(),
        }
    }
}

/// An amount in minor units.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct AmountView {
    /// Minor units.
    minor: i64,
    /// ISO 4217, lower case.
    currency: String,
}

impl From<Money> for AmountView {
    fn from(money: Money) -> Self {
        Self {
            minor: money.minor(),
            currency: money.currency().to_string(),
        }
    }
}

/// A rule of the policy that decided.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RuleView {
    /// Its id.
    id: String,
    /// Its sentence.
    reason: String,
}

/// What the policy said.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct VerdictView {
    /// The verdict's id.
    id: String,
    /// `allow`, `ask` or `deny`.
    outcome: String,
    /// The rules that decided.
    rules: Vec<RuleView>,
    /// The policy's name.
    policy_id: String,
    /// Its version.
    policy_version: u64,
    /// SHA-256 of its rules and schema.
    policy_sha256: String,
    /// SHA-256 of its limits.
    limits_sha256: String,
}

impl From<&StoredVerdict> for VerdictView {
    fn from(verdict: &StoredVerdict) -> Self {
        let policy = &verdict.answer.policy;
        Self {
            id: verdict.id.to_string(),
            outcome: verdict.answer.outcome.as_str().to_owned(),
            rules: verdict
                .answer
                .rules
                .iter()
                .map(|r| RuleView {
                    id: r.id.clone(),
                    reason: r.reason.clone(),
                })
                .collect(),
            policy_id: policy.id.clone(),
            policy_version: policy.version,
            policy_sha256: policy.sha256.to_string(),
            limits_sha256: policy.limits_sha256.to_string(),
        }
    }
}

/// One place to be signed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct NeedView {
    /// The queue.
    queue: String,
    /// How many different people.
    count: u32,
    /// Whether each must have authenticated afresh.
    step_up: bool,
}

fn needs(requirement: &Requirement) -> Vec<NeedView> {
    requirement
        .all_of
        .iter()
        .map(|n| NeedView {
            queue: n.queue.to_string(),
            count: n.count,
            step_up: n.step_up,
        })
        .collect()
}

/// A signature that came.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct SignatureView {
    /// The record's id.
    record_id: String,
    /// Who signed: a person, a service or a rule.
    approver: String,
    /// `approve` or `deny`.
    decision: String,
    /// When it came.
    at: String,
}

/// An approval.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct ApprovalView {
    /// Its id.
    id: String,
    /// `requested`, `granted`, `refused`, `lapsed`, `voided` or `revoked`.
    state: String,
    /// All of these must be signed.
    all_of: Vec<NeedView>,
    /// How many signatures are needed.
    needed: usize,
    /// How many places are filled.
    given: usize,
    /// The signatures.
    signatures: Vec<SignatureView>,
    /// When the card closes.
    expires_at: String,
    /// Until when the grant can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    execute_by: Option<String>,
    /// The card's nonce, for those who hand in records.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_nonce: Option<String>,
}

impl ApprovalView {
    fn of(approval: &ApprovalRecord, viewer: Option<&Client>) -> Self {
        Self {
            id: approval.id.to_string(),
            state: approval.state.to_string(),
            all_of: needs(&approval.requirement),
            needed: approval.requirement.needed(),
            given: approval.requirement.filled(&approval.signatures()),
            signatures: approval
                .records
                .iter()
                .map(|r| SignatureView {
                    record_id: r.id.to_string(),
                    approver: r.approver.to_string(),
                    decision: r.decision.as_str().to_owned(),
                    at: r.received_at.to_string(),
                })
                .collect(),
            expires_at: approval.expires_at.to_string(),
            execute_by: approval.execute_by.map(|t| t.to_string()),
            request_nonce: viewer
                .is_some_and(|v| v.has_role(Role::ApprovalService))
                .then(|| approval.nonce.clone()),
        }
    }
}

/// An execution in one line.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct ExecutionLine {
    /// Its id.
    id: String,
    /// Where it stands.
    state: String,
    /// The backend's own id of what it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
}

impl From<&ExecutionSummary> for ExecutionLine {
    fn from(execution: &ExecutionSummary) -> Self {
        Self {
            id: execution.id.to_string(),
            state: execution.state.to_string(),
            reference: execution.reference.clone(),
        }
    }
}

/// A draft as it stands.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct DraftView {
    /// Its id.
    id: String,
    /// `proposed`, `awaiting_approval`, `approved`, `consumed`, `denied`, `withdrawn`, `superseded`, `expired` or `stale`.
    state: String,
    /// SHA-256 over `writ.draft.v1`, a zero byte and the canonical bytes; base64url.
    draft_hash: String,
    /// The stored idempotency key.
    idempotency_key: String,
    /// The operation.
    operation: String,
    /// `write`, `money` or `access`.
    consequence: String,
    /// What it touches.
    resource: ResourceView,
    /// How much.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<AmountView>,
    /// The client that made it.
    maker: String,
    /// The support case.
    #[serde(skip_serializing_if = "Option::is_none")]
    case_id: Option<String>,
    /// The draft it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    supersedes: Option<String>,
    /// What the policy said.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<VerdictView>,
    /// The approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalView>,
    /// A stable code for why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// The words of the person or the rule that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Its execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionLine>,
    /// When it was stored.
    created_at: String,
    /// First moment it can no longer be approved or executed.
    expires_at: String,
}

impl DraftView {
    /// The draft as nobody's approval service sees it.
    pub(crate) fn without_nonce(draft: &DraftRecord) -> Self {
        Self::shown(draft, None)
    }

    /// The draft as the client sees it.
    pub(crate) fn of(draft: &DraftRecord, viewer: &Client) -> Self {
        Self::shown(draft, Some(viewer))
    }

    fn shown(draft: &DraftRecord, viewer: Option<&Client>) -> Self {
        Self {
            id: draft.id.to_string(),
            state: draft.state.to_string(),
            draft_hash: draft.hash.to_string(),
            idempotency_key: draft.key.to_string(),
            operation: draft.operation.to_string(),
            consequence: draft.consequence.as_str().to_owned(),
            resource: (&draft.resource).into(),
            amount: draft.amount.map(Into::into),
            maker: draft.maker.to_string(),
            case_id: draft.case_id.as_ref().map(ToString::to_string),
            supersedes: draft.supersedes.map(|id| id.to_string()),
            verdict: draft.verdict.as_ref().map(Into::into),
            approval: draft.approval.as_ref().map(|a| ApprovalView::of(a, viewer)),
            code: draft.closed.as_ref().map(|c| c.code.clone()),
            reason: draft.closed.as_ref().and_then(|c| c.reason.clone()),
            execution: draft.execution.as_ref().map(Into::into),
            created_at: draft.created_at.to_string(),
            expires_at: draft.expires_at.to_string(),
        }
    }
}

/// A page of drafts.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct DraftPage {
    /// The drafts, oldest first.
    pub(super) drafts: Vec<DraftView>,
    /// Pass as `after` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// An attempt.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct AttemptView {
    /// Its number, from 1.
    n: u32,
    /// SHA-256 of the body that was sent.
    request_sha256: String,
    /// When it was written down.
    sent_at: String,
    /// What came of it; absent while nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// When the result was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_at: Option<String>,
    /// Whether the result proves that this attempt had its effect, or that it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    conclusive: Option<bool>,
    /// The backend file's rule that judged the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// SHA-256 of the answer's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_sha256: Option<String>,
}

/// A look-up.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct LookUpView {
    /// When.
    at: String,
    /// The adapter's step.
    step: String,
    /// `applied`, `pending`, `not_applied`, `absent` or `inconclusive`.
    finding: String,
    /// The HTTP status, if there was an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// SHA-256 of the answer's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_sha256: Option<String>,
}

/// What the backend told by itself.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct EventView {
    /// The backend's own id of it.
    id: String,
    /// Its type, in the backend's words.
    #[serde(rename = "type")]
    kind: String,
    /// When it came.
    at: String,
    /// `applied`, `pending` or `failed`; absent if it does not agree with the draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<&'static str>,
    /// What was made of it, as the answer to the backend says.
    finding: &'static str,
}

/// A credential as it stands; the token itself is stored nowhere.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct CredentialView {
    /// Its id.
    id: String,
    /// The approval it was given for.
    approval_id: String,
    /// For whom.
    audience: String,
    /// The id of the root key that signed it.
    root_key_id: u32,
    /// `issued`, `redeemed`, `revoked` or `lapsed`.
    state: String,
    /// When it was issued.
    issued_at: String,
    /// First moment it is good no longer.
    expires_at: String,
}

impl From<&CredentialRecord> for CredentialView {
    fn from(credential: &CredentialRecord) -> Self {
        Self {
            id: credential.id.to_string(),
            approval_id: credential.approval.to_string(),
            audience: credential.audience.to_string(),
            root_key_id: credential.root_key_id,
            state: credential.state.to_string(),
            issued_at: credential.issued_at.to_string(),
            expires_at: credential.expires_at.to_string(),
        }
    }
}

/// An execution as it stands.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ExecutionView {
    /// Its id.
    id: String,
    /// The draft it executes.
    draft_id: String,
    /// The draft's hash.
    draft_hash: String,
    /// `claimed`, `dispatched`, `applied`, `pending`, `not_applied`, `indeterminate`, `handed_off` or `aborted`.
    state: String,
    /// The operation.
    operation: String,
    /// What it touches.
    resource: ResourceView,
    /// How much.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<AmountView>,
    /// The stored key, the only one that is ever sent.
    idempotency_key: String,
    /// The backend's own id of what it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    /// A stable code for why it stands as it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Every attempt.
    attempts: Vec<AttemptView>,
    /// Every look-up.
    lookups: Vec<LookUpView>,
    /// What the backend told about it by itself.
    events: Vec<EventView>,
    /// When the backend is looked at next, if that is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_look_at: Option<String>,
    /// When its state last changed.
    changed_at: String,
}

impl From<&ExecutionRecord> for ExecutionView {
    fn from(execution: &ExecutionRecord) -> Self {
        Self {
            id: execution.id.to_string(),
            draft_id: execution.draft.to_string(),
            draft_hash: execution.hash.to_string(),
            state: execution.state.to_string(),
            operation: execution.operation.to_string(),
            resource: (&execution.resource).into(),
            amount: execution.amount.map(Into::into),
            idempotency_key: execution.key.to_string(),
            reference: execution.reference.clone(),
            code: execution.code.clone(),
            attempts: execution
                .attempts
                .iter()
                .map(|a| AttemptView {
                    n: a.n,
                    request_sha256: a.request_sha256.to_string(),
                    sent_at: a.sent_at.to_string(),
                    outcome: a.result.as_ref().map(|r| r.outcome.clone()),
                    status: a.result.as_ref().and_then(|r| r.status),
                    result_at: a.result.as_ref().map(|r| r.at.to_string()),
                    conclusive: a.result.as_ref().map(|r| r.conclusive),
                    rule: a.result.as_ref().and_then(|r| r.rule.clone()),
                    answer_sha256: a.result.as_ref().and_then(|r| r.body_sha256).map(|d| d.to_string()),
                })
                .collect(),
            lookups: execution
                .lookups
                .iter()
                .map(|l| LookUpView {
                    at: l.at.to_string(),
                    step: l.step.clone(),
                    finding: l.finding.clone(),
                    status: l.status,
                    answer_sha256: l.body_sha256.map(|d| d.to_string()),
                })
                .collect(),
            events: execution
                .events
                .iter()
                .map(|e| EventView {
                    id: e.id.clone(),
                    kind: e.kind.clone(),
                    at: e.at.to_string(),
                    said: e.said.map(Said::as_str),
                    finding: e.finding.as_str(),
                })
                .collect(),
            next_look_at: execution
                .events
                .iter()
                .filter_map(|e| e.look_at)
                .chain(execution.next_action_at)
                .min()
                .map(|t| t.to_string()),
            changed_at: execution.changed_at.to_string(),
        }
    }
}
