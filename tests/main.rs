//! The whole suite in one binary; each module is one subject.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and nothing here is anybody's interface"
)]

mod api;
mod approval;
mod architecture;
mod attacks;
mod backend;
mod cli;
#[cfg(feature = "crash-points")]
mod crash_points;
mod deploy;
mod disk;
mod edge;
mod export;
mod fakes;
mod hostile;
mod lying_backend;
mod metrics;
mod papers;
mod peers;
mod policy;
mod privacy;
mod properties;
mod prove;
mod proxy;
mod refunds;
mod sandbox;
mod store;
mod support;
mod token;
mod vectors;
mod witness;
