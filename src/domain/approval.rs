//! What an approval record says once it is read: the claims of an `approval+jwt`, version 1.

use serde::{Deserialize, Serialize};

use super::digest::{Digest, DraftHash};
use super::id::{DraftId, RecordId, VerdictId};
use super::name::{PrincipalId, QueueName};

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The draft may run as it is.
    Approve,
    /// It may not.
    Deny,
}

impl Decision {
    /// The word used in files, events and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
        }
    }
}

/// Who signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproverType {
    /// A person.
    Human,
    /// An approval service on its own account.
    Service,
    /// A rule of the policy.
    Rule,
}

/// The registered claims and our own closed object. Other top-level claims are ignored, since stock libraries add some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The approval service.
    pub iss: String,
    /// The approver; equals `apr.by.id`.
    pub sub: PrincipalId,
    /// This broker; one string, an array is refused.
    pub aud: String,
    /// The record's own id.
    pub jti: RecordId,
    /// Signed at, in seconds.
    pub iat: i64,
    /// Not before, in seconds.
    pub nbf: i64,
    /// Not at or after, in seconds.
    pub exp: i64,
    /// What was decided.
    pub apr: Approval,
}

/// What was decided, about exactly which draft. Closed: an unknown member is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The version of this object: 1.
    pub v: u8,
    /// Yes or no.
    pub decision: Decision,
    /// The draft.
    pub draft_id: DraftId,
    /// Its hash; the approval is for these bytes and no others.
    pub draft_hash: DraftHash,
    /// The card's nonce, 16 random bytes in base64url: ties the answer to this card.
    pub request_nonce: String,
    /// The verdict that asked.
    pub verdict_id: VerdictId,
    /// The policy that asked.
    pub policy: AskedBy,
    /// Who signed, as the service says. Authority is looked up at the broker, never read from here.
    pub by: By,
    /// Why; required on a denial. At most 1,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Narrows the execution window, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execute_by: Option<i64>,
}

/// The policy that asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedBy {
    /// Its name.
    pub id: String,
    /// Its version.
    pub version: u64,
    /// Its hash.
    pub sha256: Digest,
}

/// The approver, as the signing service describes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct By {
    /// Person, service or rule.
    #[serde(rename = "type")]
    pub kind: ApproverType,
    /// The same as `sub`.
    pub id: PrincipalId,
    /// The queue the approver answered in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// How they authenticated (RFC 8176).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amr: Vec<String>,
    /// When they authenticated, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<i64>,
    /// The rule, when a rule signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}
