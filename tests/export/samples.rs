//! Events to export: of journeys that took place, and one of every type with everything in it that any of those had.

use serde_json::{Map, Value, json};
use writ::audit::EventBody;
use writ::audit::EventKind;
use writ::audit::export::Entry;
use writ::domain::approval::Decision;
use writ::domain::json::canonical;
use writ::domain::stop::StopScope;
use writ::sandbox::{Fault, FaultKind};
use writ::store::Store;
use writ::store::intent::AfterAbort;

use crate::store::world as stores;
use crate::support::world::World;

pub const ORIGIN: &str = "writ.example/audit";

/// Every event of the store.
pub async fn entries(store: &dyn Store) -> Vec<Entry> {
    let stored = store.events(0, 100_000).await.unwrap();
    stored.into_iter().map(|event| Entry::of(event.seq, event.bytes)).collect()
}

/// A refund of 240.00 USD that is refused a credential before it is approved, approved by a person, tried with another's credential, sent,
/// whose answer is lost, and that is found; and one of 40.00 USD that a rule allows.
pub async fn journey() -> Vec<Entry> {
    let world = World::new().await;
    let draft = world.held_draft().await;
    world.exchange(&draft).await.refused(400, "approval_pending");
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    world.hand_in(&record).await.expect(200);
    let token = world.credential(&draft).await;
    let other = world
        .execute_body(&token, json!({ "draft_id": "drf_01a0c4506c00756389f3859969066c59" }))
        .await;
    assert!(other.status >= 400, "{}", other.body);
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world.execute(&token, &draft).await;
    for _ in 0..10 {
        world.later(std::time::Duration::from_secs(60)).await;
    }
    assert_eq!(world.execution(&draft).await["state"], "applied");
    let allowed = world.allowed_draft().await;
    let token = world.credential(&allowed).await;
    world.execute(&token, &allowed).await.expect(202);
    entries(&*world.app.store).await
}

/// Lives of drafts that end in other ways.
pub async fn lives() -> Vec<Entry> {
    let world = stores::World::with_one_connection().await;
    world.handed_off().await;
    world.settled(stores::not_applied()).await;
    world.settled(stores::pending()).await;
    let claimed = world.claimed().await;
    let abort = world.abort(&claimed, AfterAbort::Release);
    world.store().abort(world.op(), abort).await.unwrap();
    let stopped = world.stopped(StopScope::Operation("refund.create".parse().unwrap())).await;
    world.store().lift_stop(world.op(), world.lift(&stopped.stop)).await.unwrap();
    world
        .store()
        .add_client(world.op(), stores::client(&world, "agent-2"))
        .await
        .unwrap();
    entries(&**world.store()).await
}

/// The entry of this event.
pub fn entry(event: &Value) -> Entry {
    Entry::of(event["seq"].as_u64().unwrap(), canonical(event).unwrap())
}

/// The event of this entry.
pub fn event(entry: &Entry) -> Value {
    serde_json::from_slice(&entry.leaf).unwrap()
}

/// An event with every member that any of these has, at every depth, and with what later versions are about to add.
pub fn fullest(entries: &[Entry]) -> Value {
    let mut full = Map::new();
    for entry in entries {
        merge(&mut full, event(entry).as_object().unwrap().clone());
    }
    let later = json!({
        "case": { "n": 4, "previous": "abc" }, "writer": { "id": "wtr_1", "n": 7 }, "_sd": ["x1", "x2"], "_sd_alg": "sha-256", "new": { "deep": [1, { "a": true }] },
        "approval": { "signature": { "alg": "EdDSA", "value": "sig" } }, "policy": { "later": "p" }, "actor": { "later": "a" }, "resource": { "later": "r" },
        "provider": { "later": "b" }, "draft": { "later": 1 }, "execution": { "later": "e" }, "count": 3, "subject": "agent-9",
        "outcome": "ok", "code": "some_code", "origin": "writ.example/other",
    });
    merge(&mut full, later.as_object().unwrap().clone());
    full.insert("seq".to_owned(), json!(5));
    Value::Object(full)
}

fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Object(there)), Value::Object(more)) => merge(there, more),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// One event of every type as the store writes it with nothing filled in, and one with everything.
pub async fn of_every_kind() -> Vec<Entry> {
    let world = stores::World::with_one_connection().await;
    let mut real = journey().await;
    real.extend(lives().await);
    let full = fullest(&real);
    // The log takes the event of a new key only with that key.
    let log = crate::support::log::log_beside(&world.file);
    let name = "writ.test/audit".parse().unwrap();
    log.announce(&name, &crate::support::SeededEntropy::new(4)).unwrap();
    for kind in EventKind::all() {
        let op = world.op();
        let body = EventBody::new(kind, op.actor.clone());
        world.store().note(op, body).await.unwrap();
    }
    let mut out = entries(&**world.store()).await;
    for kind in EventKind::all() {
        let mut event = full.clone();
        event["type"] = json!(kind.as_str());
        out.push(entry(&event));
    }
    out
}

/// The places of the texts that may hold anything, as JSON pointers.
pub fn free_texts(event: &Value) -> Vec<String> {
    let fixed = [
        "/type",
        "/outcome",
        "/time",
        "/actor/kind",
        "/policy/outcome",
        "/approval/decision",
        "/amount/currency",
    ];
    let mut found = Vec::new();
    places(event, String::new(), &mut found);
    found.retain(|at| !fixed.contains(&at.as_str()) && event.pointer(at).unwrap().is_string());
    found
}

/// Every place that holds no object or list.
pub fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                places(value, format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (n, value) in items.iter().enumerate() {
                places(value, format!("{at}/{n}"), found);
            }
        }
        _ => found.push(at),
    }
}
