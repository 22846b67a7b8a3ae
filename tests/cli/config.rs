//! `writ config check`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::support::{Work, writ};

#[test]
fn every_planted_mistake_is_reported_at_once() {
    let work = Work::new();
    work.edit("writ.toml", "lease    = \"60s\"", "lease = \"1h\"\nleese = 1");
    work.edit("policies/cedar/rules.cedar", "@id(", "@idd(");
    work.edit("policies/backends/stripe.toml", "total_timeout", "total_timeuot");
    fs::set_permissions(work.path("keys/credential-1.pem"), Permissions::from_mode(0o644)).unwrap();
    let complaint = work.run(&["config", "check"]).refused(1);
    for planted in [
        "proxy.lease",
        "proxy.leese",
        "rules.cedar",
        "total_timeuot",
        "credential-1.pem can be read by others",
    ] {
        assert!(complaint.contains(planted), "{planted} is missing in:\n{complaint}");
    }
    assert!(complaint.lines().all(|line| line.starts_with("error: ")), "{complaint}");
}

#[test]
fn a_missing_table_does_not_hide_what_else_is_wrong() {
    let work = Work::new();
    work.edit("writ.toml", "[proxy]", "[prox]");
    work.edit("policies/cedar/rules.cedar", "@id(", "@idd(");
    let complaint = work.run(&["config", "check"]).refused(1);
    for planted in ["proxy: is missing", "prox: is not a setting", "rules.cedar"] {
        assert!(complaint.contains(planted), "{planted} is missing in:\n{complaint}");
    }
}

#[test]
fn a_secret_that_is_missing_is_reported_to_the_part_that_needs_it() {
    let work = Work::new();
    fs::remove_file(work.path("secrets/shop-write")).unwrap();
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(complaint.contains("shop-write"), "{complaint}");
    assert_eq!(work.run(&["config", "check", "--role", "broker"]).ok(), "ok\n");
}

#[test]
fn a_configuration_that_is_not_there_is_told_with_the_path_that_was_given() {
    let work = Work::new();
    let absent = work.text("other/writ.toml");
    for command in [&["config", "check"][..], &["client", "list"]] {
        let complaint = writ(&[command, &["--config", &absent]].concat()).refused(1);
        assert!(complaint.contains(&absent) && complaint.contains("writ init"), "{complaint}");
    }
    let directory = work.text("data");
    let complaint = writ(&["client", "list", "--config", &directory]).refused(1);
    assert!(complaint.contains(&directory) && !complaint.contains("writ init"), "{complaint}");
}

#[test]
fn a_store_that_is_not_there_is_reported_and_not_made() {
    let work = Work::new();
    fs::remove_file(work.path("data/writ.db")).unwrap();
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(complaint.contains("there is no store"), "{complaint}");
    work.run(&["client", "list"]).refused(1);
    assert!(!work.path("data/writ.db").exists());
}

#[test]
fn a_policy_key_that_the_store_does_not_know_is_reported_with_its_remedy() {
    let work = Work::new();
    let key = work.text("keys/policy-approver.pem");
    fs::remove_file(&key).unwrap();
    work.run(&["keys", "generate", "--approver", "rule_policy", "--alg", "Ed25519", "--out", &key])
        .ok();
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(complaint.contains("in the store `rule_policy-1` is another key"), "{complaint}");
    // The remedy, as it is told.
    work.edit("writ.toml", "\"rule_policy\"", "\"rule_policy_new\"");
    fs::remove_file(&key).unwrap();
    let pair = [
        "keys",
        "generate",
        "--approver",
        "rule_policy_new",
        "--alg",
        "Ed25519",
        "--out",
        &key,
    ];
    let public = work.json(&pair)["public"].as_str().unwrap().to_owned();
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(complaint.contains("the store does not know the key"), "{complaint}");
    let remedy = complaint.split('`').find(|words| words.starts_with("writ approver add ")).unwrap();
    assert!(remedy.contains(&public), "{remedy}");
    let words: Vec<&str> = remedy.split(' ').skip(1).collect();
    work.run(&words).ok();
    assert_eq!(work.run(&["config", "check"]).ok(), "ok\n");
}

#[test]
fn a_changed_audience_is_reported_since_the_policy_signs_for_the_old_one() {
    let work = Work::new();
    work.edit("writ.toml", "audience         = \"http", "audience = \"https");
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(complaint.contains("broker.audience"), "{complaint}");
    assert_eq!(work.run(&["config", "check", "--role", "proxy"]).ok(), "ok\n");
}

#[test]
fn a_broker_that_cannot_sign_is_reported_with_its_remedy() {
    let work = Work::new();
    work.run(&["keys", "retire", "1"]).ok();
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(
        complaint.contains("no key may sign") && complaint.contains("writ keys rotate"),
        "{complaint}"
    );
    assert_eq!(work.run(&["config", "check", "--role", "proxy"]).ok(), "ok\n");
    let work = Work::new();
    fs::remove_file(work.path("keys/credential-1.pem")).unwrap();
    let complaint = work.run(&["config", "check"]).refused(1);
    assert!(complaint.contains("credential-1.pem"), "{complaint}");
    assert_eq!(work.run(&["config", "check", "--role", "proxy"]).ok(), "ok\n");
}

#[test]
fn a_file_that_is_not_there_is_named_with_what_to_do() {
    let complaint = writ(&["config", "check", "--config", "/nowhere/writ.toml"]).refused(1);
    assert!(complaint.contains("writ init"), "{complaint}");
}
