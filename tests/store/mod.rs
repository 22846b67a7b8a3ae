//! The contract of a store, checked on every store there is, over one connection and over two.

mod clock;
mod denials;
mod journey;
mod log;
mod operations;
mod races;
mod random;
mod registry;
mod results;
mod sealed;
mod sqlite;
mod stops;
pub mod world;

/// Runs each check over one connection, and over two that take turns.
macro_rules! over_one_and_two_connections {
    ($($check:ident,)*) => {
        mod over_one_connection {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $check() { super::$check(super::World::with_one_connection().await).await; })*
        }
        mod over_two_connections {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $check() { super::$check(super::World::with_two_connections().await).await; })*
        }
    };
}
use over_one_and_two_connections;
