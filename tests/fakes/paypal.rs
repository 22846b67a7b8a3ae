//! PayPal: one capture, decimal amounts, a key that shows how its refund stands now, an invoice id that is taken once, and no list of refunds.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use writ::domain::money;

use super::keys::{Claim, Keys};
use super::server::{Books, Call, Said};

pub const CAPTURE: &str = "2GG279541U471931P";

pub struct Refund {
    pub id: String,
    pub status: &'static str,
    amount: i64,
    body: Value,
}

pub struct PayPal {
    amount: i64,
    currency: &'static str,
    exponent: u8,
    /// What a new refund begins as.
    pub begins: &'static str,
    pub updates: u32,
    pub keys: Keys,
    pub refunds: Vec<Refund>,
}

impl PayPal {
    pub fn new(amount: i64, currency: &'static str, exponent: u8) -> Self {
        Self {
            amount,
            currency,
            exponent,
            begins: "COMPLETED",
            updates: 0,
            keys: Keys::remembered_for(Duration::from_secs(45 * 86_400)),
            refunds: Vec::new(),
        }
    }

    fn refunded(&self) -> i64 {
        let holds = |refund: &&Refund| matches!(refund.status, "PENDING" | "COMPLETED");
        self.refunds.iter().filter(holds).map(|refund| refund.amount).sum()
    }

    fn money(&self, minor: i64) -> Value {
        json!({ "value": money::decimal(minor, self.exponent), "currency_code": self.currency })
    }

    fn capture(&self) -> Value {
        let status = match self.refunded() {
            0 => "COMPLETED",
            all if all == self.amount => "REFUNDED",
            _ => "PARTIALLY_REFUNDED",
        };
        let updated = format!("2026-09-21T14:{:02}:00Z", self.updates);
        json!({ "id": CAPTURE, "status": status, "amount": self.money(self.amount), "final_capture": true, "update_time": updated })
    }

    fn shown(&self, id: &str) -> Option<Value> {
        let refund = self.refunds.iter().find(|refund| refund.id == id)?;
        Some(json!({
            "id": refund.id, "status": refund.status, "amount": self.money(refund.amount),
            "invoice_id": refund.body["invoice_id"], "custom_id": refund.body["custom_id"],
            "links": [
                { "rel": "self", "method": "GET", "href": format!("https://api-m.paypal.com/v2/payments/refunds/{}", refund.id) },
                { "rel": "up", "method": "GET", "href": format!("https://api-m.paypal.com/v2/payments/captures/{CAPTURE}") },
            ],
        }))
    }

    fn refund(&mut self, call: &Call) -> Said {
        let Some(key) = call.headers.get("paypal-request-id").filter(|key| key.len() <= 38) else {
            return error(400, "INVALID_REQUEST", "INVALID_STRING_LENGTH");
        };
        match self.keys.claim(key, &call.raw, call.now) {
            Claim::New => {}
            Claim::Running => return error(409, "RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS"),
            Claim::OtherRequest => return Said::new(400, json!({ "name": "DUPLICATE_REQUEST_ID", "message": "used before" })),
            Claim::Made(id) => return represented(call, 200, self.shown(&id).unwrap()),
            Claim::Nothing => self.keys.forget(key),
        }
        let refused = |books: &mut Self, issue: &str| {
            books.keys.forget(key);
            error(422, "UNPROCESSABLE_ENTITY", issue)
        };
        if self
            .refunds
            .iter()
            .any(|refund| refund.body["invoice_id"] == call.body["invoice_id"])
        {
            return refused(self, "DUPLICATE_INVOICE_ID");
        }
        let amount = money::minor(call.body["amount"]["value"].as_str().unwrap_or_default(), self.exponent).unwrap_or(0);
        if call.body["amount"]["currency_code"] != self.currency {
            return refused(self, "REFUND_CAPTURE_CURRENCY_MISMATCH");
        }
        if self.refunded() == self.amount {
            return refused(self, "CAPTURE_FULLY_REFUNDED");
        }
        if amount < 1 || amount > self.amount - self.refunded() {
            return refused(self, "REFUND_AMOUNT_EXCEEDED");
        }
        let id = format!("1JU08902781691{:03}", self.refunds.len());
        self.refunds.push(Refund {
            id: id.clone(),
            status: self.begins,
            amount,
            body: call.body.clone(),
        });
        self.updates += 1;
        self.keys.made(key, &id);
        represented(call, 201, self.shown(&id).unwrap())
    }
}

/// The whole refund, if it was asked for; otherwise its id and status.
fn represented(call: &Call, status: u16, refund: Value) -> Said {
    if call.headers.get("prefer").is_some_and(|prefer| prefer == "return=representation") {
        return Said::new(status, refund);
    }
    Said::new(
        status,
        json!({ "id": refund["id"], "status": refund["status"], "links": refund["links"] }),
    )
}

/// An error with one issue.
pub fn error(status: u16, name: &str, issue: &str) -> Said {
    let detail = json!({ "issue": issue, "description": "as it says" });
    Said::new(
        status,
        json!({ "name": name, "message": "as it says", "debug_id": "90957fca61718", "details": [detail] }),
    )
}

impl Books for PayPal {
    fn secret(headers: &BTreeMap<String, String>) -> Option<String> {
        let text = headers.get("authorization")?.strip_prefix("Basic ")?;
        String::from_utf8(STANDARD.decode(text).ok()?).ok()
    }

    fn is_write(call: &Call) -> bool {
        call.method == "POST"
    }

    fn unauthorized(call: &Call) -> Said {
        match call.method.as_str() {
            "POST" => Said::new(
                403,
                json!({ "name": "NOT_AUTHORIZED", "details": [{ "issue": "PERMISSION_DENIED" }] }),
            ),
            _ => Said::new(401, json!({ "name": "AUTHENTICATION_FAILURE" })),
        }
    }

    fn answer(&mut self, call: &Call) -> Said {
        let missing = || error(404, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID");
        match (call.method.as_str(), call.segments().as_slice()) {
            ("GET", ["v2", "payments", "captures", CAPTURE]) => Said::new(200, self.capture()),
            ("GET", ["v2", "payments", "refunds", id]) => self.shown(id).map_or_else(missing, |body| Said::new(200, body)),
            ("POST", ["v2", "payments", "captures", CAPTURE, "refund"]) => self.refund(call),
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
