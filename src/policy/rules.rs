//! The rules' annotations, read strictly: each rule's name, its sentence for people, and who can lift it.

use std::collections::BTreeSet;

use cedar_policy::{Effect, Policy as CedarPolicy, PolicyId, PolicySet};

use super::limits::is_slug;
use super::mistakes::{Mistakes, line_of};
use crate::domain::name::QueueName;
use crate::domain::policy::{QueueNeed, Rule};

/// The file with the rules.
pub(super) const RULES: &str = "rules.cedar";

/// Ids of answers that no rule in the file gives; a rule must not take one of them.
pub mod reserved {
    /// The operation is not in the schema.
    pub const UNKNOWN_OPERATION: &str = "unknown-operation";
    /// A rule or a fact could not be evaluated.
    pub const EVALUATION_ERROR: &str = "evaluation-error";
    /// No rule permits it.
    pub const NO_PERMIT: &str = "no-permit";
    /// It moves money and names no amount.
    pub const MISSING_AMOUNT: &str = "missing-amount";
    /// A rule is lifted by approvals and does not say whose.
    pub const NOBODY_TO_ASK: &str = "nobody-to-ask";
    /// Each rule is satisfied and yet a place that must be signed has no person of its own.
    pub const PLACE_UNFILLED: &str = "place-unfilled";

    /// All of them.
    pub const ALL: [&str; 6] = [
        UNKNOWN_OPERATION,
        EVALUATION_ERROR,
        NO_PERMIT,
        MISSING_AMOUNT,
        NOBODY_TO_ASK,
        PLACE_UNFILLED,
    ];
}

/// A rule as its author described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) rule: Rule,
    /// Who can lift it; `None` on a rule that permits, and on one that nobody can lift.
    pub(super) need: Option<QueueNeed>,
}

/// The rules of a file, with their notes in its order.
pub(super) struct Rules {
    /// As parsed, under the parser's own ids, rules with mistakes included.
    pub(super) parsed: PolicySet,
    /// Under their @id, those without mistakes in it.
    pub(super) set: PolicySet,
    pub(super) notes: Vec<Note>,
}

impl Rules {
    /// Every queue that a rule names.
    pub(super) fn queues(&self) -> BTreeSet<QueueName> {
        self.notes
            .iter()
            .filter_map(|note| note.need.as_ref())
            .map(|need| need.queue.clone())
            .collect()
    }
}

/// Reads the rules; `None` if they cannot be parsed at all. What is wrong with single rules is only reported.
pub(super) fn read(source: &str, mistakes: &mut Mistakes) -> Option<Rules> {
    let parsed = match source.parse::<PolicySet>() {
        Ok(parsed) => parsed,
        Err(errors) => {
            for error in errors.iter() {
                mistakes.add_diagnostic(RULES, source, "", error, "correct the rule's text");
            }
            return None;
        }
    };
    for template in parsed.templates() {
        let place = place(source, &template.to_cedar(), None);
        mistakes.add(
            RULES,
            place,
            "a rule with `?principal` or `?resource` is a template",
            "write the rule out",
        );
    }
    let mut inorder: Vec<&CedarPolicy> = parsed.policies().collect();
    inorder.sort_by_key(|policy| ordinal(policy.id()));
    if inorder.is_empty() {
        mistakes.add(RULES, "", "there is no rule", "write at least one `permit`");
    }
    let mut rules = Rules {
        parsed: parsed.clone(),
        set: PolicySet::new(),
        notes: Vec::new(),
    };
    for policy in inorder {
        let text = policy.to_cedar().unwrap_or_default();
        let place = place(source, &text, policy.annotation("id"));
        let Some(note) = note(policy, &place, mistakes) else { continue };
        if rules.set.add(policy.new_id(PolicyId::new(&note.rule.id))).is_err() {
            mistakes.add(RULES, place, "this @id is used twice", "give each rule its own @id");
            continue;
        }
        rules.notes.push(note);
    }
    Some(rules)
}

/// The parser numbers the rules of a file `policy0`, `policy1`, ...
fn ordinal(id: &PolicyId) -> usize {
    let text: &str = id.as_ref();
    text.trim_start_matches("policy").parse().unwrap_or(usize::MAX)
}

fn place(source: &str, text: &str, id: Option<&str>) -> String {
    let line = source.find(text).filter(|_| !text.is_empty()).map(|offset| line_of(source, offset));
    match (line, id) {
        (_, Some(id)) if !id.is_empty() => format!("rule `{}`", id.escape_debug()),
        (Some(line), _) => format!("the rule at line {line}"),
        (None, _) => "a rule".to_owned(),
    }
}

fn note(policy: &CedarPolicy, place: &str, mistakes: &mut Mistakes) -> Option<Note> {
    const KNOWN: [&str; 5] = ["id", "reason", "queue", "need", "stepup"];
    for (key, _) in policy.annotations().filter(|(key, _)| !KNOWN.contains(key)) {
        mistakes.add(
            RULES,
            place,
            format!("@{key} is not a known annotation"),
            "remove it, or write one of @id @reason @queue @need @stepup",
        );
    }
    let reason = policy.annotation("reason").map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_none() {
        mistakes.add(
            RULES,
            place,
            "it has no @reason",
            "add @reason(\"a sentence that people will read\")",
        );
    }
    let need = need(policy, place, mistakes);
    let id = match policy.annotation("id") {
        None | Some("") => {
            mistakes.add(RULES, place, "it has no @id", "add @id(\"some-name\")");
            return None;
        }
        Some(id) if reserved::ALL.contains(&id) => {
            mistakes.add(RULES, place, "this @id is one the engine uses itself", "choose another @id");
            return None;
        }
        Some(id) if !is_slug(id) => {
            mistakes.add(
                RULES,
                place,
                "this @id is not a rule's name",
                "write lower-case words joined by `-`, at most 64 characters",
            );
            return None;
        }
        Some(id) => id.to_owned(),
    };
    // A rule without a sentence is a mistake already; it is kept so that what else is wrong with it is found as well.
    let reason = reason.unwrap_or_default().to_owned();
    Some(Note {
        rule: Rule { id, reason },
        need,
    })
}

fn need(policy: &CedarPolicy, place: &str, mistakes: &mut Mistakes) -> Option<QueueNeed> {
    let (queue, count, step_up) = (policy.annotation("queue"), policy.annotation("need"), policy.annotation("stepup"));
    if queue.is_none() && count.is_none() && step_up.is_none() {
        return None;
    }
    if policy.effect() == Effect::Permit {
        mistakes.add(
            RULES,
            place,
            "a `permit` cannot ask for approvals",
            "move @queue, @need and @stepup to a `forbid` that approvals lift",
        );
    }
    let queue = match queue.map(str::parse::<QueueName>) {
        Some(Ok(queue)) => Some(queue),
        Some(Err(error)) => {
            mistakes.add(
                RULES,
                place,
                format!("@queue: {error}"),
                "name the queue as the approvers' registry does",
            );
            None
        }
        None => {
            mistakes.add(
                RULES,
                place,
                "@need or @stepup stands without @queue",
                "add @queue, or remove the others",
            );
            None
        }
    };
    let count = match count.map(str::as_bytes) {
        Some([digit @ b'1'..=b'9']) => Some(u32::from(digit - b'0')),
        _ => {
            mistakes.add(RULES, place, "@need is missing or is not one digit from 1 to 9", "add @need(\"1\")");
            None
        }
    };
    let step_up = match step_up {
        None | Some("false") => Some(false),
        Some("true") => Some(true),
        Some(_) => {
            mistakes.add(
                RULES,
                place,
                "@stepup is neither \"true\" nor \"false\"",
                "write @stepup(\"true\"), or remove it",
            );
            None
        }
    };
    Some(QueueNeed {
        queue: queue?,
        count: count?,
        step_up: step_up?,
    })
}
