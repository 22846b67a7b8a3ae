//! The same approval, the same token, the same call again: the recorded outcome comes back and nothing acts twice.

use serde_json::json;
use writ::domain::approval::Decision;
use writ::sandbox::{Fault, FaultKind, demo};

use super::support::{exchanged, forged, held, refused, until};
use crate::support::world::World;

#[tokio::test]
async fn an_approval_that_was_used_gives_no_second_credential() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    world.hand_in(&record).await.expect(200);
    let held = exchanged(&world, "support-agent", draft).await;
    world.execute(&held.token, &held.draft).await.expect(202);
    world.exchange(&held.draft).await.refused(400, "draft_not_approved");
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", record.as_str()),
        ("subject_token_type", "urn:writ:token-type:approval-record"),
    ];
    world.exchange_form("support-agent", &form).await.refused(400, "draft_not_approved");
    // Even a fresh grant under the stolen signing key only reads the outcome.
    let mut grant = held.grant.clone();
    grant.credential = writ::domain::id::CredentialId::generate(&*world.clock, &*world.entropy);
    refused(
        &world,
        &forged(&world, &grant),
        json!({ "draft_id": held.draft }),
        401,
        "credential_unknown",
    )
    .await;
    assert_eq!((world.writes(), world.sandbox.refunds(demo::CHARGE).len()), (1, 1));
}

#[tokio::test]
async fn a_repeated_call_tells_the_truth_in_every_state() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    let first = world.execute(&held.token, &held.draft).await.expect(202);
    let again = world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!((&again["id"], &again["state"]), (&first["id"], &json!("indeterminate")));
    world.later(std::time::Duration::from_secs(2)).await;
    let done = world.execute(&held.token, &held.draft).await.expect(200);
    assert_eq!((&done["id"], &done["state"]), (&first["id"], &json!("applied")));
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn a_repeated_call_while_the_first_is_under_way_waits_and_sends_nothing() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::Hold, "POST", "/v1/refunds"));
    let body = json!({ "draft_id": held.draft });
    world.execute_body(&held.token, body.clone()).await.expect(202);
    world.sandbox.held(1).await;
    let again = world.execute_body(&held.token, body).await.expect(202);
    assert_eq!(again["state"], "dispatched");
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
    assert_eq!(world.writes(), 1);
}

/// A caller that hangs up, as a load balancer does, changes nothing: the work belongs to the process.
#[tokio::test]
async fn a_caller_that_hangs_up_does_not_stop_what_has_begun() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::Hold, "GET", "/v1/charges/*"));
    let request = crate::support::world::execute_request(&held.token, json!({ "draft_id": held.draft }));
    // The call is started and dropped at its first wait, which is while the credential is being spent.
    tokio::select! {
        biased;
        reply = world.send(request) => panic!("answered without waiting: {reply:?}"),
        () = std::future::ready(()) => {}
    }
    world.sandbox.held(1).await;
    assert_eq!(world.sandbox.release(), 1);
    world.app.settle().await;
    until(&world, &held.draft, "applied", 2).await;
    assert_eq!(world.writes(), 1);
}

/// An agent that asks for a key, in every place it can reach.
#[tokio::test]
async fn nothing_a_caller_sends_becomes_the_key_on_the_wire() {
    let world = World::new().await;
    let wanted = "11111111-2222-4333-8444-555555555555";
    for name in ["idempotency_key", "idempotency-key", "key", "metadata"] {
        let mut proposal = World::refund(4_000);
        proposal["parameters"][name] = json!(wanted);
        world.propose(proposal).await.refused(400, "operation_parameters_invalid");
    }
    let held = held(&world).await;
    let mut request = crate::support::world::execute_request(&held.token, json!({ "draft_id": held.draft }));
    for name in ["idempotency-key", "x-idempotency-key", "if-match"] {
        request.headers_mut().insert(name, wanted.parse().unwrap());
    }
    world.send(request).await.expect(202);
    world.app.settle().await;
    let sent = super::support::sent(&world);
    let execution = world.execution(&held.draft).await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].idempotency_key.as_deref(), execution["idempotency_key"].as_str());
    assert_ne!(sent[0].idempotency_key.as_deref(), Some(wanted));
    assert!(!sent[0].body.contains(wanted) && sent[0].if_match.is_none());
}
