//! TLS clients that nobody here wrote: curl, OpenSSL's own client, Python's, and reqwest.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::listening::Listening;
use crate::support::peers::{missing, output, python, script};

/// A program of this machine. `None` after a visible line if it is not there.
fn program(name: &str) -> Option<Command> {
    let runs = Command::new(name)
        .arg(if name == "openssl" { "version" } else { "--version" })
        .stdout(Stdio::null())
        .status();
    if !runs.is_ok_and(|status| status.success()) {
        return missing(name, "install the package of that name");
    }
    let mut command = Command::new(name);
    command.stdin(Stdio::null());
    Some(command)
}

/// What a command printed, run where it does not hold up the server.
async fn ran(mut command: Command) -> (bool, String) {
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    (ran.status.success(), text)
}

fn curl(served: &Listening, arguments: &[&str]) -> Option<Command> {
    let mut curl = program("curl")?;
    curl.args(["--silent", "--show-error", "--max-time", "30", "--noproxy", "*", "--cacert"])
        .arg(served.path("ca.pem"))
        .args(["--resolve", &format!("localhost:{}:127.0.0.1", served.address.port())])
        .args(["--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"])
        .args(arguments)
        .arg(served.url("/healthz"));
    Some(curl)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_speaks_both_versions_of_http_over_both_versions_of_tls() {
    let served = Listening::new().await;
    for (arguments, expected) in [
        (&["--http1.1", "--tlsv1.3"][..], "1.1 200"),
        (&["--http1.1", "--tls-max", "1.2"], "1.1 200"),
        (&["--http2", "--tlsv1.3"], "2 200"),
        (&["--http2", "--tls-max", "1.2"], "2 200"),
    ] {
        let Some(curl) = curl(&served, arguments) else { return };
        let (ok, text) = ran(curl).await;
        assert!(ok && text == expected, "{arguments:?}: {text}");
    }
    let Some(old) = curl(&served, &["--tls-max", "1.1"]) else { return };
    assert!(!ran(old).await.0, "nothing below TLS 1.2 is spoken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openssl_verifies_the_chain_and_gets_no_older_version() {
    let served = Listening::new().await;
    let address = served.address.to_string();
    for (version, alpn) in [("-tls1_3", "h2"), ("-tls1_2", "http/1.1")] {
        let Some(mut client) = program("openssl") else { return };
        client.args(["s_client", "-brief", "-connect", &address, "-servername", "localhost"]);
        client.args([
            "-verify_return_error",
            "-verify_hostname",
            "localhost",
            version,
            "-alpn",
            alpn,
            "-CAfile",
        ]);
        client.arg(served.path("ca.pem"));
        let (ok, text) = ran(client).await;
        assert!(ok && text.contains("Verification: OK"), "{version}: {text}");
    }
    let Some(mut client) = program("openssl") else { return };
    client.args(["s_client", "-brief", "-connect", &address, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
    let (ok, text) = ran(client).await;
    assert!(!ok && text.contains("alert"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_agrees_on_version_protocol_and_answer() {
    let served = Listening::with("client_ca = CLIENT_CA", "").await;
    let pair = served
        .clients
        .client("agent.example", crate::support::certificates::Holds::Always)
        .write(served.dir.path(), "agent");
    for (version, alpn, shows) in [
        ("TLSv1.3", "http/1.1", false),
        ("TLSv1.2", "http/1.1", true),
        ("TLSv1.3", "h2", true),
    ] {
        let Some(mut client) = python() else { return };
        client.arg(script("tls.py")).arg(served.address.port().to_string());
        client.arg(served.path("ca.pem")).args([version, alpn]);
        if shows {
            client.args([&pair.0, &pair.1]);
        }
        let answer = tokio::task::spawn_blocking(move || output(&mut client)).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["version"], &answer["alpn"]), (&version.into(), &alpn.into()), "{answer}");
        let first = if alpn == "h2" { "settings" } else { "200" };
        assert_eq!(answer["answer"], first, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reqwest_trusts_the_authority_and_no_other() {
    let served = Listening::new().await;
    // Another test of this process may have installed it already; either way it is there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = |pem: &str| {
        let trusted = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
        reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap()
    };
    let url = served.url("/healthz");
    assert_eq!(client(&served.authority.pem).get(&url).send().await.unwrap().status(), 200);
    assert!(client(&served.clients.pem).get(&url).send().await.is_err());
}

#[tokio::test]
async fn plain_http_is_not_answered_where_there_is_a_certificate() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let served = Listening::new().await;
    let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // An alert, or a reset after it.
    drop(stream.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
}
