//! What one credential is good for.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::domain::digest::DraftHash;
use crate::domain::draft::Resource;
use crate::domain::id::{ApprovalId, CredentialId};
use crate::domain::name::{Audience, OperationName, ResourceId, ResourceType, TenantId};
use crate::domain::time::Timestamp;

use super::CLOCK_SKEW;

/// A resource of one tenant, written `tenant/type:id`.
///
/// One text has one reading: no tenant holds a slash and no type a colon, so the first of each divides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantResource {
    /// Whose.
    pub tenant: TenantId,
    /// Its kind.
    pub kind: ResourceType,
    /// The backend's id for it.
    pub id: ResourceId,
}

impl GrantResource {
    /// The resource of a draft. Its version is part of the draft's hash and not named again.
    #[must_use]
    pub fn new(tenant: TenantId, resource: &Resource) -> Self {
        Self {
            tenant,
            kind: resource.kind.clone(),
            id: resource.id.clone(),
        }
    }
}

impl fmt::Display for GrantResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.tenant, self.kind, self.id)
    }
}

/// The text is not `tenant/type:id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a resource of a tenant: expected `tenant/type:id`")]
pub struct GrantResourceError;

impl FromStr for GrantResource {
    type Err = GrantResourceError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (tenant, rest) = text.split_once('/').ok_or(GrantResourceError)?;
        let (kind, id) = rest.split_once(':').ok_or(GrantResourceError)?;
        Ok(Self {
            tenant: tenant.parse().map_err(|_| GrantResourceError)?,
            kind: kind.parse().map_err(|_| GrantResourceError)?,
            id: id.parse().map_err(|_| GrantResourceError)?,
        })
    }
}

impl Serialize for GrantResource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One operation on one resource for one draft, at one audience, for about a minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// What may be done.
    pub operation: OperationName,
    /// To what.
    pub resource: GrantResource,
    /// The draft that was approved, byte for byte.
    pub draft_hash: DraftHash,
    /// Which proxies may act on it: they share one record of what was spent.
    pub audience: Audience,
    /// The credential's id.
    pub credential: CredentialId,
    /// The approval behind it. What is spent once is keyed on this and never on the token's bytes, which anybody can rewrite while the signature holds.
    pub jti: ApprovalId,
    /// First second it holds.
    pub not_before: Timestamp,
    /// First second it holds no longer.
    pub expires_at: Timestamp,
}

impl Grant {
    /// The window of a credential issued at `now` for `lifetime`, in whole seconds: from a little earlier, for a proxy whose clock is behind.
    #[must_use]
    pub fn window(now: Timestamp, lifetime: Duration) -> (Timestamp, Timestamp) {
        let whole = |at: Timestamp| Timestamp::from_seconds(at.seconds());
        (whole(now.minus(CLOCK_SKEW)), whole(now.plus(lifetime)))
    }
}
