//! `writ serve`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::support::{Running, Server, Work, http};

#[test]
fn an_address_that_is_taken_is_named_with_what_to_do() {
    let work = Work::new();
    let first = Server::start(&["serve", "--config", &work.config]);
    let address = first.url.strip_prefix("http://").unwrap();
    work.edit(
        "writ.toml",
        "listen           = \"127.0.0.1:0\"",
        &format!("listen = \"{address}\""),
    );
    let complaint = work.run(&["serve"]).refused(1);
    assert!(complaint.contains(address) && complaint.contains("change `listen`"), "{complaint}");
}

#[test]
fn a_faulty_directory_is_not_served() {
    let work = Work::new();
    std::fs::remove_file(work.path("keys/credential-keys.json")).unwrap();
    std::fs::remove_file(work.path("secrets/stripe-write")).unwrap();
    let complaint = work.run(&["serve"]).refused(1);
    assert!(
        complaint.contains("credential-keys.json") && complaint.contains("stripe-write"),
        "{complaint}"
    );
}

#[test]
fn it_answers_and_ends_well_when_it_is_told_to() {
    let work = Work::new();
    for signal in ["TERM", "INT"] {
        let server = Server::start(&["serve", "--config", &work.config]);
        assert_eq!(http(&server.url, "GET", "/healthz", &[], "").0, 200);
        assert_eq!(http(&server.url, "GET", "/readyz", &[], "").0, 200);
        server.signal(signal);
        let (status, log) = server.ended();
        assert!(status.success(), "{status}: {log}");
    }
}

/// A connection that says nothing, and one that stops in the middle of a head or of a body: none is kept for ever, and none keeps the
/// process.
#[test]
fn silent_connections_are_closed_and_do_not_hold_up_the_end() {
    let run = Running::new();
    let host = run.server.url.strip_prefix("http://").unwrap();
    let mut silent = TcpStream::connect(host).unwrap();
    silent.set_read_timeout(Some(std::time::Duration::from_secs(40))).unwrap();
    let mut byte = [0; 1];
    assert!(matches!(silent.read(&mut byte), Ok(0)), "the server hangs up");
    let mut half_a_head = TcpStream::connect(host).unwrap();
    half_a_head.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").unwrap();
    let basic = STANDARD.encode(format!("support-agent:{}", run.work.secret("support-agent")));
    let mut half_a_body = TcpStream::connect(host).unwrap();
    let head = format!("POST /v1/drafts HTTP/1.1\r\nhost: x\r\nauthorization: Basic {basic}\r\ncontent-type: application/json\r\n");
    half_a_body
        .write_all(format!("{head}content-length: 100\r\n\r\n{{").as_bytes())
        .unwrap();
    run.server.signal("TERM");
    let (status, log) = run.server.ended();
    assert!(status.success(), "{status}: {log}");
}

#[test]
fn the_log_is_json_where_the_configuration_says_so() {
    let work = Work::new();
    work.edit("writ.toml", "format = \"text\"", "format = \"json\"");
    let server = Server::start(&["serve", "--config", &work.config]);
    http(&server.url, "GET", "/healthz", &[], "");
    server.signal("TERM");
    let (_, log) = server.ended();
    assert!(log.contains("answered a request"), "{log}");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    }
}

#[test]
fn a_request_under_way_is_answered_after_the_signal() {
    let run = Running::new();
    let host = run.server.url.strip_prefix("http://").unwrap();
    let basic = STANDARD.encode(format!("support-agent:{}", run.work.secret("support-agent")));
    let body = r#"{"operation":"nothing.known","parameters":{}}"#;
    let length = body.len();
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST /v1/drafts HTTP/1.1\r\nhost: {host}\r\nauthorization: Basic {basic}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
    );
    stream.write_all(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).unwrap();
    // The server asks for the body only from inside the request's handler.
    let mut first = [0; 25];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    run.server.signal("TERM");
    // It is closing once nobody else is answered.
    let answered = || {
        let mut other = TcpStream::connect(host)?;
        other.write_all(format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        other.read_to_string(&mut text).map(|_| !text.is_empty())
    };
    while answered().unwrap_or(false) {}
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("\"code\""), "{answer}");
    assert!(run.server.ended().0.success());
}

#[test]
fn a_proxy_issues_nothing_and_a_broker_executes_nothing() {
    let work = Work::new();
    work.edit("writ.toml", "listen   = \"127.0.0.1:8701\"", "listen   = \"127.0.0.1:0\"");
    let status = |role: &str, path: &str| {
        let server = Server::start(&["serve", "--config", &work.config, "--role", role]);
        http(&server.url, "POST", path, &[], "").0
    };
    assert_eq!(status("proxy", "/oauth2/token"), 404);
    assert_ne!(status("proxy", "/v1/executions"), 404);
    assert_eq!(status("broker", "/v1/executions"), 404);
    assert_ne!(status("broker", "/oauth2/token"), 404);
}

#[test]
fn the_log_holds_the_pattern_of_a_path_and_nothing_that_a_caller_wrote() {
    let run = Running::new();
    let bearer = "EpQBCioKDnJlZnVuZC5jcmVhdGU";
    for path in [
        format!("/v1/drafts/{bearer}"),
        format!("/v1/{bearer}"),
        format!("/v1/drafts/{}", "x".repeat(7_000)),
    ] {
        http(&run.server.url, "GET", &path, &[], "");
    }
    http(&run.server.url, "SECRETWORD", "/healthz", &[], "");
    run.server.signal("TERM");
    let (_, log) = run.server.ended();
    assert!(log.contains("/v1/drafts/{id}") && log.contains("answered a request"), "{log}");
    for written in [bearer, "xxxxxxxx", "SECRETWORD"] {
        assert!(!log.contains(written), "{log}");
    }
}

#[test]
fn a_process_that_may_open_too_few_files_for_its_connections_does_not_start() {
    let work = Work::new();
    for arguments in [&["serve"][..], &["config", "check"]] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 300; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_writ")]);
        shell.args(arguments).args(["--config", &work.config]);
        let ran = shell.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success(), "{said}");
        assert!(
            said.contains("limits.connections: 512 connections and 256 calls need 928 open files, and this process may have 300"),
            "{said}"
        );
        assert!(said.contains("LimitNOFILE=928"), "{said}");
    }
    work.edit("writ.toml", "[proxy]", "[limits]\nconnections = 64\ncalls = 64\n[proxy]");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 300; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_writ")]);
    shell.args(["config", "check", "--config", &work.config]);
    assert!(!String::from_utf8_lossy(&shell.output().unwrap().stderr).contains("open files"));
}
