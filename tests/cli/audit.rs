//! `writ audit`: evidence is carried off whole or not at all, and says itself what it holds.

use std::fs;
use std::path::Path;

use serde_json::Value;
use writ::audit::{LogKey, Receipt, SignedHead};

use super::support::{Running, events, writ};
use crate::support::SeededEntropy;

/// Every file below a directory with its bytes, by its path there.
pub fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                let path = entry.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                found.push((path, fs::read(&entry).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn lines(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("events.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_export_of_nothing_or_over_something_leaves_nothing_behind() {
    let run = Running::new();
    run.held();
    let out = run.work.text("evidence");
    let export = |what: &[&str]| {
        run.work
            .run(&[&["audit", "export", "--format", "bundle", "--out", &out], what].concat())
    };
    assert!(export(&["--case", "case-9"]).refused(1).contains("no event of the case case-9"));
    assert!(
        export(&["--case", "case-1", "--tenant", "other"])
            .refused(1)
            .contains("of that tenant")
    );
    assert!(export(&["--range", "0..100000"]).refused(1).contains("ends with event"));
    export(&["--range", "5..4"]).refused(2);
    export(&["--range", "0..1", "--case", "case-1"]).refused(2);
    export(&[]).refused(2);
    assert!(
        export(&["--time", "2001-01-01T00:00:00Z..2002-01-01T00:00:00Z"])
            .refused(1)
            .contains("no event of the time")
    );
    assert!(!Path::new(&out).exists());
    fs::create_dir(&out).unwrap();
    assert!(export(&["--range", "0..1"]).refused(1).contains("exists already"));
    let beside = fs::read_dir(run.work.temp.path().join("work")).unwrap();
    let left: Vec<_> = beside
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_str().unwrap().contains("partial"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(files(Path::new(&out)).is_empty());
}

#[test]
fn an_export_is_written_down_with_the_hash_of_what_it_holds() {
    let run = Running::new();
    run.held();
    let out = run.work.text("evidence");
    let said = run
        .work
        .json(&["audit", "export", "--range", "0..3", "--format", "bundle", "--out", &out]);
    let database = run.work.text("data/writ.db");
    let stored = events(Path::new(&database));
    let exports: Vec<&Value> = stored.iter().filter(|e| e["type"] == "audit.exported").collect();
    assert_eq!(exports.len(), 1);
    assert_eq!(exports[0]["subject"], "range 0..3");
    assert_eq!(exports[0]["count"], 4);
    assert_eq!(exports[0]["content_sha256"], said["manifest_sha256"]);
    let of_file = writ::domain::digest::Digest::of(&fs::read(format!("{out}/MANIFEST.json")).unwrap());
    assert_eq!(said["manifest_sha256"], of_file.to_string());
    // A bare file has no log to write to, and says so.
    let bare = run.work.text("bare");
    let ran = writ(&[
        "audit", "export", "--db", &database, "--range", "0..3", "--format", "bundle", "--out", &bare,
    ]);
    assert!(ran.err.contains("not written down"), "{}", ran.err);
    ran.ok();
    assert_eq!(events(Path::new(&database)), stored);
    assert!(!Path::new(&bare).join("keys.txt").exists());
}

/// Signs the log's latest head anew, with a key that is not the log's.
fn sign_with_another_key(database: &str) {
    let file = rusqlite::Connection::open(database).unwrap();
    let sql = "SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1";
    let note: String = file.query_row(sql, [], |row| row.get(0)).unwrap();
    let head = SignedHead::read(&note).unwrap();
    let (other, _) = LogKey::generate(head.origin(), &SeededEntropy::new(4_711)).unwrap();
    let forged = SignedHead::sign(head.size(), head.root(), &[&other]).unwrap();
    file.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    let size = i64::try_from(head.size()).unwrap();
    file.execute("UPDATE checkpoint SET note = ?1 WHERE size = ?2", (forged.text(), size))
        .unwrap();
}

#[test]
fn what_is_under_a_head_that_the_logs_key_has_not_signed_is_not_exported() {
    let run = Running::new();
    run.held();
    let copy = run.work.text("copy.db");
    run.work.run(&["store", "backup", &copy]).ok();
    let public = run.work.text("keys/log.pub");
    let export = |format: &str, out: &str, keys: &[&str]| {
        let out = run.work.text(out);
        let what = [
            "audit", "export", "--db", &copy, "--case", "case-1", "--format", format, "--out", &out,
        ];
        writ(&[&what[..], keys].concat())
    };
    for (format, out) in [("bundle", "b1"), ("csv", "c1"), ("page", "p1")] {
        export(format, out, &["--keys", &public]).ok();
    }
    sign_with_another_key(&copy);
    for (format, out) in [("bundle", "b2"), ("csv", "c2"), ("page", "p2")] {
        let refused = export(format, out, &["--keys", &public]).refused(1);
        assert!(refused.contains("its latest head") && refused.contains("sign"), "{refused}");
        assert!(!run.work.path(out).exists());
    }
    // Nobody has said which key it is, and that is said.
    for (format, out) in [("bundle", "b3"), ("csv", "c3"), ("page", "p3")] {
        let ran = export(format, out, &["--json"]);
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(told["signature"], "not checked", "{told}");
        assert!(ran.err.contains("signature"), "{}", ran.err);
    }
    let told = export("csv", "c4", &[]).ok();
    assert!(told.contains("whose signature was not checked"), "{told}");
    let page = fs::read_to_string(run.work.path("p3")).unwrap();
    assert!(page.contains("signature of the head was not checked"));
    let page = fs::read_to_string(run.work.path("p1")).unwrap();
    assert!(!page.contains("signature of the head was not checked"));
}

#[test]
fn a_case_is_carried_off_with_a_receipt_for_each_of_its_events() {
    let run = Running::new();
    run.held();
    let out = run.work.path("evidence");
    run.work
        .run(&[
            "audit",
            "export",
            "--case",
            "case-1",
            "--format",
            "bundle",
            "--out",
            out.to_str().unwrap(),
        ])
        .ok();
    let manifest: Value = serde_json::from_slice(&fs::read(out.join("MANIFEST.json")).unwrap()).unwrap();
    assert_eq!(manifest["what"]["case_id"], "case-1");
    let keys = fs::read_to_string(out.join("keys.txt")).unwrap();
    assert_eq!(keys, fs::read_to_string(run.work.path("keys/log.pub")).unwrap());
    let keys = writ::audit::read_log_lines(&keys).unwrap();
    let events = lines(&out);
    assert!(events.len() >= 3, "{events:?}");
    for (n, event) in (1..).zip(&events) {
        let read: Value = serde_json::from_str(event).unwrap();
        assert_eq!((&read["case"]["n"], &read["case_id"]), (&Value::from(n), &Value::from("case-1")));
        let receipt = fs::read_to_string(out.join(format!("proofs/{}.tlog-proof", read["seq"]))).unwrap();
        let receipt = Receipt::read(&receipt).unwrap();
        receipt.verify(event.as_bytes(), &keys).unwrap();
        assert!(receipt.verify(event.replace("case-1", "case-2").as_bytes(), &keys).is_err());
    }
    let listed: Vec<String> = manifest["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect();
    let there: Vec<String> = files(&out)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| !path.starts_with("MANIFEST"))
        .collect();
    assert_eq!(listed, there);
    let summed = std::process::Command::new("sha256sum")
        .args(["-c", "MANIFEST.sha256"])
        .current_dir(&out)
        .status()
        .unwrap();
    assert!(summed.success());
}

#[test]
fn another_form_is_one_new_file_of_events_that_the_head_covers() {
    let run = Running::new();
    run.held();
    let export = |what: &[&str], format: &str, out: &str| {
        let arguments = [&["audit", "export", "--format", format, "--out", out], what].concat();
        run.work.run(&arguments)
    };
    let out = |name: &str| run.work.text(name);
    let page = out("case.html");
    for format in ["csv", "bundle"] {
        let nowhere = out("nowhere/out");
        assert!(export(&["--range", "0..3"], format, &nowhere).refused(1).contains("make it first"));
    }
    assert!(export(&["--range", "0..3"], "page", &page).refused(2).contains("--case"));
    assert!(export(&["--range", "0..9999"], "csv", &page).refused(1).contains("ends with event"));
    fs::write(&page, "kept").unwrap();
    assert!(export(&["--case", "case-1"], "page", &page).refused(1).contains("exists already"));
    assert_eq!(fs::read_to_string(&page).unwrap(), "kept");
    fs::remove_file(&page).unwrap();

    let database = run.work.text("data/writ.db");
    let stored = events(Path::new(&database));
    let lines = |name: &str| {
        fs::read_to_string(out(name))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for format in ["jsonl", "csv", "ocsf"] {
        export(&["--range", "0..3"], format, &out(format)).ok();
    }
    for (n, line) in lines("jsonl").iter().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let leaf: Value = serde_json::from_str(line["leaf"].as_str().unwrap()).unwrap();
        assert_eq!((&line["seq"], &leaf), (&Value::from(n), &stored[n]));
    }
    assert_eq!((lines("jsonl").len(), lines("csv").len(), lines("ocsf").len()), (4, 5, 4));
    export(&["--case", "case-1"], "page", &page).ok();
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.contains("case-1") && text.contains("NOT ANCHORED") && text.contains("--format bundle"),
        "{text}"
    );
    let told: Vec<Value> = events(Path::new(&database))
        .into_iter()
        .filter(|event| event["type"] == "audit.exported")
        .collect();
    assert_eq!(told.len(), 4);
    let of_page = writ::domain::digest::Digest::of(&fs::read(&page).unwrap());
    assert_eq!(told[3]["content_sha256"], of_page.to_string());

    // What was changed in the database is not passed on as if the log had it.
    let vandal = rusqlite::Connection::open(&database).unwrap();
    vandal
        .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    vandal
        .execute(
            "UPDATE event SET body = replace(body, '\"outcome\":\"ok\"', '\"outcome\":\"denied\"') WHERE seq = 2",
            [],
        )
        .unwrap();
    let refused = export(&["--range", "0..3"], "csv", &out("changed.csv")).refused(1);
    assert!(refused.contains("event 2 is not the one that its head covers"), "{refused}");
    // Nor is something left out because it is looked for in the wrong place.
    vandal.execute("UPDATE event SET at = 1 WHERE seq = 3", []).unwrap();
    let times = ["--time", "2026-01-01T00:00:00Z..2100-01-01T00:00:00Z"];
    let refused = export(&times, "csv", &out("hidden.csv")).refused(1);
    assert!(refused.contains("event 3 is not found by what it says"), "{refused}");
    let left: Vec<_> = fs::read_dir(run.work.temp.path().join("work"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial") || name.contains("changed"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
