//! Python and Node sign and verify approval records, with keys that this program made.

use std::fs;
use std::process::Command;

use serde_json::json;
use writ::approval::RecordSigner;
use writ::domain::approval::Claims;
use writ::domain::principal::{ApproverKey, KeyKind};
use writ::domain::secret::Secret;

use super::support::{AUDIENCE, claims, now, p256, refused, verify};
use crate::support::peers::{node, output, python, root, script};

fn judges_as_written(peer: &mut Command, vectors: &std::path::Path) -> String {
    let out = output(peer.arg("check").arg(vectors));
    let line = out.lines().last().unwrap_or_default().to_owned();
    assert!(line.ends_with(" records, 0 judged otherwise than written"), "{out}");
    line
}

/// A new key of each kind, as registered, with the signer that holds its private half and the text of that half.
fn new_keys() -> Vec<(ApproverKey, RecordSigner, String)> {
    [KeyKind::Es256, KeyKind::Ed25519]
        .into_iter()
        .map(|kind| {
            let key = RecordSigner::generate(kind).unwrap();
            let kid: writ::domain::name::KeyId = format!("new-{kind:?}").parse().unwrap();
            let registered = ApproverKey {
                kid: kid.clone(),
                kind,
                public: key.public,
                ..p256().registered()
            };
            let signer = RecordSigner::from_pkcs8_pem(&key.private_pem, kid).unwrap();
            (registered, signer, key.private_pem.expose().to_owned())
        })
        .collect()
}

/// What the peer signs with our keys is accepted here, and what we sign is accepted there.
fn signs_for_us_and_reads_ours(mut peer: impl FnMut() -> Command) {
    let dir = tempfile::tempdir().unwrap();
    let keys = new_keys();
    let request = dir.path().join("request.json");
    let to_sign: Vec<_> = keys
        .iter()
        .map(|(key, _, pem)| json!({"kid": key.kid, "kind": key.kind, "pem": pem}))
        .collect();
    fs::write(&request, json!({"claims": claims(), "keys": to_sign}).to_string()).unwrap();
    let signed = output(peer().arg("sign").arg(&request));
    let names = ["ES256", "EdDSA", "Ed25519"];
    assert_eq!(signed.lines().count(), names.len(), "{signed}");
    for (jws, name) in signed.lines().zip(names) {
        let key = &keys[usize::from(name != "ES256")].0;
        let record = verify(jws, key, now()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(serde_json::to_value(record.claims()).unwrap(), claims(), "{name}");
        assert_eq!(refused(jws), "record_key_mismatch", "under another key");
    }

    let typed: Claims = serde_json::from_value(claims()).unwrap();
    let cases: Vec<_> = keys
        .iter()
        .map(|(key, signer, _)| {
            let record = signer.sign(&typed).unwrap();
            json!({"name": key.kid, "key": key.kid, "at": now(), "record": record, "expected": "accepted"})
        })
        .collect();
    let ours = dir.path().join("ours.json");
    let registered: Vec<_> = keys.iter().map(|(key, _, _)| key).collect();
    fs::write(&ours, json!({"audience": AUDIENCE, "keys": registered, "cases": cases}).to_string()).unwrap();
    assert!(judges_as_written(&mut peer(), &ours).contains(": 2 records"));
}

#[test]
fn joserfc_accepts_and_refuses_the_published_records_as_written() {
    if let Some(mut python) = python() {
        judges_as_written(python.arg(script("approval.py")), &root().join("tests/vectors/approval.json"));
    }
}

#[test]
fn jose_accepts_and_refuses_the_published_records_as_written() {
    if let Some(mut node) = node() {
        judges_as_written(node.arg(script("approval.mjs")), &root().join("tests/vectors/approval.json"));
    }
}

#[test]
fn records_signed_with_joserfc_are_accepted_and_ours_verify_there() {
    if python().is_some() {
        signs_for_us_and_reads_ours(|| {
            let mut python = python().unwrap();
            python.arg(script("approval.py"));
            python
        });
    }
}

#[test]
fn records_signed_with_jose_are_accepted_and_ours_verify_there() {
    if node().is_some() {
        signs_for_us_and_reads_ours(|| {
            let mut node = node().unwrap();
            node.arg(script("approval.mjs"));
            node
        });
    }
}

#[test]
fn private_keys_made_elsewhere_sign_here() {
    let Some(mut python) = python() else { return };
    let made: serde_json::Value = serde_json::from_str(&output(python.arg(script("approval.py")).arg("keys"))).unwrap();
    for (kind, name) in [(KeyKind::Es256, "ES256"), (KeyKind::Ed25519, "Ed25519")] {
        let pem = Secret::new(made[name].as_str().unwrap().to_owned());
        let signer = RecordSigner::from_pkcs8_pem(&pem, "made-elsewhere".parse().unwrap()).unwrap();
        assert_eq!(signer.kind(), kind);
        let key = ApproverKey {
            kid: signer.kid().clone(),
            kind,
            public: signer.public(),
            ..p256().registered()
        };
        let record = signer.sign(&serde_json::from_value(claims()).unwrap()).unwrap();
        assert!(verify(&record, &key, now()).is_ok(), "{name}");
    }
}
