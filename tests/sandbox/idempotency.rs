//! One key, one effect.

use std::time::Duration;

use reqwest::Method;
use writ::domain::digest::Digest;
use writ::sandbox::{Fault, FaultKind, demo};

use super::{Bench, said};

const KEY: &str = "0b6ac1c8-9d3c-8f63-8a6e-1f2a3b4c5d6e";

fn body(amount: u32) -> String {
    format!("charge={}&amount={amount}", demo::CHARGE)
}

#[tokio::test]
async fn a_key_with_other_parameters_is_refused_and_stays_good_for_its_own() {
    let bench = Bench::new().await;
    assert_eq!(bench.refund(KEY, &body(100)).await.status, 200);
    let other = bench.refund(KEY, &body(101)).await;
    assert_eq!((other.status.as_u16(), other.error("type")), (400, "idempotency_error"));
    let elsewhere = said(
        bench
            .form("/v1/charges", "amount=100&currency=usd&source=tok_visa")
            .header("idempotency-key", KEY),
    )
    .await;
    assert_eq!(elsewhere.error("type"), "idempotency_error");
    assert_eq!(bench.refund(KEY, &body(100)).await.header("idempotent-replayed"), "true");
    assert_eq!(bench.effects(), 1);
}

#[tokio::test]
async fn a_key_that_is_too_long_or_empty_is_refused() {
    let bench = Bench::new().await;
    assert_eq!(bench.refund(&"k".repeat(256), &body(100)).await.status, 400);
    assert_eq!(bench.refund("", &body(100)).await.status, 400);
    assert_eq!(bench.refund(&"k".repeat(255), &body(100)).await.status, 200);
}

#[tokio::test]
async fn a_key_means_nothing_on_a_read() {
    let bench = Bench::new().await;
    let charge = format!("/v1/charges/{}", demo::CHARGE);
    let read = || said(bench.write(Method::GET, &charge).header("idempotency-key", KEY));
    assert_eq!(read().await.body["amount_refunded"], 0);
    assert_eq!(bench.refund(KEY, &body(100)).await.status, 200);
    assert_eq!(read().await.body["amount_refunded"], 100);
}

#[tokio::test]
async fn a_second_request_while_the_first_runs_is_told_to_wait() {
    let bench = Bench::new().await;
    bench.sandbox.fault(Fault::once(FaultKind::Hold, "POST", "/v1/refunds"));
    let request = bench.form("/v1/refunds", &body(100)).header("idempotency-key", KEY);
    let first = tokio::spawn(said(request));
    bench.held().await;
    let second = bench.refund(KEY, &body(100)).await;
    assert_eq!((second.status.as_u16(), second.error("code")), (409, "idempotency_key_in_use"));
    assert_eq!(bench.effects(), 0, "nothing has happened yet");
    assert_eq!(bench.sandbox.release(), 1);
    let first = first.await.unwrap();
    assert_eq!(first.status, 200);
    assert_eq!(bench.refund(KEY, &body(100)).await.body, first.body);
    assert_eq!(bench.effects(), 1);
}

#[tokio::test]
async fn what_was_refused_before_it_ran_is_not_remembered() {
    let bench = Bench::new().await;
    assert_eq!(bench.refund(KEY, "charge=ch_nothing&amount=1").await.status, 404);
    let unknown = bench.bare(Method::POST, "/v1/refunds").bearer_auth("sk_wrong");
    assert_eq!(said(unknown.header("idempotency-key", KEY).body(body(7))).await.status, 401);
    for (kind, status) in [
        (FaultKind::RateLimit, 429),
        (FaultKind::Error503Before, 503),
        (FaultKind::InFlight, 409),
    ] {
        bench.sandbox.fault(Fault::once(kind, "POST", "/v1/refunds"));
        assert_eq!(bench.refund(KEY, &body(9)).await.status, status);
    }
    let ran = bench.refund(KEY, &body(100)).await;
    assert_eq!(ran.status, 200);
    assert_eq!(ran.header("idempotent-replayed"), "");
}

#[tokio::test]
async fn a_refusal_that_ran_is_remembered() {
    let bench = Bench::new().await;
    assert_eq!(bench.refund(KEY, &body(40_001)).await.status, 400);
    let again = bench.refund(KEY, &body(40_001)).await;
    assert_eq!(again.status, 400);
    assert_eq!(again.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn the_same_request_is_answered_from_memory_whatever_the_order_of_its_fields() {
    let bench = Bench::new().await;
    let first = bench.refund(KEY, &body(100)).await;
    let again = bench.refund(KEY, &format!("amount=100&charge={}", demo::CHARGE)).await;
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("original-request"), first.header("request-id"));
    assert_ne!(again.header("request-id"), first.header("request-id"));
    let seen = bench.sandbox.requests();
    assert_eq!(
        seen.iter().map(|s| (s.effect, s.replayed)).collect::<Vec<_>>(),
        [(true, false), (false, true)]
    );
    assert_eq!(seen[0].idempotency_key.as_deref(), Some(KEY));
    assert_eq!(seen[0].body_sha256, Digest::of(body(100).as_bytes()));
}

#[tokio::test]
async fn many_at_once_under_one_key_have_one_effect() {
    let bench = Bench::new().await;
    let body = body(100);
    let mut parallel = tokio::task::JoinSet::new();
    for _ in 0..16 {
        parallel.spawn(said(bench.form("/v1/refunds", &body).header("idempotency-key", KEY)));
    }
    let answers = parallel.join_all().await;
    assert!(answers.iter().all(|said| said.status == 200 && said.body == answers[0].body));
    assert_eq!(bench.sandbox.refunds(demo::CHARGE).len(), 1);
}

#[tokio::test]
async fn after_its_window_a_key_runs_anew() {
    let bench = Bench::new().await;
    assert_eq!(bench.refund(KEY, &body(100)).await.status, 200);
    bench.clock.advance(Duration::from_secs(24 * 60 * 60) - Duration::from_millis(1));
    assert_eq!(bench.refund(KEY, &body(100)).await.header("idempotent-replayed"), "true");
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.refund(KEY, &body(100)).await.header("idempotent-replayed"), "");
    assert_eq!(bench.sandbox.refunds(demo::CHARGE).len(), 2);
}
