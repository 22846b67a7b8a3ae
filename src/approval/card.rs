//! What an approver answers: the open request as the broker shows it to whoever hands records in, and the claims that answer it.

use std::time::Duration;

use serde::Deserialize;

use super::RECORD_VERSION;
use crate::domain::approval::{Approval, ApproverType, AskedBy, By, Claims, Decision};
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::id::{DraftId, RecordId, VerdictId};
use crate::domain::json::{Json, JsonError};
use crate::domain::name::{Audience, PrincipalId};
use crate::domain::time::Timestamp;

/// How long a record by [`Card::claims`] is good for, unless the card closes earlier.
const LIFETIME: Duration = Duration::from_secs(900);

/// Why there is nothing to sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// Not a draft as the broker shows it.
    #[error("the card is not a draft as `GET /v1/drafts/{{id}}` answers it: {0}")]
    Unreadable(#[from] JsonError),
    /// Nobody is asked.
    #[error("draft {draft} is {state}; there is nothing to sign")]
    NotOpen {
        /// The draft.
        draft: DraftId,
        /// Its state.
        state: String,
    },
    /// Shown to somebody who hands no records in.
    #[error("the card of draft {draft} has no request_nonce; ask for it as a client with the role approval_service")]
    NonceMissing {
        /// The draft.
        draft: DraftId,
    },
    /// Too late.
    #[error("the card of draft {draft} closed at {at}")]
    Closed {
        /// The draft.
        draft: DraftId,
        /// When.
        at: Timestamp,
    },
    /// The bytes at hand are not what is to be approved.
    #[error("the bytes hash to {found}, and the card of draft {draft} is for {wanted}; do not approve it")]
    OtherBytes {
        /// The draft.
        draft: DraftId,
        /// The card's hash.
        wanted: DraftHash,
        /// The bytes' hash.
        found: DraftHash,
    },
}

/// An open request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The draft.
    pub draft: DraftId,
    /// Its hash.
    pub hash: DraftHash,
    /// Ties the answer to this request.
    pub nonce: String,
    /// The verdict that asked.
    pub verdict: VerdictId,
    /// The policy that asked.
    pub policy: AskedBy,
    /// First moment it can no longer be answered.
    pub expires_at: Timestamp,
}

/// Who signs, in whose name, for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signatory {
    /// The service that signs for the approver: `iss`.
    pub issuer: String,
    /// The approver.
    pub approver: PrincipalId,
    /// The broker: `aud`.
    pub audience: Audience,
}

#[derive(Deserialize)]
struct Shown {
    id: DraftId,
    state: String,
    draft_hash: DraftHash,
    #[serde(default)]
    verdict: Option<ShownVerdict>,
    #[serde(default)]
    approval: Option<ShownApproval>,
}

#[derive(Deserialize)]
struct ShownVerdict {
    id: VerdictId,
    policy_id: String,
    policy_version: u64,
    policy_sha256: Digest,
}

#[derive(Deserialize)]
struct ShownApproval {
    state: String,
    #[serde(default)]
    request_nonce: Option<String>,
    expires_at: Timestamp,
}

impl Card {
    /// Reads the broker's answer about a draft.
    ///
    /// # Errors
    /// [`CardError`], if it is not one, or is not open.
    pub fn parse(answer: &[u8]) -> Result<Self, CardError> {
        let Shown {
            id: draft,
            state,
            draft_hash: hash,
            verdict,
            approval,
        } = Json::parse_deeper(answer)?.decode()?;
        let (Some(verdict), Some(approval)) = (verdict, approval) else {
            return Err(CardError::NotOpen { draft, state });
        };
        if state != "awaiting_approval" || approval.state != "requested" {
            return Err(CardError::NotOpen { draft, state });
        }
        Ok(Self {
            draft,
            hash,
            nonce: approval.request_nonce.ok_or(CardError::NonceMissing { draft })?,
            verdict: verdict.id,
            policy: AskedBy {
                id: verdict.policy_id,
                version: verdict.policy_version,
                sha256: verdict.policy_sha256,
            },
            expires_at: approval.expires_at,
        })
    }

    /// Whether these are the draft's bytes.
    ///
    /// # Errors
    /// [`CardError::OtherBytes`] if they are not.
    pub fn covers(&self, bytes: &[u8]) -> Result<(), CardError> {
        let found = DraftHash::of_canonical(bytes);
        if found == self.hash {
            return Ok(());
        }
        Err(CardError::OtherBytes {
            draft: self.draft,
            wanted: self.hash,
            found,
        })
    }

    /// The claims of an answer signed at `now` with a key in a file, which proves no fresh sign-in.
    ///
    /// # Errors
    /// [`CardError::Closed`] if it is too late.
    pub fn claims(
        &self,
        by: &Signatory,
        decision: Decision,
        reason: String,
        record: RecordId,
        now: Timestamp,
    ) -> Result<Claims, CardError> {
        if now >= self.expires_at {
            return Err(CardError::Closed {
                draft: self.draft,
                at: self.expires_at,
            });
        }
        let kind = if by.approver.as_str().starts_with("svc_") {
            ApproverType::Service
        } else {
            ApproverType::Human
        };
        let signed_at = now.seconds();
        Ok(Claims {
            iss: by.issuer.clone(),
            sub: by.approver.clone(),
            aud: by.audience.as_str().to_owned(),
            jti: record,
            iat: signed_at,
            nbf: signed_at,
            // One second more than the card has left is harmless: the broker compares the card's own time as well.
            exp: now.plus(LIFETIME).min(self.expires_at).seconds().max(signed_at + 1),
            apr: Approval {
                v: RECORD_VERSION,
                decision,
                draft_id: self.draft,
                draft_hash: self.hash,
                request_nonce: self.nonce.clone(),
                verdict_id: self.verdict,
                policy: self.policy.clone(),
                by: By {
                    kind,
                    id: by.approver.clone(),
                    queue: None,
                    // RFC 8176: a key kept in software.
                    amr: vec!["swk".to_owned()],
                    auth_time: None,
                    rule: None,
                },
                reason: Some(reason),
                execute_by: None,
            },
        })
    }
}
