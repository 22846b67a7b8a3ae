//! Shopify.

use serde_json::{Value, json};

use super::support::{Desk, MINUTE};
use crate::fakes::server::{Fault, Said};
use crate::fakes::shopify::{ORDER, Shopify, TRANSACTION, top_error, user_error};

async fn desk() -> Desk<Shopify> {
    Desk::open("shopify", Shopify::new(40_000, "USD", 2)).await
}

fn refund(amount: i64) -> Value {
    json!({ "order": ORDER, "transaction": TRANSACTION, "amount": amount, "currency": "usd" })
}

#[tokio::test]
async fn what_contradicts_the_order_is_not_proposed() {
    let desk = desk().await;
    for (change, why) in [
        (json!({ "amount": 40_001 }), "more than the transaction took"),
        (json!({ "currency": "eur" }), "another currency"),
        (json!({ "order": "1002" }), "no such order"),
        (json!({ "transaction": "2002" }), "belongs to another order"),
    ] {
        let mut parameters = refund(100);
        parameters.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let reply = desk.propose(parameters).await;
        assert!(reply.status >= 400 && reply.body.to_string().contains(why), "{why}: {}", reply.body);
    }
    desk.nothing_sent();
}

#[tokio::test]
async fn a_refund_on_an_order_that_moved_is_not_sent() {
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
async fn a_200_with_an_error_inside_is_no_success() {
    for (body, state, code) in [
        (user_error("Order cannot be refunded"), "not_applied", "refused by Shopify's rules"),
        (top_error("INTERNAL_SERVER_ERROR"), "indeterminate", "answer_proves_nothing"),
        (
            top_error("IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED"),
            "indeterminate",
            "answer_proves_nothing",
        ),
        (top_error("IDEMPOTENCY_CONCURRENT_REQUEST"), "indeterminate", "in_flight"),
        (top_error("IDEMPOTENCY_KEY_PARAMETER_MISMATCH"), "indeterminate", "key_mismatch"),
        (top_error("THROTTLED"), "indeterminate", "not_executed"),
        (
            json!({ "data": { "refundCreate": null } }),
            "indeterminate",
            "answer_proves_nothing",
        ),
        (json!({}), "indeterminate", "answer_proves_nothing"),
    ] {
        let desk = desk().await;
        desk.fake.fault(Fault::Instead(Said::new(200, body.clone())));
        let (_, execution) = desk.refund(refund(4_000)).await;
        assert_eq!((&execution["state"], &execution["code"]), (&json!(state), &json!(code)), "{body}");
        assert_eq!(desk.fake.effects(), 0);
    }
}

#[tokio::test]
async fn an_error_beside_a_refund_that_was_made_is_not_a_refusal() {
    let desk = desk().await;
    desk.fake.fault(Fault::Bend(|body| {
        body["data"]["refundCreate"]["userErrors"] = json!([{ "field": null, "message": "a notification could not be sent" }]);
    }));
    let (draft, execution) = desk.refund(refund(4_000)).await;
    assert_eq!(execution["code"], "answer_proves_nothing", "{execution}");
    desk.until(&draft, "applied", 3).await;
    assert_eq!(desk.fake.writes().len(), 1, "it is found in the order's list");
}

#[tokio::test]
async fn a_refund_is_made_once_with_the_directive_and_a_decimal_amount() {
    let desk = desk().await;
    let (draft, _) = desk.refund(refund(4_000)).await;
    let execution = desk.stands(&draft, "applied").await;
    assert_eq!(execution["reference"], "gid://shopify/Refund/3001");
    let sent: Value = serde_json::from_str(&desk.fake.writes()[0]).unwrap();
    assert!(sent["query"].as_str().unwrap().contains("@idempotent(key: $key)"));
    let transaction = json!({
        "orderId": "gid://shopify/Order/1001", "parentId": "gid://shopify/OrderTransaction/2001", "gateway": "shopify_payments", "kind": "REFUND",
        "amount": "40.00",
    });
    let input =
        json!({ "orderId": "gid://shopify/Order/1001", "currency": "USD", "note": draft, "notify": false, "transactions": [transaction] });
    assert_eq!(sent["variables"], json!({ "key": execution["idempotency_key"], "input": input }));
}

#[tokio::test]
async fn an_answer_that_is_lost_before_or_after_the_effect_is_found_in_the_orders_list() {
    let strikes: [(fn() -> Fault, usize); 2] = [(|| Fault::DropBefore, 2), (|| Fault::DropAfter, 1)];
    for (strike, requests) in strikes {
        let desk = desk().await;
        desk.fake.fault(strike());
        let (draft, _) = desk.refund(refund(4_000)).await;
        desk.until(&draft, "applied", 3).await;
        assert_eq!((desk.fake.effects(), desk.fake.writes().len()), (1, requests));
    }
}

#[tokio::test]
async fn a_list_that_does_not_show_it_leads_to_the_same_key() {
    let desk = desk().await;
    desk.fake.books(|books| books.lists = false);
    desk.fake.fault(Fault::DropAfter);
    let (draft, _) = desk.refund(refund(4_000)).await;
    desk.until(&draft, "applied", 3).await;
    assert_eq!((desk.fake.effects(), desk.fake.writes().len()), (1, 2));
}

#[tokio::test]
async fn while_the_first_request_runs_the_same_key_waits() {
    let desk = desk().await;
    desk.fake.books(|books| books.lists = false);
    desk.fake.fault(Fault::Slow);
    let (draft, _) = desk.refund(refund(4_000)).await;
    desk.world.later(MINUTE).await;
    assert_eq!(desk.stands(&draft, "indeterminate").await["code"], "in_flight");
    desk.fake.finish();
    desk.until(&draft, "applied", 3).await;
}

#[tokio::test]
async fn a_key_that_stands_for_another_request_is_a_persons_case() {
    let desk = desk().await;
    let draft = desk.approved(refund(4_000)).await;
    let key = desk.draft(&draft).await["idempotency_key"].as_str().unwrap().to_owned();
    let now = writ::domain::clock::Clock::now(&*desk.world.clock);
    desk.fake.books(|books| books.keys.taken_by_another(&key, now));
    desk.execute(&draft).await;
    assert_eq!(desk.until(&draft, "handed_off", 3).await["code"], "key_mismatch");
    assert_eq!(desk.fake.effects(), 0);
}

#[tokio::test]
async fn a_success_about_anything_but_this_draft_is_ambiguous() {
    let bends: [fn(&mut Value); 4] = [
        |body| body["data"]["refundCreate"]["refund"]["totalRefundedSet"]["presentmentMoney"]["amount"] = json!("40.01"),
        |body| body["data"]["refundCreate"]["refund"]["totalRefundedSet"]["presentmentMoney"]["currencyCode"] = json!("CAD"),
        |body| body["data"]["refundCreate"]["refund"]["order"]["id"] = json!("gid://shopify/Order/1002"),
        |body| body["data"]["refundCreate"]["refund"]["note"] = json!("another draft"),
    ];
    for bend in bends {
        let desk = desk().await;
        desk.fake.fault(Fault::Bend(bend));
        let (_, execution) = desk.refund(refund(4_000)).await;
        assert_eq!(execution["code"], "answer_proves_nothing", "{execution}");
    }
}

#[tokio::test]
async fn decimals_are_those_of_the_currency() {
    for (code, exponent, minor, text) in [
        ("JPY", 0, 9_000, "9000"),
        ("ISK", 0, 9_000, "9000"),
        ("KWD", 3, 12_340, "12.340"),
        ("USD", 2, 9_010, "90.10"),
    ] {
        let desk = Desk::open("shopify", Shopify::new(minor, code, exponent)).await;
        let mut parameters = refund(minor);
        parameters["currency"] = json!(code.to_lowercase());
        let draft = desk.propose(parameters).await.expect(201);
        let request = desk.request(draft["id"].as_str().unwrap()).await;
        let sent: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["variables"]["input"]["transactions"][0]["amount"], text);
    }
}
