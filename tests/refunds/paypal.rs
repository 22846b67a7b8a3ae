//! PayPal.

use serde_json::{Value, json};

use super::support::Desk;
use crate::fakes::paypal::{CAPTURE, PayPal, error};
use crate::fakes::server::{Fault, Said};

async fn desk() -> Desk<PayPal> {
    Desk::open("paypal", PayPal::new(40_000, "USD", 2)).await
}

fn refund(amount: i64) -> Value {
    json!({ "capture": CAPTURE, "amount": amount, "currency": "usd" })
}

#[tokio::test]
async fn what_contradicts_the_capture_is_not_proposed() {
    let desk = desk().await;
    for (parameters, why) in [
        (refund(40_001), "more than was captured"),
        (json!({ "capture": CAPTURE, "amount": 100, "currency": "eur" }), "another currency"),
        (
            json!({ "capture": "5O190127TN364715T", "amount": 100, "currency": "usd" }),
            "no such capture",
        ),
        (
            json!({ "capture": CAPTURE, "amount": 100, "currency": "kwd" }),
            "KWD is not a currency this backend takes",
        ),
    ] {
        let reply = desk.propose(parameters).await;
        assert!((400..500).contains(&reply.status), "{}", reply.body);
        assert!(reply.body.to_string().contains(why), "{why}: {}", reply.body);
    }
    desk.nothing_sent();
}

#[tokio::test]
async fn a_refund_on_a_capture_that_moved_is_not_sent() {
    let desk = desk().await;
    let draft = desk.approved(refund(4_000)).await;
    let credential = desk.credential(&draft).await.expect(200);
    desk.fake.books(|books| books.updates += 1);
    let execution = desk.spend(&credential, &draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("aborted"), &json!("resource_changed"))
    );
    desk.nothing_sent();
}

#[tokio::test]
async fn a_refusal_by_paypals_rules_is_final_unless_something_may_have_been_done() {
    for issue in ["REFUND_AMOUNT_EXCEEDED", "CAPTURE_FULLY_REFUNDED", "TRANSACTION_DISPUTED"] {
        let desk = desk().await;
        desk.fake.fault(Fault::Instead(error(422, "UNPROCESSABLE_ENTITY", issue)));
        let (draft, _) = desk.refund(refund(4_000)).await;
        assert_eq!(desk.stands(&draft, "not_applied").await["code"], "refused by PayPal's rules");
    }
    let desk = desk().await;
    desk.fake.fault(Fault::DropAfter);
    desk.fake
        .fault(Fault::Instead(error(422, "UNPROCESSABLE_ENTITY", "CAPTURE_FULLY_REFUNDED")));
    let (draft, _) = desk.refund(refund(4_000)).await;
    desk.world.later(super::support::MINUTE).await;
    assert_eq!(desk.stands(&draft, "indeterminate").await["code"], "refused_after_doubt");
    desk.until(&draft, "applied", 3).await;
}

#[tokio::test]
async fn a_second_refund_of_what_is_gone_is_refused_by_the_backend() {
    let desk = desk().await;
    let (first, _) = desk.refund(refund(9_000)).await;
    desk.stands(&first, "applied").await;
    let draft = desk.approved(refund(35_000)).await;
    let execution = desk.execute(&draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("not_applied"), &json!("refused by PayPal's rules"))
    );
    assert_eq!(desk.fake.effects(), 1);
}

#[tokio::test]
async fn a_refund_is_made_once_with_a_decimal_amount_and_the_key_in_two_places() {
    let desk = desk().await;
    let (draft, _) = desk.refund(refund(4_000)).await;
    let execution = desk.stands(&draft, "applied").await;
    let sent: Value = serde_json::from_str(&desk.fake.writes()[0]).unwrap();
    let amount = json!({ "value": "40.00", "currency_code": "USD" });
    assert_eq!(
        sent,
        json!({ "amount": amount, "custom_id": draft, "invoice_id": execution["idempotency_key"] })
    );
}

#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_by_the_key() {
    let strikes: [fn() -> Fault; 3] = [
        || Fault::DropBefore,
        || Fault::DropAfter,
        || Fault::After(error(500, "INTERNAL_SERVER_ERROR", "NONE")),
    ];
    for strike in strikes {
        let desk = desk().await;
        desk.fake.fault(strike());
        let (draft, execution) = desk.refund(refund(4_000)).await;
        assert_eq!(execution["state"], "indeterminate", "{execution}");
        desk.until(&draft, "applied", 3).await;
        assert_eq!((desk.fake.effects(), desk.fake.writes().len()), (1, 2));
    }
}

#[tokio::test]
async fn a_repetition_that_shows_another_state_is_judged_by_that_state() {
    for (status, state) in [("PENDING", "pending"), ("FAILED", "not_applied"), ("CANCELLED", "not_applied")] {
        let desk = desk().await;
        desk.fake.fault(Fault::DropAfter);
        let (draft, _) = desk.refund(refund(4_000)).await;
        desk.fake.books(|books| books.refunds[0].status = status);
        desk.until(&draft, state, 3).await;
        assert_eq!(desk.fake.writes().len(), 2);
    }
}

#[tokio::test]
async fn an_invoice_id_that_is_taken_proves_nothing() {
    let desk = desk().await;
    desk.fake
        .fault(Fault::Instead(error(422, "UNPROCESSABLE_ENTITY", "DUPLICATE_INVOICE_ID")));
    let (draft, execution) = desk.refund(refund(4_000)).await;
    assert_eq!(execution["code"], "answer_proves_nothing", "{execution}");
    desk.until(&draft, "applied", 3).await;
}

#[tokio::test]
async fn while_the_first_request_runs_the_same_key_waits() {
    let desk = desk().await;
    desk.fake.fault(Fault::Slow);
    let (draft, _) = desk.refund(refund(4_000)).await;
    desk.world.later(super::support::MINUTE).await;
    assert_eq!(desk.stands(&draft, "indeterminate").await["code"], "in_flight");
    desk.fake.finish();
    desk.until(&draft, "applied", 3).await;
}

#[tokio::test]
async fn a_key_that_stands_for_another_request_is_a_persons_case() {
    let desk = desk().await;
    let duplicate = json!({ "name": "DUPLICATE_REQUEST_ID", "message": "used before" });
    desk.fake.fault(Fault::Instead(Said::new(400, duplicate)));
    let (draft, _) = desk.refund(refund(4_000)).await;
    assert_eq!(desk.until(&draft, "handed_off", 3).await["code"], "key_mismatch");
    assert_eq!(desk.fake.writes().len(), 1);
}

#[tokio::test]
async fn a_success_about_anything_but_this_draft_is_ambiguous() {
    let bends: [fn(&mut Value); 7] = [
        |body| body["amount"]["value"] = json!("40.01"),
        |body| body["amount"]["value"] = json!(40.0),
        |body| body["amount"]["currency_code"] = json!("CAD"),
        |body| body["links"][1]["href"] = json!("https://api-m.paypal.com/v2/payments/captures/5O190127TN364715T"),
        |body| body["links"][0]["rel"] = json!("up"),
        |body| body["custom_id"] = json!("another draft"),
        |body| body["links"] = Value::Null,
    ];
    for bend in bends {
        let desk = desk().await;
        desk.fake.fault(Fault::Bend(bend));
        let (_, execution) = desk.refund(refund(4_000)).await;
        assert_eq!(execution["code"], "answer_proves_nothing", "{execution}");
    }
}

#[tokio::test]
async fn a_pending_refund_is_read_by_its_id_until_it_is_settled() {
    for (status, state) in [("COMPLETED", "applied"), ("FAILED", "not_applied")] {
        let desk = desk().await;
        desk.fake.books(|books| books.begins = "PENDING");
        let (draft, _) = desk.refund(refund(4_000)).await;
        desk.stands(&draft, "pending").await;
        desk.fake.books(|books| books.refunds[0].status = status);
        desk.until(&draft, state, 5).await;
        assert_eq!(desk.fake.writes().len(), 1);
    }
}

#[tokio::test]
async fn yen_and_forint_have_no_decimals_here() {
    for code in ["JPY", "HUF"] {
        let desk = Desk::open("paypal", PayPal::new(9_000, code, 0)).await;
        let draft = desk
            .propose(json!({ "capture": CAPTURE, "amount": 9_000, "currency": code }))
            .await
            .expect(201);
        let request = desk.request(draft["id"].as_str().unwrap()).await;
        let sent: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["amount"], json!({ "value": "9000", "currency_code": code }));
    }
}
