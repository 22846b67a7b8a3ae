//! Values with holes: `{params.amount}` and a few other names, and no other expression language.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use crate::domain::id::DraftId;
use crate::domain::json::Json;
use crate::domain::money;
use crate::settings::Log;
use crate::settings::{Section, one_of};

/// What a hole is filled with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reference {
    /// A parameter, by its path.
    Param(Vec<String>),
    /// A kept fact: the read and the name.
    Fact(String, String),
    /// The draft's id.
    DraftId,
    /// The idempotency key.
    Key,
    /// The resource's version.
    Version,
    /// The backend's own id of what was made, as an answer or a list gave it.
    Found,
}

/// Which names may stand in a hole at some place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) params: &'a BTreeSet<String>,
    pub(super) facts: &'a BTreeSet<String>,
    pub(super) others: &'a [(&'a str, Reference)],
}

/// Which names may stand where, once parameters and facts are known.
pub(super) struct Names {
    pub(super) params: BTreeSet<String>,
    pub(super) facts: BTreeSet<String>,
    pub(super) version: Vec<(&'static str, Reference)>,
}

impl Names {
    pub(super) fn with<'a>(&'a self, others: &'a [(&'a str, Reference)]) -> Scope<'a> {
        Scope {
            params: &self.params,
            facts: &self.facts,
            others,
        }
    }
}

/// What the holes are filled from; what is not known yet is `None`, and the loader has seen to it that nothing asks for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Context<'a> {
    pub(super) params: Option<&'a Json>,
    pub(super) facts: Option<&'a Json>,
    pub(super) draft: Option<&'a DraftId>,
    pub(super) key: Option<&'a str>,
    pub(super) version: Option<&'a str>,
    pub(super) exponent: Option<u8>,
    pub(super) found: Option<&'a str>,
}

impl Context<'_> {
    fn get(&self, reference: &Reference) -> Option<Json> {
        let text = |t: String| Some(Json::String(t));
        match reference {
            Reference::Param(path) => path.iter().try_fold(self.params?, |at, key| at.member(key)).cloned(),
            Reference::Fact(read, name) => self.facts?.member(read)?.member(name).cloned(),
            Reference::DraftId => text(self.draft?.to_string()),
            Reference::Key => text(self.key?.to_owned()),
            Reference::Version => text(self.version?.to_owned()),
            Reference::Found => text(self.found?.to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Hole(Reference),
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    AsIs,
    Text,
    Decimal,
    Upper,
    Lower,
}

/// A value of a body, a query or a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    source: Source,
    form: Form,
    null_if_absent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Literal(Json),
    Parts(Vec<Part>),
}

impl Expression {
    /// Reads a text with holes, a literal, `{ literal = … }`, or `{ from = "params.x", as = "…", absent = "…" }`.
    pub(super) fn read(value: &Value, place: &str, scope: Scope<'_>, log: &Log) -> Option<Self> {
        let plain = |source| Self {
            source,
            form: Form::AsIs,
            null_if_absent: false,
        };
        match value {
            Value::String(text) => Some(plain(Source::Parts(parts(text, place, scope, log)?))),
            Value::Integer(n) => Some(plain(Source::Literal(Json::Integer(*n)))),
            Value::Boolean(b) => Some(plain(Source::Literal(Json::Bool(*b)))),
            Value::Table(table) if table.contains_key("literal") => {
                let section = Section::new(place.to_owned(), table, log);
                let text = section.text("literal", "a text that is sent as it stands");
                section.close();
                Some(plain(Source::Literal(Json::String(text?.to_owned()))))
            }
            Value::Table(table) if table.contains_key("from") => {
                let section = Section::new(place.to_owned(), table, log);
                let from = section.text("from", "a name such as `params.amount`");
                let form = section.maybe_word(
                    "as",
                    &[
                        ("text", Form::Text),
                        ("decimal", Form::Decimal),
                        ("upper", Form::Upper),
                        ("lower", Form::Lower),
                    ],
                );
                let absent = section.maybe_word("absent", &[("omit", false), ("null", true)]);
                let at = section.at("from");
                section.close();
                Some(Self {
                    source: Source::Parts(vec![Part::Hole(reference(from?, &at, scope, log)?)]),
                    form: form.unwrap_or(Form::AsIs),
                    null_if_absent: absent.unwrap_or(false),
                })
            }
            _ => {
                log.add(
                    place,
                    "expected a text such as `{params.amount}`, a whole number, true or false, or `{ from = \"params.amount\", as = \"decimal\" }`",
                );
                None
            }
        }
    }

    /// The value; `None` if it stands for an optional parameter or fact that is absent.
    pub(super) fn render(&self, context: &Context<'_>) -> Option<Json> {
        let value = match &self.source {
            Source::Literal(value) => Some(value.clone()),
            Source::Parts(parts) => match parts.as_slice() {
                [Part::Hole(only)] => context.get(only),
                parts => joined(parts, context, str::to_owned).map(Json::String),
            },
        };
        match (value, self.form) {
            (None, _) => self.null_if_absent.then_some(Json::Null),
            (Some(Json::Integer(n)), Form::Decimal) => Some(Json::String(money::decimal(n, context.exponent?))),
            (Some(value), Form::Text) => plain_text(&value).map(Json::String),
            (Some(Json::String(text)), Form::Upper) => Some(Json::String(text.to_ascii_uppercase())),
            (Some(Json::String(text)), Form::Lower) => Some(Json::String(text.to_ascii_lowercase())),
            (value, _) => value,
        }
    }

    /// Every name the value depends on.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts().iter().filter_map(|part| match part {
            Part::Hole(reference) => Some(reference),
            Part::Text(_) => None,
        })
    }

    /// Whether whatever it stands for begins with this character.
    pub(super) fn starts_with(&self, c: char) -> bool {
        self.literals().next().is_some_and(|text| text.starts_with(c)) && !matches!(self.parts().first(), Some(Part::Hole(_)))
    }

    /// The value in words, holes as they are written.
    pub(super) fn words(&self) -> String {
        match &self.source {
            Source::Literal(value) => value.to_value().to_string(),
            Source::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.clone(),
                    Part::Hole(reference) => reference.words(),
                })
                .collect(),
        }
    }

    fn parts(&self) -> &[Part] {
        match &self.source {
            Source::Literal(_) => &[],
            Source::Parts(parts) => parts,
        }
    }

    /// Every text of the value that is sent as it stands.
    pub(super) fn literals(&self) -> impl Iterator<Item = &str> {
        let (one, parts): (Option<&str>, &[Part]) = match &self.source {
            Source::Literal(value) => (value.as_str(), &[]),
            Source::Parts(parts) => (None, parts),
        };
        one.into_iter().chain(parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Hole(_) => None,
        }))
    }
}

/// A path with holes, each of which fills exactly one segment or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<Part>);

impl Path {
    pub(super) fn read(text: &str, place: &str, scope: Scope<'_>, log: &Log) -> Option<Self> {
        if !text.starts_with('/') || text.contains(['?', '#', '\\', ' ', '%']) || text.contains("//") || text.contains("/.") {
            log.add(
                place,
                format!("`{text}` is not a path: start with `/`; no query, fragment, escapes, `//` or `/.`"),
            );
            return None;
        }
        parts(text, place, scope, log).map(Self)
    }

    /// Whether one of its holes is this.
    pub(super) fn holds(&self, wanted: &Reference) -> bool {
        self.0
            .iter()
            .any(|part| matches!(part, Part::Hole(reference) if reference == wanted))
    }

    /// The path with every hole percent-encoded; `None` if a value is absent, or would be read as `.` or `..`.
    pub(super) fn render(&self, context: &Context<'_>) -> Option<String> {
        let path = joined(&self.0, context, encode_segment)?;
        let safe = path.split('/').all(|segment| segment != "." && segment != "..");
        (safe && !path.contains("//") && !path.ends_with('/')).then_some(path)
    }
}

/// Everything but RFC 3986 unreserved characters, percent-encoded.
fn encode_segment(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, SET).to_string()
}

fn joined(parts: &[Part], context: &Context<'_>, encode: fn(&str) -> String) -> Option<String> {
    parts.iter().try_fold(String::new(), |mut out, part| {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Hole(reference) => out.push_str(&encode(&plain_text(&context.get(reference)?)?)),
        }
        Some(out)
    })
}

/// A scalar as it stands in a form field or a path.
pub(super) fn plain_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Integer(n) => Some(n.to_string()),
        Json::Bool(b) => Some(b.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

fn parts(text: &str, place: &str, scope: Scope<'_>, log: &Log) -> Option<Vec<Part>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else {
            log.add(
                place,
                format!("`{text}` opens `{{` without `}}`: close it, or write `{{ literal = \"…\" }}`"),
            );
            return None;
        };
        if !before.is_empty() {
            out.push(Part::Text(before.to_owned()));
        }
        out.push(Part::Hole(reference(name, place, scope, log)?));
        rest = tail;
    }
    if !rest.is_empty() || out.is_empty() {
        out.push(Part::Text(rest.to_owned()));
    }
    Some(out)
}

/// The reference a dotted name stands for.
pub(super) fn reference(name: &str, place: &str, scope: Scope<'_>, log: &Log) -> Option<Reference> {
    if let Some((_, reference)) = scope.others.iter().find(|(known, _)| *known == name) {
        return Some(reference.clone());
    }
    if let Some(param) = name.strip_prefix("params.") {
        if scope.params.contains(param) {
            return Some(Reference::Param(param.split('.').map(str::to_owned).collect()));
        }
        let declared = one_of(scope.params.iter().map(String::as_str));
        log.add(
            place,
            format!("`{{{name}}}` names no declared parameter: declare it under `params`, or use {declared}"),
        );
        return None;
    }
    if let Some((read, fact)) = name.strip_prefix("facts.").and_then(|name| name.split_once('.')) {
        if scope.facts.contains(&format!("{read}.{fact}")) {
            return Some(Reference::Fact(read.to_owned(), fact.to_owned()));
        }
        let kept = one_of(scope.facts.iter().map(String::as_str));
        log.add(
            place,
            format!("`{{{name}}}` names no fact that is kept at this point: keep it in a read, or use {kept}"),
        );
        return None;
    }
    let others = scope.others.iter().map(|(known, _)| *known);
    let expected = one_of(["params.…", "facts.….…"].into_iter().chain(others));
    log.add(place, format!("`{{{name}}}` is not known at this place: expected {expected}"));
    None
}

/// The named values of a table, sorted by name.
pub(super) fn expressions(section: Option<Section<'_>>, scope: Scope<'_>) -> Vec<(String, Expression)> {
    let Some(section) = section else { return Vec::new() };
    let out = section
        .entries()
        .filter_map(|(key, value)| Some((key.to_owned(), Expression::read(value, &section.at(key), scope, section.log())?)))
        .collect();
    section.close();
    out
}

/// A query string of those values that are present, form-encoded in their order; empty if there are none.
pub(super) fn query(values: &[(String, Expression)], context: &Context<'_>) -> String {
    let mut out = form_urlencoded::Serializer::new(String::new());
    for (name, value) in values {
        if let Some(text) = value.render(context).as_ref().and_then(plain_text) {
            out.append_pair(name, &text);
        }
    }
    out.finish()
}

/// An object from members.
pub(super) fn object(members: impl IntoIterator<Item = (String, Json)>) -> Json {
    Json::Object(members.into_iter().collect::<BTreeMap<_, _>>())
}
