//! OCSF, held against the published schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use writ::audit::EventKind;
use writ::audit::export::{Entry, ocsf};
use writ::domain::time::Timestamp;

use super::samples::{self, ORIGIN, entry};
use crate::support::peers::{output, python, script};

/// How many errors the published schema finds in each, and the first; nothing on a machine without Python.
fn judged(records: &[Value]) -> Option<Vec<(usize, String)>> {
    let mut python = python()?;
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let said = output(python.arg(script("ocsf.py")).arg(file.path()));
    let read = said.lines().map(|line| {
        let (count, first) = line.split_once(' ').unwrap();
        (count.parse().unwrap(), first.to_owned())
    });
    let read: Vec<_> = read.collect();
    assert_eq!(read.len(), records.len());
    Some(read)
}

pub fn written(entry: &Entry) -> Value {
    let line = ocsf::line(entry, ORIGIN).unwrap();
    assert_eq!((line.matches('\n').count(), line.ends_with('\n')), (1, true));
    serde_json::from_str(&line).unwrap()
}

#[tokio::test]
async fn the_published_schema_finds_what_is_wrong_with_a_record() {
    let whole = samples::journey().await;
    let of_class = |class: u64| {
        let all = whole.iter().map(written);
        all.into_iter().find(|record| record["class_uid"] == class).unwrap()
    };
    let mut broken = Vec::new();
    for good in [of_class(3004), of_class(6003)] {
        let changes: [fn(&mut Map<String, Value>); 6] = [
            |r| {
                r.insert("leaf_hash".to_owned(), json!("a member the class does not have"));
            },
            |r| {
                r.insert("time".to_owned(), json!("2026-09-21"));
            },
            |r| {
                r["metadata"].as_object_mut().unwrap().remove("version");
            },
            |r| {
                r.insert("disposition_id".to_owned(), json!(28));
            },
            |r| {
                r["raw_data_hash"].as_object_mut().unwrap().remove("algorithm_id");
            },
            |r| {
                r.insert("activity_id".to_owned(), json!(0));
            },
        ];
        for change in changes {
            let mut record = good.clone();
            change(record.as_object_mut().unwrap());
            broken.push(record);
        }
    }
    let Some(found) = judged(&broken) else { return };
    for ((count, _), record) in found.iter().zip(&broken) {
        assert!(*count >= 1, "nothing is said against {record}");
    }
}

#[tokio::test]
async fn one_of_every_kind_and_a_whole_journey_are_what_the_published_schema_says() {
    let mut entries = samples::of_every_kind().await;
    let types: BTreeSet<String> = entries
        .iter()
        .map(|e| samples::event(e)["type"].as_str().unwrap().to_owned())
        .collect();
    assert!(EventKind::all().all(|kind| types.contains(kind.as_str())));
    entries.extend(samples::journey().await);
    entries.extend(samples::lives().await);
    let mut newer = samples::event(&entries[0]);
    newer["type"] = json!("teapot.boil");
    entries.push(entry(&newer));
    let records: Vec<Value> = entries.iter().map(written).collect();
    let Some(found) = judged(&records) else { return };
    for ((count, first), record) in found.iter().zip(&records) {
        assert_eq!(*count, 0, "{first}: {record}");
    }
}

/// Every value that stands somewhere in it, as text.
fn values(value: &Value) -> BTreeSet<String> {
    let mut at = Vec::new();
    samples::places(value, String::new(), &mut at);
    at.iter()
        .map(|at| match value.pointer(at).unwrap() {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect()
}

#[tokio::test]
async fn nothing_of_an_event_is_lost_also_not_what_a_later_version_adds() {
    for entry in samples::of_every_kind().await {
        let event = samples::event(&entry);
        let mut marked = event.clone();
        // Each text its own, so that one cannot stand in for another.
        for (n, at) in samples::free_texts(&event).into_iter().enumerate() {
            *marked.pointer_mut(&at).unwrap() = json!(format!("text number {n} of {at}"));
        }
        let entry = samples::entry(&marked);
        let mut record = written(&entry);
        assert_eq!(record["raw_data"].as_str().unwrap().as_bytes(), entry.leaf);
        record.as_object_mut().unwrap().remove("raw_data");
        let there = values(&record);
        for value in values(&marked) {
            // These three are told in the standard's own words.
            let told = ["ok", "denied", "failed", "unknown"].contains(&value.as_str())
                || ["client", "person", "rule", "system", "anonymous"].contains(&value.as_str());
            assert!(told || there.contains(&value), "{value} of {marked} is not in {record}");
        }
    }
}

#[tokio::test]
async fn a_member_that_a_later_version_writes_as_another_type_stays_where_it_was() {
    let mut event = samples::fullest(&samples::journey().await);
    for (member, value) in [
        ("request_id", json!({ "id": 7 })),
        ("count", json!("many")),
        ("id", json!([1, 2])),
        ("v", json!("3-beta")),
    ] {
        event[member] = value.clone();
        let record = written(&entry(&event));
        assert_eq!(record["unmapped"][member], value, "{record}");
    }
}

#[tokio::test]
async fn a_record_can_be_put_in_order_and_checked_where_it_arrives() {
    for entry in samples::journey().await {
        let (event, record) = (samples::event(&entry), written(&entry));
        assert_eq!(record["metadata"]["sequence"], entry.seq);
        assert_eq!(record["metadata"]["uid"], event["id"]);
        assert_eq!(record["metadata"]["event_code"], event["type"]);
        assert_eq!(record["metadata"]["original_time"], event["time"]);
        let own = event.get("origin").map_or(ORIGIN, |origin| origin.as_str().unwrap());
        assert_eq!(record["metadata"]["log_name"], own);
        assert_eq!(record["metadata"].get("correlation_uid"), event.get("case_id"));
        assert_eq!(record["raw_data_hash"]["value"], entry.leaf_hash_hex());
        assert_eq!(record["time"], Timestamp::parse(event["time"].as_str().unwrap()).unwrap().millis());
    }
}

#[tokio::test]
async fn a_denial_is_never_told_as_allowed() {
    for entry in samples::of_every_kind().await {
        for outcome in ["denied", "failed", "unknown"] {
            let mut event = samples::event(&entry);
            event["outcome"] = json!(outcome);
            let record = written(&samples::entry(&event));
            assert_ne!(record["status"], "Success", "{record}");
            if outcome == "denied" {
                assert_ne!(record["action"], "Allowed", "{record}");
            }
            if outcome == "failed" {
                let disposition = record.get("disposition").map_or("", |d| d.as_str().unwrap());
                assert!(!["Allowed", "Approved", "Restored"].contains(&disposition), "{record}");
            }
        }
    }
}

#[tokio::test]
async fn who_signed_with_which_key_and_who_acted_are_told_apart() {
    let whole = samples::journey().await;
    let first = |kind: &str| whole.iter().find(|e| samples::event(e)["type"] == kind).unwrap();
    let counted = first("approval.record_counted");
    let key = json!([{ "type": "Approver Key", "uid": "usr_mia-1" }]);
    let person = json!({ "uid": "usr_mia", "type_id": 1, "type": "User", "programmatic_credentials": key });
    assert_eq!(written(counted)["actor"], json!({ "user": person }));
    let mut handed_in = samples::event(counted);
    handed_in["actor"] = json!({ "kind": "client", "id": "review-desk" });
    let person = json!({ "uid": "usr_mia", "programmatic_credentials": key });
    let both = json!({ "user": person, "app_uid": "review-desk", "app_name": "Service" });
    assert_eq!(written(&entry(&handed_in))["actor"], both);
    let agent = json!({ "uid": "support-agent", "type_id": 4, "type": "Service" });
    assert_eq!(written(first("draft.propose"))["actor"], json!({ "user": agent }));
}
