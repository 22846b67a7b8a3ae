//! Answers that no HTTP library would write: bytes for the socket itself, at a pace of their own.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::answer::Answer;
use super::fault::FaultKind;

/// Between two bytes of an answer that drips.
const DRIP: Duration = Duration::from_millis(40);

/// How many headers a flood has.
const FLOOD: usize = 20_000;

/// How many bytes the compressed answer says it is worth.
const BOMB: usize = 64 << 20;

/// What is written instead of an answer, once the request has been dealt with.
pub(super) struct Script {
    bytes: Vec<u8>,
    pace: Pace,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    AtOnce,
    ByteByByte,
    OverAndOver,
}

/// The script of a fault that has one; `answer` is what an honest backend would have said.
pub(super) fn script(fault: Option<FaultKind>, answer: &Answer) -> Option<Script> {
    let json = answer.body.to_string().into_bytes();
    let at_once = |bytes| Script { bytes, pace: Pace::AtOnce };
    Some(match fault? {
        FaultKind::Malformed => at_once(whole("application/json", "", json.get(..json.len() / 2).unwrap_or_default())),
        FaultKind::Html => at_once(whole(
            "text/html",
            "",
            b"<!doctype html><title>OK</title><p>Your refund was made.</p>",
        )),
        FaultKind::OtherContentType => at_once(whole("text/html; charset=utf-8", "", &json)),
        FaultKind::EmptyAnswer => at_once(whole("application/json", "", b"")),
        FaultKind::GzipBomb => at_once(whole("application/json", "content-encoding: gzip\r\n", &bomb())),
        FaultKind::Garbage => at_once(b"refund made, thank you\n".to_vec()),
        FaultKind::HeaderFlood => at_once(whole("application/json", &"x-flood: 1\r\n".repeat(FLOOD), &json)),
        FaultKind::EarlyHints => at_once([HINT.as_bytes(), HINT.as_bytes(), &whole("application/json", "", &json)].concat()),
        FaultKind::EndlessHints => Script {
            bytes: HINT.as_bytes().to_vec(),
            pace: Pace::OverAndOver,
        },
        FaultKind::Drip => Script {
            bytes: whole("application/json", "", &json),
            pace: Pace::ByteByByte,
        },
        _ => return None,
    })
}

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";

/// A 200 with these headers and this body.
fn whole(content_type: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n{more}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// [`BOMB`] zeros in the form of RFC 1952: one literal, then copies of it, 258 bytes in 13 bits each.
fn bomb() -> Vec<u8> {
    let mut bits = Bits::default();
    // The last block, with fixed codes; the literal 0 is 00110000.
    bits.push(&[1, 1, 0]);
    bits.push(&[0, 0, 1, 1, 0, 0, 0, 0]);
    for _ in 0..BOMB / 258 {
        // Length 258 is the code 285, 11000101; distance 1 is the code 0.
        bits.push(&[1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0]);
    }
    bits.push(&[0, 0, 0, 0, 0, 0, 0]);
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    // The checksum and the length at the end are nobody's who stops in time.
    [head.as_slice(), &bits.bytes, &[0; 8]].concat()
}

/// Bits packed from the low end of each byte.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u8,
}

impl Bits {
    fn push(&mut self, bits: &[u8]) {
        for bit in bits {
            if self.used == 0 {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << self.used;
            }
            self.used = (self.used + 1) % 8;
        }
    }
}

impl Script {
    /// Writes it out; ends early when the client goes away.
    pub(super) async fn play(self, mut stream: TcpStream) {
        // An error is a client that has had enough.
        let _ = match self.pace {
            Pace::AtOnce => stream.write_all(&self.bytes).await,
            Pace::ByteByByte => drip(&mut stream, &self.bytes).await,
            Pace::OverAndOver => loop {
                if let Err(error) = stream.write_all(&self.bytes).await {
                    break Err(error);
                }
                tokio::time::sleep(DRIP).await;
            },
        };
        // What was written arrives before the end of the connection does, if the client is left to hang up first.
        let _ = stream.shutdown().await;
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut [0; 64])).await;
    }
}

async fn drip(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes {
        stream.write_all(std::slice::from_ref(byte)).await?;
        tokio::time::sleep(DRIP).await;
    }
    Ok(())
}
