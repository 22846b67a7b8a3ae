//! What happened, one event a transition. The event is written in the transaction of the change it tells of, with a gapless sequence
//! number; the tree over these bytes comes later and needs nothing but them.

mod event;
mod stop;

pub use event::{
    Actor, ActorKind, ApprovalPart, AttemptPart, ChangePart, ClockPart, CredentialPart, DraftPart, Event, EventBody, EventKind,
    EventOutcome, ExecutionPart, Note, PolicyPart, ProofPart, ProviderPart,
};
pub use stop::StopPart;
