//! Everything is looked at again when an approval is exchanged: what held when it was given need not hold now.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::clock::Clock as _;
use writ::sandbox::{Fault, FaultKind, demo};

use crate::support::world::World;

/// A refund of 240.00 USD that `approver` has approved.
async fn approved_by(world: &World, approver: &str) -> String {
    let draft = world.held_draft().await;
    let record = world.record(approver, &draft, Decision::Approve).await;
    assert_eq!(world.hand_in(&record).await.expect(200)["draft"]["state"], "approved");
    draft
}

/// The exchange is refused with this code, and the draft is stale from then on, whatever is put right later.
async fn goes_stale(world: &World, draft: &str, status: u16, code: &str, writes: usize) -> Value {
    let reply = world.exchange(draft).await;
    world.denied(&reply, status, code, "credential.exchange_denied", writes).await;
    let stale = world.draft(draft).await;
    assert_eq!((&stale["state"], &stale["code"]), (&json!("stale"), &json!(code)), "{stale}");
    let again = world.exchange(draft).await;
    world
        .denied(&again, 400, "draft_not_approved", "credential.exchange_denied", writes)
        .await;
    assert_eq!(again.body["draft_state"], "stale");
    let types = world.event_types().await;
    assert!(types.contains(&"draft.mark_stale".to_owned()));
    assert!(!types.contains(&"credential.issue".to_owned()));
    reply.body
}

/// Refused for now with this code; the draft stands as it stood.
async fn refused(world: &World, draft: &str, status: u16, code: &str, writes: usize) {
    let reply = world.exchange(draft).await;
    world.denied(&reply, status, code, "credential.exchange_denied", writes).await;
    assert_eq!(world.draft(draft).await["state"], "approved");
}

/// Writes one file of the working directory anew and starts the process again.
fn edit(world: &mut World, below: &str, change: impl FnOnce(String) -> String) {
    let path = world.path(below);
    let text = fs::read_to_string(&path).unwrap();
    let changed = change(text.clone());
    assert_ne!(changed, text);
    fs::write(&path, changed).unwrap();
    world.restart();
}

#[tokio::test]
async fn a_revoked_approver_s_signature_stops_counting() {
    let world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    world
        .app
        .store
        .revoke_approver(world.op(), "usr_mia".parse().unwrap())
        .await
        .unwrap();
    goes_stale(&world, &draft, 400, "approver_key_revoked", 0).await;
}

#[tokio::test]
async fn a_revoked_key_s_signature_stops_counting() {
    let world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    world.app.store.revoke_key(world.op(), "usr_mia-1".parse().unwrap()).await.unwrap();
    goes_stale(&world, &draft, 400, "approver_key_revoked", 0).await;
}

#[tokio::test]
async fn an_authority_that_has_ended_stops_counting() {
    let mut world = World::new().await;
    let end = world.clock.now().plus(Duration::from_secs(60));
    let temporary = move |entry: &mut writ::store::record::ApproverEntry| {
        entry.approver.authority.iter_mut().for_each(|row| row.valid_to = Some(end));
    };
    world.add_approver("usr_mia", "usr_temp", temporary).await;
    let draft = approved_by(&world, "usr_temp").await;
    world.clock.advance(Duration::from_secs(60));
    goes_stale(&world, &draft, 400, "approval_insufficient", 0).await;
}

#[tokio::test]
async fn an_authority_that_was_made_less_stops_counting() {
    let world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    let mia = world.app.store.approver(&"usr_mia".parse().unwrap()).await.unwrap().unwrap();
    let mut less = mia.approver.authority.clone();
    less.iter_mut().for_each(|row| row.limit.as_mut().unwrap().max_minor = 1);
    let replaced = world.app.store.replace_authority(world.op(), mia.approver.id, less);
    replaced.await.unwrap();
    goes_stale(&world, &draft, 400, "approval_insufficient", 0).await;
}

#[tokio::test]
async fn of_two_signatures_one_that_is_gone_is_one_too_few() {
    let world = World::new().await;
    let charge = world.charge(600_000, "usd").await;
    let draft = world.propose(World::refund_of(&charge, 120_000, "usd")).await.expect(201);
    let draft = draft["id"].as_str().unwrap();
    for approver in ["usr_mia", "usr_tom"] {
        let record = world.record(approver, draft, Decision::Approve).await;
        world.hand_in(&record).await.expect(200);
    }
    world.app.store.revoke_key(world.op(), "usr_tom-1".parse().unwrap()).await.unwrap();
    goes_stale(&world, draft, 400, "approver_key_revoked", 0).await;
}

#[tokio::test]
async fn a_policy_that_now_denies_stops_what_people_approved() {
    let mut world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    edit(&mut world, "policies/cedar/limits.toml", |text| {
        text.replace("version = 1", "version = 2")
            .replacen("never_above = 500000", "never_above = 20000", 1)
            .replacen("two_above = 100000", "two_above = 15000", 1)
    });
    let body = goes_stale(&world, &draft, 400, "policy_denies", 0).await;
    assert_eq!(body["error"], "invalid_request");
    assert!(body["rules"].as_array().unwrap().contains(&json!("refund-never-above")), "{body}");
}

#[tokio::test]
async fn a_policy_that_now_asks_stops_what_a_rule_allowed() {
    let mut world = World::new().await;
    let draft = world.allowed_draft().await;
    edit(&mut world, "policies/cedar/limits.toml", |text| {
        text.replace("version = 1", "version = 2")
            .replacen("ask_above = 10000", "ask_above = 3999", 1)
    });
    let body = goes_stale(&world, &draft, 400, "policy_denies", 0).await;
    assert_eq!(body["rules"], json!(["refund-over-limit"]));
}

#[tokio::test]
async fn a_policy_that_now_wants_two_people_is_not_content_with_one() {
    let mut world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    edit(&mut world, "policies/cedar/limits.toml", |text| {
        text.replace("version = 1", "version = 2")
            .replacen("two_above = 100000", "two_above = 20000", 1)
    });
    let body = goes_stale(&world, &draft, 400, "policy_denies", 0).await;
    assert_eq!(body["rules"], json!(["refund-needs-two"]));
}

#[tokio::test]
async fn a_customer_who_has_changed_since_makes_the_draft_stale() {
    let world = World::new().await;
    let address = |line1: &str| json!({ "line1": line1, "city": "Portland", "postal_code": "97201", "country": "US" });
    let body = json!({
        "operation": "shipping_address.update",
        "parameters": { "customer": demo::CUSTOMER, "old": address("12 Harbour Street"), "new": address("1 Pier Road") },
    });
    let draft = world.propose(body).await.expect(201);
    assert_eq!(draft["resource"]["version"], "\"1\"", "{draft}");
    let patch = json!({ "shipping_address": address("99 Elsewhere") }).to_string();
    let path = format!("/customers/{}", demo::CUSTOMER);
    let headers = [
        ("if-match", "\"1\""),
        ("content-type", "application/json"),
        ("idempotency-key", "desk-1"),
    ];
    world.arrange("PATCH", &path, &headers, &patch).await;
    goes_stale(&world, draft["id"].as_str().unwrap(), 400, "resource_changed", 0).await;
}

#[tokio::test]
async fn a_charge_that_was_refunded_elsewhere_makes_the_draft_stale() {
    let world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("idempotency-key", "desk-1")];
    world
        .arrange("POST", "/v1/refunds", &headers, &format!("charge={}&amount=1", demo::CHARGE))
        .await;
    goes_stale(&world, &draft, 400, "resource_changed", 0).await;
}

#[tokio::test]
async fn an_adapter_file_that_has_changed_makes_the_draft_stale() {
    let mut world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    edit(&mut world, "policies/backends/stripe.toml", |text| {
        format!("{text}\n# one more line\n")
    });
    goes_stale(&world, &draft, 400, "adapter_changed", 0).await;
}

#[tokio::test]
async fn a_backend_that_cannot_be_read_refuses_for_now() {
    let world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/charges/*", 100));
    let reply = world.exchange(&draft).await.refused(503, "backend_unavailable");
    assert_eq!(reply.body["error"], "temporarily_unavailable");
    assert_eq!(
        world.draft(&draft).await["state"],
        "approved",
        "what could not be read has not changed"
    );
}

#[tokio::test]
async fn the_time_to_use_an_approval_ends_to_the_millisecond() {
    let world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    world.clock.advance(Duration::from_secs(300));
    refused(&world, &draft, 400, "execution_window_over", 0).await;
    world.app.broker.as_ref().unwrap().sweep().await.unwrap();
    assert_eq!(world.draft(&draft).await["state"], "expired");
}

#[tokio::test]
async fn a_credential_never_outlives_the_time_to_use_its_approval() {
    let world = World::new().await;
    let draft = approved_by(&world, "usr_mia").await;
    world.clock.advance(Duration::from_secs(280));
    let short = world.exchange(&draft).await.expect(200);
    assert!(short["expires_in"].as_i64().unwrap() <= 20, "{short}");
    let token = short["access_token"].as_str().unwrap();
    world.clock.advance(Duration::from_secs(20));
    world.execute(token, &draft).await.refused(401, "credential_expired");
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn a_record_can_narrow_the_time_to_use_it() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let mut claims = world.claims("usr_mia", &world.card(&draft).await, Decision::Approve);
    claims.apr.execute_by = Some(claims.iat + 30);
    let record = world.signer("usr_mia").sign(&claims).unwrap();
    world.hand_in(&record).await.expect(200);
    world.clock.advance(Duration::from_secs(30));
    refused(&world, &draft, 400, "execution_window_over", 0).await;
}

#[tokio::test]
async fn an_expired_draft_is_not_exchanged() {
    let mut world = World::new().await;
    world.config.draft_lifetime = Duration::from_secs(120);
    world.restart();
    let draft = approved_by(&world, "usr_mia").await;
    world.clock.advance(Duration::from_secs(120));
    refused(&world, &draft, 400, "draft_expired", 0).await;
}

/// An execution whose outcome stays unknown, whatever is tried: its draft and its id. `kind` says whether it had its effect.
async fn unresolved(world: &World, kind: FaultKind) -> (String, String) {
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.sandbox.fault(Fault::times(kind, "POST", "/v1/refunds", 1000));
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 1000));
    world.execute(&token, &draft).await.expect(202);
    let execution = world.execution(&draft).await;
    assert_eq!(execution["state"], "indeterminate");
    (draft, execution["id"].as_str().unwrap().to_owned())
}

async fn resolve(world: &World, execution: &str, outcome: &str) {
    let found = json!({ "outcome": outcome, "evidence": "looked up in the provider's dashboard" });
    let path = format!("/v1/executions/{execution}/resolve");
    world.call("operations", "POST", &path, Some(found)).await.expect(200);
}

#[tokio::test]
async fn nothing_is_issued_while_another_execution_on_the_same_charge_is_open_and_it_is_when_answered() {
    let world = World::new().await;
    let (_, execution) = unresolved(&world, FaultKind::DropBefore).await;
    let second = world.propose(World::refund(5_000)).await.expect(201);
    let second = second["id"].as_str().unwrap();
    let writes = world.writes();
    refused(&world, second, 400, "resource_busy", writes).await;
    let told = world.exchange(second).await;
    assert!(
        told.body["error_description"].as_str().unwrap().contains(&execution),
        "it names the execution to wait for"
    );
    let elsewhere = world.propose(World::refund_of(demo::CHARGE_OTHER, 5_000, "usd")).await.expect(201);
    world.credential(elsewhere["id"].as_str().unwrap()).await;
    resolve(&world, &execution, "not_applied").await;
    world.credential(second).await;
}

#[tokio::test]
async fn what_an_open_execution_has_done_is_not_taken_for_a_change_before_it_is_answered() {
    let world = World::new().await;
    let second = world.propose(World::refund(5_000)).await.expect(201);
    let second = second["id"].as_str().unwrap();
    let (_, execution) = unresolved(&world, FaultKind::DropAfter).await;
    let writes = world.writes();
    refused(&world, second, 400, "resource_busy", writes).await;
    resolve(&world, &execution, "applied").await;
    let reply = world.exchange(second).await;
    world
        .denied(&reply, 400, "resource_changed", "credential.exchange_denied", writes)
        .await;
    assert_eq!(
        world.draft(second).await["state"],
        "stale",
        "the approval was for the charge as it was"
    );
}
