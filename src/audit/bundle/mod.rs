//! The bundle: a part of the log as a directory that anybody can check without this program. It is a C2SP tlog-tiles directory, with the events as
//! lines, receipts for those of a case, the keys, older heads, and a list of the files.

mod check;
mod dir;
pub(crate) mod layout;
pub(crate) mod lines;
mod manifest;
mod pruned;
mod read;
mod write;

pub(crate) use check::check;
pub(crate) use dir::has_place;
pub(crate) use layout::WIDTH;
pub use manifest::{ListedFile, Manifest, What};
pub use pruned::pruned_before;
pub(crate) use pruned::{BEFORE, TOLD};
pub use read::Bundle;
pub use write::{BundleError, Request, Written, write};
pub(crate) use write::{missing, sound_head};
