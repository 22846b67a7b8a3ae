//! The page of a case.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};
use writ::audit::export::page::{CaseEntry, CasePage, Command, content_security_policy, html};
use writ::audit::export::{Entry, ExportError};
use writ::domain::digest::Digest;
use writ::domain::text::escaped;
use writ::domain::time::Timestamp;

use super::samples::{self, entry};
use crate::support::peers::{output, python, script};

const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</pre></table></body></html>",
    "<!--",
    "]]>",
    "javascript:alert(1)",
    "&lt;script&gt;&amp;&#60;",
    "</style><style>*{display:none}",
    "</title><base href=//evil.example>",
    "a\nb\tc",
    "\u{202e}drawkcab\u{2066}",
    "`${1}`{{7*7}}",
];

fn decimals(operation: &str, currency: writ::domain::money::Currency) -> Option<u8> {
    (operation == "refund.create" && currency.as_str() == "usd").then_some(2)
}

/// The page of these entries, every text that is passed in made by `text`.
fn page_with(entries: &[Entry], text: impl Fn(&str) -> String) -> Result<String, ExportError> {
    let entries: Vec<CaseEntry> = entries
        .iter()
        .map(|entry| CaseEntry {
            entry: entry.clone(),
            verify: vec![text(&format!("writ audit verify case.zip --event {}", entry.seq))],
        })
        .collect();
    html(&CasePage {
        case_id: &text("case-1"),
        origin: &text(samples::ORIGIN),
        checkpoint: &text("writ.example/audit\n3\nABTaMap5HBH0HOxxgh0UrwQdgdErY4LMx0mP6SDKoj0=\n\n— writ.example/audit eWAtIe1x\n"),
        made_at: Timestamp::from_millis(1_790_000_000_000),
        findings: &[text("SELF-CONSISTENT, NOT ANCHORED")],
        entries: &entries,
        commands: &[Command {
            what: text("Every event of this case is in the log."),
            command: text("writ audit verify case.zip --trust log.policy"),
        }],
        decimals: &decimals,
    })
}

fn page(entries: &[Entry]) -> String {
    page_with(entries, str::to_owned).unwrap()
}

/// The markup without the text between it.
fn markup(page: &str) -> Vec<&str> {
    let pieces = page.split('<').skip(1);
    pieces.map(|piece| piece.split_once('>').expect("an open bracket").0).collect()
}

/// The text without the markup between it.
fn text(page: &str) -> String {
    let pieces = page.split('<').skip(1);
    let text: String = pieces.map(|piece| piece.split_once('>').unwrap().1).collect();
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#96;", "`")
        .replace("&amp;", "&")
}

/// The page as html5lib reads it; nothing on a machine without Python.
fn parsed(page: &str) -> Option<Value> {
    let mut python = python()?;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), page).unwrap();
    Some(serde_json::from_str(&output(python.arg(script("read_page.py")).arg(file.path()))).unwrap())
}

/// What a page must be whatever stands in it.
fn is_harmless(read: &Value) {
    assert_eq!(read["errors"], json!([]));
    let known = [
        "html", "head", "meta", "title", "style", "body", "header", "section", "h1", "h2", "h3", "p", "strong", "a", "dl", "dt", "dd",
        "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "span", "br",
    ];
    for name in read["elements"].as_object().unwrap().keys() {
        assert!(known.contains(&name.as_str()), "{name}");
    }
    for attribute in read["attributes"].as_array().unwrap() {
        let [element, name, value] = [0, 1, 2].map(|n| attribute[n].as_str().unwrap());
        match name {
            "href" => assert!(element == "a" && value.starts_with('#'), "{value}"),
            "lang" | "charset" | "http-equiv" | "content" | "name" | "class" | "id" | "scope" => {}
            _ => panic!("{element} has {name}"),
        }
    }
}

/// The fullest event of every type that a draft can have, with this text wherever one may stand.
fn entries_full_of(text: &str, like: &[Entry]) -> Vec<Entry> {
    let mut out = Vec::new();
    for (n, like) in like.iter().enumerate() {
        let mut event = samples::event(like);
        for at in samples::free_texts(&event) {
            *event.pointer_mut(&at).unwrap() = json!(text);
        }
        event["seq"] = json!(n);
        out.push(entry(&event));
    }
    out
}

#[tokio::test]
async fn no_text_in_any_field_becomes_markup() {
    let like = samples::of_every_kind().await;
    let harmless = page_with(&entries_full_of("plain", &like), |_| "plain".to_owned()).unwrap();
    for hostile in HOSTILE {
        let entries = entries_full_of(hostile, &like);
        let page = page_with(&entries, |_| (*hostile).to_owned()).unwrap();
        assert_eq!(markup(&page), markup(&harmless), "{hostile}");
        assert!(text(&page).contains(&escaped(hostile)), "{hostile}");
        assert!(!page.contains('\u{202e}') && !page.contains('\u{2066}'));
        if let Some(read) = parsed(&page) {
            is_harmless(&read);
            assert!(read["text"].as_str().unwrap().contains(&escaped(hostile)), "{hostile}");
        }
    }
}

#[tokio::test]
async fn a_leaf_that_was_changed_makes_no_page() {
    let mut entries = samples::journey().await;
    entries[3].leaf[10] ^= 1;
    assert!(matches!(page_with(&entries, str::to_owned), Err(ExportError::OtherHash { seq: 3 })));
}

#[tokio::test]
async fn a_journey_is_told_in_order_with_who_what_and_which_key() {
    let entries = samples::journey().await;
    let whole: Vec<Value> = entries.iter().map(samples::event).collect();
    let html = page(&entries);
    let told = text(&html);
    let first = whole.iter().find(|e| e["type"] == "draft.propose").unwrap();
    let start = told.find(&format!("Draft {}", first["draft"]["id"].as_str().unwrap())).unwrap();
    let mut at = start;
    for heading in [
        "What was asked",
        "What the policy said",
        "Who approved, and with which key",
        "The life of the credential",
        "The key and the attempts",
        "What the backend answered",
    ] {
        at += told[at..].find(heading).unwrap_or_else(|| panic!("{heading} is not in its place"));
    }
    assert!(told.contains("240.00 USD (24000 minor units)"));
    assert!(told.contains("40.00 USD (4000 minor units)"));
    assert!(told.contains("approve by usr_mia with key usr_mia-1"));
    for event in &whole {
        for part in [
            "/policy/rules/0",
            "/credential/id",
            "/execution/idempotency_key",
            "/provider/reference",
            "/approval/record_sha256",
            "/code",
        ] {
            if let Some(value) = event.pointer(part).and_then(Value::as_str) {
                assert!(told.contains(value), "{part} of {event}");
            }
        }
    }
    for entry in &entries {
        assert!(html.contains(&format!("id=\"event-{}\"", entry.seq)));
        assert!(told.contains(&entry.leaf_hash_hex()));
        assert!(told.contains(&format!("writ audit verify case.zip --event {}", entry.seq)));
    }
    // The credential that was tried for another draft names only itself.
    let tried = whole.iter().find(|e| e["type"] == "credential.use_denied").unwrap();
    assert!(tried.get("draft").is_none());
    let second = told[start + 1..].find("Draft drf_").unwrap() + start + 1;
    assert!(told[start..second].contains(tried["code"].as_str().unwrap()));
    assert!(html.contains("<dt>The approval is</dt><dd>granted</dd>"));
    let denials = told.find("Every denial").unwrap();
    let checks = told.rfind("How to check this page").unwrap();
    let denied: Vec<&Value> = whole.iter().filter(|e| e["outcome"] == "denied").collect();
    assert!(denied.len() >= 2, "{denied:?}");
    for event in denied {
        assert!(told[denials..checks].contains(event["code"].as_str().unwrap()), "{event}");
    }
    assert!(told.contains("SELF-CONSISTENT, NOT ANCHORED"));
    assert!(told.contains("— writ.example/audit eWAtIe1x"));
}

#[tokio::test]
async fn the_page_is_valid_html_without_scripts_and_without_anything_from_elsewhere() {
    let html = page(&samples::journey().await);
    let tags = markup(&html).join("\n");
    for never in ["script", "src=", "url(", "http://", "https://", " on", "style="] {
        assert!(!tags.contains(never), "{never}");
    }
    let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    for never in ["url(", "@import", "expression", "http", "<"] {
        assert!(!style.contains(never), "{never}");
    }
    assert!(style.contains("@media print"));
    let hash = STANDARD.encode(Digest::of(style.as_bytes()).as_bytes());
    assert!(content_security_policy().contains(&format!("style-src 'sha256-{hash}'")));
    if let Some(read) = parsed(&html) {
        is_harmless(&read);
        let policies: Vec<&Value> = read["attributes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|a| a[1] == "content" && a[2].as_str().unwrap().starts_with("default-src"))
            .collect();
        assert_eq!(policies.len(), 1);
        assert_eq!(policies[0][2], content_security_policy());
    }
}

#[tokio::test]
async fn an_amount_without_known_decimals_stands_in_minor_units() {
    let mut event = samples::fullest(&samples::journey().await);
    event["type"] = json!("draft.propose");
    event["amount"] = json!({ "minor": 24_000, "currency": "jpy" });
    let told = text(&page(&[entry(&event)]));
    assert!(told.contains("24000 minor units of JPY") && !told.contains("240.00"));
}

#[tokio::test]
async fn the_numbers_of_the_case_say_whether_one_is_missing() {
    let event = samples::fullest(&samples::journey().await);
    let numbered = |numbers: &[i64]| {
        let entries = numbers.iter().enumerate().map(|(seq, n)| {
            let mut event = event.clone();
            event["seq"] = json!(seq);
            match *n {
                n if n < 0 => drop(event.as_object_mut().unwrap().remove("case")),
                n => event["case"]["n"] = json!(n),
            }
            entry(&event)
        });
        text(&page(&entries.collect::<Vec<_>>()))
    };
    assert!(numbered(&[1, 2, 3]).contains("1 to 3 within the case, none missing between them"));
    for gap in [&[1, 3][..], &[2, 3], &[1, 1, 2], &[0, 2], &[1, 9_007_199_254_740_991]] {
        let told = numbered(gap);
        assert!(
            told.contains("NOT COMPLETE") && !told.contains("none missing between them"),
            "{gap:?}"
        );
    }
    assert!(numbered(&[1, -1]).contains("1 of the events do not say which of the case they are"));
}

#[test]
fn a_case_without_events_says_so() {
    let html = page(&[]);
    assert!(html.contains("<dt>Events</dt><dd>0</dd>"));
    assert!(text(&html).contains("Nothing was denied."));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_breaks_the_page(any in "\\PC{0,16}", made in proptest::collection::vec(any::<char>(), 0..16)) {
        let event = |text: &str| json!({
            "seq": 0, "type": "approval.grant", "time": "2026-09-21T14:13:20.000Z", "outcome": "denied", "actor": { "kind": "client", "id": text }, "code": text,
            "case_id": text, "operation": text, "resource": { "type": text, "id": text, "version": text }, "draft": { "id": text, "hash": text },
            "approval": { "id": text, "approver": text, "kid": text, "decision": "approve" }, "stop": { "id": text, "scope": text, "value": text },
            "state": { "from": text, "to": text },
        });
        let plain = page_with(&[entry(&event("plain"))], |_| "plain".to_owned()).unwrap();
        let made: String = made.into_iter().collect();
        let hostile = page_with(&[entry(&event(&any))], |_| made.clone()).unwrap();
        prop_assert_eq!(markup(&hostile), markup(&plain));
        prop_assert!(text(&hostile).contains(&escaped(&any)));
        prop_assert!(hostile.chars().all(|c| !c.is_control() || c == '\n'));
    }
}
