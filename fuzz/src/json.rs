//! The strict reader: what it accepts has one meaning and one form, and it refuses nothing without a cause that can be seen.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use writ::domain::json::{Json, MAX_DEPTH};

/// JSON as it stands in the text: members that appear twice, fractions and all.
enum Raw {
    Plain(Json),
    Number,
    Text(String),
    Array(Vec<Raw>),
    Object(Vec<(String, Raw)>),
}

pub fn check(input: &[u8]) {
    let raw = serde_json::from_slice::<Raw>(input).ok();
    match Json::parse(input) {
        Ok(value) => {
            let raw = raw.expect("what is accepted is JSON");
            assert_eq!(
                strict(&raw, MAX_DEPTH).as_ref(),
                Some(&value),
                "read as something else than what stands there"
            );
            let canonical = value.canonical();
            assert_eq!(Json::parse(&canonical).as_ref(), Ok(&value), "the canonical form reads differently");
            let plain: serde_json::Value = serde_json::from_slice(input).unwrap();
            assert_eq!(plain, value.to_value(), "another reader reads it differently");
            assert_eq!(Json::from_value(&plain).as_ref(), Ok(&value));
            assert_eq!(Json::parse_deeper(input).as_ref(), Ok(&value));
            assert_eq!(serde_json::from_slice::<Json>(input).ok().as_ref(), Some(&value));
        }
        Err(error) => {
            assert!(
                error.to_string().chars().count() < 350,
                "an error repeats what it was given: {error}"
            );
            assert!(
                !error.reason.is_empty() && (error.pointer.is_empty() || error.pointer.starts_with('/')),
                "{error:?}"
            );
            assert!(
                raw.as_ref().is_none_or(|raw| strict(raw, MAX_DEPTH).is_none()),
                "refused without a cause: {error}"
            );
        }
    }
    if let Ok(value) = Json::parse_deeper(input) {
        assert_eq!(Json::parse_deeper(&value.canonical()).as_ref(), Ok(&value));
    }
}

/// The strict value of a raw one; `None` if it lies outside the subset.
fn strict(raw: &Raw, depth: usize) -> Option<Json> {
    match raw {
        Raw::Plain(value) => Some(value.clone()),
        Raw::Number => None,
        Raw::Text(text) => plain(text).then(|| Json::String(text.clone())),
        Raw::Array(items) => {
            let deeper = depth.checked_sub(1)?;
            items
                .iter()
                .map(|item| strict(item, deeper))
                .collect::<Option<_>>()
                .map(Json::Array)
        }
        Raw::Object(members) => {
            let deeper = depth.checked_sub(1)?;
            let names: BTreeSet<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
            if names.len() != members.len() || !names.iter().all(|name| plain(name)) {
                return None;
            }
            let read = members.iter().map(|(name, value)| Some((name.clone(), strict(value, deeper)?)));
            read.collect::<Option<_>>().map(Json::Object)
        }
    }
}

fn plain(text: &str) -> bool {
    text.chars().all(|c| match u32::from(c) {
        9 | 10 => true,
        0..=0x1f | 0x7f..=0x9f | 0xfdd0..=0xfdef => false,
        code => code & 0xffff < 0xfffe,
    })
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Raw;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Plain(Json::Null))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
                Ok(Raw::Plain(Json::Bool(value)))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
                let exact = value.unsigned_abs() < 1 << 53;
                Ok(if exact { Raw::Plain(Json::Integer(value)) } else { Raw::Number })
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Raw, E> {
                i64::try_from(value).map_or(Ok(Raw::Number), |value| self.visit_i64(value))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
                Ok(Raw::Number)
            }
            fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
                Ok(Raw::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
                let mut out = Vec::new();
                while let Some(item) = items.next_element()? {
                    out.push(item);
                }
                Ok(Raw::Array(out))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Raw, A::Error> {
                let mut out = Vec::new();
                while let Some(member) = members.next_entry()? {
                    out.push(member);
                }
                Ok(Raw::Object(out))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
