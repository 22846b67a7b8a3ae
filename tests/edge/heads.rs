//! Heads that are too long or have too many fields are refused with 431, in either version of HTTP.

use h2::client::handshake;

use crate::support::listening::Listening;

/// The status, and the body, of a request over HTTP/2 with these fields.
async fn http2(served: &Listening, fields: impl Iterator<Item = (String, String)>) -> (u16, String) {
    let stream = served.connect(served.client("h2", None)).await.unwrap();
    let (mut sender, connection) = handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let mut request = http::Request::get(served.url("/healthz"));
    for (name, value) in fields {
        request = request.header(name, value);
    }
    let (answer, _) = sender.send_request(request.body(()).unwrap(), true).unwrap();
    let (head, mut body) = answer.await.unwrap().into_parts();
    let mut text = Vec::new();
    while let Some(part) = body.data().await {
        text.extend_from_slice(&part.unwrap());
    }
    driver.abort();
    (head.status.as_u16(), String::from_utf8(text).unwrap())
}

fn fields(count: usize, size: usize) -> impl Iterator<Item = (String, String)> {
    (0..count).map(move |at| (format!("x-{at}"), "v".repeat(size)))
}

#[tokio::test]
async fn a_head_over_its_size_is_refused_in_either_version() {
    let served = Listening::new().await;
    let head = |size: usize| format!("GET /healthz HTTP/1.1\r\nx-long: {}", "v".repeat(size));
    assert_eq!(served.http1(None, &head(33 * 1024), "").await.unwrap().0, 431);
    assert_eq!(served.http1(None, &head(16 * 1024), "").await.unwrap().0, 200);
    assert_eq!(http2(&served, fields(40, 1024)).await.0, 431);
    assert_eq!(http2(&served, fields(16, 1024)).await.0, 200);
}

#[tokio::test]
async fn too_many_fields_are_refused_in_either_version() {
    let served = Listening::new().await;
    let lines = |count| {
        fields(count, 1)
            .map(|(name, value)| format!("\r\n{name}: {value}"))
            .collect::<String>()
    };
    let head = |count| format!("GET /healthz HTTP/1.1{}", lines(count));
    assert_eq!(served.http1(None, &head(101), "").await.unwrap().0, 431);
    assert_eq!(served.http1(None, &head(90), "").await.unwrap().0, 200);
    let (status, body) = http2(&served, fields(101, 1)).await;
    assert!(status == 431 && body.contains("\"head_too_large\""), "{status} {body}");
    assert_eq!(http2(&served, fields(90, 1)).await.0, 200);
}
