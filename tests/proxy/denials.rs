//! Credentials that are refused at the execute endpoint: nothing reaches the backend, the log holds the denial, and a good credential stays
//! good for its own draft.

use std::time::Duration;

use serde_json::json;
use writ::domain::digest::DraftHash;
use writ::domain::id::{ApprovalId, CredentialId, DraftId};
use writ::domain::time::Timestamp;
use writ::sandbox::demo;

use super::support::{address_draft, email, exchanged, forged, held, refund_on, refused, refused_request, still_good, with_headers};
use crate::support::world::World;

#[tokio::test]
async fn no_token_basic_two_tokens_and_junk_are_refused() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = json!({ "draft_id": held.draft });
    let bearer = format!("Bearer {}", held.token);
    let missing: [&[String]; 6] = [
        &[],
        &[world.basic("support-agent")],
        &[format!("Basic {}", held.token)],
        &[bearer.clone(), bearer.clone()],
        &[world.basic("support-agent"), bearer.clone()],
        std::slice::from_ref(&held.token),
    ];
    for headers in missing {
        let request = with_headers(headers, body.clone());
        refused_request(&world, request, 401, "credential_missing").await;
    }
    for (token, code) in [
        ("", "credential_empty"),
        ("not base64 !", "credential_not_base64"),
        ("AAECAwQFBgcICQoLDA0ODw==", "credential_malformed"),
        (&"A".repeat(2049), "credential_too_long"),
        (&world.record_like(), "credential_not_base64"),
    ] {
        refused(&world, token, body.clone(), 401, code).await;
    }
    still_good(&world, &held).await;
}

#[tokio::test]
async fn a_call_without_a_credential_is_told_so_whatever_its_body_is() {
    let world = World::new().await;
    for (media, body) in [("text/plain", "x"), ("application/json", "{"), ("application/json", "[]")] {
        let request = axum::http::Request::post("/v1/executions").header("content-type", media);
        refused_request(&world, request.body(body.into()).unwrap(), 401, "credential_missing").await;
    }
}

impl World {
    /// Something that is a token elsewhere.
    fn record_like(&self) -> String {
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ1c3JfbWlhIn0.c2lnbmF0dXJl".to_owned()
    }
}

#[tokio::test]
async fn a_credential_for_another_draft_is_refused_and_stays_good_for_its_own() {
    let world = World::new().await;
    let held = held(&world).await;
    let same_charge = refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    let other_charge = refund_on(&world, demo::CHARGE_OTHER, 4_000, "usd").await;
    let address = address_draft(&world).await;
    for (draft, code) in [
        (same_charge, "credential_draft_mismatch"),
        (other_charge, "credential_resource_mismatch"),
        (address, "credential_operation_mismatch"),
    ] {
        refused(&world, &held.token, json!({ "draft_id": draft }), 403, code).await;
        let record = world.app.store.draft(draft.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(record.state.as_str(), "approved", "the other draft is as it was");
    }
    let nobody = DraftId::generate(&*world.clock, &*world.entropy).to_string();
    let request = crate::support::world::execute_request(&held.token, json!({ "draft_id": nobody }));
    refused_request(&world, request, 404, "not_found").await;
    still_good(&world, &held).await;
}

#[tokio::test]
async fn an_address_credential_at_the_email_operation_is_refused() {
    let world = World::new().await;
    let held = exchanged(&world, "support-agent", address_draft(&world).await).await;
    let email = world.propose(email()).await.expect(201);
    assert_eq!(
        email["resource"]["id"],
        demo::CUSTOMER,
        "the same customer: only the operation differs"
    );
    let body = json!({ "draft_id": email["id"] });
    refused(&world, &held.token, body, 403, "credential_operation_mismatch").await;
    still_good(&world, &held).await;
    assert_eq!(world.sandbox.customer(demo::CUSTOMER).unwrap().1["email"], "ada.moreno@example.com");
}

#[tokio::test]
async fn another_tenants_credential_is_refused_in_both_directions() {
    let mut world = World::new().await;
    world
        .add_client("support-agent", |client| {
            client.id = "their-agent".parse().unwrap();
            client.tenant = "other".parse().unwrap();
        })
        .await;
    let ours = held(&world).await;
    let theirs = world
        .call("their-agent", "POST", "/v1/drafts", Some(World::refund(4_000)))
        .await
        .expect(201);
    let theirs = exchanged(&world, "their-agent", theirs["id"].as_str().unwrap().to_owned()).await;
    refused(
        &world,
        &theirs.token,
        json!({ "draft_id": ours.draft }),
        403,
        "credential_tenant_mismatch",
    )
    .await;
    refused(
        &world,
        &ours.token,
        json!({ "draft_id": theirs.draft }),
        403,
        "credential_tenant_mismatch",
    )
    .await;
    still_good(&world, &ours).await;
    let id = world.execution(&ours.draft).await["id"].as_str().unwrap().to_owned();
    let foreign = world.call("their-agent", "GET", &format!("/v1/executions/{id}"), None).await;
    foreign.refused(404, "not_found");
}

/// Whoever steals the signing key still has no row in the store: what was never issued is not spent.
#[tokio::test]
async fn a_credential_that_was_widened_with_the_stolen_signing_key_is_refused() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = json!({ "draft_id": held.draft });
    let changed = |change: &dyn Fn(&mut writ::token::Grant)| {
        let mut grant = held.grant.clone();
        change(&mut grant);
        forged(&world, &grant)
    };
    let cases = [
        (
            changed(&|g| g.audience = "urn:writ:proxy:other".parse().unwrap()),
            403,
            "credential_audience_mismatch",
        ),
        (
            changed(&|g| g.operation = "email.update".parse().unwrap()),
            403,
            "credential_operation_mismatch",
        ),
        (
            changed(&|g| g.resource.id = "ch_another".parse().unwrap()),
            403,
            "credential_resource_mismatch",
        ),
        (
            changed(&|g| g.resource.tenant = "other".parse().unwrap()),
            403,
            "credential_tenant_mismatch",
        ),
        (
            changed(&|g| g.draft_hash = DraftHash::of_canonical(b"{}")),
            403,
            "credential_draft_mismatch",
        ),
        (
            changed(&|g| g.credential = CredentialId::generate(&*world.clock, &*world.entropy)),
            401,
            "credential_unknown",
        ),
        (
            changed(&|g| g.jti = ApprovalId::generate(&*world.clock, &*world.entropy)),
            403,
            "credential_draft_mismatch",
        ),
        (
            changed(&|g| g.not_before = g.expires_at.minus(Duration::from_secs(30))),
            401,
            "credential_not_yet_valid",
        ),
        (
            changed(&|g| {
                g.not_before = Timestamp::from_seconds(g.not_before.seconds() + 100);
                g.expires_at = Timestamp::from_seconds(g.expires_at.seconds() + 140);
            }),
            401,
            "credential_not_yet_valid",
        ),
    ];
    for (token, status, code) in cases {
        refused(&world, &token, body.clone(), status, code).await;
    }
    still_good(&world, &held).await;
}

#[tokio::test]
async fn an_expired_credential_is_refused_also_when_it_is_signed_anew_for_longer() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = json!({ "draft_id": held.draft });
    let mut longer = held.grant.clone();
    longer.expires_at = longer.expires_at.plus(Duration::from_secs(55));
    let longer = forged(&world, &longer);
    world.clock.advance(Duration::from_secs(59));
    let last_second = world.app.proxy.as_ref().unwrap();
    assert!(
        last_second.verifier.read(&held.token, held.grant.expires_at).is_ok(),
        "the signature has no end"
    );
    world.clock.advance(Duration::from_secs(1));
    refused(&world, &held.token, body.clone(), 401, "credential_expired").await;
    // The row says when it ends, whatever the token says.
    refused(&world, &longer, body, 401, "credential_expired").await;
    let again = exchanged(&world, "support-agent", held.draft).await;
    still_good(&world, &again).await;
}

#[tokio::test]
async fn a_replaced_credential_is_refused_and_its_successor_is_good() {
    let world = World::new().await;
    let first = held(&world).await;
    let second = exchanged(&world, "support-agent", first.draft.clone()).await;
    refused(&world, &first.token, json!({ "draft_id": first.draft }), 401, "credential_not_live").await;
    still_good(&world, &second).await;
}

#[tokio::test]
async fn the_credential_of_a_withdrawn_or_superseded_draft_is_refused() {
    let world = World::new().await;
    let withdrawn = held(&world).await;
    let path = format!("/v1/drafts/{}/withdraw", withdrawn.draft);
    world.call("support-agent", "POST", &path, None).await.expect(200);
    refused(
        &world,
        &withdrawn.token,
        json!({ "draft_id": withdrawn.draft }),
        401,
        "credential_not_live",
    )
    .await;

    let old = exchanged(&world, "support-agent", refund_on(&world, demo::CHARGE, 3_900, "usd").await).await;
    let mut proposal = World::refund(3_800);
    proposal["supersedes"] = json!(old.draft);
    let new = world.propose(proposal).await.expect(201);
    refused(&world, &old.token, json!({ "draft_id": old.draft }), 401, "credential_not_live").await;
    refused(
        &world,
        &old.token,
        json!({ "draft_id": new["id"] }),
        403,
        "credential_draft_mismatch",
    )
    .await;
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn a_body_that_names_no_draft_or_two_or_something_else_is_refused() {
    let world = World::new().await;
    let held = held(&world).await;
    for body in [
        json!({}),
        json!({ "draft_id": held.draft, "draft": {} }),
        json!({ "draft_id": held.draft, "amount": 1 }),
        json!({ "draft_id": "not an id" }),
        json!({ "draft_id": held.draft, "idempotency_key": "00000000-0000-4000-8000-000000000000" }),
        json!([held.draft]),
    ] {
        world.execute_body(&held.token, body).await.refused(400, "json_invalid");
    }
    assert_eq!(world.writes(), 0);
    still_good(&world, &held).await;
}

#[tokio::test]
async fn a_credential_dies_with_its_client_and_with_whoever_approved_it() {
    let world = World::new().await;
    let held = held(&world).await;
    world
        .app
        .store
        .revoke_client(world.op(), "support-agent".parse().unwrap())
        .await
        .unwrap();
    refused(&world, &held.token, json!({ "draft_id": held.draft }), 401, "credential_not_live").await;

    let world = World::new().await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, writ::domain::approval::Decision::Approve).await;
    world.hand_in(&record).await.expect(200);
    let token = world.credential(&draft).await;
    world
        .app
        .store
        .revoke_approver(world.op(), "usr_mia".parse().unwrap())
        .await
        .unwrap();
    refused(&world, &token, json!({ "draft_id": draft }), 403, "record_key_revoked").await;
}
