//! Files in TOML that an operator writes: read key by key, every mistake noted with its place and its remedy, unknown keys refused.

mod address;
mod mistake;
mod section;
mod unreadable;

pub(crate) use address::without_secrets;
pub(crate) use mistake::Log;
pub use mistake::{Mistake, Mistakes};
pub(crate) use section::{Section, duration, one_of};
pub(crate) use unreadable::why_not;
