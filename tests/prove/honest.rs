//! A deployment that is right: everything holds, only what the settings name is touched, and nothing is left open.

use serde_json::Value;
use writ::prove::GUARANTEES;
use writ::sandbox::demo;

use super::liar::Liar;
use super::support::{Stage, findings};
use crate::cli::support::{http, writ};

/// The words of one run in JSON, after everything held.
fn held(stage: &Stage, url: &str) -> Value {
    let ran = stage.prove(url, &["--json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(ran.err, "");
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    let found = findings(&said);
    assert_eq!(found.len(), GUARANTEES.len());
    for (name, result, _, reason) in &found {
        assert_eq!(result, "pass", "{name}: {reason}");
        assert!(!reason.is_empty(), "{name}");
    }
    said
}

#[test]
fn everything_holds_and_nothing_is_touched_that_the_settings_do_not_name() {
    let stage = Stage::new();
    // Tells the truth, and remembers every call.
    let witness = Liar::before(&stage.server.url, |_| None);
    let said = held(&stage, &witness.url);

    let memory = witness.memory.lock().unwrap();
    let proposals = memory
        .calls
        .iter()
        .filter(|(method, path, _)| method == "POST" && path == "/v1/drafts");
    let mut proposed = 0;
    for (_, _, body) in proposals {
        let body: Value = serde_json::from_str(body).unwrap();
        let operation = body["operation"].as_str().unwrap();
        // The made-up one is the guarantee about unknown operations.
        assert!(operation == "refund.create" || operation.starts_with("prove.x"), "{body}");
        let charge = body["parameters"]["charge"].as_str().unwrap_or(demo::CHARGE_PROOFS);
        assert!([demo::CHARGE_PROOFS, demo::CHARGE_PROOFS_CAD].contains(&charge), "{body}");
        proposed += 1;
    }
    assert!(proposed > 40, "{proposed}");

    let (_, state) = http(&stage.sandbox.url, "GET", "/_sandbox/state", &[], "");
    let state: Value = serde_json::from_str(&state).unwrap();
    let refunds = state["refunds"].as_array().unwrap();
    assert_eq!(refunds.len() as u64, said["report"]["executions"].as_u64().unwrap());
    for refund in refunds {
        assert_eq!(
            (refund["amount"].as_i64(), refund["charge"].as_str()),
            (Some(1), Some(demo::CHARGE_PROOFS))
        );
    }
    assert_eq!(state["faults"], Value::Array(Vec::new()), "no fault is left behind");
    assert_eq!(state["held"], 0, "no request is left hanging");
    drop(memory);

    for open in ["awaiting_approval", "approved", "proposed"] {
        let drafts = writ(&["draft", "list", "--state", open, "--json", "--config", &stage.config]).json();
        assert_eq!(drafts["drafts"], Value::Array(Vec::new()), "{open}");
    }
    let events = stage.events();
    let denied = events.iter().filter(|event| event["type"] == "credential.use_denied").count();
    // More than this within ten minutes is taken for an attack by the alarm WritAttacked.
    assert!(denied <= 20, "{denied} refused credentials in one run");
    assert!(denied >= 10, "{denied}");

    // A second run finds the books as the first left them, and holds as well.
    held(&stage, &stage.server.url);
}

#[test]
fn all_proxies_of_a_deployment_are_raced_at() {
    let stage = Stage::new();
    // The second process is a proxy alone, at a port of its own.
    let config = stage.path("writ.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("listen   = \"127.0.0.1:8701\"", "listen   = \"127.0.0.1:0\"");
    let text = text.replace("name     = \"proxy-1\"", "name     = \"proxy-2\"");
    let second = stage.path("second.toml");
    std::fs::write(&second, text).unwrap();
    let proxy = crate::cli::support::Server::start(&["serve", "--role", "proxy", "--config", &second]);
    let only = [
        "--only",
        "effect.one_winner",
        "--only",
        "effect.duplicate",
        "--only",
        "credential.revoked",
    ];
    let proxies = ["--proxy", &stage.server.url, "--proxy", &proxy.url, "--json"];
    let ran = stage.prove(&stage.server.url, &[&proxies[..], &only[..]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let found = findings(&serde_json::from_str(&ran.out).unwrap());
    let (.., reason) = found.iter().find(|(name, ..)| name == "effect.one_winner").unwrap();
    assert!(reason.contains("at 2 proxies"), "{reason}");
    assert!(reason.contains("one effect in the backend's own books"), "{reason}");
}

#[test]
fn a_run_that_is_broken_off_leaves_neither_drafts_nor_faults_behind() {
    let stage = Stage::new();
    // The liar never says that the lost answer is known, so that the run stays in the middle of it.
    let liar = Liar::before(&stage.server.url, |told| {
        let is_look = told.method == "GET" && told.path.starts_with("/v1/executions/");
        is_look.then(|| (200, serde_json::json!({ "state": "dispatched" })))
    });
    let config = stage.path("prove.toml");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_writ"))
        .args([
            "prove",
            "--config",
            &config,
            "--broker",
            &liar.url,
            "--only",
            "ambiguous.lost_answer",
        ])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let standing = || -> Value { serde_json::from_str(&http(&stage.sandbox.url, "GET", "/_sandbox/state", &[], "").1).unwrap() };
    let deadline = std::time::Instant::now() + crate::support::listening::PATIENCE;
    while standing()["held"] != 1 {
        assert!(std::time::Instant::now() < deadline, "the look-up was never held: {}", standing());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(terminated(&mut child), Some(1));
    let after = standing();
    assert_eq!(
        (&after["held"], &after["faults"]),
        (&serde_json::json!(0), &serde_json::json!([])),
        "{after}"
    );
    let drafts = writ(&["draft", "list", "--state", "approved", "--json", "--config", &stage.config]).json();
    assert_eq!(drafts["drafts"], Value::Array(Vec::new()));
}

#[test]
fn with_a_schedule_it_goes_on_until_it_is_told_to_stop() {
    let stage = Stage::new();
    let config = stage.path("prove.toml");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_writ"))
        .args(["prove", "--config", &config, "--broker", &stage.server.url, "--json"])
        .args(["--only", "credential.missing", "--every", "1s"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..2 {
        let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(said["report"]["counts"]["passed"], 1, "{said}");
    }
    assert_eq!(terminated(&mut child), Some(0));
    let reported = stage.events().iter().filter(|event| event["type"] == "proof.reported").count();
    assert!(reported >= 2, "{reported}");
}

/// Tells a process to end, as a supervisor does, and gives its exit code.
fn terminated(child: &mut std::process::Child) -> Option<i32> {
    let id = child.id().to_string();
    let told = std::process::Command::new("kill").args(["-s", "TERM", &id]).status();
    assert!(told.unwrap().success());
    child.wait().unwrap().code()
}
