//! The published vectors of approval records: `tests/vectors/approval.json`, which two foreign JOSE libraries judge as well.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use writ::domain::principal::ApproverKey;
use writ::domain::time::Timestamp;

use super::support::{AUDIENCE, SIGNED_AT, TestKey, claims, ed25519, now, p256, verify};
use crate::support::vectors;

const ABOUT: &str = "Approval records and what becomes of them. `keys` are registered keys: `public` is an uncompressed P-256 point or an Ed25519 key in base64url. \
Each case gives a compact JWS, the key that the verifier looked up, and the time it is handed in. `expected` is `accepted`, or the code of the refusal.";

fn retired() -> TestKey {
    TestKey::new("appr-retired", p256().kind, [0x53; 32])
}

fn revoked() -> TestKey {
    TestKey::new("appr-revoked", ed25519().kind, [0x54; 32])
}

fn keys() -> Vec<ApproverKey> {
    let at = |seconds| Some(Timestamp::from_seconds(SIGNED_AT + seconds));
    let retired = ApproverKey {
        not_after: at(-60),
        ..retired().registered()
    };
    let revoked = ApproverKey {
        revoked_at: at(-60),
        ..revoked().registered()
    };
    vec![p256().registered(), ed25519().registered(), retired, revoked]
}

struct Case {
    name: &'static str,
    key: &'static str,
    at: Timestamp,
    record: String,
}

fn cases() -> Vec<Case> {
    let (p256, ed25519) = (p256(), ed25519());
    let case = |name, record: String| Case {
        name,
        key: "appr-p256",
        at: now(),
        record,
    };
    let edwards = |name, record: String| Case {
        key: "appr-ed25519",
        ..case(name, record)
    };
    let at = |name, seconds: i64| Case {
        at: Timestamp::from_seconds(SIGNED_AT + seconds),
        ..case(name, p256.record(&claims()))
    };
    let header = |name, change: &dyn Fn(&mut Value)| case(name, p256.with_header(change));
    let claim = |name, change: &dyn Fn(&mut Value)| case(name, p256.with_claims(change));

    let good = p256.record(&claims());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (head, _) = signed.split_once('.').unwrap();
    let mut edited = claims();
    edited["apr"]["draft_id"] = json!("drf_0192f0c1a2b37c4d8e5f60718293a4b6");
    let edited = URL_SAFE_NO_PAD.encode(edited.to_string());
    let unsigned = p256.with_header(|h| h["alg"] = json!("none"));
    let (unsigned, _) = unsigned.rsplit_once('.').unwrap();
    let hs256 = p256.with_header(|h| h["alg"] = json!("HS256"));
    let (hs256, _) = hs256.rsplit_once('.').unwrap();
    let public = URL_SAFE_NO_PAD.decode(p256.registered().public).unwrap();
    let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public), hs256.as_bytes());
    let rogue = TestKey::new("appr-p256", p256.kind, [0x61; 32]);

    vec![
        case("approved, ES256", good.clone()),
        edwards("approved, EdDSA", ed25519.record(&claims())),
        edwards(
            "approved, Ed25519 under its newer name",
            ed25519.with_header(|h| h["alg"] = json!("Ed25519")),
        ),
        claim("denied with a reason", &|c| c["apr"]["decision"] = json!("deny")),
        claim("a claim of the library's own at the top", &|c| c["azp"] = json!("desk")),
        at("in its last second", 899),
        case("unsigned, alg none", format!("{unsigned}.")),
        case("HS256 over the public key", format!("{hs256}.{}", URL_SAFE_NO_PAD.encode(tag))),
        header("an embedded key", &|h| h["jwk"] = json!({"kty": "EC"})),
        header("a critical extension", &|h| h["crit"] = json!(["exp"])),
        header("an unencoded payload", &|h| h["b64"] = json!(false)),
        header("a member too many", &|h| h["cty"] = json!("json")),
        header("another type", &|h| h["typ"] = json!("JWT")),
        header("another key's id", &|h| h["kid"] = json!("appr-other")),
        edwards(
            "ES256 in the header, an Ed25519 key",
            ed25519.with_header(|h| h["alg"] = json!("ES256")),
        ),
        case("edited after signing", format!("{head}.{edited}.{signature}")),
        case("signed by a rogue key under a good id", rogue.record(&claims())),
        case("no signature", format!("{signed}.")),
        case("padded", format!("{good}=")),
        case("two parts", signed.to_owned()),
        Case {
            key: "appr-retired",
            ..case("a retired key", retired().record(&claims()))
        },
        Case {
            key: "appr-revoked",
            ..case("a revoked key", revoked().record(&claims()))
        },
        claim("for another broker", &|c| c["aud"] = json!("https://other.example")),
        claim("for several", &|c| c["aud"] = json!([AUDIENCE])),
        claim("by another issuer", &|c| c["iss"] = json!("https://evil.example")),
        claim("sub is another approver", &|c| c["sub"] = json!("usr_ann")),
        claim("apr.by is another approver", &|c| c["apr"]["by"]["id"] = json!("usr_ann")),
        at("expired this second", 900),
        at("signed in the future", -6),
        claim("not valid yet", &|c| c["nbf"] = json!(SIGNED_AT + 100)),
        claim("a life of more than an hour", &|c| c["exp"] = json!(SIGNED_AT + 3601)),
        claim("an unknown member in apr", &|c| c["apr"]["limit"] = json!(1)),
        claim("another version", &|c| c["apr"]["v"] = json!(2)),
        claim("a decision that is none", &|c| c["apr"]["decision"] = json!("maybe")),
        claim("a short nonce", &|c| c["apr"]["request_nonce"] = json!("AAAA")),
        claim("denied without a reason", &|c| {
            c["apr"]["decision"] = json!("deny");
            drop(c["apr"].as_object_mut().unwrap().remove("reason"));
        }),
    ]
}

fn document() -> Value {
    let keys = keys();
    let cases: Vec<Value> = cases()
        .iter()
        .map(|case| {
            let key = keys.iter().find(|key| key.kid.as_str() == case.key).unwrap();
            let expected = verify(&case.record, key, case.at).map_or_else(|error| error.code(), |_| "accepted");
            json!({"name": case.name, "key": case.key, "at": case.at, "record": case.record, "expected": expected})
        })
        .collect();
    json!({"about": ABOUT, "audience": AUDIENCE, "keys": keys, "cases": cases})
}

#[test]
fn the_published_records_are_what_the_code_decides() {
    let document = document();
    vectors::only_the_first_are_accepted(&document, 6);
    vectors::hold("approval.json", &document);
}
