//! Settings that lack something, and deployments that do not answer.

use super::support::{Stage, findings};
use crate::cli::support::writ;

#[test]
fn what_cannot_be_tried_is_not_applicable_with_the_reason_and_never_a_pass() {
    let stage = Stage::new();
    stage.settings(|prove| {
        prove.remove("sandbox");
        prove.remove("approver");
        let operation = prove["operation"].as_table_mut().unwrap();
        operation.remove("asked");
        operation.remove("two");
    });
    let ran = stage.prove(&stage.server.url, &["--json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    for (name, result, _, reason) in findings(&serde_json::from_str(&ran.out).unwrap()) {
        let lacks = ["record.", "authority.", "ambiguous."].iter().any(|group| name.starts_with(group));
        if lacks || name == "credential.expired" {
            assert_eq!(result, "not_applicable", "{name}: {reason}");
        }
        // After a few refunds the policy asks people about this charge, and there are none.
        assert!(result == "pass" || result == "not_applicable", "{name}: {result}: {reason}");
    }
}

#[test]
fn a_policy_that_asks_nobody_makes_records_not_applicable() {
    let stage = Stage::new();
    stage.settings(|prove| {
        let operation = prove["operation"].as_table_mut().unwrap();
        let once = operation["once"].clone();
        operation["asked"] = once;
    });
    let ran = stage.prove(&stage.server.url, &["--json", "--only", "record.mutated"]);
    // Nothing was shown at all.
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let found = findings(&serde_json::from_str(&ran.out).unwrap());
    assert_eq!(found[0].1, "not_applicable");
    assert!(found[0].3.contains("asks nobody"), "{}", found[0].3);
}

#[test]
fn faults_that_somebody_else_queued_are_left_alone() {
    let stage = Stage::new();
    let fault = "{\"match\":{\"method\":\"POST\",\"path\":\"/v1/nowhere\"},\"kind\":\"drop_after\"}";
    crate::cli::support::http(&stage.sandbox.url, "POST", "/_sandbox/faults", &[], fault);
    let ran = stage.prove(
        &stage.server.url,
        &["--json", "--only", "ambiguous.lost_answer", "--only", "version.older"],
    );
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let found = findings(&serde_json::from_str(&ran.out).unwrap());
    assert!(
        found
            .iter()
            .any(|(name, result, ..)| name == "ambiguous.lost_answer" && result == "not_applicable")
    );
    let (_, faults) = crate::cli::support::http(&stage.sandbox.url, "GET", "/_sandbox/faults", &[], "");
    assert!(faults.contains("/v1/nowhere"), "{faults}");
}

#[test]
fn a_deployment_that_does_not_answer_is_no_pass_and_no_alarm() {
    let stage = Stage::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let ran = stage.prove(&url, &["--only", "credential.mutated"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(!ran.err.contains("ALARM"), "{}", ran.err);
    assert!(ran.err.contains("the report is not in the deployment's log"), "{}", ran.err);
}

#[test]
fn what_is_not_understood_ends_with_1_since_2_is_the_alarm() {
    for arguments in [
        &["prove", "--every", "never"][..],
        &["prove", "--only", "no.such_guarantee"],
        &["prove", "--frobnicate"],
        &["prove", "--config", "/nowhere/prove.toml"],
        &["--json", "prove", "--frobnicate"],
    ] {
        writ(arguments).refused(1);
    }
}

#[test]
fn every_mistake_in_the_settings_is_named_and_nothing_is_tried() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new();
    let secret = stage.path("prover/agent");
    std::fs::set_permissions(secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    stage.settings(|prove| {
        prove.insert("brocker".to_owned(), "x".into());
        prove["sandbox"] = "https://user:hunter2@sandbox.example".into();
        prove["operation"].as_table_mut().unwrap()["name"] = "Refund".into();
    });
    let told = stage.prove(&stage.server.url, &[]).refused(1);
    for part in ["prove.brocker", "prove.sandbox", "prove.operation.name", "can be read by others"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");
    assert!(!stage.events().iter().any(|event| event["type"] == "draft.propose"));
}
