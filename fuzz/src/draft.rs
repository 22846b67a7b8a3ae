//! Draft documents: what is read has one canonical form, and nothing but the key's places differs on the wire.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;
use writ::domain::digest::DraftHash;
use writ::domain::draft::{DraftDocument, IdempotencyKey, KEY_PLACEHOLDER};
use writ::domain::json::Json;
use writ::domain::money::Currency;
use writ::domain::time::Timestamp;

use super::edit;

static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let file: Value = serde_json::from_str(include_str!("../../tests/vectors/drafts.json")).unwrap();
    let vectors = file["vectors"].as_array().unwrap().iter();
    vectors
        .map(|vector| vector["canonical"].as_str().unwrap().as_bytes().to_vec())
        .collect()
});

/// The first byte chooses: bytes as they are, or changes to a good document.
pub fn check(input: &[u8]) {
    let (kind, rest) = edit::head(input);
    let good = &GOOD[usize::from(kind >> 1) % GOOD.len()];
    if kind & 1 == 0 {
        read(rest)
    } else {
        read(&edit::apply(good, rest))
    }
}

fn read(bytes: &[u8]) {
    let document = match DraftDocument::parse(bytes) {
        Ok(document) => document,
        Err(error) => {
            assert!(!error.reason.is_empty(), "{error:?}");
            return;
        }
    };
    let sealed = document.seal().expect("what was read can be sealed");
    assert_eq!(
        DraftDocument::parse(&sealed.bytes).as_ref(),
        Ok(&document),
        "the sealed bytes read differently"
    );
    assert_eq!(document.seal().unwrap(), sealed, "sealing twice gives two hashes");
    assert_eq!(sealed.hash, DraftHash::of_canonical(&sealed.bytes));
    assert_eq!(sealed.key, IdempotencyKey::of(&sealed.hash));
    let given = Json::parse_deeper(bytes).expect("what was read is strict JSON");
    let kept = Json::parse_deeper(&sealed.bytes).unwrap();
    assert_eq!(meant(&given), meant(&kept), "a member was dropped, added or changed");
    wire(&document, &sealed.key);
}

/// The document without what may be left out (null members, empty lists), times and currencies in one spelling.
fn meant(json: &Json) -> Json {
    match json {
        Json::Object(members) => {
            let kept = members
                .iter()
                .filter(|(_, value)| !matches!(value, Json::Null) && **value != Json::Array(Vec::new()));
            Json::Object(kept.map(|(name, value)| (name.clone(), meant(value))).collect::<BTreeMap<_, _>>())
        }
        Json::Array(items) => Json::Array(items.iter().map(meant).collect()),
        Json::String(text) => match Timestamp::parse(text) {
            Some(at) => Json::String(at.to_string()),
            None => Json::String(
                text.parse::<Currency>()
                    .map_or_else(|_| text.clone(), |currency| currency.to_string()),
            ),
        },
        plain => plain.clone(),
    }
}

fn wire(document: &DraftDocument, key: &IdempotencyKey) {
    let (body, wire) = (document.request.body.as_bytes(), document.request.wire_body(key));
    assert_eq!(wire.len(), body.len());
    let places: Vec<usize> = document.request.key_offsets.iter().map(|offset| *offset as usize).collect();
    for (at, (sent, approved)) in wire.iter().zip(body).enumerate() {
        let filled = places.iter().any(|place| (*place..*place + KEY_PLACEHOLDER.len()).contains(&at));
        assert!(sent == approved || filled, "byte {at} is not what was approved");
    }
}
