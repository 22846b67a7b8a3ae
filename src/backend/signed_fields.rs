//! Events that carry their signature in the body: HMAC-SHA256, in Base64, over some of their values, joined by colons.
//!
//! Only those values are signed. So an event is read back from the bytes that were signed, and nothing else of its body is kept: no rule can look at
//! what somebody on the way could have changed. No time is signed either. What keeps a repetition harmless is the event's id, which is made of signed
//! values too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Map, Value};

use super::answer::pointer_at;
use super::unique_json;
use super::webhook::{BackendEvent, EventError, is_name};
use crate::domain::digest::Digest;
use crate::settings::Section;

/// What stands between two values when they are signed. It is not escaped, so a value that holds it has no certain end.
const SEPARATOR: char = ':';
/// The most values that are signed.
const MAX_SIGNED: usize = 16;

/// Where the values and the signature stand. All places but `list` are within the one item.
#[derive(Debug, Clone)]
pub(super) struct SignedFields {
    /// The list that holds exactly one entry.
    list: String,
    /// The item in that entry.
    item: String,
    /// The signature.
    given: String,
    /// The signed values, in the order in which they are joined.
    signed: Vec<String>,
    /// Those of them that are whole numbers; the others are texts.
    numbers: Vec<String>,
    /// Those of them that make the event's id.
    id: Vec<String>,
    /// The one of them that is the event's type.
    kind: String,
}

impl SignedFields {
    /// Reads the keys of this scheme from the table `webhook`.
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let at = |key: &str, expected: &str| section.text(key, expected).and_then(|text| pointer_at(section, key, text));
        let list = at("list", "a JSON pointer to the list that holds the event");
        let item = at("item", "a JSON pointer to the event in the one entry of `list`");
        let given = at("given", "a JSON pointer to the signature, within `item`");
        let kind = at("type", "a JSON pointer to the type, one of `signed`");
        let many =
            |key: &str| -> Option<Vec<String>> { section.texts(key).into_iter().map(|text| pointer_at(section, key, text)).collect() };
        let (signed, numbers, id) = (many("signed")?, many("numbers")?, many("id")?);
        if signed.is_empty() || signed.len() > MAX_SIGNED {
            section.wrong(
                "signed",
                format!("expected 1 to {MAX_SIGNED} JSON pointers, in the order in which the values are signed"),
            );
        }
        for (index, place) in signed.iter().enumerate() {
            let clashes = |other: &String| other == place || other.starts_with(&format!("{place}/"));
            if signed.iter().enumerate().any(|(other, text)| other != index && clashes(text)) {
                section.wrong(
                    "signed",
                    format!("`{place}` stands here twice, or above another: each is one value"),
                );
            }
            if place.contains('~') || place.split('/').skip(1).any(str::is_empty) {
                section.wrong(
                    "signed",
                    format!("`{place}` is not a plain place: expected names between slashes, without `~`"),
                );
            }
        }
        if id.is_empty() {
            section.wrong("id", "is missing or empty: list the signed places that tell one event from another");
        }
        let named = [("numbers", &numbers), ("id", &id)];
        let named = named
            .into_iter()
            .flat_map(|(key, places)| places.iter().map(move |place| (key, place)));
        for (key, place) in named.chain(kind.iter().map(|place| ("type", place))) {
            if !signed.contains(place) {
                section.wrong(
                    key,
                    format!("`{place}` is not one of `signed`: whoever delivers the event could change it"),
                );
            }
        }
        Some(Self {
            list: list?,
            item: item?,
            given: given?,
            signed,
            numbers,
            id,
            kind: kind?,
        })
    }

    /// The places that are signed.
    pub(super) fn signed(&self) -> &[String] {
        &self.signed
    }

    /// The event, if its values were signed under one of the keys.
    pub(super) fn open(&self, keys: &[hmac::Key], body: &[u8]) -> Result<BackendEvent, EventError> {
        let body = unique_json::parse(body).map_err(|why| EventError::not_json(&why))?;
        let item = self.item(&body)?;
        let given = item
            .pointer(&self.given)
            .and_then(Value::as_str)
            .and_then(|text| STANDARD.decode(text).ok());
        let given = given
            .filter(|bytes| bytes.len() == 32)
            .ok_or(EventError::SignatureMissing("the event, as 32 bytes in Base64"))?;
        let signed = self.joined(item).ok_or(EventError::SignatureInvalid)?;
        if !keys.iter().any(|key| hmac::verify(key, signed.as_bytes(), &given).is_ok()) {
            return Err(EventError::SignatureInvalid);
        }
        Ok(self.event(&signed))
    }

    /// The one item of the body.
    fn item<'b>(&self, body: &'b Value) -> Result<&'b Value, EventError> {
        let malformed = |what: String| EventError::Malformed(format!("the event {what}"));
        match body.pointer(&self.list).and_then(Value::as_array).map(Vec::as_slice) {
            Some([one]) => one
                .pointer(&self.item)
                .filter(|item| item.is_object())
                .ok_or_else(|| malformed(format!("has no object at {} in its one entry", self.item))),
            Some(entries) => Err(malformed(format!(
                "has {} entries at {}: expected exactly one",
                entries.len(),
                self.list
            ))),
            None => Err(malformed(format!("has no list at {}", self.list))),
        }
    }

    /// The bytes that are signed. What is not there or is null counts as empty; what is no single value cannot have been signed.
    fn joined(&self, item: &Value) -> Option<String> {
        let texts: Option<Vec<String>> = self
            .signed
            .iter()
            .map(|place| match item.pointer(place) {
                None | Some(Value::Null) => Some(String::new()),
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Bool(flag)) => Some(flag.to_string()),
                Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Some(number.to_string()),
                Some(_) => None,
            })
            .collect();
        texts.map(|texts| texts.join(&SEPARATOR.to_string()))
    }

    /// What was signed, as an event. It follows from these bytes alone, so whoever signs them the same has said the same.
    fn event(&self, signed: &str) -> BackendEvent {
        let parts: Vec<&str> = signed.split(SEPARATOR).collect();
        let sha256 = Digest::of(signed.as_bytes());
        let read = (parts.len() == self.signed.len()).then(|| self.named(&parts)).flatten();
        let Some((id, kind)) = read else {
            return BackendEvent {
                id: sha256.to_string(),
                kind: None,
                sha256,
                body: Value::Null,
            };
        };
        let mut body = Map::new();
        for (place, part) in self.signed.iter().zip(&parts) {
            if let Some(value) = self.value(place, part) {
                put(&mut body, place.trim_start_matches('/'), value);
            }
        }
        BackendEvent {
            id,
            kind: Some(kind),
            sha256,
            body: Value::Object(body),
        }
    }

    /// The event's id and type; `None` if they cannot be such.
    fn named(&self, parts: &[&str]) -> Option<(String, String)> {
        let part = |wanted: &String| {
            self.signed
                .iter()
                .zip(parts)
                .find(|(place, _)| *place == wanted)
                .map(|(_, part)| *part)
        };
        let id = self
            .id
            .iter()
            .map(part)
            .collect::<Option<Vec<&str>>>()?
            .join(&SEPARATOR.to_string());
        let kind = part(&self.kind)?;
        (is_name(&id) && is_name(kind)).then(|| (id, kind.to_owned()))
    }

    /// A signed value, of the kind that the file says; `None` if it is empty, or no whole number where one belongs.
    fn value(&self, place: &String, part: &str) -> Option<Value> {
        if part.is_empty() {
            return None;
        }
        if !self.numbers.contains(place) {
            return Some(Value::from(part));
        }
        part.parse::<i64>()
            .ok()
            .filter(|number| number.to_string() == part)
            .map(Value::from)
    }
}

/// Puts a value at a place of names between slashes.
fn put(body: &mut Map<String, Value>, place: &str, value: Value) {
    match place.split_once('/') {
        None => {
            body.insert(place.to_owned(), value);
        }
        Some((name, below)) => {
            if let Value::Object(inner) = body.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                put(inner, below, value);
            }
        }
    }
}
