//! The document in the body, and the document in the store: if either is not what was approved, nothing is sent.

use serde_json::{Value, json};
use writ::domain::json::Json;
use writ::sandbox::demo;

use super::support::{Held, held, refused, refused_request, still_good};
use crate::support::world::{World, execute_request};

async fn document(world: &World, held: &Held) -> Value {
    let bytes = world.app.store.draft_bytes(held.draft.parse().unwrap()).await.unwrap().unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn an_edited_document_is_refused_wherever_it_was_edited() {
    let world = World::new().await;
    let held = held(&world).await;
    let document = document(&world, &held).await;
    let edits: [(&str, Value); 13] = [
        ("/parameters/amount", json!(24_000)),
        ("/amount/minor", json!(24_000)),
        ("/parameters/currency", json!("eur")),
        ("/parameters/charge", json!(demo::CHARGE_OTHER)),
        ("/parameters/reason", json!("fraudulent")),
        ("/parameters/idempotency_key", json!("00000000-0000-4000-8000-000000000000")),
        ("/request/url", json!(format!("{}/v1/elsewhere", world.sandbox.url))),
        ("/request/url", json!("http://127.0.0.1:1/v1/refunds")),
        ("/request/body", json!("amount=24000")),
        ("/request/method", json!("DELETE")),
        ("/salt", json!("AAAAAAAAAAAAAAAAAAAAAA")),
        ("/expires_at", json!("2030-01-01T00:00:00.000Z")),
        ("/reason_code", json!("other")),
    ];
    for (place, value) in edits {
        let mut edited = document.clone();
        match edited.pointer_mut(place) {
            Some(member) => *member = value,
            None => {
                let (parent, name) = place.rsplit_once('/').unwrap();
                edited.pointer_mut(parent).unwrap()[name] = value;
            }
        }
        assert_ne!(edited, document, "{place}");
        refused(&world, &held.token, json!({ "draft": edited }), 403, "credential_draft_mismatch").await;
    }
    still_good(&world, &held).await;
    assert_eq!(world.sandbox.refunds(demo::CHARGE)[0].amount, 4_000);
}

#[tokio::test]
async fn a_document_with_more_or_fewer_members_than_a_draft_has_is_refused() {
    let world = World::new().await;
    let held = held(&world).await;
    let document = document(&world, &held).await;
    let mut more = document.clone();
    more["approved"] = json!(true);
    let mut deeper = document.clone();
    deeper["request"]["follow_redirects"] = json!(true);
    let mut fewer = document.clone();
    fewer.as_object_mut().unwrap().remove("salt");
    for edited in [more, deeper, fewer, json!({}), json!("draft")] {
        let request = execute_request(&held.token, json!({ "draft": edited }));
        refused_request(&world, request, 400, "json_invalid").await;
    }
    still_good(&world, &held).await;
}

#[tokio::test]
async fn the_document_itself_is_as_good_as_its_id_however_it_is_written() {
    let world = World::new().await;
    let held = held(&world).await;
    // Other order of members, other escapes, other white space: the same JSON, so the same hash.
    let pretty = serde_json::to_string_pretty(&json!({ "draft": document(&world, &held).await })).unwrap();
    assert!(Json::parse(pretty.as_bytes()).is_ok());
    let mut request = execute_request(&held.token, json!({}));
    *request.body_mut() = pretty.replace("refund.create", "\\u0072efund.create").into();
    world.send(request).await.expect(202);
    world.app.settle().await;
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
    assert_eq!(world.writes(), 1);
}

/// Somebody with the database file in hand, past its triggers.
#[tokio::test]
async fn a_document_that_was_changed_in_the_database_is_not_sent() {
    let world = World::new().await;
    let held = held(&world).await;
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    let change = "UPDATE draft_document SET bytes = CAST(replace(CAST(bytes AS TEXT), '4000', '9000') AS BLOB)";
    file.execute(change, []).expect_err("the schema itself forbids it");
    file.execute_batch("DROP TRIGGER draft_document_is_final").unwrap();
    assert_eq!(file.execute(change, []).unwrap(), 1);
    world.execute(&held.token, &held.draft).await;
    world.later(super::support::MINUTE).await;
    assert_eq!(world.writes(), 0);
    assert!(world.sandbox.refunds(demo::CHARGE).is_empty());
}

/// A backend file that was changed after approval: other address, other rules, other secret.
#[tokio::test]
async fn a_destination_that_was_changed_after_approval_ends_the_draft() {
    let mut world = World::new().await;
    let held = held(&world).await;
    let path = world.config.backends.join("stripe.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("total_timeout   = \"30s\"", "total_timeout   = \"29s\"")).unwrap();
    world.restart();
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("aborted"), &json!("adapter_changed"))
    );
    assert_eq!(world.writes(), 0);
    world.exchange(&held.draft).await.refused(400, "draft_not_approved");
}
