//! What happened, one event a transition, and the tree that shows it to outsiders. The event and its place in the tree are written in the
//! transaction of the change they tell of, under a head that is signed with a key of the log's own.

pub(crate) mod brief;
pub mod bundle;
mod checkpoint;
mod event;
pub mod export;
mod files;
mod head_file;
mod key;
mod policy;
mod receipt;
pub mod scan;
pub mod source;
mod stop;
pub mod tree;
pub mod verify;
mod withhold;

pub use checkpoint::{CheckpointError, MAX_CHECKPOINT, SignedHead};
pub use event::{
    Actor, ActorKind, ApprovalPart, AttemptPart, CasePlace, ChangePart, ClockPart, CredentialPart, DraftPart, Event, EventBody, EventKind,
    EventOutcome, ExecutionPart, HeadPart, LogPart, Note, PolicyPart, ProviderPart, WriterPart,
};
pub(crate) use files::read_key;
pub use files::{LogFiles, LogKeys, read_log_lines};
pub use head_file::HeadFile;
pub use key::{LogKey, LogKeyError, Origin, VerifierKey};
pub use policy::TrustPolicy;
pub use receipt::{Receipt, ReceiptError};
pub use stop::StopPart;
pub use withhold::{WITHHELD, withhold};
