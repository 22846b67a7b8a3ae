//! Adyen: a refund is received and decided later, nothing can be read, and a key gives its first answer again. How it was decided is told by a webhook.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};

use super::keys::{Claim, Keys};
use super::server::{Books, Call, Said};

pub const PAYMENT: &str = "WNS7WQ756L2GWR82";

pub struct Adyen {
    pub keys: Keys,
    received: usize,
    /// What was answered last.
    last: Value,
}

impl Adyen {
    pub fn new() -> Self {
        Self {
            keys: Keys::remembered_for(Duration::from_secs(7 * 86_400)),
            received: 0,
            last: Value::Null,
        }
    }

    fn refund(&mut self, call: &Call) -> Said {
        let Some(key) = call.headers.get("idempotency-key").filter(|key| key.len() <= 64) else {
            return validation("130");
        };
        match self.keys.claim(key, &call.raw, call.now) {
            Claim::New => {}
            Claim::Running => return in_progress(),
            // Not documented; nothing that any rule knows.
            Claim::OtherRequest => return Said::new(422, json!({ "status": 422, "errorCode": "700", "errorType": "internal" })),
            Claim::Made(answer) => return Said::new(201, serde_json::from_str(&answer).unwrap()).with("idempotency-key", key),
            Claim::Nothing => self.keys.forget(key),
        }
        let text = |name: &str| call.body[name].as_str().unwrap_or_default();
        if text("merchantAccount").is_empty() || call.body["amount"]["value"].as_i64().is_none_or(|value| value < 1) {
            self.keys.forget(key);
            return validation("137");
        }
        self.received += 1;
        let answer = json!({
            "merchantAccount": text("merchantAccount"), "paymentPspReference": PAYMENT, "pspReference": format!("993617895215{:04}", self.received),
            "reference": text("reference"), "status": "received", "amount": call.body["amount"],
        });
        self.keys.made(key, &answer.to_string());
        self.last = answer.clone();
        Said::new(201, answer).with("idempotency-key", key)
    }
}

impl Adyen {
    /// What is told of the refund that was received last: the one item of a webhook, not signed yet.
    pub fn tells(&self, event: &str, success: &str) -> Value {
        json!({
            "amount": self.last["amount"], "eventCode": event, "eventDate": "2026-11-30T01:00:00+01:00", "merchantAccountCode": self.last["merchantAccount"],
            "merchantReference": self.last["reference"], "originalReference": PAYMENT, "paymentMethod": "visa",
            "pspReference": self.last["pspReference"], "reason": "", "success": success,
        })
    }
}

/// What is signed of an item: eight values, an absent one as nothing.
fn payload(item: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let amount = &item["amount"];
    [
        &item["pspReference"],
        &item["originalReference"],
        &item["merchantAccountCode"],
        &item["merchantReference"],
        &amount["value"],
        &amount["currency"],
        &item["eventCode"],
        &item["success"],
    ]
    .map(text)
    .join(":")
}

/// The item's signature under a key of hexadecimal digits.
pub fn signature(item: &Value, key: &str) -> String {
    let bytes: Vec<u8> = (0..key.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&key[at..at + 2], 16).unwrap())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
    STANDARD.encode(hmac::sign(&key, payload(item).as_bytes()))
}

/// A webhook with this item in it, signed.
pub fn webhook(item: &Value, key: &str) -> String {
    let mut item = item.clone();
    item["additionalData"] = json!({ "hmacSignature": signature(&item, key), "bookingDate": "2026-11-30T00:59:58Z" });
    wrapped(&item)
}

/// A webhook with this item as it is.
pub fn wrapped(item: &Value) -> String {
    json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": item }] }).to_string()
}

fn validation(code: &str) -> Said {
    Said::new(
        422,
        json!({ "status": 422, "errorCode": code, "message": "as it says", "errorType": "validation" }),
    )
}

/// Another request under the key is running.
pub fn in_progress() -> Said {
    let body =
        json!({ "status": 422, "errorCode": "704", "message": "request already processed or in progress", "errorType": "validation" });
    Said::new(422, body).with("transient-error", "true")
}

/// The store of keys is away, before anything runs.
pub fn keys_away() -> Said {
    Said::new(503, json!({ "status": 503, "errorCode": "703", "errorType": "internal" })).with("transient-error", "true")
}

/// An error that says nothing of another try.
pub fn broken() -> Said {
    Said::new(500, json!({ "status": 500, "errorCode": "000", "errorType": "internal" })).with("transient-error", "false")
}

impl Books for Adyen {
    fn secret(headers: &BTreeMap<String, String>) -> Option<String> {
        headers.get("x-api-key").cloned()
    }

    fn is_write(call: &Call) -> bool {
        call.method == "POST"
    }

    fn unauthorized(_: &Call) -> Said {
        Said::new(403, json!({ "status": 403, "errorCode": "010", "errorType": "security" }))
    }

    fn answer(&mut self, call: &Call) -> Said {
        match (call.method.as_str(), call.segments().as_slice()) {
            ("POST", ["v71", "payments", PAYMENT, "refunds"]) => self.refund(call),
            _ => Said::new(404, json!({ "status": 404 })),
        }
    }

    fn run_slowly(&mut self) {
        self.keys.run_slowly();
    }

    fn finish(&mut self) {
        self.keys.finish();
    }

    fn effects(&self) -> usize {
        self.received
    }
}
