//! Those who hold connections open keep nobody out, and least of all whoever is to stop everything.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::listening::{Listening, PATIENCE};

type Stream = TlsStream<TcpStream>;

/// A connection from one of this machine's own addresses, 127.0.0.N.
async fn connect(served: &Listening, n: u8) -> Stream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, n), 0).into()).unwrap();
    let stream = socket.connect(served.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(served.client("http/1.1", None)));
    let name = ServerName::try_from("localhost").unwrap();
    timeout(PATIENCE, connector.connect(name, stream)).await.unwrap().unwrap()
}

/// One request on a connection that stays open, and the status of its answer; `None` if the connection was closed.
async fn ask(stream: &mut Stream, head: &str, body: &str) -> Option<u16> {
    let length = body.len();
    let text = format!("{head}\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    loop {
        let mut part = [0; 4096];
        match timeout(PATIENCE, stream.read(&mut part))
            .await
            .expect("neither answered nor closed")
        {
            Ok(0) | Err(_) => return None,
            Ok(read) => answer.extend_from_slice(&part[..read]),
        }
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let field = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= field.unwrap().parse().unwrap() {
            return Some(head[9..12].parse().unwrap());
        }
    }
}

const LOOK: &str = "GET /healthz HTTP/1.1";

/// Connections from two addresses that together are all there may be, each of which has been asked something.
async fn crowd(served: &Listening, head: &str) -> Vec<Stream> {
    let mut held = Vec::new();
    for at in 0..32 {
        let mut stream = connect(served, 2 + at % 2).await;
        ask(&mut stream, head, "").await.expect("all of them are answered");
        held.push(stream);
    }
    held
}

/// Stops everything, from an address that has no connection yet.
async fn stop_everything(served: &Listening) -> u16 {
    let mut stream = connect(served, 9).await;
    let head = format!("POST /v1/stops HTTP/1.1\r\nauthorization: {}", served.world.basic("security"));
    let body: Value = json!({ "scope": "everything", "reason": "an attack" });
    ask(&mut stream, &head, &body.to_string()).await.expect("the stop is answered")
}

const CROWDED: &str = "connections = 32\nconnections_per_address = 16\nhead_timeout = \"2m\"\nstranger_timeout = \"30m\"";

async fn the_kill_switch_works(served: &Listening) {
    let stopped = timeout(PATIENCE, stop_everything(served))
        .await
        .expect("the kill switch is locked out");
    assert_eq!(stopped, 201);
}

#[tokio::test]
async fn two_addresses_that_hold_all_connections_do_not_keep_the_kill_switch_out() {
    let served = Listening::with("", CROWDED).await;
    let held = crowd(&served, LOOK).await;
    the_kill_switch_works(&served).await;
    drop(held);
    served.end().await;
}

#[tokio::test]
async fn a_client_that_holds_all_connections_does_not_keep_the_kill_switch_out() {
    let served = Listening::with("", CROWDED).await;
    let head = format!("GET /v1/drafts HTTP/1.1\r\nauthorization: {}", served.world.basic("support-agent"));
    let held = crowd(&served, &head).await;
    the_kill_switch_works(&served).await;
    drop(held);
    served.end().await;
}

#[tokio::test]
async fn a_connection_on_which_nobody_shows_who_they_are_ends_however_much_it_is_used() {
    let served = Listening::with("", "stranger_timeout = \"1s\"").await;
    let known = format!("GET /v1/drafts HTTP/1.1\r\nauthorization: {}", served.world.basic("support-agent"));
    let wrong = "GET /v1/drafts HTTP/1.1\r\nauthorization: Basic c3VwcG9ydC1hZ2VudDp4";
    let mut client = connect(&served, 1).await;
    let mut strangers = [(connect(&served, 1).await, LOOK), (connect(&served, 1).await, wrong)];
    timeout(PATIENCE, async {
        for (stranger, head) in &mut strangers {
            while ask(stranger, head, "").await.is_some() {
                assert_eq!(ask(&mut client, &known, "").await, Some(200));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    })
    .await
    .expect("a stranger is kept for ever");
    assert_eq!(ask(&mut client, &known, "").await, Some(200), "whoever is known stays");
    served.end().await;
}
