//! Each fault, before the effect and after it.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use writ::sandbox::{Fault, FaultKind, RefundStatus, demo};

use super::{Bench, PATIENCE, said};

const KEY: &str = "11111111-2222-8333-8444-555555555555";

fn body() -> String {
    format!("charge={}&amount=24000", demo::CHARGE)
}

fn on_refunds(kind: FaultKind) -> Fault {
    Fault::once(kind, "POST", "/v1/refunds")
}

/// Sends a refund over a bare socket and returns every byte that comes back until the connection is closed.
async fn over_a_socket(bench: &Bench) -> Vec<u8> {
    let mut stream = TcpStream::connect(bench.sandbox.url.strip_prefix("http://").unwrap())
        .await
        .unwrap();
    let (key, body) = (bench.sandbox.write_key().expose(), body());
    let text = format!(
        "POST /v1/refunds HTTP/1.1\r\nhost: sandbox\r\nauthorization: Bearer {key}\r\nidempotency-key: {KEY}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_dropped_connection_carries_no_byte_and_before_means_no_effect() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::DropBefore));
    assert_eq!(over_a_socket(&bench).await, b"");
    assert!(bench.sandbox.refunds(demo::CHARGE).is_empty());
    bench.sandbox.fault(on_refunds(FaultKind::DropAfter));
    assert_eq!(over_a_socket(&bench).await, b"");
    assert_eq!(bench.sandbox.refunds(demo::CHARGE).len(), 1);
    let seen = bench.sandbox.requests();
    assert_eq!(
        seen.iter().map(|s| (s.effect, s.status)).collect::<Vec<_>>(),
        [(false, None), (true, None)]
    );
    assert_eq!(bench.refund(KEY, &body()).await.header("idempotent-replayed"), "true");
    assert_eq!(bench.effects(), 1);
}

#[tokio::test]
async fn a_client_sees_a_drop_as_an_error_that_says_nothing_about_the_effect() {
    let bench = Bench::new().await;
    for kind in [FaultKind::DropBefore, FaultKind::DropAfter] {
        bench.sandbox.fault(on_refunds(kind));
        let request = bench.form("/v1/refunds", &body()).header("idempotency-key", KEY);
        let error = request.send().await.unwrap_err();
        assert!(!error.is_connect() && !error.is_timeout(), "{error:?}");
    }
    assert_eq!(bench.sandbox.requests().len(), 2, "the client sent each once");
}

#[tokio::test]
async fn a_hanging_request_has_happened_though_nothing_is_said_until_the_sandbox_stops() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::Hang));
    let mut stream = TcpStream::connect(bench.sandbox.url.strip_prefix("http://").unwrap())
        .await
        .unwrap();
    let key = bench.sandbox.write_key().expose();
    let head = format!("POST /v1/refunds HTTP/1.1\r\nhost: s\r\nauthorization: Bearer {key}\r\nidempotency-key: {KEY}\r\n");
    let text = format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{}", body().len(), body());
    stream.write_all(text.as_bytes()).await.unwrap();
    // The repetition is answered from memory only once the hanging one has run; until then it would be the first itself.
    let ran = async {
        while bench.sandbox.refunds(demo::CHARGE).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ran).await.expect("the refund never ran");
    assert_eq!(bench.refund(KEY, &body()).await.header("idempotent-replayed"), "true");
    bench.sandbox.shutdown().await;
    let mut answer = Vec::new();
    // Closed or reset, either way without a byte.
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
}

#[tokio::test]
async fn an_error_before_leaves_no_refund_and_an_error_after_is_replayed() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::Error503Before));
    assert_eq!(bench.refund(KEY, &body()).await.status, 503);
    assert!(bench.sandbox.refunds(demo::CHARGE).is_empty());
    bench.sandbox.fault(on_refunds(FaultKind::Error500After));
    assert_eq!(bench.refund(KEY, &body()).await.status, 500);
    let again = bench.refund(KEY, &body()).await;
    assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (500, "true"));
    assert_eq!(again.error("type"), "api_error");
    assert_eq!(bench.sandbox.refunds(demo::CHARGE).len(), 1);
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::RateLimit));
    let limited = bench.refund(KEY, &body()).await;
    assert_eq!((limited.status.as_u16(), limited.error("code")), (429, "rate_limit"));
    assert_eq!(limited.header("retry-after"), "1");
}

#[tokio::test]
async fn a_wrong_amount_is_only_in_the_answer() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::WrongAmount));
    assert_eq!(bench.refund(KEY, &body()).await.body["amount"], 24_001);
    assert_eq!(bench.sandbox.refunds(demo::CHARGE)[0].amount, 24_000);
}

#[tokio::test]
async fn a_pending_refund_holds_the_money_until_it_is_settled() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::Pending));
    let made = bench.refund(KEY, &body()).await;
    assert_eq!(made.body["status"], "pending");
    let charge = format!("/v1/charges/{}", demo::CHARGE);
    assert_eq!(bench.read(&charge).await.body["amount_refunded"], 24_000);
    assert!(bench.sandbox.settle(made.body["id"].as_str().unwrap(), RefundStatus::Succeeded));
    assert_eq!(bench.sandbox.refunds(demo::CHARGE)[0].status, RefundStatus::Succeeded);
}

#[tokio::test]
async fn a_cut_answer_promises_more_than_it_brings() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::Truncate));
    let answer = String::from_utf8(over_a_socket(&bench).await).unwrap();
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let promised: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(rest.len(), promised / 2);
    assert_eq!(bench.sandbox.refunds(demo::CHARGE).len(), 1);
}

#[tokio::test]
async fn a_redirect_has_no_effect_and_shows_who_follows_it() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::Redirect));
    let moved = bench.refund(KEY, &body()).await;
    assert_eq!((moved.status.as_u16(), moved.header("location")), (307, "/_sandbox/redirected"));
    assert!(bench.sandbox.requests().iter().all(|seen| seen.path == "/v1/refunds"));
    let followed = bench.form("/_sandbox/redirected", &body()).header("idempotency-key", KEY);
    assert_eq!(said(followed).await.status, 404);
    assert_eq!(bench.sandbox.requests()[1].path, "/_sandbox/redirected");
    assert_eq!(bench.effects(), 0);
}

#[tokio::test]
async fn an_oversize_answer_is_megabytes_long() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::Oversize));
    let response = bench.form("/v1/refunds", &body()).send().await.unwrap();
    assert!(response.bytes().await.unwrap().len() > 4_000_000);
    assert_eq!(bench.sandbox.refunds(demo::CHARGE).len(), 1);
}

#[tokio::test]
async fn whoever_may_not_come_in_uses_up_no_fault() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::RateLimit));
    let unknown = bench.bare(Method::POST, "/v1/refunds").body(body());
    assert_eq!(said(unknown).await.status, 401);
    let reader = bench
        .bare(Method::POST, "/v1/refunds")
        .bearer_auth(bench.sandbox.read_key().expose());
    assert_eq!(said(reader.body(body())).await.status, 403);
    assert_eq!(bench.refund(KEY, &body()).await.status, 429);
}

#[tokio::test]
async fn reads_fail_too() {
    let bench = Bench::new().await;
    bench.sandbox.fault(Fault::once(FaultKind::Error503Before, "GET", "/v1/charges/*"));
    let charge = format!("/v1/charges/{}", demo::CHARGE);
    assert_eq!(bench.read(&charge).await.status, 503);
    assert_eq!(bench.read(&charge).await.status, 200);
}

#[tokio::test]
async fn a_client_that_gives_up_while_it_is_held_leaves_its_key_free() {
    let bench = Bench::new().await;
    bench.sandbox.fault(on_refunds(FaultKind::Hold));
    let request = bench.form("/v1/refunds", &body()).header("idempotency-key", KEY);
    let waiting = tokio::spawn(request.send());
    bench.held().await;
    waiting.abort();
    // The server notices the closed connection in its own time; until then the key is in use.
    let freed = async {
        loop {
            let said = bench.refund(KEY, &body()).await;
            if said.status != 409 {
                return said;
            }
        }
    };
    let ran = tokio::time::timeout(PATIENCE, freed).await.expect("the key never went free");
    assert_eq!(ran.status, 200);
    assert_eq!(bench.effects(), 1);
    assert_eq!(bench.sandbox.release(), 0);
}

#[tokio::test]
async fn a_fault_that_is_not_understood_is_refused_with_its_place() {
    let bench = Bench::new().await;
    for (fault, place) in [
        (r#"{"match":{"method":"POST","path":"/v1/refunds"},"kind":"explode"}"#, "/kind"),
        (
            r#"{"match":{"method":"POST","path":"/v1/refunds","x":1},"kind":"hang"}"#,
            "/match/x",
        ),
        (
            r#"{"match":{"method":"POST","path":"/v1/refunds"},"kind":"hang","times":0}"#,
            "/times",
        ),
    ] {
        let refused = said(bench.bare(Method::POST, "/_sandbox/faults").body(fault)).await;
        assert_eq!((refused.status.as_u16(), refused.error("param")), (400, place), "{fault}");
    }
}

#[tokio::test]
async fn faults_are_set_and_the_record_is_read_over_http() {
    let bench = Bench::new().await;
    for kind in [
        "drop_after",
        "drop_before",
        "error_500_after",
        "error_503_before",
        "rate_limit",
        "hang",
        "hold",
        "wrong_amount",
        "pending",
        "in_flight",
        "truncate",
        "redirect",
        "oversize",
    ] {
        let fault = json!({"match": {"method": "POST", "path": "/v1/refunds"}, "kind": kind});
        let queued = said(bench.bare(Method::POST, "/_sandbox/faults").body(fault.to_string())).await;
        assert_eq!(queued.status, 200, "{kind}");
    }
    assert_eq!(said(bench.bare(Method::DELETE, "/_sandbox/faults")).await.body["data"], json!([]));

    let fault = json!({"match": {"method": "POST", "path": "/v1/refunds"}, "kind": "in_flight", "times": 2});
    assert_eq!(
        said(bench.bare(Method::POST, "/_sandbox/faults").body(fault.to_string()))
            .await
            .status,
        200
    );
    assert_eq!(bench.refund(KEY, &body()).await.status, 409);
    assert_eq!(bench.refund(KEY, &body()).await.error("code"), "idempotency_key_in_use");
    assert_eq!(bench.refund(KEY, &body()).await.status, 200);

    let seen = said(bench.bare(Method::GET, "/_sandbox/requests")).await.body;
    let seen = seen["data"].as_array().unwrap();
    assert_eq!(
        seen.iter().map(|s| s["effect"].as_bool().unwrap()).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert_eq!(seen[2]["idempotency_key"], KEY);
    assert_eq!(seen[2]["status"], 200);
    let state = said(bench.bare(Method::GET, "/_sandbox/state")).await.body;
    assert_eq!(state["refunds"].as_array().unwrap().len(), 1);
    assert_eq!(state["charges"].as_array().unwrap().len(), 6);
    assert_eq!(state["requests"], 3);
}
