//! Clients that must show a certificate beside their secret.

use std::time::Duration;

use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use writ::domain::clock::Clock as _;

use crate::cli::support::Work;
use crate::support::certificates::{Authority, Holds, Pair};
use crate::support::listening::Listening;

const OPTIONAL: &str = "client_ca = CLIENT_CA";

/// A world in which the support agent must show this certificate.
async fn bound(tls: &str, certificate: &str) -> Listening {
    let served = Listening::with(tls, "").await;
    bind(&served, "support-agent", certificate).await;
    served
}

async fn bind(served: &Listening, client: &str, certificate: &str) {
    let (client, certificate) = (client.parse().unwrap(), certificate.parse().unwrap());
    let store = &served.world.app.store;
    store
        .replace_certificate(served.world.op(), client, Some(certificate))
        .await
        .unwrap();
}

/// The status of a call with this client's secret over a connection that shows this certificate; an error if there is no connection.
async fn call(served: &Listening, client: &str, shown: Option<&Pair>) -> std::io::Result<u16> {
    let head = format!("GET /v1/drafts HTTP/1.1\r\nauthorization: {}", served.world.basic(client));
    served.http1(shown, &head, "").await.map(|(status, _)| status)
}

#[tokio::test]
async fn a_secret_without_its_certificate_is_refused_and_told_nothing() {
    let served = bound(OPTIONAL, "san_dns:agent.example").await;
    let own = served.clients.client("agent.example", Holds::Always);
    let other = served.clients.client("other.example", Holds::Always);
    assert_eq!(call(&served, "support-agent", None).await.unwrap(), 401);
    assert_eq!(call(&served, "support-agent", Some(&other)).await.unwrap(), 401);
    // A wrong secret and a missing certificate look the same.
    let head = |basic: &str| format!("GET /v1/drafts HTTP/1.1\r\nauthorization: {basic}");
    let (_, without) = served.http1(None, &head(&served.world.basic("support-agent")), "").await.unwrap();
    let (_, wrong) = served.http1(None, &head("Basic c3VwcG9ydC1hZ2VudDp4"), "").await.unwrap();
    assert_eq!(without, wrong);
    let denied = served
        .world
        .event_types()
        .await
        .iter()
        .filter(|kind| *kind == "auth.failed")
        .count();
    assert_eq!(denied, 4);
    assert_eq!(call(&served, "support-agent", Some(&own)).await.unwrap(), 200);
}

#[tokio::test]
async fn a_certificate_of_one_client_is_refused_with_the_secret_of_another() {
    let served = bound(OPTIONAL, "san_dns:agent.example").await;
    let agent = served.clients.client("agent.example", Holds::Always);
    let desk = served.clients.client("spiffe://example/desk", Holds::Always);
    assert_eq!(
        call(&served, "review-desk", None).await.unwrap(),
        200,
        "no certificate is asked of it"
    );
    assert_eq!(
        call(&served, "review-desk", Some(&agent)).await.unwrap(),
        401,
        "this one is another's"
    );
    assert_eq!(
        call(&served, "review-desk", Some(&desk)).await.unwrap(),
        200,
        "this one is nobody's"
    );
    bind(&served, "review-desk", "san_uri:spiffe://example/desk").await;
    for (client, shown, status) in [
        ("review-desk", &desk, 200),
        ("review-desk", &agent, 401),
        ("support-agent", &desk, 401),
        ("support-agent", &agent, 200),
    ] {
        assert_eq!(call(&served, client, Some(shown)).await.unwrap(), status, "{client}");
    }
    // It proves nothing any more for anybody, also once its client is revoked.
    let store = &served.world.app.store;
    store
        .revoke_client(served.world.op(), "support-agent".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(call(&served, "security", Some(&agent)).await.unwrap(), 401);
}

#[tokio::test]
async fn a_certificate_is_no_substitute_for_the_secret() {
    let served = bound(OPTIONAL, "san_dns:agent.example").await;
    let own = served.clients.client("agent.example", Holds::Always);
    let (status, _) = served.http1(Some(&own), "GET /v1/drafts HTTP/1.1", "").await.unwrap();
    assert_eq!(status, 401);
}

#[tokio::test]
async fn a_certificate_of_a_foreign_authority_or_outside_its_time_gets_no_connection() {
    let served = bound(OPTIONAL, "san_dns:agent.example").await;
    for bad in [
        Authority::new().client("agent.example", Holds::Always),
        served.clients.client("agent.example", Holds::NoLonger),
        served.clients.client("agent.example", Holds::NotYet),
        // The listener's own authority is not the clients'.
        served.authority.client("agent.example", Holds::Always),
        // Signed for servers.
        served.clients.server(Holds::Always),
    ] {
        assert!(call(&served, "support-agent", Some(&bad)).await.is_err());
    }
    assert_eq!(served.look("/healthz").await.0, 200);
}

#[tokio::test]
async fn where_certificates_are_required_nobody_gets_in_without_one() {
    let served = bound("client_ca = CLIENT_CA\nclient_certificate = \"required\"", "san_dns:agent.example").await;
    let own = served.clients.client("agent.example", Holds::Always);
    assert!(served.http1(None, "GET /healthz HTTP/1.1", "").await.is_err());
    assert_eq!(call(&served, "support-agent", Some(&own)).await.unwrap(), 200);
}

#[tokio::test]
async fn a_thumbprint_is_one_certificate_and_not_its_successor() {
    let served = Listening::with(OPTIONAL, "").await;
    let first = served.clients.client("agent.example", Holds::Always);
    let second = served.clients.client("agent.example", Holds::Always);
    bind(&served, "support-agent", &format!("x5t#S256:{}", first.thumbprint())).await;
    assert_eq!(call(&served, "support-agent", Some(&second)).await.unwrap(), 401);
    assert_eq!(call(&served, "support-agent", Some(&first)).await.unwrap(), 200);
}

#[tokio::test]
async fn a_connection_that_outlasts_its_certificate_is_no_longer_the_client_s() {
    let served = bound(OPTIONAL, "san_dns:agent.example").await;
    let end = served.world.clock.now().plus(Duration::from_secs(3_600));
    let short = served.clients.client("agent.example", Holds::Until(end));
    let mut stream = served.connect(served.client("http/1.1", Some(&short))).await.unwrap();
    let request = format!(
        "GET /v1/drafts HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\n\r\n",
        served.world.basic("support-agent")
    );
    for status in ["200", "401"] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !ended(&answer) {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "the connection goes on");
        }
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
        served.world.clock.advance(Duration::from_secs(3_601));
    }
}

/// Whether this is a whole answer, by its Content-Length.
fn ended(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.len() >= length.parse().unwrap()
}

#[test]
fn one_certificate_is_one_client_s_and_the_command_line_says_whose_it_must_be() {
    let work = Work::new();
    for (arguments, code) in [
        (&["client", "set-certificate", "support-agent"][..], 2),
        (&["client", "set-certificate", "support-agent", "san_dns:*.example"], 2),
        (&["client", "set-certificate", "support-agent", "san_dns:a.example", "--none"], 2),
        (&["client", "set-certificate", "nobody", "san_dns:a.example"], 1),
    ] {
        work.run(arguments).refused(code);
    }
    work.run(&["client", "set-certificate", "support-agent", "san_dns:A.example"]).ok();
    for second in [
        &["client", "set-certificate", "review-desk", "san_dns:a.example"][..],
        &["client", "add", "late", "--role", "auditor", "--certificate", "san_dns:a.example"],
    ] {
        let complaint = work.run(second).refused(1);
        assert!(complaint.contains("give each client its own"), "{complaint}");
    }
    let list = work.json(&["client", "list"]);
    let agent = list["clients"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["id"] == "support-agent")
        .unwrap();
    assert_eq!(agent["certificate"], "san_dns:a.example");
    // Where no certificate is asked for, the client could not show it.
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(
        complaint.contains("broker.tls.client_ca: is missing") && complaint.contains("support-agent"),
        "{complaint}"
    );
    work.run(&["client", "set-certificate", "support-agent", "--none"]).ok();
    assert_eq!(work.run(&["config", "check"]).ok(), "ok\n");
}

#[tokio::test]
async fn a_session_is_not_resumed_where_clients_show_certificates() {
    for (tls, kind) in [("", HandshakeKind::Resumed), (OPTIONAL, HandshakeKind::Full)] {
        let served = Listening::with(tls, "").await;
        let config = served.client("http/1.1", None);
        let mut last = None;
        for _ in 0..2 {
            let mut stream = served.connect(config.clone()).await.unwrap();
            let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            // Tickets come before the answer's end.
            stream.read_to_end(&mut Vec::new()).await.unwrap();
            last = stream.get_ref().1.handshake_kind();
        }
        assert_eq!(last, Some(kind), "{tls}");
    }
}
