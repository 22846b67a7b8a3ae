//! The guarantees about the log: they hold by themselves and leave the live log alone, and a deployment that lies about its log is caught.

use serde_json::{Value, json};
use writ::app::SystemEntropy;
use writ::audit::LogKey;

use super::liar::{Liar, Lie, Told};
use super::support::{Stage, findings};
use crate::cli::support::{Ran, writ};

const ALL: [&str; 7] = [
    "log.altered",
    "log.truncated",
    "log.rolled_back",
    "log.pruned",
    "log.held",
    "log.receipt",
    "log.consistent",
];

fn only(stage: &Stage, url: &str, names: &[&str]) -> Ran {
    let only: Vec<&str> = names.iter().flat_map(|name| ["--only", name]).collect();
    stage.prove(url, &[&["--json"], &only[..]].concat())
}

fn found(ran: &Ran) -> Vec<(String, String, bool, String)> {
    findings(&serde_json::from_str(&ran.out).unwrap())
}

#[test]
fn they_hold_by_themselves_and_nothing_is_done_to_the_live_log() {
    let stage = Stage::new();
    let ran = only(&stage, &stage.server.url, &ALL);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let found = found(&ran);
    assert_eq!(found.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ALL);
    for (name, result, _, reason) in &found {
        assert_eq!(result, "pass", "{name}: {reason}");
    }
    // Every one of some dozens of events was changed, and some of them were pruned.
    let (.., altered) = &found[0];
    let events: u64 = altered.split(' ').nth(2).unwrap().parse().unwrap();
    assert!(events > 20, "{altered}");
    let kinds: Vec<Value> = stage.events().iter().map(|event| event["type"].clone()).collect();
    assert!(
        !kinds.iter().any(|kind| kind.as_str().unwrap().starts_with("retention.")),
        "{kinds:?}"
    );
    let said = writ(&["audit", "verify", "--config", &stage.config, "--state"]).ok();
    assert!(said.ends_with("VERIFIED, ANCHORED\n"), "{said}");
}

/// A run against a deployment that tells this lie, about this guarantee, which must be called an alarm for this reason.
fn alarms(stage: &Stage, lie: Lie, name: &str, why: &str) {
    let liar = Liar::before(&stage.server.url, lie);
    let ran = only(stage, &liar.url, &[name]);
    assert_eq!(ran.code, Some(2), "{why}: {}{}", ran.out, ran.err);
    let found = found(&ran);
    let (_, result, through, reason) = &found[0];
    assert_eq!((result.as_str(), *through), ("fail", true), "{why}: {reason}");
    assert!(reason.contains(why), "{why}: {reason}");
    assert!(ran.err.contains(&format!("ALARM: {name} does not hold")), "{}", ran.err);
}

fn is_proposed(told: &Told<'_>) -> bool {
    told.method == "POST" && told.path == "/v1/drafts" && told.status == 201
}

/// The event is another one than the receipt is of.
fn another_event(told: &mut Told<'_>) -> Option<(u16, Value)> {
    let mut said = is_proposed(told).then(|| told.answer.clone())?;
    let event = said["audit"]["event"].as_str().unwrap().replace("draft.propose", "draft.allowed");
    said["audit"]["event"] = json!(event);
    Some((201, said))
}

/// The receipt is under a head that says more than the one that was signed.
fn another_head(told: &mut Told<'_>) -> Option<(u16, Value)> {
    let mut said = is_proposed(told).then(|| told.answer.clone())?;
    let receipt = said["audit"]["receipt"].as_str().unwrap();
    let (proof, head) = receipt.split_once("\n\n").unwrap();
    let size = head.lines().nth(1).unwrap();
    let larger = format!("\n{}\n", size.parse::<u64>().unwrap() + 1);
    let head = head.replacen(&format!("\n{size}\n"), &larger, 1);
    said["audit"]["receipt"] = json!(format!("{proof}\n\n{head}"));
    Some((201, said))
}

/// The receipt is good, and of another draft than the answer.
fn another_receipt(told: &mut Told<'_>) -> Option<(u16, Value)> {
    let mut said = is_proposed(told).then(|| told.answer.clone())?;
    said["id"] = json!(format!("drf_{:032x}", 1));
    Some((201, said))
}

#[test]
fn a_receipt_that_does_not_show_what_it_came_with_is_caught() {
    let stage = Stage::new();
    let shows_nothing = "does not show its event to be in the log";
    alarms(&stage, another_event, "log.receipt", shows_nothing);
    alarms(&stage, another_head, "log.receipt", shows_nothing);
    alarms(&stage, another_receipt, "log.receipt", "has a receipt for something else");
}

/// The first checkpoint for ever.
fn stands_still(told: &mut Told<'_>) -> Option<(u16, Value)> {
    if told.path != "/v1/audit/checkpoint" {
        return None;
    }
    let text = told.text.to_owned();
    let seen = &mut told.memory.seen;
    if seen.is_empty() {
        seen.insert(text);
    }
    Some((200, json!(seen.first().unwrap())))
}

/// What was later comes first.
fn goes_back(told: &mut Told<'_>) -> Option<(u16, Value)> {
    if told.path != "/v1/audit/checkpoint" {
        return None;
    }
    let mut lines: Vec<&str> = told.text.split('\n').collect();
    let larger = (lines[1].parse::<u64>().unwrap() + 1000).to_string();
    let is_first = told.memory.seen.insert("asked".to_owned());
    lines[1] = if is_first { &larger } else { lines[1] };
    Some((200, json!(lines.join("\n"))))
}

/// Another root than there is.
fn another_root(told: &mut Told<'_>) -> Option<(u16, Value)> {
    if told.path != "/v1/audit/checkpoint" {
        return None;
    }
    let mut lines: Vec<&str> = told.text.split('\n').collect();
    lines[2] = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    Some((200, json!(lines.join("\n"))))
}

/// A proof of something else.
fn another_proof(told: &mut Told<'_>) -> Option<(u16, Value)> {
    (told.path == "/v1/audit/consistency").then(|| (200, json!({ "old": 1, "new": 2, "proof": [] })))
}

#[test]
fn a_log_that_does_not_grow_or_was_rewritten_is_caught() {
    let stage = Stage::new();
    alarms(&stage, stands_still, "log.consistent", "did not grow");
    alarms(&stage, another_root, "log.consistent", "its log's key did not sign");
    alarms(&stage, another_proof, "log.consistent", "the log was rewritten");
    // Without the keys nobody can say who signed, and the proof still shows it.
    stage.settings(|prove| drop(prove.remove("log")));
    alarms(&stage, goes_back, "log.consistent", "the log was taken back");
    alarms(&stage, another_root, "log.consistent", "the log was rewritten");
}

#[test]
fn a_log_under_a_key_that_the_settings_do_not_name_is_neither_a_pass_nor_an_alarm() {
    let stage = Stage::new();
    let public = std::fs::read_to_string(stage.path("keys/log.pub")).unwrap();
    let name = public
        .lines()
        .last()
        .unwrap()
        .strip_prefix("log ")
        .unwrap()
        .split('+')
        .next()
        .unwrap();
    let (other, _) = LogKey::generate(&name.parse().unwrap(), &SystemEntropy::new()).unwrap();
    std::fs::write(stage.path("other.pub"), format!("log {}\n", other.verifier())).unwrap();
    stage.settings(|prove| drop(prove.insert("log".to_owned(), "other.pub".into())));
    let ran = only(&stage, &stage.server.url, &["log.receipt", "log.consistent"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(!ran.err.contains("ALARM"), "{}", ran.err);
    for (name, result, through, reason) in found(&ran) {
        assert_eq!((result.as_str(), through), ("fail", false), "{name}: {reason}");
        assert!(reason.contains("none of the trusted keys has signed it"), "{name}: {reason}");
    }
}

#[test]
fn without_the_logs_keys_no_receipt_is_looked_at() {
    let stage = Stage::new();
    stage.settings(|prove| drop(prove.remove("log")));
    let ran = only(&stage, &stage.server.url, &["log.receipt", "log.consistent"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let found = found(&ran);
    assert_eq!((found[0].1.as_str(), found[1].1.as_str()), ("not_applicable", "pass"), "{found:?}");
    assert!(found[0].3.contains("the settings name no `log`"), "{found:?}");
    assert!(found[1].3.contains("who signed them was not looked at"), "{found:?}");
}
