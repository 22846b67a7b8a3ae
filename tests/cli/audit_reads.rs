//! `writ audit show`, `search` and `tail`, on a store that a server has open.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use writ::audit::Receipt;
use writ::audit::read_public;

use super::support::{Running, Work};

/// The events of an answer.
fn told(answer: &Value) -> Vec<Value> {
    let lines = answer["events"].as_array().unwrap().iter();
    lines
        .map(|line| serde_json::from_str(line["event"].as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn what_is_no_filter_no_value_or_not_there_is_refused() {
    let work = Work::new();
    for arguments in [
        &["search", "--surprise", "1"][..],
        &["search", "--type", "draft.proposed"],
        &["search", "--outcome", "OK"],
        &["search", "--from", "yesterday"],
        &["search", "--resource", "charge"],
        &["search", "--draft", "drf_1"],
        &["search", "--limit", "0"],
        &["search", "--limit", "1001"],
        &["search", "--after", "9223372036854775808"],
        &["tail", "-n", "0"],
        &["show"],
        &["show", "a b"],
    ] {
        assert_eq!(work.run(&[&["audit"], arguments].concat()).code, Some(2), "{arguments:?}");
    }
    let said = work.run(&["audit", "search", "--type", "draft.proposed"]).err;
    assert!(said.contains("draft.propose,") && !said.contains("credential."), "{said}");
    for nothing in ["99999", "case-none", "drf_0192f0c1a2b37c4d8e5f60718293a4b5"] {
        let said = work.run(&["audit", "show", nothing]).refused(1);
        assert!(said.contains("nothing about") || said.contains("has no event"), "{said}");
    }
}

#[test]
fn a_case_a_draft_and_an_event_are_shown_with_their_proofs_and_the_read_is_in_the_log() {
    let run = Running::new();
    let draft = run.held();
    let shown = run.work.run(&["audit", "show", &draft]).ok();
    assert!(shown.contains("draft.propose") && shown.contains("draft.hold"), "{shown}");
    let chain = run.work.json(&["audit", "show", &draft]);
    let events = told(&chain);
    assert!(events.iter().all(|event| event["draft"]["id"] == draft.as_str()), "{chain}");
    assert_eq!(chain["gaps"], Value::Null);
    let case = events[0]["case_id"].as_str().unwrap();
    let chain = run.work.json(&["audit", "show", case]);
    assert_eq!(chain["gaps"], json!([]));
    assert!(told(&chain).len() >= events.len());

    let seq = events[0]["seq"].to_string();
    let one = run.work.json(&["audit", "show", &seq]);
    let receipt = Receipt::read(one["receipt"].as_str().unwrap()).unwrap();
    let keys = read_public(&run.work.path("keys/log.pub")).unwrap();
    receipt.verify(one["event"].as_str().unwrap().as_bytes(), &keys).unwrap();
    let text = run.work.run(&["audit", "show", &seq]).ok();
    assert!(
        text.contains("c2sp.org/tlog-proof@v1") && text.contains(one["leaf_hash"].as_str().unwrap()),
        "{text}"
    );

    let reads = told(&run.work.json(&["audit", "search", "--type", "audit.read"]));
    let subjects: Vec<&str> = reads.iter().map(|read| read["subject"].as_str().unwrap()).collect();
    let (own, whole, event) = (format!("draft {draft}"), format!("case {case}"), format!("event {seq}"));
    assert_eq!(subjects, [&own, &own, &whole, &event, &event, "events"]);
    assert!(
        reads
            .iter()
            .all(|read| read["actor"]["id"].as_str().unwrap().starts_with("command-line:"))
    );
}

#[test]
fn a_case_from_which_an_event_is_gone_is_a_failure() {
    let run = Running::new();
    run.held();
    let events = told(&run.work.json(&["audit", "search", "--type", "draft.propose"]));
    let (case, seq) = (events[0]["case_id"].as_str().unwrap(), events[0]["seq"].as_u64().unwrap());
    let file = rusqlite::Connection::open(run.work.path("data/writ.db")).unwrap();
    file.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    file.execute("DELETE FROM event WHERE seq = ?1", [seq.to_string()]).unwrap();
    let ran = run.work.run(&["audit", "show", case, "--json"]);
    assert_eq!(ran.code, Some(1));
    let chain: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&chain["gaps"][0]["expected"], &chain["gaps"][0]["found"]), (&json!(1), &json!(2)));
    assert!(ran.err.contains("missing"), "{}", ran.err);
    let text = run.work.run(&["audit", "show", case]);
    assert!(text.out.contains("number 1 of the case is expected"), "{}", text.out);
}

#[test]
fn a_search_goes_on_from_page_to_page_in_either_order() {
    let run = Running::new();
    run.held();
    for order in [&[][..], &["--newest"]] {
        let (mut after, mut seen) = (Vec::new(), Vec::new());
        loop {
            let page = run
                .work
                .json(&[&["audit", "search", "--limit", "2", "--outcome", "ok"], order, &after].concat());
            seen.extend(told(&page).iter().map(|event| event["seq"].as_u64().unwrap()));
            if page["complete"] == true || seen.len() > 12 {
                break;
            }
            let next = page["next_after_seq"].to_string();
            after = vec!["--after", String::leak(next)];
        }
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if !order.is_empty() {
            sorted.reverse();
        }
        assert_eq!(seen, sorted);
    }
    let text = run.work.run(&["audit", "search", "--limit", "1"]).ok();
    assert!(text.contains("SEQ") && text.contains("add --after 0"), "{text}");
    let none = run.work.run(&["audit", "search", "--case", "case-none"]).ok();
    assert!(none.contains("No event"), "{none}");
}

#[test]
fn a_tail_goes_on_with_what_comes() {
    let run = Running::new();
    let mut tail = Command::new(env!("CARGO_BIN_EXE_writ"))
        .args(["audit", "tail", "-n", "1", "--follow", "--json", "--config", &run.work.config])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = || -> Value {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        serde_json::from_str(line["event"].as_str().unwrap()).unwrap()
    };
    assert_eq!(next()["subject"], "tail --follow", "the last event is this read");
    let draft = run.held();
    loop {
        let event = next();
        if event["type"] == "draft.propose" {
            assert_eq!(event["draft"]["id"], draft.as_str());
            break;
        }
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    let text = run.work.run(&["audit", "tail"]).ok();
    assert!(text.contains("draft.propose") && text.lines().count() <= 20, "{text}");
}
