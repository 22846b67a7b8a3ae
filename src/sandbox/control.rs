//! The desk behind the counter, `/_sandbox/…`: what was seen, how the books stand, which faults are to come. No key is needed.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::json::Json;

use super::answer::{Answer, ErrorAnswer, ErrorType};
use super::fault::Fault;
use super::payments::RefundStatus;
use super::server::Shared;

/// What every path of the desk starts with.
pub(super) const PREFIX: &str = "/_sandbox/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settlement {
    status: RefundStatus,
}

/// Answers a request to the desk.
pub(super) fn answer(shared: &Shared, method: &str, path: &str, body: &[u8]) -> Answer {
    let rest = path.strip_prefix(PREFIX).unwrap_or_default();
    let result = match (method, rest.split('/').collect::<Vec<_>>().as_slice()) {
        ("GET", ["requests"]) => Ok(Answer::ok(json!({ "data": shared.world().seen.all() }))),
        ("GET", ["state"]) => Ok(Answer::ok(state(shared))),
        ("GET", ["faults"]) => Ok(Answer::ok(faults(shared))),
        ("POST", ["faults"]) => decode::<Fault>(body).and_then(|fault| {
            if fault.times == 0 {
                return Err(ErrorAnswer::new(400, ErrorType::InvalidRequest, "times must be at least 1").param("/times"));
            }
            shared.world().faults.push(fault);
            Ok(Answer::ok(faults(shared)))
        }),
        ("DELETE", ["faults"]) => {
            shared.world().faults.clear();
            Ok(Answer::ok(faults(shared)))
        }
        ("POST", ["release"]) => Ok(Answer::ok(json!({ "released": shared.release() }))),
        ("POST", ["refunds", id]) => decode::<Settlement>(body).and_then(|settlement| {
            if shared.world().payments.settle(id, settlement.status) {
                let kind = match settlement.status {
                    RefundStatus::Failed => "refund.failed",
                    _ => "refund.updated",
                };
                let body = shared.event(kind, id).unwrap_or_default();
                let signature = shared.signature(&body);
                let event = json!({ "body": body, "stripe-signature": signature });
                Ok(Answer::ok(json!({ "id": id, "status": settlement.status, "event": event })))
            } else {
                Err(super::answer::missing("refund", id, "refund"))
            }
        }),
        _ => Err(ErrorAnswer::new(
            404,
            ErrorType::InvalidRequest,
            "There is: GET requests, GET state, GET POST DELETE faults, POST release, POST refunds/{id}",
        )),
    };
    result.unwrap_or_else(Into::into)
}

fn decode<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, ErrorAnswer> {
    Json::parse(body)
        .and_then(|json| json.decode())
        .map_err(|error| ErrorAnswer::new(400, ErrorType::InvalidRequest, error.to_string()).param(&error.pointer))
}

fn faults(shared: &Shared) -> Value {
    json!({ "data": shared.world().faults.all().collect::<Vec<_>>() })
}

fn state(shared: &Shared) -> Value {
    let world = shared.world();
    let charges: Vec<Value> = world.payments.charges.iter().map(|charge| world.payments.show(charge)).collect();
    json!({
        "charges": charges,
        "refunds": world.payments.refunds,
        "orders": world.shop.orders.values().collect::<Vec<_>>(),
        "customers": world.shop.customers.values().collect::<Vec<_>>(),
        "faults": world.faults.all().collect::<Vec<_>>(),
        "idempotency_keys": world.keys.len(),
        "requests": world.seen.all().len(),
        "held": shared.held_now(),
    })
}
