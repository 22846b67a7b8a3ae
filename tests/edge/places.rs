//! Whoever brings a body slowly keeps no place among the calls that are worked on: a place is for a call that is whole, of a known caller.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::support::listening::{Listening, PATIENCE};
use crate::support::world::World;

/// Begins a call whose body does not come, and waits until it is being read, or until the call is refused without it.
async fn begin(served: &Listening, path: &str, authorization: Option<&str>, media: &str) -> (TlsStream<TcpStream>, String) {
    let mut stream = served.connect(served.client("http/1.1", None)).await.unwrap();
    let who = authorization.map_or(String::new(), |value| format!("authorization: {value}\r\n"));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{who}content-type: {media}\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    stream.write_all(b"{").await.unwrap();
    (stream, String::from_utf8(answer.to_vec()).unwrap())
}

async fn post(served: &Listening, path: &str, authorization: &str, media: &str, body: &str) -> (u16, Value) {
    let head = format!("POST {path} HTTP/1.1\r\nauthorization: {authorization}\r\ncontent-type: {media}");
    let (status, body) = served.http1(None, &head, body).await.unwrap();
    (status, serde_json::from_str(&body).unwrap())
}

/// A proposal, an exchange and an execution, each answered at once.
async fn honest_work_goes_on(served: &Listening) {
    let agent = served.world.basic("support-agent");
    let (status, draft) = post(served, "/v1/drafts", &agent, "application/json", &World::refund(4_000).to_string()).await;
    assert_eq!(status, 201, "{draft}");
    let draft = draft["id"].as_str().unwrap();
    let form = format!(
        "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={draft}&subject_token_type=urn:writ:token-type:draft"
    );
    let (status, issued) = post(served, "/oauth2/token", &agent, "application/x-www-form-urlencoded", &form).await;
    assert_eq!(status, 200, "{issued}");
    let bearer = format!("Bearer {}", issued["access_token"].as_str().unwrap());
    let body = json!({ "draft_id": draft }).to_string();
    let (status, execution) = post(served, "/v1/executions", &bearer, "application/json", &body).await;
    assert_eq!(status, 202, "{execution}");
}

#[tokio::test]
async fn slow_bodies_of_bearers_hold_no_place_against_honest_work() {
    let served = Listening::with("", "calls = 8").await;
    let draft = served.world.allowed_draft().await;
    let bearer = format!("Bearer {}", served.world.credential(&draft).await);
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(begin(&served, "/v1/executions", Some(&bearer), "application/json").await);
    }
    for (_, answer) in &slow {
        assert_eq!(answer, "HTTP/1.1 100", "its body is being waited for");
    }
    honest_work_goes_on(&served).await;
    // Whoever brings no credential of ours is not even listened to.
    for nobody in [None, Some("Bearer AAAA")] {
        let (_, refused) = begin(&served, "/v1/executions", nobody, "application/json").await;
        assert_eq!(refused, "HTTP/1.1 401");
    }
    drop(slow);
    served.end().await;
}

#[tokio::test]
async fn slow_bodies_of_a_client_hold_no_place_against_honest_work() {
    let served = Listening::with("", "calls = 8").await;
    let (agent, desk) = (served.world.basic("support-agent"), served.world.basic("review-desk"));
    let mut slow = Vec::new();
    for _ in 0..8 {
        for (path, who, media) in [
            ("/v1/drafts", &agent, "application/json"),
            ("/v1/reads", &agent, "application/json"),
            ("/v1/approvals", &desk, "application/json"),
            ("/oauth2/token", &agent, "application/x-www-form-urlencoded"),
        ] {
            slow.push(begin(&served, path, Some(who), media).await);
        }
    }
    assert!(slow.iter().all(|(_, answer)| answer == "HTTP/1.1 100"));
    honest_work_goes_on(&served).await;
    drop(slow);
    served.end().await;
}
