//! Shopify: GraphQL by POST alone, the key as a directive, errors inside an answer of 200, amounts as decimals of its own making.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use writ::domain::money;

use super::keys::{Claim, Keys};
use super::server::{Books, Call, Said};

pub const ORDER: &str = "1001";
pub const TRANSACTION: &str = "2001";
const ORDER_GID: &str = "gid://shopify/Order/1001";
const TRANSACTION_GID: &str = "gid://shopify/OrderTransaction/2001";

struct Refund {
    amount: i64,
    note: String,
}

pub struct Shopify {
    amount: i64,
    currency: &'static str,
    exponent: u8,
    pub updates: u32,
    /// Whether the order's list shows what was made last.
    pub lists: bool,
    pub keys: Keys,
    refunds: Vec<Refund>,
}

impl Shopify {
    pub fn new(amount: i64, currency: &'static str, exponent: u8) -> Self {
        Self {
            amount,
            currency,
            exponent,
            updates: 0,
            lists: true,
            keys: Keys::remembered_for(Duration::from_secs(86_400)),
            refunds: Vec::new(),
        }
    }

    fn refunded(&self) -> i64 {
        self.refunds.iter().map(|refund| refund.amount).sum()
    }

    /// A decimal without the zeros that say nothing, but for one: `240.0`.
    fn money(&self, minor: i64) -> Value {
        let text = money::decimal(minor, self.exponent);
        let text = match text.split_once('.') {
            None => format!("{text}.0"),
            Some((whole, fraction)) => {
                let kept = fraction.trim_end_matches('0');
                format!("{whole}.{}", if kept.is_empty() { "0" } else { kept })
            }
        };
        json!({ "presentmentMoney": { "amount": text, "currencyCode": self.currency } })
    }

    fn shown(&self, index: usize) -> Value {
        let refund = &self.refunds[index];
        json!({
            "id": format!("gid://shopify/Refund/{}", 3001 + index), "note": refund.note, "order": { "id": ORDER_GID },
            "totalRefundedSet": self.money(refund.amount),
        })
    }

    fn order(&self, variables: &Value) -> Value {
        if variables["order"] != ORDER_GID {
            return json!({ "data": { "order": null, "transaction": null } });
        }
        let transaction = json!({
            "id": TRANSACTION_GID, "kind": "SALE", "status": "SUCCESS", "gateway": "shopify_payments", "order": { "id": ORDER_GID },
            "amountSet": self.money(self.amount),
        });
        let known = variables["transaction"] == TRANSACTION_GID;
        json!({ "data": {
            "order": {
                "id": ORDER_GID, "updatedAt": format!("2026-09-21T14:{:02}:00Z", self.updates), "customer": { "id": "gid://shopify/Customer/7" },
                "totalReceivedSet": self.money(self.amount), "totalRefundedSet": self.money(self.refunded()),
            },
            "transaction": if known { transaction } else { Value::Null },
        } })
    }

    fn list(&self) -> Value {
        let shown = if self.lists { self.refunds.len() } else { 0 };
        json!({ "data": { "order": { "refunds": (0..shown).map(|index| self.shown(index)).collect::<Vec<_>>() } } })
    }

    fn refund(&mut self, call: &Call) -> Value {
        let variables = &call.body["variables"];
        let Some(key) = variables["key"].as_str() else {
            return json!({ "errors": [{ "message": "The @idempotent directive is required", "extensions": { "code": "BAD_REQUEST" } }] });
        };
        match self.keys.claim(key, &call.raw, call.now) {
            Claim::New => {}
            Claim::Running => return user_error("This request is currently in progress, please try again."),
            Claim::OtherRequest => {
                return user_error("The same idempotency key cannot be used with different operation parameters.");
            }
            Claim::Made(index) => return self.created(index.parse().unwrap()),
            Claim::Nothing => self.keys.forget(key),
        }
        let input = &variables["input"];
        let transaction = &input["transactions"][0];
        let amount = money::minor(transaction["amount"].as_str().unwrap_or_default(), self.exponent).unwrap_or(0);
        let sound = input["orderId"] == ORDER_GID
            && transaction["parentId"] == TRANSACTION_GID
            && transaction["gateway"] == "shopify_payments"
            && input["currency"] == self.currency;
        if !sound || amount < 1 || amount > self.amount - self.refunded() {
            self.keys.forget(key);
            return user_error("Refund amount cannot be greater than the amount that is left");
        }
        self.refunds.push(Refund {
            amount,
            note: input["note"].as_str().unwrap_or_default().to_owned(),
        });
        self.updates += 1;
        let index = self.refunds.len() - 1;
        self.keys.made(key, &index.to_string());
        self.created(index)
    }

    fn created(&self, index: usize) -> Value {
        json!({ "data": { "refundCreate": { "refund": self.shown(index), "userErrors": [] } } })
    }
}

/// A refusal inside a 200.
pub fn user_error(message: &str) -> Value {
    json!({ "data": { "refundCreate": { "refund": null, "userErrors": [{ "field": ["input"], "message": message }] } } })
}

/// An error of the whole request inside a 200.
pub fn top_error(code: &str) -> Value {
    json!({ "errors": [{ "message": "as it says", "extensions": { "code": code } }] })
}

impl Books for Shopify {
    fn secret(headers: &BTreeMap<String, String>) -> Option<String> {
        headers.get("x-shopify-access-token").cloned()
    }

    fn is_write(call: &Call) -> bool {
        call.body["query"]
            .as_str()
            .is_some_and(|query| query.trim_start().starts_with("mutation"))
    }

    fn unauthorized(call: &Call) -> Said {
        let message = if Self::is_write(call) {
            "Access denied"
        } else {
            "Invalid API key or access token"
        };
        Said::new(401, json!({ "errors": message }))
    }

    fn answer(&mut self, call: &Call) -> Said {
        let query = call.body["query"].as_str().unwrap_or_default();
        let variables = &call.body["variables"];
        if call.method != "POST" || call.path != "/admin/api/2026-04/graphql.json" {
            return Said::new(404, json!({ "errors": "Not Found" }));
        }
        let body = if query.contains("refundCreate(input: $input) @idempotent(key: $key)") {
            self.refund(call)
        } else if query.contains("refunds(first: 250)") {
            self.list()
        } else if query.contains("transaction: node(id: $transaction)") {
            self.order(variables)
        } else {
            top_error("undefinedField")
        };
        Said::new(200, body)
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
