//! The shipped backend files at a test server's address, and drafts made with them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use writ::backend::{Answer, Backends, Checked, Operation, SHIPPED, relocated};
use writ::domain::digest::Digest;
use writ::domain::draft::{DraftDocument, Maker, Resource};
use writ::domain::id::DraftId;
use writ::domain::json::Json;
use writ::domain::policy::PolicyRef;
use writ::domain::time::Timestamp;

/// Both shipped files, at this address.
pub fn shipped_at(base_url: &str) -> Backends {
    let files: Vec<(&str, String)> = SHIPPED
        .iter()
        .map(|(name, text)| (*name, relocated(name, text, base_url).unwrap()))
        .collect();
    Backends::from_texts(files.iter().map(|(name, text)| (*name, text.as_str())), Path::new(".")).unwrap_or_else(|m| panic!("{m}"))
}

pub fn shipped() -> Backends {
    shipped_at("http://127.0.0.1:9")
}

pub fn operation<'b>(backends: &'b Backends, name: &str) -> &'b Operation {
    backends.operation(&name.parse().unwrap()).unwrap()
}

pub fn json(value: Value) -> Json {
    Json::from_value(&value).unwrap()
}

pub fn answer(status: u16, body: Value) -> Answer {
    Answer {
        status,
        headers: BTreeMap::from([("etag".to_owned(), "\"1\"".to_owned())]),
        body: serde_json::to_vec(&body).unwrap(),
    }
}

/// The blender's charge as the backend shows it.
pub fn charge() -> Value {
    json!({
        "id": "ch_3Rw4821blender", "object": "charge", "amount": 40_000, "amount_refunded": 4000, "currency": "usd", "status": "succeeded",
        "customer": "cus_88", "created": 1_790_000_000, "receipt_email": "ada@example.com", "fraud_score": 0.25,
        "payment_method_details": { "card": { "brand": "visa", "last4": "4242" } },
    })
}

/// The customer as the backend shows it.
pub fn customer() -> Value {
    json!({
        "id": "cus_88", "object": "customer", "version": 1, "name": "Ada Moreno", "email": "ada.moreno@example.com",
        "shipping_address": { "line1": "12 Harbour Street", "city": "Portland", "postal_code": "97201", "country": "US" },
    })
}

pub fn refund_params() -> Value {
    json!({ "charge": "ch_3Rw4821blender", "amount": 24_000, "currency": "usd" })
}

pub fn draft_id() -> DraftId {
    "drf_0192f0c1a2b37c4d8e5f60718293a4b5".parse().unwrap()
}

pub fn checked(operation: &Operation, params: Value) -> Checked {
    operation.check(&json(params)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// A whole draft of an operation, from the answer to its one fact read.
pub fn draft(operation: &Operation, params: Value, facts: &Answer) -> DraftDocument {
    let checked = checked(operation, params);
    let facts = operation
        .facts(&checked, std::slice::from_ref(facts))
        .unwrap_or_else(|e| panic!("{e}"));
    let id = draft_id();
    let request = operation.compile(&id, &checked, &facts).unwrap_or_else(|e| panic!("{e}"));
    DraftDocument {
        v: 1,
        id,
        salt: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        tenant: "default".parse().unwrap(),
        operation: operation.name().clone(),
        consequence: operation.consequence(),
        resource: Resource {
            kind: operation.resource_type().clone(),
            id: checked.resource().clone(),
            version: facts.resource_version.clone(),
        },
        amount: checked.amount(),
        parameters: checked.params().clone(),
        maker: Maker {
            client: "support".parse().unwrap(),
            owner: None,
        },
        on_behalf_of: None,
        case_id: None,
        reason_code: None,
        evidence: Vec::new(),
        facts: facts.json,
        request,
        on_failure: operation.on_failure().to_owned(),
        adapter: operation.backend().adapter().clone(),
        policy: policy(),
        supersedes: None,
        created_at: Timestamp::from_millis(1_790_000_000_000),
        expires_at: Timestamp::from_millis(1_790_000_600_000),
    }
}

fn policy() -> PolicyRef {
    let digest = Digest::of(b"policy");
    PolicyRef {
        id: "refunds".to_owned(),
        version: 1,
        sha256: digest,
        limits_sha256: digest,
    }
}
