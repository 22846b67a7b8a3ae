//! A backend's answer, and what may be taken out of it: named fields by pointer, masked where the file says so.

use std::collections::BTreeMap;

use serde_json::Value as Answered;
use toml::Value;

use crate::domain::json::Json;
use crate::domain::money::MAX_SAFE_INTEGER;
use crate::domain::text::escaped;
use crate::settings::Section;

/// What came back from a backend, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers, names in lower case; of repeated ones the last.
    pub headers: BTreeMap<String, String>,
    /// The body's bytes, within the file's limit.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `None` if it is not that. The content type is not consulted: some backends repeat a stored answer under another one.
    #[must_use]
    pub(super) fn json(&self) -> Option<Answered> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Whether the status says success.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }
}

/// A declared field could not be taken out of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` cannot be read from the backend's answer: {reason}; correct the backend file or ask the backend's operator")]
pub struct FieldError {
    /// The field's name in the file.
    pub field: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mask {
    Last4,
    Email,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    Pointer(String),
    Header(String),
    Each { pointer: String, most: usize, keep: Fields },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    from: From,
    mask: Option<Mask>,
    absent: Absent,
}

/// What stands for a field that an answer leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Absent {
    /// Nothing may: the answer is unfit.
    Refused,
    /// The field is left out.
    Omitted,
    /// This: where a backend leaves out a zero, for one.
    Taken(Json),
}

/// The fields that are kept of an answer; nothing else gets out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<Field>);

impl Fields {
    /// Reads a table of `name = "/pointer"` or `name = { pointer = …, mask = …, optional = …, default = … }`.
    pub(super) fn read(section: Section<'_>) -> Self {
        let mut out = Vec::new();
        for (name, value) in section.entries() {
            let place = section.at(name);
            let field = match value {
                Value::String(pointer) => checked_pointer(pointer).map(|pointer| Field {
                    name: name.to_owned(),
                    from: From::Pointer(pointer),
                    mask: None,
                    absent: Absent::Refused,
                }),
                Value::Table(table) => {
                    if let Some(field) = Field::read(name, Section::new(place, table, section.log())) {
                        out.push(field);
                    }
                    continue;
                }
                _ => None,
            };
            match field {
                Some(field) => out.push(field),
                None => section.wrong(
                    name,
                    "expected a JSON pointer such as `/amount`, or `{ pointer = \"/email\", mask = \"email\" }`",
                ),
            }
        }
        if out.is_empty() {
            section.wrong("", "keeps nothing: name at least one field");
        }
        section.close();
        Self(out)
    }

    /// The names of the fields that hold one value.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(|field| !matches!(field.from, From::Each { .. }))
            .map(|field| field.name.as_str())
    }

    /// Whether a place in what is kept can hold anything: a field, or below a list an entry's number and its field.
    pub(super) fn reach(&self, path: &[String]) -> bool {
        let Some((name, rest)) = path.split_first() else { return false };
        self.0
            .iter()
            .filter(|field| field.name == *name)
            .any(|field| match (&field.from, rest) {
                (_, []) => true,
                (From::Each { keep, .. }, [index, below @ ..]) => index.parse::<u32>().is_ok() && (below.is_empty() || keep.reach(below)),
                _ => false,
            })
    }

    /// The kept fields of an answer.
    pub(super) fn take(&self, answer: &Answer) -> Result<Json, FieldError> {
        let body = answer.json().ok_or(FieldError {
            field: "the body".to_owned(),
            reason: "it is not JSON",
        })?;
        self.pick(&body, &answer.headers)
    }

    fn pick(&self, body: &Answered, headers: &BTreeMap<String, String>) -> Result<Json, FieldError> {
        let mut out = BTreeMap::new();
        for field in &self.0 {
            let wrong = |reason| FieldError {
                field: field.name.clone(),
                reason,
            };
            let value = match &field.from {
                From::Pointer(pointer) => body.pointer(pointer).map(|value| field.scalar(value)).transpose().map_err(wrong)?,
                From::Header(name) => headers.get(name).map(|text| Json::String(escaped(text))),
                From::Each { pointer, most, keep } => match body.pointer(pointer).and_then(Answered::as_array) {
                    Some(items) if items.len() > *most => return Err(wrong("the list is longer than the file allows")),
                    Some(items) => {
                        let kept: Result<Vec<Json>, FieldError> = items.iter().map(|item| keep.pick(item, headers)).collect();
                        Some(Json::Array(kept?))
                    }
                    None => None,
                },
            };
            match value {
                Some(value) => {
                    out.insert(field.name.clone(), value);
                }
                None => match &field.absent {
                    Absent::Refused => return Err(wrong("it is not there")),
                    Absent::Omitted => {}
                    Absent::Taken(value) => {
                        out.insert(field.name.clone(), value.clone());
                    }
                },
            }
        }
        Ok(Json::Object(out))
    }
}

impl Field {
    fn read(name: &str, section: Section<'_>) -> Option<Self> {
        let pointer = section.maybe_text("pointer", "a JSON pointer");
        let header = section.maybe_text("header", "a header's name in lower case");
        let each = section.maybe_text("each", "a JSON pointer to a list");
        let mask = section.maybe_word("mask", &[("last4", Mask::Last4), ("email", Mask::Email)]);
        let optional = section.maybe_flag("optional").unwrap_or(false);
        let absent = match (section.maybe("default"), optional) {
            (None, false) => Absent::Refused,
            (None, true) => Absent::Omitted,
            (Some(Value::Integer(n)), false) if n.unsigned_abs() <= MAX_SAFE_INTEGER.unsigned_abs() => Absent::Taken(Json::Integer(*n)),
            (Some(Value::String(text)), false) => Absent::Taken(Json::String(text.clone())),
            (Some(Value::Boolean(b)), false) => Absent::Taken(Json::Bool(*b)),
            (Some(_), true) => {
                section.wrong(
                    "default",
                    "stands beside `optional = true`: what is left out is either one or the other",
                );
                Absent::Refused
            }
            (Some(_), false) => {
                section.wrong(
                    "default",
                    "expected a text, a whole number, true or false, which stands for what is left out",
                );
                Absent::Refused
            }
        };
        let from = match (pointer, header, each) {
            (Some(pointer), None, None) => pointer_at(&section, "pointer", pointer).map(From::Pointer),
            (None, Some(header), None) => Some(From::Header(header.to_ascii_lowercase())),
            (None, None, Some(each)) => {
                let most = section.maybe_integer("most").and_then(|n| usize::try_from(n).ok()).unwrap_or(100);
                let keep = section.sub("keep", "a table of the fields kept of each item").map(Fields::read);
                pointer_at(&section, "each", each)
                    .zip(keep)
                    .map(|(pointer, keep)| From::Each { pointer, most, keep })
            }
            _ => {
                section.wrong("", "expected exactly one of `pointer`, `header` and `each`");
                None
            }
        };
        section.close();
        from.map(|from| Self {
            name: name.to_owned(),
            from,
            mask,
            absent,
        })
    }

    fn scalar(&self, value: &Answered) -> Result<Json, &'static str> {
        let value = match value {
            Answered::Null => Json::Null,
            Answered::Bool(b) => Json::Bool(*b),
            Answered::Number(n) => match n.as_i64().filter(|n| n.unsigned_abs() <= MAX_SAFE_INTEGER.unsigned_abs()) {
                Some(n) => Json::Integer(n),
                None => return Err("it is not a whole number within ±(2^53 − 1)"),
            },
            Answered::String(text) => Json::String(escaped(text)),
            Answered::Array(_) | Answered::Object(_) => return Err("it is not a single value"),
        };
        Ok(match (self.mask, value) {
            (_, Json::Null) => Json::Null,
            (None, value) => value,
            (Some(mask), Json::String(text)) => Json::String(mask.apply(&text)),
            (Some(mask), Json::Integer(n)) => Json::String(mask.apply(&n.to_string())),
            (Some(_), _) => Json::String("****".to_owned()),
        })
    }
}

impl Mask {
    fn apply(self, text: &str) -> String {
        match self {
            Self::Last4 => {
                let length = text.chars().count();
                // A short text would be given away whole by its last four characters.
                let kept: String = if length >= 8 {
                    text.chars().skip(length - 4).collect()
                } else {
                    String::new()
                };
                format!("****{kept}")
            }
            Self::Email => match text.rsplit_once('@') {
                Some((name, domain)) => format!("{}***@{domain}", name.chars().next().map(String::from).unwrap_or_default()),
                None => "***".to_owned(),
            },
        }
    }
}

/// A JSON pointer that is not the whole document.
pub(super) fn checked_pointer(text: &str) -> Option<String> {
    (text.starts_with('/') && text.len() > 1).then(|| text.to_owned())
}

pub(super) fn pointer_at(section: &Section<'_>, key: &str, text: &str) -> Option<String> {
    let pointer = checked_pointer(text);
    if pointer.is_none() {
        section.wrong(key, format!("`{text}` is not a JSON pointer: expected one such as `/amount`"));
    }
    pointer
}

/// A pointer under a key, required.
pub(super) fn pointer(section: &Section<'_>, key: &str) -> Option<String> {
    section
        .text(key, "a JSON pointer such as `/id`")
        .and_then(|text| pointer_at(section, key, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_keeps_no_more_than_it_says() {
        assert_eq!(Mask::Last4.apply("4242424242424242"), "****4242");
        assert_eq!(Mask::Last4.apply("1234"), "****");
        assert_eq!(Mask::Email.apply("mia@example.org"), "m***@example.org");
        assert_eq!(Mask::Email.apply("@example.org"), "***@example.org");
        assert_eq!(Mask::Email.apply("nobody"), "***");
    }
}
