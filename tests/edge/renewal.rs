//! Certificates are renewed while the process serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use writ::edge::Standing;

use super::tls_files;
use crate::cli::support::Server;
use crate::support::certificates::{Authority, Holds};
use crate::support::listening::{Listening, client, connect, soon};

/// The warning that readiness gives about the certificate.
async fn warning(served: &Listening) -> Option<String> {
    let (status, body) = served.look("/readyz").await;
    assert_eq!(status, 200, "an old pair serves as well as before: {body}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let tls = body["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "tls")
        .unwrap();
    tls["warning"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_new_pair_is_refused_and_the_old_one_goes_on() {
    let served = Listening::new().await;
    let before = served.served_certificate().await;
    assert_eq!(warning(&served).await, None);
    let (expired, other) = (served.authority.server(Holds::NoLonger), served.authority.server(Holds::Always));
    expired.write(served.dir.path(), "server");
    served.reload.notify_one();
    soon("a warning", async || warning(&served).await.is_some()).await;
    assert_eq!(served.served_certificate().await, before);
    // A certificate that is there before its key is a pair that does not fit, until the key is there too.
    std::fs::write(served.path("server.pem"), &other.pem).unwrap();
    served.reload.notify_one();
    served.reload.notify_one();
    soon("the pair that does not fit is looked at", async || warning(&served).await.is_some()).await;
    assert_eq!(served.served_certificate().await, before);
    other.write(served.dir.path(), "server");
    served.reload.notify_one();
    soon("the new certificate", async || served.served_certificate().await == other.der).await;
    assert_eq!(warning(&served).await, None);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_served_without_a_dropped_request() {
    let served = Arc::new(Listening::new().await);
    // A connection from before goes on with what it began with.
    let mut open = served.connect(served.client("http/1.1", None)).await.unwrap();
    let (ended, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (served, ended, answered) = (served.clone(), ended.clone(), answered.clone());
        callers.spawn(async move {
            while !ended.load(Ordering::SeqCst) {
                let (status, body) = served
                    .http1(None, "GET /healthz HTTP/1.1", "")
                    .await
                    .expect("a request was dropped");
                assert_eq!(status, 200, "{body}");
                answered.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    for _ in 0..3 {
        let next = served.authority.server(Holds::Always);
        let before = answered.load(Ordering::SeqCst);
        next.write(served.dir.path(), "server");
        served.reload.notify_one();
        soon("the new certificate", async || served.served_certificate().await == next.der).await;
        soon("calls under the new certificate", async || {
            answered.load(Ordering::SeqCst) > before + 8
        })
        .await;
    }
    open.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    open.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    ended.store(true, Ordering::SeqCst);
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_ends_while_it_is_served_is_not_ready() {
    let served = Listening::new().await;
    let now = writ::domain::clock::Clock::now(&*served.world.clock);
    let short = served
        .authority
        .server(Holds::Until(now.plus(Duration::from_secs(30 * 86_400 + 3_600))));
    let (certificate, key) = short.write(served.dir.path(), "short");
    let files = writ::edge::TlsFiles {
        certificate,
        key,
        clients: None,
    };
    let tls = writ::edge::ServerTls::load(files, served.world.clock.clone()).unwrap();
    let day = |days: u64| now.plus(Duration::from_secs(days * 86_400));
    assert_eq!((tls.standing(day(30)), tls.standing(day(31))), (Standing::Good, Standing::Expired));
    // The test's client looks at the machine's clock, for which the certificate holds on.
    served.world.clock.advance(Duration::from_secs(75 * 365 * 86_400));
    let (status, body) = served.look("/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("tls: the certificate has expired"), "{body}");
}

#[tokio::test]
async fn an_authority_that_is_renewed_beside_its_certificates_is_taken_over() {
    let served = Listening::with("client_ca = CLIENT_CA\nclient_certificate = \"required\"", "").await;
    let other = Authority::new();
    let known = served.clients.client("agent.example", Holds::Always);
    let new = other.client("agent.example", Holds::Always);
    let get = "GET /healthz HTTP/1.1";
    assert_eq!(served.http1(Some(&known), get, "").await.unwrap().0, 200);
    assert!(served.http1(Some(&new), get, "").await.is_err());
    std::fs::write(served.path("clients.pem"), &other.pem).unwrap();
    served.reload.notify_one();
    soon("the new authority", async || served.http1(Some(&new), get, "").await.is_ok()).await;
    assert!(served.http1(Some(&known), get, "").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_has_the_files_of_a_running_process_read_again() {
    let work = tls_files::work(tls_files::PAIR);
    let authority = Authority::new();
    let (first, second) = (authority.server(Holds::Always), authority.server(Holds::Always));
    first.write(&work.path("tls"), "server");
    let server = Server::start(&["serve", "--config", &work.config]);
    let address = server.url.strip_prefix("https://").unwrap().parse().unwrap();
    let served = async || {
        let stream = connect(address, client(&authority, "h2", None)).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    };
    assert_eq!(served().await, first.der);
    second.write(&work.path("tls"), "server");
    server.signal("HUP");
    soon("the new certificate", async || served().await == second.der).await;
    server.signal("TERM");
    let (status, log) = server.ended();
    assert!(status.success() && log.contains("looked at, as was asked"), "{log}");
}
