//! The part of an operation that says what is sent.

use std::collections::BTreeSet;

use toml::Value;

use super::headers::{Taken, header_name};
use super::operation::{Body, Encoding, Request};
use super::template::{Expression, Names, Path, Reference, Scope};
use crate::domain::draft::{KEY_PLACEHOLDER, KeyPlacement};
use crate::settings::Section;

/// The table `request`; where the key goes is filled in by the caller.
pub(super) fn request(sub: Section<'_>, names: &Names, taken: &mut Taken) -> Option<Request> {
    let method = sub.word(
        "method",
        &[("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH"), ("DELETE", "DELETE")],
    );
    let path = sub.text("path", "a path such as `/v1/refunds`");
    let path = path.and_then(|path| Path::read(path, &sub.at("path"), names.with(&[]), sub.log()));
    let encoding = sub.word("encoding", &[("form", Encoding::Form), ("json", Encoding::Json)]);
    let headers = request_headers(sub.maybe_sub("headers"), names, taken);
    let others = [
        names.version.as_slice(),
        &[("draft.id", Reference::DraftId), ("idem.key", Reference::Key)],
    ]
    .concat();
    let body = sub.value("body", "a table of what is sent").and_then(|value| match value {
        Value::Table(table) => Some(members(&Section::new(sub.at("body"), table, sub.log()), names.with(&others))),
        _ => {
            sub.wrong("body", "expected a table of what is sent");
            None
        }
    });
    if let (Some(Encoding::Form), Some(Body::Object(members))) = (encoding, &body) {
        for (name, _) in members.iter().filter(|(_, member)| !matches!(member, Body::Value(_))) {
            sub.wrong(
                &format!("body.{name}"),
                "a form has no nesting: write names such as `metadata[draft]`",
            );
        }
    }
    sub.close();
    Some(Request {
        method: method?.to_owned(),
        path: path?,
        encoding: encoding?,
        headers,
        body: body?,
        placement: KeyPlacement::None,
    })
}

fn request_headers(section: Option<Section<'_>>, names: &Names, taken: &mut Taken) -> Vec<(String, Expression)> {
    let Some(section) = section else { return Vec::new() };
    let none = BTreeSet::new();
    let scope = Scope {
        params: &none,
        facts: &names.facts,
        others: &names.version,
    };
    let mut out = Vec::new();
    for (name, value) in section.entries() {
        let held = value.to_string();
        if held.contains("params.") {
            section.wrong(
                name,
                "a header must not hold what a caller supplies: use a kept fact or `{resource.version}`",
            );
            continue;
        }
        if header_name(&section, name, name).is_none() {
            continue;
        }
        taken.claim(name, &section.at(name), section.log());
        if let Some(value) = Expression::read(value, &section.at(name), scope, section.log()) {
            out.push((name.to_owned(), value));
        }
    }
    section.close();
    out
}

fn members(section: &Section<'_>, scope: Scope<'_>) -> Body {
    let all = section
        .entries()
        .filter_map(|(name, value)| Some((name.to_owned(), body(value, &section.at(name), scope, section)?)));
    Body::Object(all.collect())
}

fn body(value: &Value, place: &str, scope: Scope<'_>, section: &Section<'_>) -> Option<Body> {
    let log = section.log();
    match value {
        Value::Table(table) if !table.contains_key("from") && !table.contains_key("literal") => {
            Some(members(&Section::new(place.to_owned(), table, log), scope))
        }
        Value::Array(items) => {
            let items = items
                .iter()
                .enumerate()
                .map(|(index, item)| body(item, &format!("{place}[{index}]"), scope, section));
            items.collect::<Option<Vec<_>>>().map(Body::Array)
        }
        value => {
            let value = Expression::read(value, place, scope, log)?;
            if value.literals().any(|text| text.contains(KEY_PLACEHOLDER)) {
                log.add(
                    place,
                    "holds the text that marks the idempotency key's place: write `{idem.key}` there",
                );
                return None;
            }
            Some(Body::Value(value))
        }
    }
}
