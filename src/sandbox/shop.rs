//! Orders and customers, each customer with a version that a change must name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::json::Json;

use super::answer::{Answer, ErrorAnswer, ErrorType, missing};
use super::endpoint::{Call, Outcome};

/// Where parcels go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    pub(super) line1: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) line2: Option<String>,
    pub(super) city: String,
    pub(super) postal_code: String,
    pub(super) country: String,
}

/// A customer's record.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Customer {
    pub(super) id: String,
    pub(super) object: &'static str,
    pub(super) version: u64,
    pub(super) name: String,
    pub(super) email: String,
    pub(super) shipping_address: Address,
}

/// What may be changed: one thing at a time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    shipping_address: Option<Address>,
    email: Option<String>,
}

/// The shop's side of the books.
#[derive(Debug, Default)]
pub(super) struct Shop {
    pub(super) orders: BTreeMap<String, Value>,
    pub(super) customers: BTreeMap<String, Customer>,
}

type Answered = Result<Outcome, ErrorAnswer>;

impl Shop {
    pub(super) fn customer(&self, id: &str) -> Option<(u64, Value)> {
        self.customers.get(id).map(|customer| (customer.version, json!(customer)))
    }

    pub(super) fn show_order(&self, id: &str) -> Answered {
        let order = self.orders.get(id).ok_or_else(|| missing("order", id, "id"))?;
        let version = order.get("version").and_then(Value::as_u64).unwrap_or_default();
        Ok(Outcome::Unchanged(Answer::ok(order.clone()).with("etag", entity_tag(version))))
    }

    pub(super) fn show_customer(&self, id: &str) -> Answered {
        let customer = self.customers.get(id).ok_or_else(|| missing("customer", id, "id"))?;
        Ok(Outcome::Unchanged(shown(customer)))
    }

    pub(super) fn patch_customer(&mut self, id: &str, call: &Call<'_>) -> Answered {
        let customer = self.customers.get_mut(id).ok_or_else(|| missing("customer", id, "id"))?;
        let expected = call.if_match.ok_or_else(|| {
            let message = "If-Match is missing: send the ETag of the version you read";
            ErrorAnswer::new(428, ErrorType::InvalidRequest, message).code("precondition_required")
        })?;
        let patch: Patch = Json::parse(call.body).and_then(|json| json.decode()).map_err(|error| {
            ErrorAnswer::new(400, ErrorType::InvalidRequest, error.to_string())
                .code("body_invalid")
                .param(&error.pointer)
        })?;
        let current = entity_tag(customer.version);
        // RFC 9110 section 13.1.1: a list of tags, compared strongly, or `*` for any version there is.
        if !expected
            .split(',')
            .any(|tag| matches!(tag.trim(), tag if tag == "*" || tag == current))
        {
            let message = format!("The customer has changed: its version is {current} now, not {expected}. Read it again");
            return Err(ErrorAnswer::new(412, ErrorType::InvalidRequest, message).code("version_stale"));
        }
        match patch {
            Patch {
                shipping_address: Some(address),
                email: None,
            } => customer.shipping_address = address,
            Patch {
                shipping_address: None,
                email: Some(email),
            } if is_email(&email) => customer.email = email,
            Patch { email: Some(_), .. } => {
                let message = "email must be an address, and cannot be changed together with shipping_address";
                return Err(ErrorAnswer::new(400, ErrorType::InvalidRequest, message)
                    .code("body_invalid")
                    .param("/email"));
            }
            Patch { .. } => {
                let message = "Nothing to change: send shipping_address or email";
                return Err(ErrorAnswer::new(400, ErrorType::InvalidRequest, message).code("body_invalid"));
            }
        }
        customer.version += 1;
        Ok(Outcome::Changed(shown(customer)))
    }
}

fn is_email(text: &str) -> bool {
    let mut parts = text.split('@');
    matches!((parts.next(), parts.next(), parts.next()), (Some(user), Some(host), None) if !user.is_empty() && host.contains('.'))
}

fn entity_tag(version: u64) -> String {
    format!("\"{version}\"")
}

fn shown(customer: &Customer) -> Answer {
    Answer::ok(json!(customer)).with("etag", entity_tag(customer.version))
}
