//! Approvals: records that do not count, decisions at the same instant, two people, a revoked one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::{Script, refund};
use crate::demo::DemoError;
use crate::demo::page::{money, short};
use crate::demo::people::Forgery;
use crate::demo::stage::{Reply, seen, text};
use crate::domain::approval::Decision;
use crate::domain::digest::{Digest, DraftHash};

const CASE: &str = "case-4830";

pub(super) async fn refused(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("Approvals that do not count");
    let charge = stage.payment(60_000).await?;
    let other = stage.payment(60_000).await?;
    script.agent(&format!("propose: refund {} to another customer", money(30_000, "usd")));
    let draft = text(&stage.propose(&refund(&charge, 30_000, "usd", CASE)).await?.ok()?, "/id")?;
    let foreign = text(&stage.propose(&refund(&other, 20_000, "usd", CASE)).await?.ok()?, "/id")?;
    script.writ(&format!("{} waits for a person", short(&draft)));

    let owner = stage.approve("usr_ann", &draft, "mine");
    script
        .refused("the person answerable for the agent", 403, "self_approval", owner)
        .await?;
    let ada = stage.approve("usr_ada", &draft, "looks right");
    script
        .refused("a person without authority for refunds", 403, "approver_without_authority", ada)
        .await?;
    let large = stage.payment(200_000).await?;
    let large = text(&stage.propose(&refund(&large, 150_001, "usd", CASE)).await?.ok()?, "/id")?;
    let tom = stage.approve("usr_tom", &large, "looks right");
    script
        .refused("one cent over the person's limit", 403, "approver_over_limit", tom)
        .await?;

    let card = stage.card(&draft).await?;
    let claims = stage.claims("usr_mia", &card, Decision::Approve, "the photo shows the crack")?;
    let genuine = stage.sign("usr_mia", &claims)?;
    let forged = |name: &str, value| Ok::<_, DemoError>(Forgery::of(&genuine)?.with_header(name, value).record());
    let mut unsigned = Forgery::of(&genuine)?.with_header("alg", json!("none"));
    unsigned.signature.clear();
    script
        .refused("alg: none", 400, "record_algorithm_none", stage.hand_in(&unsigned.record()))
        .await?;
    let mut mac = Forgery::of(&genuine)?.with_header("alg", json!("HS256"));
    let public = URL_SAFE_NO_PAD.decode(stage.signer("usr_mia")?.public()).unwrap_or_default();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public);
    mac.signature = ring::hmac::sign(&key, mac.message().as_bytes()).as_ref().to_vec();
    let mac = mac.record();
    script
        .refused("HS256 over the public key", 400, "record_algorithm_refused", stage.hand_in(&mac))
        .await?;
    let record = forged("typ", json!("JWT"))?;
    script
        .refused("the wrong typ", 400, "record_type_refused", stage.hand_in(&record))
        .await?;
    let record = forged("jwk", json!({ "kty": "EC", "crv": "P-256" }))?;
    script
        .refused(
            "a record that brings its own key",
            400,
            "record_header_embeds_key",
            stage.hand_in(&record),
        )
        .await?;
    let record = forged("crit", json!(["exp"]))?;
    script
        .refused("a critical extension", 400, "record_header_critical", stage.hand_in(&record))
        .await?;
    let record = forged("kid", json!("usr_eve-1"))?;
    script
        .refused("a key that is not registered", 403, "approver_key_unknown", stage.hand_in(&record))
        .await?;

    let denial = stage.claims("usr_mia", &card, Decision::Deny, "the photo shows another blender")?;
    let mut edited = Forgery::of(&stage.sign("usr_mia", &denial)?)?;
    if let Some(decision) = edited.claims.pointer_mut("/apr/decision") {
        *decision = json!("approve");
    }
    let edited = edited.record();
    script
        .refused(
            "a denial edited into an approval",
            400,
            "record_signature_invalid",
            stage.hand_in(&edited),
        )
        .await?;

    let elsewhere = stage.card(&foreign).await?;
    let mut with_nonce = claims.clone();
    with_nonce.apr.request_nonce = text(&elsewhere, "/approval/request_nonce")?;
    let record = stage.sign("usr_mia", &with_nonce)?;
    script
        .refused("another draft's nonce", 409, "request_nonce_mismatch", stage.hand_in(&record))
        .await?;
    let mut with_hash = claims.clone();
    if let Some(digest) = Digest::parse(&text(&elsewhere, "/draft_hash")?) {
        with_hash.apr.draft_hash = DraftHash::from_digest(digest);
    }
    let record = stage.sign("usr_mia", &with_hash)?;
    script
        .refused("another draft's hash", 409, "draft_hash_mismatch", stage.hand_in(&record))
        .await?;
    script.prose("After all that the card is still open, and the genuine record counts.");
    let accepted = stage.hand_in(&genuine).await?.ok()?;
    script.check("the genuine record still counts", "approved", seen(&accepted, "/draft/state"));
    script
        .refused("the same record once more", 409, "approval_answered", stage.hand_in(&genuine))
        .await?;
    run(script, &draft).await?;

    script.person("usr_mia denies the large one: \"the customer already has the money\"");
    let denial = stage
        .record("usr_mia", &large, Decision::Deny, "the customer already has the money")
        .await?;
    let denied = stage.hand_in(&denial).await?.ok()?;
    script.check("one signed denial ends the draft", "denied", seen(&denied, "/draft/state"));
    let view = stage.get(super::super::stage::AGENT, &format!("/v1/drafts/{large}")).await?.ok()?;
    script.writ(&format!("tells the agent: \"{}\"", seen(&view, "/reason")));
    script.check(
        "the agent reads exactly the person's words",
        "the customer already has the money",
        seen(&view, "/reason"),
    );
    let after = stage.exchange(&large);
    script
        .refused("a credential for what a person denied", 400, "draft_not_approved", after)
        .await?;
    Ok(())
}

pub(super) async fn races(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("Two decisions at the same instant");
    for (name, first, second, told) in [
        ("two people", "usr_mia", "usr_tom", "approval_decided"),
        ("one person twice", "usr_mia", "usr_mia", "approval_answered"),
    ] {
        let charge = stage.payment(60_000).await?;
        let draft = text(&stage.propose(&refund(&charge, 15_000, "usd", CASE)).await?.ok()?, "/id")?;
        let one = stage.record(first, &draft, Decision::Approve, "agreed").await?;
        let two = stage.record(second, &draft, Decision::Approve, "agreed").await?;
        let (one, two) = tokio::join!(stage.hand_in(&one), stage.hand_in(&two));
        let mut answers = [said(&one?), said(&two?)];
        answers.sort();
        script.person(&format!("{name}: {} and {}", answers[0], answers[1]));
        script.check(
            &format!("{name} at once: one wins, the other is told"),
            format!("200 approved, 409 {told}"),
            answers.join(", "),
        );
        run(script, &draft).await?;
    }
    Ok(())
}

fn said(reply: &Reply) -> String {
    match reply.status {
        200 => format!("200 {}", seen(&reply.body, "/draft/state")),
        status => format!("{status} {}", reply.code()),
    }
}

pub(super) async fn quorum(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("Two people, and one who leaves");
    let charge = stage.payment(200_000).await?;
    let large = refund(&charge, 120_000, "usd", CASE);
    script.agent(&format!("propose: refund {}", money(120_000, "usd")));
    let draft = text(&stage.propose(&large).await?.ok()?, "/id")?;
    let first = stage.approve("usr_mia", &draft, "the photo shows the crack").await?.ok()?;
    script.person(&format!(
        "usr_mia signs: {} of {} signatures",
        seen(&first, "/draft/approval/given"),
        seen(&first, "/draft/approval/needed")
    ));
    script.check(
        "one signature of two leaves the draft waiting",
        "awaiting_approval",
        seen(&first, "/draft/state"),
    );
    let again = stage.approve("usr_mia", &draft, "and once more");
    script
        .refused("the same person for the second signature", 409, "approval_answered", again)
        .await?;
    script
        .refused(
            "a credential with one signature of two",
            400,
            "approval_pending",
            stage.exchange(&draft),
        )
        .await?;
    let second = stage.approve("usr_tom", &draft, "agreed").await?.ok()?;
    script.person("usr_tom signs");
    script.check("two different people approve it", "approved", seen(&second, "/draft/state"));
    script
        .prose("Before the agent gets its credential, usr_tom leaves the company: his keys are revoked, and his signature stops counting.");
    let tom = "usr_tom"
        .parse()
        .map_err(|_| DemoError::Unexpected("usr_tom is no name".to_owned()))?;
    let revoked = stage.store.revoke_approver(stage.operator(), tom).await;
    revoked.map_err(|error| DemoError::Unexpected(error.to_string()))?;
    let gone = stage.exchange(&draft);
    script
        .refused("a credential on a revoked signature", 400, "approver_key_revoked", gone)
        .await?;
    Ok(())
}

/// Exchanges and executes what is approved.
async fn run(script: &mut Script<'_>, draft: &str) -> Result<(), DemoError> {
    let stage = script.stage;
    let token = stage.credential(draft).await?;
    let execution = stage.execute(&token, draft).await?.ok()?;
    script.writ(&format!("{}: {}", short(draft), seen(&execution, "/state")));
    script.check("the approved draft runs", "applied", seen(&execution, "/state"));
    Ok(())
}
