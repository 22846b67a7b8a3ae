//! The journey through the front door, and everything that is refused at it before the proxy is asked.

mod access;
mod approvers;
mod audit;
mod cases;
mod documented;
mod drafts;
mod edges;
mod exchange;
mod journey;
mod openapi;
mod own_keys;
mod problem_codes;
mod proofs;
mod races;
mod ready;
mod receipts;
mod recheck;
mod records;
mod revocation;
mod stops;
mod strict_input;
mod velocity;
