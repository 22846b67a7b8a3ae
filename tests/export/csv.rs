//! CSV, read back by hand and by Python's reader.

use proptest::prelude::*;
use serde_json::{Value, json};
use writ::audit::export::{Entry, ExportError, csv};

use super::samples::{self, entry};
use crate::support::peers::{output, python, script};

/// RFC 4180, and nothing beside it.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                assert!(cell.is_empty(), "a quotation mark inside of an unquoted cell");
                loop {
                    match chars.next().expect("an open quotation") {
                        '"' if chars.peek() == Some(&'"') => cell.push(chars.next().unwrap()),
                        '"' => break,
                        inner => cell.push(inner),
                    }
                }
                assert!(matches!(chars.peek(), Some(',' | '\r')), "text after a quoted cell");
            }
            ',' => row.push(std::mem::take(&mut cell)),
            '\r' => {
                assert_eq!(chars.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            '\n' => panic!("a line feed alone"),
            plain => cell.push(plain),
        }
    }
    assert!(row.is_empty() && cell.is_empty(), "the last line has no end");
    rows
}

/// What stood in the cell before it was made text for a spreadsheet.
fn undone(cell: &str) -> &str {
    cell.strip_prefix('\'').unwrap_or(cell)
}

fn place(column: &str) -> &'static str {
    match column {
        "time" => "/time",
        "type" => "/type",
        "outcome" => "/outcome",
        "code" => "/code",
        "actor" => "/actor/id",
        "tenant" => "/tenant",
        "case" => "/case_id",
        "operation" => "/operation",
        "draft_id" => "/draft/id",
        "draft_hash" => "/draft/hash",
        "policy_hash" => "/policy/sha256",
        "approver" => "/approval/approver",
        "credential_id" => "/credential/id",
        "idempotency_key" => "/execution/idempotency_key",
        "attempt" => "/attempt/n",
        "provider_status" => "/provider/status",
        "provider_ref" => "/provider/reference",
        "amount_minor" => "/amount/minor",
        "currency" => "/amount/currency",
        other => panic!("{other} has no place of its own"),
    }
}

/// What must stand in the column.
fn expected(column: &str, entry: &Entry) -> String {
    let event = samples::event(entry);
    match column {
        "seq" => entry.seq.to_string(),
        "leaf_hash" => entry.leaf_hash_hex(),
        "resource" => match (event.pointer("/resource/type"), event.pointer("/resource/id")) {
            (Some(kind), Some(id)) => format!("{}:{}", kind.as_str().unwrap(), id.as_str().unwrap()),
            _ => String::new(),
        },
        column => match event.pointer(place(column)) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        },
    }
}

fn agree(rows: &[Vec<String>], entries: &[Entry]) {
    let names: Vec<&str> = csv::columns().map(|(name, _)| name).collect();
    assert_eq!(rows[0], names);
    assert_eq!(rows.len(), entries.len() + 1);
    for (row, entry) in rows[1..].iter().zip(entries) {
        assert_eq!(row.len(), names.len());
        for (cell, name) in row.iter().zip(&names) {
            assert_eq!(undone(cell), expected(name, entry), "{name} of {entry:?}");
        }
    }
}

fn written(entries: &[Entry]) -> String {
    let records = entries.iter().map(|entry| csv::record(entry).unwrap());
    csv::header() + &records.collect::<String>()
}

#[tokio::test]
async fn what_is_no_event_of_its_number_is_not_written() {
    let whole = samples::journey().await;
    let event = samples::event(&whole[4]);
    let refused = |change: fn(&mut Value)| {
        let mut changed = event.clone();
        change(&mut changed);
        csv::record(&Entry::of(4, serde_json::to_vec(&changed).unwrap())).unwrap_err()
    };
    assert!(matches!(
        refused(|e| e["seq"] = json!(5)),
        ExportError::OtherNumber { seq: 4, says: 5 }
    ));
    assert!(matches!(
        refused(|e| e["time"] = json!("yesterday")),
        ExportError::NoTime { seq: 4 }
    ));
    assert!(matches!(
        refused(|e| e["outcome"] = json!("splendid")),
        ExportError::NotAnEvent { seq: 4, .. }
    ));
    assert!(matches!(
        refused(|e| e["actor"] = json!("me")),
        ExportError::NotAnEvent { seq: 4, .. }
    ));
    let twice = br#"{"seq":4,"seq":4}"#.to_vec();
    assert!(matches!(csv::record(&Entry::of(4, twice)), Err(ExportError::NotAnEvent { .. })));
    let mut other = whole[4].clone();
    other.leaf_hash[0] ^= 1;
    assert!(matches!(csv::record(&other), Err(ExportError::OtherHash { seq: 4 })));
}

#[test]
fn no_cell_is_a_formula() {
    for bad in [
        "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1", " =1", "\u{a0}=1", "＝1", "＋1", "－1", "＠1", "'=1",
    ] {
        let event =
            json!({ "seq": 0, "type": bad, "time": "2026-09-21T14:13:20.000Z", "outcome": "ok", "actor": { "kind": "client", "id": bad } });
        let rows = parse(&csv::record(&entry(&event)).unwrap());
        for cell in [&rows[0][2], &rows[0][5]] {
            assert_eq!(*cell, format!("'{bad}"));
        }
    }
}

#[tokio::test]
async fn every_cell_of_a_journey_and_of_every_kind_says_what_the_event_says() {
    let mut entries = samples::journey().await;
    entries.extend(samples::of_every_kind().await);
    let text = written(&entries);
    agree(&parse(&text), &entries);
    for (name, _) in csv::columns() {
        assert!(
            entries.iter().any(|entry| !expected(name, entry).is_empty()),
            "nothing ever stands in {name}"
        );
    }
}

#[tokio::test]
async fn another_reader_reads_the_same() {
    let Some(mut python) = python() else { return };
    let mut event = samples::fullest(&samples::journey().await);
    let hostile = ["a\"b", "a,b", "a\nb", "=cmd|'/c calc'!A0", "a;b", "\"", "'", "-1", "\u{1f600}"];
    let mut entries = Vec::new();
    for text in hostile {
        for at in samples::free_texts(&event.clone()) {
            *event.pointer_mut(&at).unwrap() = json!(text);
        }
        entries.push(entry(&event));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), written(&entries)).unwrap();
    let said = output(python.arg(script("read_csv.py")).arg(file.path()));
    let rows: Vec<Vec<String>> = serde_json::from_str(&said).unwrap();
    agree(&rows, &entries);
}

proptest! {
    #[test]
    fn no_text_in_any_cell_breaks_a_record(text in "[\\PC\\n\\t\"',;=+@-]{0,24}") {
        let mut event = json!({
            "seq": 9, "type": "", "time": "2026-09-21T14:13:20.000Z", "outcome": "denied", "actor": { "kind": "client", "id": "" }, "code": "", "tenant": "",
            "case_id": "", "operation": "", "resource": { "type": "", "id": "" }, "draft": { "id": "", "hash": "" },
            "policy": { "id": "", "version": 1, "sha256": "", "limits_sha256": "", "outcome": "ask", "rules": [] },
            "approval": { "id": "", "approver": "" }, "credential": { "id": "" }, "execution": { "id": "", "idempotency_key": "", "fence": 1 },
            "provider": { "reference": "" },
        });
        for at in samples::free_texts(&event.clone()) {
            *event.pointer_mut(&at).unwrap() = json!(text);
        }
        event["type"] = json!(text);
        let entries = [entry(&event)];
        let rows = parse(&written(&entries));
        agree(&rows, &entries);
        for cell in &rows[1] {
            prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', ' ']), "{cell:?}");
        }
    }
}
