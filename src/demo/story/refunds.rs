//! What goes well: reads, a small refund that the policy allows, a large one that a person approves.

use serde_json::{Value, json};

use super::{Script, refund};
use crate::demo::DemoError;
use crate::demo::page::{money, short};
use crate::demo::stage::{AGENT, DESK, seen, text};
use crate::domain::approval::Decision;
use crate::domain::digest::Digest;
use crate::domain::draft::{DraftDocument, IdempotencyKey};
use crate::sandbox::{KeyUsed, demo};

/// The case of the blender.
pub(super) const CASE: &str = "case-4821";

pub(super) async fn reads(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("The agent looks: an order, its charge, the customer");
    script.prose(
        "A customer writes that her blender came with a cracked jug. Reading changes nothing, so no approval is needed; but an agent sees only \
         the fields that each read declares.",
    );
    let read = async |operation: &str, name: &str, id: &str| {
        let body = json!({ "operation": operation, "parameters": { name: id }, "case_id": CASE });
        stage.post(AGENT, "/v1/reads", &body).await
    };
    script.agent(&format!("read order {}", demo::ORDER));
    let order = read("order.read", "order", demo::ORDER).await?.ok()?;
    script.writ(&format!(
        "{}, {} in all: {}, {}, {}",
        seen(&order, "/fields/status"),
        amount(&order, "/fields/total", "/fields/currency"),
        seen(&order, "/fields/items/0/name"),
        seen(&order, "/fields/items/1/name"),
        seen(&order, "/fields/items/2/name"),
    ));
    script.check("the order is read", "delivered", seen(&order, "/fields/status"));
    script.check(
        "a field that the read does not declare is cut off",
        "-",
        seen(&order, "/fields/complaint"),
    );

    script.agent(&format!("read charge {}", demo::CHARGE));
    let charge = read("charge.read", "charge", demo::CHARGE).await?.ok()?;
    script.writ(&format!(
        "{}, {} refunded so far, card ending in {}",
        amount(&charge, "/fields/amount", "/fields/currency"),
        amount(&charge, "/fields/amount_refunded", "/fields/currency"),
        seen(&charge, "/fields/card_last4"),
    ));
    script.check("the charge is read", "40000", seen(&charge, "/fields/amount"));

    script.agent(&format!("read customer {}", demo::CUSTOMER));
    let customer = read("customer.read", "customer", demo::CUSTOMER).await?.ok()?;
    let email = seen(&customer, "/fields/email");
    script.writ(&format!(
        "{}, {} (masked), {}",
        seen(&customer, "/fields/name"),
        email,
        seen(&customer, "/fields/city")
    ));
    let real = stage.sandbox.customer(demo::CUSTOMER).map(|(_, record)| seen(&record, "/email"));
    script.check(
        "the e-mail address is masked",
        "masked",
        if real.as_deref() == Some(email.as_str()) || email == "-" {
            "open"
        } else {
            "masked"
        },
    );
    let keys: Vec<KeyUsed> = stage
        .sandbox
        .requests()
        .iter()
        .map(|r| r.key)
        .filter(|k| *k != KeyUsed::Read)
        .collect();
    script.check("reads were made with the key that may only read", 0, keys.len());
    let body = json!({ "operation": "order.read", "parameters": { "order": demo::ORDER } });
    let desk = stage.post(DESK, "/v1/reads", &body);
    script
        .refused("a read by a client without that role", 403, "role_missing", desk)
        .await?;
    Ok(())
}

pub(super) async fn allowed(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("A small refund: the policy allows it");
    let before = stage.sent();
    script.agent(&format!(
        "propose: refund {} (the express delivery) on {}",
        money(4_000, "usd"),
        demo::CHARGE
    ));
    let draft = stage.propose(&refund(demo::CHARGE, 4_000, "usd", CASE)).await?.ok()?;
    let id = text(&draft, "/id")?;
    script.writ(&format!(
        "{} is {} (rule {}). Its hash {} covers the exact request; its idempotency key {} is stored.",
        short(&id),
        seen(&draft, "/state"),
        seen(&draft, "/verdict/rules/0/id"),
        short(&seen(&draft, "/draft_hash")),
        short(&seen(&draft, "/idempotency_key")),
    ));
    script.check("a refund of 40.00 USD is allowed", "approved", seen(&draft, "/state"));
    script.check("nothing is sent before it is executed", 0, stage.sent() - before);
    script.agent("exchange the approval for a credential");
    let issued = stage.exchange(&id).await?.ok()?;
    script.writ(&format!(
        "a credential for this draft only, good for {} seconds",
        seen(&issued, "/expires_in")
    ));
    let seconds = issued.pointer("/expires_in").and_then(Value::as_i64).unwrap_or_default();
    script.check("the credential lives a minute at most", true, (1..=60).contains(&seconds));
    script.agent("execute");
    let execution = stage.execute(&text(&issued, "/access_token")?, &id).await?.ok()?;
    script.writ(&format!(
        "{} after {} attempt: {}",
        seen(&execution, "/state"),
        count(&execution, "/attempts"),
        short(&seen(&execution, "/reference"))
    ));
    script.check("the refund is applied", "applied", seen(&execution, "/state"));
    script.check("one request was sent", 1, stage.sent() - before);
    let refunds = stage.sandbox.refunds(demo::CHARGE);
    let made: Vec<i64> = refunds.iter().map(|r| r.amount).collect();
    script.check("the backend made one refund of 40.00 USD", "[4000]", format!("{made:?}"));
    Ok(())
}

pub(super) async fn asked(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("A large refund: a person decides");
    script.agent(&format!("propose: refund {} (the blender)", money(24_000, "usd")));
    let draft = stage.propose(&refund(demo::CHARGE, 24_000, "usd", CASE)).await?.ok()?;
    let id = text(&draft, "/id")?;
    script.writ(&format!(
        "{} is {}: \"{}\" Wanted: {} signature from {}.",
        short(&id),
        seen(&draft, "/state"),
        seen(&draft, "/verdict/rules/0/reason"),
        seen(&draft, "/approval/needed"),
        seen(&draft, "/approval/all_of/0/queue"),
    ));
    script.check(
        "a refund of 240.00 USD waits for a person",
        "awaiting_approval",
        seen(&draft, "/state"),
    );
    script.check(
        "the agent does not see the card's nonce",
        "-",
        seen(&draft, "/approval/request_nonce"),
    );
    script
        .refused("a credential before the approval", 400, "approval_pending", stage.exchange(&id))
        .await?;

    let again = stage.propose(&refund(demo::CHARGE, 24_000, "usd", CASE)).await?.ok()?;
    script.agent("propose the same again, to be sure");
    script.writ(&format!("{}: the open draft, no second card", short(&seen(&again, "/id"))));
    script.check("the same proposal gives the same draft", &id, seen(&again, "/id"));

    let bytes = stage.get(DESK, &format!("/v1/drafts/{id}/bytes")).await?.ok()?;
    script.person(&format!(
        "usr_mia sees what will be sent (the zeros stand for the stored key): {} {} {}",
        seen(&bytes, "/request/method"),
        seen(&bytes, "/request/url"),
        seen(&bytes, "/request/body"),
    ));
    script.person("usr_mia signs: \"the photo shows the crack\"");
    let record = stage.record("usr_mia", &id, Decision::Approve, "the photo shows the crack").await?;
    let body = json!({ "record": record });
    let own = stage.post(AGENT, "/v1/approvals", &body);
    script
        .refused("the agent hands the record in itself", 403, "role_missing", own)
        .await?;
    let accepted = stage.hand_in(&record).await?.ok()?;
    script.writ(&format!("{} is {}", short(&id), seen(&accepted, "/draft/state")));
    script.check("the signed record approves the draft", "approved", seen(&accepted, "/draft/state"));

    script.agent("exchange the record, and execute");
    let issued = stage
        .token_endpoint(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", &record),
            ("subject_token_type", "urn:writ:token-type:approval-record"),
        ])
        .await?
        .ok()?;
    let execution = stage.execute(&text(&issued, "/access_token")?, &id).await?.ok()?;
    script.writ(&format!(
        "{}: {}",
        seen(&execution, "/state"),
        short(&seen(&execution, "/reference"))
    ));
    script.check("the refund is applied", "applied", seen(&execution, "/state"));
    let wire = stage.sandbox.requests().into_iter().rfind(|r| r.method == "POST");
    script.backend(&format!(
        "got key {} and body {}",
        short(wire.as_ref().and_then(|r| r.idempotency_key.as_deref()).unwrap_or("-")),
        wire.as_ref().map_or("-", |r| r.body.as_str()),
    ));
    script.check(
        "the bytes that were approved are the bytes that were sent",
        approved_body(&bytes, &seen(&draft, "/idempotency_key")).map_or_else(|| "-".to_owned(), |digest| digest.to_string()),
        wire.as_ref().map_or_else(|| "-".to_owned(), |r| r.body_sha256.to_string()),
    );
    script.check(
        "the key on the wire is the stored one",
        seen(&draft, "/idempotency_key"),
        wire.and_then(|r| r.idempotency_key).unwrap_or_default(),
    );
    script
        .refused(
            "a second credential from the same approval",
            400,
            "draft_not_approved",
            stage.exchange(&id),
        )
        .await?;
    Ok(())
}

/// SHA-256 of the body that the approved document says will be sent under this key.
fn approved_body(document: &Value, key: &str) -> Option<Digest> {
    let document = DraftDocument::parse(document.to_string().as_bytes()).ok()?;
    Some(Digest::of(&document.request.wire_body(&IdempotencyKey::parse(key)?)))
}

fn amount(value: &Value, minor: &str, currency: &str) -> String {
    money(
        value.pointer(minor).and_then(Value::as_i64).unwrap_or_default(),
        &seen(value, currency),
    )
}

/// How many entries the list at the pointer has.
pub(super) fn count(value: &Value, pointer: &str) -> usize {
    value.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len)
}
