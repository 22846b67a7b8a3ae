//! What happened, one event a transition, and the tree that shows it to outsiders. The event and its place in the tree are written in the
//! transaction of the change they tell of, under a head that is signed with a key of the log's own.

mod case;
mod checkpoint;
mod event;
mod files;
mod head_file;
mod key;
mod receipt;
mod stop;
pub mod tree;

pub use case::{CaseGap, case_gaps};
pub use checkpoint::{CheckpointError, MAX_CHECKPOINT, SignedHead};

pub use event::{
    Actor, ActorKind, ApprovalPart, AttemptPart, CasePlace, ChangePart, ClockPart, CredentialPart, DraftPart, Event, EventBody, EventKind,
    EventOutcome, ExecutionPart, Note, PolicyPart, ProviderPart, WriterPart,
};
pub use files::{LogFiles, LogKeys, read_public};
pub use head_file::HeadFile;
pub use key::{LogKey, LogKeyError, Origin, VerifierKey};
pub use receipt::{Receipt, ReceiptError};
pub use stop::StopPart;
