//! `writ audit` keeps no more than must be kept: what it refuses first, then what it does.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use writ::domain::digest::Digest;

use super::audit::files;
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
    let last = events(work).len() - 1;
    for before in ["0".to_owned(), (last + 1).to_string()] {
        let told = prune(&before, &bundle).refused(1);
        let ends = format!("the log has the events from 0 to {last}, and its last one stays");
        assert!(told.contains("nothing to prune") && told.contains(&ends), "{told}");
    }
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

/// Lists a bundle's files anew, as whoever changes them would.
fn relist(dir: &Path) {
    let hex = |bytes: &[u8]| -> String { Digest::of(bytes).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect() };
    let list = dir.join("MANIFEST.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
    let there = files(dir).into_iter().filter(|(path, _)| !path.starts_with("MANIFEST"));
    manifest["files"] = there
        .map(|(path, bytes)| json!({ "path": path, "bytes": bytes.len(), "sha256": hex(&bytes) }))
        .collect();
    let text = serde_json::to_string_pretty(&manifest).unwrap();
    fs::write(&list, &text).unwrap();
    fs::write(dir.join("MANIFEST.sha256"), format!("{}  MANIFEST.json\n", hex(text.as_bytes()))).unwrap();
}

/// Prunes the events before this one, with a bundle that has them.
fn pruned(work: &Work, before: u64) {
    let (bundle, range) = (work.text("old"), format!("0..{}", before - 1));
    work.json(&["audit", "export", "--range", &range, "--format", "bundle", "--out", &bundle]);
    work.json(&["audit", "prune", "--before", &before.to_string(), "--bundle", &bundle]);
}

/// The numbers of a case's events that are there.
fn of_case(work: &Work) -> Vec<u64> {
    let of = |event: &Value| (event["case_id"] == "case-1").then(|| event["seq"].as_u64().unwrap());
    events(work).iter().filter_map(of).collect()
}

#[test]
fn what_is_missing_from_a_partly_pruned_case_without_the_logs_word_is_an_alarm_and_what_was_pruned_is_not() {
    let run = Running::new();
    run.held();
    let work = &run.work;
    let case = of_case(work);
    assert!(case.len() >= 3, "{case:?}");
    let cut = case[1];
    pruned(work, cut);

    // The draft's first step is gone, and the next one does not come from nowhere for that.
    let state = work.run(&["audit", "verify", "--state"]);
    assert_eq!(state.code, Some(4), "{}", state.out);
    assert!(
        state.out.contains("--state needs every event") && !state.out.contains("TAMPERED"),
        "{}",
        state.out
    );

    let said = format!("events 0..{} were pruned on ", cut - 1);
    let shown = work.run(&["audit", "show", "case-1"]).ok();
    assert!(
        shown.contains(&said) && shown.contains("the bundle of that time has them"),
        "{shown}"
    );
    let shown = work.json(&["audit", "show", "case-1"]);
    assert_eq!(shown["gaps"], json!([]));
    let told = &shown["pruned"][0];
    assert_eq!(
        (&told["n"], &told["from"], &told["to"]),
        (&1.into(), &0.into(), &(cut - 1).into()),
        "{shown}"
    );
    let event = events(work).into_iter().find(|event| event["type"] == "retention.pruned").unwrap();
    assert_eq!(
        (&told["seq"], &told["at"], &told["bundle_sha256"]),
        (&event["seq"], &event["time"], &event["pruned"]["bundle_sha256"])
    );

    // The case's bundle shows by itself that what is not in it was pruned.
    let (dir, public) = (work.path("case"), work.text("keys/log.pub"));
    let out = dir.to_str().unwrap();
    let export = ["audit", "export", "--case", "case-1", "--format", "bundle", "--out"];
    let answer = work.run(&[&export[..], &[out]].concat()).ok();
    assert!(answer.contains(&said), "{answer}");
    let verify = || writ(&["audit", "verify", out, "--trust", &public, "--json"]);
    let found = verify().json();
    assert_eq!(
        (&found["events"], &found["pruned"]),
        (&(case.len() - 1).into(), &cut.into()),
        "{found}"
    );
    let page = work.text("case.html");
    work.run(&["audit", "export", "--case", "case-1", "--format", "page", "--out", &page])
        .ok();
    assert!(fs::read_to_string(&page).unwrap().contains(&said));

    let kept = files(&dir);
    let path_of = |seq: &Value| format!("proofs/{seq}.tlog-proof");
    let restore = || {
        for (path, bytes) in &kept {
            fs::write(dir.join(path), bytes).unwrap();
        }
    };
    let without = |path: &str| {
        fs::remove_file(dir.join(path)).unwrap();
        relist(&dir);
        assert_eq!(verify().code, Some(4), "{path}");
        restore();
    };
    without("pruned.jsonl");
    without("proofs/before.tlog-proof");
    without(&path_of(&event["seq"]));
    for (path, from, to) in [
        ("pruned.jsonl", "retention.pruned", "retention.prunes"),
        ("pruned.jsonl", "\"to\":", "\"to\":1"),
        ("proofs/before.tlog-proof", "index ", "index 1"),
    ] {
        let text = fs::read_to_string(dir.join(path)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(dir.join(path), text.replacen(from, to, 1)).unwrap();
        relist(&dir);
        assert_eq!(verify().code, Some(2), "{path} with {to}");
        restore();
    }
    // An event more is left out, as if it had been pruned with the others.
    let lines = fs::read_to_string(dir.join("events.jsonl")).unwrap();
    let (_, rest) = lines.split_once('\n').unwrap();
    fs::write(dir.join("events.jsonl"), rest).unwrap();
    let mut manifest: Value = serde_json::from_slice(&fs::read(dir.join("MANIFEST.json")).unwrap()).unwrap();
    manifest["events"] = (case.len() - 2).into();
    fs::write(dir.join("MANIFEST.json"), manifest.to_string()).unwrap();
    relist(&dir);
    assert_ne!(verify().code, Some(0));
    restore();
    assert_eq!(verify().code, Some(0));

    // The next event goes without the log's word.
    let file = rusqlite::Connection::open(work.path("data/writ.db")).unwrap();
    file.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    assert_eq!(file.execute("DELETE FROM event WHERE seq = ?1", [cut.to_string()]).unwrap(), 1);
    let ran = work.run(&["audit", "show", "case-1", "--json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&shown["gaps"][0]["expected"], &shown["gaps"][0]["found"]), (&1.into(), &3.into()));
    let again = work.text("again");
    let refused = work.run(&[&export[..], &[&again]].concat()).refused(1);
    assert!(refused.contains("events of the case are missing"), "{refused}");
}

#[test]
fn a_value_of_an_event_that_was_changed_is_not_shown_and_no_disclosure_is_told() {
    let run = Running::new();
    run.held();
    let work = &run.work;
    let proposed = events(work).into_iter().find(|event| event["type"] == "draft.propose").unwrap();
    let seq = proposed["seq"].to_string();
    let file = rusqlite::Connection::open(work.path("data/writ.db")).unwrap();
    file.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    let changed = file.execute("UPDATE event SET body = replace(body, 'case-1', 'case-2') WHERE seq = ?1", [&seq]);
    assert_eq!(changed.unwrap(), 1);
    let refused = work.run(&["audit", "disclose", "--seq", &seq, "--field", "customer"]).refused(1);
    assert!(refused.contains("is not what the tree of the log has"), "{refused}");
    assert!(!events(work).iter().any(|event| event["type"] == "audit.disclosed"));
}

#[test]
fn an_erasure_whose_traces_could_not_be_overwritten_says_so() {
    let run = Running::new();
    run.held();
    let work = &run.work;
    let proposed = events(work).into_iter().find(|event| event["type"] == "draft.propose").unwrap();
    let shown = work.json(&["audit", "disclose", "--seq", &proposed["seq"].to_string(), "--field", "customer"]);
    let customer = shown["value"].as_str().unwrap();
    let key = work.path("keys/audit-subjects.key");
    let away = work.path("keys/away");
    fs::rename(&key, &away).unwrap();
    let refused = work.run(&["audit", "erase", "--subject", customer, "--basis", "x"]).refused(1);
    assert!(
        refused.contains("audit-subjects.key") && !refused.contains("commits to nothing"),
        "{refused}"
    );
    fs::rename(&away, &key).unwrap();

    // Somebody reads on, from before.
    let reader = rusqlite::Connection::open(work.path("data/writ.db")).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = |sql: &str| reader.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert!(count("SELECT count(*) FROM event") > 0);
    let ran = work.run(&["audit", "erase", "--subject", customer, "--basis", "GDPR Art. 17(1)(a)", "--json"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&told["fields"], &told["overwritten"]), (&1.into(), &false.into()));
    assert!(ran.err.contains("writ.db-wal") && ran.err.contains("again"), "{}", ran.err);
    drop(reader);
    // The same once more has nothing left to destroy, and overwrites what is left.
    let ran = work.run(&["audit", "erase", "--subject", customer, "--basis", "GDPR Art. 17(1)(a)"]);
    assert!(ran.refused(1).contains("was erased already"));
    assert_eq!(fs::metadata(work.path("data/writ.db-wal")).map_or(0, |found| found.len()), 0);
}
