//! Orders and customers.

use reqwest::{Method, RequestBuilder};
use writ::sandbox::demo;

use super::{Bench, said};

const CUSTOMER: &str = "/customers/cus_88";
const EMAIL: &str = r#"{"email":"ada@example.org"}"#;

fn patch(bench: &Bench, version: &str, body: &str) -> RequestBuilder {
    bench
        .write(Method::PATCH, CUSTOMER)
        .header("if-match", version)
        .header("content-type", "application/json")
        .body(body.to_owned())
}

#[tokio::test]
async fn a_change_without_a_version_or_with_an_old_one_is_refused() {
    let bench = Bench::new().await;
    let missing = said(bench.write(Method::PATCH, CUSTOMER).body(EMAIL)).await;
    assert_eq!((missing.status.as_u16(), missing.error("code")), (428, "precondition_required"));
    for version in ["\"2\"", "\"0\"", "1", "W/\"1\"", ""] {
        let stale = said(patch(&bench, version, EMAIL)).await;
        assert_eq!((stale.status.as_u16(), stale.error("code")), (412, "version_stale"), "{version}");
    }
    assert_eq!(bench.sandbox.customer(demo::CUSTOMER).unwrap().0, 1);
    assert_eq!(bench.effects(), 0);
}

#[tokio::test]
async fn a_change_of_anything_else_or_of_two_things_is_refused_with_its_place() {
    let bench = Bench::new().await;
    for (body, place) in [
        (r#"{"name":"Eve"}"#, "/name"),
        (r#"{"email":"a@example.org","email":"b@example.org"}"#, "/email"),
        (r#"{"email":"nobody"}"#, "/email"),
        (
            r#"{"shipping_address":{"line1":"x","city":"y","postal_code":"1","country":"US","x":1}}"#,
            "/shipping_address/x",
        ),
        (
            r#"{"email":"a@example.org","shipping_address":{"line1":"x","city":"y","postal_code":"1","country":"US"}}"#,
            "/email",
        ),
        ("{}", ""),
    ] {
        let refused = said(patch(&bench, "\"1\"", body)).await;
        assert_eq!(refused.status, 400, "{body}");
        assert_eq!(refused.error("code"), "body_invalid", "{body}");
        assert_eq!(refused.error("param"), place, "{body}");
    }
    assert_eq!(bench.effects(), 0);
    assert_eq!(bench.read("/orders/9999").await.status, 404);
    assert_eq!(bench.read("/nowhere").await.status, 404);
}

#[tokio::test]
async fn an_order_is_shown_with_its_version() {
    let bench = Bench::new().await;
    let order = bench.read("/orders/4821").await;
    assert_eq!(order.header("etag"), "\"1\"");
    assert_eq!(order.body["charge"], demo::CHARGE);
    assert_eq!(order.body["customer"], demo::CUSTOMER);
    let charge = bench.read(&format!("/v1/charges/{}", demo::CHARGE)).await.body;
    assert_eq!(charge["amount"], order.body["total"]);
}

#[tokio::test]
async fn each_change_makes_a_new_version_and_a_repetition_makes_none() {
    let bench = Bench::new().await;
    let before = bench.read(CUSTOMER).await;
    assert_eq!(before.header("etag"), "\"1\"");
    let address = r#"{"shipping_address":{"line1":"7 Oak Road","city":"Eugene","postal_code":"97401","country":"US"}}"#;
    let changed = said(patch(&bench, "\"1\"", address).header("idempotency-key", "k-1")).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.header("etag"), "\"2\"");
    assert_eq!(changed.body["shipping_address"]["city"], "Eugene");
    assert_eq!(changed.body["email"], before.body["email"]);

    let again = said(patch(&bench, "\"1\"", address).header("idempotency-key", "k-1")).await;
    assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (200, "true"));
    assert_eq!(again.header("etag"), "\"2\"");
    let other = said(patch(&bench, "\"2\"", EMAIL).header("idempotency-key", "k-1")).await;
    assert_eq!(other.error("type"), "idempotency_error");
    let elsewhere = bench.write(Method::PATCH, "/customers/cus_89").header("if-match", "\"1\"");
    let elsewhere = said(elsewhere.header("idempotency-key", "k-1").body(address)).await;
    assert_eq!(
        elsewhere.error("type"),
        "idempotency_error",
        "the same body for another customer is another request"
    );
    assert_eq!(bench.sandbox.customer(demo::CUSTOMER).unwrap().0, 2);

    let email = said(patch(&bench, "\"2\"", EMAIL)).await;
    assert_eq!(email.body["email"], "ada@example.org");
    assert_eq!(bench.read(CUSTOMER).await.header("etag"), "\"3\"");
}
