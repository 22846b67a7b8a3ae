//! Broker and proxy on one store with clocks that differ, clocks that are set back, and keys whose time has not come.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::json;
use writ::app::{App, Outside, Part};
use writ::domain::approval::Decision;
use writ::domain::clock::Clock as _;
use writ::sandbox::{Fault, FaultKind, demo};
use writ::store::health::ClockState;
use writ::token::{KeyRing, Rotation};

use super::support::{MINUTE, exchanged, held, one_key, refund_on, still_good, until};
use crate::support::world::{Reply, World, execute_request, send};
use crate::support::{ManualClock, SeededEntropy};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// Another process on the world's store, whose clock is so many milliseconds off the world's.
fn apart(world: &World, millis: i64) -> (App, Router) {
    let start = ManualClock::new().now();
    let outside = Outside {
        clock: Arc::new(ManualClock::apart(world.clock.now().since(start).as_millis() as i64 + millis)),
        entropy: Arc::new(SeededEntropy::new(4_711)),
    };
    let app = App::assemble(&world.config, Part::All, outside, &|_| None).unwrap();
    let router = app.router();
    (app, router)
}

async fn execute_at(process: &(App, Router), token: &str, draft: &str) -> Reply {
    let reply = send(&process.1, execute_request(token, json!({ "draft_id": draft }))).await;
    process.0.settle().await;
    reply
}

async fn ready(world: &World) -> Reply {
    world.send(Request::get("/readyz").body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn broker_and_proxy_may_be_a_second_apart_and_a_proxy_that_is_further_off_sends_nothing() {
    for (millis, status, code) in [
        (1_000, 202, ""),
        (-1_000, 202, ""),
        // Ahead, it sees the credential end early.
        (30_000, 202, ""),
        (600_000, 401, "credential_expired"),
        (-30_000, 401, "credential_not_yet_valid"),
        (-600_000, 401, "credential_not_yet_valid"),
        // Inside the skew that tokens allow for, and still too far behind for the store.
        (-4_000, 503, "clock_behind"),
    ] {
        let world = World::new().await;
        // Keys that are older than any skew here.
        world.clock.advance(2 * TEN_MINUTES);
        let held = held(&world).await;
        let other = apart(&world, millis);
        let reply = execute_at(&other, &held.token, &held.draft).await;
        assert_eq!(reply.status, status, "{millis} ms: {}", reply.body);
        if status == 202 {
            assert_eq!(world.execution(&held.draft).await["state"], "applied", "{millis} ms");
            assert_eq!(world.writes(), 1);
            continue;
        }
        assert_eq!(reply.code(), code, "{millis} ms");
        assert_eq!(world.writes(), 0, "{millis} ms");
        if millis < 0 {
            still_good(&world, &held).await;
        }
    }
}

#[tokio::test]
async fn a_broker_that_is_behind_its_proxy_issues_nothing_until_it_has_caught_up() {
    for (millis, works) in [(1_000, true), (30_000, false), (600_000, false)] {
        let world = World::new().await;
        let draft = world.allowed_draft().await;
        let (ahead, _) = apart(&world, millis);
        ahead.store.probe().await.unwrap();
        let reply = world.exchange(&draft).await;
        if works {
            reply.expect(200);
            continue;
        }
        let reply = reply.refused(503, "clock_behind");
        assert_eq!(reply.body["error"], "temporarily_unavailable");
        let wait: i64 = reply.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert_eq!(wait, (millis / 1_000).min(60));
        let red = ready(&world).await.refused(503, "not_ready");
        assert!(red.body["detail"].as_str().unwrap().contains("clock: says"), "{}", red.body);
        world.clock.advance(Duration::from_millis(millis.unsigned_abs()));
        ready(&world).await.expect(200);
        // The draft's five minutes are counted by the later clock.
        assert_eq!(world.exchange(&draft).await.status, if millis > 300_000 { 400 } else { 200 });
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_is_an_event_and_stops_all_that_begins() {
    let world = World::new().await;
    // Keys that are older than the step.
    world.clock.advance(2 * TEN_MINUTES);
    let held = held(&world).await;
    let approved = refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    let waiting = world.held_draft().await;
    let record = world.record("usr_mia", &waiting, Decision::Approve).await;
    let before = world.events().await.len();
    world.clock.set_back(TEN_MINUTES);
    for _ in 0..3 {
        world.exchange(&approved).await.refused(503, "clock_behind");
        world.propose(World::refund(3_800)).await.refused(503, "clock_behind");
        assert!(matches!(world.hand_in(&record).await.status, 400..=503), "it cannot count");
        assert!(world.execute(&held.token, &held.draft).await.status >= 400);
        ready(&world).await.refused(503, "not_ready");
        world.send(Request::get("/healthz").body(Body::empty()).unwrap()).await.expect(200);
    }
    let types = world.event_types().await;
    assert_eq!(
        types[before..].iter().filter(|t| *t == "clock.stepped_back").count(),
        1,
        "{types:?}"
    );
    assert_eq!(
        (world.writes(), world.draft(&waiting).await["state"].as_str()),
        (0, Some("awaiting_approval"))
    );
    world.clock.advance(TEN_MINUTES);
    ready(&world).await.expect(200);
    world.exchange(&approved).await.expect(200);
    still_good(&world, &held).await;
}

#[tokio::test]
async fn an_outcome_in_doubt_is_looked_up_and_not_sent_again_while_the_clock_is_behind() {
    let world = World::new().await;
    let held = held(&world).await;
    // Nothing was done: the look-ups say so, and only sending again would bring it about.
    world.sandbox.fault(Fault::once(FaultKind::DropBefore, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["state"], "indeterminate");
    world.clock.set_back(TEN_MINUTES);
    // The beat of a process that serves.
    world.app.store.probe().await.unwrap();
    for _ in 0..4 {
        world.later(MINUTE).await;
    }
    let looked = world.execution(&held.draft).await;
    assert_eq!((&looked["state"], world.writes()), (&json!("indeterminate"), 1), "{looked}");
    assert!(looked["lookups"].as_array().unwrap().len() >= 2, "{looked}");
    world.clock.advance(TEN_MINUTES);
    let execution = until(&world, &held.draft, "applied", 5).await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (2, 1));
    assert_eq!(execution["attempts"].as_array().unwrap().len(), 2);
    let posts = world.sandbox.requests().into_iter().filter(|r| r.method == "POST");
    let keys: std::collections::BTreeSet<_> = posts.map(|r| r.idempotency_key).collect();
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn the_result_of_a_sent_request_is_recorded_though_the_clock_was_set_back_meanwhile() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::Hold, "POST", "/v1/refunds"));
    let accepted = world.execute_body(&held.token, json!({ "draft_id": held.draft })).await;
    accepted.expect(202);
    world.sandbox.held(1).await;
    world.clock.set_back(TEN_MINUTES);
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    one_key(&world, &execution);
}

#[tokio::test]
async fn a_broker_that_leaps_into_the_next_keys_time_signs_nothing_a_right_proxy_takes() {
    let mut world = World::new().await;
    let proxy = apart(&world, 0);
    KeyRing::rotate(&world.config.keys, world.clock.now(), Rotation::default(), &*world.entropy).unwrap();
    world.restart();
    // The proxies have read the new set, as they do every five seconds.
    let set = std::fs::read(world.path("keys/credential-keys.json")).unwrap();
    let verifier = &proxy.0.proxy.as_ref().unwrap().verifier;
    verifier.replace_keys(writ::token::KeySet::from_json(&set).unwrap());
    world.clock.advance(Duration::from_secs(31));
    let early = held(&world).await;
    assert_eq!(
        &URL_SAFE.decode(&early.token).unwrap()[..2],
        &[0x08, 0x02],
        "signed by the second key"
    );
    let refused = execute_at(&proxy, &early.token, &early.draft).await;
    assert_eq!((refused.status, refused.code()), (401, "credential_key_not_yet_valid"));
    // Within the skew the key is good, but the proxy's clock is behind what is written down.
    let near = apart(&world, -5_000);
    let paused = execute_at(&near, &early.token, &early.draft).await;
    assert_eq!((paused.status, paused.code()), (503, "clock_behind"), "{}", paused.body);
    assert!(matches!(near.0.store.health().clock, ClockState::Behind { .. }));
    assert_eq!(world.writes(), 0);
    // By its own time it is good, once.
    still_good(&world, &early).await;
}

#[tokio::test]
async fn a_proxy_that_leaps_past_the_old_keys_end_takes_nothing_of_it() {
    let mut world = World::new().await;
    let at_once = Rotation {
        settle: Duration::from_secs(600),
        ..Rotation::default()
    };
    KeyRing::rotate(&world.config.keys, world.clock.now(), at_once, &*world.entropy).unwrap();
    world.restart();
    let draft = refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    let held = exchanged(&world, "support-agent", draft).await;
    assert_eq!(
        &URL_SAFE.decode(&held.token).unwrap()[..2],
        &[0x08, 0x01],
        "signed by the first key"
    );
    let ahead = apart(&world, 726_000);
    let refused = execute_at(&ahead, &held.token, &held.draft).await;
    assert_eq!((refused.status, refused.code()), (401, "credential_key_retired"));
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn while_there_is_little_room_nothing_new_begins_and_what_has_begun_goes_on() {
    let mut world = World::new().await;
    let held = held(&world).await;
    let approved = refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    world.config.store_low_water = u64::MAX;
    world.restart();
    world.propose(World::refund(3_800)).await.refused(503, "disk_low");
    let refused = world.exchange(&approved).await.refused(503, "disk_low");
    assert_eq!(refused.headers["retry-after"], "30");
    let red = ready(&world).await.refused(503, "not_ready");
    assert!(red.body["detail"].as_str().unwrap().contains("disk: little room"), "{}", red.body);
    still_good(&world, &held).await;
}
