//! The client on real sockets: what leaves the process, and what it makes of a connection that goes wrong.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use super::support::{answer, charge, draft, operation, refund_params, shipped_at};
use writ::backend::{Backends, Client, Credential, Need, ReadError, ReadPlan, Sent};
use writ::domain::digest::Digest;
use writ::domain::draft::{CompiledRequest, IdempotencyKey, KeyPlacement};

/// A server that hands each connection to `serve`, and tells the test every request it read.
struct Server {
    address: SocketAddr,
    requests: Receiver<String>,
}

impl Server {
    fn start(serve: impl Fn(&mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let request = read_request(&mut stream);
                if tell.send(request).is_err() {
                    return;
                }
                serve(&mut stream);
            }
        });
        Self { address, requests }
    }

    fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |stream| stream.write_all(&response).unwrap_or_default())
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request that arrived. Each was announced before it was answered, so none can still be on its way.
    fn seen(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ").and_then(|n| n.parse::<usize>().ok()));
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        // A TLS greeting: nothing more will come before it is answered.
        if bytes.first() == Some(&0x16) {
            return text;
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return text,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

fn env(name: &str) -> Option<String> {
    name.strip_prefix("WRIT_")
        .map(|name| format!("secret-of-{}\n", name.to_lowercase()))
}

struct Payment {
    client: Client,
    request: CompiledRequest,
    plan: ReadPlan,
    key: IdempotencyKey,
}

fn payment(base_url: &str, need: Need) -> Payment {
    of(&shipped_at(base_url), need)
}

fn of(backends: &Backends, need: Need) -> Payment {
    let refund = operation(backends, "refund.create");
    let made = draft(refund, refund_params(), &answer(200, charge()));
    let backend = backends.backend(&"stripe".parse().unwrap()).unwrap();
    Payment {
        client: Client::connect(backend, need, &env).unwrap(),
        plan: refund.precondition(&made).unwrap(),
        key: made.seal().unwrap().key,
        request: made.request,
    }
}

impl Payment {
    async fn send(&self) -> Sent {
        self.client.send(&self.request, &self.key).await
    }
}

fn lost(sent: Sent) -> String {
    match sent {
        Sent::Lost { why } => why,
        other => panic!("expected lost, got {other:?}"),
    }
}

fn not_sent(sent: Sent) -> String {
    match sent {
        Sent::NotSent { why } => why,
        other => panic!("expected not sent, got {other:?}"),
    }
}

#[tokio::test]
async fn a_connection_dropped_before_the_answer_is_lost_and_not_tried_again() {
    let server = Server::start(|_| {});
    lost(payment(&server.url(), Need::Proxy).send().await);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_refused_port_is_not_sent() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let why = not_sent(payment(&format!("http://{closed}"), Need::Proxy).send().await);
    assert!(!why.contains("secret-of"), "{why}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let elsewhere = Server::answering(response("200 OK", "", "{}"));
    let location = format!("location: {}/v1/refunds\r\n", elsewhere.url());
    for status in [
        "301 Moved Permanently",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let server = Server::answering(response(status, &location, ""));
        match payment(&server.url(), Need::Proxy).send().await {
            Sent::Answer(answer) => assert_eq!(answer.status.to_string(), status[..3]),
            other => panic!("{other:?}"),
        }
        let payment = payment(&server.url(), Need::Proxy);
        let answer = payment.client.read(&payment.plan, Credential::Read).await.unwrap();
        assert_eq!(answer.status.to_string(), status[..3]);
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn an_answer_over_the_limit_is_lost_whether_or_not_it_says_its_length() {
    let long = "x".repeat(600 << 10);
    let server = Server::answering(response("200 OK", "", &long));
    assert!(lost(payment(&server.url(), Need::Proxy).send().await).contains("longer than 524288 bytes"));
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
        long.len()
    );
    let server = Server::answering(chunked);
    let payment = payment(&server.url(), Need::Proxy);
    assert!(lost(payment.send().await).contains("longer than 524288 bytes"));
    let read = payment.client.read(&payment.plan, Credential::Read).await.unwrap_err();
    assert!(matches!(read, ReadError::Lost(_)), "{read}");
    let whose = format!("from the backend `{}` at 127.0.0.1: ", payment.plan.backend);
    assert!(read.to_string().contains(&whose), "{read}");
}

#[tokio::test]
async fn an_answer_cut_short_is_lost() {
    for cut in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\":\"re_1\"",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1",
        "this is not HTTP\r\n\r\n",
    ] {
        let server = Server::answering(cut);
        lost(payment(&server.url(), Need::Proxy).send().await);
        assert_eq!(server.seen().len(), 1, "{cut}");
    }
}

#[tokio::test]
async fn a_backend_that_never_answers_is_lost_after_the_total_timeout() {
    let (hold, held) = channel::<()>();
    let held = std::sync::Mutex::new(held);
    let server = Server::start(move |_| {
        let _ = held.lock().unwrap().recv();
    });
    let files: Vec<_> = writ::backend::SHIPPED
        .iter()
        .map(|(name, text)| {
            let text = writ::backend::relocated(name, text, &server.url()).unwrap();
            (*name, text.replace("\"3s\"", "\"100ms\"").replace("\"30s\"", "\"200ms\""))
        })
        .collect();
    let backends = Backends::from_texts(files.iter().map(|(n, t)| (*n, t.as_str())), Path::new(".")).unwrap();
    lost(of(&backends, Need::Proxy).send().await);
    drop(hold);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_request_whose_headers_would_replace_each_other_is_not_sent() {
    let server = Server::answering(response("200 OK", "", "{}"));
    let text = writ::backend::relocated("stripe.toml", writ::backend::SHIPPED[1].1, &server.url()).unwrap();
    let keyed = text.replace("kind  = \"bearer\"", "kind  = \"header\"\nname  = \"x-key\"");
    let backends = Backends::from_texts([("stripe.toml", keyed.as_str())], Path::new(".")).unwrap();
    // A draft that was stored before the backend file changed.
    for name in ["x-key", "stripe-version", "content-type"] {
        let mut payment = of(&backends, Need::Proxy);
        payment.request.idempotency_key = KeyPlacement::Header {
            name: name.to_owned(),
            quoted: false,
        };
        let why = not_sent(payment.send().await);
        assert!(why.contains(&format!("the header `{name}`")) && !why.contains("secret-of"), "{why}");
    }
    let mut payment = of(&backends, Need::Proxy);
    payment.request.headers.insert("x-key".to_owned(), "a".to_owned());
    assert_eq!(
        not_sent(payment.send().await),
        "the header `x-key` is set twice: give it one place in the backend file"
    );
    payment.request.headers.remove("x-key");
    payment.request.headers.insert("Stripe-Version".to_owned(), "2".to_owned());
    not_sent(payment.send().await);
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn the_wire_shows_one_request_with_the_stored_bytes_and_the_stored_key() {
    let server = Server::answering(response("200 OK", "Request-Id: req_1\r\n", "{\"id\":\"re_1\"}"));
    let payment = payment(&server.url(), Need::Proxy);
    match payment.send().await {
        Sent::Answer(answer) => {
            assert_eq!((answer.status, answer.body.as_slice()), (200, &b"{\"id\":\"re_1\"}"[..]));
            assert_eq!(answer.headers["request-id"], "req_1");
        }
        other => panic!("{other:?}"),
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    let (head, body) = seen[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/refunds HTTP/1.1\r\n"), "{head}");
    assert_eq!(body.as_bytes(), payment.request.wire_body(&payment.key));
    let mut names: Vec<&str> = head.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "accept",
            "authorization",
            "content-length",
            "content-type",
            "host",
            "idempotency-key",
            "stripe-version",
            "user-agent"
        ]
    );
    assert!(head.contains(&format!("\r\nidempotency-key: {}\r\n", payment.key)), "{head}");
    assert!(head.contains("\r\nauthorization: Bearer secret-of-stripe_write_key\r\n"), "{head}");
}

#[tokio::test]
async fn each_role_holds_its_own_secrets_only() {
    let server = Server::answering(response("200 OK", "", "{}"));
    let broker = payment(&server.url(), Need::Broker);
    assert!(not_sent(broker.send().await).contains("does not hold"));
    assert!(matches!(
        broker.client.read(&broker.plan, Credential::Read).await,
        Err(ReadError::NoCredential("read"))
    ));
    let proxy = payment(&server.url(), Need::Proxy);
    assert!(matches!(
        proxy.client.read(&proxy.plan, Credential::Facts).await,
        Err(ReadError::NoCredential("facts"))
    ));
    assert!(server.seen().is_empty());
    broker.client.read(&broker.plan, Credential::Facts).await.unwrap();
    proxy.client.read(&proxy.plan, Credential::Read).await.unwrap();
    let seen = server.seen();
    assert!(seen[0].starts_with("GET /v1/charges/ch_3Rw4821blender HTTP/1.1\r\n"), "{}", seen[0]);
    assert!(seen[0].contains("Bearer secret-of-stripe_facts_key\r\n"));
    assert!(seen[1].contains("Bearer secret-of-stripe_read_key\r\n"));
}

#[tokio::test]
async fn a_secret_never_goes_to_another_address() {
    let server = Server::answering(response("200 OK", "", "{}"));
    let elsewhere = Server::answering(response("200 OK", "", "{}"));
    let mut payment = payment(&server.url(), Need::Proxy);
    let port = server.address.port();
    for url in [
        format!("{}/v1/refunds", elsewhere.url()),
        format!("http://user@127.0.0.1:{port}/v1/refunds"),
        format!("https://127.0.0.1:{port}/v1/refunds"),
        format!("http://127.0.0.1:{port}/v1/../refunds"),
        format!("http://127.0.0.1:{port}/v1/refunds#x"),
        format!("http://localhost:{port}/v1/refunds"),
        "/v1/refunds".to_owned(),
    ] {
        payment.request.url.clone_from(&url);
        not_sent(payment.send().await);
        payment.plan.url.clone_from(&url);
        assert!(
            matches!(
                payment.client.read(&payment.plan, Credential::Read).await,
                Err(ReadError::Foreign(_))
            ),
            "{url}"
        );
    }
    assert!(server.seen().is_empty() && elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_stored_request_that_was_tampered_with_is_not_sent() {
    let server = Server::answering(response("200 OK", "", "{}"));
    let tamper: [fn(&mut CompiledRequest); 7] = [
        |r| r.body.push('&'),
        |r| r.body_sha256 = Digest::of(b"x"),
        |r| r.backend = "shop".parse().unwrap(),
        |r| r.method = "PO ST".to_owned(),
        |r| r.headers = BTreeMap::from([("authorization".to_owned(), "Bearer mine".to_owned())]),
        |r| r.headers = BTreeMap::from([("x".to_owned(), "a\r\nidempotency-key: mine".to_owned())]),
        |r| {
            r.idempotency_key = KeyPlacement::Header {
                name: "a b".to_owned(),
                quoted: false,
            };
        },
    ];
    for change in tamper {
        let mut payment = payment(&server.url(), Need::Proxy);
        change(&mut payment.request);
        not_sent(payment.send().await);
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_quoted_key_stands_in_quotation_marks() {
    let server = Server::answering(response("200 OK", "", "{}"));
    let mut payment = payment(&server.url(), Need::Proxy);
    payment.request.idempotency_key = KeyPlacement::Header {
        name: "idempotency-key".to_owned(),
        quoted: true,
    };
    payment.send().await;
    assert!(server.seen()[0].contains(&format!("\r\nidempotency-key: \"{}\"\r\n", payment.key)));
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_refused_unless_the_file_allows_it() {
    let server = Server::answering(response("200 OK", "", "{}"));
    let named = format!("http://localhost:{}", server.address.port());
    match payment(&named, Need::Proxy).send().await {
        Sent::Answer(answer) => assert_eq!(answer.status, 200),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.seen().len(), 1);
    let files: Vec<_> = writ::backend::SHIPPED
        .iter()
        .map(|(name, text)| {
            (
                *name,
                writ::backend::relocated(name, text, &named)
                    .unwrap()
                    .replace("allow_private = true\n", ""),
            )
        })
        .collect();
    let backends = Backends::from_texts(files.iter().map(|(n, t)| (*n, t.as_str())), Path::new(".")).unwrap();
    let why = not_sent(of(&backends, Need::Proxy).send().await);
    assert!(why.contains("private or loopback address"), "{why}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_server_that_does_not_prove_its_name_gets_no_byte_of_the_request() {
    let server = Server::answering(response("200 OK", "", "{}"));
    let backends = shipped_at(&format!("https://localhost:{}", server.address.port()));
    let why = not_sent(of(&backends, Need::Proxy).send().await);
    let seen = server.seen();
    assert!(
        !why.is_empty() && seen.iter().all(|hello| !hello.contains("secret-of") && !hello.contains("refunds")),
        "{seen:?}"
    );
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_ignored() {
    // The variables belong to the whole process, so this test runs itself again in another one, which finds the address there and sends.
    if let Some(base_url) = std::env::var_os("WRIT_TEST_BACKEND") {
        let sent = payment(base_url.to_str().unwrap(), Need::Proxy).send().await;
        assert!(matches!(&sent, Sent::Answer(answer) if answer.status == 200), "{sent:?}");
        return;
    }
    let server = Server::answering(response("200 OK", "", "{}"));
    let trap = Server::answering(response("502 Bad Gateway", "", ""));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "backend::wire::the_proxy_of_the_environment_is_ignored", "--nocapture"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(name, trap.url());
    }
    let out = child
        .env("WRIT_TEST_BACKEND", server.url())
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    assert!(trap.seen().is_empty());
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn every_secret_that_is_missing_is_named_and_none_is_printed() {
    let backends = shipped_at("http://127.0.0.1:9");
    let backend: &Arc<_> = backends.backend(&"stripe".parse().unwrap()).unwrap();
    let mistakes = Client::connect(backend, Need::All, &|_| None).unwrap_err();
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        lines[0],
        "stripe.toml: auth.facts: the environment variable `WRIT_STRIPE_FACTS_KEY` is not set: set it, or use `{ file = \"…\" }`"
    );
    let mistakes = Client::connect(backend, Need::Broker, &|_| Some("sk_live_\nabc".to_owned())).unwrap_err();
    assert_eq!(
        mistakes[0].to_string(),
        "stripe.toml: auth.facts: holds characters a header cannot carry: expected visible ASCII"
    );
    let client = Client::connect(backend, Need::All, &|_| Some("sk_live_abcdefghi".to_owned())).unwrap();
    assert!(!format!("{client:?}").contains("sk_live_abc"));
}
