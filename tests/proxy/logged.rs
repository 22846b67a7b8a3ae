//! A proxy that asks for it spends a credential only with the receipt that its issue is in the log: the signing key alone moves nothing.

use serde_json::{Value, json};
use writ::audit::tree::{Edge, leaf_hash};
use writ::audit::{LogKey, Receipt, SignedHead};
use writ::domain::id::CredentialId;
use writ::token::Grant;

use super::support::{Held, exchanged, forged, refused};
use crate::support::SeededEntropy;
use crate::support::world::{Setup, World, execute_request, send};

async fn asking() -> World {
    World::with(Setup::edit(
        "writ.toml",
        "lease    = \"60s\"",
        "lease = \"60s\"\nrequire_receipt = true",
    ))
    .await
}

/// A draft with its credential, and what the exchange said of the log.
async fn held(world: &World) -> (Held, Value) {
    let draft = world.allowed_draft().await;
    held_for(world, draft).await
}

async fn held_for(world: &World, draft: String) -> (Held, Value) {
    let held = exchanged(world, "support-agent", draft).await;
    let id = writ::store::log::EventRef::Issued(held.grant.credential);
    let proven = world.app.store.receipt(id).await.unwrap().unwrap();
    let audit = json!({
        "seq": proven.event.seq, "event": String::from_utf8(proven.event.bytes).unwrap(), "receipt": proven.receipt.text(),
    });
    (held, audit)
}

fn with(held: &Held, audit: &Value) -> Value {
    json!({ "draft_id": held.draft, "audit": audit })
}

/// The answer of an exchange is what the proxy takes, as it is.
async fn good(world: &World, held: &Held, audit: &Value) {
    let writes = world.writes();
    world.execute_body(&held.token, with(held, audit)).await.expect(202);
    world.app.settle().await;
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
    assert_eq!(world.writes(), writes + 1);
}

/// Whoever writes to the database makes a row that looks issued, and signs a token for it with the real key.
fn stolen(world: &World, held: &Held) -> (Held, CredentialId) {
    let id = CredentialId::generate(&*world.clock, &SeededEntropy::new(4711));
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute(
        "UPDATE credential SET state = 'revoked' WHERE id = ?1",
        [held.grant.credential.to_string()],
    )
    .unwrap();
    let made = file.execute(
        "INSERT INTO credential SELECT ?1, draft, hash, approval, audience, root_key_id, 'issued', issued_at, expires_at, changed_at
         FROM credential WHERE id = ?2",
        (id.to_string(), held.grant.credential.to_string()),
    );
    assert_eq!(made.unwrap(), 1);
    let grant = Grant {
        credential: id,
        ..held.grant.clone()
    };
    let token = forged(world, &grant);
    let draft = held.draft.clone();
    (Held { draft, token, grant }, id)
}

#[tokio::test]
async fn a_stolen_signing_key_and_a_row_that_looks_issued_move_nothing_without_a_receipt() {
    let world = asking().await;
    let (real, audit) = held(&world).await;
    let (stolen, id) = stolen(&world, &real);
    refused(&world, &stolen.token, json!({ "draft_id": stolen.draft }), 403, "receipt_missing").await;
    refused(&world, &stolen.token, with(&stolen, &audit), 403, "receipt_invalid").await;
    // The event with the other credential's id in it is no event of the log.
    let event = audit["event"].as_str().unwrap();
    let renamed = event.replace(&real.grant.credential.to_string(), &id.to_string());
    assert_ne!(renamed, event);
    let renamed = json!({ "event": renamed, "receipt": audit["receipt"] });
    refused(&world, &stolen.token, with(&stolen, &renamed), 403, "receipt_invalid").await;
    assert_eq!(world.writes(), 0);
}

/// What the receipt is for: without it the row is taken for spent and the draft consumed, before the log is asked and nothing is sent.
#[tokio::test]
async fn a_proxy_that_asks_for_no_receipt_takes_the_stolen_token_and_sends_nothing() {
    let world = World::new().await;
    let (real, _) = held(&world).await;
    let (stolen, _) = stolen(&world, &real);
    world.execute(&stolen.token, &stolen.draft).await.expect(202);
    let execution = world.execution(&stolen.draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("aborted"), &json!("issue_not_logged"))
    );
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn the_receipt_of_another_credential_or_another_event_is_refused() {
    let world = asking().await;
    let (earlier, old) = held(&world).await;
    let (newer, audit) = held_for(&world, earlier.draft.clone()).await;
    refused(&world, &newer.token, with(&newer, &old), 403, "receipt_invalid").await;
    // The first one is revoked, and its own receipt does not bring it back.
    let body = with(&earlier, &old);
    refused(&world, &earlier.token, body, 401, "credential_not_live").await;
    let draft: writ::domain::id::DraftId = newer.draft.parse().unwrap();
    let proposed = world
        .app
        .store
        .receipt(writ::store::log::EventRef::Proposed(draft))
        .await
        .unwrap()
        .unwrap();
    let other = json!({ "event": String::from_utf8(proposed.event.bytes).unwrap(), "receipt": proposed.receipt.text() });
    refused(&world, &newer.token, with(&newer, &other), 403, "receipt_invalid").await;
    refused(&world, &newer.token, json!({ "draft_id": newer.draft }), 403, "receipt_missing").await;
    good(&world, &newer, &audit).await;
}

#[tokio::test]
async fn a_receipt_of_which_anything_is_changed_is_refused() {
    let world = asking().await;
    let (held, audit) = held(&world).await;
    let (event, receipt) = (audit["event"].as_str().unwrap(), audit["receipt"].as_str().unwrap());
    let read = Receipt::read(receipt).unwrap();
    assert!(read.proof.len() > 1);
    let mut turned = read.clone();
    turned.proof.reverse();
    let mut shorter = read.clone();
    shorter.proof.pop();
    let mut elsewhere = read.clone();
    elsewhere.index -= 1;
    let mut broken = Vec::new();
    for (event, receipt) in [
        (event.replacen('{', "{ ", 1), receipt.to_owned()),
        (event.replacen("\"outcome\":\"ok\"", "\"outcome\":\"OK\"", 1), receipt.to_owned()),
        (event.to_owned(), turned.text()),
        (event.to_owned(), shorter.text()),
        (event.to_owned(), elsewhere.text()),
        (event.to_owned(), receipt.replacen("@v1", "@v2", 1)),
        (event.to_owned(), receipt.replacen("\n\n", "\n", 1)),
        (event.to_owned(), receipt.trim_end().to_owned()),
        (event.to_owned(), receipt.rsplit_once("\u{2014}").unwrap().0.to_owned()),
        (event.to_owned(), String::new()),
        (String::new(), receipt.to_owned()),
        (receipt.to_owned(), event.to_owned()),
    ] {
        broken.push(json!({ "event": event, "receipt": receipt }));
    }
    broken.push(json!({ "seq": read.index + 1, "event": event, "receipt": receipt }));
    for audit in broken {
        refused(&world, &held.token, with(&held, &audit), 403, "receipt_invalid").await;
    }
    for unread in [
        json!("receipt"),
        json!({}),
        json!({ "event": event }),
        json!({ "event": event, "receipt": receipt, "more": 1 }),
    ] {
        refused(&world, &held.token, with(&held, &unread), 400, "json_invalid").await;
    }
    good(&world, &held, &audit).await;
}

/// A log of one event, under a key of this name.
fn other_log(name: &str, event: &str) -> Value {
    let (key, _) = LogKey::generate(&name.parse().unwrap(), &SeededEntropy::new(815)).unwrap();
    let mut edge = Edge::default();
    edge.push(leaf_hash(event.as_bytes())).unwrap();
    let head = SignedHead::sign(1, edge.root().unwrap(), &[&key]).unwrap();
    let receipt = Receipt {
        index: 0,
        proof: Vec::new(),
        head,
    };
    receipt.verify(event.as_bytes(), std::slice::from_ref(key.verifier())).unwrap();
    json!({ "event": event, "receipt": receipt.text() })
}

#[tokio::test]
async fn the_receipt_of_another_log_is_refused_whatever_it_is_called() {
    let world = asking().await;
    let (held, audit) = held(&world).await;
    let event = audit["event"].as_str().unwrap();
    let own = Receipt::read(audit["receipt"].as_str().unwrap()).unwrap().head.origin().to_string();
    for name in [own.as_str(), "elsewhere.example/audit"] {
        let forged = other_log(name, event);
        refused(&world, &held.token, with(&held, &forged), 403, "receipt_invalid").await;
    }
    good(&world, &held, &audit).await;
}

#[tokio::test]
async fn while_a_rotation_is_unfinished_either_key_is_believed_and_after_it_the_newer_one_alone() {
    let world = asking().await;
    let (held, audit) = held(&world).await;
    let own = Receipt::read(audit["receipt"].as_str().unwrap()).unwrap().head.origin().clone();
    let files = writ::app::log_files(&world.config);
    files.announce(&own, &SeededEntropy::new(816)).unwrap();
    let unfinished = world.another();
    std::fs::remove_file(files.next()).unwrap();
    let finished = world.another();
    let execute = || execute_request(&held.token, with(&held, &audit));
    let reply = send(&finished.1, execute()).await;
    world.denied(&reply, 403, "receipt_invalid", "credential.use_denied", 0).await;
    send(&unfinished.1, execute()).await.expect(202);
    unfinished.0.settle().await;
    assert_eq!(world.execution(&held.draft).await["state"], "applied");
}

#[tokio::test]
async fn a_receipt_under_a_key_that_the_log_has_replaced_is_refused() {
    let world = asking().await;
    let (held, audit) = held(&world).await;
    let own = Receipt::read(audit["receipt"].as_str().unwrap()).unwrap().head.origin().clone();
    let (newer, _) = LogKey::generate(&own, &SeededEntropy::new(816)).unwrap();
    let public = world.config.audit_key.with_extension("pub");
    let text = std::fs::read_to_string(&public).unwrap();
    std::fs::write(&public, format!("{text}log {}\n", newer.verifier())).unwrap();
    let (app, router) = world.another();
    let reply = send(&router, execute_request(&held.token, with(&held, &audit))).await;
    world.denied(&reply, 403, "receipt_invalid", "credential.use_denied", 0).await;
    app.settle().await;
    // Where the newest key is the one that signed, it is good.
    good(&world, &held, &audit).await;
    std::fs::write(&public, "log nothing\n").unwrap();
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.another()));
    assert!(refused.is_err(), "a process without the log's keys does not start");
}
