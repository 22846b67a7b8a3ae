//! Credentials: nothing verifies that the root key did not sign, and what verifies covers exactly what was asked.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::Value;
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::time::Timestamp;
use writ::token::{
    CLOCK_SKEW, Grant, KeySet, MAX_LIFETIME, PublishedKey, RequestFacts, RootKeyId, RootPublicKey, TokenError, Verifier, With, inspect,
};

use super::edit;

struct World {
    verifier: Verifier,
    keys: KeySet,
    now: Timestamp,
    request: RequestFacts,
    /// A good token, and the signed block in it.
    token: Vec<u8>,
    block: Vec<u8>,
    /// What the root signed in tokens that anybody may hold: those of the vectors.
    grants: Vec<Grant>,
    root: Ed25519KeyPair,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let file: Value = serde_json::from_str(include_str!("../../tests/vectors/credential.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    // The private half is in the file, for tests only.
    let root = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let keys = || {
        let mut keys = KeySet::new();
        let published = PublishedKey {
            key: RootPublicKey::from_bytes(root.public_key().as_ref()).unwrap(),
            not_before: Timestamp::from_millis(0),
            not_after: None,
        };
        keys.insert(RootKeyId::new(1), published).unwrap();
        keys
    };
    let verifier = Verifier::new(keys(), text(&file["audience"]).parse().unwrap());
    let case = &file["cases"][0];
    let now = Timestamp::parse(case["at"].as_str().unwrap()).unwrap();
    let token = text(&case["token"]);
    let every = file["cases"].as_array().unwrap().iter().map(|case| case["token"].as_str().unwrap());
    let grants = every
        .filter_map(|token| Some(verifier.read(token, now).ok()?.grant().clone()))
        .collect();
    let token = URL_SAFE.decode(token).unwrap();
    World {
        keys: keys(),
        request: RequestFacts {
            operation: text(&file["grant"]["operation"]).parse().unwrap(),
            resource: text(&file["grant"]["resource"]).parse().unwrap(),
            draft_hash: DraftHash::from_digest(Digest::parse(file["grant"]["draft_hash"].as_str().unwrap()).unwrap()),
        },
        block: member(&member(&token, 2), 1),
        verifier,
        now,
        token,
        grants,
        root,
    }
});

/// The first byte chooses: text as it is, a good token with changes, or a block that the root really signs, made of the rest or of a good one.
pub fn check(input: &[u8]) {
    let (kind, rest) = edit::head(input);
    match kind & 3 {
        0 => unsigned(&String::from_utf8_lossy(rest)),
        1 => unsigned(&URL_SAFE.encode(edit::apply(&WORLD.token, rest))),
        2 => signed(rest),
        _ => signed(&edit::apply(&WORLD.block, rest)),
    }
}

fn read(token: &str) -> Option<Grant> {
    let inspected = inspect(token, With::Set(&WORLD.keys), WORLD.now);
    assert!(!matches!(inspected, Err(TokenError::VerifierFailed)), "the library panicked");
    match WORLD.verifier.read(token, WORLD.now) {
        Ok(signed) => Some(signed.grant().clone()),
        Err(error) => {
            assert_ne!(error, TokenError::VerifierFailed, "the library panicked");
            assert!(!error.to_string().contains(token) || token.len() < 8, "an error repeats the token");
            None
        }
    }
}

/// Nobody signed this anew: whatever is read out of it is a grant that was signed.
fn unsigned(token: &str) {
    if let Some(grant) = read(token) {
        assert!(WORLD.grants.contains(&grant), "a token that nobody signed verifies: {token}");
    }
}

fn signed(block: &[u8]) {
    let token = URL_SAFE.encode(sign(block));
    let Some(read) = read(&token) else { return };
    let signed = WORLD.verifier.read(&token, WORLD.now).unwrap();
    match WORLD.verifier.authorize(signed, &WORLD.request, WORLD.now) {
        Ok(verified) => {
            let (grant, request, now) = (verified.grant(), &WORLD.request, WORLD.now);
            assert_eq!(*grant, read);
            assert_eq!((&grant.operation, &grant.resource), (&request.operation, &request.resource));
            assert_eq!(
                (&grant.draft_hash, &grant.audience),
                (&request.draft_hash, WORLD.verifier.audience())
            );
            assert!(grant.not_before <= now && now < grant.expires_at, "{grant:?}");
            assert!(grant.expires_at <= now.plus(MAX_LIFETIME).plus(CLOCK_SKEW), "{grant:?}");
        }
        Err(error) => assert_ne!(error, TokenError::VerifierFailed, "the library panicked"),
    }
}

/// A token over any block at all, signed as the format wants it: block, algorithm of the next key, next key.
fn sign(block: &[u8]) -> Vec<u8> {
    let seed = [5; 32];
    let next = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let key = next.public_key().as_ref();
    let signature = WORLD.root.sign(&[block, &0_i32.to_le_bytes(), key].concat());
    let next_key = [vec![0x08, 0x00], field(2, key)].concat();
    let authority = [field(1, block), field(2, &next_key), field(3, signature.as_ref())].concat();
    [vec![0x08, 0x01], field(2, &authority), field(4, &field(1, &seed))].concat()
}

/// A protobuf field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend_from_slice(content);
    out
}

/// The bytes of a protobuf message's first field of this number.
fn member(message: &[u8], number: u64) -> Vec<u8> {
    let mut at = 0;
    let varint = |at: &mut usize| {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = message[*at];
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        unreachable!("a number has an end")
    };
    loop {
        let tag = varint(&mut at);
        let length = varint(&mut at);
        if tag & 7 == 2 {
            let end = at + usize::try_from(length).unwrap();
            if tag >> 3 == number {
                return message[at..end].to_vec();
            }
            at = end;
        }
    }
}
