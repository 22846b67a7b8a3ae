//! Conditions on an answer or on kept facts: a place and a test, nothing more.

use std::collections::BTreeMap;

use serde_json::Value as Answered;
use toml::Value;

use super::answer::pointer_at;
use super::template::{Context, Expression, Reference, Scope};
use crate::domain::json::Json;
use crate::domain::money;
use crate::settings::Section;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Pointer(String),
    Header(String),
    /// Integers at these pointers, added or taken away.
    Sum(Vec<(i64, String)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Equals {
        value: Expression,
        fold: Fold,
    },
    Unequal(Expression),
    In(Vec<Json>),
    Exists,
    Missing,
    AtLeast(Expression),
    /// A text that ends like this.
    Ends(Expression),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fold {
    Exact,
    Lower,
}

/// How what stands at a place is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    AsIs,
    /// A decimal text in the draft's currency, taken as minor units.
    Decimal,
}

/// The one entry of a list that a condition looks into.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Among {
    list: String,
    marks: Vec<Condition>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    among: Option<Among>,
    place: Place,
    kind: Kind,
    test: Test,
}

/// What a condition looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) body: &'a Answered,
    pub(super) headers: &'a BTreeMap<String, String>,
}

impl Condition {
    /// Reads a condition from a table that may hold other keys too; the caller closes it.
    pub(super) fn read(section: &Section<'_>, scope: Scope<'_>) -> Option<Self> {
        let pointer = section.maybe_text("pointer", "a JSON pointer");
        let header = section.maybe_text("header", "a header's name");
        let sum = section.texts("sum");
        let place = match (pointer, header, sum.as_slice()) {
            (Some(pointer), None, []) => pointer_at(section, "pointer", pointer).map(Place::Pointer),
            (None, Some(header), []) => Some(Place::Header(header.to_ascii_lowercase())),
            (None, None, [_, ..]) => sum
                .iter()
                .map(|text| {
                    let (sign, pointer) = text.strip_prefix('-').map_or((1, *text), |rest| (-1, rest));
                    Some((sign, pointer_at(section, "sum", pointer)?))
                })
                .collect::<Option<Vec<_>>>()
                .map(Place::Sum),
            _ => {
                section.wrong("", "expected exactly one of `pointer`, `header` and `sum`");
                None
            }
        };
        let kind = match section.maybe_flag("decimal") {
            Some(true) => Kind::Decimal,
            Some(false) | None => Kind::AsIs,
        };
        let among = Among::read(section, scope);
        if matches!(place, Some(Place::Header(_))) && (among.is_some() || kind == Kind::Decimal) {
            section.wrong("header", "is a text and no list: leave `decimal` and `among` out");
        }
        let expression = |key: &str| {
            section
                .maybe(key)
                .map(|value| Expression::read(value, &section.at(key), scope, section.log()))
        };
        let fold = section.maybe_word("fold", &[("lower", Fold::Lower)]).unwrap_or(Fold::Exact);
        let mut tests = Vec::new();
        tests.extend(expression("equals").map(|value| value.map(|value| Test::Equals { value, fold })));
        tests.extend(expression("not_equals").map(|value| value.map(Test::Unequal)));
        tests.extend(expression("at_least").map(|value| value.map(Test::AtLeast)));
        tests.extend(expression("ends_with").map(|value| {
            let ending = value?;
            if ending.starts_with('/') && kind == Kind::AsIs {
                return Some(Test::Ends(ending));
            }
            section.wrong(
                "ends_with",
                "expected an ending that starts with `/`, such as `/captures/{params.capture}`: the end of another id would fit otherwise",
            );
            None
        }));
        tests.extend(section.maybe("in").map(|value| {
            literals(value).map(Test::In).or_else(|| {
                section.wrong("in", "expected a list of texts, whole numbers, true or false");
                None
            })
        }));
        tests.extend(
            section
                .maybe_flag("exists")
                .map(|exists| Some(if exists { Test::Exists } else { Test::Missing })),
        );
        if tests.len() != 1 {
            section.wrong(
                "",
                "expected exactly one of `equals`, `not_equals`, `in`, `exists`, `at_least` and `ends_with`",
            );
            return None;
        }
        let test = tests.pop().flatten();
        place.zip(test).map(|(place, test)| Self { among, place, kind, test })
    }

    /// A list of conditions under a key; absent is empty.
    pub(super) fn read_all(section: &Section<'_>, key: &str, scope: Scope<'_>) -> Vec<Self> {
        section
            .subs(key)
            .into_iter()
            .filter_map(|sub| {
                let condition = Self::read(&sub, scope);
                sub.close();
                condition
            })
            .collect()
    }

    /// Whether it holds. Anything that is not there or is of another kind makes it fail.
    pub(super) fn holds(&self, subject: Subject<'_>, context: &Context<'_>) -> bool {
        let subject = match &self.among {
            None => subject,
            Some(among) => Subject {
                body: among.only(subject, context).unwrap_or(&Answered::Null),
                ..subject
            },
        };
        let taken = |pointer: &str| {
            let found = subject.body.pointer(pointer)?;
            match self.kind {
                Kind::AsIs => Some(found.clone()),
                Kind::Decimal => money::minor(found.as_str()?, context.exponent?).map(Answered::from),
            }
        };
        let found = match &self.place {
            Place::Pointer(pointer) => taken(pointer),
            Place::Header(name) => subject.headers.get(name).map(|text| Answered::String(text.clone())),
            Place::Sum(terms) => terms
                .iter()
                .try_fold(0_i64, |sum, (sign, pointer)| {
                    let term = taken(pointer)?.as_i64()?.checked_mul(*sign)?;
                    sum.checked_add(term)
                })
                .map(Answered::from),
        };
        let found = found.filter(|value| !value.is_null());
        match &self.test {
            Test::Exists => found.is_some(),
            Test::Missing => found.is_none(),
            Test::In(values) => found.is_some_and(|found| values.iter().any(|value| value.to_value() == found)),
            Test::Equals { value, fold } => match (found, value.render(context).filter(|value| *value != Json::Null)) {
                (None, None) => true,
                (Some(Answered::String(found)), Some(Json::String(wanted))) if *fold == Fold::Lower => found.eq_ignore_ascii_case(&wanted),
                (Some(found), Some(wanted)) => wanted.to_value() == found,
                _ => false,
            },
            Test::Unequal(value) => match (found, value.render(context)) {
                (Some(found), Some(other)) => other.to_value() != found,
                _ => false,
            },
            Test::AtLeast(value) => match (
                found.as_ref().and_then(Answered::as_i64),
                value.render(context).as_ref().and_then(Json::as_integer),
            ) {
                (Some(found), Some(least)) => found >= least,
                _ => false,
            },
            Test::Ends(value) => match (found.as_ref().and_then(Answered::as_str), value.render(context)) {
                (Some(found), Some(Json::String(ending))) => found.ends_with(&ending),
                _ => false,
            },
        }
    }

    /// Whether it asks that something is there.
    pub(super) const fn asks_presence(&self) -> bool {
        matches!(self.test, Test::Exists | Test::In(_))
    }

    /// Whether it asks that something is not there.
    pub(super) const fn asks_absence(&self) -> bool {
        matches!(self.test, Test::Missing)
    }

    /// The pointers it reads; `None` if it looks at a header.
    pub(super) fn pointers(&self) -> Option<Vec<&str>> {
        match &self.place {
            Place::Pointer(pointer) => Some(vec![pointer]),
            Place::Sum(terms) => Some(terms.iter().map(|(_, pointer)| pointer.as_str()).collect()),
            Place::Header(_) => None,
        }
    }

    /// Whether it looks at nothing but these places.
    pub(super) fn looks_only_at(&self, places: &[String]) -> bool {
        let within = |all: Vec<&str>| all.iter().all(|pointer| places.iter().any(|place| place == pointer));
        self.among.is_none() && self.pointers().is_some_and(within)
    }

    /// The names an equality compares with.
    pub(super) fn equal_to(&self) -> impl Iterator<Item = &Reference> {
        match &self.test {
            Test::Equals { value, .. } | Test::Ends(value) => Some(value.references()),
            _ => None,
        }
        .into_iter()
        .flatten()
    }

    /// The whole condition in words.
    pub(super) fn words(&self) -> String {
        let place = self.place();
        match &self.test {
            Test::Equals { value, .. } => format!("{place} is {}", value.words()),
            Test::Unequal(value) => format!("{place} is not {}", value.words()),
            Test::In(values) => {
                let values: Vec<String> = values.iter().map(|value| value.to_value().to_string()).collect();
                format!("{place} is one of {}", values.join(", "))
            }
            Test::Exists => format!("{place} is there"),
            Test::Missing => format!("{place} is not there"),
            Test::AtLeast(value) => format!("{place} is at least {}", value.words()),
            Test::Ends(value) => format!("{place} ends with {}", value.words()),
        }
    }

    /// The place in words, for a message.
    pub(super) fn place(&self) -> String {
        let within = self.among.as_ref().map(|among| format!("{}/*", among.list)).unwrap_or_default();
        match &self.place {
            Place::Pointer(pointer) if self.among.is_some() => format!("{within}{pointer}"),
            Place::Pointer(pointer) => pointer.clone(),
            Place::Header(name) => format!("header {name}"),
            Place::Sum(terms) => terms
                .iter()
                .map(|(sign, pointer)| format!("{}{pointer}", if *sign < 0 { "-" } else { "+" }))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

impl Among {
    /// The keys `among` and `where`, which go together.
    fn read(section: &Section<'_>, scope: Scope<'_>) -> Option<Self> {
        let list = section.maybe_text("among", "a JSON pointer to a list");
        let marks = Condition::read_all(section, "where", scope);
        match list {
            None if marks.is_empty() => None,
            None => {
                section.wrong("where", "stands without `among`: name the list whose entry is meant");
                None
            }
            Some(list) => {
                if marks.is_empty() {
                    section.wrong("where", "is missing: say by what the one entry of the list is recognised");
                }
                pointer_at(section, "among", list).map(|list| Self { list, marks })
            }
        }
    }

    /// The entry that bears the marks; none if there are several, since then it cannot be told which is meant.
    fn only<'a>(&self, subject: Subject<'a>, context: &Context<'_>) -> Option<&'a Answered> {
        let list = subject.body.pointer(&self.list)?.as_array()?;
        let mut fitting = list.iter().filter(|entry| {
            self.marks
                .iter()
                .all(|mark| mark.holds(Subject { body: entry, ..subject }, context))
        });
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }
}

fn literals(value: &Value) -> Option<Vec<Json>> {
    value
        .as_array()?
        .iter()
        .map(|item| match item {
            Value::String(text) => Some(Json::String(text.clone())),
            Value::Integer(n) => Some(Json::Integer(*n)),
            Value::Boolean(b) => Some(Json::Bool(*b)),
            _ => None,
        })
        .collect()
}
