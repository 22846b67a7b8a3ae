//! The whole suite in one binary; each module is one subject.

mod api;
mod approval;
mod architecture;
mod backend;
mod cli;
mod papers;
mod peers;
mod policy;
mod proxy;
mod sandbox;
mod store;
mod support;
mod token;
mod vectors;
