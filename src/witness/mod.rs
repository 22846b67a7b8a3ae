//! Witnesses: others who remember the largest head of the log they have seen, and sign nothing that does not extend it. A log that is taken
//! back or rewritten, with its key or without, cannot get past them. This is the client's side of C2SP tlog-witness.

mod exchange;
mod rounds;
mod settings;
mod wire;

pub use rounds::{Parts, WitnessSeen, Witnesses};
pub use settings::{MAX_WITNESSES, Require, Settings, WitnessAt};
pub use wire::Connected;
