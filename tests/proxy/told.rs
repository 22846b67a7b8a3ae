//! What the backend tells by itself: signed, once, about this draft, and never believed where it can be looked up.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use writ::domain::clock::Clock as _;
use writ::domain::secret::Secret;
use writ::sandbox::{Fault, FaultKind, RefundStatus, demo, event_signature};

use super::support::{Held, MINUTE, exchanged, held, one_key, refund_on};
use crate::metrics::{sample, scrape};
use crate::support::world::{Reply, Setup, World};

const HOUR: Duration = Duration::from_secs(3600);

fn secret(world: &World) -> Secret {
    Secret::new(std::fs::read_to_string(world.path("secrets/stripe-webhook")).unwrap())
}

fn request(path: &str, signatures: &[&str], body: &str) -> Request<Body> {
    let mut request = Request::post(path).header("content-type", "application/json");
    for signature in signatures {
        request = request.header("stripe-signature", *signature);
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

async fn deliver(world: &World, signature: &str, body: &str) -> Reply {
    let reply = world.send(request("/v1/webhooks/stripe", &[signature], body)).await;
    world.app.settle().await;
    reply
}

/// Signs these bytes now and delivers them; what the receiver made of them.
pub async fn told(world: &World, body: &str) -> Value {
    let signature = event_signature(&secret(world), world.clock.now(), body);
    deliver(world, &signature, body).await.expect(200)
}

/// An event about the draft's refund as it stands at the backend.
pub fn event(world: &World, kind: &str) -> String {
    let refund = world.sandbox.refunds(demo::CHARGE)[0].id.clone();
    world.sandbox.event(kind, &refund).unwrap()
}

/// The event with other members; pointers must exist.
pub fn with(body: &str, changes: &[(&str, Value)]) -> String {
    let mut value: Value = serde_json::from_str(body).unwrap();
    for (pointer, new) in changes {
        *value.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not in {body}")) = new.clone();
    }
    value.to_string()
}

/// A refund that the backend has taken, in this state, and its id there.
async fn refunded(world: &World, status: RefundStatus) -> (Held, String) {
    let held = held(world).await;
    if status == RefundStatus::Pending {
        world.sandbox.fault(Fault::once(FaultKind::Pending, "POST", "/v1/refunds"));
    }
    world.execute(&held.token, &held.draft).await.expect(202);
    let refund = world.sandbox.refunds(demo::CHARGE)[0].id.clone();
    (held, refund)
}

async fn state(world: &World, held: &Held) -> Value {
    world.execution(&held.draft).await["state"].clone()
}

async fn count(world: &World, kind: &str) -> usize {
    world.event_types().await.iter().filter(|t| *t == kind).count()
}

/// The execution without its receipt, which names the log's latest head.
async fn unproven(world: &World, held: &Held) -> Value {
    let mut execution = world.execution(&held.draft).await;
    assert!(execution["audit"].take()["receipt"].is_string());
    execution
}

/// The call is refused, the log tells of it, the backend is not asked, and nothing has changed.
async fn refused(world: &World, held: &Held, signatures: &[&str], body: &str, status: u16, code: &str) {
    let (before, reads) = (unproven(world, held).await, world.sandbox.requests().len());
    let denials = count(world, "backend.event_denied").await;
    world
        .send(request("/v1/webhooks/stripe", signatures, body))
        .await
        .refused(status, code);
    world.app.settle().await;
    assert_eq!(unproven(world, held).await, before, "{code}");
    assert_eq!(
        (world.sandbox.requests().len(), count(world, "backend.event").await),
        (reads, 0),
        "{code}"
    );
    let events = world.events().await;
    let last = events.iter().rfind(|e| e["type"] == "backend.event_denied").unwrap();
    assert_eq!(
        (&last["code"], count(world, "backend.event_denied").await),
        (&json!(code), denials + 1)
    );
}

#[tokio::test]
async fn an_event_that_the_backend_did_not_sign_about_now_changes_nothing() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    let body = event(&world, "refund.failed");
    let (now, known) = (world.clock.now(), secret(&world));
    let good = event_signature(&known, now, &body);
    let hex = good.split_once("v1=").unwrap().1.to_owned();
    let forged = event_signature(&Secret::new("whsec_somebody_else_s_secret".to_owned()), now, &body);
    let other_time = format!("t={},v1={hex}", now.seconds() + 1);
    let wrong = "event_signature_invalid";
    for signatures in [
        &[][..],
        &[""],
        &[forged.as_str()],
        &[other_time.as_str()],
        &[&good[..good.len() - 2]],
        &[&good.replace("v1=", "v0=")],
        &[good.as_str(), good.as_str()],
        &[&format!("{good},t=1")],
    ] {
        refused(&world, &held, signatures, &body, 400, wrong).await;
    }
    refused(&world, &held, &[&good], &body.replace("4000", "4001"), 400, wrong).await;
    refused(&world, &held, &[&good], &format!("{body} "), 400, wrong).await;
    for late in [now.minus(Duration::from_secs(301)), now.plus(Duration::from_secs(301))] {
        refused(
            &world,
            &held,
            &[&event_signature(&known, late, &body)],
            &body,
            400,
            "event_time_refused",
        )
        .await;
    }
    for in_time in [now.minus(Duration::from_secs(300)), now.plus(Duration::from_secs(300))] {
        deliver(&world, &event_signature(&known, in_time, &body), &body).await.expect(200);
    }
    assert_eq!(state(&world, &held).await, "not_applied", "the same event, signed and in time");
}

#[tokio::test]
async fn a_signed_event_that_is_no_event_changes_nothing() {
    let world = World::new().await;
    let (held, _) = refunded(&world, RefundStatus::Succeeded).await;
    let body = event(&world, "refund.failed");
    let long = "e".repeat(256);
    for bad in [
        "",
        "refund.failed",
        "[]",
        &body[1..],
        &body.replacen('{', "{\"id\":\"evt_x\",", 1),
        &body.replace("\"amount\":4000", "\"amount\":4000,\"\\u0061mount\":4000"),
        &with(&body, &[("/id", json!(7))]),
        &with(&body, &[("/id", json!(""))]),
        &with(&body, &[("/id", json!("evt 1"))]),
        &with(&body, &[("/id", json!(long))]),
        &with(&body, &[("/type", json!(null))]),
    ] {
        let signature = event_signature(&secret(&world), world.clock.now(), bad);
        refused(&world, &held, &[&signature], bad, 400, "event_malformed").await;
    }
    let huge = format!("{body}{}", " ".repeat(writ::http::MAX_BODY));
    let signature = event_signature(&secret(&world), world.clock.now(), &huge);
    deliver(&world, &signature, &huge).await.refused(413, "body_too_large");
    for path in [
        "/v1/webhooks/shop",
        "/v1/webhooks/nobody",
        "/v1/webhooks/%00",
        "/v1/webhooks/Stripe",
    ] {
        let signature = event_signature(&secret(&world), world.clock.now(), &body);
        world.send(request(path, &[&signature], &body)).await.refused(404, "not_found");
    }
    assert_eq!(
        (state(&world, &held).await, count(&world, "backend.event").await),
        (json!("applied"), 0)
    );
}

#[tokio::test]
async fn an_event_counts_once_and_its_id_stays_bound_to_its_content() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Pending).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    let body = event(&world, "refund.failed");
    assert_eq!(told(&world, &body).await["finding"], "waits");
    assert_eq!(state(&world, &held).await, "not_applied");
    let reads = world.sandbox.requests().len();
    for _ in 0..3 {
        world.clock.advance(MINUTE);
        let again = told(&world, &body).await;
        assert_eq!((&again["again"], &again["finding"]), (&json!(true), &json!("confirmed")));
    }
    let other = with(&body, &[("/created", json!(1))]);
    let signature = event_signature(&secret(&world), world.clock.now(), &other);
    deliver(&world, &signature, &other).await.refused(409, "event_reused");
    assert_eq!((world.sandbox.requests().len(), count(&world, "backend.event").await), (reads, 1));
    assert_eq!(count(&world, "execution.reopen").await, 1);
}

#[tokio::test]
async fn an_event_that_does_not_say_what_the_draft_says_changes_nothing_and_is_written_down() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    let elsewhere = exchanged(&world, "support-agent", refund_on(&world, demo::CHARGE_OTHER, 3_900, "usd").await).await;
    world.execute(&elsewhere.token, &elsewhere.draft).await.expect(202);
    let never = refund_on(&world, demo::CHARGE_EUR, 1_000, "eur").await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    let body = event(&world, "refund.failed");
    let reads = world.sandbox.requests().len();
    let object = "/data/object";
    let draft = format!("{object}/metadata/writ_draft");
    let key = format!("{object}/metadata/writ_key");
    let reference = format!("{object}/id");
    let other_key = world.execution(&elsewhere.draft).await["idempotency_key"].clone();
    let cases: &[(&str, Value, &str)] = &[
        ("/data/object/amount", json!(3_999), "disagrees"),
        ("/data/object/amount", json!("4000"), "disagrees"),
        ("/data/object/amount", json!(null), "disagrees"),
        ("/data/object/currency", json!("eur"), "disagrees"),
        ("/data/object/charge", json!(demo::CHARGE_OTHER), "disagrees"),
        ("/data/object/object", json!("charge"), "disagrees"),
        ("/data/object/status", json!("lost"), "disagrees"),
        (&reference, json!("re_another"), "disagrees"),
        (&draft, json!(elsewhere.draft), "disagrees"),
        (&key, other_key, "disagrees"),
        (&key, json!("not-a-key"), "disagrees"),
        (&draft, json!(never), "disagrees"),
    ];
    for (n, (pointer, value, finding)) in cases.iter().enumerate() {
        let id = json!(format!("evt_case_{n}"));
        let changed = with(&body, &[("/id", id), (pointer, value.clone())]);
        assert_eq!(told(&world, &changed).await["finding"], *finding, "{pointer} {value}");
    }
    let strange = |id: &str, draft_id: Value| {
        let changes = [
            ("/id", json!(id)),
            (draft.as_str(), draft_id),
            (&key, json!(null)),
            (&reference, json!("re_strange")),
        ];
        with(&body, &changes)
    };
    assert_eq!(told(&world, &strange("evt_a", json!(never))).await["finding"], "not_executed");
    assert_eq!(
        told(&world, &strange("evt_b", json!(null))).await["finding"],
        "not_ours",
        "made in the dashboard"
    );
    assert_eq!(
        told(&world, &with(&body, &[("/type", json!("payout.paid"))])).await["finding"],
        "ignored"
    );
    assert_eq!(
        (state(&world, &held).await, state(&world, &elsewhere).await),
        (json!("applied"), json!("applied"))
    );
    assert_eq!(world.sandbox.requests().len(), reads, "nothing was looked up");
    assert_eq!(count(&world, "backend.event").await, cases.len() + 2, "and each is in the log");
    let execution = world.execution(&held.draft).await;
    assert!(
        execution["events"].as_array().unwrap().iter().all(|e| e["finding"] == "disagrees"),
        "{execution}"
    );
}

#[tokio::test]
async fn a_pending_refund_that_fails_reopens_at_once_and_the_maker_sees_it() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Pending).await;
    let execution = world.execution(&held.draft).await;
    let path = format!("/v1/executions/{}?wait=30&while=pending", execution["id"].as_str().unwrap());
    let waits = world.call("support-agent", "GET", &path, None);
    let tells = async {
        assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
        told(&world, &event(&world, "refund.failed")).await
    };
    let (seen, finding) = tokio::join!(waits, tells);
    assert_eq!(finding["finding"], "waits");
    let seen = seen.expect(200);
    assert_eq!(
        (&seen["state"], &seen["code"]),
        (&json!("not_applied"), &json!("refund failed or was cancelled"))
    );
    let seen = world.execution(&held.draft).await;
    assert_eq!(
        (&seen["events"][0]["said"], &seen["events"][0]["finding"]),
        (&json!("failed"), &json!("confirmed"))
    );
    let draft = world.draft(&held.draft).await;
    assert_eq!(
        (&draft["state"], &draft["execution"]["state"]),
        (&json!("consumed"), &json!("not_applied"))
    );
    let case = world.call("support-agent", "GET", "/v1/cases/case-1", None).await.expect(200);
    assert_eq!((&case["complete"], &case["steps"][0]["status"]), (&json!(false), &json!("failed")));
    let anew = world.propose(World::refund(4_000)).await.expect(201);
    assert_ne!(anew["id"], json!(held.draft));
    assert_eq!(world.writes(), 1);
    let wrong = path.replace("while=pending", "while=happy");
    world
        .call("support-agent", "GET", &wrong, None)
        .await
        .refused(400, "parameter_invalid");
}

#[tokio::test]
async fn an_applied_refund_that_fails_later_reopens_and_its_charge_is_free() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    world.later(HOUR).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    assert_eq!(world.later(HOUR).await, 0, "nobody looks by itself");
    assert_eq!(told(&world, &event(&world, "refund.failed")).await["finding"], "waits");
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["reference"]),
        (&json!("not_applied"), &json!(refund))
    );
    assert_eq!(execution["lookups"][0]["finding"], "not_applied");
    let events = world.events().await;
    let reopen = events.iter().find(|e| e["type"] == "execution.reopen").unwrap();
    assert_eq!(
        (&reopen["state"]["from"], &reopen["outcome"], &reopen["draft"]["id"]),
        (&json!("applied"), &json!("failed"), &json!(held.draft))
    );
    let again = exchanged(&world, "support-agent", refund_on(&world, demo::CHARGE, 4_000, "usd").await).await;
    super::support::still_good(&world, &again).await;
    assert_eq!(state(&world, &held).await, "not_applied");
}

#[tokio::test]
async fn an_event_that_the_backend_does_not_confirm_changes_nothing() {
    let world = World::new().await;
    let (held, _) = refunded(&world, RefundStatus::Succeeded).await;
    let lie = with(&event(&world, "refund.failed"), &[("/data/object/status", json!("failed"))]);
    assert_eq!(told(&world, &lie).await["finding"], "waits");
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["lookups"][0]["finding"]),
        (&json!("applied"), &json!("applied"))
    );
    assert!(execution["next_look_at"].is_string(), "what was read may lag: {execution}");
    let mut looks = 0;
    for _ in 0..30 {
        looks += world.later(HOUR).await;
    }
    assert!((3..30).contains(&looks), "{looks} looks in a day and a quarter");
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["events"][0]["finding"]),
        (&json!("applied"), &json!("not_confirmed"))
    );
    assert_eq!((world.later(HOUR).await, world.writes()), (0, 1));
}

#[tokio::test]
async fn an_event_waits_until_the_backend_can_be_read() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 2));
    told(&world, &event(&world, "refund.failed")).await;
    assert_eq!(state(&world, &held).await, "applied", "the event's own word does not count");
    world.later(MINUTE).await;
    assert_eq!(state(&world, &held).await, "applied");
    world.later(2 * MINUTE).await;
    assert_eq!(state(&world, &held).await, "not_applied");
}

#[tokio::test]
async fn a_success_that_is_told_after_the_failure_does_not_bring_the_refund_back() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Pending).await;
    let mut succeeded = world.sandbox.event("refund.updated", &refund).unwrap();
    succeeded = with(&succeeded, &[("/data/object/status", json!("succeeded"))]);
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    told(&world, &event(&world, "refund.failed")).await;
    assert_eq!(state(&world, &held).await, "not_applied");
    world.later(MINUTE).await;
    // Delivered late: the backend still shows it as failed.
    assert_eq!(told(&world, &succeeded).await["finding"], "waits");
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["events"][1]["finding"]),
        (&json!("not_applied"), &json!("late"))
    );
    assert_eq!(count(&world, "execution.contradicted").await, 0);
    // The backend really shows it as done: nothing flips, and somebody is told.
    world.later(MINUTE).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Succeeded));
    told(&world, &event(&world, "refund.updated")).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["events"][2]["finding"]),
        (&json!("not_applied"), &json!("contradicts"))
    );
    world.clock.advance(MINUTE);
    let metrics = scrape(&world).await;
    for (metric, value) in [("writ_backend_events_odd", 1.0), ("writ_backend_events_odd_last_seconds", 61.0)] {
        let named = format!("{metric}{{finding=\"contradicts\"}}");
        assert_eq!(sample(&metrics, &named), Some(value), "{metrics}");
    }
    let events = world.events().await;
    let alarm = events.iter().find(|e| e["type"] == "execution.contradicted").unwrap();
    assert_eq!((&alarm["outcome"], &alarm["draft"]["id"]), (&json!("unknown"), &json!(held.draft)));
    assert_eq!((world.later(HOUR).await, world.writes()), (0, 1));
}

#[tokio::test]
async fn an_event_finds_out_what_a_lost_answer_left_open() {
    for handed_off in [false, true] {
        let world = World::new().await;
        let held = held(&world).await;
        world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
        world.sandbox.fault(Fault::once(FaultKind::Error503Before, "GET", "/v1/refunds"));
        world.execute(&held.token, &held.draft).await.expect(202);
        if handed_off {
            world.later(24 * HOUR).await;
        }
        let open = if handed_off { "handed_off" } else { "indeterminate" };
        assert_eq!(state(&world, &held).await, open);
        world.later(Duration::from_secs(1)).await;
        world.clock.advance(MINUTE);
        told(&world, &event(&world, "refund.created")).await;
        assert_eq!(state(&world, &held).await, "applied");
        assert_eq!((count(&world, "execution.reconcile_applied").await, world.writes()), (1, 1));
        one_key(&world, &world.execution(&held.draft).await);
    }
}

#[tokio::test]
async fn an_event_that_overtakes_the_answer_waits_for_it() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::HoldAfter, "POST", "/v1/refunds"));
    world.execute_body(&held.token, json!({ "draft_id": held.draft })).await.expect(202);
    world.sandbox.held(1).await;
    assert_eq!(state(&world, &held).await, "dispatched");
    let body = event(&world, "refund.created");
    let signature = event_signature(&secret(&world), world.clock.now(), &body);
    let reply = world.send(request("/v1/webhooks/stripe", &[&signature], &body)).await.expect(200);
    assert_eq!(reply["finding"], "waits");
    assert_eq!(state(&world, &held).await, "dispatched");
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["events"][0]["finding"]),
        (&json!("applied"), &json!("agrees"))
    );
    assert_eq!((world.later(HOUR).await, world.writes()), (0, 1));
}

#[tokio::test]
async fn an_event_before_the_answer_that_names_another_refund_is_not_taken_for_this_one() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::HoldAfter, "POST", "/v1/refunds"));
    world.execute_body(&held.token, json!({ "draft_id": held.draft })).await.expect(202);
    world.sandbox.held(1).await;
    let other = with(&event(&world, "refund.created"), &[("/data/object/id", json!("re_another"))]);
    let signature = event_signature(&secret(&world), world.clock.now(), &other);
    world.send(request("/v1/webhooks/stripe", &[&signature], &other)).await.expect(200);
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["events"][0]["finding"]),
        (&json!("applied"), &json!("waits"))
    );
}

#[tokio::test]
async fn an_event_and_the_poller_at_once_reopen_once() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Pending).await;
    world.clock.advance(2 * MINUTE);
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    let body = event(&world, "refund.failed");
    let (other, _) = world.another();
    world.sandbox.fault(Fault::once(FaultKind::Hold, "GET", "/v1/refunds"));
    assert_eq!(other.proxy.as_ref().unwrap().sweep().await.unwrap(), 1);
    world.sandbox.held(1).await;
    // The poller has the lease and has not seen the failure yet.
    assert_eq!(told(&world, &body).await["finding"], "waits");
    assert_eq!(state(&world, &held).await, "pending");
    assert_eq!(world.sandbox.release(), 1);
    other.settle().await;
    world.later(MINUTE).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["events"][0]["said"]),
        (&json!("not_applied"), &json!("failed"))
    );
    assert_ne!(execution["events"][0]["finding"], "waits");
    assert_eq!(count(&world, "execution.reopen").await, 1);
}

#[tokio::test]
async fn the_same_event_at_two_processes_at_once_is_one_event() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    let body = event(&world, "refund.failed");
    let signature = event_signature(&secret(&world), world.clock.now(), &body);
    let others: Vec<_> = (0..3).map(|_| world.another()).collect();
    let calls = others
        .iter()
        .flat_map(|(_, router)| [router.clone(), router.clone()])
        .map(|router| {
            let request = request("/v1/webhooks/stripe", &[&signature], &body);
            tokio::spawn(async move { router.oneshot(request).await.unwrap().status().as_u16() })
        });
    let calls: Vec<_> = calls.collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 200);
    }
    for (app, _) in &others {
        app.settle().await;
    }
    world.later(MINUTE).await;
    assert_eq!(state(&world, &held).await, "not_applied");
    assert_eq!(
        (count(&world, "backend.event").await, count(&world, "execution.reopen").await),
        (1, 1)
    );
}

#[tokio::test]
async fn while_a_secret_is_replaced_both_are_good_and_afterwards_one() {
    let mut world = World::new().await;
    let (_held, _) = refunded(&world, RefundStatus::Succeeded).await;
    let (old, new) = (secret(&world), Secret::new("whsec_the_secret_that_comes_next".to_owned()));
    let file = world.path("secrets/stripe-webhook");
    let body = event(&world, "refund.created");
    let sign = |world: &World, secret: &Secret| event_signature(secret, world.clock.now(), &body);
    deliver(&world, &sign(&world, &new), &body)
        .await
        .refused(400, "event_signature_invalid");
    std::fs::write(&file, format!("{}\n{}\n", new.expose(), old.expose())).unwrap();
    world.restart();
    deliver(&world, &sign(&world, &old), &body).await.expect(200);
    // While it rolls a secret the provider sends both signatures.
    let both = format!(
        "{},{}",
        sign(&world, &Secret::new("whsec_unknown_to_this_one".to_owned())),
        sign(&world, &new).split_once(',').unwrap().1
    );
    deliver(&world, &both, &body).await.expect(200);
    std::fs::write(&file, new.expose()).unwrap();
    world.restart();
    deliver(&world, &sign(&world, &new), &body).await.expect(200);
    deliver(&world, &sign(&world, &old), &body)
        .await
        .refused(400, "event_signature_invalid");
}

#[tokio::test]
async fn an_event_under_changed_rules_is_for_a_person() {
    let mut world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    let file = world.path("policies/backends/stripe.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n# one comment more\n")).unwrap();
    world.restart();
    let reads = world.sandbox.requests().len();
    assert_eq!(told(&world, &event(&world, "refund.failed")).await["finding"], "adapter_changed");
    assert_eq!(
        (state(&world, &held).await, world.sandbox.requests().len()),
        (json!("applied"), reads)
    );
    let events = world.events().await;
    let event = events.iter().rfind(|e| e["type"] == "backend.event").unwrap();
    assert_eq!((&event["outcome"], &event["draft"]["id"]), (&json!("unknown"), &json!(held.draft)));
}

#[tokio::test]
async fn what_is_pending_for_a_month_goes_to_a_person() {
    let world = World::new().await;
    let (held, _) = refunded(&world, RefundStatus::Pending).await;
    for _ in 0..29 {
        world.later(24 * HOUR).await;
    }
    assert_eq!(state(&world, &held).await, "pending");
    world.later(24 * HOUR).await;
    world.later(24 * HOUR).await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("handed_off"), &json!("pending_too_long"))
    );
    let looks = execution["lookups"].as_array().unwrap().len();
    assert!((20..200).contains(&looks), "{looks} looks in a month");
}

/// A backend that cannot be asked: its signed word is all there is.
async fn deaf() -> World {
    let start = "# Look first: that costs nothing";
    let shipped = writ::backend::SHIPPED.iter().find(|(name, _)| *name == "stripe.toml").unwrap().1;
    let (_, rest) = shipped.split_once(start).unwrap();
    let (list, _) = rest.split_once("[[operation.reconcile]]\nname = \"send the same").unwrap();
    let edit = |from: &str, to: &str| {
        (
            "policies/backends/stripe.toml",
            Box::leak(from.to_owned().into_boxed_str()) as &'static str,
            to.to_owned(),
        )
    };
    World::with(Setup {
        edits: vec![
            edit(&format!("{start}{list}"), ""),
            edit("\"look_up\"\nrequire", "\"event\"\nrequire"),
        ],
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn where_nothing_can_be_looked_up_the_signed_word_counts_once_and_never_against_a_final_no() {
    let world = deaf().await;
    let (held, refund) = refunded(&world, RefundStatus::Pending).await;
    let pending = with(&event(&world, "refund.updated"), &[("/id", json!("evt_0"))]);
    let succeeded = with(&pending, &[("/id", json!("evt_1")), ("/data/object/status", json!("succeeded"))]);
    let failed = with(&pending, &[("/id", json!("evt_2")), ("/data/object/status", json!("failed"))]);
    let wrong = with(&failed, &[("/id", json!("evt_3")), ("/data/object/amount", json!(1))]);
    assert_eq!(told(&world, &wrong).await["finding"], "disagrees");
    assert_eq!(told(&world, &pending).await["finding"], "agrees");
    assert_eq!(state(&world, &held).await, "pending");
    assert_eq!(told(&world, &succeeded).await["finding"], "believed");
    assert_eq!(state(&world, &held).await, "applied");
    assert_eq!(told(&world, &failed).await["finding"], "believed");
    assert_eq!(told(&world, &failed).await["again"], true);
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["reference"]),
        (&json!("not_applied"), &json!(refund))
    );
    let late = with(&succeeded, &[("/id", json!("evt_4"))]);
    assert_eq!(told(&world, &late).await["finding"], "contradicts");
    assert_eq!(state(&world, &held).await, "not_applied", "a person must look");
    assert_eq!(
        (count(&world, "execution.reopen").await, count(&world, "backend.event").await),
        (1, 5)
    );
    assert_eq!((world.later(HOUR).await, world.writes()), (0, 1));
}

#[tokio::test]
async fn where_nothing_can_be_looked_up_an_event_before_the_answer_is_asked_for_again() {
    let world = deaf().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::HoldAfter, "POST", "/v1/refunds"));
    world.execute_body(&held.token, json!({ "draft_id": held.draft })).await.expect(202);
    world.sandbox.held(1).await;
    let body = event(&world, "refund.created");
    let signature = event_signature(&secret(&world), world.clock.now(), &body);
    let reply = world
        .send(request("/v1/webhooks/stripe", &[&signature], &body))
        .await
        .refused(503, "event_too_early");
    assert!(reply.headers.contains_key("retry-after"), "{:?}", reply.headers);
    assert_eq!(count(&world, "backend.event").await, 0);
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    assert_eq!(told(&world, &body).await["finding"], "agrees");
    assert_eq!(state(&world, &held).await, "applied");
}

/// A list that does not show a refund proves absence where the file says so, but never of what is known as done.
#[tokio::test]
async fn a_list_that_does_not_show_what_was_done_never_reopens_it() {
    let file = "policies/backends/stripe.toml";
    let world = World::with(Setup {
        edits: vec![
            (
                file,
                "match  = [{ pointer = \"/metadata/writ_key\", equals = \"{idem.key}\" }]",
                "match  = [{ pointer = \"/metadata/writ_key\", equals = \"{idem.key}\" }, { pointer = \"/reason\", equals = \"nobody\" }]"
                    .to_owned(),
            ),
            (
                file,
                "absent = \"inconclusive\"",
                "absent = \"proof\"\nsettle = \"60s\"\nrepeats = 2".to_owned(),
            ),
        ],
        ..Setup::default()
    })
    .await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    told(&world, &event(&world, "refund.failed")).await;
    for _ in 0..5 {
        world.later(HOUR).await;
    }
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["lookups"][2]["finding"]),
        (&json!("applied"), &json!("absent")),
        "{execution}"
    );
}

#[tokio::test]
async fn what_stands_under_another_id_than_the_known_one_reopens_nothing() {
    let world = World::new().await;
    let (held, refund) = refunded(&world, RefundStatus::Succeeded).await;
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.busy_timeout(MINUTE).unwrap();
    assert_eq!(file.execute("UPDATE execution SET reference = 're_known'", []).unwrap(), 1);
    assert!(world.sandbox.settle(&refund, RefundStatus::Failed));
    let body = with(&event(&world, "refund.failed"), &[("/data/object/id", json!("re_known"))]);
    assert_eq!(told(&world, &body).await["finding"], "waits");
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["lookups"][0]["finding"]),
        (&json!("applied"), &json!("inconclusive"))
    );
}
