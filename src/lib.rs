//! writ: a short-lived credential broker for agents, with a thin execution proxy.
//!
//! The modules stand in the order of the journey of one refund, from the outside in; imports point downwards only.

pub mod cli;
pub mod demo;
pub mod prove;

pub mod app;
pub mod config;
pub mod setup;

pub mod http;

pub mod metrics;

pub mod broker;
pub mod proxy;
pub mod witness;

pub mod approval;
pub mod backend;
pub mod policy;
pub mod store;
pub mod token;

pub mod crash_points;

pub mod audit;

pub mod edge;

pub mod settings;

pub mod domain;

pub mod sandbox;
