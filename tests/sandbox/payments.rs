//! Charges and refunds.

use reqwest::Method;
use writ::sandbox::{KeyUsed, RefundStatus, demo};

use super::{Bench, said};

#[tokio::test]
async fn without_a_known_key_nothing_is_shown_and_nothing_happens() {
    let bench = Bench::new().await;
    let body = format!("charge={}&amount=100", demo::CHARGE);
    for request in [
        bench.bare(Method::POST, "/v1/refunds").body(body.clone()),
        bench.bare(Method::POST, "/v1/refunds").bearer_auth("sk_wrong").body(body.clone()),
        bench
            .bare(Method::POST, "/v1/refunds")
            .basic_auth("sk_wrong", Some(""))
            .body(body.clone()),
        bench.bare(Method::GET, "/orders/4821"),
    ] {
        let said = said(request).await;
        assert_eq!(said.status, 401);
        assert_eq!(said.error("type"), "invalid_request_error");
    }
    assert!(bench.sandbox.refunds(demo::CHARGE).is_empty());
    assert!(
        bench
            .sandbox
            .requests()
            .iter()
            .all(|seen| seen.key == KeyUsed::None && !seen.effect)
    );
}

#[tokio::test]
async fn the_read_key_changes_nothing() {
    let bench = Bench::new().await;
    let key = bench.sandbox.read_key().expose();
    for (method, path) in [
        (Method::POST, "/v1/refunds"),
        (Method::POST, "/v1/charges"),
        (Method::PATCH, "/customers/cus_88"),
    ] {
        let said = said(bench.bare(method, path).bearer_auth(key).body("charge=ch_3Rw4821blender")).await;
        assert_eq!(said.status, 403, "{path}");
        assert_eq!(said.error("code"), "more_permissions_required");
    }
    assert_eq!(bench.effects(), 0);
    assert_eq!(bench.read("/v1/charges/ch_3Rw4821blender").await.status, 200);
}

#[tokio::test]
async fn a_refund_with_a_wrong_field_is_refused_and_names_the_field() {
    let bench = Bench::new().await;
    let charge = demo::CHARGE;
    for (body, status, code, param) in [
        ("amount=100".to_owned(), 400, "parameter_missing", "charge"),
        ("charge=ch_nothing&amount=100".to_owned(), 404, "resource_missing", "charge"),
        (format!("charge={charge}&amount=0"), 400, "parameter_invalid_integer", "amount"),
        (format!("charge={charge}&amount=-1"), 400, "parameter_invalid_integer", "amount"),
        (format!("charge={charge}&amount=%2B1"), 400, "parameter_invalid_integer", "amount"),
        (format!("charge={charge}&amount=1e2"), 400, "parameter_invalid_integer", "amount"),
        (format!("charge={charge}&amount=10.0"), 400, "parameter_invalid_integer", "amount"),
        (
            format!("charge={charge}&amount=9007199254740992"),
            400,
            "amount_too_large",
            "amount",
        ),
        (format!("charge={charge}&amount=100&reason=because"), 400, "", "reason"),
        (format!("charge={charge}&amount=100&colour=red"), 400, "parameter_unknown", "colour"),
        (format!("charge={charge}&amount=100&amount=200"), 400, "", "amount"),
        (format!("charge={charge}&amount=40001"), 400, "", "amount"),
    ] {
        let said = said(bench.form("/v1/refunds", &body)).await;
        assert_eq!(said.status, status, "{body}");
        assert_eq!(said.error("code"), code, "{body}");
        assert_eq!(said.error("param"), param, "{body}");
        assert_eq!(said.error("type"), "invalid_request_error", "{body}");
    }
    assert!(bench.sandbox.refunds(charge).is_empty());
}

#[tokio::test]
async fn no_more_goes_back_than_was_paid() {
    let bench = Bench::new().await;
    let charge = demo::CHARGE;
    let first = said(bench.form("/v1/refunds", &format!("charge={charge}&amount=24000"))).await;
    assert_eq!(first.status, 200);
    let over = said(bench.form("/v1/refunds", &format!("charge={charge}&amount=16001"))).await;
    assert_eq!((over.status.as_u16(), over.error("param")), (400, "amount"));
    let rest = said(bench.form("/v1/refunds", &format!("charge={charge}"))).await;
    assert_eq!(rest.body["amount"], 16_000, "without an amount all that is left goes back");
    let again = said(bench.form("/v1/refunds", &format!("charge={charge}&amount=1"))).await;
    assert_eq!(again.error("code"), "charge_already_refunded");
    let shown = bench.read(&format!("/v1/charges/{charge}")).await.body;
    assert_eq!(shown["amount_refunded"], 40_000);
    assert_eq!(shown["refunded"], true);
}

#[tokio::test]
async fn a_declined_card_makes_no_charge() {
    let bench = Bench::new().await;
    let said = said(bench.form("/v1/charges", "amount=500&currency=usd&source=tok_chargeDeclined")).await;
    assert_eq!((said.status.as_u16(), said.error("code")), (402, "card_declined"));
    assert_eq!(bench.effects(), 0);
}

#[tokio::test]
async fn a_key_is_taken_as_a_user_name_too() {
    let bench = Bench::new().await;
    let request = bench
        .bare(Method::GET, "/orders/4821")
        .basic_auth(bench.sandbox.read_key().expose(), Some(""));
    assert_eq!(said(request).await.status, 200);
    assert_eq!(bench.sandbox.requests()[0].key, KeyUsed::Read);
}

#[tokio::test]
async fn the_sandbox_listens_on_loopback_only() {
    let bench = Bench::new().await;
    assert!(bench.sandbox.url.starts_with("http://127.0.0.1:"));
    let port = bench.sandbox.url.rsplit(':').next().unwrap();
    // Another address of the same machine: 127.0.0.2 would answer if every address were bound.
    assert!(tokio::net::TcpStream::connect(format!("127.0.0.2:{port}")).await.is_err());
}

#[tokio::test]
async fn a_charge_is_made_and_read_back() {
    let bench = Bench::new().await;
    let made = said(bench.form(
        "/v1/charges",
        "amount=500&currency=USD&source=tok_visa&customer=cus_88&metadata[order]=5000",
    ))
    .await;
    assert_eq!(made.status, 200);
    assert!(made.header("request-id").starts_with("req_"));
    let id = made.body["id"].as_str().unwrap();
    let shown = bench.read(&format!("/v1/charges/{id}")).await.body;
    assert_eq!(shown, made.body);
    assert_eq!(shown["currency"], "usd");
    assert_eq!(shown["customer"], "cus_88");
    assert_eq!(shown["metadata"]["order"], "5000");
    assert_eq!(shown["payment_method_details"]["card"]["last4"], "4242");
    assert_eq!(shown["refunded"], false);
}

#[tokio::test]
async fn refunds_are_listed_newest_first_and_by_page() {
    let bench = Bench::new().await;
    let charge = demo::CHARGE;
    for amount in 1..=5 {
        let body = format!("charge={charge}&amount={amount}&reason=requested_by_customer&metadata[n]={amount}");
        assert_eq!(said(bench.form("/v1/refunds", &body)).await.status, 200);
    }
    let other = format!("charge={}&amount=9", demo::CHARGE_OTHER);
    assert_eq!(said(bench.form("/v1/refunds", &other)).await.status, 200);

    let mut amounts = Vec::new();
    let mut after = String::new();
    loop {
        let page = bench.read(&format!("/v1/refunds?charge={charge}&limit=2{after}")).await.body;
        let data = page["data"].as_array().unwrap();
        amounts.extend(data.iter().map(|refund| refund["amount"].as_i64().unwrap()));
        after = format!("&starting_after={}", data.last().unwrap()["id"].as_str().unwrap());
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(amounts, [5, 4, 3, 2, 1]);
    assert_eq!(bench.read("/v1/refunds?limit=0").await.status, 400);
    assert_eq!(bench.read("/v1/refunds?starting_after=re_no").await.status, 404);
    assert_eq!(bench.read("/v1/refunds?order=4821").await.error("code"), "parameter_unknown");
    let one = &bench.sandbox.refunds(charge)[0];
    let shown = bench.read(&format!("/v1/refunds/{}", one.id)).await.body;
    assert_eq!(shown["metadata"]["n"], "5");
    assert_eq!(shown["status"], "succeeded");
}

#[tokio::test]
async fn a_refund_that_fails_later_gives_the_money_back_to_the_charge() {
    let bench = Bench::new().await;
    let made = said(bench.form("/v1/refunds", &format!("charge={}", demo::CHARGE))).await;
    let id = made.body["id"].as_str().unwrap();
    let settled = said(
        bench
            .bare(Method::POST, &format!("/_sandbox/refunds/{id}"))
            .body(r#"{"status":"failed"}"#),
    )
    .await;
    assert_eq!(settled.status, 200);
    assert!(!bench.sandbox.settle("re_nothing", RefundStatus::Failed));
    let shown = bench.read(&format!("/v1/charges/{}", demo::CHARGE)).await.body;
    assert_eq!(shown["amount_refunded"], 0);
    assert_eq!(shown["refunded"], false);
}

#[tokio::test]
async fn two_sandboxes_from_one_seed_give_out_the_same_ids() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let bench = Bench::new().await;
        let made = said(bench.form("/v1/refunds", &format!("charge={}", demo::CHARGE))).await;
        ids.push(made.body["id"].as_str().unwrap().to_owned());
        bench.sandbox.shutdown().await;
    }
    assert_eq!(ids[0], ids[1]);
}
