//! `docs/export.md` says what the formats say. `WRIT_BLESS=1` writes its two generated tables anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use writ::audit::EventKind;
use writ::audit::export::csv;
use writ::audit::export::ocsf::{Class, Mapping, mapping};

use super::ocsf::written;
use super::samples;
use crate::support::peers::root;

const COLUMNS: (&str, &str) = (
    "<!-- columns: held equal to the program by a test -->\n",
    "<!-- end of columns -->\n",
);
const MAPPING: (&str, &str) = (
    "<!-- mapping: held equal to the program by a test -->\n",
    "<!-- end of mapping -->\n",
);

fn columns() -> String {
    let mut out = "| column | what stands in it |\n|---|---|\n".to_owned();
    for (name, what) in csv::columns() {
        writeln!(out, "| `{name}` | {what} |").unwrap();
    }
    out
}

fn row(kind: &str, mapping: Mapping) -> String {
    let (class, activity, entity) = match mapping.class() {
        Class::Entity(activity, entity) => {
            let uid = entity.uid().join(".");
            let uid = if uid.is_empty() { String::new() } else { format!(" (`{uid}`)") };
            (
                3004,
                format!("{} {}", activity.number(), activity.caption()),
                format!("{}{uid}", entity.caption()),
            )
        }
        Class::Api(activity) => (6003, format!("{} {}", activity.number(), activity.caption()), String::new()),
    };
    let disposition = mapping
        .disposition()
        .map_or(String::new(), |d| format!("{} {}", d.number(), d.caption()));
    let alert = if mapping.is_alert() { "yes" } else { "" };
    format!("| `{kind}` | {class} | {activity} | {entity} | {disposition} | {alert} |\n")
}

fn mappings() -> String {
    let rows = EventKind::all().map(|kind| row(kind.as_str(), mapping(kind)));
    "| type | class | activity | entity (its uid) | disposition | alert |\n|---|---|---|---|---|---|\n".to_owned()
        + &rows.collect::<String>()
}

/// The page with this text between the two marks.
fn replaced(page: &str, (start, end): (&str, &str), table: &str) -> String {
    let (before, rest) = page.split_once(start).unwrap_or_else(|| panic!("docs/export.md has lost {start}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("docs/export.md has lost {end}"));
    format!("{before}{start}{table}{end}{after}")
}

#[test]
fn the_tables_are_what_the_program_says() {
    let path = root().join("docs/export.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let made = replaced(&replaced(&page, COLUMNS, &columns()), MAPPING, &mappings());
    if std::env::var_os("WRIT_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        kept == made,
        "docs/export.md is not what the program says; run the tests once with WRIT_BLESS=1 and read the difference"
    );
}

/// The rows of the table of members: the class if it is only one, the event's member, and where it goes.
fn members() -> Vec<(Option<u64>, String, String)> {
    let page = std::fs::read_to_string(root().join("docs/export.md")).unwrap();
    let (_, table) = page
        .split_once("| of the event | in the record |")
        .expect("the table of members is gone");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let pointer = |cell: &str| format!("/{}", cell.trim_matches(['`', ' ']).replace(['.', '['], "/").replace(']', ""));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let class = cells[2].parse().ok();
        (class, pointer(cells[0]), pointer(cells[1]))
    })
    .collect()
}

#[tokio::test]
async fn every_member_goes_where_the_page_says_and_the_rest_is_unmapped() {
    let members = members();
    assert!(members.len() > 20, "{members:?}");
    let mut used = BTreeMap::new();
    for entry in samples::of_every_kind().await {
        let (event, record) = (samples::event(&entry), written(&entry));
        let mut places = Vec::new();
        samples::places(&event, String::new(), &mut places);
        let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for at in places {
            let value = event.pointer(&at).unwrap();
            let class = record["class_uid"].as_u64();
            let row = members
                .iter()
                .find(|(of, from, _)| (of.is_none() || *of == class) && (at == *from || at.starts_with(&format!("{from}/"))));
            if let Some((_, from, to)) = row {
                let to = format!("{to}{}", &at[from.len()..]);
                let found = record.pointer(&to).unwrap_or_else(|| panic!("{at} is not at {to} of {record}"));
                assert_eq!(words(found), words(value), "{at} at {to}");
                used.insert((from.clone(), class), ());
            } else if !told_in_words(&at, &record) {
                let found = record["unmapped"].pointer(&at);
                assert_eq!(found, Some(value), "{at} of {event} is not in what is unmapped of {record}");
            }
        }
    }
    for (class, from, _) in &members {
        let classes = class.map_or(vec![3004, 6003], |class| vec![class]);
        for class in classes {
            assert!(used.contains_key(&(from.clone(), Some(class))), "no sample shows {from} in {class}");
        }
    }
}

/// What the record says in the standard's words, and the uid of the entity, which the other table names.
fn told_in_words(at: &str, record: &Value) -> bool {
    let entity = EventKind::all()
        .filter_map(|kind| match mapping(kind).class() {
            Class::Entity(_, entity) if record["metadata"]["event_code"] == kind.as_str() => Some(format!("/{}", entity.uid().join("/"))),
            _ => None,
        })
        .next();
    let actor = ["/actor/id", "/approval/approver", "/approval/kid"].contains(&at);
    ["/outcome", "/actor/kind"].contains(&at) || actor || (entity.as_deref() == Some(at) && record["entity"].get("uid").is_some())
}
