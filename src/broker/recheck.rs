//! Recheck: before a credential is issued, everything that was true when people signed must be true now.

use std::collections::BTreeSet;

use super::decide::question;
use super::issue::ExchangeError;
use super::review::is_self;
use super::{AcceptError, Broker, Caller};
use crate::approval::UnverifiedRecord;
use crate::domain::approval::Decision;
use crate::domain::draft::DraftDocument;
use crate::domain::id::RecordId;
use crate::domain::lifecycle::DraftState;
use crate::domain::policy::{Answer, Outcome, Signature};
use crate::domain::time::Timestamp;
use crate::store::intent::{Close, CloseAs};
use crate::store::record::{DraftRecord, SignedRecord};
use crate::store::{Rejection, StoreError};

impl Broker {
    /// Whether the draft stands approved and in time; until when the grant may be used.
    pub(super) fn standing(&self, draft: &DraftRecord, now: Timestamp) -> Result<Timestamp, ExchangeError> {
        let approval = draft.approval.as_ref();
        match draft.state {
            DraftState::Approved => {}
            DraftState::AwaitingApproval => {
                let (given, needed) = approval.map_or((0, 1), |a| (a.requirement.filled(&a.signatures()), a.requirement.needed()));
                return Err(ExchangeError::Unmet { given, needed });
            }
            state => {
                let reason = draft.closed.as_ref().and_then(|c| c.reason.clone());
                return Err(ExchangeError::NotApproved { state, reason });
            }
        }
        let execute_by = approval.and_then(|a| a.execute_by).ok_or(ExchangeError::NotApproved {
            state: draft.state,
            reason: None,
        })?;
        if now >= draft.expires_at {
            return Err(StoreError::from(Rejection::DraftExpired(draft.expires_at)).into());
        }
        if now >= execute_by {
            return Err(StoreError::from(Rejection::WindowExpired(execute_by)).into());
        }
        Ok(execute_by)
    }

    /// Whether no other execution on the resource is open. The store looks again when it issues; here, so that what such an execution has done
    /// to the resource is not taken for somebody else's change while nobody knows whether it did anything.
    pub(super) async fn resource_is_free(&self, draft: &DraftRecord) -> Result<(), ExchangeError> {
        match self.store.busy_resource(draft.id).await? {
            None => Ok(()),
            Some(busy) => Err(ExchangeError::ResourceBusy(busy)),
        }
    }

    /// Verifies every approving record again, with the keys and the authority that hold now, and asks the policy whether they are enough.
    /// Gives the ids of the records that count, and what the policy says of them.
    pub(super) async fn recheck(
        &self,
        caller: &Caller,
        draft: &DraftRecord,
        now: Timestamp,
    ) -> Result<(Vec<RecordId>, Answer), ExchangeError> {
        let approval = draft.approval.as_ref().ok_or(ExchangeError::NotFound)?;
        let mut signatures: Vec<Signature> = Vec::new();
        let mut counted = Vec::new();
        let mut lost: Option<ExchangeError> = None;
        for record in approval.records.iter().filter(|r| r.decision == Decision::Approve) {
            match self.recheck_record(draft, record, now).await {
                Ok(queues) => {
                    // A rule's record stands for pass one of the policy, which is asked again below; it is nobody's signature.
                    if !record.approver.is_rule() {
                        signatures.push(Signature {
                            approver: record.approver.clone(),
                            queues,
                            step_up: record.step_up,
                        });
                    }
                    counted.push(record.id);
                }
                Err(error @ ExchangeError::Store(_)) => return Err(error),
                Err(error) => lost = Some(error),
            }
        }
        let enough = !counted.is_empty() && approval.requirement.is_met(&signatures);
        if !enough {
            let error = lost.unwrap_or(ExchangeError::Unmet {
                given: approval.requirement.filled(&signatures),
                needed: approval.requirement.needed(),
            });
            self.stale(
                caller,
                draft,
                error.denial().unwrap_or("approval_insufficient"),
                Some(error.to_string()),
                None,
            )
            .await?;
            return Err(error);
        }
        let answer = self.policy.confirm(&question(draft), &signatures);
        if answer.outcome != Outcome::Allow {
            let reasons: Vec<&str> = answer.rules.iter().map(|r| r.reason.as_str()).collect();
            self.stale(caller, draft, "policy_denies", Some(reasons.join(" ")), Some(answer.clone()))
                .await?;
            return Err(ExchangeError::PolicyDenies(answer.rules));
        }
        Ok((counted, answer))
    }

    pub(super) async fn recheck_record(
        &self,
        draft: &DraftRecord,
        record: &SignedRecord,
        now: Timestamp,
    ) -> Result<BTreeSet<crate::domain::name::QueueName>, ExchangeError> {
        let key = self.store.approver_key(&record.kid).await?.filter(|k| k.revoked_at.is_none());
        let key = key.ok_or_else(|| ExchangeError::KeyRevoked(record.kid.clone()))?;
        let verified = UnverifiedRecord::parse(&record.jws)
            .and_then(|r| r.verify_stored(&key, now))
            .map_err(ExchangeError::Record)?;
        let claims = verified.claims();
        let same = claims.apr.draft_hash == draft.hash
            && claims.apr.draft_id == draft.id
            && claims.sub == record.approver
            && claims.apr.decision == record.decision;
        if !same || is_self(&record.approver, draft) {
            return Err(ExchangeError::AuthorityGone(record.approver.clone()));
        }
        if record.approver.is_rule() {
            return Ok(BTreeSet::new());
        }
        match self.authority(&record.approver, draft, now).await {
            Ok(queues) => Ok(queues),
            Err(AcceptError::Store(error)) => Err(ExchangeError::Store(error)),
            Err(_) => Err(ExchangeError::AuthorityGone(record.approver.clone())),
        }
    }

    /// The stored document; its bytes must hash to the draft's hash.
    pub(super) async fn document(&self, draft: &DraftRecord) -> Result<DraftDocument, ExchangeError> {
        let bytes = self.store.draft_bytes(draft.id).await?.ok_or(ExchangeError::NotFound)?;
        if crate::domain::digest::DraftHash::of_canonical(&bytes) != draft.hash {
            return Err(ExchangeError::Store(StoreError::Corrupt(format!(
                "the bytes of draft {} do not hash to its hash",
                draft.id
            ))));
        }
        DraftDocument::parse(&bytes).map_err(|error| ExchangeError::Store(StoreError::Corrupt(format!("draft {}: {error}", draft.id))))
    }

    /// `draft.mark_stale`: what was approved no longer holds, and no later exchange may find it approved.
    pub(super) async fn stale(
        &self,
        caller: &Caller,
        draft: &DraftRecord,
        code: &str,
        reason: Option<String>,
        answer: Option<Answer>,
    ) -> Result<(), ExchangeError> {
        let close = Close {
            draft: draft.id,
            how: CloseAs::Stale,
            code: code.to_owned(),
            reason,
            answer,
        };
        match self.store.close(self.op_of(caller), close).await {
            // Somebody closed or consumed it first: their word stands.
            Ok(_) | Err(StoreError::Rejected(Rejection::DraftIs(_))) => Ok(()),
            Err(error) => Err(ExchangeError::Store(error)),
        }
    }
}
