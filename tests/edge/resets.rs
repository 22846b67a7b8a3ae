//! HTTP/2 clients that open streams only to reset them.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::support::listening::{Listening, PATIENCE};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;
const ENHANCE_YOUR_CALM: u32 = 11;
const CANCEL: u32 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A client that opens a stream, and what it does to it, for each of many streams.
fn flood(then: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let mut flood = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    // :method POST, :scheme https, :path /, :authority x, content-length 5, by the static table of HPACK.
    let head = [0x83, 0x87, 0x84, 0x41, 0x01, b'x', 0x0f, 0x0d, 0x01, b'5'];
    for at in 0..2_000 {
        let stream = at * 2 + 1;
        flood.extend(frame(HEADERS, END_HEADERS, stream, &head));
        flood.extend(then(stream));
    }
    flood
}

/// Why the server ended the connection.
async fn end_of(served: &Listening, flood: &[u8]) -> Option<u32> {
    let mut attacker = served.connect(served.client("h2", None)).await.unwrap();
    // It may hang up before everything is sent.
    drop(attacker.write_all(flood).await);
    let mut said = Vec::new();
    drop(
        timeout(PATIENCE, attacker.read_to_end(&mut said))
            .await
            .expect("the connection was kept"),
    );
    let mut rest = &said[..];
    let mut reason = None;
    while rest.len() >= 9 {
        let length = usize::from(rest[0]) << 16 | usize::from(rest[1]) << 8 | usize::from(rest[2]);
        let Some(payload) = rest.get(9..9 + length) else { break };
        if rest[3] == GOAWAY {
            reason = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        rest = &rest[9 + length..];
    }
    reason
}

#[tokio::test]
async fn streams_opened_and_reset_without_end_end_the_connection_and_no_other() {
    let served = Listening::new().await;
    let resets = flood(|stream| frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
    assert_eq!(end_of(&served, &resets).await, Some(ENHANCE_YOUR_CALM));
    assert_eq!(served.look("/healthz").await.0, 200);
}

#[tokio::test]
async fn streams_that_make_the_server_reset_them_end_the_connection_and_no_other() {
    let served = Listening::new().await;
    // More than the five bytes that were announced: the server must reset the stream.
    let faults = flood(|stream| frame(DATA, 0, stream, &[0; 6]));
    assert_eq!(end_of(&served, &faults).await, Some(ENHANCE_YOUR_CALM));
    assert_eq!(served.look("/healthz").await.0, 200);
}
