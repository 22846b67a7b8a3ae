//! Files to a checked policy: everything that could go wrong later is looked for here, and all of it is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cedar_policy::{Schema, ValidationMode, Validator};

use super::Policy;
use super::facts::Facts;
use super::limits::{self, LIMITS, MANIFEST};
use super::mistakes::{Mistakes, PolicyMistakes, chain};
use super::rules::{self, RULES, Rules};
use crate::domain::digest::Digest;
use crate::domain::money::Money;
use crate::domain::name::OperationName;
use crate::domain::operation::Consequence;
use crate::domain::policy::{PolicyRef, Question};

/// The file with the schema.
pub(super) const SCHEMA: &str = "schema.cedarschema";

/// The domain tag of a policy's hash, version 1.
const TAG: &str = "writ.policy.v1";

const GROUPS: [Consequence; 4] = [Consequence::Read, Consequence::Write, Consequence::Money, Consequence::Access];

/// Reads and checks the four files of `dir`.
pub(super) fn load(dir: &Path) -> Result<Policy, PolicyMistakes> {
    let mut mistakes = Mistakes::default();
    let manifest_text = text(dir, MANIFEST, &mut mistakes);
    let schema_text = text(dir, SCHEMA, &mut mistakes);
    let rules_text = text(dir, RULES, &mut mistakes);
    let limits_text = text(dir, LIMITS, &mut mistakes);

    let manifest = manifest_text.as_deref().and_then(|text| limits::manifest(text, &mut mistakes));
    let limits = limits_text.as_deref().and_then(|text| limits::limits(text, &mut mistakes));
    let schema = schema_text.as_deref().and_then(|text| schema(text, &mut mistakes));
    let rules = rules_text.as_deref().and_then(|text| rules::read(text, &mut mistakes));
    if let (Some(schema), Some(rules), Some(source)) = (&schema, &rules, &rules_text) {
        validate(schema, rules, source, &mut mistakes);
    }
    let operations = schema.as_ref().map(|schema| operations(schema, &mut mistakes)).unwrap_or_default();
    if !mistakes.is_empty() {
        return mistakes.or(None);
    }
    let (Some(manifest), Some(limits), Some(schema), Some(rules)) = (manifest, limits, schema, rules) else {
        mistakes.add("", "", "the policy could not be read", "check the directory");
        return mistakes.or(None);
    };
    let reference = PolicyRef {
        id: manifest.id,
        version: manifest.version,
        sha256: hash(&[rules_text.unwrap_or_default(), schema_text.unwrap_or_default()]),
        limits_sha256: Digest::of(limits_text.unwrap_or_default().as_bytes()),
    };
    let facts = match Facts::new(schema, limits, rules.queues()) {
        Ok(facts) => facts,
        Err(unfit) => {
            mistakes.add(SCHEMA, "", unfit.to_string(), "correct the schema");
            return mistakes.or(None);
        }
    };
    try_shapes(&facts, operations.keys(), &mut mistakes);
    mistakes.or(Some(Policy {
        reference,
        rules: rules.set,
        notes: rules.notes,
        operations,
        facts,
    }))
}

fn text(dir: &Path, file: &str, mistakes: &mut Mistakes) -> Option<String> {
    match std::fs::read_to_string(dir.join(file)) {
        Ok(text) => Some(text),
        Err(error) => {
            let remedy = format!("put a readable UTF-8 file `{file}` into the policy's directory {}", dir.display());
            mistakes.add(file, "", format!("cannot be read: {error}"), remedy);
            None
        }
    }
}

/// Each part is preceded by its length in eight bytes, so that no text can move from one part to the other unnoticed.
fn hash(parts: &[String]) -> Digest {
    let mut framed = Vec::new();
    for part in parts {
        framed.extend_from_slice(&(part.len() as u64).to_be_bytes());
        framed.extend_from_slice(part.as_bytes());
    }
    Digest::tagged(TAG, &framed)
}

fn schema(text: &str, mistakes: &mut Mistakes) -> Option<Schema> {
    match Schema::from_cedarschema_str(text) {
        Ok((schema, warnings)) => {
            for warning in warnings {
                mistakes.add_diagnostic(SCHEMA, text, "", &warning, "rename what is ambiguous");
            }
            Some(schema)
        }
        Err(error) => {
            mistakes.add_diagnostic(SCHEMA, text, "", &error, "correct the schema");
            None
        }
    }
}

/// Strict validation; a warning (a rule that can never fire, two scripts in one name) is a mistake too.
fn validate(schema: &Schema, rules: &Rules, source: &str, mistakes: &mut Mistakes) {
    let found = Validator::new(schema.clone()).validate(&rules.parsed, ValidationMode::Strict);
    let named = |id| rules.parsed.annotation(id, "id").unwrap_or_default().escape_debug().to_string();
    for error in found.validation_errors() {
        mistakes.add_diagnostic(RULES, source, &named(error.policy_id()), error, "use only what the schema declares");
    }
    for warning in found.validation_warnings() {
        mistakes.add_diagnostic(
            RULES,
            source,
            &named(warning.policy_id()),
            warning,
            "rewrite the rule so that it can take effect",
        );
    }
}

/// The schema's operations with their consequence: the one group of that name to which each belongs.
fn operations(schema: &Schema, mistakes: &mut Mistakes) -> BTreeMap<OperationName, Consequence> {
    let mut found = BTreeMap::new();
    let actions = match schema.action_entities() {
        Ok(actions) => actions,
        Err(error) => {
            mistakes.add(SCHEMA, "", chain(&error), "correct the actions");
            return found;
        }
    };
    let groups: BTreeSet<String> = schema.action_groups().map(|group| group.id().unescaped().to_owned()).collect();
    for action in schema.actions() {
        let name = action.id().unescaped();
        let place = format!("action `{}`", name.escape_debug());
        if action.type_name().to_string() != "Action" {
            mistakes.add(SCHEMA, place, "it stands in a namespace", "declare it outside of every namespace");
            continue;
        }
        let operation = match name.parse::<OperationName>() {
            Ok(operation) => operation,
            Err(_) if groups.contains(name) || GROUPS.iter().any(|group| group.as_str() == name) => continue,
            Err(error) => {
                mistakes.add(SCHEMA, place, error.to_string(), "rename the operation");
                continue;
            }
        };
        let within: BTreeSet<&str> = actions
            .ancestors(action)
            .into_iter()
            .flatten()
            .map(|group| group.id().unescaped())
            .collect();
        let consequences: Vec<Consequence> = GROUPS.into_iter().filter(|group| within.contains(group.as_str())).collect();
        match consequences.as_slice() {
            [one] => {
                found.insert(operation, *one);
            }
            _ => mistakes.add(
                SCHEMA,
                place,
                "it must belong to exactly one of the groups read, write, money and access",
                "write `in [money]` after its name, or another of the four",
            ),
        }
    }
    found
}

/// Builds the smallest and the largest question that can be asked of each operation. The schema must hold both, since a fact that does not
/// fit it denies.
fn try_shapes<'a>(facts: &Facts, operations: impl Iterator<Item = &'a OperationName>, mistakes: &mut Mistakes) {
    let queues: Vec<&str> = facts.queues().iter().map(|queue| queue.as_str()).collect();
    for operation in operations {
        for question in shapes(facts, operation) {
            let fits = facts.entities(&question).and_then(|_| facts.request(&question, &[]));
            if let Err(unfit) = fits {
                let remedy = format!(
                    "declare Agent, User, Currency, Draft and the context as the shipped schema does, with exactly the queues that rules name: {}",
                    queues.join(", ")
                );
                mistakes.add(
                    SCHEMA,
                    format!("action `{operation}`"),
                    format!("what the engine asks does not fit: {unfit}"),
                    remedy,
                );
                break;
            }
        }
    }
}

fn shapes(facts: &Facts, operation: &OperationName) -> Vec<Question> {
    let Ok(client) = "client".parse() else { return Vec::new() };
    let smallest = Question {
        operation: operation.clone(),
        client,
        owner: None,
        amount: None,
        fields: BTreeSet::new(),
        recent: 0,
    };
    let currencies = facts.limits().by_currency.keys().copied().chain("xxx".parse().ok());
    let largest = currencies
        .filter_map(|currency| Money::new(1, currency).ok())
        .map(|amount| Question {
            owner: "usr_owner".parse().ok(),
            amount: Some(amount),
            fields: BTreeSet::from(["field".to_owned()]),
            ..smallest.clone()
        });
    let mut shapes: Vec<Question> = largest.collect();
    shapes.push(smallest);
    shapes
}
