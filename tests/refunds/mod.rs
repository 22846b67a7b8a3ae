//! Refunds at the backends that come as examples, each end to end through the front door against a server of our own that follows its provider's shapes.

mod adyen;
mod adyen_events;
mod paypal;
mod shopify;
mod square;
mod support;
