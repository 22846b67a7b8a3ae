//! The books at the end: what the backend did, what was approved, and what an auditor can read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Script;
use crate::demo::DemoError;
use crate::demo::page::money;
use crate::demo::stage::{AGENT, AUDITOR, seen};
use crate::sandbox::Refund;

/// How many events are read at a time.
const PAGE: usize = 500;

pub(super) fn closed(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("The books");
    let requests = stage.sandbox.requests();
    let posts: Vec<_> = requests.iter().filter(|r| r.method == "POST" && r.path == "/v1/refunds").collect();
    let effects = posts.iter().filter(|r| r.effect).count();
    let keys: BTreeSet<_> = posts.iter().filter_map(|r| r.idempotency_key.as_deref()).collect();
    script.backend(&format!(
        "{} requests for a refund, {} keys, {effects} refunds made",
        posts.len(),
        keys.len()
    ));
    script.check(
        "every refund request carried a key",
        posts.len(),
        posts.iter().filter(|r| r.idempotency_key.is_some()).count(),
    );
    script.check("one refund for each key", keys.len(), effects);
    let changes = requests
        .iter()
        .filter(|r| r.method == "PATCH" && r.idempotency_key.is_some() && r.effect)
        .count();
    script.check("two changes of the account: an address, an e-mail address", 2, changes);
    Ok(())
}

/// What an auditor sees: how many events of each type; and the checks that need the whole log.
pub(in crate::demo) async fn audit(script: &mut Script<'_>) -> Result<Vec<String>, DemoError> {
    let stage = script.stage;
    let own = stage.get(AGENT, "/v1/audit/events");
    script.refused("the agent reads the audit log", 403, "role_missing", own).await?;
    let mut events: Vec<(u64, Value)> = Vec::new();
    let mut after = String::new();
    loop {
        let page = stage.get(AUDITOR, &format!("/v1/audit/events?limit={PAGE}{after}")).await?.ok()?;
        let lines = page.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
        for line in &lines {
            let event = serde_json::from_str(&seen(line, "/event")).unwrap_or(Value::Null);
            events.push((line.get("seq").and_then(Value::as_u64).unwrap_or(u64::MAX), event));
        }
        match page.get("next_after_seq").and_then(Value::as_u64) {
            Some(next) if page.get("complete") == Some(&Value::Bool(false)) => after = format!("&after_seq={next}"),
            _ => break,
        }
    }
    // An auditor does not see the events of the other tenant in this story; what it sees is in the order in which it was written.
    let in_order = events.is_sorted_by(|(a, _), (b, _)| a < b);
    script.check("the audit log is in order", true, in_order);
    let elsewhere = events.iter().filter(|(_, event)| seen(event, "/tenant") == "annex").count();
    script.check("and shows nothing of the other tenant", 0, elsewhere);
    let all: String = events.iter().map(|(_, event)| event.to_string()).collect();
    script.check(
        "the audit log holds no secret of the backend",
        false,
        all.contains(stage.sandbox.write_key().expose()),
    );
    script.check(
        "the audit log holds no client's secret",
        false,
        all.contains(stage.secret(AGENT).expose()),
    );
    reconcile(script, &events);
    let mut kinds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (_, event) in &events {
        let entry = kinds.entry(seen(event, "/type")).or_default();
        entry.0 += 1;
        entry.1 = last_line(event);
    }
    let mut lines = vec![format!(
        "What an auditor sees: {} events, in the order they were written; of each type how many, and the last one",
        events.len()
    )];
    lines.extend(
        kinds
            .into_iter()
            .map(|(kind, (count, last))| format!("{count:>5}  {kind:<30} {last}").trim_end().to_owned()),
    );
    Ok(lines)
}

/// Refunds at the backend against the executions that the log says were applied: the same drafts, each once, and the same sum.
fn reconcile(script: &mut Script<'_>, events: &[(u64, Value)]) {
    let applied = ["execution.confirm_applied", "execution.reconcile_applied"];
    let mut logged: Vec<String> = events
        .iter()
        .map(|(_, event)| event)
        .filter(|e| applied.contains(&seen(e, "/type").as_str()) && seen(e, "/operation") == "refund.create")
        .map(|e| format!("{} {}", seen(e, "/draft/id"), seen(e, "/amount/minor")))
        .collect();
    logged.sort();
    let mut made: Vec<String> = refunds(script)
        .iter()
        .map(|r| {
            let draft = r.metadata.get("writ_draft").and_then(Value::as_str).unwrap_or("-");
            format!("{draft} {}", r.amount)
        })
        .collect();
    made.sort();
    let drafts: BTreeSet<&str> = made.iter().filter_map(|line| line.split(' ').next()).collect();
    script.check("no draft was refunded twice", made.len(), drafts.len());
    script.check(
        "the refunds at the backend are exactly the approved and applied ones",
        format!("{} of {}", made.len(), made.len()),
        format!("{} of {}", logged.iter().filter(|line| made.contains(line)).count(), logged.len()),
    );
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for refund in refunds(script) {
        *sums.entry(refund.currency.to_string()).or_default() += refund.amount;
    }
    let sums: Vec<String> = sums.iter().map(|(currency, sum)| money(*sum, currency)).collect();
    script.backend(&format!("has given back {} in {} refunds", sums.join(" and "), made.len()));
}

/// Every refund at the backend, of every charge it was asked about.
fn refunds(script: &Script<'_>) -> Vec<Refund> {
    let stage = script.stage;
    let charges: BTreeSet<String> = stage
        .sandbox
        .requests()
        .into_iter()
        .filter(|r| r.path == "/v1/refunds" && r.method == "POST")
        .filter_map(|r| {
            form_urlencoded::parse(r.body.as_bytes())
                .find(|(name, _)| name == "charge")
                .map(|(_, charge)| charge.into_owned())
        })
        .collect();
    charges.iter().flat_map(|charge| stage.sandbox.refunds(charge)).collect()
}

/// The last event of a type, in one line: when, who, about what, with which result.
fn last_line(event: &Value) -> String {
    let known = |pointer: &str| Some(seen(event, pointer)).filter(|text| text != "-");
    let parts = [
        known("/actor/id"),
        known("/draft/id").map(|id| crate::demo::page::short(&id)),
        known("/outcome"),
        known("/code"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
