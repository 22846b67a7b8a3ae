//! Approval records: nothing verifies that the registered key did not sign, and what verifies says what was signed.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::Ed25519KeyPair;
use serde_json::Value;
use writ::approval::{LEEWAY_SECONDS, MAX_LIFETIME_SECONDS, UnverifiedRecord, VerifiedRecord};
use writ::domain::name::Audience;
use writ::domain::principal::{ApproverKey, KeyKind};
use writ::domain::time::Timestamp;

use super::edit;

struct World {
    audience: Audience,
    now: Timestamp,
    keys: Vec<ApproverKey>,
    /// Good records of the two keys.
    records: Vec<String>,
    pair: Ed25519KeyPair,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let file: Value = serde_json::from_str(include_str!("../../tests/vectors/approval.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let kids = ["appr-p256", "appr-ed25519"];
    let keys = file["keys"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| kids.contains(&key["kid"].as_str().unwrap()));
    let keys = keys.map(|key| ApproverKey {
        kid: text(&key["kid"]).parse().unwrap(),
        approver: text(&key["approver"]).parse().unwrap(),
        issuer: text(&key["issuer"]),
        kind: if key["kind"] == "ES256" { KeyKind::Es256 } else { KeyKind::Ed25519 },
        public: text(&key["public"]),
        not_before: Timestamp::parse(key["not_before"].as_str().unwrap()).unwrap(),
        not_after: None,
        revoked_at: None,
    });
    let cases = file["cases"].as_array().unwrap();
    let good = cases
        .iter()
        .filter(|case| case["expected"] == "accepted" && kids.contains(&case["key"].as_str().unwrap()));
    World {
        audience: text(&file["audience"]).parse().unwrap(),
        now: Timestamp::parse(cases[0]["at"].as_str().unwrap()).unwrap(),
        keys: keys.collect(),
        records: good.map(|case| text(&case["record"])).collect(),
        // The private half of `appr-ed25519`.
        pair: Ed25519KeyPair::from_seed_unchecked(&[0x52; 32]).unwrap(),
    }
});

/// The first byte chooses: text as it is, a good record with changes, or a header and a payload that the key really signs.
pub fn check(input: &[u8]) {
    let (kind, rest) = edit::head(input);
    let good = &WORLD.records[usize::from(kind >> 2) % WORLD.records.len()];
    match kind & 3 {
        0 => unsigned(&String::from_utf8_lossy(rest)),
        1 => unsigned(&String::from_utf8_lossy(&edit::apply(good.as_bytes(), rest))),
        2 => {
            let mut parts = rest.splitn(2, |byte| *byte == 0);
            let mut part = || parts.next().unwrap_or_default();
            signed(part(), part());
        }
        _ => {
            let parts: Vec<Vec<u8>> = good.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
            let header = br#"{"alg":"EdDSA","kid":"appr-ed25519","typ":"approval+jwt"}"#;
            signed(header, &edit::apply(&parts[1], rest));
        }
    }
}

/// The key that the record names, if it is registered, verifies it.
fn verify(record: &str, now: Timestamp) -> Option<VerifiedRecord> {
    let unverified = match UnverifiedRecord::parse(record) {
        Ok(unverified) => unverified,
        Err(error) => {
            assert!(
                error.to_string().chars().count() < 700,
                "an error repeats what it was given: {error}"
            );
            return None;
        }
    };
    let key = WORLD.keys.iter().find(|key| key.kid == *unverified.kid())?;
    match unverified.verify(key, &WORLD.audience, now) {
        Ok(verified) => {
            let again = UnverifiedRecord::parse(record).unwrap();
            assert_eq!(again.verify_stored(key, now).as_ref(), Ok(&verified));
            Some(verified)
        }
        Err(error) => {
            assert!(
                error.to_string().chars().count() < 700,
                "an error repeats what it was given: {error}"
            );
            None
        }
    }
}

/// Nobody signed this anew: what verifies is one of the good records, over the same bytes.
fn unsigned(record: &str) {
    let Some(verified) = verify(record, WORLD.now) else { return };
    let message = |jws: &str| jws.rsplit_once('.').unwrap().0.to_owned();
    let same = WORLD.records.iter().find(|good| message(good) == message(record));
    let same = same.unwrap_or_else(|| panic!("a record that nobody signed verifies: {record}"));
    assert_eq!(verify(same, WORLD.now).unwrap().claims(), verified.claims());
}

fn signed(header: &[u8], payload: &[u8]) {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let signature = WORLD.pair.sign(message.as_bytes());
    let record = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
    let Some(verified) = verify(&record, WORLD.now) else { return };
    let head: Value = serde_json::from_slice(header).unwrap();
    assert_eq!(head.as_object().unwrap().len(), 3, "{head}");
    assert!(head["typ"] == "approval+jwt" && head["kid"] == "appr-ed25519", "{head}");
    let said: Value = serde_json::from_slice(payload).unwrap();
    let (apr, now) = (&said["apr"], WORLD.now.seconds());
    assert_eq!(
        (&said["aud"], &said["iss"]),
        (&WORLD.audience.as_str().into(), &WORLD.keys[1].issuer.as_str().into())
    );
    assert!(said["sub"] == "usr_mia" && apr["by"]["id"] == "usr_mia" && apr["v"] == 1, "{said}");
    let time = |name: &str| said[name].as_i64().unwrap();
    assert!(
        time("exp") > now && time("exp") > time("iat") && time("exp") - time("iat") <= MAX_LIFETIME_SECONDS,
        "{said}"
    );
    assert!(time("iat") <= now + LEEWAY_SECONDS && time("nbf") <= now + LEEWAY_SECONDS, "{said}");
    let claims = verified.claims();
    assert_eq!(apr["draft_hash"], claims.apr.draft_hash.to_string());
    assert_eq!(apr["draft_id"], claims.apr.draft_id.to_string());
    assert_eq!(apr["request_nonce"], claims.apr.request_nonce);
    assert_eq!(apr["decision"], claims.apr.decision.as_str());
    assert_eq!(apr["reason"].as_str(), claims.apr.reason.as_deref());
    assert!(
        verify(&record, Timestamp::from_seconds(time("exp"))).is_none(),
        "it outlives its end"
    );
    assert_eq!(verified.jws(), record);
}
