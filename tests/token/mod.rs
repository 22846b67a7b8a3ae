//! Credentials: what is refused, and then what is accepted.

mod copies;
mod denials;
mod fuzz;
mod inspect;
mod key_ring;
mod library_samples;
mod minting;
mod peers;
mod secrets;
pub mod support;
mod vectors;
