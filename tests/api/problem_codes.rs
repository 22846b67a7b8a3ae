//! `docs/problems.md` says of every code what the program says, and what to do about it.
//!
//! `WRIT_BLESS=1` writes the tables anew and keeps the last column, which people write.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use writ::http::Code;

use crate::support::peers::root;

const START: &str = "<!-- the tables below are held equal to src/http/problem/code.rs by a test -->";

/// The groups as they stand in the program: heading, and the first code of each.
const GROUPS: &[(&str, Code)] = &[
    ("Every call", Code::JsonInvalid),
    ("Drafts", Code::OperationUnknown),
    ("Approval records", Code::RecordTooLarge),
    ("The token endpoint", Code::GrantTypeUnsupported),
    ("Credentials and executions", Code::CredentialMissing),
    ("Stops, and what is taken back", Code::Stopped),
    ("Events of a backend's", Code::EventSignatureInvalid),
    ("The service itself", Code::StoreUnavailable),
];

/// The tables, with what to do from `advice`.
fn tables(advice: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for code in Code::ALL {
        if let Some((heading, _)) = GROUPS.iter().find(|(_, first)| first == code) {
            write!(
                text,
                "\n## {heading}\n\n| code | status | what it means | what to do |\n|---|---|---|---|\n"
            )
            .unwrap();
        }
        let what = advice.get(code.as_str()).map_or("", String::as_str);
        writeln!(text, "| `{}` | {} | {} | {what} |", code.as_str(), code.status(), code.title()).unwrap();
    }
    text
}

/// The last column of each row that the page has.
fn advice(page: &str) -> BTreeMap<String, String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let code = row.split('`').next()?;
        let last = row.trim_end_matches(" |").rsplit(" | ").next()?;
        Some((code.to_owned(), last.trim().to_owned()))
    })
    .collect()
}

#[test]
fn every_code_is_documented_with_its_status_its_meaning_and_what_to_do() {
    let path = root().join("docs/problems.md");
    let page = fs::read_to_string(&path).unwrap();
    let advice = advice(&page);
    let (words, _) = page.split_once(START).expect("the line that starts the tables is gone");
    let made = format!("{words}{START}\n{}", tables(&advice));
    if std::env::var_os("WRIT_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        kept == made,
        "docs/problems.md is not what the program says; run the tests once with WRIT_BLESS=1 and read the difference"
    );
    for code in Code::ALL {
        let what = advice.get(code.as_str()).map_or("", String::as_str);
        assert!(
            what.ends_with('.') && what.len() > 10,
            "docs/problems.md does not say what to do about {}",
            code.as_str()
        );
    }
}

#[test]
fn the_groups_cover_every_code_from_the_first() {
    assert_eq!(Code::ALL[0], GROUPS[0].1);
    assert!(GROUPS.iter().all(|(_, first)| Code::ALL.contains(first)));
}
