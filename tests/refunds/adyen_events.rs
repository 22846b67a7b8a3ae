//! How an Adyen refund ends: by events that are signed over eight of their values, cannot be looked up, and may come late, twice or out of order.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::support::{Desk, MINUTE};
use crate::fakes::adyen::{Adyen, PAYMENT, signature, webhook, wrapped};
use crate::fakes::server::{EVENTS, Fault};
use crate::support::world::Reply;

const REFUND: &str = "9936178952150001";
const OTHER_KEY: &str = "0000000000000000000000000000000000000000000000000000000000000001";

async fn desk() -> Desk<Adyen> {
    Desk::open("adyen", Adyen::new()).await
}

/// A refund that was received, and its draft.
async fn received() -> (Desk<Adyen>, String) {
    let desk = desk().await;
    let (draft, _) = desk.refund(refund()).await;
    desk.stands(&draft, "pending").await;
    (desk, draft)
}

fn refund() -> Value {
    json!({ "payment": PAYMENT, "amount": 4_000, "currency": "usd" })
}

fn item(desk: &Desk<Adyen>, event: &str, success: &str) -> Value {
    desk.fake.books(|books| books.tells(event, success))
}

/// The item with another value at a place, which is made if it is not there.
fn with(item: &Value, place: &str, value: Value) -> Value {
    let mut item = item.clone();
    match place.split_once('/') {
        None => item[place] = value,
        Some((above, below)) => item[above][below] = value,
    }
    item
}

async fn deliver(desk: &Desk<Adyen>, body: &str) -> Reply {
    let request = Request::post("/v1/webhooks/adyen").header("content-type", "application/json");
    let reply = desk.world.send(request.body(Body::from(body.to_owned())).unwrap()).await;
    desk.world.app.settle().await;
    reply
}

/// Signs the item as Adyen does and delivers it; what was made of it.
async fn told(desk: &Desk<Adyen>, item: &Value) -> Value {
    deliver(desk, &webhook(item, EVENTS)).await.expect(200)
}

async fn count(desk: &Desk<Adyen>, kind: &str) -> usize {
    desk.world.event_types().await.iter().filter(|t| *t == kind).count()
}

/// It is refused, the log tells of it, and nothing has changed.
async fn refused(desk: &Desk<Adyen>, draft: &str, body: &str, status: u16, code: &str) {
    let (before, denials) = (desk.execution(draft).await, count(desk, "backend.event_denied").await);
    deliver(desk, body).await.refused(status, code);
    assert_eq!(desk.execution(draft).await, before, "{body}");
    assert_eq!(count(desk, "backend.event_denied").await, denials + 1, "{body}");
    assert_eq!(count(desk, "backend.event").await, 0, "{body}");
}

#[tokio::test]
async fn what_adyen_did_not_sign_changes_nothing() {
    let (desk, draft) = received().await;
    let good = item(&desk, "REFUND", "false");
    let signed = |signature: Value| wrapped(&with(&good, "additionalData", json!({ "hmacSignature": signature })));
    let wrong = "event_signature_invalid";
    let right = signature(&good, EVENTS);
    for signature in [
        json!(null),
        json!(""),
        json!(7),
        json!([right]),
        json!(&right[1..]),
        json!(right.trim_end_matches('=')),
        json!(format!("{right} ")),
        json!("AAAA"),
        json!(crate::fakes::adyen::signature(&good, OTHER_KEY)),
    ] {
        refused(&desk, &draft, &signed(signature), 400, wrong).await;
    }
    refused(&desk, &draft, &wrapped(&good), 400, wrong).await;
    for (place, value) in [
        ("pspReference", json!("9936178952150002")),
        ("originalReference", json!("WNS7WQ756L2GWR83")),
        ("merchantAccountCode", json!("ANOTHER_ACCOUNT")),
        ("merchantReference", json!("drf_00000000000070008000000000000000")),
        ("amount/value", json!(4_001)),
        ("amount/value", json!(4_000.5)),
        ("amount/value", json!({ "value": 4_000 })),
        ("amount/currency", json!("EUR")),
        ("eventCode", json!("REFUND_FAILED")),
        ("success", json!("true")),
        ("success", json!(null)),
    ] {
        let mut item = with(&good, "additionalData", json!({ "hmacSignature": right }));
        item = with(&item, place, value);
        refused(&desk, &draft, &wrapped(&item), 400, wrong).await;
    }
    assert_eq!(told(&desk, &good).await["finding"], "believed", "the same event, signed");
}

#[tokio::test]
async fn what_holds_no_one_event_changes_nothing() {
    let (desk, draft) = received().await;
    let good = webhook(&item(&desk, "REFUND", "false"), EVENTS);
    let value: Value = serde_json::from_str(&good).unwrap();
    let entry = &value["notificationItems"][0];
    let entries = |entries: Value| json!({ "live": "false", "notificationItems": entries }).to_string();
    for bad in [
        "".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        good[1..].to_owned(),
        entries(json!([])),
        entries(json!([entry, entry])),
        entries(json!([entry, {}])),
        entries(json!([{}])),
        entries(json!([[entry]])),
        entries(entry.clone()),
        good.replacen("\"live\"", "\"live\":\"true\",\"live\"", 1),
        good.replacen("\"success\"", "\"success\":\"true\",\"s\\u0075ccess\"", 1),
    ] {
        refused(&desk, &draft, &bad, 400, "event_malformed").await;
    }
    deliver(&desk, &format!("{good}{}", " ".repeat(writ::http::MAX_BODY)))
        .await
        .refused(413, "body_too_large");
    desk.stands(&draft, "pending").await;
}

#[tokio::test]
async fn a_signed_event_about_anything_but_this_draft_changes_nothing_and_is_written_down() {
    let (desk, draft) = received().await;
    let other = json!({ "payment": "WNS7WQ756L2GWR83", "amount": 4_000, "currency": "usd" });
    let waiting = desk.approved(other).await;
    let good = item(&desk, "REFUND_FAILED", "true");
    let nobody = json!("drf_00000000000070008000000000000000");
    let another = json!("9936178952159999");
    let cases: [(&[(&str, Value)], &str); 12] = [
        (&[("amount/value", json!(4_001))], "disagrees"),
        (&[("amount/value", json!("4000.0"))], "disagrees"),
        (&[("amount", json!(null))], "disagrees"),
        (&[("amount/currency", json!("EUR"))], "disagrees"),
        (&[("originalReference", json!("WNS7WQ756L2GWR83"))], "disagrees"),
        (&[("originalReference", json!(null))], "disagrees"),
        (&[("pspReference", another.clone())], "disagrees"),
        (&[("merchantReference", nobody.clone())], "disagrees"),
        (&[("merchantReference", json!(waiting))], "disagrees"),
        (
            &[("merchantReference", json!(waiting)), ("pspReference", another.clone())],
            "not_executed",
        ),
        (&[("merchantReference", nobody), ("pspReference", another.clone())], "not_ours"),
        (&[("merchantReference", json!("order 77")), ("pspReference", another)], "not_ours"),
    ];
    for (number, (changes, finding)) in cases.into_iter().enumerate() {
        // A success that is none of `true` and `false` gives each an id of its own.
        let bent = changes
            .iter()
            .fold(good.clone(), |item, (place, value)| with(&item, place, value.clone()));
        let bent = with(&bent, "success", json!(format!("true{number}")));
        assert_eq!(told(&desk, &bent).await["finding"], finding, "{bent}");
    }
    let unclear = with(&item(&desk, "REFUND", "false"), "success", json!("no"));
    assert_eq!(told(&desk, &unclear).await["finding"], "disagrees");
    desk.stands(&draft, "pending").await;
    assert_eq!(count(&desk, "backend.event").await, 13);
    assert_eq!(
        count(&desk, "execution.reopen").await + count(&desk, "execution.confirm_applied").await,
        0
    );
}

#[tokio::test]
async fn what_reads_in_two_ways_or_means_nothing_here_is_taken_and_changes_nothing() {
    let (desk, draft) = received().await;
    let good = item(&desk, "REFUND", "false");
    let two = with(
        &with(&good, "pspReference", json!(format!("{REFUND}:{PAYMENT}"))),
        "originalReference",
        json!(null),
    );
    for item in [
        with(&good, "eventCode", json!("AUTHORISATION")),
        with(&good, "eventCode", json!("REPORT_AVAILABLE")),
        with(&good, "eventCode", json!(null)),
        with(&good, "pspReference", json!("a report.csv")),
        with(&good, "merchantReference", json!(":order 77")),
        with(&good, "eventCode", json!("REFUND:false")),
        two,
    ] {
        let taken = told(&desk, &item).await;
        assert_eq!((&taken["finding"], &taken["again"]), (&json!("ignored"), &json!(false)), "{item}");
    }
    // Somebody who may choose the reference of another refund has Adyen sign this draft's id, and moves a border on the way.
    let reference = format!("mine:{draft}");
    let chosen = signature(&with(&good, "merchantReference", json!(reference)), EVENTS);
    let account = format!("{}:mine", good["merchantAccountCode"].as_str().unwrap());
    let rewritten = with(
        &with(&good, "merchantAccountCode", json!(account)),
        "additionalData",
        json!({ "hmacSignature": chosen }),
    );
    let taken = deliver(&desk, &wrapped(&rewritten)).await.expect(200);
    assert_eq!(taken["finding"], "ignored", "the signature fits, and says nothing certain");
    desk.stands(&draft, "pending").await;
    assert_eq!(count(&desk, "backend.event").await, 0);
}

#[tokio::test]
async fn nothing_follows_from_what_is_not_signed() {
    let (desk, draft) = received().await;
    let good = item(&desk, "REFUND", "true");
    let taken = told(&desk, &good).await;
    assert_eq!(
        (&taken["finding"], &taken["event_id"]),
        (&json!("believed"), &json!(format!("{REFUND}:REFUND:true")))
    );
    let execution = desk.stands(&draft, "applied").await;
    let mut signed: Value = serde_json::from_str(&webhook(&good, EVENTS)).unwrap();
    signed["live"] = json!("true");
    signed["status"] = json!("failed");
    let entry = &mut signed["notificationItems"][0];
    entry["success"] = json!("false");
    let item = &mut entry["NotificationRequestItem"];
    item["eventDate"] = json!("1999-01-01T00:00:00Z");
    item["reason"] = json!("refused by the bank");
    item["additionalData"]["eventCode"] = json!("REFUND_FAILED");
    // Signed alike, whatever kind of value it is.
    item["amount"]["value"] = json!("4000");
    item["success"] = json!(true);
    let again = deliver(&desk, &signed.to_string()).await.expect(200);
    assert_eq!((&again["again"], &again["finding"]), (&json!(true), &json!("believed")), "{again}");
    assert_eq!(desk.execution(&draft).await, execution);
}

#[tokio::test]
async fn an_event_that_was_rewritten_on_its_way_does_not_keep_the_right_one_out() {
    let (desk, draft) = received().await;
    let good = item(&desk, "REFUND", "true");
    let mut signed: Value = serde_json::from_str(&webhook(&good, EVENTS)).unwrap();
    let item = &mut signed["notificationItems"][0]["NotificationRequestItem"];
    item["amount"]["value"] = json!("4000");
    item["success"] = json!(true);
    item["reason"] = json!("rewritten");
    assert_eq!(deliver(&desk, &signed.to_string()).await.expect(200)["finding"], "believed");
    assert_eq!(told(&desk, &good).await["again"], true);
    desk.stands(&draft, "applied").await;
}

#[tokio::test]
async fn an_event_counts_once_and_its_id_holds_one_content() {
    let (desk, draft) = received().await;
    let good = item(&desk, "REFUND", "true");
    assert_eq!(told(&desk, &good).await["again"], false);
    let execution = desk.stands(&draft, "applied").await;
    for _ in 0..3 {
        desk.world.later(MINUTE).await;
        assert_eq!(told(&desk, &good).await["again"], true);
    }
    let other = with(&good, "amount/value", json!(4_001));
    deliver(&desk, &webhook(&other, EVENTS)).await.refused(409, "event_reused");
    assert_eq!(desk.execution(&draft).await, execution);
    assert_eq!(
        (count(&desk, "backend.event").await, count(&desk, "execution.confirm_applied").await),
        (1, 1)
    );
}

#[tokio::test]
async fn a_refused_refund_is_not_applied_and_a_success_afterwards_is_only_written_down() {
    let (desk, draft) = received().await;
    assert_eq!(told(&desk, &item(&desk, "REFUND", "false")).await["finding"], "believed");
    let execution = desk.stands(&draft, "not_applied").await;
    assert_eq!(
        (&execution["code"], &execution["reference"]),
        (&json!("refund refused"), &json!(REFUND))
    );
    assert_eq!(told(&desk, &item(&desk, "REFUND_FAILED", "true")).await["finding"], "agrees");
    assert_eq!(told(&desk, &item(&desk, "REFUND", "true")).await["finding"], "contradicts");
    desk.stands(&draft, "not_applied").await;
    assert_eq!(count(&desk, "execution.reopen").await, 1);
    assert_eq!(desk.world.later(Duration::from_secs(3600)).await, 0);
    assert_eq!(desk.fake.writes().len(), 1);
    // The payment is free, and another refund of it is another one.
    desk.approved(refund()).await;
}

#[tokio::test]
async fn an_applied_refund_that_fails_or_is_reversed_later_reopens_once() {
    for (event, success) in [
        ("REFUND_FAILED", "true"),
        ("REFUNDED_REVERSED", "true"),
        ("REFUNDED_REVERSED", "false"),
    ] {
        let (desk, draft) = received().await;
        assert_eq!(told(&desk, &item(&desk, "REFUND", "true")).await["finding"], "believed");
        let execution = desk.stands(&draft, "applied").await;
        assert_eq!(execution["reference"], REFUND);
        desk.world.later(Duration::from_secs(20 * 86_400)).await;
        let failed = item(&desk, event, success);
        assert_eq!(told(&desk, &failed).await["finding"], "believed");
        let execution = desk.stands(&draft, "not_applied").await;
        assert_eq!(execution["code"], "refund failed, or was reversed");
        assert_eq!(told(&desk, &failed).await["again"], true);
        assert_eq!(
            told(&desk, &item(&desk, "REFUND", "true")).await["again"],
            true,
            "the old success says nothing new"
        );
        desk.stands(&draft, "not_applied").await;
        assert_eq!(count(&desk, "execution.reopen").await, 1);
    }
}

#[tokio::test]
async fn an_event_before_our_own_answer_is_asked_for_again() {
    let desk = desk().await;
    let draft = desk.approved(refund()).await;
    let credential = desk.credential(&draft).await.expect(200);
    desk.fake.fault(Fault::Hold);
    let token = credential["access_token"].as_str().unwrap();
    desk.world.execute_body(token, json!({ "draft_id": draft })).await.expect(202);
    desk.fake.held().await;
    desk.stands(&draft, "dispatched").await;
    for success in ["true", "false"] {
        let early = webhook(&item(&desk, "REFUND", success), EVENTS);
        let request = Request::post("/v1/webhooks/adyen").body(Body::from(early)).unwrap();
        let reply = desk.world.send(request).await.refused(503, "event_too_early");
        assert!(reply.headers.contains_key("retry-after"), "{:?}", reply.headers);
    }
    desk.stands(&draft, "dispatched").await;
    desk.fake.release();
    desk.world.app.settle().await;
    desk.stands(&draft, "pending").await;
    assert_eq!(count(&desk, "backend.event").await, 0);
    assert_eq!(told(&desk, &item(&desk, "REFUND", "true")).await["finding"], "believed");
    desk.stands(&draft, "applied").await;
}

#[tokio::test]
async fn an_event_decides_what_a_lost_answer_left_open() {
    for (success, state, said) in [("true", "applied", "applied"), ("false", "not_applied", "failed")] {
        let desk = desk().await;
        desk.fake.fault(Fault::DropAfter);
        let (draft, execution) = desk.refund(refund()).await;
        assert_eq!(execution["state"], "indeterminate");
        assert_eq!(told(&desk, &item(&desk, "REFUND", success)).await["finding"], "believed");
        let execution = desk.stands(&draft, state).await;
        assert_eq!(
            (&execution["events"][0]["said"], execution["events"].as_array().unwrap().len()),
            (&json!(said), 1),
            "{execution}"
        );
        let known = if said == "applied" { json!(REFUND) } else { Value::Null };
        assert_eq!(execution["reference"], known, "{execution}");
        desk.world.later(Duration::from_secs(3600)).await;
        desk.stands(&draft, state).await;
        assert_eq!(desk.fake.writes().len(), 1);
    }
}

#[tokio::test]
async fn while_a_key_is_replaced_both_are_good_and_afterwards_one() {
    let (mut desk, draft) = received().await;
    let next = OTHER_KEY.replace('1', "f");
    let pending = |desk: &Desk<Adyen>| item(desk, "AUTHORISATION", "true");
    deliver(&desk, &webhook(&pending(&desk), &next))
        .await
        .refused(400, "event_signature_invalid");
    desk.world
        .env
        .insert("WRIT_ADYEN_WEBHOOK_SECRETS".to_owned(), format!("{next}\n{EVENTS}"));
    desk.world.restart();
    for key in [next.as_str(), EVENTS] {
        deliver(&desk, &webhook(&pending(&desk), key)).await.expect(200);
    }
    desk.world.env.insert("WRIT_ADYEN_WEBHOOK_SECRETS".to_owned(), next.clone());
    desk.world.restart();
    deliver(&desk, &webhook(&pending(&desk), EVENTS))
        .await
        .refused(400, "event_signature_invalid");
    deliver(&desk, &webhook(&item(&desk, "REFUND", "true"), &next)).await.expect(200);
    desk.stands(&draft, "applied").await;
}
