//! Several refunds for one customer within a day: the third asks a person, however close together they come.

use std::time::Duration;

use serde_json::json;
use writ::sandbox::demo;

use crate::support::world::World;

#[tokio::test]
async fn the_third_refund_for_the_same_customer_asks_whatever_charge_it_is_on() {
    let world = World::new().await;
    for body in [World::refund(100), World::refund_of(demo::CHARGE_EUR, 100, "eur")] {
        assert_eq!(world.propose(body).await.expect(201)["state"], "approved");
    }
    let other = world.propose(World::refund_of(demo::CHARGE_OTHER, 100, "usd")).await.expect(201);
    assert_eq!(other["state"], "approved", "another customer's refunds are counted apart");
    let third = world.propose(World::refund_of(demo::CHARGE_JPY, 100, "jpy")).await.expect(201);
    assert_eq!(third["state"], "awaiting_approval", "{third}");
    assert_eq!(third["verdict"]["rules"][0]["id"], "refund-velocity");
    world.clock.advance(Duration::from_secs(24 * 60 * 60));
    let next_day = world.propose(World::refund(101)).await.expect(201);
    assert_eq!(next_day["state"], "approved", "{next_day}");
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn refunds_proposed_at_the_same_instant_by_two_processes_do_not_slip_past_the_count() {
    let world = World::new().await;
    let (_app, other) = world.another();
    let propose = |amount: i64| {
        let request = axum::http::Request::post("/v1/drafts")
            .header("authorization", world.basic("support-agent"))
            .header("content-type", "application/json")
            .body(axum::body::Body::from(World::refund(amount).to_string()));
        request.unwrap()
    };
    let (a, b, c, d) = tokio::join!(
        world.send(propose(101)),
        crate::support::world::send(&other, propose(102)),
        world.send(propose(103)),
        crate::support::world::send(&other, propose(104)),
    );
    let mut states: Vec<_> = [a, b, c, d].into_iter().map(|r| r.expect(201)["state"].clone()).collect();
    states.sort_by_key(ToString::to_string);
    assert_eq!(
        states,
        [
            json!("approved"),
            json!("approved"),
            json!("awaiting_approval"),
            json!("awaiting_approval")
        ]
    );
}

#[tokio::test]
async fn a_draft_that_was_replaced_does_not_count_twice_and_one_that_was_taken_back_does() {
    let world = World::new().await;
    let first = world.propose(World::refund(100)).await.expect(201);
    let mut body = World::refund(110);
    body["supersedes"] = first["id"].clone();
    let second = world.propose(body).await.expect(201);
    let third = world.propose(World::refund(120)).await.expect(201);
    assert_eq!((&second["state"], &third["state"]), (&json!("approved"), &json!("approved")));
    let path = format!("/v1/drafts/{}/withdraw", third["id"].as_str().unwrap());
    world.call("support-agent", "POST", &path, None).await.expect(200);
    let fourth = world.propose(World::refund(130)).await.expect(201);
    assert_eq!(fourth["state"], "awaiting_approval", "taking drafts back must not reset the count");
}

#[tokio::test]
async fn a_charge_without_a_customer_is_no_way_around_the_count() {
    let world = World::new().await;
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let guest = world
        .arrange("POST", "/v1/charges", &headers, "amount=90000&currency=usd&source=tok_visa")
        .await;
    let guest = guest["id"].as_str().unwrap();
    for amount in [100, 101] {
        let body = World::refund_of(guest, amount, "usd");
        assert_eq!(world.propose(body).await.expect(201)["state"], "approved");
    }
    let third = world.propose(World::refund_of(guest, 102, "usd")).await.expect(201);
    assert_eq!(third["state"], "awaiting_approval", "{third}");
    assert_eq!(third["verdict"]["rules"][0]["id"], "refund-velocity");
}
