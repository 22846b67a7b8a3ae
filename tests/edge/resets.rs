//! HTTP/2 clients that open streams only to reset them.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::support::listening::{Listening, PATIENCE};

const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
const CANCEL: u32 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn streams_opened_and_reset_without_end_end_the_connection_and_no_other() {
    let served = Listening::new().await;
    let mut attacker = served.connect(served.client("h2", None)).await.unwrap();
    let mut flood = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    // :method GET, :scheme https, :path /, :authority x, by the static table of HPACK.
    let head = [0x82, 0x87, 0x84, 0x41, 0x01, b'x'];
    for at in 0..2_000 {
        let stream = at * 2 + 1;
        flood.extend(frame(1, 0x5, stream, &head));
        flood.extend(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
    }
    // It may hang up before everything is sent.
    drop(attacker.write_all(&flood).await);
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
        let payload = &rest[9..9 + length];
        if rest[3] == GOAWAY {
            reason = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        rest = &rest[9 + length..];
    }
    assert_eq!(reason, Some(ENHANCE_YOUR_CALM));
    assert_eq!(served.look("/healthz").await.0, 200);
}
