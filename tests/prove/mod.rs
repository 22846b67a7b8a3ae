//! The denial prover, as a process: against a deployment that is right everything holds, and of one that lets something through it says so.

mod documented;
mod honest;
mod liar;
mod lies;
mod log;
mod poor;
mod report;
mod support;
