//! The log as it grows: nothing lost over a resumption, nothing of another tenant, and an end in time.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;
use writ::audit::SignedHead;

use super::{audit, elsewhere};
use crate::support::answers;
use crate::support::listening::{Listening, PATIENCE};
use crate::support::world::World;

/// An answer that goes on, read message by message.
struct Stream {
    body: Body,
    text: String,
}

#[derive(Debug)]
struct Message {
    id: Option<u64>,
    kind: String,
    data: Value,
}

async fn answer(world: &World, client: &str, query: &str, last: Option<&str>) -> Response {
    let mut request = Request::get(format!("/v1/audit/stream{query}")).header("authorization", world.basic(client));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    world.app.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

impl Stream {
    async fn open(world: &World, client: &str, query: &str, last: Option<&str>) -> Self {
        let response = answer(world, client, query, last).await;
        let media = response.headers()["content-type"].to_str().unwrap().to_owned();
        answers::hold("GET", "/v1/audit/stream", response.status().as_u16(), &media, &Value::Null);
        assert_eq!((response.status().as_u16(), media.as_str()), (200, "text/event-stream"));
        let (body, text) = (response.into_body(), String::new());
        Self { body, text }
    }

    async fn more(&mut self) -> bool {
        let frame = std::future::poll_fn(|context| axum::body::HttpBody::poll_frame(std::pin::Pin::new(&mut self.body), context));
        let frame = tokio::time::timeout(PATIENCE, frame).await.expect("nothing comes");
        let Some(frame) = frame else { return false };
        self.text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        true
    }

    /// The next message that is no greeting.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let message = field("event: ").map(|kind| Message {
                    id: field("id: ").map(|id| id.parse().unwrap()),
                    kind,
                    data: serde_json::from_str(&field("data: ").unwrap()).unwrap(),
                });
                self.text = rest.to_owned();
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Everything up to and with the next checkpoint.
    async fn until_checkpoint(&mut self) -> (Vec<Message>, Message) {
        let mut events = Vec::new();
        loop {
            let message = self.next().await.expect("it ended");
            if message.kind == "checkpoint" {
                return (events, message);
            }
            assert_eq!((message.kind.as_str(), message.id), ("event", message.data["seq"].as_u64()));
            events.push(message);
        }
    }
}

#[tokio::test]
async fn a_beginning_that_is_none_is_refused() {
    let world = World::new().await;
    for (query, last) in [
        ("?after_seq=x", None),
        ("?after_seq=9223372036854775808", None),
        ("?limit=5", None),
        ("", Some("x")),
        ("", Some("-1")),
        ("", Some("9223372036854775808")),
    ] {
        let response = answer(&world, "security", query, last).await;
        assert_eq!(response.status(), 400, "{query} {last:?}");
    }
    audit(&world, "/v1/audit/stream?surprise=1").await.refused(400, "parameter_invalid");
}

#[tokio::test]
async fn what_is_written_comes_at_once_and_a_resumption_goes_on_where_it_was() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, "security", "", None).await;
    let (events, checkpoint) = stream.until_checkpoint().await;
    let seqs: Vec<u64> = events.iter().map(|event| event.id.unwrap()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "from the first on");
    let head = SignedHead::read(checkpoint.data["checkpoint"].as_str().unwrap()).unwrap();
    assert_eq!((head.size(), checkpoint.id), (seqs.len() as u64, seqs.last().copied()));

    world.allowed_draft().await;
    let (events, checkpoint) = stream.until_checkpoint().await;
    let exact = world.app.store.events(events[0].id.unwrap(), 1).await.unwrap();
    assert_eq!(events[0].data["event"].as_str().unwrap().as_bytes(), exact[0].bytes);
    drop(stream);
    let resumed = checkpoint.id.unwrap();
    world.held_draft().await;
    // The header counts before the parameter: that is what an EventSource sends when it comes back.
    for (query, last) in [
        (format!("?after_seq={resumed}"), None),
        ("?after_seq=0".to_owned(), Some(resumed.to_string())),
    ] {
        let mut stream = Stream::open(&world, "security", &query, last.as_deref()).await;
        let (events, _) = stream.until_checkpoint().await;
        assert_eq!(events[0].id, Some(resumed + 1), "{query}");
    }
}

#[tokio::test]
async fn nothing_of_another_tenant_is_told_but_that_the_log_has_grown() {
    let mut world = World::new().await;
    elsewhere(&mut world).await;
    world.allowed_draft().await;
    let mut stream = Stream::open(&world, "elsewhere", "", None).await;
    let (events, checkpoint) = stream.until_checkpoint().await;
    assert!(!events.is_empty());
    let told = |events: &[Message]| -> Vec<Value> {
        events
            .iter()
            .map(|event| serde_json::from_str(event.data["event"].as_str().unwrap()).unwrap())
            .collect()
    };
    for event in told(&events) {
        assert!(event["tenant"].is_null() || event["tenant"] == "other", "{event}");
    }
    world.held_draft().await;
    let (events, later) = stream.until_checkpoint().await;
    assert_eq!(told(&events), Vec::<Value>::new());
    assert!(later.data["size"].as_u64() > checkpoint.data["size"].as_u64());
    assert_eq!(
        later.id.map(|id| id + 1),
        later.data["size"].as_u64(),
        "it is not looked through again"
    );
}

#[tokio::test]
async fn more_followers_than_there_are_places_for_are_turned_away_until_one_goes() {
    let world = World::new().await;
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(Stream::open(&world, "security", "", None).await);
    }
    audit(&world, "/v1/audit/stream").await.refused(503, "overloaded");
    open.pop();
    Stream::open(&world, "security", "", None).await;
}

/// A client that takes nothing is told nothing: what it would be told is read only when it takes it.
#[tokio::test]
async fn nothing_is_read_for_whoever_takes_nothing() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, "security", "", None).await;
    assert!(stream.more().await, "the greeting");
    for _ in 0..3 {
        world.propose(World::refund(100)).await.expect(201);
    }
    let note = writ::audit::EventBody::new(
        writ::audit::EventKind::Note(writ::audit::Note::AuthFailed),
        writ::audit::Actor::system("test"),
    );
    for _ in 0..100 {
        world.app.store.note(world.op(), note.clone()).await.unwrap();
    }
    assert!(stream.more().await);
    let events = stream.text.matches("event: event\n").count();
    assert_eq!(events, 64, "one page, and no more until it is taken");
    let (rest, _) = stream.until_checkpoint().await;
    assert_eq!(rest.len() as u64, world.events().await.len() as u64);
}

#[tokio::test]
async fn an_answer_that_goes_on_ends_with_the_process() {
    let mut served = Listening::new().await;
    let basic = served.world.basic("security");
    let mut stream = served.connect(served.client("http/1.1", None)).await.unwrap();
    let head = format!("GET /v1/audit/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: {basic}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut taken = Vec::new();
    while !String::from_utf8_lossy(&taken).contains("event: checkpoint") {
        assert_ne!(stream.read_buf(&mut taken).await.unwrap(), 0);
    }
    let begun = Instant::now();
    served.ended().await;
    // Open requests have 20 s to end; this one does not wait for them.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    stream.read_to_end(&mut taken).await.unwrap();
    assert!(taken.ends_with(b"0\r\n\r\n"), "it ends in order");
}
