//! What is asked of the log: which events, and with which proofs.

use super::record::StoredEvent;
use crate::audit::tree::Hash;
use crate::audit::{EventKind, EventOutcome, Receipt, SignedHead};
use crate::domain::digest::Digest;
use crate::domain::draft::Resource;
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, RecordId};
use crate::domain::lifecycle::ExecutionState;
use crate::domain::name::{CaseId, ClientId, OperationName, PrincipalId, TenantId};
use crate::domain::time::Timestamp;

/// An event, by what it tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRef {
    /// The event with this number.
    Number(u64),
    /// That the event with this leaf hash was pruned: it is in the tree and not among the events.
    Pruned(Digest),
    /// That the draft was stored.
    Proposed(DraftId),
    /// What came of a signed record about the draft.
    Counted(DraftId, RecordId),
    /// That the credential was issued.
    Issued(CredentialId),
    /// That the draft's execution was claimed, for the last time with a credential.
    Claimed(DraftId, ExecutionId),
    /// How the draft's execution came to be as it stands.
    Reached(DraftId, ExecutionId, ExecutionState),
}

/// An event with the proof that it is in the log, by the latest head.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvenEvent {
    /// The event.
    pub event: StoredEvent,
    /// The proof.
    pub receipt: Receipt,
}

/// The way from one event to the root of the log as it was at some size.
#[derive(Debug, Clone, PartialEq)]
pub struct Inclusion {
    /// The event's leaf hash.
    pub leaf: Hash,
    /// The size.
    pub size: u64,
    /// The way up, leaf sibling first.
    pub proof: Vec<Hash>,
    /// The signed head of that size, if it is kept.
    pub head: Option<SignedHead>,
}

/// That the log of `new` events begins with that of `old`.
#[derive(Debug, Clone, PartialEq)]
pub struct Consistency {
    /// The smaller size.
    pub old: u64,
    /// The larger size.
    pub new: u64,
    /// The proof.
    pub proof: Vec<Hash>,
}

/// A tile of the tree: `width` hashes, each the root of 256^`level` events, from the one numbered 256 × `index` on (C2SP tlog-tiles).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// The level.
    pub level: u8,
    /// Which tile of the level.
    pub index: u64,
    /// How many hashes, 1 to [`Tile::FULL`].
    pub width: u16,
}

impl Tile {
    /// The hashes of a full tile.
    pub const FULL: u16 = 256;
}

/// In which order events come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were written.
    #[default]
    OldestFirst,
    /// The latest one first.
    NewestFirst,
}

/// What comes with the events of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum With {
    /// Nothing more.
    #[default]
    Events,
    /// The proof of each, by the latest head.
    Proofs,
}

/// Which events; all that are given must hold, each exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only those that this tenant may see: its own, and those of none.
    pub viewer: Option<TenantId>,
    /// The support case.
    pub case_id: Option<CaseId>,
    /// The draft.
    pub draft: Option<DraftId>,
    /// The approval.
    pub approval: Option<ApprovalId>,
    /// The credential.
    pub credential: Option<CredentialId>,
    /// Whoever signed the record.
    pub approver: Option<PrincipalId>,
    /// The client that did it.
    pub client: Option<ClientId>,
    /// The operation.
    pub operation: Option<OperationName>,
    /// What it touches, whichever version.
    pub resource: Option<Resource>,
    /// The type.
    pub kind: Option<EventKind>,
    /// How it ended.
    pub outcome: Option<EventOutcome>,
    /// Not before this moment.
    pub from: Option<Timestamp>,
    /// Before this moment.
    pub to: Option<Timestamp>,
    /// Only those that come after the event with this number, in the order that is asked for.
    pub after: Option<u64>,
    /// At most this many.
    pub limit: u32,
    /// The order.
    pub order: Order,
    /// What comes with them.
    pub with: With,
}

/// Events of one moment, and how the log stood then.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventPage {
    /// The events, in the order that was asked for.
    pub events: Vec<StoredEvent>,
    /// The proof of each, if it was asked for.
    pub receipts: Vec<Receipt>,
    /// The latest head; none of a log that is empty.
    pub head: Option<SignedHead>,
    /// Whether no event of the log as it stands is left.
    pub complete: bool,
}

impl EventPage {
    /// The number after which the next page begins; `None` where there is nothing to go on from.
    ///
    /// After all that there is it is the log's last number, whoever that event is of, so that nothing is looked through twice.
    #[must_use]
    pub fn next(&self, query: &EventQuery) -> Option<u64> {
        let last = self.events.last().map(|event| event.seq);
        match query.order {
            Order::OldestFirst if self.complete => {
                let end = self.head.as_ref().and_then(|head| head.size().checked_sub(1));
                end.max(query.after)
            }
            Order::OldestFirst => last.or(query.after),
            Order::NewestFirst if self.complete => None,
            Order::NewestFirst => last.or(query.after),
        }
    }
}
