//! Approval records: what is refused, and then what is accepted.

mod denials;
mod peers;
mod signing;
mod step_up;
mod stored;
pub mod support;
mod vectors;
