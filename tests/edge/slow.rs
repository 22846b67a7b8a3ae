//! Whoever is slow, or says nothing, keeps nobody else waiting and is not kept for ever.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::listening::{Listening, PATIENCE};

const QUICK: &str = "head_timeout = \"300ms\"\nconnections = 8\nconnections_per_address = 8";

/// Reads to the end; fails if the other side does not end it.
async fn is_ended(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    // Being cut off is an end too.
    drop(
        timeout(PATIENCE, stream.read_to_end(&mut rest))
            .await
            .expect("the connection was kept"),
    );
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_ended_and_its_place_given_away() {
    let served = Listening::with("", QUICK).await;
    let mut silent = Vec::new();
    for at in 0..8 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        // Nothing at all, or the first bytes of a ClientHello.
        if at % 2 == 0 {
            stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        }
        silent.push(stream);
    }
    let answer = timeout(PATIENCE, served.look("/healthz"));
    for stream in &mut silent {
        is_ended(stream).await;
    }
    assert_eq!(answer.await.expect("the places were never given away").0, 200);
}

#[tokio::test]
async fn a_connection_that_brings_no_request_is_ended_in_either_version_of_http() {
    let served = Listening::with("", QUICK).await;
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    // The head of a request that says it goes on in another frame, which never comes.
    let endless = [&preface[..], &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]].concat();
    for (alpn, said) in [
        ("http/1.1", &b""[..]),
        ("http/1.1", b"GET /healthz HTTP/1.1\r\nhost: x\r\n"),
        ("h2", b""),
        ("h2", &preface),
        ("h2", &endless),
    ] {
        let mut stream = served.connect(served.client(alpn, None)).await.unwrap();
        stream.write_all(said).await.unwrap();
        is_ended(&mut stream).await;
    }
    served.end().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up_in_either_version_of_http() {
    let served = Listening::with("", QUICK).await;
    let basic = served.world.basic("support-agent");
    let first = async {
        let mut stream = served.connect(served.client("http/1.1", None)).await.unwrap();
        let head = format!("POST /v1/drafts HTTP/1.1\r\nhost: x\r\nauthorization: {basic}\r\ncontent-type: application/json");
        let begun = format!("{head}\r\ncontent-length: 100\r\n\r\n{{");
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 400");
    };
    let second = async {
        let stream = served.connect(served.client("h2", None)).await.unwrap();
        let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
        let driver = tokio::spawn(connection);
        let request = http::Request::post(served.url("/v1/drafts")).header("authorization", &basic);
        let request = request.header("content-type", "application/json").body(()).unwrap();
        let (answer, mut body) = sender.send_request(request, false).unwrap();
        body.send_data(b"{"[..].into(), false).unwrap();
        assert_eq!(answer.await.unwrap().status(), 400);
        driver.abort();
    };
    timeout(PATIENCE, async { tokio::join!(first, second) })
        .await
        .expect("the body was waited for");
}

#[tokio::test]
async fn a_request_under_way_is_not_silence() {
    let served = Listening::with("", QUICK).await;
    let authorization = served.world.basic("support-agent");
    let draft = served.world.held_draft().await;
    let head = format!("GET /v1/drafts/{draft}?wait=1 HTTP/1.1\r\nauthorization: {authorization}");
    let (status, body) = served.http1(None, &head, "").await.unwrap();
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn one_address_does_not_get_all_connections() {
    let served = Listening::with("", "connections = 16\nconnections_per_address = 3").await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(served.connect(served.client("http/1.1", None)).await.unwrap());
    }
    let mut refused = TcpStream::connect(served.address).await.unwrap();
    let mut byte = [0; 1];
    assert!(matches!(timeout(PATIENCE, refused.read(&mut byte)).await.unwrap(), Ok(0)));
    // Another address of the same machine is served.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
    let mut other = socket.connect(served.address).await.unwrap();
    other.write_all(b"not TLS").await.unwrap();
    // An alert, which is more than nothing.
    assert_eq!(timeout(PATIENCE, other.read(&mut byte)).await.unwrap().unwrap(), 1);
    drop(open);
    crate::support::listening::soon("a place is free again", async || {
        served.http1(None, "GET /healthz HTTP/1.1", "").await.is_ok()
    })
    .await;
}
