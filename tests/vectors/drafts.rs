//! `drafts.json`: a draft document, its canonical bytes, its hash and its idempotency key.
//!
//! The file is made from the documents below and compared with what is checked in. `WRIT_BLESS=1` writes it anew; a changed vector means that
//! stored drafts no longer hash to what was approved, so do that only for a new vector or a new version of the document.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::draft::{
    AdapterRef, CompiledRequest, DraftDocument, Evidence, IdempotencyKey, KEY_PLACEHOLDER, KeyPlacement, Maker, Resource,
};
use writ::domain::json::Json;
use writ::domain::money::{MAX_SAFE_INTEGER, Money};
use writ::domain::operation::Consequence;
use writ::domain::policy::PolicyRef;
use writ::domain::time::Timestamp;

use crate::support::peers::root;

const FILE: &str = "tests/vectors/drafts.json";

fn request(backend: &str, body: &str, key: KeyPlacement) -> CompiledRequest {
    let offsets = body.match_indices(KEY_PLACEHOLDER).map(|(at, _)| u32::try_from(at).unwrap());
    CompiledRequest {
        backend: backend.parse().unwrap(),
        method: "POST".to_owned(),
        url: "https://api.example.com/v1/refunds".to_owned(),
        headers: BTreeMap::from([("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())]),
        body: body.to_owned(),
        body_sha256: Digest::of(body.as_bytes()),
        key_offsets: if key == KeyPlacement::Body { offsets.collect() } else { Vec::new() },
        idempotency_key: key,
    }
}

fn header(quoted: bool) -> KeyPlacement {
    KeyPlacement::Header {
        name: "idempotency-key".to_owned(),
        quoted,
    }
}

/// A draft with nothing in it that may be left out.
fn least() -> DraftDocument {
    DraftDocument {
        v: 1,
        id: "drf_0192f0c1a2b37c4d8e5f60718293a4b5".parse().unwrap(),
        salt: "AAECAwQFBgcICQoLDA0ODw".to_owned(),
        tenant: "acme".parse().unwrap(),
        operation: "refund.create".parse().unwrap(),
        consequence: Consequence::Money,
        resource: Resource {
            kind: "charge".parse().unwrap(),
            id: "ch_3Rw4821blender".parse().unwrap(),
            version: None,
        },
        amount: None,
        parameters: Json::Object(BTreeMap::new()),
        maker: Maker {
            client: "support-agent".parse().unwrap(),
            owner: None,
        },
        on_behalf_of: None,
        case_id: None,
        reason_code: None,
        evidence: Vec::new(),
        facts: Json::Object(BTreeMap::new()),
        request: request("stripe", "", KeyPlacement::None),
        on_failure: "no refund is created".to_owned(),
        adapter: AdapterRef {
            name: "stripe".parse().unwrap(),
            sha256: Digest::of(b"adapter"),
        },
        policy: PolicyRef {
            id: "refunds".to_owned(),
            version: 1,
            sha256: Digest::of(b"policy"),
            limits_sha256: Digest::of(b"limits"),
        },
        supersedes: None,
        created_at: Timestamp::from_millis(1_790_000_000_000),
        expires_at: Timestamp::from_millis(1_790_000_900_000),
    }
}

/// A refund with every member that a refund can have.
fn refund() -> DraftDocument {
    DraftDocument {
        amount: Some(Money::new(24_000, "usd".parse().unwrap()).unwrap()),
        parameters: parameters(
            json!({"charge": "ch_3Rw4821blender", "amount": 24_000, "currency": "usd", "reason": "requested_by_customer"}),
        ),
        maker: Maker {
            client: "support-agent".parse().unwrap(),
            owner: Some("usr_mia".parse().unwrap()),
        },
        on_behalf_of: Some("usr_tom".parse().unwrap()),
        case_id: Some("case-4821".parse().unwrap()),
        reason_code: Some("damaged_item".to_owned()),
        evidence: vec![Evidence {
            kind: "photo".to_owned(),
            sha256: Digest::of(b"a cracked jug"),
        }],
        facts: parameters(json!({"charge": {"amount": 40_000, "amount_refunded": 0, "currency": "usd"}})),
        request: request("stripe", "charge=ch_3Rw4821blender&amount=24000", header(false)),
        ..least()
    }
}

fn parameters(value: Value) -> Json {
    Json::from_value(&value).unwrap()
}

fn with(value: Value) -> DraftDocument {
    DraftDocument {
        parameters: parameters(value),
        ..refund()
    }
}

fn in_body(body: String) -> DraftDocument {
    DraftDocument {
        request: request("square", &body, KeyPlacement::Body),
        ..refund()
    }
}

fn documents() -> Vec<(&'static str, DraftDocument)> {
    vec![
        ("nothing that may be left out", least()),
        ("a refund with everything", refund()),
        (
            "the same refund under another salt",
            DraftDocument {
                salt: "DwAOAQ0CDAMLBAoFCQYIBw".to_owned(),
                ..refund()
            },
        ),
        (
            "a refund that replaces another draft",
            DraftDocument {
                supersedes: Some("drf_0192f0c1a2b37c4d8e5f60718293a4b4".parse().unwrap()),
                ..refund()
            },
        ),
        (
            "text in several scripts",
            with(json!({"note": "déjà vu", "größe": "straße", "注": "退款", "ملاحظة": "استرداد"})),
        ),
        ("composed letters are not decomposed", with(json!({"note": "caf\u{e9}"}))),
        ("decomposed letters are not composed", with(json!({"note": "cafe\u{301}"}))),
        (
            "keys in the order of UTF-16, not of code points",
            with(
                json!({"\u{20ac}": 1, "\u{10000}": 2, "\u{ffed}": 3, "\u{fb33}": 4, "\u{1f600}": 5, "\u{e9}": 6, "": 7, "a": 8, "A": 9, "aa": 10, "a\u{301}": 11}),
            ),
        ),
        (
            "keys that mean something to JavaScript",
            with(json!({"__proto__": {"x": 1}, "constructor": 2, "toString": 3, "length": 4, "10": 5, "9": 6, "01": 7})),
        ),
        ("emoji, joined and with modifiers", with(json!({"note": "👍🏽 👩‍👩‍👧‍👦 🇵🇹 ❤️", "🧾": "🫠"}))),
        (
            "characters that are escaped, and some that are not",
            with(
                json!({"note": "\"quoted\" back\\slash /slash\ttab\nline </script> \u{2028}\u{2029} \u{a0} \u{feff} \u{fffd}", "a\"b\\c\n": "'<>&"}),
            ),
        ),
        (
            "the largest and the smallest integers",
            with(
                json!({"most": MAX_SAFE_INTEGER, "least": -MAX_SAFE_INTEGER, "nought": 0, "minus": -1, "list": [MAX_SAFE_INTEGER - 1, 1_000_000_000]}),
            ),
        ),
        (
            "every kind of value, nested and empty",
            with(
                json!({"null": null, "yes": true, "no": false, "o": {}, "a": [], "deep": [[[[[[1]]]]]], "mixed": [null, "", 0, {"": ""}]}),
            ),
        ),
        (
            "a key in a header, in quotation marks",
            DraftDocument {
                request: request("ietf", "amount=24000", header(true)),
                ..refund()
            },
        ),
        (
            "a key in a JSON body",
            in_body(format!(
                r#"{{"amount_money":{{"amount":24000,"currency":"USD"}},"idempotency_key":"{KEY_PLACEHOLDER}"}}"#
            )),
        ),
        (
            "a key at two places of a body, after letters of several bytes",
            in_body(format!("note=é😀&key={KEY_PLACEHOLDER}&ref=ü-{KEY_PLACEHOLDER}-z")),
        ),
        (
            "an address change that names a version",
            DraftDocument {
                operation: "shipping_address.update".parse().unwrap(),
                consequence: Consequence::Write,
                resource: Resource {
                    kind: "customer".parse().unwrap(),
                    id: "cus_88".parse().unwrap(),
                    version: Some("\"1\"".to_owned()),
                },
                amount: None,
                parameters: parameters(json!({"customer": "cus_88", "shipping_address": {"line1": "7 Oak Road", "line2": null}})),
                request: CompiledRequest {
                    method: "PATCH".to_owned(),
                    url: "http://127.0.0.1:8080/customers/cus_88".to_owned(),
                    headers: BTreeMap::from([
                        ("if-match".to_owned(), "\"1\"".to_owned()),
                        ("content-type".to_owned(), "application/json".to_owned()),
                    ]),
                    ..request("shop", r#"{"shipping_address":{"line1":"7 Oak Road"}}"#, header(false))
                },
                on_failure: "the address stays as it is".to_owned(),
                ..refund()
            },
        ),
    ]
}

fn vector((name, document): &(&str, DraftDocument)) -> Value {
    let sealed = document.seal().unwrap();
    json!({
        "name": name,
        "input": document,
        "canonical": String::from_utf8(sealed.bytes).unwrap(),
        "draft_hash": sealed.hash,
        "idempotency_key": sealed.key,
        "wire_body": String::from_utf8(document.request.wire_body(&sealed.key)).unwrap(),
    })
}

#[test]
fn drafts_hash_to_what_is_written_down() {
    let vectors: Vec<Value> = documents().iter().map(vector).collect();
    let file = json!({
        "draft_tag": DraftHash::TAG,
        "key_tag": IdempotencyKey::TAG,
        "placeholder": KEY_PLACEHOLDER,
        "vectors": vectors,
    });
    let made = format!("{}\n", serde_json::to_string_pretty(&file).unwrap());
    let path = root().join(FILE);
    if std::env::var_os("WRIT_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        made == written,
        "{FILE} differs from what the code makes; if that is meant, run the test with WRIT_BLESS=1 and read the difference"
    );
}

#[test]
fn a_stored_draft_reads_back_as_the_document_it_was_made_from() {
    for (name, document) in documents() {
        let sealed = document.seal().unwrap();
        assert_eq!(DraftDocument::parse(&sealed.bytes).unwrap(), document, "{name}");
    }
}

#[test]
fn no_two_drafts_share_a_hash_or_a_key() {
    let sealed: Vec<_> = documents().iter().map(|(_, document)| document.seal().unwrap()).collect();
    let hashes: BTreeSet<_> = sealed.iter().map(|draft| draft.hash).collect();
    let keys: BTreeSet<_> = sealed.iter().map(|draft| draft.key).collect();
    assert_eq!((hashes.len(), keys.len()), (sealed.len(), sealed.len()));
}
