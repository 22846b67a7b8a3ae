//! The library's own sample tokens, none of which is a credential.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use writ::token::{KeySet, PublishedKey, RootKeyId, RootPublicKey, TokenError};

use super::support::World;

fn samples() -> PathBuf {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let library = packages.iter().find(|package| package["name"] == "biscuit-auth").unwrap();
    Path::new(library["manifest_path"].as_str().unwrap()).with_file_name("samples")
}

#[test]
fn every_sample_of_the_library_is_refused() {
    let samples = samples();
    let index: serde_json::Value = serde_json::from_slice(&std::fs::read(samples.join("samples.json")).unwrap()).unwrap();
    let root: RootPublicKey = index["root_public_key"].as_str().unwrap().parse().unwrap();
    let world = World::new();
    let mut set = KeySet::new();
    let key = PublishedKey {
        key: root,
        not_before: writ::domain::time::Timestamp::from_millis(0),
        not_after: None,
    };
    set.insert(RootKeyId::new(1), key).unwrap();
    world.verifier.replace_keys(set);

    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for case in index["testcases"].as_array().unwrap() {
        let name = case["filename"].as_str().unwrap();
        let bytes = std::fs::read(samples.join(name)).unwrap();
        // As it is, and with the id of its own root key put in front: then even the signature is right.
        for token in [bytes.clone(), [&[0x08, 0x01], bytes.as_slice()].concat()] {
            let refusal = world.refusal(&URL_SAFE.encode(token));
            assert_ne!(refusal, TokenError::VerifierFailed, "{name}");
            *reasons.entry(refusal.code()).or_default() += 1;
        }
    }
    assert_eq!(reasons.values().sum::<usize>(), 2 * 38, "{reasons:?}");
    assert!(
        reasons.contains_key("credential_context_wrong"),
        "some of them got past the signature: {reasons:?}"
    );
}
