//! The part of an operation that says what a backend's events about it mean.

use super::answer::pointer_at;
use super::classify::Outcome;
use super::condition::Condition;
use super::reconcile::Step;
use super::template::{Reference, Scope};
use super::told::{EventRule, Events, Trust};
use crate::settings::Section;

/// What is wrong with a place that the signature does not cover.
const UNSIGNED: &str = "is not one of `webhook.signed`: whoever delivers the event could change it";

/// Reads the table `events`; absent is none.
pub(super) fn events(
    section: &Section<'_>,
    scope: Scope<'_>,
    resource: Option<&str>,
    amount: Option<&(String, String)>,
    steps: &[Step],
    signed: Option<&[String]>,
) -> Option<Events> {
    let sub = section.maybe_sub("events")?;
    let mark = |key: &str| {
        let text = sub.maybe_text(key, "a JSON pointer such as `/data/object/id`")?;
        if signed.is_some_and(|signed| !signed.iter().any(|place| place == text)) {
            sub.wrong(key, format!("`{text}` {UNSIGNED}"));
        }
        pointer_at(&sub, key, text)
    };
    let (draft, key, reference) = (mark("draft"), mark("key"), mark("reference"));
    if draft.is_none() && key.is_none() && reference.is_none() {
        sub.wrong(
            "draft",
            "is missing: say where the event names the draft's id (`draft`), the idempotency key (`key`) or the backend's own id (`reference`)",
        );
    }
    let require = Condition::read_all(&sub, "require", scope);
    for param in resource
        .into_iter()
        .chain(amount.into_iter().flat_map(|(minor, currency)| [minor.as_str(), currency.as_str()]))
    {
        let compared = require
            .iter()
            .flat_map(Condition::equal_to)
            .any(|reference| matches!(reference, Reference::Param(path) if path.join(".") == param));
        if !compared {
            sub.wrong(
                "require",
                format!("does not compare anything with `{{params.{param}}}`: an event counts only if it is about this draft"),
            );
        }
    }
    only_signed(&sub, "require", &require, signed);
    let on: Vec<EventRule> = sub.subs("on").into_iter().filter_map(|rule| one(rule, scope, signed)).collect();
    if on.is_empty() {
        sub.wrong("on", "is missing: say which types of event mean what");
    }
    // Without any step there is one mistake already.
    let can_look = steps.is_empty() || steps.iter().any(|step| !step.is_replay());
    let word = sub.maybe_word("confirm", &[("look_up", Trust::LookUp), ("event", Trust::Event)]);
    match word {
        Some(Trust::Event) if can_look => sub.wrong(
            "confirm",
            "the backend can be asked under `reconcile`, so an event's own word must not count: write `look_up`",
        ),
        Some(Trust::LookUp) | None if !can_look => sub.wrong(
            "confirm",
            "nothing under `reconcile` can be looked up: add a step, or write `confirm = \"event\"` to take the signed event's own word",
        ),
        _ => {}
    }
    sub.close();
    Some(Events {
        draft,
        key,
        reference,
        require,
        trust: word.unwrap_or(Trust::LookUp),
        on,
    })
}

/// Nothing may follow from what whoever delivers an event could change.
fn only_signed(section: &Section<'_>, key: &str, conditions: &[Condition], signed: Option<&[String]>) {
    let Some(signed) = signed else { return };
    for condition in conditions.iter().filter(|condition| !condition.looks_only_at(signed)) {
        section.wrong(key, format!("`{}` {UNSIGNED}", condition.place()));
    }
}

fn one(rule: Section<'_>, scope: Scope<'_>, signed: Option<&[String]>) -> Option<EventRule> {
    let name = rule.text("name", "what this event means, in a few words");
    let types: Vec<String> = rule.texts("types").into_iter().map(str::to_owned).collect();
    if types.is_empty() {
        rule.wrong("types", "is missing or empty: list the types of event, in the backend's words");
    }
    let when = Condition::read_all(&rule, "when", scope);
    only_signed(&rule, "when", &when, signed);
    let outcome = rule.word(
        "outcome",
        &[
            ("applied", Outcome::Applied),
            ("pending", Outcome::Pending),
            ("failed", Outcome::Failed),
        ],
    );
    rule.close();
    Some(EventRule {
        name: name?.to_owned(),
        types,
        when,
        outcome: outcome?,
    })
}
