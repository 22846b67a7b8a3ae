//! The backend loses an answer, or never gets the request: still one refund, under one key.

use serde_json::Value;

use super::refunds::{CASE, count};
use super::{Script, refund};
use crate::demo::DemoError;
use crate::demo::page::{money, short};
use crate::demo::stage::{seen, text};
use crate::sandbox::{Fault, FaultKind, demo};

pub(super) async fn answer(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("The backend makes the refund and loses the answer");
    script.agent(&format!("propose: refund {} on {}", money(6_000, "usd"), demo::CHARGE));
    let draft = stage.propose(&refund(demo::CHARGE, 6_000, "usd", CASE)).await?.ok()?;
    let id = text(&draft, "/id")?;
    script.answered(&draft);
    script.check(
        "the third refund of a customer in a day waits for a person",
        "awaiting_approval",
        seen(&draft, "/state"),
    );
    let second = text(&stage.propose(&refund(demo::CHARGE, 1_000, "usd", CASE)).await?.ok()?, "/id")?;
    for draft in [&id, &second] {
        stage.approve("usr_mia", draft, "checked with the customer").await?.ok()?;
    }
    let token = stage.credential(&id).await?;
    let refunds = stage.sandbox.refunds(demo::CHARGE).len();
    let before = stage.sent();

    // The answer is lost, and the look-up that follows is held until the story goes on.
    stage.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    stage.sandbox.fault(Fault::once(FaultKind::Hold, "GET", "/v1/refunds"));
    let execution = text(&stage.start_execution(&token, &id).await?.ok()?, "/id")?;
    held(script).await?;
    script.backend("made the refund and hung up without a word");
    let unknown = stage
        .get(crate::demo::stage::AGENT, &format!("/v1/executions/{execution}"))
        .await?
        .ok()?;
    script.writ(&format!(
        "{} is {}: looked up, not sent again",
        short(&execution),
        seen(&unknown, "/state")
    ));
    script.check("a lost answer is not a no", "indeterminate", seen(&unknown, "/state"));
    let again = stage.propose(&refund(demo::CHARGE, 6_000, "usd", CASE)).await?.ok()?;
    script.agent("loses patience and proposes the same refund again");
    script.writ(&format!("{}: the open draft, no second card", short(&seen(&again, "/id"))));
    script.check(
        "the same refund while its outcome is unknown gives the same draft",
        &id,
        seen(&again, "/id"),
    );
    let again = stage.start_execution(&token, &id).await?;
    script.check(
        "a second call with the credential tells the same execution",
        &execution,
        seen(&again.body, "/id"),
    );
    let busy = stage.exchange(&second);
    script
        .refused("another refund of the charge meanwhile", 400, "resource_busy", busy)
        .await?;

    script.check("one look-up was waiting", 1, stage.sandbox.release());
    let found = stage.outcome(&execution).await?;
    tell(script, &found);
    script.check("the look-up finds the refund", "applied", seen(&found, "/state"));
    script.check(
        "one attempt, one look-up",
        "1 and 1",
        format!("{} and {}", count(&found, "/attempts"), count(&found, "/lookups")),
    );
    script.check("one request was sent", 1, stage.sent() - before);
    script.check(
        "the backend has one refund more",
        1,
        stage.sandbox.refunds(demo::CHARGE).len() - refunds,
    );
    Ok(())
}

pub(super) async fn request(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("The backend never gets the request");
    let charge = stage.payment(9_000).await?;
    let draft = stage.propose(&refund(&charge, 3_500, "usd", CASE)).await?.ok()?;
    let id = text(&draft, "/id")?;
    let token = stage.credential(&id).await?;
    let before = stage.sandbox.requests().len();
    stage.sandbox.fault(Fault::once(FaultKind::DropBefore, "POST", "/v1/refunds"));
    script.agent(&format!("execute: refund {} on {}", money(3_500, "usd"), short(&charge)));
    script.backend("closes the connection before it has done anything");
    let started = text(&stage.start_execution(&token, &id).await?.ok()?, "/id")?;
    let found = stage.outcome(&started).await?;
    tell(script, &found);
    script.check("the refund is applied in the end", "applied", seen(&found, "/state"));
    let keys: Vec<String> = stage
        .sandbox
        .requests()
        .into_iter()
        .skip(before)
        .filter(|r| r.method == "POST")
        .filter_map(|r| r.idempotency_key)
        .collect();
    let stored = seen(&draft, "/idempotency_key");
    script.check(
        "two attempts with the same stored key",
        format!("{stored} {stored}"),
        keys.join(" "),
    );
    script.check("one refund", 1, stage.sandbox.refunds(&charge).len());
    Ok(())
}

/// Waits until the backend holds a request.
pub(super) async fn held(script: &Script<'_>) -> Result<(), DemoError> {
    let wait = std::time::Duration::from_secs(10);
    tokio::time::timeout(wait, script.stage.sandbox.held(1))
        .await
        .map_err(|_| DemoError::Unexpected("the backend was not called within ten seconds".to_owned()))
}

/// Shows the attempts and the look-ups of an execution, in the order in which they were made.
fn tell(script: &mut Script<'_>, execution: &Value) {
    let list = |name: &str| execution.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let attempts = list("attempts").into_iter().map(|attempt| {
        let said = format!("attempt {}: {}", seen(&attempt, "/n"), seen(&attempt, "/outcome"));
        (seen(&attempt, "/sent_at"), said)
    });
    let lookups = list("lookups").into_iter().map(|lookup| {
        let said = format!("look-up, {}: {}", seen(&lookup, "/step"), seen(&lookup, "/finding"));
        (seen(&lookup, "/at"), said)
    });
    // Looked up, then sent again: within one millisecond the look-up came first.
    let mut history: Vec<(String, String)> = lookups.chain(attempts).collect();
    history.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, said) in history {
        script.writ(&said);
    }
    script.writ(&format!("{}: {}", seen(execution, "/state"), short(&seen(execution, "/reference"))));
}
