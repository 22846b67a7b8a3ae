//! JSON, read once and strictly, in the subset that every language reads alike.
//!
//! RFC 7493 (I-JSON) and then narrower: no fractions or exponents, integers within ±(2^53 − 1), no duplicate keys at any
//! depth, no lone surrogates, no control characters or noncharacters. What is left has one canonical form (RFC 8785), and two programs cannot
//! understand it differently.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use super::money::MAX_SAFE_INTEGER;

/// The deepest nesting that is read.
pub const MAX_DEPTH: usize = 8;

/// A JSON value that cannot hold a fraction, a duplicate key or an inexact integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer within ±(2^53 − 1).
    Integer(i64),
    /// Text without control characters or noncharacters.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, its keys unique.
    Object(BTreeMap<String, Json>),
}

/// Why a JSON text was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", if pointer.is_empty() { "the document" } else { pointer.as_str() })]
pub struct JsonError {
    /// JSON pointer (RFC 6901) to the offending place; empty for the document itself.
    pub pointer: String,
    /// What is wrong and what is expected.
    pub reason: String,
}

impl JsonError {
    /// Both parts may hold text of whoever wrote the document, so they are cut: a long name must not come back several times as long.
    fn at(pointer: &str, reason: &impl fmt::Display) -> Self {
        let cut = |text: String| match text.chars().count() {
            0..=160 => text,
            _ => text.chars().take(160).chain(['…']).collect(),
        };
        Self {
            pointer: cut(pointer.to_owned()),
            reason: cut(reason.to_string()),
        }
    }
}

impl Json {
    /// Reads one JSON value, strictly.
    ///
    /// # Errors
    /// [`JsonError`] with the place and the reason.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        Self::read(bytes, MAX_DEPTH)
    }

    /// As [`Json::parse`], for documents that this program wrote itself, which nest deeper than what a caller may send.
    ///
    /// # Errors
    /// [`JsonError`] with the place and the reason.
    pub fn parse_deeper(bytes: &[u8]) -> Result<Self, JsonError> {
        Self::read(bytes, 32)
    }

    fn read(bytes: &[u8], allowed: usize) -> Result<Self, JsonError> {
        let trail = Trail {
            path: RefCell::default(),
            allowed,
        };
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let parsed = Seed { trail: &trail, depth: 0 }.deserialize(&mut deserializer);
        let done = parsed.and_then(|value| deserializer.end().map(|()| value));
        done.map_err(|error| JsonError::at(&trail.pointer(), &error))
    }

    /// The canonical bytes (RFC 8785).
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        // Cannot fail: no floats, and every key is text.
        serde_json_canonicalizer::to_vec(self).unwrap_or_default()
    }

    /// Turns the value into a typed one; unknown and missing members are named with their place.
    ///
    /// # Errors
    /// [`JsonError`] with the place and the reason.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_path_to_error::deserialize(self.to_value()).map_err(|error| {
            let pointer = error.path().iter().fold(String::new(), |at, segment| match segment {
                serde_path_to_error::Segment::Map { key } => format!("{at}/{}", escape_pointer(key)),
                serde_path_to_error::Segment::Seq { index } => format!("{at}/{index}"),
                _ => at,
            });
            JsonError::at(&pointer, error.inner())
        })
    }

    /// The same value in the type other libraries take.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(b) => (*b).into(),
            Self::Integer(n) => (*n).into(),
            Self::String(s) => s.as_str().into(),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(members) => serde_json::Value::Object(members.iter().map(|(k, v)| (k.clone(), v.to_value())).collect()),
        }
    }

    /// From a value of another library, under the same rules as [`Json::parse`].
    ///
    /// # Errors
    /// [`JsonError`] with the place and the reason.
    pub fn from_value(value: &serde_json::Value) -> Result<Self, JsonError> {
        let bytes = serde_json::to_vec(value).map_err(|error| JsonError::at("", &error))?;
        Self::parse(&bytes)
    }

    /// The member of an object, if this is one and has it.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&Self> {
        if let Self::Object(members) = self { members.get(key) } else { None }
    }

    /// The text, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The integer, if this is one.
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(n) = self { Some(*n) } else { None }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Integer(n) => serializer.serialize_i64(*n),
            Self::String(s) => serializer.serialize_str(s),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => serializer.collect_map(members),
        }
    }
}

impl<'de> de::Deserialize<'de> for Json {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Seed {
            trail: &Trail::default(),
            depth: 0,
        }
        .deserialize(deserializer)
    }
}

/// The canonical bytes (RFC 8785) of a serialisable value without floats.
///
/// # Errors
/// [`JsonError`] if the value does not serialise to the strict subset.
pub fn canonical<T: Serialize>(value: &T) -> Result<Vec<u8>, JsonError> {
    let bytes = serde_json_canonicalizer::to_vec(value).map_err(|error| JsonError::at("", &error))?;
    Json::parse_deeper(&bytes)?;
    Ok(bytes)
}

/// One reference token of a JSON pointer, escaped as RFC 6901 section 3 says.
#[must_use]
pub fn escape_pointer(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Where the parser stands; kept when it fails, so that the error can name the place.
struct Trail {
    path: RefCell<Vec<String>>,
    allowed: usize,
}

impl Default for Trail {
    fn default() -> Self {
        Self {
            path: RefCell::default(),
            allowed: MAX_DEPTH,
        }
    }
}

impl Trail {
    fn pointer(&self) -> String {
        self.path
            .borrow()
            .iter()
            .fold(String::new(), |at, token| format!("{at}/{}", escape_pointer(token)))
    }

    fn enter(&self, token: String) {
        self.path.borrow_mut().push(token);
    }

    fn leave(&self) {
        self.path.borrow_mut().pop();
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    trail: &'a Trail,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Seed<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth >= self.trail.allowed {
            return Err(E::custom(format!("nested deeper than {} levels", self.trail.allowed)));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn text<E: de::Error>(text: &str) -> Result<(), E> {
        match text.chars().find(|c| is_forbidden(*c)) {
            None => Ok(()),
            Some(c) => Err(E::custom(format!(
                "the character U+{:04X} is a control character or a noncharacter; remove it",
                u32::from(c)
            ))),
        }
    }
}

/// C0 and C1 controls except tab and line feed, and the noncharacters of Unicode.
fn is_forbidden(c: char) -> bool {
    let code = u32::from(c);
    (c.is_control() && c != '\n' && c != '\t') || (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value without fractions")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Json, E> {
        if value.unsigned_abs() > MAX_SAFE_INTEGER.unsigned_abs() {
            return Err(E::custom(format!(
                "{value} is beyond ±(2^53 − 1) and would lose digits in other languages"
            )));
        }
        Ok(Json::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Json, E> {
        let signed = i64::try_from(value)
            .map_err(|_| E::custom(format!("{value} is beyond ±(2^53 − 1) and would lose digits in other languages")))?;
        self.visit_i64(signed)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        Err(E::custom(format!(
            "{value:?} is not a plain integer: no fraction, exponent or `-0`, and within ±(2^53 − 1)"
        )))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Json, E> {
        Self::text(value)?;
        Ok(Json::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let inner = self.deeper()?;
        let mut out = Vec::new();
        loop {
            self.trail.enter(out.len().to_string());
            let Some(item) = items.next_element_seed(inner)? else { break };
            self.trail.leave();
            out.push(item);
        }
        self.trail.leave();
        Ok(Json::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let inner = self.deeper()?;
        let mut out = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.trail.enter(key.clone());
            Self::text(&key)?;
            if out.contains_key(&key) {
                return Err(de::Error::custom("this key appears twice"));
            }
            let value = entries.next_value_seed(inner)?;
            self.trail.leave();
            out.insert(key, value);
        }
        Ok(Json::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &[u8]) -> JsonError {
        Json::parse(text).expect_err(&String::from_utf8_lossy(text))
    }

    #[test]
    fn numbers_that_languages_read_differently_are_refused() {
        for text in [
            "-0",
            "1e2",
            "10.0",
            "9007199254740992",
            "-9007199254740992",
            "18446744073709551616",
            "1E400",
            "NaN",
            "01",
        ] {
            let error = refused(format!("{{\"amount\":{text}}}").as_bytes());
            assert_eq!(error.pointer, "/amount", "{text}: {error}");
        }
        assert_eq!(Json::parse(b"9007199254740991").unwrap(), Json::Integer(MAX_SAFE_INTEGER));
    }

    #[test]
    fn a_duplicate_key_is_refused_however_it_is_written() {
        assert_eq!(refused(br#"{"amount":1,"amount":2}"#).pointer, "/amount");
        assert_eq!(refused(br#"{"amount":1,"am\u006funt":2}"#).pointer, "/amount");
        assert_eq!(refused(br#"{"a":[{"b":1,"b":1}]}"#).pointer, "/a/0/b");
    }

    #[test]
    fn text_that_is_not_unicode_or_not_printable_is_refused() {
        for text in [
            &b"{\"n\":\"\xff\"}"[..],
            b"{\"n\":\"\xed\xa0\x80\"}",
            br#"{"n":"\ud800"}"#,
            br#"{"n":"\ude00\ud83d"}"#,
            br#"{"n":"\u0000"}"#,
            br#"{"n":"\uffff"}"#,
        ] {
            assert_eq!(refused(text).pointer, "/n");
        }
        assert!(Json::parse("{\"n\":\"é 😀\"}".as_bytes()).is_ok());
    }

    #[test]
    fn trailing_bytes_comments_and_depth_are_refused() {
        refused(b"{} {}");
        refused(b"{/* */}");
        refused(b"\xef\xbb\xbf{}");
        refused(format!("{}1{}", "[".repeat(9), "]".repeat(9)).as_bytes());
        assert!(Json::parse(format!("{}1{}", "[".repeat(8), "]".repeat(8)).as_bytes()).is_ok());
    }

    #[test]
    fn keys_are_ordered_by_utf16_as_rfc_8785_says() {
        let value = Json::parse("{\"\u{ffed}\":1,\"\u{10000}\":2}".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(value.canonical()).unwrap(), "{\"\u{10000}\":2,\"\u{ffed}\":1}");
    }
}
