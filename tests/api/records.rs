//! Approval records that are forged, borrowed or out of time: refused, and the card is as good as before.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::principal::KeyKind;
use writ::setup::LOCAL_ISSUER;
use writ::store::record::ApproverEntry;

use crate::approval::support::TestKey;
use crate::support::world::{World, foreign_nonce};

/// A card that waits, and a second key of usr_mia that signs whatever a test writes.
struct Desk {
    world: World,
    key: TestKey,
    draft: String,
    card: Value,
}

impl Desk {
    async fn new() -> Self {
        let world = World::new().await;
        let key = TestKey::new("usr_mia-2", KeyKind::Es256, [0x61; 32]);
        let mia = world.app.store.approver(&"usr_mia".parse().unwrap()).await.unwrap().unwrap();
        let mut registered = key.registered();
        registered.issuer = LOCAL_ISSUER.to_owned();
        let entry = ApproverEntry {
            approver: mia.approver,
            keys: vec![registered],
        };
        world.app.store.add_approver(world.op(), entry).await.unwrap();
        let draft = world.held_draft().await;
        let card = world.card(&draft).await;
        Self { world, key, draft, card }
    }

    /// The good record's claims.
    fn claims(&self) -> Value {
        serde_json::to_value(self.world.claims("usr_mia", &self.card, Decision::Approve)).unwrap()
    }

    /// The good record after a change to its claims, signed after the change.
    fn claiming(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = self.claims();
        change(&mut claims);
        self.key.record(&claims)
    }

    /// The good record after a change to its header, signed after the change.
    fn headed(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut header = self.key.header();
        change(&mut header);
        self.key.sign(&header.to_string(), &self.claims().to_string())
    }

    /// Refused with this code, told in the log, and nothing about the card has changed.
    async fn refused(&self, record: &str, status: u16, code: &str) {
        let reply = self.world.hand_in(record).await;
        self.world.denied(&reply, status, code, "approval.record_denied", 0).await;
        self.world.refused_at_the_exchange(record, code).await;
        assert_eq!(self.world.card(&self.draft).await, self.card, "{code} changed the card");
    }

    /// After all that, the good record counts.
    async fn still_open(&self) {
        let accepted = self.world.hand_in(&self.claiming(|_| {})).await.expect(200);
        assert_eq!(accepted["draft"]["state"], "approved", "{accepted}");
    }
}

#[tokio::test]
async fn a_record_whose_header_is_not_exactly_right_is_refused() {
    let desk = Desk::new().await;
    let unsigned = {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "none", "kid": desk.key.kid, "typ": "approval+jwt"}).to_string());
        format!("{header}.{}.", URL_SAFE_NO_PAD.encode(desk.claims().to_string()))
    };
    desk.refused(&unsigned, 400, "record_algorithm_none").await;
    let public = URL_SAFE_NO_PAD.decode(desk.key.registered().public).unwrap();
    let hmac = {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": desk.key.kid, "typ": "approval+jwt"}).to_string());
        let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(desk.claims().to_string()));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public);
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes())))
    };
    desk.refused(&hmac, 400, "record_algorithm_refused").await;
    let own = TestKey::new("usr_mia-2", KeyKind::Es256, [0x62; 32]);
    let point = URL_SAFE_NO_PAD.decode(own.registered().public).unwrap();
    let jwk = json!({
        "kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]),
    });
    let mut with_jwk = own.header();
    with_jwk["jwk"] = jwk;
    desk.refused(
        &own.sign(&with_jwk.to_string(), &desk.claims().to_string()),
        400,
        "record_header_embeds_key",
    )
    .await;
    desk.refused(&own.record(&desk.claims()), 400, "record_signature_invalid").await;
    for (member, value, code) in [
        ("jku", json!("https://evil.example/keys"), "record_header_embeds_key"),
        ("x5c", json!(["MIIB"]), "record_header_embeds_key"),
        ("crit", json!(["exp"]), "record_header_critical"),
        ("b64", json!(false), "record_header_unencoded"),
        ("cty", json!("JWT"), "record_header_unknown_member"),
        ("typ", json!("JWT"), "record_type_refused"),
        ("typ", json!("at+jwt"), "record_type_refused"),
        ("alg", json!("RS256"), "record_algorithm_refused"),
        ("alg", json!("EdDSA"), "record_algorithm_not_for_key"),
        ("alg", json!("None"), "record_algorithm_none"),
    ] {
        let record = desk.headed(|header| header[member] = value.clone());
        desk.refused(&record, 400, code).await;
    }
    let record = desk.headed(|header| header["kid"] = json!("usr_mia-9"));
    desk.refused(&record, 403, "approver_key_unknown").await;
    desk.still_open().await;
}

#[tokio::test]
async fn a_record_that_was_edited_or_is_no_record_is_refused() {
    let desk = Desk::new().await;
    let good = desk.claiming(|_| {});
    let parts: Vec<&str> = good.split('.').collect();
    let mut edited = desk.claims();
    edited["apr"]["reason"] = json!("something else");
    let edited = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(edited.to_string()), parts[2]);
    desk.refused(&edited, 400, "record_signature_invalid").await;
    let cut = format!("{}.{}.{}", parts[0], parts[1], &parts[2][..40]);
    desk.refused(&cut, 400, "record_signature_invalid").await;
    for not_one in ["", "x", "a.b", "a.b.c.d", &format!("{good}="), &good.replace('.', " .")] {
        desk.refused(not_one, 400, "record_malformed").await;
    }
    desk.refused(&"x".repeat(20_000), 413, "record_too_large").await;
    let twice = format!(r#"{{"iss":"x",{}"#, &desk.claims().to_string()[1..]);
    desk.refused(
        &desk.key.sign(&desk.key.header().to_string(), &twice),
        400,
        "record_claims_malformed",
    )
    .await;
    for (body, status, code) in [
        (json!({}), 400, "json_invalid"),
        (json!({ "record": good, "draft_id": desk.draft }), 400, "json_invalid"),
        (json!({ "record": [good] }), 400, "json_invalid"),
    ] {
        let reply = desk.world.call("review-desk", "POST", "/v1/approvals", Some(body)).await;
        desk.world.denied(&reply, status, code, "approval.record_denied", 0).await;
    }
    desk.still_open().await;
}

#[tokio::test]
async fn a_record_for_something_else_is_refused() {
    let desk = Desk::new().await;
    let other = desk.world.propose(World::refund(23_000)).await.expect(201);
    let other = desk.world.card(other["id"].as_str().unwrap()).await;
    let claim = |pointer: &str, value: Value| desk.claiming(|claims| *claims.pointer_mut(pointer).unwrap() = value);
    for (pointer, value, status, code) in [
        (
            "/apr/request_nonce",
            other["approval"]["request_nonce"].clone(),
            409,
            "request_nonce_mismatch",
        ),
        ("/apr/request_nonce", json!(foreign_nonce()), 409, "request_nonce_mismatch"),
        ("/apr/request_nonce", json!("AAAA"), 400, "record_nonce_malformed"),
        ("/apr/draft_hash", other["draft_hash"].clone(), 409, "draft_hash_mismatch"),
        (
            "/apr/draft_hash",
            json!(DraftHash::of_canonical(b"{}").to_string()),
            409,
            "draft_hash_mismatch",
        ),
        ("/apr/draft_id", other["id"].clone(), 409, "draft_hash_mismatch"),
        ("/apr/draft_id", json!("drf_0192f0c1a2b37c4d8e5f60718293a4b5"), 404, "not_found"),
        ("/apr/verdict_id", other["verdict"]["id"].clone(), 409, "verdict_mismatch"),
        (
            "/apr/policy/sha256",
            json!(Digest::of(b"another policy").to_string()),
            409,
            "verdict_mismatch",
        ),
        ("/apr/policy/version", json!(2), 409, "verdict_mismatch"),
        ("/apr/policy/id", json!("another"), 409, "verdict_mismatch"),
        ("/apr/v", json!(2), 400, "record_version_unknown"),
        ("/apr/by/id", json!("usr_tom"), 400, "record_approver_mismatch"),
        ("/apr/decision", json!("Approve"), 400, "record_claims_malformed"),
        ("/aud", json!("https://another.example"), 400, "record_audience_wrong"),
        (
            "/aud",
            json!([desk.world.config.audience.to_string()]),
            400,
            "record_claims_malformed",
        ),
        ("/iss", json!("https://another.example"), 400, "record_issuer_mismatch"),
    ] {
        desk.refused(&claim(pointer, value), status, code).await;
    }
    let tom = desk.claiming(|claims| {
        claims["sub"] = json!("usr_tom");
        claims["apr"]["by"]["id"] = json!("usr_tom");
    });
    desk.refused(&tom, 400, "record_subject_mismatch").await;
    let amount = desk.claiming(|claims| claims["apr"]["amount"] = json!(1));
    desk.refused(&amount, 400, "record_claims_malformed").await;
    desk.still_open().await;
}

#[tokio::test]
async fn a_record_out_of_its_time_is_refused() {
    let desk = Desk::new().await;
    let now = desk.claims()["iat"].as_i64().unwrap();
    for (iat, nbf, exp, code) in [
        (now - 900, now - 900, now - 100, "record_expired"),
        (now, now + 300, now + 600, "record_not_yet_valid"),
        (now + 300, now, now + 600, "record_issued_in_future"),
        (now, now, now, "record_times_disordered"),
        (now, now, now + 365 * 86_400, "record_lifetime_too_long"),
    ] {
        let record = desk.claiming(|claims| {
            claims["iat"] = json!(iat);
            claims["nbf"] = json!(nbf);
            claims["exp"] = json!(exp);
        });
        desk.refused(&record, 400, code).await;
    }
    let narrowed = desk.claiming(|claims| claims["apr"]["execute_by"] = json!(now - 1));
    desk.refused(&narrowed, 400, "execution_window_over").await;
    desk.still_open().await;
}

#[tokio::test]
async fn a_denial_without_a_reason_is_refused() {
    let desk = Desk::new().await;
    for reason in [json!(null), json!(""), json!(" \n\t")] {
        let record = desk.claiming(|claims| {
            claims["apr"]["decision"] = json!("deny");
            claims["apr"]["reason"] = reason;
        });
        desk.refused(&record, 400, "record_reason_missing").await;
    }
    let endless = desk.claiming(|claims| claims["apr"]["reason"] = json!("x".repeat(1_001)));
    desk.refused(&endless, 400, "record_reason_too_long").await;
    desk.still_open().await;
}

#[tokio::test]
async fn a_record_s_id_is_good_for_one_record() {
    let desk = Desk::new().await;
    let other = desk.world.propose(World::refund(23_000)).await.expect(201);
    let first = desk.world.claims("usr_mia", &desk.card, Decision::Approve);
    let mut second = desk
        .world
        .claims("usr_mia", &desk.world.card(other["id"].as_str().unwrap()).await, Decision::Approve);
    second.jti = first.jti;
    let signer = desk.world.signer("usr_mia");
    desk.world.hand_in(&signer.sign(&first).unwrap()).await.expect(200);
    let second = signer.sign(&second).unwrap();
    let reply = desk.world.hand_in(&second).await;
    desk.world.denied(&reply, 409, "record_reused", "approval.record_denied", 0).await;
    desk.world.refused_at_the_exchange(&second, "record_reused").await;
    assert_eq!(desk.world.draft(other["id"].as_str().unwrap()).await["state"], "awaiting_approval");
}
