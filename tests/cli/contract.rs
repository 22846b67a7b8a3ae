//! The running server against its own description, driven by schemathesis: no call is answered with a 5xx, with a status, a code, a header or a
//! content type that the description does not list, or with a body that is not of the described shape.

use serde_json::json;
use writ::sandbox::demo;

use super::support::Running;
use crate::support::peers::{python, script};

/// What every answer is held against. Data that the description allows may still be refused: it cannot say what an operation's parameters are.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth,missing_required_header,negative_data_rejection";

/// Drives the server as one client, or as nobody. The cases follow from the seed, so that they are the same ones each time.
fn hold(client: Option<&str>, examples: u32) {
    let Some(mut python) = python() else { return };
    // Far above what is sent here: a call that is refused for its rate says nothing of the rest.
    let limits = "[limits]\nclient_rate = 60000\nclient_burst = 10000\nfailure_rate = 60000\nfailure_burst = 10000\nall_failures_rate = 60000\nall_failures_burst = 10000\n[log]";
    let run = Running::edited(|work| work.edit("writ.toml", "[log]", limits));
    let held = run.held();
    let approved = run.proposed(4_000);
    let credential = client.map(|_| run.credential(&approved));
    let propose = json!({
        "operation": "refund.create", "case_id": "case-1",
        "parameters": { "charge": demo::CHARGE, "amount": 100, "currency": "usd" },
    });
    let world = json!({
        "client": client,
        "secret": client.map(|client| run.work.secret(client)),
        "credential": credential,
        "ids": {
            "/v1/drafts/{id}": held, "/v1/drafts/{id}/bytes": held, "/v1/cases/{id}": "case-1",
        },
        "bodies": {
            "/v1/drafts": propose,
            "/v1/reads": { "operation": "charge.read", "parameters": { "charge": demo::CHARGE } },
            "/v1/executions": { "draft_id": approved },
        },
    });
    let reports = tempfile::tempdir().unwrap();
    let output = python
        .args([
            "-m",
            "schemathesis.cli",
            "run",
            &format!("{}/openapi.json", run.server.url),
            "--checks",
            CHECKS,
        ])
        .args([
            "--seed",
            "1",
            "--max-examples",
            &examples.to_string(),
            "--continue-on-failure",
            "--no-color",
            "--warnings",
            "off",
        ])
        // To whoever may follow the log this answer goes on for a minute; tests of its own hold it.
        .args(
            (client == Some("security"))
                .then_some(["--exclude-path", "/v1/audit/stream"])
                .into_iter()
                .flatten(),
        )
        .env("WRIT_CONTRACT", world.to_string())
        .env("SCHEMATHESIS_HOOKS", "contract")
        .env("PYTHONPATH", script(""))
        .current_dir(reports.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "as {client:?}:\n{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cases: u32 = said
        .lines()
        .find_map(|line| line.trim().split_once(" generated, ")?.0.parse().ok())
        .unwrap_or_else(|| panic!("no cases are counted:\n{said}"));
    assert!(cases > 200, "only {cases} cases");
}

#[test]
fn as_a_stranger_it_is_what_its_description_says() {
    hold(None, 4);
}

#[test]
fn to_an_orchestrator_it_is_what_its_description_says() {
    hold(Some("support-agent"), 12);
}

#[test]
fn to_an_approval_service_it_is_what_its_description_says() {
    hold(Some("review-desk"), 6);
}

#[test]
fn to_an_auditor_it_is_what_its_description_says() {
    hold(Some("security"), 6);
}

#[test]
fn to_an_operator_it_is_what_its_description_says() {
    hold(Some("operations"), 8);
}
