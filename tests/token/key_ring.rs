//! Private keys on disk, their rotation, and a verifier that sees it without a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use writ::domain::clock::Clock as _;
use writ::domain::time::Timestamp;
use writ::token::{KeyRing, KeyRingError, KeySet, PUBLIC_KEYS_FILE, RootKeyId, Rotation, TokenError, Verifier};

use super::support::{audience, check, grant, request};
use crate::support::{ManualClock, SeededEntropy};

const DAY: Duration = Duration::from_secs(86_400);

struct Keys {
    dir: tempfile::TempDir,
    clock: ManualClock,
    entropy: SeededEntropy,
    ring: KeyRing,
}

impl Keys {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (clock, entropy) = (ManualClock::new(), SeededEntropy::new(1));
        let ring = KeyRing::generate(dir.path(), clock.now(), DAY, &entropy).unwrap();
        Self { dir, clock, entropy, ring }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn rotate(&mut self) {
        self.ring = KeyRing::rotate(self.dir.path(), self.clock.now(), Rotation::default(), &self.entropy).unwrap();
    }

    fn signing(&self) -> Option<u32> {
        self.ring.signing(self.clock.now()).ok().map(|minter| minter.kid().number())
    }

    fn token(&self) -> String {
        let now = self.clock.now();
        let token = self.ring.signing(now).unwrap().mint(&grant(now), &self.entropy).unwrap();
        token.expose().to_owned()
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_private_key_that_others_can_read_is_not_loaded() {
    let keys = Keys::new();
    let path = keys.file("credential-1.pem");
    for mode in [0o640, 0o604, 0o620, 0o660, 0o601] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = KeyRing::load(keys.dir.path()).unwrap_err();
        assert!(matches!(error, KeyRingError::Exposed { .. }), "{mode:o}: {error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(KeyRing::load(keys.dir.path()).is_ok());
}

#[test]
fn the_ring_signs_until_its_newest_key_ends_also_one_that_does_not_sign_yet() {
    let mut keys = Keys::new();
    let now = keys.clock.now();
    let first = keys.ring.signs_until(now).unwrap();
    keys.clock.advance(at(3600));
    keys.rotate();
    let now = keys.clock.now();
    assert_eq!(keys.signing(), Some(1), "the new key has not settled");
    let newest = keys.ring.list(now).pop().unwrap();
    assert!(newest.published.not_before > now);
    let until = keys.ring.signs_until(now);
    assert_eq!(until, newest.signs_until);
    assert!(until.unwrap() > first);
    fs::remove_file(keys.file("credential-2.pem")).unwrap();
    let without = KeyRing::load(keys.dir.path()).unwrap();
    assert!(
        without.signs_until(now).unwrap() <= first,
        "a key whose private half is not here signs nothing"
    );
}

#[test]
fn a_private_key_that_is_not_the_published_one_is_not_loaded() {
    let keys = Keys::new();
    let other = tempfile::tempdir().unwrap();
    KeyRing::generate(other.path(), keys.clock.now(), DAY, &SeededEntropy::new(2)).unwrap();
    fs::copy(other.path().join("credential-1.pem"), keys.file("credential-1.pem")).unwrap();
    assert!(matches!(KeyRing::load(keys.dir.path()), Err(KeyRingError::KeyMismatch { .. })));
    fs::write(keys.file("credential-1.pem"), "junk").unwrap();
    assert!(matches!(KeyRing::load(keys.dir.path()), Err(KeyRingError::KeyUnreadable { .. })));
}

#[test]
fn a_public_set_with_a_mistake_is_not_loaded() {
    let keys = Keys::new();
    let good = fs::read_to_string(keys.file(PUBLIC_KEYS_FILE)).unwrap();
    let hex = good.split('"').find(|part| part.len() == 64).unwrap().to_owned();
    for bad in [
        String::new(),
        "{}".to_owned(),
        good.replace("ed25519", "secp256r1"),
        good.replace(&hex, &hex[..62]),
        good.replace("key_id", "kid"),
        good.replace("\"algorithm\"", "\"note\": \"x\", \"algorithm\""),
        good.replace("\"key_id\": 1", "\"key_id\": 1, \"key_id\": 2"),
    ] {
        assert_ne!(bad, good);
        fs::write(keys.file(PUBLIC_KEYS_FILE), &bad).unwrap();
        assert!(
            matches!(KeyRing::load(keys.dir.path()), Err(KeyRingError::PublicSet { .. })),
            "{bad}"
        );
    }
}

#[test]
fn a_directory_without_keys_says_how_to_make_them() {
    let empty = tempfile::tempdir().unwrap();
    let error = KeyRing::load(empty.path()).unwrap_err();
    assert!(matches!(error, KeyRingError::NoKeys { .. }));
    assert!(error.to_string().contains("writ keys generate"), "{error}");
}

#[test]
fn keys_are_never_generated_over_others() {
    let keys = Keys::new();
    let again = KeyRing::generate(keys.dir.path(), keys.clock.now(), DAY, &keys.entropy);
    assert!(matches!(again, Err(KeyRingError::AlreadyThere { .. })));
}

#[test]
fn a_key_past_its_date_signs_nothing_and_the_broker_can_tell() {
    let keys = Keys::new();
    keys.clock.advance(DAY - at(1));
    assert_eq!(keys.signing(), Some(1));
    let last = keys.token();
    keys.clock.advance(at(1));
    assert!(matches!(keys.ring.signing(keys.clock.now()), Err(KeyRingError::PastDate)));
    // What it signed last is good to its end all the same.
    let verifier = Verifier::new(keys.ring.public().clone(), audience());
    keys.clock.advance(at(58));
    assert!(check(&verifier, &last, &request(), keys.clock.now()).is_ok());
}

#[test]
fn a_retired_key_is_refused_at_once() {
    let mut keys = Keys::new();
    let token = keys.token();
    keys.ring = KeyRing::retire(keys.dir.path(), RootKeyId::new(1), keys.clock.now()).unwrap();
    let verifier = Verifier::new(keys.ring.public().clone(), audience());
    let refusal = check(&verifier, &token, &request(), keys.clock.now()).unwrap_err();
    assert_eq!(refusal, TokenError::KeyRetired(RootKeyId::new(1)));
    assert_eq!(keys.signing(), None);
    let unknown = KeyRing::retire(keys.dir.path(), RootKeyId::new(9), keys.clock.now());
    assert!(matches!(unknown, Err(KeyRingError::NoSuchKey(_))));
}

#[test]
fn an_id_is_never_used_twice_even_if_the_public_set_lost_it() {
    let mut keys = Keys::new();
    let before = fs::read(keys.file(PUBLIC_KEYS_FILE)).unwrap();
    keys.rotate();
    // As after a crash between the private file and the public set.
    fs::write(keys.file(PUBLIC_KEYS_FILE), before).unwrap();
    keys.rotate();
    let ids: Vec<u32> = keys.ring.public().iter().map(|(kid, _)| kid.number()).collect();
    assert_eq!(ids, [1, 3]);
}

#[test]
fn rotation_is_seen_by_a_running_verifier_and_loses_no_credential() {
    let mut keys = Keys::new();
    let verifier = Verifier::new(keys.ring.public().clone(), audience());
    let accepted = |keys: &Keys, token: &str| check(&verifier, token, &request(), keys.clock.now()).map(|v| v.kid().number());

    keys.rotate();
    assert_eq!(keys.signing(), Some(1), "the new key settles first");
    verifier.replace_keys(keys.ring.public().clone());

    keys.clock.advance(at(29));
    let last_of_old = keys.token();
    keys.clock.advance(at(1));
    assert_eq!(keys.signing(), Some(2));
    let first_of_new = keys.token();
    assert_eq!(accepted(&keys, &last_of_old), Ok(1));
    assert_eq!(accepted(&keys, &first_of_new), Ok(2));

    keys.clock.advance(at(58));
    assert_eq!(accepted(&keys, &last_of_old), Ok(1), "good to its end");
    keys.clock.advance(at(67));
    assert_eq!(accepted(&keys, &last_of_old), Err(TokenError::KeyRetired(RootKeyId::new(1))));

    let listed: Vec<(u32, bool)> = keys
        .ring
        .list(keys.clock.now())
        .iter()
        .map(|key| (key.kid.number(), key.signs))
        .collect();
    assert_eq!(listed, [(1, false), (2, true)]);
}

#[test]
fn private_files_are_for_the_owner_only_and_read_back() {
    let keys = Keys::new();
    let mode = fs::metadata(keys.file("credential-1.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let pem = fs::read_to_string(keys.file("credential-1.pem")).unwrap();
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{}", &pem[..27]);
    let loaded = KeyRing::load(keys.dir.path()).unwrap();
    assert_eq!(loaded.public(), keys.ring.public());
    assert_eq!(loaded.signing(keys.clock.now()).unwrap().kid(), RootKeyId::new(1));
}

#[test]
fn a_proxy_that_holds_only_the_public_file_can_verify_and_not_sign() {
    let keys = Keys::new();
    let token = keys.token();
    let proxy = tempfile::tempdir().unwrap();
    fs::copy(keys.file(PUBLIC_KEYS_FILE), proxy.path().join(PUBLIC_KEYS_FILE)).unwrap();
    let ring = KeyRing::load(proxy.path()).unwrap();
    assert!(matches!(ring.signing(keys.clock.now()), Err(KeyRingError::PastDate)));
    let verifier = Verifier::new(ring.public().clone(), audience());
    assert!(check(&verifier, &token, &request(), keys.clock.now()).is_ok());
}

#[test]
fn the_published_set_reads_back_and_is_what_other_libraries_expect() {
    let keys = Keys::new();
    let json = keys.ring.public().to_json();
    assert_eq!(&KeySet::from_json(&json).unwrap(), keys.ring.public());
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value[0]["algorithm"], "ed25519");
    assert_eq!(value[0]["key_id"], 1);
    assert_eq!(value[0]["key_bytes"].as_str().unwrap().len(), 64);
    assert!(Timestamp::parse(value[0]["expires_at"].as_str().unwrap()).is_some());
    let minimal = format!(
        r#"[{{"algorithm":"ed25519","key_bytes":{},"key_id":5,"issuer":"x"}}]"#,
        value[0]["key_bytes"]
    );
    assert_eq!(KeySet::from_json(minimal.as_bytes()).unwrap().iter().count(), 1);
}
