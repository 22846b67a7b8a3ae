//! Refund servers of our own, each written from a provider's published shapes: a real HTTP server with books and with that provider's idempotency.

pub mod keys;
pub mod server;
pub mod square;
