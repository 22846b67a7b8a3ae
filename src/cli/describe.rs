//! A draft in words: who, what, the exact request. The same words where it is shown and where it is signed.

use std::collections::{BTreeMap, BTreeSet};

use super::output::{Output, shown};
use crate::backend::Backends;
use crate::config::Config;
use crate::domain::draft::{DraftDocument, IdempotencyKey, KeyPlacement};
use crate::domain::json::Json;
use crate::domain::money::{Currency, Money, decimal};
use crate::domain::name::OperationName;
use crate::store::record::{ApprovalRecord, DraftRecord};

/// How many decimals amounts have, by the backend files.
pub(super) struct Decimals(Option<Backends>);

impl Decimals {
    /// By the backend files that the configuration names; if they cannot be read, amounts are shown in minor units.
    pub(super) fn of(config: &Config) -> Self {
        Self(Backends::load(&config.backends).ok())
    }

    /// Nothing is known: amounts are shown in minor units.
    pub(super) const fn unknown() -> Self {
        Self(None)
    }

    /// The amount in major units where the backend's decimals are known, always with its minor units.
    pub(super) fn amount(&self, operation: &OperationName, money: Money) -> String {
        amount_words(money.minor(), money.currency(), self.exponent(operation, money.currency()))
    }

    /// As [`Decimals::amount`], of what several operations have in one currency; in minor units unless all of them have the same decimals.
    pub(super) fn sum<'o>(&self, operations: impl Iterator<Item = &'o OperationName>, currency: Currency, minor: i64) -> String {
        let known: Option<BTreeSet<u8>> = operations.map(|operation| self.exponent(operation, currency)).collect();
        let one = known
            .filter(|exponents| exponents.len() == 1)
            .and_then(|exponents| exponents.first().copied());
        amount_words(minor, currency, one)
    }

    /// How many decimals the currency has for the operation.
    pub(super) fn exponent(&self, operation: &OperationName, currency: Currency) -> Option<u8> {
        let operation = self.0.as_ref()?.operation(operation)?;
        operation.exponent(currency)
    }
}

fn amount_words(minor: i64, currency: Currency, exponent: Option<u8>) -> String {
    let code = currency.to_upper();
    let units = if minor == 1 { "minor unit" } else { "minor units" };
    match exponent {
        Some(exponent) => format!("{} {code} ({minor} {units})", decimal(minor, exponent)),
        None => format!("{minor} {units} of {code}"),
    }
}

/// What would be done and what would be sent.
pub(super) fn document(out: &Output, document: &DraftDocument, key: &IdempotencyKey, decimals: &Decimals) -> String {
    let maker = &document.maker;
    let owner = maker.owner.as_ref().map(|owner| format!(", owned by {owner}")).unwrap_or_default();
    let whose = document.on_behalf_of.as_ref().map(|who| format!(", for {who}")).unwrap_or_default();
    let mut pairs = vec![
        ("operation", format!("{} ({})", document.operation, document.consequence.as_str())),
        ("resource", document.resource.to_string()),
    ];
    if let Some(money) = document.amount {
        pairs.push(("amount", decimals.amount(&document.operation, money)));
    }
    pairs.push(("made by", format!("{}{owner}{whose}", maker.client)));
    if let Some(case) = &document.case_id {
        pairs.push(("case", case.to_string()));
    }
    if let Some(code) = &document.reason_code {
        pairs.push(("reason code", shown(code)));
    }
    for evidence in &document.evidence {
        pairs.push(("evidence", format!("{} {}", shown(&evidence.kind), evidence.sha256)));
    }
    pairs.push(("made at", document.created_at.to_string()));
    pairs.push(("expires at", document.expires_at.to_string()));
    pairs.push(("if it fails", shown(&document.on_failure)));
    let mut text = out.pairs(&pairs);
    text.push_str(&section(out, "what changes", &changes(&document.parameters)));
    let facts: Vec<String> = flat(&document.facts)
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    text.push_str(&section(out, "what the backend said", &facts));
    text.push_str(&section(out, "what is sent, exactly", &request(document, key)));
    text
}

/// A heading with indented lines; nothing if there are none.
pub(super) fn section(out: &Output, name: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let line = |line: &String| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    let lines: String = lines.iter().map(line).collect();
    format!("\n{}\n{lines}", out.strong(name))
}

fn request(document: &DraftDocument, key: &IdempotencyKey) -> Vec<String> {
    let request = &document.request;
    let mut lines = vec![format!("{} {}", request.method, shown(&request.url))];
    lines.extend(request.headers.iter().map(|(name, value)| format!("{name}: {}", shown(value))));
    lines.push(match &request.idempotency_key {
        KeyPlacement::Header { name, quoted: true } => format!("{name}: \"{key}\""),
        KeyPlacement::Header { name, quoted: false } => format!("{name}: {key}"),
        KeyPlacement::Body => format!("(the key {key} stands in the body)"),
        KeyPlacement::None => "(the backend takes no idempotency key: this is sent once and never again)".to_owned(),
    });
    lines.push(String::new());
    lines.push(shown(&String::from_utf8_lossy(&request.wire_body(key))));
    lines
}

/// Where parameters name old and new values, each difference; otherwise the parameters.
fn changes(parameters: &Json) -> Vec<String> {
    let flat_of = |name: &str| parameters.member(name).map(flat).unwrap_or_default();
    let (old, new) = (flat_of("old"), flat_of("new"));
    let mut lines: Vec<String> = flat(parameters)
        .into_iter()
        .filter(|(name, _)| !in_member(name, "old") && !in_member(name, "new"))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let value = |side: &BTreeMap<String, String>| side.get(name).cloned().unwrap_or_else(|| "(none)".to_owned());
        let (before, after) = (value(&old), value(&new));
        let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
        lines.push(if before == after {
            format!("{label}{before} (stays)")
        } else {
            format!("{label}{before} -> {after}")
        });
    }
    lines
}

fn in_member(path: &str, member: &str) -> bool {
    path.strip_prefix(member)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Every leaf with its path, dots between names.
fn flat(json: &Json) -> BTreeMap<String, String> {
    fn walk(path: &str, json: &Json, leaves: &mut BTreeMap<String, String>) {
        match json {
            Json::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    let below = if path.is_empty() {
                        shown(name)
                    } else {
                        format!("{path}.{}", shown(name))
                    };
                    walk(&below, value, leaves);
                }
            }
            leaf => {
                let text = leaf
                    .as_str()
                    .map_or_else(|| String::from_utf8_lossy(&leaf.canonical()).into_owned(), shown);
                leaves.insert(path.to_owned(), text);
            }
        }
    }
    let mut leaves = BTreeMap::new();
    if !matches!(json, Json::Object(members) if members.is_empty()) {
        walk("", json, &mut leaves);
    }
    leaves
}

/// What the policy said and who has signed.
pub(super) fn standing(out: &Output, draft: &DraftRecord) -> String {
    let mut text = String::new();
    if let Some(verdict) = &draft.verdict {
        let answer = &verdict.answer;
        let mut lines = vec![format!(
            "{} by {} version {}",
            answer.outcome.as_str(),
            answer.policy.id,
            answer.policy.version
        )];
        lines.extend(answer.rules.iter().map(|rule| format!("{}: {}", rule.id, shown(&rule.reason))));
        text.push_str(&section(out, "policy", &lines));
    }
    if let Some(approval) = &draft.approval {
        text.push_str(&section(out, "approval", &approval_lines(approval)));
    }
    if let Some(closed) = &draft.closed {
        let reason = closed.reason.as_deref().map(shown).unwrap_or_default();
        text.push_str(&section(
            out,
            "ended",
            &[format!("{} by {}: {reason}", closed.code, shown(&closed.by))],
        ));
    }
    if let Some(execution) = &draft.execution {
        let reference = execution
            .reference
            .as_deref()
            .map(|r| format!(", {}", shown(r)))
            .unwrap_or_default();
        text.push_str(&section(
            out,
            "execution",
            &[format!("{} is {}{reference}", execution.id, execution.state)],
        ));
    }
    text
}

fn approval_lines(approval: &ApprovalRecord) -> Vec<String> {
    let filled = approval.requirement.filled(&approval.signatures());
    let mut lines = vec![format!(
        "{} ({filled} of {} signatures)",
        approval.state,
        approval.requirement.needed()
    )];
    for need in &approval.requirement.all_of {
        let fresh = if need.step_up { ", signed in afresh" } else { "" };
        lines.push(format!("needs {} of {}{fresh}", need.count, need.queue));
    }
    for record in &approval.records {
        let reason = record.reason.as_deref().map(|r| format!(": {}", shown(r))).unwrap_or_default();
        lines.push(format!(
            "{} by {} with {} at {}{reason}",
            record.decision.as_str(),
            record.approver,
            record.kid,
            record.received_at
        ));
    }
    lines.push(match approval.execute_by {
        Some(at) => format!("can be used until {at}"),
        None => format!("can be answered until {}", approval.expires_at),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_in_major_units_where_its_decimals_are_known() {
        let words = |minor, exponent| amount_words(minor, "eur".parse().unwrap(), exponent);
        assert_eq!(words(3000, Some(2)), "30.00 EUR (3000 minor units)");
        assert_eq!(words(1, Some(2)), "0.01 EUR (1 minor unit)");
        assert_eq!(words(3000, None), "3000 minor units of EUR");
        assert_eq!(words(1, None), "1 minor unit of EUR");
    }

    #[test]
    fn a_change_is_shown_with_both_values_and_a_plain_parameter_once() {
        let json = Json::parse(br#"{"customer":"c1","old":{"city":"A","zip":"1"},"new":{"city":"B","zip":"1"}}"#).unwrap();
        assert_eq!(changes(&json), ["customer: c1", "city: A -> B", "zip: 1 (stays)"]);
        let json = Json::parse(br#"{"customer":"c1","old":"a@x","new":"b@x"}"#).unwrap();
        assert_eq!(changes(&json), ["customer: c1", "a@x -> b@x"]);
        let json = Json::parse(br#"{"amount":24000,"older":"x"}"#).unwrap();
        assert_eq!(changes(&json), ["amount: 24000", "older: x"]);
    }
}
