//! Square.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::Desk;
use crate::fakes::server::Fault;
use crate::fakes::square::{CUSTOMER, PAYMENT, Square, broken, limited};

async fn desk() -> Desk<Square> {
    Desk::open("square", Square::new(40_000, "USD")).await
}

fn refund(amount: i64) -> Value {
    json!({ "payment": PAYMENT, "amount": amount, "currency": "usd" })
}

#[tokio::test]
async fn what_contradicts_the_payment_is_not_proposed() {
    let desk = desk().await;
    for (parameters, why) in [
        (refund(40_001), "more than what is left"),
        (json!({ "payment": PAYMENT, "amount": 100, "currency": "eur" }), "another currency"),
        (
            json!({ "payment": "pay_unknown", "amount": 100, "currency": "usd" }),
            "no such payment",
        ),
        (
            json!({ "payment": PAYMENT, "amount": 100, "currency": "kwd" }),
            "KWD is not a currency this backend takes",
        ),
        (
            json!({ "payment": "../refunds", "amount": 100, "currency": "usd" }),
            "is not such an id",
        ),
    ] {
        let reply = desk.propose(parameters).await;
        assert!((400..500).contains(&reply.status), "{}", reply.body);
        assert!(reply.body.to_string().contains(why), "{why}: {}", reply.body);
    }
    desk.nothing_sent();
}

#[tokio::test]
async fn a_refund_on_a_payment_that_moved_is_not_sent() {
    let desk = desk().await;
    let (draft, other) = (desk.approved(refund(4_000)).await, desk.approved(refund(4_001)).await);
    let credential = desk.credential(&draft).await.expect(200);
    desk.fake.books(|books| books.version += 1);
    desk.credential(&other).await.refused(400, "resource_changed");
    let execution = desk.spend(&credential, &draft).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("aborted"), &json!("resource_changed"))
    );
    assert_eq!(desk.draft(&draft).await["state"], "stale");
    desk.nothing_sent();
}

#[tokio::test]
async fn the_version_token_in_the_write_stops_what_moved_after_the_last_look() {
    let desk = desk().await;
    // The payment moves between the precondition's read and the write.
    desk.fake.fault(Fault::Instead(crate::fakes::square::stale()));
    let (draft, _) = desk.refund(refund(4_000)).await;
    let execution = desk.stands(&draft, "not_applied").await;
    assert_eq!(execution["code"], "the payment has changed since");
    assert_eq!(desk.fake.effects(), 0);
    let sent: Value = serde_json::from_str(&desk.fake.writes()[0]).unwrap();
    assert_eq!(sent["payment_version_token"], "token-1");
}

#[tokio::test]
async fn a_refusal_by_the_backends_own_rules_is_final() {
    for (code, rule) in [
        ("REFUND_AMOUNT_INVALID", "refused by Square's rules"),
        ("PAYMENT_NOT_REFUNDABLE", "refused by Square's rules"),
        ("REFUND_DECLINED", "refused by Square's rules"),
    ] {
        let desk = desk().await;
        desk.fake.fault(Fault::Instead(crate::fakes::square::refused(code)));
        let (draft, _) = desk.refund(refund(4_000)).await;
        assert_eq!(desk.stands(&draft, "not_applied").await["code"], rule);
        assert_eq!(desk.fake.effects(), 0);
    }
}

#[tokio::test]
async fn a_refusal_that_no_rule_knows_is_looked_up() {
    let desk = desk().await;
    desk.fake.fault(Fault::Instead(crate::fakes::square::refused("SOMETHING_NEW")));
    let (draft, execution) = desk.refund(refund(4_000)).await;
    assert_eq!(execution["state"], "indeterminate", "{execution}");
    desk.until(&draft, "applied", 3).await;
}

#[tokio::test]
async fn a_refund_is_made_once_with_the_key_and_the_version_in_its_body() {
    let desk = desk().await;
    let (draft, _) = desk.refund(refund(4_000)).await;
    let execution = desk.stands(&draft, "applied").await;
    assert_eq!(execution["reference"], format!("{PAYMENT}_refund_1"));
    let sent: Value = serde_json::from_str(&desk.fake.writes()[0]).unwrap();
    let expected = json!({
        "amount_money": { "amount": 4_000, "currency": "USD" }, "idempotency_key": execution["idempotency_key"], "payment_id": PAYMENT,
        "payment_version_token": "token-1", "reason": draft,
    });
    assert_eq!(sent, expected);
    let facts = desk.facts(&draft).await;
    assert_eq!(
        (&facts["payment"]["customer"], &facts["payment"]["refunded"]),
        (&json!(CUSTOMER), &json!(0))
    );
}

#[tokio::test]
async fn a_second_refund_counts_what_went_back_before() {
    let desk = desk().await;
    let (first, _) = desk.refund(refund(4_000)).await;
    desk.stands(&first, "applied").await;
    let reply = desk.propose(refund(36_001)).await;
    assert!(reply.body.to_string().contains("more than what is left"), "{}", reply.body);
    let draft = desk.approved(refund(36_000)).await;
    let execution = desk.execute(&draft).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    assert_eq!(desk.fake.effects(), 2);
}

#[tokio::test]
async fn an_answer_that_is_lost_before_or_after_the_effect_is_found() {
    type Strike = fn() -> Fault;
    let strikes: [(Strike, usize); 4] = [
        (|| Fault::DropBefore, 2),
        (|| Fault::DropAfter, 1),
        (|| Fault::After(broken()), 1),
        (|| Fault::Instead(broken()), 2),
    ];
    for (strike, requests) in strikes {
        let desk = desk().await;
        desk.fake.fault(strike());
        let (draft, execution) = desk.refund(refund(4_000)).await;
        assert_eq!(execution["state"], "indeterminate", "{execution}");
        desk.until(&draft, "applied", 3).await;
        assert_eq!((desk.fake.effects(), desk.fake.writes().len()), (1, requests));
    }
}

#[tokio::test]
async fn a_list_that_lags_behind_leads_to_the_same_key_and_not_to_a_second_refund() {
    let desk = desk().await;
    desk.fake.books(|books| books.lag = 1);
    desk.fake.fault(Fault::DropAfter);
    let (draft, _) = desk.refund(refund(4_000)).await;
    let execution = desk.until(&draft, "applied", 3).await;
    assert_eq!((desk.fake.effects(), desk.fake.writes().len()), (1, 2));
    assert_eq!(execution["lookups"][0]["finding"], "absent", "{execution}");
}

#[tokio::test]
async fn past_the_hour_a_key_is_not_sent_again() {
    let desk = desk().await;
    desk.fake.books(|books| books.lag = 1);
    desk.fake.fault(Fault::DropAfter);
    let (draft, _) = desk.refund(refund(4_000)).await;
    desk.world.later(Duration::from_secs(3601)).await;
    let execution = desk.stands(&draft, "handed_off").await;
    assert_eq!(execution["code"], "unresolved");
    assert_eq!(desk.fake.writes().len(), 1);
}

#[tokio::test]
async fn while_the_first_request_runs_nothing_is_concluded() {
    let desk = desk().await;
    desk.fake.books(|books| books.lag = 1);
    desk.fake.fault(Fault::Slow);
    let (draft, _) = desk.refund(refund(4_000)).await;
    for _ in 0..2 {
        desk.world.later(super::support::MINUTE).await;
        let execution = desk.stands(&draft, "indeterminate").await;
        assert_eq!(execution["code"], "answer_proves_nothing", "{execution}");
    }
    desk.fake.finish();
    desk.until(&draft, "applied", 2).await;
}

#[tokio::test]
async fn a_key_that_stands_for_another_request_is_a_persons_case() {
    let desk = desk().await;
    let draft = desk.approved(refund(4_000)).await;
    let key = desk.draft(&draft).await["idempotency_key"].as_str().unwrap().to_owned();
    let now = writ::domain::clock::Clock::now(&*desk.world.clock);
    desk.fake.books(|books| books.keys.taken_by_another(&key, now));
    desk.execute(&draft).await;
    let execution = desk.until(&draft, "handed_off", 3).await;
    assert_eq!(execution["code"], "key_mismatch");
    assert_eq!((desk.fake.effects(), desk.fake.writes().len()), (0, 1));
}

#[tokio::test]
async fn a_success_about_anything_but_this_draft_is_ambiguous() {
    let bends: [fn(&mut Value); 5] = [
        |body| body["refund"]["amount_money"]["amount"] = json!(4_001),
        |body| body["refund"]["amount_money"]["currency"] = json!("CAD"),
        |body| body["refund"]["payment_id"] = json!("pay_other"),
        |body| body["refund"]["reason"] = json!("another draft"),
        |body| body["refund"]["id"] = Value::Null,
    ];
    for bend in bends {
        let desk = desk().await;
        desk.fake.fault(Fault::Bend(bend));
        let (_, execution) = desk.refund(refund(4_000)).await;
        assert_eq!(
            (&execution["state"], &execution["code"]),
            (&json!("indeterminate"), &json!("answer_proves_nothing")),
            "{execution}"
        );
    }
}

#[tokio::test]
async fn a_pending_refund_is_read_by_its_id_until_it_is_settled() {
    for (status, state) in [("COMPLETED", "applied"), ("REJECTED", "not_applied"), ("FAILED", "not_applied")] {
        let desk = desk().await;
        desk.fake.books(|books| books.begins = "PENDING");
        let (draft, _) = desk.refund(refund(4_000)).await;
        let pending = desk.stands(&draft, "pending").await;
        assert_eq!(pending["reference"], format!("{PAYMENT}_refund_1"));
        desk.world.later(super::support::MINUTE).await;
        desk.stands(&draft, "pending").await;
        desk.fake.books(|books| books.refunds[0].status = status);
        let execution = desk.until(&draft, state, 5).await;
        assert_eq!(execution["lookups"].as_array().unwrap().last().unwrap()["step"], "read the refund");
        assert_eq!(desk.fake.writes().len(), 1, "nothing is ever sent for what the backend took");
    }
}

#[tokio::test]
async fn a_replay_that_shows_another_state_is_judged_by_that_state() {
    for (status, state) in [("PENDING", "pending"), ("FAILED", "not_applied")] {
        let desk = desk().await;
        desk.fake.books(|books| books.lag = 1);
        desk.fake.fault(Fault::DropAfter);
        let (draft, _) = desk.refund(refund(4_000)).await;
        desk.fake.books(|books| books.refunds[0].status = status);
        let execution = desk.until(&draft, state, 3).await;
        assert_eq!(desk.fake.writes().len(), 2, "{execution}");
    }
}

#[tokio::test]
async fn the_limiter_stands_before_everything() {
    let desk = desk().await;
    desk.fake.fault(Fault::Instead(limited()));
    let (draft, execution) = desk.refund(refund(4_000)).await;
    assert_eq!(
        (&execution["state"], &execution["code"]),
        (&json!("indeterminate"), &json!("not_executed"))
    );
    desk.until(&draft, "applied", 2).await;
    assert_eq!(desk.fake.effects(), 1);
}

#[tokio::test]
async fn a_yen_has_no_decimals() {
    let desk = Desk::open("square", Square::new(9_000, "JPY")).await;
    let (draft, _) = desk.refund(json!({ "payment": PAYMENT, "amount": 9_000, "currency": "jpy" })).await;
    desk.stands(&draft, "applied").await;
    let sent: Value = serde_json::from_str(&desk.fake.writes()[0]).unwrap();
    assert_eq!(sent["amount_money"], json!({ "amount": 9_000, "currency": "JPY" }));
}
