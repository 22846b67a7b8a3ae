//! The report: signed so that an outsider can verify it, bound to the log by its hash, in JUnit for who wants that.

use std::fs;

use serde_json::{Value, json};
use writ::approval::RecordSigner;
use writ::domain::digest::Digest;
use writ::domain::secret::Secret;
use writ::prove::{Ending, GUARANTEES};

use super::liar::Liar;
use super::support::Stage;
use crate::support::peers::{output, python, script};

#[test]
fn the_report_verifies_with_a_foreign_library_and_its_hash_is_in_the_log() {
    let stage = Stage::new();
    let ran = stage.prove(
        &stage.server.url,
        &["--json", "--only", "credential.missing", "--only", "version.older"],
    );
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    let file = stage.report();
    assert_eq!(said["file"], file.display().to_string());
    let bytes = fs::read(&file).unwrap();
    assert_eq!(said["file_sha256"], json!(Digest::of(&bytes)));
    let events = stage.events();
    let event = events.iter().find(|event| event["type"] == "proof.reported").unwrap();
    assert_eq!(event["content_sha256"], json!(Digest::of(&bytes)));
    assert_eq!(event["outcome"], "ok");
    assert_eq!(
        event["proof"],
        json!({ "passed": 2, "failed": 0, "passed_through": 0, "not_applicable": 0 })
    );

    let Some(mut python) = python() else { return };
    let pem = Secret::new(fs::read_to_string(stage.path("prover/usr_prover.pem")).unwrap());
    let public = RecordSigner::from_pkcs8_pem(&pem, "usr_prover-1".parse().unwrap())
        .unwrap()
        .public();
    let told = output(python.arg(script("proof.py")).args([file.display().to_string(), public]));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        told["header"],
        json!({ "alg": "ES256", "kid": "usr_prover-1", "typ": "writ-proof+jws" })
    );
    assert_eq!(told["report"], said["report"], "what was signed is what was said");
    assert_eq!(told["edited"], "refused");
}

#[test]
fn a_report_is_no_approval_and_is_refused_as_one() {
    let stage = Stage::new();
    stage.prove(&stage.server.url, &["--only", "version.older"]).ok();
    let record = fs::read_to_string(stage.report()).unwrap();
    let secret = fs::read_to_string(stage.path("prover/desk")).unwrap();
    let basic = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("prover-desk:{secret}"));
    let headers = [
        ("authorization", format!("Basic {basic}")),
        ("content-type", "application/json".to_owned()),
    ];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let body = json!({ "record": record }).to_string();
    let (status, answer) = crate::cli::support::http(&stage.server.url, "POST", "/v1/approvals", &headers, &body);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("record_type_refused"), "{answer}");
}

#[test]
fn junit_tells_a_pass_through_a_fault_and_what_was_not_tried_apart() {
    let stage = Stage::new();
    let liar = Liar::before(&stage.server.url, |told| {
        let lets_through = told.path == "/v1/executions" && told.status == 401;
        let limits = told.path == "/oauth2/token" && told.answer["code"] == "audience_unknown";
        if lets_through {
            Some((202, json!({})))
        } else {
            limits.then(|| (429, json!({ "code": "rate_limited", "detail": "<&\"" })))
        }
    });
    stage.settings(|prove| drop(prove.remove("sandbox")));
    let file = stage.path("proofs.xml");
    let names = [
        "credential.missing",
        "credential.unknown_audience",
        "ambiguous.lost_answer",
        "version.older",
    ];
    let only: Vec<&str> = names.iter().flat_map(|name| ["--only", name]).collect();
    let ran = stage.prove(&liar.url, &[&["--junit", &file], &only[..]].concat());
    assert_eq!(ran.code, Some(2), "{}{}", ran.out, ran.err);
    let line = "proofs: 4 guarantees, 1 passed, 2 failed (1 passed through), 1 not applicable";
    assert_eq!(ran.out.lines().last(), Some(line));
    let xml = fs::read_to_string(&file).unwrap();
    assert!(xml.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{xml}");
    let case = |name: &str| xml.lines().find(|line| line.contains(&format!("name=\"{name}\""))).unwrap();
    assert!(case("credential.missing").contains("<failure type=\"passed_through\""));
    assert!(case("credential.unknown_audience").contains("<error type=\"unclear\""));
    assert!(case("ambiguous.lost_answer").contains("<skipped"));
    assert!(case("version.older").contains("<system-out>"));
    let Some(mut python) = python() else { return };
    let count = "import sys, xml.etree.ElementTree as t; print(len(t.parse(sys.argv[1]).findall('.//testcase')))";
    assert_eq!(output(python.args(["-c", count, &file])).trim(), "4");
}

#[test]
fn what_passed_through_is_worse_than_what_is_unclear_and_names_are_names() {
    assert!(Ending::PassedThrough > Ending::Unclear && Ending::Unclear > Ending::Held);
    let mut names: Vec<_> = GUARANTEES.iter().map(|guarantee| guarantee.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), GUARANTEES.len());
}
