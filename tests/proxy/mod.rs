//! The execution proxy, through its router, on a real store, before a real backend: at most once, whatever happens.

mod clocks;
mod columns;
mod copies;
mod denials;
mod documents;
mod faults;
mod handed_off;
mod handoffs;
mod leases;
mod logged;
mod parallel;
mod pending;
mod preconditions;
mod processes;
mod proofs;
mod reads;
mod replays;
mod restarts;
mod roles;
mod stops;
mod store_fails;
pub mod support;
mod together;
pub mod told;
mod window;
