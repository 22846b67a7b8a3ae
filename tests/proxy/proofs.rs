//! Nothing is sent that the log does not tell of: whoever can write to the database and has no key makes rows, and the rows move nothing.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use writ::domain::clock::Clock as _;
use writ::domain::id::{CredentialId, ExecutionId, OperationId};
use writ::sandbox::{Fault, FaultKind, demo};
use writ::store::Op;

use super::support::{Held, MINUTE, claimed, exchanged, held, one_key, still_good, until};
use crate::support::SeededEntropy;
use crate::support::vandal::without_guards;
use crate::support::world::{Setup, World};

/// Writes to the database as somebody who is none of our processes.
fn vandal(world: &World, attack: impl FnOnce(&Connection)) {
    let file = Connection::open(&world.config.store).unwrap();
    file.busy_timeout(Duration::from_secs(20)).unwrap();
    without_guards(&file, attack);
}

fn one(db: &Connection, sql: &str, params: impl rusqlite::Params) {
    assert_eq!(db.execute(sql, params).unwrap(), 1, "{sql}");
}

/// The draft as it would stand had its credential been spent.
fn consume(db: &Connection, draft: &str) {
    one(db, "UPDATE draft SET state = 'consumed' WHERE id = ?1", [draft]);
    let grant = "UPDATE approval SET state = 'granted', execute_by = coalesce(execute_by, expires_at) WHERE draft = ?1";
    one(db, grant, [draft]);
}

/// A credential of this draft that nobody issued, spent.
fn spent(world: &World, db: &Connection, draft: &str) -> String {
    let id = CredentialId::generate(&*world.clock, &SeededEntropy::new(4712)).to_string();
    let now = world.clock.now().millis();
    one(
        db,
        "INSERT INTO credential (id, draft, hash, approval, audience, root_key_id, state, issued_at, expires_at, changed_at)
         SELECT ?1, draft, hash, id, ?2, 1, 'redeemed', ?3, ?3 + 60000, ?3 FROM approval WHERE draft = ?4",
        (&id, world.config.proxy_audience.as_str(), now, draft),
    );
    id
}

/// An execution of this draft that nobody claimed, whose lease is over.
fn taken(world: &World, db: &Connection, draft: &str, credential: &str, state: &str) -> String {
    let id = ExecutionId::generate(&*world.clock, &SeededEntropy::new(4713)).to_string();
    let then = world.clock.now().millis() - 30_000;
    let sent = (state == "indeterminate").then_some(then);
    one(
        db,
        "INSERT INTO execution (id, draft, hash, credential, state, fence, holder, lease_until, claimed_at, changed_at, first_sent_at, send_until)
         SELECT ?1, id, hash, ?2, ?3, 1, 'nobody', ?4, ?4, ?4, ?5, ?5 + 3600000 FROM draft WHERE id = ?6",
        (&id, credential, state, then, sent, draft),
    );
    id
}

/// What the log tells of requests that were not sent for want of a proof.
async fn told(world: &World) -> Vec<Value> {
    let events = world.events().await;
    let of = |e: &Value| e["type"] == "execution.send_denied" && e["code"] == "issue_not_logged";
    events.into_iter().filter(of).collect()
}

async fn ends(world: &World, draft: &str, state: &str) {
    for _ in 0..4 {
        world.later(MINUTE).await;
    }
    assert_eq!(world.writes(), 0, "nothing left");
    let execution = world.execution(draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!(state), &json!("issue_not_logged")),
        "{execution}"
    );
    let told = told(world).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["execution"]["id"], execution["id"]);
    assert_eq!((&told[0]["draft"]["id"], &told[0]["outcome"]), (&json!(draft), &json!("denied")));
}

#[tokio::test]
async fn rows_that_say_a_credential_was_spent_send_nothing() {
    for setup in [
        Setup::default(),
        Setup::edit("writ.toml", "lease    = \"60s\"", "lease = \"60s\"\nrequire_receipt = true"),
    ] {
        let world = World::with(setup).await;
        let draft = world.held_draft().await;
        vandal(&world, |db| {
            consume(db, &draft);
            let credential = spent(&world, db, &draft);
            taken(&world, db, &draft, &credential, "claimed");
        });
        ends(&world, &draft, "aborted").await;
        let view = world.card(&draft).await;
        assert_eq!(view["state"], "stale", "{view}");
    }
}

/// Without an attempt it would be sent for the first time, with one that is known to have done nothing or in doubt once more.
#[tokio::test]
async fn rows_that_say_a_request_is_to_be_sent_again_send_nothing() {
    for attempt in [None, Some(Some(1)), Some(Some(0)), Some(None)] {
        let world = World::new().await;
        let draft = world.held_draft().await;
        vandal(&world, |db| {
            consume(db, &draft);
            let credential = spent(&world, db, &draft);
            let execution = taken(&world, db, &draft, &credential, "indeterminate");
            if let Some(conclusive) = attempt {
                let at = conclusive.map(|_| world.clock.now().millis());
                let bytes: Vec<u8> = db
                    .query_row("SELECT bytes FROM draft_document WHERE draft = ?1", [&draft], |row| row.get(0))
                    .unwrap();
                let document = writ::domain::draft::DraftDocument::parse(&bytes).unwrap();
                let key = writ::domain::draft::IdempotencyKey::of(&writ::domain::digest::DraftHash::of_canonical(&bytes));
                let body = writ::domain::digest::Digest::of(&document.request.wire_body(&key));
                let proxy = world.app.proxy.as_ref().unwrap();
                let secrets = proxy.clients.of(&document.request.backend).unwrap().secrets_mark();
                one(
                    db,
                    "INSERT INTO attempt (execution, n, request_sha256, secrets, sent_at, result_at, outcome, conclusive)
                     VALUES (?1, 1, ?2, ?3, ?4, ?5, CASE WHEN ?5 IS NOT NULL THEN 'x' END, ?6)",
                    (
                        &execution,
                        body.to_string(),
                        secrets.to_string(),
                        world.clock.now().millis() - 20_000,
                        at,
                        conclusive,
                    ),
                );
            }
        });
        for _ in 0..4 {
            world.later(MINUTE).await;
        }
        assert_eq!(world.writes(), 0, "{attempt:?}");
        let execution = world.execution(&draft).await;
        assert_eq!(execution["state"], "handed_off", "{attempt:?} {execution}");
        let handoffs = world
            .call("operations", "GET", "/v1/handoffs?why=issue_not_logged", None)
            .await
            .expect(200);
        assert_eq!(handoffs["handoffs"].as_array().map(Vec::len), Some(1), "{handoffs}");
        assert_eq!(told(&world).await.len(), 1);
    }
}

#[tokio::test]
async fn a_credential_that_was_issued_and_never_brought_is_not_spent_by_a_row() {
    let world = World::new().await;
    let held = held(&world).await;
    vandal(&world, |db| {
        let credential = held.grant.credential.to_string();
        one(db, "UPDATE credential SET state = 'redeemed' WHERE id = ?1", [&credential]);
        consume(db, &held.draft);
        taken(&world, db, &held.draft, &credential, "claimed");
    });
    ends(&world, &held.draft, "aborted").await;
}

#[tokio::test]
async fn the_credential_of_one_draft_sends_no_other() {
    let world = World::new().await;
    let small = held(&world).await;
    let large = world.held_draft().await;
    vandal(&world, |db| {
        let credential = small.grant.credential.to_string();
        consume(db, &large);
        taken(&world, db, &large, &credential, "claimed");
    });
    ends(&world, &large, "aborted").await;
}

/// What was sent is set back to where nothing was. To say that it was given up would be to say that nothing was sent.
#[tokio::test]
async fn what_was_sent_by_the_log_is_not_sent_for_the_first_time_again() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    assert_eq!(world.execution(&held.draft).await["state"], "indeterminate");
    assert_eq!(world.writes(), 1);
    vandal(&world, |db| {
        one(db, "DELETE FROM attempt", []);
        one(
            db,
            "UPDATE execution SET state = 'claimed', first_sent_at = NULL, send_until = NULL, lease_until = 0, code = NULL",
            [],
        );
    });
    for _ in 0..4 {
        world.later(MINUTE).await;
    }
    assert_eq!(world.writes(), 1);
    assert_eq!(world.execution(&held.draft).await["state"], "claimed");
    assert_eq!(told(&world).await.len(), 1, "it is told once");
    world.exchange(&held.draft).await.refused(400, "draft_not_approved");
}

/// The process that sends has not yet seen that the key was replaced.
#[tokio::test]
async fn a_log_whose_key_was_replaced_a_moment_ago_still_shows_what_may_be_sent() {
    let world = World::new().await;
    let first = held(&world).await;
    claimed(&world, &first).await;
    let outside = writ::app::Outside {
        clock: world.clock.clone(),
        entropy: std::sync::Arc::new(SeededEntropy::new(4714)),
    };
    let op = Op {
        id: OperationId::generate(&*world.clock, &SeededEntropy::new(4715)),
        ..world.op()
    };
    writ::app::rotate_log_key(&world.config, op, &outside).await.unwrap();
    let mut body = World::refund(3_900);
    body["parameters"]["charge"] = json!(demo::CHARGE_OTHER);
    let draft = world.propose(body).await.expect(201);
    assert_eq!(draft["state"], "approved", "{draft}");
    let second: Held = exchanged(&world, "support-agent", draft["id"].as_str().unwrap().to_owned()).await;
    still_good(&world, &second).await;
    let done = until(&world, &first.draft, "applied", 3).await;
    assert_eq!(done["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(world.writes(), 2);
}

/// The key on the wire follows from the approved bytes: another one in a row would be a second effect.
#[tokio::test]
async fn a_key_that_was_changed_in_a_row_never_goes_out() {
    let world = World::new().await;
    let held = held(&world).await;
    world.sandbox.fault(Fault::once(FaultKind::DropBefore, "POST", "/v1/refunds"));
    world.execute(&held.token, &held.draft).await.expect(202);
    let before = world.execution(&held.draft).await;
    assert_eq!(before["state"], "indeterminate");
    vandal(&world, |db| {
        let other = "UPDATE draft SET idempotency_key = '11111111-1111-8111-8111-111111111111' WHERE id = ?1";
        one(db, other, [&held.draft]);
    });
    for _ in 0..4 {
        let proxy = world.app.proxy.as_ref().unwrap();
        world.clock.advance(MINUTE);
        let _corrupt = proxy.sweep().await;
        world.app.settle().await;
    }
    let key = before["idempotency_key"].as_str();
    for request in world.sandbox.requests().iter().filter(|r| r.method == "POST") {
        assert_eq!(request.idempotency_key.as_deref(), key);
    }
    vandal(&world, |db| {
        let back = "UPDATE draft SET idempotency_key = ?2 WHERE id = ?1";
        one(db, back, (&held.draft, key));
    });
    let done = until(&world, &held.draft, "applied", 3).await;
    one_key(&world, &done);
}
