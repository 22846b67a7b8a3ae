//! Adyen: a refund is received and decided later, nothing can be read, and a key gives its first answer again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::keys::{Claim, Keys};
use super::server::{Books, Call, Said};

pub const PAYMENT: &str = "WNS7WQ756L2GWR82";

pub struct Adyen {
    pub keys: Keys,
    received: usize,
}

impl Adyen {
    pub fn new() -> Self {
        Self {
            keys: Keys::remembered_for(Duration::from_secs(7 * 86_400)),
            received: 0,
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
        Said::new(201, answer).with("idempotency-key", key)
    }
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
