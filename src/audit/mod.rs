//! What happened, one event a transition, and the tree that shows it to outsiders. The event and its place in the tree are written in the
//! transaction of the change they tell of, under a head that is signed with a key of the log's own.

pub(crate) mod brief;
pub mod bundle;
mod case;
mod checkpoint;
mod event;
pub mod export;
mod files;
mod head_file;
mod head_line;
mod key;
mod policy;
mod receipt;
pub mod source;
mod stop;
pub mod tree;
pub mod verify;

pub use case::{CaseGap, case_gaps};
pub use checkpoint::{CheckpointError, MAX_CHECKPOINT, SignedHead};
pub use event::{
    Actor, ActorKind, ApprovalPart, AttemptPart, CasePlace, ChangePart, ClockPart, CredentialPart, DraftPart, Event, EventBody, EventKind,
    EventOutcome, ExecutionPart, HeadPart, LogPart, Note, PolicyPart, ProofPart, ProviderPart, WriterPart,
};
pub(crate) use files::read_key;
pub use files::{LogFiles, LogKeys, read_log_lines, read_public};
pub use head_file::HeadFile;
pub use head_line::{head_json, head_line, latest_head};
pub use key::{LogKey, LogKeyError, Origin, VerifierKey};
pub use policy::TrustPolicy;
pub use receipt::{Receipt, ReceiptError};
pub use stop::StopPart;
