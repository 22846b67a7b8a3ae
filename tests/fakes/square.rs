//! Square: the key in the body, a version token that the write may carry, refunds that settle later, and a payment whose list of refunds lags behind.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::keys::{Claim, Keys};
use super::server::{Books, Call, Said};

/// A payment of 400.00 in the fake's currency.
pub const PAYMENT: &str = "pay_UNOE3kv2BZwq";
/// Its customer.
pub const CUSTOMER: &str = "sq_customer_1";

pub struct Refund {
    pub id: String,
    pub status: &'static str,
    amount: i64,
    reason: String,
}

pub struct Square {
    pub amount: i64,
    pub currency: &'static str,
    pub version: u64,
    /// What a new refund begins as.
    pub begins: &'static str,
    /// How many of the newest refunds the payment does not name yet.
    pub lag: usize,
    pub keys: Keys,
    pub refunds: Vec<Refund>,
}

impl Square {
    pub fn new(amount: i64, currency: &'static str) -> Self {
        Self {
            amount,
            currency,
            version: 1,
            begins: "COMPLETED",
            lag: 0,
            keys: Keys::remembered_for(Duration::from_secs(24 * 3600)),
            refunds: Vec::new(),
        }
    }

    fn refunded(&self) -> i64 {
        let holds = |refund: &&Refund| matches!(refund.status, "PENDING" | "COMPLETED");
        self.refunds.iter().filter(holds).map(|refund| refund.amount).sum()
    }

    fn money(&self, amount: i64) -> Value {
        json!({ "amount": amount, "currency": self.currency })
    }

    fn payment(&self) -> Value {
        let mut shown = json!({
            "id": PAYMENT, "status": "COMPLETED", "amount_money": self.money(self.amount), "location_id": "L88917AVBK2S5",
            "customer_id": CUSTOMER, "version_token": format!("token-{}", self.version),
            "card_details": { "card": { "last_4": "1111" } },
        });
        // Both are left out as long as there is nothing to say.
        if !self.refunds.is_empty() {
            shown["refunded_money"] = self.money(self.refunded());
            let named = self.refunds.len().saturating_sub(self.lag);
            shown["refund_ids"] = self.refunds[..named].iter().map(|refund| json!(refund.id)).collect();
        }
        json!({ "payment": shown })
    }

    fn shown(&self, id: &str) -> Option<Value> {
        let refund = self.refunds.iter().find(|refund| refund.id == id)?;
        Some(json!({ "refund": {
            "id": refund.id, "status": refund.status, "payment_id": PAYMENT, "amount_money": self.money(refund.amount),
            "reason": refund.reason, "location_id": "L88917AVBK2S5",
        } }))
    }

    fn refund(&mut self, call: &Call) -> Said {
        let text = |name: &str| call.body[name].as_str().unwrap_or_default().to_owned();
        let key = text("idempotency_key");
        if key.is_empty() || key.len() > 45 {
            return error(400, "INVALID_REQUEST_ERROR", "VALUE_TOO_LONG");
        }
        match self.keys.claim(&key, &call.raw, call.now) {
            Claim::New => {}
            // Not documented; what a busy server may well say.
            Claim::Running => return error(409, "API_ERROR", "CONFLICT"),
            Claim::OtherRequest => return error(400, "INVALID_REQUEST_ERROR", "IDEMPOTENCY_KEY_REUSED"),
            Claim::Made(id) => return Said::new(200, self.shown(&id).unwrap()),
            Claim::Nothing => self.keys.forget(&key),
        }
        if text("payment_id") != PAYMENT {
            self.keys.forget(&key);
            return error(404, "INVALID_REQUEST_ERROR", "NOT_FOUND");
        }
        if text("payment_version_token") != format!("token-{}", self.version) {
            self.keys.forget(&key);
            return error(409, "INVALID_REQUEST_ERROR", "VERSION_MISMATCH");
        }
        let amount = call.body["amount_money"]["amount"].as_i64().unwrap_or_default();
        let sound = call.body["amount_money"]["currency"] == self.currency && amount > 0;
        if !sound || amount > self.amount - self.refunded() {
            self.keys.forget(&key);
            return error(400, "REFUND_ERROR", "REFUND_AMOUNT_INVALID");
        }
        let id = format!("{PAYMENT}_refund_{}", self.refunds.len() + 1);
        self.refunds.push(Refund {
            id: id.clone(),
            status: self.begins,
            amount,
            reason: text("reason"),
        });
        self.version += 1;
        self.keys.made(&key, &id);
        Said::new(200, self.shown(&id).unwrap())
    }
}

fn error(status: u16, category: &str, code: &str) -> Said {
    Said::new(
        status,
        json!({ "errors": [{ "category": category, "code": code, "detail": "as it says" }] }),
    )
}

/// What the limiter says, before anything runs.
pub fn limited() -> Said {
    error(429, "RATE_LIMIT_ERROR", "RATE_LIMITED").with("retry-after", "1")
}

/// What a server says that has failed within.
pub fn broken() -> Said {
    error(500, "API_ERROR", "INTERNAL_SERVER_ERROR")
}

impl Books for Square {
    fn secret(headers: &BTreeMap<String, String>) -> Option<String> {
        headers.get("authorization")?.strip_prefix("Bearer ").map(str::to_owned)
    }

    fn is_write(call: &Call) -> bool {
        call.method == "POST"
    }

    fn unauthorized(call: &Call) -> Said {
        match call.method.as_str() {
            "POST" => error(403, "AUTHENTICATION_ERROR", "INSUFFICIENT_SCOPES"),
            _ => error(401, "AUTHENTICATION_ERROR", "UNAUTHORIZED"),
        }
    }

    fn answer(&mut self, call: &Call) -> Said {
        let missing = || error(404, "INVALID_REQUEST_ERROR", "NOT_FOUND");
        if !call.headers.contains_key("square-version") {
            return error(400, "INVALID_REQUEST_ERROR", "INVALID_SQUARE_VERSION_FORMAT");
        }
        match (call.method.as_str(), call.segments().as_slice()) {
            ("GET", ["v2", "payments", PAYMENT]) => Said::new(200, self.payment()),
            ("GET", ["v2", "refunds", id]) => self.shown(id).map_or_else(missing, |body| Said::new(200, body)),
            ("POST", ["v2", "refunds"]) => self.refund(call),
            _ => missing(),
        }
    }

    fn run_slowly(&mut self) {
        self.keys.run_slowly();
    }

    fn finish(&mut self) {
        self.keys.finish();
    }

    fn effects(&self) -> usize {
        self.refunds.len()
    }
}

/// A refusal under this code.
pub fn refused(code: &str) -> Said {
    error(400, "REFUND_ERROR", code)
}

/// The payment has another version than the one that was sent.
pub fn stale() -> Said {
    error(409, "INVALID_REQUEST_ERROR", "VERSION_MISMATCH")
}
