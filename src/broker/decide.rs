//! Decide: ask the policy about a stored draft; what it allows, a rule signs.

use super::Broker;
use crate::approval::SignerError;
use crate::audit::{Actor, ActorKind};
use crate::crash_points::{Point, reached};
use crate::domain::approval::{Approval, ApproverType, AskedBy, By, Claims, Decision};
use crate::domain::id::{ApprovalId, RecordId, RequestId, VerdictId};
use crate::domain::lifecycle::DraftState;
use crate::domain::policy::{Outcome, Question};
use crate::domain::time::Timestamp;
use crate::store::intent::{Decide, Follow};
use crate::store::record::{DraftRecord, SignedRecord, StoredVerdict};
use crate::store::{Rejection, StoreError};

/// Why a stored draft has no decision yet; it stays `proposed`, and the next proposal or sweep decides it.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The policy allowed it, but its record could not be signed.
    #[error("the policy's record could not be signed")]
    Sign(#[source] SignerError),
    /// The store did not take the answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the policy is asked about a stored draft, now or at the exchange.
pub(super) fn question(draft: &DraftRecord) -> Question {
    Question {
        operation: draft.operation.clone(),
        client: draft.maker.clone(),
        owner: draft.owner.clone(),
        amount: draft.amount,
        fields: draft.fields.clone(),
        recent: draft.recent,
    }
}

impl Broker {
    /// Asks the policy about a `proposed` draft and stores what follows.
    ///
    /// # Errors
    /// [`DecideError`]; the draft stays `proposed`.
    pub async fn decide(&self, request: Option<RequestId>, draft: DraftRecord) -> Result<DraftRecord, DecideError> {
        let answer = self.policy.propose(&question(&draft));
        let verdict = StoredVerdict {
            id: VerdictId::generate(&*self.clock, &*self.entropy),
            answer,
        };
        // The decision is the policy's; who asked is found by the request.
        let actor = Actor::new(ActorKind::Rule, self.settings.policy_approver.as_str());
        let now = self.clock.now();
        let approval = ApprovalId::generate(&*self.clock, &*self.entropy);
        let nonce = self.nonce();
        let then = match verdict.answer.outcome {
            Outcome::Allow => {
                let execute_by = now.plus(self.settings.execution_window).min(draft.expires_at);
                let record = self
                    .rule_record(&draft, &verdict, &nonce, now, execute_by)
                    .map_err(DecideError::Sign)?;
                Follow::AutoApprove {
                    approval,
                    nonce,
                    record: Box::new(record),
                    execute_by,
                }
            }
            Outcome::Ask => {
                let expires_at = now.plus(self.settings.card_lifetime).min(draft.expires_at);
                Follow::Hold {
                    approval,
                    nonce,
                    requirement: verdict.answer.requirement.clone(),
                    expires_at,
                }
            }
            Outcome::Deny => {
                let reasons: Vec<&str> = verdict.answer.rules.iter().map(|rule| rule.reason.as_str()).collect();
                Follow::Deny { reason: reasons.join(" ") }
            }
        };
        let decide = Decide {
            draft: draft.id,
            verdict,
            then,
        };
        reached(Point::DecideAnswered);
        match self.store.decide(self.op(actor, request), decide).await {
            Ok(decided) => Ok(decided.value),
            // The same proposal came twice at once, or the sweep was faster: the first decision stands, and here it is.
            Err(StoreError::Rejected(rejection @ Rejection::DraftIs(_))) => {
                let decided = self.store.draft(draft.id).await?.filter(|d| d.state != DraftState::Proposed);
                Ok(decided.ok_or(StoreError::Rejected(rejection))?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The record with which the policy signs what it allows: the same shape as a person's.
    fn rule_record(
        &self,
        draft: &DraftRecord,
        verdict: &StoredVerdict,
        nonce: &str,
        now: Timestamp,
        execute_by: Timestamp,
    ) -> Result<SignedRecord, SignerError> {
        let approver = self.settings.policy_approver.clone();
        let id = RecordId::generate(&*self.clock, &*self.entropy);
        let policy = &verdict.answer.policy;
        let claims = Claims {
            iss: self.settings.audience.as_str().to_owned(),
            sub: approver.clone(),
            aud: self.settings.audience.to_string(),
            jti: id,
            iat: now.seconds(),
            nbf: now.seconds(),
            exp: execute_by.seconds().min(now.seconds().saturating_add(3600)),
            apr: Approval {
                v: 1,
                decision: Decision::Approve,
                draft_id: draft.id,
                draft_hash: draft.hash,
                request_nonce: nonce.to_owned(),
                verdict_id: verdict.id,
                policy: AskedBy {
                    id: policy.id.clone(),
                    version: policy.version,
                    sha256: policy.sha256,
                },
                by: By {
                    kind: ApproverType::Rule,
                    id: approver.clone(),
                    queue: None,
                    amr: Vec::new(),
                    auth_time: None,
                    rule: verdict.answer.rules.first().map(|rule| rule.id.clone()),
                },
                reason: None,
                execute_by: Some(execute_by.seconds()),
            },
        };
        let jws = self.rule_signer.sign(&claims)?;
        Ok(SignedRecord {
            id,
            approver,
            kid: self.rule_signer.kid().clone(),
            decision: Decision::Approve,
            reason: None,
            queues: std::collections::BTreeSet::new(),
            step_up: false,
            execute_by: Some(execute_by),
            received_at: now,
            jws,
        })
    }
}
