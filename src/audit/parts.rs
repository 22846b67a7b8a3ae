//! What an event says of each thing that it is about; each part is closed, and its fields are typed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::domain::approval::Decision;
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::draft::IdempotencyKey;
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, RecordId, VerdictId};
use crate::domain::name::{Audience, KeyId, PrincipalId};
use crate::domain::policy::{Outcome, PolicyRef};
use crate::domain::time::Timestamp;

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
