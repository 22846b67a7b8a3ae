//! What happened, one event a transition, and the tree that shows it to outsiders. The event and its place in the tree are written in the
//! transaction of the change they tell of, under a head that is signed with a key of the log's own.

pub(crate) mod brief;
pub mod bundle;
mod case;
mod checkpoint;
mod disclosure;
mod durable;
mod event;
pub mod export;
mod files;
mod head_file;
mod head_line;
mod key;
mod kind;
pub mod openings;
mod parts;
mod policy;
mod privacy;
mod receipt;
pub mod scan;
pub mod source;
mod stop;
pub mod tree;
pub mod vault;
pub mod verify;
mod withhold;

pub use case::{CaseEvents, CaseGap, CasePruned};
pub use checkpoint::{CheckpointError, MAX_CHECKPOINT, SignedHead};
pub use disclosure::{Disclosure, SD_ALG, Sensitive, SensitiveField};
pub use durable::sync_dir_of;
pub use event::{Actor, ActorKind, CasePlace, Event, EventBody, EventOutcome, WriterPart};
pub(crate) use files::read_key;
pub use files::{LogFiles, LogKeys, read_log_lines, read_public};
pub use head_file::HeadFile;
pub use head_line::{head_json, head_line, heads_in_lines};
pub use key::{LogKey, LogKeyError, Origin, VerifierKey};
pub use kind::{EventKind, Note};
pub use parts::{
    ApprovalPart, AssertionPart, AttemptPart, ChangePart, ClockPart, CredentialPart, DraftPart, ExecutionPart, HeadPart, LogPart,
    PolicyPart, ProofPart, ProviderPart,
};
pub use policy::TrustPolicy;
pub use privacy::{DisclosedPart, ErasedPart, HoldPart, PrunedPart};
pub use receipt::{Receipt, ReceiptError};
pub use stop::StopPart;
pub use withhold::{WITHHELD, withhold};
