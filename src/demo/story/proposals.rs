//! Proposals that are not even stored, or that the policy denies for good.

use serde_json::{Value, json};

use super::refunds::CASE;
use super::{Script, refund};
use crate::demo::DemoError;
use crate::demo::page::money;
use crate::demo::stage::{AGENT, seen, text};
use crate::sandbox::demo;

pub(super) async fn refused(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("Proposals that are refused");
    script.prose("The model is treated as an attacker: what it writes is read strictly, or not at all.");
    let propose = async |body: String| stage.send(AGENT, "/v1/drafts", body, &[]).await;

    for (amount, code) in [
        ("-1", "operation_parameters_invalid"),
        ("0", "operation_parameters_invalid"),
        ("-0", "json_invalid"),
        ("1e2", "json_invalid"),
        ("10.0", "json_invalid"),
        ("\"100\"", "operation_parameters_invalid"),
        ("9007199254740992", "json_invalid"),
    ] {
        let name = format!("the amount {amount}");
        script
            .refused(&name, 400, code, propose(body_with(&format!(r#""amount":{amount}"#))))
            .await?;
    }
    let keys = [
        ("the same key twice", r#""amount":4000,"amount":1"#),
        ("the same key twice, once escaped", r#""amount":4000,"\u0061mount":1"#),
        ("a lone surrogate", r#""amount":4000,"reason":"\ud800""#),
    ];
    for (name, members) in keys {
        script.refused(name, 400, "json_invalid", propose(body_with(members))).await?;
    }
    let twice = body_with(r#""amount":4000"#)
        .replacen('{', r#"{"case_id":"a","#, 1)
        .replacen("}}", r#"},"case_id":"b"}"#, 1);
    script
        .refused("the same key twice at the top", 400, "json_invalid", propose(twice))
        .await?;
    let mut broken = body_with(r#""amount":4000,"reason":"?""#).into_bytes();
    if let Some(byte) = broken.iter_mut().find(|byte| **byte == b'?') {
        *byte = 0xff;
    }
    script
        .refused(
            "bytes that are not UTF-8",
            400,
            "json_invalid",
            stage.send(AGENT, "/v1/drafts", broken, &[]),
        )
        .await?;
    let extra = [
        ("a parameter that is not declared", r#""amount":4000,"note":"please""#),
        ("a parameter in other case", r#""amount":4000,"Reason":"duplicate""#),
        ("a destination of the agent's own", r#""amount":4000,"destination":"acct_mine""#),
        ("an idempotency key of the agent's own", r#""amount":4000,"idempotency_key":"mine""#),
    ];
    for (name, members) in extra {
        script
            .refused(name, 400, "operation_parameters_invalid", propose(body_with(members)))
            .await?;
    }
    let unknown = json!({ "operation": "refund.everything", "parameters": {} });
    script
        .refused("an operation nobody declared", 400, "operation_unknown", stage.propose(&unknown))
        .await?;
    let more = refund(demo::CHARGE, 12_001, "usd", CASE);
    script
        .refused(
            "more than what is left of the charge",
            409,
            "facts_do_not_support",
            stage.propose(&more),
        )
        .await?;
    let euros = refund(demo::CHARGE, 4_000, "eur", CASE);
    script
        .refused(
            "another currency than the charge's",
            409,
            "facts_do_not_support",
            stage.propose(&euros),
        )
        .await?;

    let big = stage.payment(600_000).await?;
    script.agent(&format!("propose: refund {} of a payment of 6,000.00 USD", money(500_001, "usd")));
    let before = stage.sent();
    let denied = stage.propose(&refund(&big, 500_001, "usd", "case-4900")).await?.ok()?;
    script.answered(&denied);
    script.check("5,000.01 USD is denied by the policy", "denied", seen(&denied, "/state"));
    script.check("by the rule that nobody can lift", true, fired(&denied, "refund-never-above"));
    script.check("nothing was sent", 0, stage.sent() - before);
    let id = text(&denied, "/id")?;
    script
        .refused(
            "a credential for what the policy denied",
            400,
            "draft_not_approved",
            stage.exchange(&id),
        )
        .await?;
    Ok(())
}

/// The text of a proposal on the blender's charge with these members among its parameters.
fn body_with(members: &str) -> String {
    format!(
        r#"{{"operation":"refund.create","parameters":{{"charge":"{}","currency":"usd",{members}}}}}"#,
        demo::CHARGE
    )
}

/// Whether the rule is among those that decided.
fn fired(draft: &Value, rule: &str) -> bool {
    let rules = draft.pointer("/verdict/rules").and_then(Value::as_array);
    rules.is_some_and(|rules| rules.iter().any(|r| seen(r, "/id") == rule))
}
