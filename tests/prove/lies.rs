//! Deployments that let something through: the prover must see each, call it an alarm, end with 2, and leave it in the log.

use serde_json::{Value, json};
use writ::prove::{GUARANTEES, Target};

use super::liar::{Liar, Told};
use super::support::{Stage, findings};

fn is_refusal(told: &Told<'_>) -> bool {
    told.method == "POST" && (400..500).contains(&told.status)
}

/// The guarantees of a run that nothing but these must have let through, or all but these.
fn through(said: &Value) -> Vec<String> {
    let found = findings(said).into_iter();
    found.filter(|(_, _, through, _)| *through).map(|(name, ..)| name).collect()
}

/// Guarantees that hold for a deployment that refuses nothing, because they are about what it does and not about what it refuses.
const ABOUT_EFFECTS: [&str; 4] = ["effect.duplicate", "effect.one_winner", "log.receipt", "log.consistent"];

#[test]
fn a_deployment_that_lets_everything_through_fails_every_guarantee_about_refusals() {
    let stage = Stage::new();
    let liar = Liar::before(&stage.server.url, |told| {
        is_refusal(told).then(|| {
            (
                200,
                json!({ "id": "exe_00000000000000000000000000000000", "access_token": "x", "state": "applied" }),
            )
        })
    });
    let ran = stage.prove(&liar.url, &["--json"]);
    assert_eq!(ran.code, Some(2), "{}{}", ran.out, ran.err);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    for (name, result, through, reason) in findings(&said) {
        let guarantee = GUARANTEES.iter().find(|g| g.name == name).unwrap();
        let about_effects = ABOUT_EFFECTS.contains(&name.as_str());
        if guarantee.on == Target::Live && !about_effects {
            assert!(through && result == "fail", "{name}: {result}: {reason}");
            let alarm = format!("ALARM: {name} does not hold");
            assert!(ran.err.contains(&alarm), "{alarm} in {}", ran.err);
        } else {
            assert_eq!(result, "pass", "{name}: {reason}");
        }
    }
    let events = stage.events();
    let reported: Vec<_> = events.iter().filter(|event| event["type"] == "proof.reported").collect();
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0]["outcome"], "failed");
    assert_eq!(reported[0]["proof"]["passed_through"], through(&said).len());
    let log = std::fs::read_to_string(stage.server.log()).unwrap();
    assert!(log.contains("a prover reports that guarantees do not hold here"), "{log}");
}

/// Of one draft a second call begins another execution, as it looks from outside.
fn executes_anew(told: &mut Told<'_>) -> Option<(u16, Value)> {
    if told.method != "POST" || told.path != "/v1/executions" || told.status >= 300 {
        return None;
    }
    let draft = told.answer["draft_id"].as_str().unwrap().to_owned();
    if told.memory.seen.insert(draft) {
        return None;
    }
    let mut other = told.answer.clone();
    other["id"] = json!(format!("exe_{:032x}", told.memory.calls.len()));
    Some((200, other))
}

#[test]
fn a_proxy_that_executes_again_is_caught_at_every_guarantee_about_one_effect() {
    let stage = Stage::new();
    let liar = Liar::before(&stage.server.url, executes_anew);
    let names = ["effect.duplicate", "effect.one_winner", "credential.reencoded"];
    let only: Vec<&str> = names.iter().flat_map(|name| ["--only", name]).collect();
    let ran = stage.prove(&liar.url, &[&["--json"], &only[..]].concat());
    assert_eq!(ran.code, Some(2), "{}{}", ran.out, ran.err);
    let mut caught = through(&serde_json::from_str(&ran.out).unwrap());
    caught.sort();
    assert_eq!(caught, ["credential.reencoded", "effect.duplicate", "effect.one_winner"]);
}

/// Refuses in words, and does it all the same.
fn refuses_and_does(told: &mut Told<'_>) -> Option<(u16, Value)> {
    let refused_here = is_refusal(told) && ["/v1/executions", "/v1/approvals"].contains(&told.path);
    if refused_here {
        told.memory.seen.insert("refused".to_owned());
    }
    let is_look = told.method == "GET" && told.path.starts_with("/v1/drafts/drf_") && !told.path.ends_with("/bytes");
    if !is_look || !told.memory.seen.contains("refused") {
        return None;
    }
    let mut spent = told.answer.clone();
    spent["state"] = json!("consumed");
    spent["execution"] = json!({ "id": "exe_00000000000000000000000000000000", "state": "applied" });
    Some((200, spent))
}

#[test]
fn a_proxy_that_refuses_in_words_and_does_it_all_the_same_is_caught() {
    let stage = Stage::new();
    for name in ["credential.mutated", "credential.widened", "record.expired", "authority.requester"] {
        let liar = Liar::before(&stage.server.url, refuses_and_does);
        let ran = stage.prove(&liar.url, &["--json", "--only", name]);
        assert_eq!(ran.code, Some(2), "{name}: {}{}", ran.out, ran.err);
        assert_eq!(through(&serde_json::from_str(&ran.out).unwrap()), [name]);
    }
}

/// A lost answer is called "no".
fn calls_lost_no(told: &mut Told<'_>) -> Option<(u16, Value)> {
    if told.answer["state"] != "indeterminate" {
        return None;
    }
    let mut said = told.answer.clone();
    said["state"] = json!("not_applied");
    Some((told.status, said))
}

#[test]
fn a_proxy_that_calls_a_lost_answer_no_is_caught_however_it_was_lost() {
    for name in ["ambiguous.lost_answer", "ambiguous.unknown_error", "ambiguous.one_byte"] {
        // One each, since what is really open keeps the next one's resource closed while the proxy says that it is not.
        let stage = Stage::new();
        let liar = Liar::before(&stage.server.url, calls_lost_no);
        let ran = stage.prove(&liar.url, &["--json", "--only", name]);
        assert_eq!(ran.code, Some(2), "{name}: {}{}", ran.out, ran.err);
        assert_eq!(through(&serde_json::from_str(&ran.out).unwrap()), [name]);
    }
}

#[test]
fn a_refusal_for_another_reason_is_neither_a_pass_nor_an_alarm() {
    let stage = Stage::new();
    let liar = Liar::before(&stage.server.url, |told| {
        let refused = is_refusal(told) && told.path != "/v1/proofs";
        refused.then(|| (429, json!({ "code": "rate_limited" })))
    });
    let ran = stage.prove(
        &liar.url,
        &["--json", "--only", "credential.mutated", "--only", "principal.missing"],
    );
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(!ran.err.contains("ALARM"), "{}", ran.err);
    for (name, result, through, reason) in findings(&serde_json::from_str(&ran.out).unwrap()) {
        assert_eq!((result.as_str(), through), ("fail", false), "{name}: {reason}");
        assert!(reason.contains("429 rate_limited"), "{name}: {reason}");
    }
}
