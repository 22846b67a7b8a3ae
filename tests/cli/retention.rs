//! `writ audit` keeps no more than must be kept: what it refuses first, then what it does.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::support::{Running, Work, events as stored, writ};

fn events(work: &Work) -> Vec<Value> {
    stored(Path::new(&work.text("data/writ.db")))
}

#[test]
fn only_what_a_verified_bundle_has_is_pruned_and_nothing_that_is_held() {
    let run = Running::new();
    run.held();
    let work = &run.work;
    let bundle = work.text("bundle");
    let prune = |before: &str, bundle: &str| work.run(&["audit", "prune", "--before", before, "--bundle", bundle]);
    assert!(prune("4", &bundle).refused(1).contains("no list of files"));
    work.json(&["audit", "export", "--range", "0..3", "--format", "bundle", "--out", &bundle]);
    assert!(prune("6", &bundle).refused(1).contains("does not have every event from 0 to 5"));
    assert!(prune("0", &bundle).refused(1).contains("nothing to prune"));
    work.run(&["audit", "prune", "--before", "4", "--older-than", "1d", "--bundle", &bundle])
        .refused(2);
    assert!(
        work.run(&["audit", "prune", "--older-than", "13mo", "--bundle", &bundle])
            .refused(1)
            .contains("nothing to prune")
    );
    // One byte of it is another.
    let lines = format!("{bundle}/events.jsonl");
    let kept = fs::read(&lines).unwrap();
    let mut changed = kept.clone();
    changed[40] ^= 1;
    fs::write(&lines, &changed).unwrap();
    assert!(prune("4", &bundle).refused(1).contains("does not verify"));
    fs::write(&lines, &kept).unwrap();
    let held = work.json(&["audit", "hold", "--range", "1..1", "--reason", "dispute"]);
    assert!(prune("4", &bundle).refused(1).contains(&format!("hold {} covers", held["hold"])));
    assert_eq!(events(work)[0]["seq"], 0, "nothing has gone");
    work.run(&["audit", "release", "77"]).refused(1);
    work.json(&["audit", "release", &held["hold"].to_string()]);

    let pruned = work.json(&["audit", "prune", "--before", "4", "--bundle", &bundle]);
    assert_eq!(
        (&pruned["from"], &pruned["to"], &pruned["pruned"]),
        (&0.into(), &3.into(), &4.into())
    );
    let left = events(work);
    assert_eq!(left[0]["seq"], 4);
    assert_eq!(left.last().unwrap()["pruned"]["bundle_sha256"], pruned["bundle_sha256"]);
    let told = work.json(&["audit", "verify", "--openings"]);
    assert_eq!((&told["exit"], &told["pruned"]), (&0.into(), &4.into()), "{told}");
    assert!(work.run(&["audit", "verify"]).ok().contains("the events before 4"));
    for (range, format) in [("0..2", "bundle"), ("1..5", "bundle"), ("0..2", "csv"), ("1..5", "jsonl")] {
        let out = work.text("pruned-range");
        let refused = work
            .run(&["audit", "export", "--range", range, "--format", format, "--out", &out])
            .refused(1);
        assert!(refused.contains("pruned"), "{range} {format}: {refused}");
    }
    let public = work.text("keys/log.pub");
    let told = writ(&["audit", "verify", &bundle, "--trust", &public, "--json"]).json();
    assert_eq!(told["events"], 4, "the bundle has them");
}

#[test]
fn a_value_is_shown_with_its_receipt_until_it_is_erased() {
    let run = Running::new();
    run.held();
    let work = &run.work;
    let proposed = events(work).into_iter().find(|event| event["type"] == "draft.propose").unwrap();
    let seq = proposed["seq"].to_string();
    work.run(&["audit", "disclose", "--seq", &seq, "--field", "address"]).refused(2);
    assert!(
        work.run(&["audit", "disclose", "--seq", &seq, "--field", "evidence"])
            .refused(1)
            .contains("commits to no evidence")
    );
    let shown = work.json(&["audit", "disclose", "--seq", &seq, "--field", "customer"]);
    assert_eq!(proposed["_sd"][0], shown["digest"]);
    let customer = shown["value"].as_str().unwrap();
    assert!(!proposed.to_string().contains(customer), "{proposed}");
    // The event and its receipt verify by themselves.
    fs::write(work.path("e.json"), shown["event"].as_str().unwrap()).unwrap();
    fs::write(work.path("e.tlog-proof"), shown["receipt"].as_str().unwrap()).unwrap();
    let (event, receipt, public) = (work.text("e.json"), work.text("e.tlog-proof"), work.text("keys/log.pub"));
    writ(&["audit", "verify", &receipt, "--event", &event, "--trust", &public]).ok();

    work.run(&["audit", "erase", "--subject", customer, "--basis", ""]).refused(2);
    let named = format!("asked by {customer}");
    assert!(
        work.run(&["audit", "erase", "--subject", customer, "--basis", &named])
            .refused(1)
            .contains("names the person")
    );
    assert!(
        work.run(&["audit", "erase", "--subject", "nobody", "--basis", "x"])
            .refused(1)
            .contains("nothing about that person")
    );
    let erased = work.json(&["audit", "erase", "--subject", customer, "--basis", "GDPR Art. 17(1)(a)"]);
    assert_eq!(erased["fields"], 1);
    assert!(
        work.run(&["audit", "disclose", "--seq", &seq, "--field", "customer"])
            .refused(1)
            .contains("was erased")
    );
    let told = work.json(&["audit", "verify", "--openings"]);
    assert_eq!((&told["exit"], &told["openings"]["erased"]), (&0.into(), &1.into()), "{told}");
    writ(&["audit", "verify", &receipt, "--event", &event, "--trust", &public]).ok();
}
