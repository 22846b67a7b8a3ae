//! Review: a signed approval record comes in, is verified, and counts if its approver has the authority now.

use std::collections::BTreeSet;

use super::{Broker, Caller};
use crate::approval::{RecordError, StepUp, UnverifiedRecord, VerifiedRecord};
use crate::audit::{Actor, ActorKind, ApprovalPart, EventBody, EventKind, Note};
use crate::crash_points::{Point, reached};
use crate::domain::approval::Decision;
use crate::domain::id::RecordId;
use crate::domain::name::{KeyId, PrincipalId, QueueName};
use crate::domain::principal::is_party;
use crate::domain::time::Timestamp;
use crate::store::intent::Vote;
use crate::store::record::{ApprovalRecord, DraftRecord, SignedRecord};
use crate::store::{Rejection, StoreError};

/// Why a record was not counted. Nothing about the draft or its card changed.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The record itself is not acceptable.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No key with this id is registered.
    #[error("no approver key `{0}` is registered")]
    UnknownKey(KeyId),
    /// There is no such draft for this caller.
    #[error("there is no such draft")]
    NotFound,
    /// The record is for another hash than the stored draft's.
    #[error("the record is for another draft hash than the stored one")]
    HashMismatch,
    /// The record answers another card.
    #[error("the record's nonce is not this approval request's")]
    NonceMismatch,
    /// The record names another verdict or policy than the one that asked.
    #[error("the record names another verdict or policy than the one that asked")]
    VerdictMismatch,
    /// The approver made the draft, owns its maker, or it is for them.
    #[error("{0} cannot approve this draft: they made it, own its maker, or it is for them")]
    SelfApproval(PrincipalId),
    /// The approver may decide nothing of this kind.
    #[error("{0} has no authority over this operation in the queues that are asked")]
    NoAuthority(PrincipalId),
    /// The approver may decide this kind, but not this much.
    #[error("the amount is above what {0} may approve")]
    OverLimit(PrincipalId),
    /// Wherever this signature is asked for, the approver must have authenticated afresh.
    #[error("{0} must authenticate again, strongly and just before signing; sign anew after that")]
    StepUpMissing(PrincipalId),
    /// The store refused: decided already, expired, answered already, revoked meanwhile.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A record that was counted.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The draft as it stands now.
    pub draft: DraftRecord,
    /// The approver.
    pub approver: PrincipalId,
    /// What they decided.
    pub decision: Decision,
    /// The record's id.
    pub record: RecordId,
}

impl Broker {
    /// Verifies a record and counts it. The checks go from the cheap to the dear and from the record to the store; the store repeats in one
    /// step those that another process could have changed meanwhile.
    ///
    /// # Errors
    /// [`AcceptError`]; the card stands as it stood.
    pub async fn accept(&self, caller: &Caller, jws: &str) -> Result<Accepted, AcceptError> {
        let mut about = None;
        let accepted = self.accept_inner(caller, jws, &mut about).await;
        if let Err(error) = &accepted
            && let Some(code) = error.denial()
        {
            let event = EventBody::new(EventKind::Note(Note::RecordDenied), caller.actor()).denied(code);
            self.note_denial(caller, about_draft(event, about)).await;
        }
        accepted
    }

    async fn accept_inner(&self, caller: &Caller, jws: &str, about: &mut Option<DraftRecord>) -> Result<Accepted, AcceptError> {
        let now = self.clock.now();
        let unverified = UnverifiedRecord::parse(jws)?;
        let key = self
            .store
            .approver_key(unverified.kid())
            .await?
            .ok_or_else(|| AcceptError::UnknownKey(unverified.kid().clone()))?;
        let record = unverified.verify(&key, &self.settings.audience, now)?;
        let claims = record.claims();
        let draft = self
            .store
            .draft(claims.apr.draft_id)
            .await?
            .filter(|d| d.tenant == caller.client.tenant)
            .ok_or(AcceptError::NotFound)?;
        *about = Some(draft.clone());
        if claims.apr.draft_hash != draft.hash {
            return Err(AcceptError::HashMismatch);
        }
        let approval = draft
            .approval
            .as_ref()
            .ok_or(Rejection::DraftIs(draft.state))
            .map_err(StoreError::from)?;
        if claims.apr.request_nonce != approval.nonce {
            return Err(AcceptError::NonceMismatch);
        }
        let asked = draft.verdict.as_ref().ok_or(AcceptError::VerdictMismatch)?;
        let named = &claims.apr.policy;
        let by = &asked.answer.policy;
        if claims.apr.verdict_id != asked.id || named.id != by.id || named.version != by.version || named.sha256 != by.sha256 {
            return Err(AcceptError::VerdictMismatch);
        }
        let queues = self.authority(&claims.sub, &draft, now).await?;
        let signed = signed_record(&record, queues, now);
        // Counted, it would fill no place and keep the approver from signing again.
        if signed.decision == Decision::Approve && !signed.step_up && step_up_everywhere(&signed.queues, approval) {
            return Err(AcceptError::StepUpMissing(signed.approver));
        }
        let (approver, id) = (signed.approver.clone(), signed.id);
        let vote = Vote {
            draft: draft.id,
            hash: claims.apr.draft_hash,
            nonce: claims.apr.request_nonce.clone(),
            record: signed,
            window: self.settings.execution_window,
        };
        // The signature is the approver's act; the service that handed it in is named by the request.
        let op = self.op(Actor::new(ActorKind::Person, approver.as_str()), Some(caller.request));
        reached(Point::ReviewVerified);
        let draft = self.store.vote(op, vote).await?.value;
        Ok(Accepted {
            draft,
            approver,
            decision: claims.apr.decision,
            record: id,
        })
    }

    /// The queues in which `approver` may decide this draft now, of those that are asked.
    pub(super) async fn authority(
        &self,
        approver: &PrincipalId,
        draft: &DraftRecord,
        now: Timestamp,
    ) -> Result<BTreeSet<QueueName>, AcceptError> {
        if is_self(approver, draft) {
            return Err(AcceptError::SelfApproval(approver.clone()));
        }
        let entry = self
            .store
            .approver(approver)
            .await?
            .ok_or_else(|| AcceptError::NoAuthority(approver.clone()))?;
        let asked: BTreeSet<&QueueName> = draft
            .approval
            .iter()
            .flat_map(|a| a.requirement.all_of.iter().map(|need| &need.queue))
            .collect();
        let in_asked = |queues: BTreeSet<QueueName>| queues.into_iter().filter(|q| asked.contains(q)).collect::<BTreeSet<_>>();
        let queues = in_asked(entry.approver.queues_for(&draft.operation, draft.amount, now));
        if queues.is_empty() {
            // Without the amount the same rows would cover it: then only the limit stands in the way.
            let but_for_limit = in_asked(entry.approver.queues_for(&draft.operation, None, now));
            let over = draft.amount.is_some() && !but_for_limit.is_empty();
            return Err(if over {
                AcceptError::OverLimit(approver.clone())
            } else {
                AcceptError::NoAuthority(approver.clone())
            });
        }
        Ok(queues)
    }
}

/// The event, told of this draft.
pub(super) fn about_draft(event: EventBody, draft: Option<DraftRecord>) -> EventBody {
    let Some(draft) = draft else { return event };
    let approval = draft.approval.as_ref().map(|a| ApprovalPart {
        id: a.id,
        record_id: None,
        approver: None,
        kid: None,
        decision: None,
        record_sha256: None,
        assertion: None,
    });
    draft.tell(EventBody { approval, ..event })
}

/// Whether the approver is a party to the draft.
pub(super) fn is_self(approver: &PrincipalId, draft: &DraftRecord) -> bool {
    is_party(approver, &draft.maker, draft.owner.as_ref(), draft.on_behalf_of.as_ref())
}

/// Whether every place that a signature in these queues could fill asks for a fresh sign-in.
fn step_up_everywhere(queues: &BTreeSet<QueueName>, approval: &ApprovalRecord) -> bool {
    let mut places = approval.requirement.all_of.iter().filter(|need| queues.contains(&need.queue));
    places.all(|need| need.step_up)
}

fn signed_record(record: &VerifiedRecord, queues: BTreeSet<QueueName>, now: Timestamp) -> SignedRecord {
    let claims = record.claims();
    SignedRecord {
        id: claims.jti,
        approver: claims.sub.clone(),
        kid: record.kid().clone(),
        decision: claims.apr.decision,
        reason: claims.apr.reason.clone(),
        queues,
        step_up: record.step_up() == StepUp::Fresh,
        execute_by: claims.apr.execute_by.map(Timestamp::from_seconds),
        received_at: now,
        jws: record.jws().to_owned(),
    }
}

impl AcceptError {
    /// The event's code, if the record itself is refused; a store that is down refuses nothing. The answer carries the same code.
    pub(super) fn denial(&self) -> Option<&'static str> {
        match self {
            Self::Record(error) => Some(error.code()),
            Self::UnknownKey(_) => Some("approver_key_unknown"),
            Self::NotFound => Some("not_found"),
            Self::HashMismatch => Some("draft_hash_mismatch"),
            Self::NonceMismatch => Some("request_nonce_mismatch"),
            Self::VerdictMismatch => Some("verdict_mismatch"),
            Self::SelfApproval(_) => Some("self_approval"),
            Self::NoAuthority(_) => Some("approver_without_authority"),
            Self::OverLimit(_) => Some("approver_over_limit"),
            Self::StepUpMissing(_) => Some("step_up_missing"),
            Self::Store(StoreError::Rejected(rejection)) => Some(of_rejection(rejection)),
            Self::Store(_) => None,
        }
    }
}

/// The event's code for what the store refuses while approvals are counted and exchanged.
pub(super) const fn of_rejection(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::NotFound => "not_found",
        Rejection::DraftExpired(_) => "draft_expired",
        Rejection::ApprovalExpired(_) => "approval_expired",
        Rejection::WindowExpired(_) => "execution_window_over",
        Rejection::HashMismatch => "draft_hash_mismatch",
        Rejection::NonceMismatch => "request_nonce_mismatch",
        Rejection::SelfApproval(_) => "self_approval",
        Rejection::AlreadyAnswered(_) => "approval_answered",
        Rejection::RecordReused(_) => "record_reused",
        Rejection::KeyRevoked(_) => "record_key_revoked",
        Rejection::ResourceBusy(_) => "resource_busy",
        Rejection::CredentialExpired(_) => "credential_expired",
        Rejection::DraftIs(_) | Rejection::ApprovalIs(_) => "approval_decided",
        _ => "internal",
    }
}
