//! What waits for somebody or something, counted: what the metrics tell of the store.

use super::record::EventFinding;
use crate::domain::lifecycle::{DraftState, ExecutionState};
use crate::domain::name::QueueName;
use crate::domain::time::Timestamp;

/// What waits for somebody or something, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Drafts that are open, by state.
    pub drafts: Vec<OpenDrafts>,
    /// Approval requests that wait for people, by queue; one that needs two queues counts in both.
    pub queues: Vec<OpenQueue>,
    /// Executions whose outcome is not known, by state.
    pub executions: Vec<OpenExecutions>,
    /// The money of those executions, by currency.
    pub money: Vec<OpenMoney>,
    /// What backends told that does not fit, or is not confirmed, by what was made of it.
    pub events: Vec<OddEvents>,
    /// The stops that were placed and neither lifted nor over, if there are any.
    pub stops: Option<OpenStops>,
}

/// What backends told that does not fit what is known, or that nothing confirms, of one finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddEvents {
    /// What was made of it.
    pub finding: EventFinding,
    /// How many.
    pub count: u64,
    /// When the last of them came.
    pub last: Timestamp,
}

/// Stops that are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenStops {
    /// How many.
    pub count: u64,
    /// When the first of them was placed.
    pub since: Timestamp,
}

/// Drafts in one open state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDrafts {
    /// The state.
    pub state: DraftState,
    /// How many.
    pub count: u64,
    /// When the first of them came into it.
    pub since: Timestamp,
}

/// Approval requests that wait for people of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQueue {
    /// The queue.
    pub queue: QueueName,
    /// How many.
    pub count: u64,
    /// When the first of them was asked.
    pub since: Timestamp,
}

/// Executions in one state whose outcome is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenExecutions {
    /// The state.
    pub state: ExecutionState,
    /// How many.
    pub count: u64,
    /// When the first of them was claimed.
    pub since: Timestamp,
}

/// The money of executions whose outcome is not known, in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMoney {
    /// The currency, as the drafts have it.
    pub currency: String,
    /// The sum, in minor units.
    pub minor: i64,
}
