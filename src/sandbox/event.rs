//! What the provider tells by itself: an event about a refund, and the signature it is delivered with.

use ring::hmac;
use serde_json::{Value, json};

use super::payments::Refund;
use crate::domain::clock::Entropy;
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;

use super::world::fresh_id;

/// The event's bytes: what happened (`refund.updated`, say), to which refund, as it stands.
pub(super) fn body(kind: &str, refund: &Refund, now: Timestamp, entropy: &dyn Entropy) -> String {
    let event: Value = json!({
        "id": fresh_id(entropy, "evt"),
        "object": "event",
        "created": now.seconds(),
        "data": { "object": refund },
        "livemode": false,
        "pending_webhooks": 1,
        "request": { "id": null, "idempotency_key": null },
        "type": kind,
    });
    event.to_string()
}

/// The value of the header `Stripe-Signature` for these bytes.
#[must_use]
pub fn event_signature(secret: &Secret, at: Timestamp, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
    let seconds = at.seconds();
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}
