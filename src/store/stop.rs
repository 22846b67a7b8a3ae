//! Stops and what is taken back: what a store is asked for, and what it gives back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::DraftRecord;
use crate::domain::draft::Resource;
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, StopId};
use crate::domain::lifecycle::{ExecutionState, StopState};
use crate::domain::money::{Currency, Money};
use crate::domain::name::{OperationName, TenantId};
use crate::domain::stop::{Reason, StopScope};
use crate::domain::time::Timestamp;

/// A stop to be placed.
#[derive(Debug, Clone, Serialize)]
pub struct PlaceStop {
    /// Its id.
    pub id: StopId,
    /// The only tenant whose drafts it covers; every tenant's if there is none.
    pub tenant: Option<TenantId>,
    /// What it covers.
    pub scope: StopScope,
    /// Why.
    pub reason: Reason,
    /// First moment it no longer counts; until it is lifted if there is none.
    pub expires_at: Option<Timestamp>,
}

/// A stop to be lifted.
#[derive(Debug, Clone, Serialize)]
pub struct LiftStop {
    /// The stop.
    pub stop: StopId,
    /// Why.
    pub reason: Reason,
}

/// A granted approval to be taken back.
#[derive(Debug, Clone, Serialize)]
pub struct RevokeApproval {
    /// The approval.
    pub approval: ApprovalId,
    /// Why; the orchestrator reads it where its draft ends with it.
    pub reason: Reason,
}

/// An unspent credential to be taken back.
#[derive(Debug, Clone, Serialize)]
pub struct RevokeCredential {
    /// The credential.
    pub credential: CredentialId,
    /// A stable code.
    pub code: String,
}

/// A stop as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRecord {
    /// Its id.
    pub id: StopId,
    /// The only tenant whose drafts it covers; every tenant's if there is none.
    pub tenant: Option<TenantId>,
    /// What it covers.
    #[serde(flatten)]
    pub scope: StopScope,
    /// Why it was placed.
    pub reason: Reason,
    /// Where it stands. An active one whose time is over no longer counts.
    pub state: StopState,
    /// Who placed it.
    pub placed_by: String,
    /// When.
    pub placed_at: Timestamp,
    /// First moment it no longer counts.
    pub expires_at: Option<Timestamp>,
    /// How it ended, if it did.
    pub ended: Option<StopEnd>,
}

impl StopRecord {
    /// Whether it counts at `now`.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.state == StopState::Active && self.expires_at.is_none_or(|end| now < end)
    }
}

/// Which stops to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stops {
    /// Those that are in force.
    InForce,
    /// All of them, also those that have ended.
    All,
}

/// A page of stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopFilter {
    /// Whom they concern; everybody if there is none.
    pub viewer: Option<TenantId>,
    /// Which.
    pub which: Stops,
    /// Only stops after this one, in the order of their ids.
    pub after: Option<StopId>,
    /// At most this many.
    pub limit: u32,
}

impl StopFilter {
    /// The first page of these, whomever they concern.
    #[must_use]
    pub const fn first(which: Stops) -> Self {
        Self {
            viewer: None,
            which,
            after: None,
            limit: 100,
        }
    }
}

/// How a stop ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopEnd {
    /// Who ended it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why; nothing where its time was over.
    pub reason: Option<Reason>,
}

/// A stop with what is in flight within its scope, both as they stood at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopStanding {
    /// The stop.
    pub stop: StopRecord,
    /// Every execution it covers whose outcome is open, oldest first.
    pub in_flight: Vec<InFlight>,
}

impl StopStanding {
    /// What is in flight, added up by currency.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<Currency, Total> {
        let mut totals: BTreeMap<Currency, Total> = BTreeMap::new();
        for (money, state) in self
            .in_flight
            .iter()
            .filter_map(|open| open.amount.map(|money| (money, open.state)))
        {
            let total = totals.entry(money.currency()).or_default();
            total.executions += 1;
            total.minor = total.minor.saturating_add(money.minor());
            if state == ExecutionState::Claimed {
                total.unsent_minor = total.unsent_minor.saturating_add(money.minor());
            }
        }
        totals
    }
}

/// One execution whose outcome is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// The execution.
    pub execution: ExecutionId,
    /// Its draft.
    pub draft: DraftId,
    /// Where it stands: `claimed` was not sent, and is not while the stop counts; whatever else may have been.
    pub state: ExecutionState,
    /// The tenant.
    pub tenant: TenantId,
    /// What is done.
    pub operation: OperationName,
    /// To what.
    pub resource: Resource,
    /// How much.
    pub amount: Option<Money>,
}

/// Money of one currency in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// How many executions.
    pub executions: u32,
    /// Minor units of all of them.
    pub minor: i64,
    /// Minor units of those that were not sent, and are not while the stop counts.
    pub unsent_minor: i64,
}

/// What came of taking an approval back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedApproval {
    /// What it reached.
    pub reached: Reached,
    /// The draft as it stands now.
    pub draft: DraftRecord,
}

/// How far what an approval released had come when it was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Nothing was sent, and nothing will be: the draft is closed.
    NothingSent,
    /// A request was sent, or may have been: it is looked up, and not sent again.
    Sent,
}

impl Reached {
    /// The word used in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NothingSent => "nothing_sent",
            Self::Sent => "sent",
        }
    }
}
