//! A card number, a token and a secret are sent through every way in; none of them comes out in an event, an export or a log line.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use writ::audit::export::{Entry, csv, ocsf};
use writ::audit::{Actor, ActorKind, EventBody, EventKind, Note, WITHHELD};
use writ::domain::approval::Decision;
use writ::store::intent::{NewDraft, Settled};

use crate::store::world::{World as Store, applied};
use crate::support::world::{Setup, World};

const CARD: &str = "4111-1111-1111-1111";
const BARE: &str = "4111111111111111";
const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmVk";
const SECRET: &str = "sk_live_51canarycanary";
const KEY: &str = "-----BEGIN PRIVATE KEY-----";
const CANARIES: [&str; 5] = [CARD, BARE, TOKEN, SECRET, KEY];

/// Everything that is told while it lives, on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listening(lines: &Lines) -> tracing::subscriber::DefaultGuard {
    let lines = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || lines.clone())
        .finish();
    tracing::subscriber::set_default(subscriber)
}

fn clean(what: &str, text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{canary} in {what}: {text}");
    }
}

/// No event holds a canary, and neither does anything that is made of events.
fn no_canary(database: &std::path::Path) -> Vec<Value> {
    let connection = rusqlite::Connection::open(database).unwrap();
    let mut statement = connection
        .prepare(
            "SELECT seq, body, actor || coalesce(case_id, '') || coalesce(resource, '') || coalesce(approver, '') FROM event ORDER BY seq",
        )
        .unwrap();
    let rows = statement
        .query_map([], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })
        .unwrap();
    rows.map(|row| {
        let (seq, body, columns) = row.unwrap();
        clean("an event", &body);
        clean("a search column", &columns);
        let entry = Entry::of(u64::try_from(seq).unwrap(), body.clone().into_bytes());
        clean("csv", &csv::record(&entry).unwrap());
        clean("ocsf", &ocsf::line(&entry, "writ.test/audit").unwrap());
        serde_json::from_str(&body).unwrap()
    })
    .collect()
}

#[tokio::test]
async fn a_draft_whose_ids_look_like_a_card_a_token_or_a_secret_is_refused_before_anything_is_stored() {
    let world = World::new().await;
    for (pointer, field, value) in [
        ("/case_id", "case_id", json!(CARD)),
        ("/case_id", "case_id", json!(SECRET)),
        ("/case_id", "case_id", json!(format!("case:{BARE}"))),
        ("/on_behalf_of", "on_behalf_of", json!(format!("usr_{BARE}"))),
        ("/reason_code", "reason_code", json!("a4111111111111111")),
        (
            "/evidence",
            "evidence",
            json!([{ "kind": format!("card {CARD}"), "sha256": "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0" }]),
        ),
    ] {
        let mut body = World::refund(4_000);
        body[field] = value.clone();
        let reply = world.propose(body).await.refused(400, "value_not_kept");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.body);
        clean("the answer", &reply.body.to_string());
        let event = world.events().await.pop().unwrap();
        assert_eq!(
            (&event["type"], &event["code"]),
            (&json!("draft.propose_denied"), &json!("value_not_kept"))
        );
    }
    let charge = World::refund_of(&format!("ch_{BARE}"), 4_000, "usd");
    world.propose(charge).await.refused(400, "value_not_kept");
    let drafts = world.call("support-agent", "GET", "/v1/drafts", None).await.expect(200);
    assert_eq!(drafts["drafts"], json!([]));
    assert_eq!(world.writes(), 0);
    no_canary(&world.config.store);
}

#[tokio::test]
async fn what_is_sent_through_every_way_in_comes_out_nowhere() {
    let lines = Lines::default();
    let guard = listening(&lines);
    let world = World::with(Setup {
        examples: vec![("adyen", "http://127.0.0.1:9".to_owned())],
        ..Setup::default()
    })
    .await;
    let mut odd = World::refund(4_000);
    odd["parameters"]["charge"] = json!(TOKEN);
    world.propose(odd).await;
    world
        .propose(json!({ "operation": format!("a.{}", "sk_live_51canarycanary"), "parameters": {} }))
        .await;
    world
        .propose(json!({ "operation": "refund.create", "parameters": { "charge": SECRET, "note": CARD, SECRET: 1 } }))
        .await;

    // The approver's words, the record itself, and records that are none.
    let draft = world.held_draft().await;
    let card = world.card(&draft).await;
    let mut claims = world.claims("usr_mia", &card, Decision::Deny);
    claims.apr.reason = Some(format!("paid with {CARD}, {SECRET}, {TOKEN}"));
    let record = world.signer("usr_mia").sign(&claims).unwrap();
    world.hand_in(&record).await.expect(200);
    for record in [TOKEN, SECRET, CARD] {
        world.hand_in(record).await;
    }

    // Headers, names of callers, tokens, addresses.
    for value in [
        format!("Bearer {TOKEN}"),
        format!("Basic {}", base64(SECRET)),
        format!("Basic {}", base64(&format!("{BARE}:{SECRET}"))),
    ] {
        let request = Request::get("/v1/drafts").header(header::AUTHORIZATION, value);
        world.send(request.body(Body::empty()).unwrap()).await;
    }
    let allowed = world.allowed_draft().await;
    world.execute(TOKEN, &allowed).await;
    world.execute(SECRET, CARD).await;
    world
        .exchange_form(
            "support-agent",
            &[("grant_type", SECRET), ("subject_token", TOKEN), ("audience", CARD)],
        )
        .await;
    for path in [
        format!("/v1/drafts/{BARE}"),
        format!("/v1/approvals/{SECRET}"),
        format!("/v1/drafts?case={CARD}"),
    ] {
        world.call("support-agent", "GET", &path, None).await;
    }
    let request = Request::post("/v1/drafts")
        .header(header::AUTHORIZATION, world.basic("support-agent"))
        .header("idempotency-key", SECRET)
        .header("traceparent", CARD)
        .header("user-agent", TOKEN)
        .header("x-request-id", BARE)
        .header(header::CONTENT_TYPE, "application/json");
    world
        .send(request.body(Body::from(World::refund(3_000).to_string())).unwrap())
        .await
        .expect(201);

    // An operator's stop with words, and what a backend tells by itself.
    let stop = json!({ "scope": "everything", "reason": format!("found {CARD} and {SECRET}") });
    world.call("operations", "POST", "/v1/stops", Some(stop)).await;
    let told = json!({ "notificationItems": [{ "NotificationRequestItem": {
        "pspReference": BARE, "merchantReference": SECRET, "additionalData": { "hmacSignature": TOKEN } } }] });
    let request = Request::post("/v1/backends/adyen/events").header(header::CONTENT_TYPE, "application/json");
    world.send(request.body(Body::from(told.to_string())).unwrap()).await;

    let events = no_canary(&world.config.store);
    assert!(
        events.iter().any(|event| event["type"] == "approval.refuse"),
        "the words came with a record that counted"
    );
    assert!(
        events.iter().filter(|event| event["outcome"] == "denied").count() >= 6,
        "{events:?}"
    );
    drop(guard);
    clean("the log lines", &String::from_utf8(lines.0.lock().unwrap().clone()).unwrap());
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn a_backend_cannot_keep_its_answer_from_being_recorded_by_what_it_puts_into_it() {
    let world = Store::with_one_connection().await;
    for canary in CANARIES {
        let said = Settled::Applied {
            reference: Some(format!("re {canary}")),
        };
        let execution = world.settled(said).await;
        assert_eq!(
            execution.reference.as_deref(),
            Some(&*format!("re {canary}")),
            "the state has what the backend said"
        );
        let event = world.events().await.pop().unwrap();
        assert_eq!(event["type"], "execution.confirm_applied");
        assert_eq!(event["provider"]["reference"], WITHHELD);
        assert_eq!(event["withheld"], json!(["provider.reference"]));
        assert_eq!(event["provider"]["status"], 200, "the rest stays");
    }
    let execution = world.settled(applied()).await;
    assert_eq!(execution.reference.as_deref(), Some("re_1"));
    let event = world.events().await.pop().unwrap();
    assert_eq!((&event["provider"]["reference"], event.get("withheld")), (&json!("re_1"), None));
    assert_eq!(world.store().tally().all_withheld(), CANARIES.len() as u64);
    no_canary(&world.file);
}

#[tokio::test]
async fn a_draft_from_before_whose_ids_must_not_be_written_is_still_told_of_by_its_own_id() {
    let world = Store::with_two_connections().await;
    let draft = NewDraft {
        case_id: Some(CARD.parse().unwrap()),
        ..world.new_draft()
    };
    let stored = world.propose(draft).await;
    let event = world.events().await.pop().unwrap();
    assert_eq!(event["draft"]["id"], stored.id.to_string());
    assert_eq!((event.get("case_id"), event.get("case")), (None, None));
    assert_eq!(event["withheld"], json!(["case_id"]));
    let note = EventBody::new(EventKind::Note(Note::AuthFailed), Actor::new(ActorKind::Anonymous, CARD)).denied(SECRET);
    world.store().note(world.op(), note).await.unwrap();
    let event = world.events().await.pop().unwrap();
    assert_eq!(event["withheld"], json!(["actor.id", "code"]));
    no_canary(&world.file);
}
