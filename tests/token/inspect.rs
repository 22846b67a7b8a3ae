//! What a person sees who holds a token and perhaps a public key.

use std::time::Duration;

use biscuit_auth::builder::BlockBuilder;
use writ::token::{RootKeyId, RootPublicKey, Signature, TokenError, With, inspect};

use super::support::{World, forge, grant_code, key_set, opened, root};

#[test]
fn what_is_no_token_is_said_so() {
    let now = World::new().now();
    assert_eq!(inspect("", With::Nothing, now), Err(TokenError::Empty));
    assert_eq!(inspect(" \n", With::Nothing, now), Err(TokenError::Empty));
    assert_eq!(inspect("junk", With::Nothing, now), Err(TokenError::Malformed));
    assert_eq!(inspect(&"A".repeat(3000), With::Nothing, now), Err(TokenError::TooLong));
}

#[test]
fn without_a_key_the_signature_is_not_called_valid() {
    let world = World::new();
    let seen = inspect(world.token().expose(), With::Nothing, world.now()).unwrap();
    assert_eq!(seen.signature, Signature::NotChecked);
    assert_eq!(seen.grant, Some(world.grant()));
    assert_eq!(seen.key_id, Some(RootKeyId::new(1)));
    assert_eq!((seen.blocks, seen.in_window, seen.refused), (1, true, None));
}

#[test]
fn a_wrong_key_a_wrong_set_and_a_wrong_time_are_told_apart() {
    let world = World::new();
    let token = world.token();
    let wrong = RootPublicKey::from_bytes(&root([1; 32]).public().to_bytes()).unwrap();
    let seen = inspect(token.expose(), With::Key(&wrong), world.now()).unwrap();
    assert_eq!(
        (seen.signature, seen.refused),
        (Signature::Invalid, Some("credential_signature_invalid"))
    );

    let set = key_set(&[(2, &world.root)]);
    let seen = inspect(token.expose(), With::Set(&set), world.now()).unwrap();
    assert_eq!((seen.signature, seen.refused), (Signature::Invalid, Some("credential_key_unknown")));

    let right: RootPublicKey = world.minter.public().unwrap().to_string().parse().unwrap();
    let seen = inspect(token.expose(), With::Key(&right), world.now().plus(Duration::from_secs(60))).unwrap();
    assert_eq!((seen.signature, seen.in_window), (Signature::Valid, false));
    assert_eq!(seen.refused, Some("credential_expired"));
}

#[test]
fn an_appended_block_is_counted_and_what_it_claims_is_not_shown_as_granted() {
    let world = World::new();
    let mut other = world.grant();
    other.operation = "email.update".parse().unwrap();
    let token = opened(&world)
        .append(BlockBuilder::new().code(grant_code(&other)).unwrap())
        .unwrap();
    let seen = inspect(&token.to_base64().unwrap(), With::Nothing, world.now()).unwrap();
    assert_eq!((seen.blocks, seen.refused), (2, Some("credential_extra_blocks")));
    assert_eq!(seen.grant, Some(world.grant()));
}

#[test]
fn a_token_that_grants_nothing_is_laid_open_all_the_same() {
    let world = World::new();
    let token = forge(&world.root, None, None, "user(1); right($x) <- user($x);");
    let seen = inspect(&token, With::Nothing, world.now()).unwrap();
    assert_eq!((seen.key_id, seen.grant.is_none()), (None, true));
    assert_eq!(seen.refused, Some("credential_grant_malformed"));
}

#[test]
fn a_good_token_is_valid_under_its_key() {
    let world = World::new();
    let set = key_set(&[(1, &world.root)]);
    let token = format!("{}\n", world.token().expose());
    let seen = inspect(&token, With::Set(&set), world.now()).unwrap();
    assert_eq!((seen.signature, seen.refused, seen.in_window), (Signature::Valid, None, true));
    let json = serde_json::to_value(&seen).unwrap();
    assert_eq!(json["grant"]["resource"], "shop/charge:ch_4821");
    assert_eq!(json["signature"], "valid");
}
