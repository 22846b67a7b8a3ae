//! The closed list of an operation's parameters: read from the file, checked against what a caller sent.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use toml::Value;

use super::money::Currencies;
use super::text::unfit;
use crate::domain::draft::KEY_PLACEHOLDER;
use crate::domain::json::{Json, escape_pointer};
use crate::domain::money::{Currency, MAX_SAFE_INTEGER};
use crate::settings::{Section, one_of};

/// What is wrong with one parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", if pointer.is_empty() { "the parameters" } else { pointer.as_str() })]
pub struct ParamError {
    /// JSON pointer (RFC 6901) from the parameters' object.
    pub pointer: String,
    /// What is wrong and what is expected.
    pub reason: String,
}

/// The declared parameters.
#[derive(Debug, Clone, Default)]
pub(super) struct Params {
    declared: BTreeMap<String, Param>,
    /// Names whose declaration could not be read; they count as declared, so that one mistake is reported once.
    broken: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Param {
    kind: Kind,
    optional: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    Id(Regex),
    /// Minor units; the name of the parameter beside it that says the currency.
    Minor {
        currency: String,
        min: i64,
        max: i64,
    },
    Currency,
    Enum(Vec<String>),
    Text {
        max: usize,
        pattern: Option<Regex>,
    },
    Bool,
    Object(Params),
}

impl Params {
    /// Reads the table of declarations.
    pub(super) fn read(section: Section<'_>) -> Self {
        let mut out = BTreeMap::new();
        let mut broken = BTreeSet::new();
        for (name, value) in section.entries() {
            broken.insert(name.to_owned());
            let place = section.at(name);
            if !is_name(name) {
                section.wrong(
                    name,
                    "is not a parameter name: use lower-case letters, digits and `_`, first a letter",
                );
                continue;
            }
            let Value::Table(table) = value else {
                section.wrong(name, "expected a declaration such as `{ type = \"text\", max = 200 }`");
                continue;
            };
            if let Some(param) = Param::read(Section::new(place, table, section.log())) {
                out.insert(name.to_owned(), param);
                broken.remove(name);
            }
        }
        for (name, param) in &out {
            if let Kind::Minor { currency, .. } = &param.kind {
                match out.get(currency).map(|p| (&p.kind, p.optional)) {
                    Some((Kind::Currency, false)) => {}
                    None if broken.contains(currency) => {}
                    _ => section.wrong(
                        &format!("{name}.currency"),
                        format!("`{currency}` is not a required parameter of type `currency` beside it"),
                    ),
                }
            }
        }
        section.close();
        Self { declared: out, broken }
    }

    /// The dotted names of everything that is not an object.
    pub(super) fn leaves(&self) -> BTreeSet<String> {
        let mut out = self.broken.clone();
        for (name, param) in &self.declared {
            if let Kind::Object(inner) = &param.kind {
                out.extend(inner.leaves().into_iter().map(|leaf| format!("{name}.{leaf}")));
            } else {
                out.insert(name.clone());
            }
        }
        out
    }

    /// Whether the parameter is declared as a required id, as far as its declaration can be read.
    pub(super) fn may_be_id(&self, name: &str) -> bool {
        self.broken.contains(name)
            || self
                .declared
                .get(name)
                .is_some_and(|p| !p.optional && matches!(p.kind, Kind::Id(_)))
    }

    /// The one amount, with its currency's parameter; `Err` says what is wrong.
    pub(super) fn amount(&self) -> Result<Option<(String, String)>, &'static str> {
        let mut amounts = self.declared.iter().filter_map(|(name, param)| match &param.kind {
            Kind::Minor { currency, .. } => Some((name.clone(), currency.clone(), param.optional)),
            _ => None,
        });
        match (amounts.next(), amounts.next()) {
            (None, _) => Ok(None),
            (Some((_, _, true)), _) => Err("the amount must not be optional: an absent amount is often read as everything that is left"),
            (Some(_), Some(_)) => Err("two parameters of type `minor`: an operation has one amount"),
            (Some((name, currency, false)), None) => Ok(Some((name, currency))),
        }
    }

    /// Checks what a caller sent and folds what may be written in two ways. All mistakes at once.
    pub(super) fn check(&self, given: &Json, currencies: &Currencies) -> Result<Json, Vec<ParamError>> {
        let mut mistakes = Vec::new();
        let checked = self.object(given, "", currencies, &mut mistakes);
        match checked {
            Some(checked) if mistakes.is_empty() => Ok(checked),
            _ => Err(mistakes),
        }
    }

    fn object(&self, given: &Json, at: &str, currencies: &Currencies, mistakes: &mut Vec<ParamError>) -> Option<Json> {
        let Json::Object(members) = given else {
            mistakes.push(mistake(at, "expected an object"));
            return None;
        };
        for key in members.keys().filter(|key| !self.declared.contains_key(*key)) {
            mistakes.push(mistake(&below(at, key), self.unknown(key)));
        }
        let mut out = BTreeMap::new();
        for (name, param) in &self.declared {
            let place = below(at, name);
            let value = match members.get(name) {
                None if param.optional => continue,
                None => {
                    mistakes.push(mistake(&place, "is missing"));
                    continue;
                }
                Some(value) => value,
            };
            let checked = match &param.kind {
                Kind::Object(inner) => inner.object(value, &place, currencies, mistakes),
                kind => kind
                    .scalar(value, members, currencies)
                    .map_err(|reason| mistakes.push(mistake(&place, reason)))
                    .ok(),
            };
            if let Some(checked) = checked {
                out.insert(name.clone(), checked);
            }
        }
        Some(Json::Object(out))
    }

    fn unknown(&self, key: &str) -> String {
        let simple = |text: &str| text.to_lowercase().replace(['_', '-'], "");
        match self.declared.keys().find(|name| simple(name) == simple(key)) {
            Some(name) => format!("is not a parameter; `{name}` is, and names are compared letter by letter"),
            None => format!(
                "is not a parameter of this operation; it takes {}",
                one_of(self.declared.keys().map(String::as_str))
            ),
        }
    }
}

impl Param {
    fn read(section: Section<'_>) -> Option<Self> {
        const KINDS: &[(&str, u8)] = &[
            ("id", 0),
            ("minor", 1),
            ("currency", 2),
            ("enum", 3),
            ("text", 4),
            ("bool", 5),
            ("object", 6),
        ];
        let optional = section.maybe_flag("optional").unwrap_or(false);
        let kind = match section.word("type", KINDS) {
            Some(0) => section
                .text("pattern", "a pattern such as `^ch_[A-Za-z0-9]{8,64}$`")
                .and_then(|text| pattern(&section, text))
                .map(Kind::Id),
            Some(1) => {
                let currency = section.text("currency", "the name of the parameter that says the currency");
                let min = section.maybe_integer("min").unwrap_or(1);
                let max = section.maybe_integer("max").unwrap_or(MAX_SAFE_INTEGER);
                if min < 1 || max > MAX_SAFE_INTEGER || min > max {
                    section.wrong(
                        "min",
                        format!("{min} to {max} is not a range of amounts: expected 1 to 9007199254740991 at most"),
                    );
                }
                currency.map(|currency| Kind::Minor {
                    currency: currency.to_owned(),
                    min,
                    max,
                })
            }
            Some(2) => Some(Kind::Currency),
            Some(3) => {
                let values = section.texts("values");
                if values.is_empty() {
                    section.wrong("values", "is missing or empty: list the texts that are allowed");
                }
                Some(Kind::Enum(values.into_iter().map(str::to_owned).collect()))
            }
            Some(4) => {
                let max = section
                    .maybe_integer("max")
                    .and_then(|max| usize::try_from(max).ok())
                    .filter(|max| (1..=2000).contains(max));
                if max.is_none() {
                    section.wrong("max", "expected the greatest number of characters, from 1 to 2000");
                }
                let pattern = section.maybe_text("pattern", "a pattern").and_then(|text| pattern(&section, text));
                max.map(|max| Kind::Text { max, pattern })
            }
            Some(5) => Some(Kind::Bool),
            Some(6) => section
                .sub("fields", "a table of parameters")
                .map(|fields| Kind::Object(Params::read(fields))),
            _ => {
                // The kind is unknown, so its settings cannot be judged either.
                return None;
            }
        };
        section.close();
        kind.map(|kind| Self { kind, optional })
    }
}

impl Kind {
    fn scalar(&self, value: &Json, beside: &BTreeMap<String, Json>, currencies: &Currencies) -> Result<Json, String> {
        match self {
            Self::Id(pattern) => {
                let text = text(value)?;
                if pattern.is_match(text) && text.is_ascii() {
                    Ok(value.clone())
                } else {
                    Err(format!("is not such an id: expected text that matches `{}`", pattern.as_str()))
                }
            }
            Self::Minor { currency, min, max } => {
                let minor = value
                    .as_integer()
                    .ok_or("expected a whole number of minor units, such as 24000, not in quotation marks")?;
                if minor < *min || minor > *max {
                    return Err(format!("{minor} is out of range: expected {min} to {max} minor units"));
                }
                let currency = beside
                    .get(currency)
                    .and_then(Json::as_str)
                    .and_then(|text| text.parse::<Currency>().ok());
                match currency.map(|currency| (currency, currencies.multiple_of(currency))) {
                    Some((currency, step)) if minor % step != 0 => Err(format!(
                        "{minor} is not a multiple of {step}, which {} needs here",
                        currency.to_upper()
                    )),
                    _ => Ok(value.clone()),
                }
            }
            Self::Currency => {
                let currency: Currency = text(value)?.parse().map_err(|error| format!("{error}"))?;
                match currencies.exponent(currency) {
                    Some(_) => Ok(Json::String(currency.as_str().to_owned())),
                    None => Err(format!("{} is not a currency this backend takes", currency.to_upper())),
                }
            }
            Self::Enum(values) => {
                let text = text(value)?;
                if values.iter().any(|v| v == text) {
                    Ok(value.clone())
                } else {
                    Err(format!(
                        "is not one of the allowed texts: expected {}",
                        one_of(values.iter().map(String::as_str))
                    ))
                }
            }
            Self::Text { max, pattern } => {
                let text = text(value)?;
                if let Some(reason) = unfit(text) {
                    return Err(reason);
                }
                let length = text.chars().count();
                if length == 0 || length > *max || text.trim() != text {
                    return Err(format!(
                        "expected 1 to {max} characters without blanks at the ends; this has {length}"
                    ));
                }
                if text.contains(KEY_PLACEHOLDER) {
                    return Err("holds the text that marks the idempotency key's place; remove it".to_owned());
                }
                match pattern {
                    Some(pattern) if !pattern.is_match(text) => Err(format!("expected text that matches `{}`", pattern.as_str())),
                    _ => Ok(value.clone()),
                }
            }
            Self::Bool => match value {
                Json::Bool(_) => Ok(value.clone()),
                _ => Err("expected true or false".to_owned()),
            },
            Self::Object(_) => Err("expected an object".to_owned()),
        }
    }
}

fn text(value: &Json) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "expected text".to_owned())
}

fn mistake(pointer: &str, reason: impl Into<String>) -> ParamError {
    ParamError {
        pointer: pointer.to_owned(),
        reason: reason.into(),
    }
}

fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", escape_pointer(key))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// An anchored pattern; alternatives at the top level would escape the anchors, so the whole is wrapped.
fn pattern(section: &Section<'_>, text: &str) -> Option<Regex> {
    let Some(inner) = text.strip_prefix('^').and_then(|t| t.strip_suffix('$')) else {
        section.wrong(
            "pattern",
            format!("`{text}` does not cover the whole text: start with `^` and end with `$`"),
        );
        return None;
    };
    match regex::RegexBuilder::new(&format!("^(?:{inner})$")).size_limit(1 << 18).build() {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            let line = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
            section.wrong("pattern", format!("`{text}` is not a pattern: {line}"));
            None
        }
    }
}
