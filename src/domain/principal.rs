//! Who calls and who approves: registered clients with roles and permissions, approvers with keys and authority.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::money::{Currency, Money};
use super::name::{ClientId, KeyId, NameError, OperationName, PrincipalId, QueueName, TenantId};
use super::operation::Stage;
use super::time::Timestamp;

/// What a client is for. A role can make only its own calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Proposes drafts, exchanges approvals, executes.
    Orchestrator,
    /// Hands in signed approval records.
    ApprovalService,
    /// Redeems credentials.
    Proxy,
    /// Reads what happened.
    Auditor,
    /// Resolves what nobody else can, and stops what must not go on.
    Operator,
    /// Stops what must not go on, and takes approvals and credentials back.
    Security,
    /// Tries what must be refused, and reports what came of it.
    Prover,
}

impl Role {
    /// The word used in files, events and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orchestrator => "orchestrator",
            Self::ApprovalService => "approval_service",
            Self::Proxy => "proxy",
            Self::Auditor => "auditor",
            Self::Operator => "operator",
            Self::Security => "security",
            Self::Prover => "prover",
        }
    }
}

/// An operation by name, all operations of one family (`refund.*`), or all (`*`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationPattern {
    /// Exactly this one.
    One(OperationName),
    /// Every operation whose name starts with these words and a dot.
    Family(String),
    /// Every operation.
    All,
}

impl OperationPattern {
    /// Whether the pattern covers `operation`.
    #[must_use]
    pub fn covers(&self, operation: &OperationName) -> bool {
        match self {
            Self::One(name) => name == operation,
            Self::Family(words) => operation
                .as_str()
                .strip_prefix(words.as_str())
                .is_some_and(|rest| rest.starts_with('.')),
            Self::All => true,
        }
    }
}

impl FromStr for OperationPattern {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            return Ok(Self::All);
        }
        match text.strip_suffix(".*") {
            // `x.x` is checked in place of `x.*`: the family's words follow the same rule.
            Some(words) => format!("{words}.x")
                .parse::<OperationName>()
                .map(|_| Self::Family(words.to_owned()))
                .map_err(|e| NameError {
                    given: text.to_owned(),
                    ..e
                }),
            None => text.parse().map(Self::One),
        }
    }
}

impl fmt::Display for OperationPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(name) => name.fmt(f),
            Self::Family(words) => write!(f, "{words}.*"),
            Self::All => f.write_str("*"),
        }
    }
}

impl Serialize for OperationPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OperationPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// One row of a client's permission matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permission {
    /// Which operations.
    pub operations: OperationPattern,
    /// What the client may do with them.
    pub stages: BTreeSet<Stage>,
}

/// A registered client. Facts about an agent (who owns it) come from here and never from a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Its roles.
    pub roles: BTreeSet<Role>,
    /// The person answerable for it, who therefore cannot approve what it proposes.
    pub owner: Option<PrincipalId>,
    /// What an orchestrator may do, by operation. Nothing listed, nothing allowed.
    pub permissions: Vec<Permission>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

impl Client {
    /// Whether the client has the role.
    #[must_use]
    pub fn has_role(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether a row of the matrix lets the client do `stage` with `operation`.
    #[must_use]
    pub fn may(&self, stage: Stage, operation: &OperationName) -> bool {
        self.has_role(Role::Orchestrator)
            && self
                .permissions
                .iter()
                .any(|p| p.stages.contains(&stage) && p.operations.covers(operation))
    }
}

/// What an approver may decide. No row, no authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    /// For which operations.
    pub operations: OperationPattern,
    /// For which queue the signature counts.
    pub queue: QueueName,
    /// The largest amount, inclusive. `None` covers only operations that carry no amount.
    pub limit: Option<Limit>,
    /// First moment it holds.
    pub valid_from: Timestamp,
    /// First moment it holds no longer, if there is one.
    pub valid_to: Option<Timestamp>,
    /// Who gave it.
    pub granted_by: PrincipalId,
}

/// The largest amount an approver may release in one currency, inclusive, in minor units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Minor units.
    pub max_minor: i64,
    /// The currency it is in.
    pub currency: Currency,
}

impl Authority {
    /// Whether the row covers the operation and the amount at `now`.
    #[must_use]
    pub fn covers(&self, operation: &OperationName, amount: Option<Money>, now: Timestamp) -> bool {
        let in_time = self.valid_from <= now && self.valid_to.is_none_or(|end| now < end);
        let in_amount = match (amount, self.limit) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(money), Some(limit)) => money.currency() == limit.currency && money.minor() <= limit.max_minor,
        };
        in_time && in_amount && self.operations.covers(operation)
    }
}

/// How an approval record may be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// ECDSA on P-256 with SHA-256: JWS `ES256`.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519: JWS `Ed25519` (RFC 9864), also under its older name `EdDSA`.
    #[serde(rename = "Ed25519")]
    Ed25519,
}

impl KeyKind {
    /// The word used in files and answers: the JWS algorithm.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Ed25519 => "Ed25519",
        }
    }
}

/// A key registered for one approver. A record never brings its own key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproverKey {
    /// Its id, the record's `kid`.
    pub kid: KeyId,
    /// Whose it is.
    pub approver: PrincipalId,
    /// The service that signs for the approver, the record's `iss`.
    pub issuer: String,
    /// The algorithm.
    pub kind: KeyKind,
    /// The public key: 65 bytes of uncompressed point for P-256, 32 bytes for Ed25519; in base64url.
    pub public: String,
    /// First moment it may have signed.
    pub not_before: Timestamp,
    /// First moment it may sign no longer, if there is one.
    pub not_after: Option<Timestamp>,
    /// When it was revoked, if it was: no signature by it counts from then on.
    pub revoked_at: Option<Timestamp>,
}

/// Somebody or something that can approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approver {
    /// Who it is: `usr_`, `svc_` or `rule_`.
    pub id: PrincipalId,
    /// What they may decide.
    pub authority: Vec<Authority>,
    /// When they were registered.
    pub created_at: Timestamp,
    /// When they were revoked, if they were.
    pub revoked_at: Option<Timestamp>,
}

impl Approver {
    /// The queues in which a signature by this approver counts for this operation and amount at `now`.
    #[must_use]
    pub fn queues_for(&self, operation: &OperationName, amount: Option<Money>, now: Timestamp) -> BTreeSet<QueueName> {
        if self.revoked_at.is_some() {
            return BTreeSet::new();
        }
        self.authority
            .iter()
            .filter(|row| row.covers(operation, amount, now))
            .map(|row| row.queue.clone())
            .collect()
    }
}

/// Whether an approver is a party to a draft and so cannot approve it: as its maker (a service signs as `svc_` and the client's id), as the
/// person answerable for the maker, or as the one it is for.
#[must_use]
pub fn is_party(approver: &PrincipalId, maker: &ClientId, owner: Option<&PrincipalId>, on_behalf_of: Option<&PrincipalId>) -> bool {
    let as_service = approver.as_str().strip_prefix("svc_").is_some_and(|name| name == maker.as_str());
    as_service || approver.as_str() == maker.as_str() || owner == Some(approver) || on_behalf_of == Some(approver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_covers_its_members_and_not_its_neighbours() {
        let family: OperationPattern = "refund.*".parse().unwrap();
        assert!(family.covers(&"refund.create".parse().unwrap()));
        assert!(!family.covers(&"refunds.create".parse().unwrap()));
        assert!("*.create".parse::<OperationPattern>().is_err());
    }

    #[test]
    fn a_limit_is_inclusive_and_stops_one_minor_unit_later() {
        let usd = "usd".parse().unwrap();
        let row = Authority {
            operations: OperationPattern::All,
            queue: "finance.refunds".parse().unwrap(),
            limit: Some(Limit {
                max_minor: 50_000,
                currency: usd,
            }),
            valid_from: Timestamp::from_millis(0),
            valid_to: Some(Timestamp::from_millis(100)),
            granted_by: "usr_root".parse().unwrap(),
        };
        let operation = "refund.create".parse().unwrap();
        let at = Timestamp::from_millis(99);
        assert!(row.covers(&operation, Some(Money::new(50_000, usd).unwrap()), at));
        assert!(!row.covers(&operation, Some(Money::new(50_001, usd).unwrap()), at));
        assert!(!row.covers(&operation, Some(Money::new(1, "eur".parse().unwrap()).unwrap()), at));
        assert!(!row.covers(&operation, None, Timestamp::from_millis(100)));
    }
}
