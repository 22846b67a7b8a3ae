//! Who may sign, how many must, and who comes first.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::clock::Clock as _;

use crate::support::world::{Reply, World, send};

async fn refused(world: &World, draft: &str, record: &str, status: u16, code: &str) {
    let before = world.card(draft).await;
    let reply = world.hand_in(record).await;
    world.denied(&reply, status, code, "approval.record_denied", 0).await;
    // A record that came before stands for its draft at the exchange; any other is refused at both doors alike.
    if before["maker"] == "support-agent" && code != "approval_answered" {
        world.refused_at_the_exchange(record, code).await;
    }
    assert_eq!(world.card(draft).await, before, "{code} changed the card");
}

/// A draft for this much of a charge that holds enough; it waits.
async fn large_draft(world: &World, amount: i64) -> String {
    let charge = world.charge(600_000, "usd").await;
    let draft = world.propose(World::refund_of(&charge, amount, "usd")).await.expect(201);
    assert_eq!(draft["state"], "awaiting_approval", "{draft}");
    draft["id"].as_str().unwrap().to_owned()
}

fn hand_in_request(world: &World, record: &str) -> Request<Body> {
    let request = Request::post("/v1/approvals")
        .header("authorization", world.basic("review-desk"))
        .header("content-type", "application/json")
        .body(Body::from(json!({ "record": record }).to_string()));
    request.unwrap()
}

#[tokio::test]
async fn the_maker_its_owner_and_the_person_it_is_for_cannot_approve() {
    let mut world = World::new().await;
    world.add_approver("usr_mia", "svc_support-agent", |_| {}).await;
    let mut body = World::refund(24_000);
    body["on_behalf_of"] = json!("usr_tom");
    let draft = world.propose(body).await.expect(201);
    let draft = draft["id"].as_str().unwrap();
    for own in ["svc_support-agent", "usr_ann", "usr_tom"] {
        for decision in [Decision::Approve, Decision::Deny] {
            let record = world.record(own, draft, decision).await;
            refused(&world, draft, &record, 403, "self_approval").await;
        }
    }
    let record = world.record("usr_mia", draft, Decision::Approve).await;
    assert_eq!(world.hand_in(&record).await.expect(200)["draft"]["state"], "approved");
}

#[tokio::test]
async fn nobody_approves_what_is_not_theirs_to_decide() {
    let mut world = World::new().await;
    world
        .add_approver("usr_mia", "usr_new", |entry| entry.approver.authority.clear())
        .await;
    let later = world.clock.now().plus(Duration::from_secs(60));
    world
        .add_approver("usr_mia", "usr_soon", move |entry| {
            entry.approver.authority.iter_mut().for_each(|row| row.valid_from = later)
        })
        .await;
    let now = world.clock.now();
    world
        .add_approver("usr_mia", "usr_ended", move |entry| {
            entry.approver.authority.iter_mut().for_each(|row| row.valid_to = Some(now))
        })
        .await;
    let draft = world.held_draft().await;
    for stranger in ["usr_ada", "usr_new", "usr_soon", "usr_ended"] {
        let record = world.record(stranger, &draft, Decision::Approve).await;
        refused(&world, &draft, &record, 403, "approver_without_authority").await;
    }
    let email = world.propose(World::email("ada@example.org")).await.expect(201);
    let email = email["id"].as_str().unwrap();
    let record = world.record("usr_mia", email, Decision::Approve).await;
    refused(&world, email, &record, 403, "approver_without_authority").await;
}

#[tokio::test]
async fn one_minor_unit_over_the_limit_is_over_the_limit() {
    let world = World::new().await;
    let over = large_draft(&world, 150_001).await;
    let record = world.record("usr_tom", &over, Decision::Approve).await;
    refused(&world, &over, &record, 403, "approver_over_limit").await;
    let within = large_draft(&world, 150_000).await;
    let record = world.record("usr_tom", &within, Decision::Approve).await;
    let counted = world.hand_in(&record).await.expect(200);
    assert_eq!(counted["draft"]["approval"]["given"], 1);
}

#[tokio::test]
async fn a_revoked_key_and_a_revoked_approver_sign_nothing() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let mia = world.record("usr_mia", &draft, Decision::Approve).await;
    let tom = world.record("usr_tom", &draft, Decision::Approve).await;
    world.app.store.revoke_key(world.op(), "usr_mia-1".parse().unwrap()).await.unwrap();
    refused(&world, &draft, &mia, 403, "record_key_revoked").await;
    world
        .app
        .store
        .revoke_approver(world.op(), "usr_tom".parse().unwrap())
        .await
        .unwrap();
    refused(&world, &draft, &tom, 403, "record_key_revoked").await;
}

#[tokio::test]
async fn a_card_past_its_time_is_not_answered() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let lifetime = Duration::from_secs(3_600);
    world.clock.advance(lifetime - Duration::from_millis(1));
    let early = world.record("usr_mia", &draft, Decision::Approve).await;
    world.clock.advance(Duration::from_millis(1));
    refused(&world, &draft, &early, 409, "approval_expired").await;
    world.app.broker.as_ref().unwrap().sweep().await.unwrap();
    let draft = world.draft(&draft).await;
    assert_eq!(
        (&draft["state"], &draft["code"]),
        (&json!("expired"), &json!("expired")),
        "expired is not denied"
    );
}

#[tokio::test]
async fn a_denial_closes_the_draft_and_the_orchestrator_reads_exactly_its_reason() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let reason = "The photo shows another product: “mixer”, not blender. <b>Ask</b> the customer — 再送.";
    let mut claims = world.claims("usr_mia", &world.card(&draft).await, Decision::Deny);
    claims.apr.reason = Some(reason.to_owned());
    let record = world.signer("usr_mia").sign(&claims).unwrap();
    assert_eq!(world.hand_in(&record).await.expect(200)["decision"], "deny");
    let seen = world.draft(&draft).await;
    assert_eq!(
        (&seen["state"], &seen["code"], &seen["reason"]),
        (&json!("denied"), &json!("denied_by_approver"), &json!(reason))
    );
    let reply = world.exchange(&draft).await;
    world
        .denied(&reply, 400, "draft_not_approved", "credential.exchange_denied", 0)
        .await;
    assert!(
        reply.body["error_description"].as_str().unwrap().ends_with(reason),
        "{}",
        reply.body
    );
    let mut late = world.claims("usr_tom", &world.card(&draft).await, Decision::Approve);
    late.apr.reason = None;
    let late = world.signer("usr_tom").sign(&late).unwrap();
    refused(&world, &draft, &late, 409, "approval_decided").await;
    assert!(
        !world.events().await.iter().any(|e| e.to_string().contains("mixer")),
        "people's words are not in the log"
    );
}

#[tokio::test]
async fn the_policy_s_denial_is_final_and_has_its_reason() {
    let world = World::new().await;
    let charge = world.charge(600_000, "usd").await;
    let draft = world.propose(World::refund_of(&charge, 500_001, "usd")).await.expect(201);
    assert_eq!((&draft["state"], &draft["code"]), (&json!("denied"), &json!("denied_by_policy")));
    assert_eq!(draft["verdict"]["rules"][0]["id"], "refund-never-above");
    assert_eq!(draft["reason"], draft["verdict"]["rules"][0]["reason"]);
    let reply = world.exchange(draft["id"].as_str().unwrap()).await;
    world
        .denied(&reply, 400, "draft_not_approved", "credential.exchange_denied", 0)
        .await;
}

#[tokio::test]
async fn a_large_refund_needs_two_different_people() {
    let world = World::new().await;
    let draft = large_draft(&world, 120_000).await;
    let first = world.record("usr_mia", &draft, Decision::Approve).await;
    let counted = world.hand_in(&first).await.expect(200);
    assert_eq!(
        (&counted["draft"]["state"], &counted["draft"]["approval"]["given"]),
        (&json!("awaiting_approval"), &json!(1))
    );
    refused(&world, &draft, &first, 409, "approval_answered").await;
    let again = world.record("usr_mia", &draft, Decision::Approve).await;
    refused(&world, &draft, &again, 409, "approval_answered").await;
    world.refused_at_the_exchange(&again, "approval_answered").await;
    let changed_mind = world.record("usr_mia", &draft, Decision::Deny).await;
    refused(&world, &draft, &changed_mind, 409, "approval_answered").await;
    let reply = world.exchange(&draft).await;
    world.denied(&reply, 400, "approval_pending", "credential.exchange_denied", 0).await;
    assert_eq!(reply.body["error"], "authorization_pending");
    let second = world.record("usr_tom", &draft, Decision::Approve).await;
    assert_eq!(world.hand_in(&second).await.expect(200)["draft"]["state"], "approved");
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn a_denial_beside_a_signature_closes_the_card() {
    let world = World::new().await;
    let draft = large_draft(&world, 120_000).await;
    let yes = world.record("usr_mia", &draft, Decision::Approve).await;
    world.hand_in(&yes).await.expect(200);
    let no = world.record("usr_tom", &draft, Decision::Deny).await;
    assert_eq!(world.hand_in(&no).await.expect(200)["draft"]["state"], "denied");
}

/// One was counted, the other told so.
fn one_wins(a: Reply, b: Reply, code: &str) -> Value {
    let (won, lost) = if a.status == 200 { (a, b) } else { (b, a) };
    lost.refused(409, code);
    won.expect(200)
}

#[tokio::test]
async fn of_two_approvals_at_the_same_instant_one_wins_and_the_other_is_told() {
    let world = World::new().await;
    let (_app, other) = world.another();
    let draft = world.held_draft().await;
    let one = world.record("usr_mia", &draft, Decision::Approve).await;
    let two = world.record("usr_mia", &draft, Decision::Approve).await;
    let (a, b) = tokio::join!(world.hand_in(&one), send(&other, hand_in_request(&world, &two)));
    one_wins(a, b, "approval_answered");

    let draft = world.propose(World::refund(23_000)).await.expect(201)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mia = world.record("usr_mia", &draft, Decision::Approve).await;
    let tom = world.record("usr_tom", &draft, Decision::Approve).await;
    let (a, b) = tokio::join!(world.hand_in(&mia), send(&other, hand_in_request(&world, &tom)));
    one_wins(a, b, "approval_decided");

    let draft = world.propose(World::refund(22_000)).await.expect(201)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let yes = world.record("usr_mia", &draft, Decision::Approve).await;
    let no = world.record("usr_tom", &draft, Decision::Deny).await;
    let (a, b) = tokio::join!(world.hand_in(&yes), send(&other, hand_in_request(&world, &no)));
    let won = one_wins(a, b, "approval_decided");
    let expected = if won["decision"] == "approve" { "approved" } else { "denied" };
    assert_eq!(world.draft(&draft).await["state"], expected);
    let decided = |e: &&String| matches!(e.as_str(), "approval.grant" | "approval.refuse");
    assert_eq!(world.event_types().await.iter().filter(decided).count(), 3);
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn an_account_change_needs_a_fresh_sign_in_and_a_stale_one_does_not_use_up_the_answer() {
    let world = World::new().await;
    let draft = world.propose(World::email("ada@example.org")).await.expect(201);
    assert_eq!(draft["approval"]["all_of"][0]["step_up"], true, "{draft}");
    let draft = draft["id"].as_str().unwrap();
    let card = world.card(draft).await;
    let now = world.claims("usr_ada", &card, Decision::Approve).iat;
    for (amr, auth_time) in [
        (vec!["hwk"], Some(now - 301)),
        (vec!["hwk"], None),
        (vec!["hwk"], Some(now + 3_600)),
        (vec!["pwd"], Some(now)),
        (vec!["otp", "sms"], Some(now)),
        (vec![], Some(now)),
    ] {
        let mut claims = world.claims("usr_ada", &card, Decision::Approve);
        claims.apr.by.amr = amr.into_iter().map(str::to_owned).collect();
        claims.apr.by.auth_time = auth_time;
        let record = world.signer("usr_ada").sign(&claims).unwrap();
        refused(&world, draft, &record, 403, "step_up_missing").await;
    }
    let record = world.record("usr_ada", draft, Decision::Approve).await;
    assert_eq!(world.hand_in(&record).await.expect(200)["draft"]["state"], "approved");
}

#[tokio::test]
async fn only_the_approval_service_hands_records_in_and_sees_the_nonce() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    for client in ["support-agent", "security", "operations"] {
        let reply = world.call(client, "POST", "/v1/approvals", Some(json!({ "record": record }))).await;
        world.denied(&reply, 403, "role_missing", "access.denied", 0).await;
        let view = world.call(client, "GET", &format!("/v1/drafts/{draft}"), None).await.expect(200);
        assert!(view["approval"].get("request_nonce").is_none(), "{view}");
    }
    assert_eq!(world.draft(&draft).await["state"], "awaiting_approval");
}
