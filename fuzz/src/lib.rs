//! What must hold whatever bytes come in: one function for each reader, which panics where it does not. The tests replay them over the corpus,
//! and libFuzzer drives them through `fuzz_targets/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_docs,
    reason = "a finding is a panic, and nothing here is anybody's interface"
)]

pub mod answers;
pub mod backends;
pub mod config;
pub mod draft;
pub mod edit;
pub mod json;
pub mod policy;
pub mod record;
pub mod token;
