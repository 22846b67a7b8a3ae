//! Where state is kept: the contract in transitions, and the stores that keep it.

pub mod backlog;
pub mod case;
pub mod contract;
mod error;
pub mod health;
mod insist;
pub mod intent;
pub mod log;
pub mod record;
pub mod retention;
pub mod sqlite;
pub mod stop;
pub mod tally;

pub use contract::{Applied, Op, Store};
pub use error::{Busy, Rejection, StoreError};
pub use health::Health;
pub use insist::{PATIENCE, insist};
