//! Tokens nobody would write by hand: no panic, and no other grant than the one that was signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use biscuit_auth::KeyPair;
use proptest::prelude::*;
use writ::token::{TokenError, With, inspect};

use super::support::{World, key_set, opened, request, root};

/// One change to a byte string.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Insert(usize, u8),
    Remove(usize),
    Cut(usize),
    Repeat(usize, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = 0..4096_usize;
    let change = prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(i, b)| Change::Set(i, b)),
        (at.clone(), any::<u8>()).prop_map(|(i, b)| Change::Insert(i, b)),
        at.clone().prop_map(Change::Remove),
        at.clone().prop_map(Change::Cut),
        (at, 1..16_usize).prop_map(|(i, n)| Change::Repeat(i, n)),
    ];
    proptest::collection::vec(change, 1..6)
}

fn apply(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let len = bytes.len().max(1);
        match *change {
            Change::Set(i, b) if !bytes.is_empty() => bytes[i % len] = b,
            Change::Insert(i, b) => bytes.insert(i % len, b),
            Change::Remove(i) if !bytes.is_empty() => drop(bytes.remove(i % len)),
            Change::Cut(i) => bytes.truncate(i % len),
            Change::Repeat(i, n) => {
                let from = i % len;
                let copy = bytes[from..(from + n).min(bytes.len())].to_vec();
                bytes.splice(from..from, copy);
            }
            _ => {}
        }
    }
    bytes
}

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

/// A token over any block at all, signed as the format wants it: block, algorithm of the next key, next key.
fn sign_block(root: &KeyPair, block: &[u8]) -> Vec<u8> {
    let next = super::support::root([5; 32]);
    let key = next.public().to_bytes();
    let signature = root.sign(&[block, &0_i32.to_le_bytes(), &key].concat()).unwrap();
    let next_key = [vec![0x08, 0x00], field(2, &key)].concat();
    let authority = [field(1, block), field(2, &next_key), field(3, signature.to_bytes())].concat();
    let proof = field(1, &next.private().to_bytes());
    [vec![0x08, 0x01], field(2, &authority), field(4, &proof)].concat()
}

#[test]
fn the_hand_made_token_is_one_that_verifies() {
    let world = World::new();
    let block = opened(&world).container().to_proto().authority.block;
    let token = URL_SAFE.encode(sign_block(&world.root, &block));
    assert_eq!(world.check(&token, &request()).unwrap().grant(), &world.grant());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn a_changed_token_never_verifies_as_another_grant(changes in changes()) {
        let world = World::new();
        let token = URL_SAFE.encode(apply(world.bytes(), &changes));
        match world.check(&token, &request()) {
            Ok(verified) => prop_assert_eq!(verified.grant(), &world.grant()),
            Err(error) => prop_assert_ne!(error, TokenError::VerifierFailed),
        }
        if let Ok(signed) = world.verifier.read(&token, world.now()) {
            prop_assert_eq!(signed.grant(), &world.grant());
        }
    }

    #[test]
    fn a_changed_block_that_the_root_signed_again_does_not_panic(changes in changes()) {
        let world = World::new();
        let block = opened(&world).container().to_proto().authority.block;
        let token = URL_SAFE.encode(sign_block(&world.root, &apply(block, &changes)));
        if let Err(error) = world.check(&token, &request()) {
            prop_assert_ne!(error, TokenError::VerifierFailed);
        }
    }

    #[test]
    fn any_text_is_refused_and_inspected_without_panic(text in prop_oneof![".*", "[A-Za-z0-9_-]{0,400}"]) {
        let world = World::new();
        prop_assert!(world.check(&text, &request()).is_err());
        let set = key_set(&[(1, &root([7; 32]))]);
        if let Err(error) = inspect(&text, With::Set(&set), world.now()) {
            prop_assert_ne!(error, TokenError::VerifierFailed);
        }
    }

    #[test]
    fn a_changed_token_is_inspected_without_panic(changes in changes()) {
        let world = World::new();
        let token = URL_SAFE.encode(apply(world.bytes(), &changes));
        if let Err(error) = inspect(&token, With::Nothing, world.now()) {
            prop_assert_ne!(error, TokenError::VerifierFailed);
        }
    }
}
