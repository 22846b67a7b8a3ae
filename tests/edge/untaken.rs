//! A client that asks and does not take the answers: they are held for it up to a bound, and then it is cut off.

use axum::body::Body;
use h2::client::Builder;
use http::{Request, header};
use tokio::time::{Duration, Instant};

use crate::support::listening::{Listening, PATIENCE};

#[tokio::test]
async fn answers_that_nobody_takes_are_held_up_to_a_bound() {
    let served = Listening::with("", "failure_burst = 2000\nall_failures_burst = 2000").await;
    // A page of events of some hundred KiB.
    for _ in 0..1_100 {
        let wrong = Request::get("/v1/drafts").header(header::AUTHORIZATION, "Basic c3VwcG9ydC1hZ2VudDp4");
        served.world.send(wrong.body(Body::empty()).unwrap()).await;
    }
    let basic = served.world.basic("security");
    let page = format!("GET /v1/audit/events?limit=1000 HTTP/1.1\r\nauthorization: {basic}");
    let size = served.http1(None, &page, "").await.unwrap().1.len();
    assert!(size > 300 * 1024, "{size}");
    let stream = served.connect(served.client("h2", None)).await.unwrap();
    let (mut sender, connection) = Builder::new()
        .initial_window_size(0)
        .handshake::<_, bytes::Bytes>(stream)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut held = Vec::new();
    for _ in 0..31 {
        let request = Request::get(served.url("/v1/audit/events?limit=1000")).header("authorization", &basic);
        let (answer, _) = sender.send_request(request.body(()).unwrap(), true).unwrap();
        held.push(answer);
    }
    // It is never silent, and asks for more.
    let begun = Instant::now();
    while !connection.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "31 answers of {size} bytes are held for ever");
        let request = Request::head(served.url("/healthz")).body(()).unwrap();
        if let Ok((answer, _)) = sender.send_request(request, true) {
            drop(answer.await);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(served.look("/healthz").await.0, 200);
    served.end().await;
}

#[tokio::test]
async fn an_answer_that_is_taken_bit_by_bit_comes_whole() {
    let served = Listening::new().await;
    let stream = served.connect(served.client("h2", None)).await.unwrap();
    let (mut sender, connection) = Builder::new()
        .initial_window_size(1_000)
        .handshake::<_, bytes::Bytes>(stream)
        .await
        .unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::get(served.url("/openapi.json")).body(()).unwrap();
    let (answer, _) = sender.send_request(request, true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let mut taken = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.unwrap();
        body.flow_control().release_capacity(part.len()).unwrap();
        taken.extend_from_slice(&part);
    }
    let document: serde_json::Value = serde_json::from_slice(&taken).unwrap();
    assert_eq!(document["info"]["title"], "writ");
    driver.abort();
    served.end().await;
}
