//! Refund servers of our own, each written from a provider's published shapes: a real HTTP server with books and with that provider's idempotency.

pub mod adyen;
pub mod keys;
pub mod paypal;
pub mod server;
pub mod shopify;
pub mod square;
