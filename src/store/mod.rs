//! Where state is kept: the contract in transitions, and the stores that keep it.

pub mod contract;
pub mod record;
pub mod sqlite;

pub use contract::{Applied, Op, Rejection, Store, StoreError};
