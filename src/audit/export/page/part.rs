//! What a chapter tells of one event: label and value.

use super::chapter::Chapter;
use crate::audit::export::read::{Amount, Event, Resource};
use crate::audit::{ActorKind, EventOutcome};
use crate::domain::approval::Decision;
use crate::domain::money::{Currency, decimal};

/// Pairs of label and value.
pub(super) type Pairs = Vec<(&'static str, String)>;

/// How many decimals a currency has for an operation, if that is known.
pub(super) type Decimals<'a> = &'a dyn Fn(&str, Currency) -> Option<u8>;

/// Everything of the event that this chapter is about.
pub(super) fn pairs(chapter: Chapter, event: &Event, decimals: Decimals<'_>) -> Pairs {
    let mut out = Pairs::new();
    match chapter {
        Chapter::Asked => asked(&mut out, event, decimals),
        Chapter::Policy => policy(&mut out, event),
        Chapter::Approval => approval(&mut out, event),
        Chapter::Credential => credential(&mut out, event),
        Chapter::Sending => sending(&mut out, event),
        Chapter::Answer => answer(&mut out, event),
        Chapter::Ended | Chapter::Other => put(&mut out, "about", event.subject.clone()),
    }
    if let Some(stop) = &event.stop {
        let covers = stop
            .scope
            .iter()
            .chain(&stop.value)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ");
        put(&mut out, "stop", Some(format!("{} {covers}", stop.id).trim_end().to_owned()));
    }
    put(&mut out, "code", event.code.clone());
    if event.outcome != EventOutcome::Ok {
        put(&mut out, "outcome", Some(event.outcome.as_str().to_owned()));
    }
    put(
        &mut out,
        "state",
        event.state.as_ref().map(|s| match &s.from {
            Some(from) => format!("{from} → {}", s.to),
            None => s.to.clone(),
        }),
    );
    put(&mut out, "by", Some(actor(event)));
    out
}

/// Who did it, with what kind of thing that is.
pub(super) fn actor(event: &Event) -> String {
    let kind = match event.actor.kind {
        ActorKind::Client => "client",
        ActorKind::Person => "person",
        ActorKind::Rule => "rule",
        ActorKind::System => "writ's own",
        ActorKind::Anonymous => "not authenticated",
    };
    format!("{} ({kind})", event.actor.id)
}

/// The amount in major units where the decimals are known, always with its minor units.
pub(super) fn amount(event: &Event, decimals: Decimals<'_>) -> Option<String> {
    let Amount { minor, currency } = event.amount?;
    let code = currency.to_upper();
    let exponent = event.operation.as_ref().and_then(|operation| decimals(operation, currency));
    Some(match exponent {
        Some(exponent) => format!("{} {code} ({minor} minor units)", decimal(minor, exponent)),
        None => format!("{minor} minor units of {code}"),
    })
}

/// What it touches, with the version that was seen.
pub(super) fn resource(resource: &Resource) -> String {
    let version = resource.version.iter().map(|version| format!(", version {version}"));
    format!("{} {}{}", resource.kind, resource.id, version.collect::<String>())
}

fn put(out: &mut Pairs, label: &'static str, value: Option<String>) {
    out.extend(value.map(|value| (label, value)));
}

fn asked(out: &mut Pairs, event: &Event, decimals: Decimals<'_>) {
    put(out, "operation", event.operation.clone());
    put(out, "on", event.resource.as_ref().map(resource));
    put(out, "amount", amount(event, decimals));
    put(out, "tenant", event.tenant.clone());
    put(out, "draft", event.draft.as_ref().map(|draft| draft.id.clone()));
    put(out, "draft hash", event.draft.as_ref().map(|draft| draft.hash.clone()));
}

fn policy(out: &mut Pairs, event: &Event) {
    let Some(policy) = &event.policy else { return };
    put(out, "answer", Some(policy.outcome.as_str().to_owned()));
    let rules = if policy.rules.is_empty() {
        "none named".to_owned()
    } else {
        policy.rules.join(", ")
    };
    put(out, "rules", Some(rules));
    put(out, "policy", Some(format!("{}, version {}", policy.id, policy.version)));
    put(out, "policy hash", Some(policy.sha256.clone()));
    put(out, "limits hash", Some(policy.limits_sha256.clone()));
}

fn approval(out: &mut Pairs, event: &Event) {
    let Some(approval) = &event.approval else { return };
    put(out, "signed by", approval.approver.clone());
    put(out, "with key", approval.kid.clone());
    let decision = approval.decision.map(|decision| match decision {
        Decision::Approve => "yes".to_owned(),
        Decision::Deny => "no".to_owned(),
    });
    put(out, "decision", decision);
    put(out, "approval", Some(approval.id.clone()));
    put(out, "record", approval.record_id.clone());
    put(out, "record hash", approval.record_sha256.clone());
}

fn credential(out: &mut Pairs, event: &Event) {
    let Some(credential) = &event.credential else { return };
    put(out, "credential", Some(credential.id.clone()));
    put(out, "for", credential.audience.clone());
    put(out, "good until", credential.expires_at.clone());
    put(out, "root key", credential.root_key_id.map(|id| id.to_string()));
}

fn sending(out: &mut Pairs, event: &Event) {
    if let Some(execution) = &event.execution {
        put(out, "execution", Some(execution.id.clone()));
        put(out, "idempotency key", Some(execution.idempotency_key.clone()));
        put(out, "fencing token", Some(execution.fence.to_string()));
    }
    if let Some(attempt) = &event.attempt {
        put(out, "attempt", Some(attempt.n.to_string()));
        put(out, "hash of what was sent", Some(attempt.request_sha256.clone()));
    }
}

fn answer(out: &mut Pairs, event: &Event) {
    put(out, "attempt", event.attempt.as_ref().map(|attempt| attempt.n.to_string()));
    let Some(provider) = &event.provider else { return };
    put(out, "HTTP status", provider.status.map(|status| status.to_string()));
    put(out, "backend's id", provider.reference.clone());
    put(out, "read by rule", provider.rule.clone());
    put(out, "hash of the answer", provider.body_sha256.clone());
}
