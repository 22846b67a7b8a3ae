//! The kill switch through the front door, before a real backend: what a stop covers is not issued, spent or sent; what was sent is found out.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::lifecycle::ExecutionState;
use writ::sandbox::{Fault, FaultKind, demo};

use super::support::{Held, MINUTE, claimed, exchanged, held, one_key, refund_on, resolve, until};
use crate::support::world::{Reply, World, execute_request, send};

/// A stop by the operator; the answer's body.
async fn stop(world: &World, scope: &str, value: Option<&str>) -> Value {
    let mut body = json!({ "scope": scope, "reason": "something looks wrong" });
    if let Some(value) = value {
        body["value"] = json!(value);
    }
    world.call("operations", "POST", "/v1/stops", Some(body)).await.expect(201)
}

async fn resume(world: &World, stop: &Value) -> Reply {
    let path = format!("/v1/stops/{}/resume", stop["stop"]["id"].as_str().unwrap());
    let body = json!({ "reason": "it was a false alarm" });
    world.call("operations", "POST", &path, Some(body)).await
}

/// The last event of this type; it is a denial, and names the stop.
async fn told(world: &World, kind: &str, stop: &Value) {
    let events = world.events().await;
    let event = events.iter().rev().find(|event| event["type"] == kind);
    let event = event.unwrap_or_else(|| panic!("no {kind}"));
    assert_eq!(
        (&event["outcome"], &event["code"]),
        (&json!("denied"), &json!("stopped")),
        "{event}"
    );
    assert_eq!(event["stop"], json!({ "id": stop["stop"]["id"] }), "{event}");
}

/// A refund of this much on a charge of its own, signed by a person, exchanged.
async fn signed(world: &World, amount: i64) -> Held {
    let charge = world.charge(30_000, "usd").await;
    let draft = world.propose(World::refund_of(&charge, amount, "usd")).await.expect(201);
    let id = draft["id"].as_str().unwrap().to_owned();
    let record = world.record("usr_mia", &id, Decision::Approve).await;
    assert_eq!(world.hand_in(&record).await.expect(200)["draft"]["state"], "approved");
    exchanged(world, "support-agent", id).await
}

/// Takes the approval back, as the review desk.
async fn revoke(world: &World, draft: &str) -> Reply {
    let view = world.draft(draft).await;
    let path = format!("/v1/approvals/{}/revoke", view["approval"]["id"].as_str().unwrap());
    let body = json!({ "reason": "the photo was of another order" });
    world.call("review-desk", "POST", &path, Some(body)).await
}

#[tokio::test]
async fn each_scope_stops_the_exchange_and_the_execution_over_http() {
    let world = World::new().await;
    for scope in [
        "credential",
        "draft",
        "approval",
        "approver",
        "client",
        "operation",
        "family",
        "tenant",
        "everything",
    ] {
        let held = signed(&world, 24_000).await;
        let approval = world.draft(&held.draft).await["approval"]["id"].as_str().unwrap().to_owned();
        let credential = held.grant.credential.to_string();
        let (word, value) = match scope {
            "credential" => (scope, Some(credential.as_str())),
            "draft" => (scope, Some(held.draft.as_str())),
            "approval" => (scope, Some(approval.as_str())),
            "approver" => (scope, Some("usr_mia")),
            "client" => (scope, Some("support-agent")),
            "operation" => (scope, Some("refund.create")),
            "family" => ("operation", Some("refund.*")),
            "tenant" => (scope, Some("main")),
            _ => (scope, None),
        };
        let stop = stop(&world, word, value).await;
        assert_eq!((&stop["in_flight"], &stop["totals"]), (&json!([]), &json!([])), "{scope}");
        let writes = world.writes();
        // Another credential of the draft is not covered by a stop on this one, and would replace it.
        if scope != "credential" {
            world.exchange(&held.draft).await.refused(400, "stopped");
            told(&world, "credential.exchange_denied", &stop).await;
        }
        let refused = world.execute(&held.token, &held.draft).await.refused(409, "stopped");
        assert!(
            refused.body["detail"]
                .as_str()
                .unwrap()
                .contains(stop["stop"]["id"].as_str().unwrap())
        );
        told(&world, "credential.use_denied", &stop).await;
        assert_eq!(world.writes(), writes, "{scope}: a request reached the backend");
        assert_eq!(world.draft(&held.draft).await["state"], "approved", "{scope}");
        assert_eq!(resume(&world, &stop).await.expect(200)["state"], "lifted");
        world.execute(&held.token, &held.draft).await.expect(202);
        assert_eq!(world.execution(&held.draft).await["state"], "applied", "{scope}");
    }
}

#[tokio::test]
async fn a_stop_on_something_else_stands_in_nobodys_way() {
    let world = World::new().await;
    let (held, other) = (
        held(&world).await,
        refund_on(&world, &world.charge(9_000, "usd").await, 3_900, "usd").await,
    );
    let other = exchanged(&world, "support-agent", other).await;
    let credential = other.grant.credential.to_string();
    for (scope, value) in [
        ("credential", credential.as_str()),
        ("draft", other.draft.as_str()),
        ("approver", "usr_mia"),
        ("client", "review-desk"),
        ("operation", "email.*"),
    ] {
        stop(&world, scope, Some(value)).await;
    }
    super::support::still_good(&world, &held).await;
    world.execute(&other.token, &other.draft).await.refused(409, "stopped");
}

#[tokio::test]
async fn a_stop_s_end_is_compared_when_something_runs() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = json!({ "scope": "everything", "reason": "for a moment", "expires_at": writ::domain::clock::Clock::now(&*world.clock).plus(Duration::from_secs(5)).to_string() });
    let placed = world.call("operations", "POST", "/v1/stops", Some(body)).await.expect(201);
    assert_eq!(placed["stop"]["in_force"], true);
    world.clock.advance(Duration::from_millis(4_999));
    world.execute(&held.token, &held.draft).await.refused(409, "stopped");
    world.clock.advance(Duration::from_millis(1));
    let path = format!("/v1/stops/{}", placed["stop"]["id"].as_str().unwrap());
    let seen = world.call("security", "GET", &path, None).await.expect(200);
    assert_eq!(
        (&seen["stop"]["state"], &seen["stop"]["in_force"]),
        (&json!("active"), &json!(false)),
        "not swept yet"
    );
    super::support::still_good(&world, &held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_executions_only_those_a_stop_lists_reach_the_backend() {
    let (mut sent, mut given_up) = (0, 0);
    // As many rounds as it takes for a stop to fall between a claim and its first send, and after one; each in a world of its own.
    for round in 0..12 {
        let (reached, claimed) = stopped_among_many(["execution.claim", "execution.dispatch"][round % 2]).await;
        sent += reached;
        given_up += claimed;
        if sent > 0 && given_up > 0 {
            return;
        }
    }
    panic!("the stop met nothing in the middle: {sent} sent before it, {given_up} given up");
}

/// Eight executions over two processes, and a stop once the first event of this type is there. How many reached the backend, and how many were claimed
/// and given up.
async fn stopped_among_many(first: &str) -> (usize, usize) {
    let world = World::new().await;
    let mut all = Vec::new();
    for _ in 0..8 {
        all.push(signed(&world, 24_000).await);
    }
    let (other, second) = world.another();
    let routers = [world.app.router(), second];
    let calls: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(n, held)| {
            let (router, request) = (
                routers[n % 2].clone(),
                execute_request(&held.token, json!({ "draft_id": held.draft })),
            );
            tokio::spawn(async move { send(&router, request).await })
        })
        .collect();
    while !world.event_types().await.contains(&first.to_owned()) {
        tokio::task::yield_now().await;
    }
    let stop = stop(&world, "everything", None).await;
    for call in calls {
        let reply = call.await.unwrap();
        assert!(
            [200, 202].contains(&reply.status) || (reply.status, reply.code()) == (409, "stopped"),
            "{} {}",
            reply.status,
            reply.body
        );
    }
    world.app.settle().await;
    other.settle().await;
    let events = world.events().await;
    let at = |kind: &str, id: &str| events.iter().position(|e| e["type"] == kind && e["execution"]["id"] == id);
    let placed = events.iter().position(|e| e["type"] == "stop.place").unwrap();
    let listed: BTreeSet<&str> = stop["in_flight"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["execution_id"].as_str().unwrap())
        .collect();
    let (mut sent, mut given_up) = (0, 0);
    for held in &all {
        let view = world.draft(&held.draft).await;
        // Refused before anything was claimed.
        let Some(id) = view["execution"]["id"].as_str() else { continue };
        let key = view["idempotency_key"].as_str().unwrap();
        if world.sandbox.requests().iter().any(|r| r.idempotency_key.as_deref() == Some(key)) {
            sent += 1;
            assert!(
                at("execution.dispatch", id).unwrap() < placed,
                "{id} was written down after the stop"
            );
            let over = at("execution.confirm_applied", id).is_some_and(|n| n < placed);
            assert!(over || listed.contains(id), "{id} was sent, was open, and is not listed");
        } else {
            given_up += 1;
            assert_eq!(view["execution"]["state"], "aborted", "{view}");
            assert_eq!(
                view["state"], "approved",
                "given up, it may be exchanged again once the stop is lifted"
            );
        }
    }
    assert_eq!(world.writes(), sent);
    assert_eq!(world.later(MINUTE).await, 0, "nothing is left to take over");
    assert_eq!(world.writes(), sent);
    (sent, given_up)
}

#[tokio::test]
async fn what_a_dead_proxy_claimed_is_given_up_under_a_stop_and_runs_again_after_it() {
    let world = World::new().await;
    let held = held(&world).await;
    claimed(&world, &held).await;
    let stop = stop(&world, "operation", Some("refund.*")).await;
    assert_eq!(stop["in_flight"][0]["state"], "claimed", "{stop}");
    assert_eq!(stop["in_flight"][0]["resource"]["id"], demo::CHARGE);
    assert_eq!(stop["in_flight"][0]["amount"], json!({ "minor": 4_000, "currency": "usd" }));
    assert_eq!(
        stop["totals"],
        json!([{ "currency": "usd", "executions": 1, "minor": 4_000, "unsent_minor": 4_000 }])
    );
    assert_eq!(world.later(MINUTE).await, 1);
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("aborted"), &json!("stopped")),
        "{execution}"
    );
    told(&world, "execution.send_denied", &stop).await;
    assert_eq!(world.writes(), 0);
    assert_eq!(world.draft(&held.draft).await["state"], "approved");
    world.exchange(&held.draft).await.refused(400, "stopped");
    resume(&world, &stop).await.expect(200);
    assert_eq!(world.later(MINUTE).await, 0, "lifting a stop starts nothing by itself");
    let token = world.credential(&held.draft).await;
    world.execute(&token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "applied");
    one_key(&world, &execution);
}

#[tokio::test]
async fn what_may_have_been_sent_is_looked_up_under_a_stop_and_not_sent_again() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropBefore, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let stop = stop(&world, "everything", None).await;
    assert_eq!(stop["in_flight"][0]["state"], "indeterminate", "{stop}");
    assert_eq!(stop["totals"][0]["unsent_minor"], 0);
    for _ in 0..3 {
        world.later(MINUTE).await;
        let execution = world.execution(&held.draft).await;
        assert_eq!(
            (&execution["state"], &execution["code"]),
            (&json!("indeterminate"), &json!("stopped")),
            "{execution}"
        );
    }
    let execution = world.execution(&held.draft).await;
    let looks = execution["lookups"].as_array().unwrap();
    assert!(
        looks.iter().filter(|look| look["finding"] == "absent").count() >= 2,
        "it is looked up: {execution}"
    );
    told(&world, "execution.send_denied", &stop).await;
    assert_eq!(world.writes(), 1, "it was sent again");
    resume(&world, &stop).await.expect(200);
    let execution = until(&world, &held.draft, "applied", 20).await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (2, 1));
    one_key(&world, &execution);
}

#[tokio::test]
async fn what_was_sent_and_done_is_found_under_a_stop() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let stop = stop(&world, "draft", Some(&held.draft)).await;
    let execution = until(&world, &held.draft, "applied", 5).await;
    one_key(&world, &execution);
    let path = format!("/v1/stops/{}", stop["stop"]["id"].as_str().unwrap());
    let after = world.call("operations", "GET", &path, None).await.expect(200);
    assert_eq!((&after["in_flight"], &after["totals"]), (&json!([]), &json!([])), "{after}");
}

#[tokio::test]
async fn what_the_backend_turned_away_waits_for_the_end_of_the_stop() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::RateLimit, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let stop = stop(&world, "everything", None).await;
    assert_eq!(world.later(MINUTE).await, 1);
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("indeterminate"), &json!("stopped")),
        "{execution}"
    );
    assert_eq!(world.writes(), 1);
    resume(&world, &stop).await.expect(200);
    let execution = until(&world, &held.draft, "applied", 20).await;
    one_key(&world, &execution);
}

/// A draft with its credential, and the first answer of the backend to it.
async fn in_doubt(fault: FaultKind) -> (World, Held) {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(fault, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["state"], "indeterminate");
    (world, held)
}

#[tokio::test]
async fn an_approval_taken_back_before_anything_was_sent_closes_the_draft() {
    for spend in [false, true] {
        let world = World::new().await;
        let held = held(&world).await;
        if spend {
            claimed(&world, &held).await;
        }
        let revoked = revoke(&world, &held.draft).await.expect(200);
        assert_eq!(
            (&revoked["reached"], &revoked["draft"]["state"]),
            (&json!("nothing_sent"), &json!("denied")),
            "{revoked}"
        );
        assert_eq!(revoked["draft"]["reason"], "the photo was of another order");
        assert_eq!(revoked["draft"]["approval"]["state"], "revoked");
        let again = revoke(&world, &held.draft).await.expect(200);
        assert_eq!(again, revoked);
        world.exchange(&held.draft).await.refused(400, "draft_not_approved");
        if spend {
            assert_eq!(revoked["draft"]["execution"]["state"], "aborted");
            assert_eq!(world.later(MINUTE).await, 0);
        } else {
            super::support::refused(&world, &held.token, json!({ "draft_id": held.draft }), 401, "credential_not_live").await;
        }
        assert_eq!(world.writes(), 0);
    }
}

#[tokio::test]
async fn an_approval_taken_back_in_doubt_is_found_out_and_nothing_is_sent_again() {
    let (world, held) = in_doubt(FaultKind::DropBefore).await;
    let revoked = revoke(&world, &held.draft).await.expect(200);
    assert_eq!(
        (&revoked["reached"], &revoked["draft"]["execution"]["state"]),
        (&json!("sent"), &json!("indeterminate"))
    );
    for _ in 0..3 {
        world.later(MINUTE).await;
    }
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("indeterminate"), &json!("approval_revoked")),
        "{execution}"
    );
    assert_eq!(world.writes(), 1, "it was sent again");
    let body = json!({ "outcome": "not_applied", "evidence": "the account shows no refund" });
    resolve(&world, "operations", &execution, body).await.expect(200);

    let (world, held) = in_doubt(FaultKind::DropAfter).await;
    revoke(&world, &held.draft).await.expect(200);
    let execution = until(&world, &held.draft, "applied", 5).await;
    one_key(&world, &execution);
    revoke(&world, &held.draft).await.expect(200);
}

#[tokio::test]
async fn an_approval_taken_back_after_the_backend_turned_it_away_ends_as_not_applied() {
    let (world, held) = in_doubt(FaultKind::RateLimit).await;
    revoke(&world, &held.draft).await.expect(200);
    let execution = until(&world, &held.draft, "not_applied", 3).await;
    assert_eq!(execution["code"], "approval_revoked", "{execution}");
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn an_approval_is_not_taken_back_once_it_has_run_or_before_it_is_given() {
    let world = World::new().await;
    let held = held(&world).await;
    world.execute(&held.token, &held.draft).await.expect(202);
    let reply = revoke(&world, &held.draft).await.refused(409, "approval_used");
    assert!(reply.body["detail"].as_str().unwrap().contains("applied"), "{}", reply.body);
    let waiting = world.held_draft().await;
    revoke(&world, &waiting).await.refused(409, "approval_not_granted");
    assert_eq!(world.draft(&waiting).await["state"], "awaiting_approval");
}

/// The registry takes the signer's key back, the signer, or the client that made the draft.
async fn disown(world: &World, draft: &str, what: &str) {
    let (store, op) = (&world.app.store, world.op());
    let _done = match what {
        "key" => {
            let signed = store.draft(draft.parse().unwrap()).await.unwrap().unwrap();
            let kid = signed.approval.unwrap().records[0].kid.clone();
            store.revoke_key(op, kid).await.unwrap()
        }
        "approver" => store.revoke_approver(op, "usr_mia".parse().unwrap()).await.unwrap(),
        _ => store.revoke_client(op, "support-agent".parse().unwrap()).await.unwrap(),
    };
}

/// The draft's execution as it is stored: a revoked client reads nothing any more.
async fn stored(world: &World, draft: &str) -> (ExecutionState, Option<String>) {
    let draft = world.app.store.draft(draft.parse().unwrap()).await.unwrap().unwrap();
    let id = draft.execution.unwrap().id;
    let execution = world.app.store.execution(id).await.unwrap().unwrap();
    (execution.state, execution.code)
}

#[tokio::test]
async fn what_was_claimed_is_not_sent_once_its_signer_or_its_client_is_revoked() {
    for (what, code) in [
        ("key", "record_key_revoked"),
        ("approver", "record_key_revoked"),
        ("client", "client_revoked"),
    ] {
        let world = World::new().await;
        let held = signed(&world, 24_000).await;
        claimed(&world, &held).await;
        disown(&world, &held.draft, what).await;
        world.later(MINUTE).await;
        assert_eq!(
            stored(&world, &held.draft).await,
            (ExecutionState::Aborted, Some(code.to_owned())),
            "{what}"
        );
        assert_eq!(world.writes(), 0, "{what}");
        let events = world.events().await;
        assert!(
            events
                .iter()
                .any(|event| event["type"] == "execution.send_denied" && event["code"] == code),
            "{what}: no denial"
        );
    }
}

#[tokio::test]
async fn what_may_have_been_sent_is_only_looked_up_once_its_client_is_revoked() {
    let (world, held) = in_doubt(FaultKind::DropBefore).await;
    disown(&world, &held.draft, "client").await;
    for _ in 0..3 {
        world.later(MINUTE).await;
    }
    let open = (ExecutionState::Indeterminate, Some("client_revoked".to_owned()));
    assert_eq!(stored(&world, &held.draft).await, open);
    assert_eq!(world.writes(), 1, "it was sent again");

    let (world, held) = in_doubt(FaultKind::RateLimit).await;
    disown(&world, &held.draft, "client").await;
    for _ in 0..3 {
        world.later(MINUTE).await;
    }
    let over = (ExecutionState::NotApplied, Some("client_revoked".to_owned()));
    assert_eq!(stored(&world, &held.draft).await, over);
    assert_eq!(world.writes(), 1, "it was sent again");
}
