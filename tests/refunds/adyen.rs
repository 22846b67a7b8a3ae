//! Adyen.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{Desk, MINUTE};
use crate::fakes::adyen::{Adyen, PAYMENT, broken, in_progress, keys_away};
use crate::fakes::server::Fault;

async fn desk() -> Desk<Adyen> {
    Desk::open("adyen", Adyen::new()).await
}

fn refund(amount: i64, currency: &str) -> Value {
    json!({ "payment": PAYMENT, "amount": amount, "currency": currency })
}

#[tokio::test]
async fn what_nothing_can_be_read_about_is_approved_by_a_person_who_is_told_so() {
    let desk = desk().await;
    let draft = desk.propose(refund(100, "usd")).await.expect(201);
    assert_eq!(draft["state"], "awaiting_approval");
    let facts = desk.facts(draft["id"].as_str().unwrap()).await;
    assert!(
        facts["unread"].as_str().unwrap().starts_with("Adyen shows nothing of a payment"),
        "{facts}"
    );
    desk.nothing_sent();
}

#[tokio::test]
async fn a_received_refund_is_pending_and_nobody_asks_again_by_sending() {
    let desk = desk().await;
    let (draft, _) = desk.refund(refund(4_000, "usd")).await;
    let execution = desk.stands(&draft, "pending").await;
    assert_eq!(execution["reference"], "9936178952150001");
    let sent: Value = serde_json::from_str(&desk.fake.writes()[0]).unwrap();
    let amount = json!({ "value": 4_000, "currency": "USD" });
    assert_eq!(
        sent,
        json!({ "amount": amount, "merchantAccount": "YOUR_MERCHANT_ACCOUNT", "reference": draft })
    );
    desk.world.later(Duration::from_secs(120)).await;
    let execution = desk.stands(&draft, "pending").await;
    assert_eq!(execution["lookups"][0]["step"], "nothing to read");
    assert_eq!(
        desk.world.later(Duration::from_secs(1)).await,
        0,
        "it has a time of its own, and is not looked at with every sweep"
    );
    assert_eq!(desk.fake.writes().len(), 1);
}

#[tokio::test]
async fn a_pending_refund_can_be_closed_by_a_person() {
    let desk = desk().await;
    let (draft, execution) = desk.refund(refund(4_000, "usd")).await;
    let path = format!("/v1/executions/{}/resolve", execution["id"].as_str().unwrap());
    let finding = json!({ "outcome": "applied", "reference": "9936178952150001", "evidence": "the customer area shows it as refunded" });
    desk.world.call("operations", "POST", &path, Some(finding)).await.expect(200);
    desk.stands(&draft, "applied").await;
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_by_the_same_key() {
    let strikes: [fn() -> Fault; 4] = [
        || Fault::DropBefore,
        || Fault::DropAfter,
        || Fault::After(broken()),
        || Fault::Instead(keys_away()),
    ];
    for strike in strikes {
        let desk = desk().await;
        desk.fake.fault(strike());
        let (draft, execution) = desk.refund(refund(4_000, "usd")).await;
        assert_eq!(execution["state"], "indeterminate", "{execution}");
        desk.until(&draft, "pending", 3).await;
        assert_eq!((desk.fake.effects(), desk.fake.writes().len()), (1, 2));
    }
}

#[tokio::test]
async fn while_the_first_request_runs_the_same_key_waits() {
    let desk = desk().await;
    desk.fake.fault(Fault::Slow);
    let (draft, _) = desk.refund(refund(4_000, "usd")).await;
    desk.world.later(MINUTE).await;
    assert_eq!(desk.stands(&draft, "indeterminate").await["code"], "in_flight");
    desk.fake.finish();
    desk.until(&draft, "pending", 3).await;
}

#[tokio::test]
async fn an_answer_that_stays_unknown_is_a_persons_case() {
    let desk = desk().await;
    for _ in 0..12 {
        desk.fake.fault(Fault::Instead(broken()));
    }
    let (draft, _) = desk.refund(refund(4_000, "usd")).await;
    desk.until(&draft, "handed_off", 90).await;
    assert_eq!(desk.fake.writes().len(), 6, "as often as the file allows");
}

#[tokio::test]
async fn a_key_that_stands_for_another_request_is_not_taken_for_anything() {
    let desk = desk().await;
    let draft = desk.approved(refund(4_000, "usd")).await;
    let key = desk.draft(&draft).await["idempotency_key"].as_str().unwrap().to_owned();
    let now = writ::domain::clock::Clock::now(&*desk.world.clock);
    desk.fake.books(|books| books.keys.taken_by_another(&key, now));
    let execution = desk.execute(&draft).await;
    assert_eq!(execution["code"], "answer_proves_nothing", "{execution}");
    assert_eq!(desk.fake.effects(), 0);
}

#[tokio::test]
async fn in_progress_is_not_refused_though_it_is_called_a_validation_error() {
    let desk = desk().await;
    desk.fake.fault(Fault::Instead(in_progress()));
    let (draft, execution) = desk.refund(refund(4_000, "usd")).await;
    assert_eq!(execution["code"], "in_flight", "{execution}");
    desk.until(&draft, "pending", 3).await;
}

#[tokio::test]
async fn what_was_received_for_anything_but_this_draft_is_ambiguous() {
    let bends: [fn(&mut Value); 5] = [
        |body| body["amount"]["value"] = json!(4_001),
        |body| body["amount"]["currency"] = json!("EUR"),
        |body| body["paymentPspReference"] = json!("WNS7WQ756L2GWR83"),
        |body| body["reference"] = json!("another draft"),
        |body| body["pspReference"] = Value::Null,
    ];
    for bend in bends {
        let desk = desk().await;
        desk.fake.fault(Fault::Bend(bend));
        let (_, execution) = desk.refund(refund(4_000, "usd")).await;
        assert_eq!(execution["code"], "answer_proves_nothing", "{execution}");
    }
}

#[tokio::test]
async fn decimals_are_those_of_adyen() {
    use writ::backend::{Backends, EXAMPLES};
    let backends = Backends::from_texts(EXAMPLES, std::path::Path::new(".")).unwrap();
    let exponent = |backend: &str, code: &str| backends.backend(&backend.parse().unwrap()).unwrap().exponent(code.parse().unwrap());
    for (code, exponents) in [
        ("isk", [Some(2), None, Some(0), None]),
        ("jpy", [Some(0), Some(0), Some(0), Some(0)]),
        ("kwd", [Some(3), None, Some(3), None]),
        ("tnd", [Some(3), None, Some(3), None]),
        ("huf", [Some(2), Some(0), Some(2), None]),
        ("usd", [Some(2), Some(2), Some(2), Some(2)]),
    ] {
        let found = ["adyen", "paypal", "shopify", "square"].map(|backend| exponent(backend, code));
        assert_eq!(found, exponents, "{code}");
    }
}
