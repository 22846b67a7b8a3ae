//! The real binary, in temporary directories.

mod approve;
pub mod audit;
mod audit_reads;
mod backend;
mod clock;
mod config;
mod contract;
mod demo;
mod init;
mod policy;
mod registry;
mod retention;
mod serve;
mod stop;
pub mod support;
mod surface;
mod token;
