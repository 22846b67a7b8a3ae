//! Credentials: for something else, forged, copied, replayed.

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{Script, refund};
use crate::demo::DemoError;
use crate::demo::page::{money, short};
use crate::demo::stage::{AGENT, FOREIGN_AGENT, Stage, seen, text};
use crate::domain::clock::Clock as _;
use crate::domain::digest::{Digest, DraftHash};
use crate::sandbox::demo;
use crate::token::{Grant, KeyRing};

const CASE: &str = "case-4840";

/// What the replays are about.
struct Held {
    draft: String,
    token: String,
}

pub(super) async fn wrong(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("Credentials at the wrong door");
    let charge = stage.payment(9_000).await?;
    let proposed = stage.propose(&refund(&charge, 5_000, "usd", CASE)).await?.ok()?;
    let held = hold(stage, &text(&proposed, "/id")?).await?;
    script.agent(&format!(
        "holds a credential for {}, {} on {}; and tries it elsewhere",
        short(&held.draft),
        money(5_000, "usd"),
        short(&charge)
    ));
    let token = held.token.as_str();

    let elsewhere = stage.payment(9_000).await?;
    let order = proposal(stage, AGENT, &refund(&elsewhere, 5_000, "usd", CASE)).await?;
    script
        .refused(
            "for another order",
            403,
            "credential_resource_mismatch",
            stage.execute(token, &order),
        )
        .await?;
    let amount = proposal(stage, AGENT, &refund(&charge, 5_001, "usd", CASE)).await?;
    script
        .refused(
            "for another amount",
            403,
            "credential_draft_mismatch",
            stage.execute(token, &amount),
        )
        .await?;
    let address = proposal(stage, AGENT, &address_change()).await?;
    script
        .refused(
            "for another operation",
            403,
            "credential_operation_mismatch",
            stage.execute(token, &address),
        )
        .await?;
    let address = hold(stage, &address).await?;
    let email = proposal(stage, AGENT, &email_change()).await?;
    let at_email = stage.execute(&address.token, &email);
    script
        .refused(
            "an address credential at the e-mail operation",
            403,
            "credential_operation_mismatch",
            at_email,
        )
        .await?;
    let foreign = proposal(stage, FOREIGN_AGENT, &refund(&elsewhere, 5_000, "usd", CASE)).await?;
    script
        .refused(
            "for another tenant's draft",
            403,
            "credential_tenant_mismatch",
            stage.execute(token, &foreign),
        )
        .await?;
    let annex = format!("{}/v1/executions", stage.annex);
    let bearer = format!("Bearer {token}");
    let own = json!({ "draft_id": held.draft });
    let at_annex = stage.execute_at(&annex, Some(&bearer), &own, &[]);
    script
        .refused("at another proxy (audience)", 403, "credential_audience_mismatch", at_annex)
        .await?;
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", &order),
        ("subject_token_type", "urn:writ:token-type:draft"),
        ("audience", "urn:writ:proxy:elsewhere"),
    ];
    let asked = stage.token_endpoint(&form);
    script
        .refused("a credential asked for an unknown audience", 400, "audience_unknown", asked)
        .await?;

    let document = stage.get(AGENT, &format!("/v1/drafts/{}/bytes", held.draft)).await?.ok()?;
    for (name, pointer, value) in [
        ("its draft with the amount edited", "/parameters/amount", json!(9_000)),
        ("its draft with the currency edited", "/parameters/currency", json!("eur")),
        (
            "its draft with the destination edited",
            "/request/url",
            json!("http://127.0.0.1:9/mine"),
        ),
    ] {
        let edited = json!({ "draft": with(&document, pointer, value) });
        script
            .refused(name, 403, "credential_draft_mismatch", stage.execute_body(token, &edited))
            .await?;
    }
    let mut extra = document.clone();
    if let Some(members) = extra.as_object_mut() {
        members.insert("note".to_owned(), json!("please"));
    }
    let extra = json!({ "draft": extra });
    script
        .refused(
            "its draft with a field added",
            400,
            "json_invalid",
            stage.execute_body(token, &extra),
        )
        .await?;

    let url = format!("{}/v1/executions", stage.url);
    script
        .refused(
            "no credential at all",
            401,
            "credential_missing",
            stage.execute_at(&url, None, &own, &[]),
        )
        .await?;
    let random = URL_SAFE.encode(crate::domain::clock::random::<96>(&*stage.entropy));
    script
        .refused("a random token", 401, "credential_malformed", stage.execute(&random, &held.draft))
        .await?;
    let bytes = decoded(token)?;
    let other_key = URL_SAFE.encode([&[0x08, 0x63], bytes.get(2..).unwrap_or_default()].concat());
    script
        .refused(
            "signed by a key nobody knows",
            401,
            "credential_key_unknown",
            stage.execute(&other_key, &held.draft),
        )
        .await?;
    let two_blocks = URL_SAFE.encode([bytes.as_slice(), &second_block()].concat());
    script
        .refused(
            "with a second block behind the signed one",
            401,
            "credential_extra_blocks",
            stage.execute(&two_blocks, &held.draft),
        )
        .await?;
    let forged = forge(stage, &proposed, &held)?;
    script
        .refused(
            "signed by a forger's key",
            401,
            "credential_signature_invalid",
            stage.execute(&forged, &held.draft),
        )
        .await?;

    script.prose("None of this has used the credential up: it is still good for its own draft. Eight calls with it at the same time:");
    let before = stage.sent();
    let call = || stage.execute(token, &held.draft);
    let (a, b, c, d, e, f, g, h) = tokio::join!(call(), call(), call(), call(), call(), call(), call(), call());
    let mut states = Vec::new();
    let mut ids = Vec::new();
    for reply in [a, b, c, d, e, f, g, h] {
        let body = reply?.ok()?;
        states.push(seen(&body, "/state"));
        ids.push(seen(&body, "/id"));
    }
    ids.dedup();
    states.dedup();
    script.writ(&format!("{} execution, {}", ids.len(), states.join(" and ")));
    script.check("eight calls at once are one execution", 1, ids.len());
    script.check("it is applied", "applied", states.join(" "));
    script.check("and one request was sent", 1, stage.sent() - before);
    replays(script, &held, &order).await
}

async fn replays(script: &mut Script<'_>, held: &Held, other: &str) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("The spent credential, again and in other clothes");
    let bytes = decoded(&held.token)?;
    let unpadded = URL_SAFE_NO_PAD.encode(&bytes);
    // Field 1023, length-delimited, empty: no reader knows it, and the signature does not cover it.
    let with_field = URL_SAFE.encode([bytes.as_slice(), &[0xfa, 0x3f, 0x00]].concat());
    // The key id written twice: the last one would count.
    let key_id_twice = URL_SAFE.encode([&[0x08, 0x63], bytes.as_slice()].concat());
    let first = stage.execute(&held.token, &held.draft).await?.ok()?;
    for (name, copy) in [("the same token", held.token.clone()), ("a copy without padding", unpadded)] {
        let before = stage.sent();
        let again = stage.execute(&copy, &held.draft).await?;
        let sent = stage.sent() - before;
        script.writ(&format!("{name}: the recorded outcome, {sent} sent"));
        script.check(
            &format!("{name} gives the recorded outcome"),
            format!("200 {} 0 sent", seen(&first, "/id")),
            format!("{} {} {sent} sent", again.status, seen(&again.body, "/id")),
        );
    }
    for (name, copy) in [
        ("a copy with an unknown field", with_field),
        ("a copy with the key id written twice", key_id_twice),
    ] {
        script
            .refused(name, 401, "credential_malformed", stage.execute(&copy, &held.draft))
            .await?;
    }
    script
        .refused(
            "the spent token for another draft",
            403,
            "credential_resource_mismatch",
            stage.execute(&held.token, other),
        )
        .await?;
    script
        .refused(
            "a second execution with the same approval",
            400,
            "draft_not_approved",
            stage.exchange(&held.draft),
        )
        .await?;
    Ok(())
}

pub(super) async fn replayed(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("One live credential, one key");
    let charge = stage.payment(9_000).await?;
    script.agent("asks for its own idempotency key: in the header of the proposal, in the header of the execution");
    let body = refund(&charge, 3_000, "usd", CASE).to_string();
    let mine = [("idempotency-key", "mine-1")];
    let draft = stage.send(AGENT, "/v1/drafts", body, &mine).await?.ok()?;
    let id = text(&draft, "/id")?;
    let replaced = stage.credential(&id).await?;
    let live = stage.credential(&id).await?;
    script
        .refused(
            "a credential that a newer one has replaced",
            401,
            "credential_not_live",
            stage.execute(&replaced, &id),
        )
        .await?;
    let url = format!("{}/v1/executions?wait=10", stage.url);
    let done = stage
        .execute_at(&url, Some(&format!("Bearer {live}")), &json!({ "draft_id": id }), &mine)
        .await?
        .ok()?;
    script.check("the newer one is good", "applied", seen(&done, "/state"));
    let wire = stage
        .sandbox
        .requests()
        .into_iter()
        .rfind(|r| r.path == "/v1/refunds" && r.method == "POST");
    let on_wire = wire.as_ref().and_then(|r| r.idempotency_key.clone()).unwrap_or_default();
    script.backend(&format!("got the key {}", short(&on_wire)));
    script.check("the wire shows only the stored key", seen(&draft, "/idempotency_key"), on_wire);
    let body = wire.map(|r| r.body).unwrap_or_default();
    script.check("the agent's own key is nowhere in the request", false, body.contains("mine-1"));

    let withdrawn = proposal(stage, AGENT, &refund(&charge, 1_000, "usd", CASE)).await?;
    let token = stage.credential(&withdrawn).await?;
    stage
        .post(AGENT, &format!("/v1/drafts/{withdrawn}/withdraw"), &json!({}))
        .await?
        .ok()?;
    script
        .refused(
            "a credential whose draft was withdrawn",
            401,
            "credential_not_live",
            stage.execute(&token, &withdrawn),
        )
        .await?;
    Ok(())
}

async fn proposal(stage: &Stage, client: &str, body: &Value) -> Result<String, DemoError> {
    text(&stage.post(client, "/v1/drafts", body).await?.ok()?, "/id")
}

async fn hold(stage: &Stage, draft: &str) -> Result<Held, DemoError> {
    Ok(Held {
        draft: draft.to_owned(),
        token: stage.credential(draft).await?,
    })
}

fn decoded(token: &str) -> Result<Vec<u8>, DemoError> {
    URL_SAFE
        .decode(token)
        .map_err(|error| DemoError::Unexpected(format!("the credential is not base64url: {error}")))
}

/// The document with another value at the pointer.
fn with(document: &Value, pointer: &str, value: Value) -> Value {
    let mut edited = document.clone();
    if let Some(place) = edited.pointer_mut(pointer) {
        *place = value;
    }
    edited
}

/// A block as the wire format has it (field 3 of the token): an empty text of version 3, a next key, a signature. Whoever holds the token could
/// sign it properly; a token of two blocks is refused before anybody looks.
fn second_block() -> Vec<u8> {
    let text = [0x0a, 0x02, 0x18, 0x03];
    let key = [&[0x12, 0x24, 0x08, 0x00, 0x12, 0x20][..], &[1; 32]].concat();
    let signature = [&[0x1a, 0x40][..], &[0; 64]].concat();
    let block = [&text[..], &key, &signature].concat();
    let length = u8::try_from(block.len()).unwrap_or_default();
    [&[0x1a, length][..], &block].concat()
}

/// The same grant, word for word, signed by a key that a forger made, under the id of the real one.
fn forge(stage: &Stage, draft: &Value, held: &Held) -> Result<String, DemoError> {
    let failed = |error: &dyn std::fmt::Display| DemoError::Unexpected(format!("no forgery could be made: {error}"));
    let now = stage.clock.now();
    let minute = std::time::Duration::from_secs(60);
    let ring = KeyRing::generate(
        &stage.dir().join(format!("forger-{}", short(&held.draft))),
        now,
        minute,
        &*stage.entropy,
    )
    .map_err(|error| failed(&error))?;
    let (not_before, expires_at) = Grant::window(now, minute);
    let parse = |pointer: &str| text(draft, pointer);
    let resource = format!("main/{}:{}", parse("/resource/type")?, parse("/resource/id")?);
    let digest = Digest::parse(&parse("/draft_hash")?).ok_or_else(|| failed(&"the hash is unreadable"))?;
    let grant = Grant {
        operation: parse("/operation")?.parse().map_err(|error| failed(&error))?,
        resource: resource.parse().map_err(|error| failed(&error))?,
        draft_hash: DraftHash::from_digest(digest),
        audience: stage.config.proxy_audience.clone(),
        credential: crate::domain::id::CredentialId::generate(&*stage.clock, &*stage.entropy),
        jti: parse("/approval/id")?.parse().map_err(|error| failed(&error))?,
        not_before,
        expires_at,
    };
    let minter = ring.signing(now).map_err(|error| failed(&error))?;
    let token = minter.mint(&grant, &*stage.entropy).map_err(|error| failed(&error))?;
    Ok(token.expose().to_owned())
}

fn address_change() -> Value {
    json!({
        "operation": "shipping_address.update", "case_id": CASE,
        "parameters": {
            "customer": demo::CUSTOMER_OTHER,
            "old": { "line1": "3 Mill Lane", "city": "Salem", "postal_code": "97301", "country": "US" },
            "new": { "line1": "4 Mill Lane", "city": "Salem", "postal_code": "97301", "country": "US" },
        },
    })
}

fn email_change() -> Value {
    json!({
        "operation": "email.update", "case_id": CASE,
        "parameters": {
            "customer": demo::CUSTOMER_OTHER,
            "old_email": "jonas.weiss@example.com", "new_email": "jonas@example.net",
        },
    })
}
