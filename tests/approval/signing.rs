//! Records that this program signs itself.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use writ::approval::{RecordSigner, SignerError, check_public_key};
use writ::domain::approval::Claims;
use writ::domain::principal::KeyKind;
use writ::domain::secret::Secret;

use super::support::{claims, ed25519, now, p256, verify};

fn typed(value: serde_json::Value) -> Claims {
    serde_json::from_value(value).unwrap()
}

#[test]
fn claims_that_every_verifier_refuses_are_not_signed() {
    let cases = [
        ("/apr/v", json!(2), "record_version_unknown"),
        ("/apr/by/id", json!("usr_ann"), "record_approver_mismatch"),
        ("/apr/request_nonce", json!("x"), "record_nonce_malformed"),
        ("/apr/reason", json!("x".repeat(1001)), "record_reason_too_long"),
        ("/exp", json!(1), "record_times_disordered"),
    ];
    for (pointer, value, code) in cases {
        let mut changed = claims();
        *changed.pointer_mut(pointer).unwrap() = value;
        match p256().signer().sign(&typed(changed)) {
            Err(SignerError::Refused(error)) => assert_eq!(error.code(), code),
            other => panic!("{pointer}: {other:?}"),
        }
    }
}

#[test]
fn what_is_not_a_private_key_is_not_taken_for_one() {
    let kid = || "k".parse().unwrap();
    for text in ["", "junk", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        assert!(
            RecordSigner::from_pkcs8_pem(&Secret::new(text.to_owned()), kid()).is_err(),
            "{text}"
        );
    }
    assert!(RecordSigner::from_pkcs8_der(&[0x30, 0x00], kid()).is_err());
}

#[test]
fn a_public_key_is_checked_before_it_is_registered() {
    let point = p256().registered().public;
    let edwards = ed25519().registered().public;
    assert!(check_public_key(KeyKind::Es256, &point).is_ok());
    assert!(check_public_key(KeyKind::Ed25519, &edwards).is_ok());
    let compressed = URL_SAFE_NO_PAD.encode([&[2], &URL_SAFE_NO_PAD.decode(&point).unwrap()[1..33]].concat());
    for (kind, public) in [
        (KeyKind::Es256, edwards.as_str()),
        (KeyKind::Ed25519, &point),
        (KeyKind::Es256, &compressed),
        (KeyKind::Ed25519, &format!("{edwards}=")),
        (KeyKind::Ed25519, ""),
    ] {
        assert!(check_public_key(kind, public).is_err(), "{kind:?} {public}");
    }
}

#[test]
fn a_signer_and_a_new_key_print_without_the_key() {
    for kind in [KeyKind::Es256, KeyKind::Ed25519] {
        let key = RecordSigner::generate(kind).unwrap();
        let signer = RecordSigner::from_pkcs8_pem(&key.private_pem, "k-1".parse().unwrap()).unwrap();
        let printed = format!("{key:?} {signer:?}");
        let secret: String = key.private_pem.expose().lines().filter(|line| !line.starts_with('-')).collect();
        assert!(printed.contains("k-1") && printed.contains(&key.public));
        // The private half stands after the algorithm's name in both forms.
        assert!(!printed.contains(&secret[24..60]), "{printed}");
    }
}

#[test]
fn a_record_signed_with_a_new_key_verifies_under_its_public_half() {
    for kind in [KeyKind::Es256, KeyKind::Ed25519] {
        let key = RecordSigner::generate(kind).unwrap();
        check_public_key(kind, &key.public).unwrap();
        let signer = RecordSigner::from_pkcs8_pem(&key.private_pem, "k-1".parse().unwrap()).unwrap();
        assert_eq!((signer.kind(), signer.public()), (kind, key.public.clone()));
        let jws = signer.sign(&typed(claims())).unwrap();
        let mut registered = p256().registered();
        registered.kid = "k-1".parse().unwrap();
        registered.kind = kind;
        registered.public = key.public;
        let record = verify(&jws, &registered, now()).unwrap();
        assert_eq!(record.claims(), &typed(claims()));
    }
}

#[test]
fn two_new_keys_differ() {
    let public = |kind| RecordSigner::generate(kind).unwrap().public;
    for kind in [KeyKind::Es256, KeyKind::Ed25519] {
        assert_ne!(public(kind), public(kind));
    }
}
