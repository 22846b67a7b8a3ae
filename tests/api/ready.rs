//! Alive is not ready: ready says that work can be done now.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;

use crate::support::world::{Reply, World};

async fn get(world: &World, path: &str) -> Reply {
    world.send(Request::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_process_that_can_work_says_so() {
    let world = World::new().await;
    let ready = get(&world, "/readyz").await.expect(200);
    let checks: Vec<_> = ready["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(checks, ["store", "clock", "disk", "log", "signing_key", "verifying_key"]);
}

#[tokio::test]
async fn a_signing_key_past_its_date_is_not_ready_and_issues_nothing() {
    let world = World::new().await;
    world.clock.advance(Duration::from_secs(90 * 86_400));
    let draft = world.allowed_draft().await;
    let red = get(&world, "/readyz").await.refused(503, "not_ready");
    assert!(red.body["detail"].as_str().unwrap().contains("signing_key"), "{}", red.body);
    assert_eq!(red.headers["retry-after"], "1");
    let reply = world.exchange(&draft).await.refused(503, "signing_key_past_date");
    assert_eq!(reply.body["error"], "temporarily_unavailable");
    assert_eq!(world.draft(&draft).await["state"], "approved", "a rotated key can still be asked");
    assert!(!world.event_types().await.contains(&"credential.issue".to_owned()));
    get(&world, "/healthz").await.expect(200);
}

#[tokio::test]
async fn a_store_that_cannot_commit_is_not_ready() {
    let world = World::new().await;
    let behind = rusqlite::Connection::open(world.path("data/writ.db")).unwrap();
    behind
        .execute_batch("CREATE TRIGGER full BEFORE UPDATE ON probe BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
        .unwrap();
    let red = get(&world, "/readyz").await.refused(503, "not_ready");
    assert!(red.body["detail"].as_str().unwrap().contains("store"), "{}", red.body);
    get(&world, "/healthz").await.expect(200);
    behind.execute_batch("DROP TRIGGER full").unwrap();
    get(&world, "/readyz").await.expect(200);
}

#[tokio::test]
async fn key_files_that_cannot_be_read_are_not_ready_before_they_stop_anything() {
    let world = World::new().await;
    let broker = world.app.broker.as_ref().unwrap();
    broker.key_files_unreadable();
    let red = get(&world, "/readyz").await.refused(503, "not_ready");
    assert!(red.body["detail"].as_str().unwrap().contains("key files"), "{}", red.body);
    world.allowed_draft().await;
    broker.replace_keys(writ::token::KeyRing::load(&world.path("keys")).unwrap());
    get(&world, "/readyz").await.expect(200);
}

#[tokio::test]
async fn a_process_whose_facts_secret_is_its_write_secret_does_not_start() {
    let world = World::new().await;
    std::fs::copy(world.path("secrets/stripe-write"), world.path("secrets/stripe-facts")).unwrap();
    let outside = writ::app::Outside {
        clock: world.clock.clone(),
        entropy: world.entropy.clone(),
    };
    let faults = writ::app::App::assemble(&world.config, writ::app::Part::All, outside, &|_| None)
        .err()
        .unwrap();
    assert!(faults.to_string().contains("auth.facts"), "{faults}");
}

#[tokio::test]
async fn where_the_head_cannot_be_kept_outside_nothing_new_begins_and_what_began_ends() {
    let world = World::new().await;
    let begun = world.allowed_draft().await;
    let token = world.credential(&begun).await;
    let (head, aside) = (world.path("data/writ.head"), world.path("data/writ.head.aside"));
    std::fs::rename(&head, &aside).unwrap();
    std::fs::create_dir(&head).unwrap();
    // The first that comes finds it out.
    let waiting = world.propose(World::refund(1_001)).await.expect(201);
    let refused = world.propose(World::refund(1_002)).await.refused(503, "audit_unavailable");
    assert!(
        refused.body["detail"].as_str().unwrap().contains("outside the database"),
        "{}",
        refused.body
    );
    let waiting = waiting["id"].as_str().unwrap();
    world.exchange(waiting).await.refused(503, "audit_unavailable");
    let red = get(&world, "/readyz").await.refused(503, "not_ready");
    assert!(red.body["detail"].as_str().unwrap().contains("log"), "{}", red.body);
    world.execute(&token, &begun).await.expect(202);
    assert_eq!(world.execution(&begun).await["state"], "applied");

    std::fs::remove_dir(&head).unwrap();
    std::fs::rename(&aside, &head).unwrap();
    world.clock.advance(Duration::from_secs(2));
    get(&world, "/readyz").await.expect(200);
    world.propose(World::refund(1_002)).await.expect(201);
}

#[tokio::test]
async fn many_questions_about_readiness_are_few_writes() {
    let world = World::new().await;
    let commits = || world.app.store.tally().commits().count;
    let before = commits();
    let begun = std::time::Instant::now();
    for _ in 0..200 {
        get(&world, "/readyz").await.expect(200);
    }
    let allowed = 5 + begun.elapsed().as_secs() + 1;
    assert!(commits() - before <= allowed, "{} writes for 200 questions", commits() - before);
}
