//! A record that was accepted earlier, looked at again at the exchange.

use serde_json::json;
use writ::approval::{RecordError, UnverifiedRecord, VerifiedRecord};
use writ::domain::principal::ApproverKey;
use writ::domain::time::Timestamp;

use super::support::{SIGNED_AT, TestKey, claims, p256};

fn again(jws: &str, key: &ApproverKey, seconds: i64) -> Result<VerifiedRecord, RecordError> {
    UnverifiedRecord::parse(jws)
        .unwrap()
        .verify_stored(key, Timestamp::from_seconds(SIGNED_AT + seconds))
}

#[test]
fn a_stored_record_stops_counting_when_its_key_is_revoked() {
    let jws = p256().record(&claims());
    let mut key = p256().registered();
    key.revoked_at = Some(Timestamp::from_seconds(SIGNED_AT + 100));
    assert!(again(&jws, &key, 99).is_ok());
    assert_eq!(again(&jws, &key, 100).unwrap_err().code(), "record_key_revoked");
}

#[test]
fn a_stored_record_that_was_changed_in_the_store_is_refused() {
    let rogue = TestKey::new("appr-p256", p256().kind, [0x61; 32]);
    let error = again(&rogue.record(&claims()), &p256().registered(), 10).unwrap_err();
    assert_eq!(error.code(), "record_signature_invalid");
    let other = p256().with_claims(|c| c["iss"] = json!("https://evil.example"));
    assert_eq!(
        again(&other, &p256().registered(), 10).unwrap_err().code(),
        "record_issuer_mismatch"
    );
}

#[test]
fn a_record_signed_after_its_key_s_last_moment_never_counts() {
    let mut key = p256().registered();
    key.not_after = Some(Timestamp::from_seconds(SIGNED_AT));
    assert_eq!(again(&p256().record(&claims()), &key, 10).unwrap_err().code(), "record_key_expired");
}

#[test]
fn a_stored_record_outlives_its_own_exp_and_its_key_s_retirement() {
    let mut key = p256().registered();
    key.not_after = Some(Timestamp::from_seconds(SIGNED_AT + 1));
    let record = again(&p256().record(&claims()), &key, 86_400).unwrap();
    assert_eq!(serde_json::to_value(record.claims()).unwrap(), claims());
}
