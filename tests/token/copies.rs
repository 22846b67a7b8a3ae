//! Copies of one token in other bytes: each is refused.

use std::sync::Barrier;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use writ::token::{KeySet, KeySetError, RootKeyId, TokenError, With, inspect};

use super::support::{World, key_set, published, request, root};

/// The outer message's first bytes: field 1 (`rootKeyId`), value 1.
const KEY_ID_1: [u8; 2] = [0x08, 0x01];

#[test]
fn copies_in_other_bytes_are_refused() {
    let world = World::new();
    let bytes = world.bytes();
    assert!(bytes.starts_with(&KEY_ID_1));
    let unknown_field = [bytes.as_slice(), &[0x78, 0x2a]].concat();
    let key_id_moved = [&bytes[2..], &KEY_ID_1].concat();
    let key_id_twice = [&[0x08, 0x63], bytes.as_slice()].concat();
    let key_id_longer = [&[0x08, 0x81, 0x00], &bytes[2..]].concat();
    let merged = [bytes.as_slice(), bytes.as_slice()].concat();
    let other = world.bytes();
    let merged_with_another = [other.as_slice(), bytes.as_slice()].concat();
    let copies = [
        URL_SAFE.encode(&unknown_field),
        URL_SAFE.encode(&key_id_moved),
        URL_SAFE.encode(&key_id_twice),
        URL_SAFE.encode(&key_id_longer),
        URL_SAFE.encode(&merged),
        URL_SAFE.encode(&merged_with_another),
    ];
    for copy in copies {
        assert_eq!(world.refusal(&copy), TokenError::Malformed, "{copy}");
        let laid_open = inspect(&copy, With::Set(&world.verifier.keys()), world.now()).unwrap();
        assert_eq!(laid_open.refused, Some("credential_malformed"), "{copy}");
    }
    for same in [URL_SAFE.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
        world.check(&same, &request()).unwrap();
    }
}

#[test]
fn two_tokens_for_one_grant_have_one_jti() {
    let world = World::new();
    let (first, second) = (world.token(), world.token());
    assert_ne!(first.expose(), second.expose());
    let jti = |token: &str| world.check(token, &request()).unwrap().grant().jti;
    assert_eq!(jti(first.expose()), jti(second.expose()));
}

#[test]
fn a_changed_key_id_leads_to_no_key_or_to_another_one_and_is_refused() {
    let world = World::new();
    world.verifier.replace_keys(key_set(&[(1, &world.root), (2, &root([2; 32]))]));
    let bytes = world.bytes();
    let with_id = |id: &[u8]| URL_SAFE.encode([id, &bytes[2..]].concat());
    assert_eq!(world.refusal(&with_id(&[])), TokenError::KeyIdMissing);
    assert_eq!(
        world.refusal(&with_id(&[0x08, 0x02])),
        TokenError::SignatureInvalid(RootKeyId::new(2))
    );
    assert_eq!(world.refusal(&with_id(&[0x08, 0x03])), TokenError::KeyUnknown(RootKeyId::new(3)));
    assert!(world.check(&with_id(&KEY_ID_1), &request()).is_ok());
}

#[test]
fn one_key_cannot_be_published_under_two_ids() {
    let key = published(&root([7; 32]));
    let mut set = KeySet::new();
    set.insert(RootKeyId::new(1), key).unwrap();
    assert_eq!(
        set.insert(RootKeyId::new(2), key),
        Err(KeySetError::KeyTwice(RootKeyId::new(1), RootKeyId::new(2)))
    );
    assert_eq!(
        set.insert(RootKeyId::new(1), published(&root([8; 32]))),
        Err(KeySetError::IdTwice(RootKeyId::new(1)))
    );
}

#[test]
fn a_token_in_the_other_base64_alphabet_is_refused() {
    let world = World::new();
    // A token with a character that the two alphabets write differently.
    let bytes = (0..100)
        .map(|_| world.bytes())
        .find(|b| STANDARD.encode(b).contains(['+', '/']))
        .unwrap();
    assert_eq!(world.refusal(&STANDARD.encode(bytes)), TokenError::NotBase64);
}

#[test]
fn every_flipped_bit_is_refused() {
    let world = World::new();
    let bytes = world.bytes();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut copy = bytes.clone();
            copy[index] ^= 1 << bit;
            let refusal = world.refusal(&URL_SAFE.encode(&copy));
            assert_ne!(
                refusal,
                TokenError::VerifierFailed,
                "the library panicked at byte {index}, bit {bit}"
            );
        }
    }
}

#[test]
fn two_hundred_checks_at_once_never_run_out_of_budget() {
    let world = World::new();
    let token = world.token();
    let start = Barrier::new(20);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..10 {
                    world.check(token.expose(), &request()).unwrap();
                }
            });
        }
    });
}
