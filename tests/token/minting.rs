//! What the broker refuses to sign, and what it signs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use biscuit_auth::{Biscuit, KeyPair};
use writ::domain::secret::Secret;
use writ::domain::time::Timestamp;
use writ::token::{Grant, GrantResource, MintError, Minter, RootKeyId};

use super::support::{LIFETIME, World, opened, request};
use crate::support::SeededEntropy;

#[test]
fn a_grant_that_no_verifier_accepts_is_not_signed() {
    let world = World::new();
    let refused = |change: &dyn Fn(&mut Grant)| {
        let mut grant = world.grant();
        change(&mut grant);
        world.minter.mint(&grant, &world.entropy).expect_err("it was signed")
    };
    assert_eq!(refused(&|g| g.expires_at = g.not_before), MintError::EmptyWindow);
    assert_eq!(
        refused(&|g| g.not_before = Timestamp::from_millis(-2000)),
        MintError::LifetimeTooLong
    );
    assert_eq!(
        refused(&|g| g.expires_at = g.not_before.plus(Duration::from_secs(126))),
        MintError::LifetimeTooLong
    );
    let before_1970 = |g: &mut Grant| {
        g.not_before = Timestamp::from_seconds(-10);
        g.expires_at = Timestamp::from_seconds(20);
    };
    assert_eq!(refused(&before_1970), MintError::EmptyWindow);
}

#[test]
fn the_longest_grant_still_fits_a_token() {
    let world = World::new();
    let mut grant = world.grant();
    grant.operation = format!("{}.{}", "a".repeat(31), "b".repeat(32)).parse().unwrap();
    grant.audience = format!("https://{}", "x".repeat(192)).parse().unwrap();
    grant.resource = format!("{}/{}:{}", "t".repeat(64), "k".repeat(32), "i".repeat(200))
        .parse()
        .unwrap();
    assert!(world.mint(&grant).expose().len() <= 2048);
}

#[test]
fn only_an_ed25519_key_mints() {
    let p256 = KeyPair::new_with_algorithm(biscuit_auth::Algorithm::Secp256r1);
    for pem in [p256.to_private_key_pem().unwrap().to_string(), String::new(), "junk".to_owned()] {
        assert!(Minter::from_pkcs8_pem(RootKeyId::new(1), &Secret::new(pem)).is_none());
    }
}

#[test]
fn a_minted_credential_covers_the_request_it_was_made_for() {
    let world = World::new();
    let verified = world.check(world.token().expose(), &request()).unwrap();
    assert_eq!(verified.grant(), &world.grant());
    assert_eq!(verified.kid(), RootKeyId::new(1));
}

#[test]
fn a_credential_begins_a_little_before_it_was_issued_and_in_whole_seconds() {
    let now = Timestamp::from_millis(1_790_000_000_999);
    let (from, to) = Grant::window(now, LIFETIME);
    assert_eq!((from.millis(), to.millis()), (1_789_999_995_000, 1_790_000_060_000));
}

#[test]
fn a_token_has_one_block_in_datalog_version_3_and_no_rule() {
    let world = World::new();
    let token = opened(&world);
    assert_eq!(token.block_count(), 1);
    assert_eq!(token.block_version(0).unwrap(), 3);
    assert_eq!(token.root_key_id(), Some(1));
    let source = token.print_block_source(0).unwrap();
    assert_eq!(source.matches("grant(\"").count(), 1, "{source}");
    assert_eq!(source.matches("check if").count(), 1, "{source}");
    assert!(!source.contains("<-"), "{source}");
}

#[test]
fn the_token_s_own_check_refuses_under_a_verifier_that_allows_everything() {
    let world = World::new();
    let careless = |code: &str| {
        let token = Biscuit::from_base64(world.token().expose(), world.root.public()).unwrap();
        let limits = biscuit_auth::AuthorizerLimits {
            max_time: Duration::from_secs(5),
            ..Default::default()
        };
        let builder = biscuit_auth::builder::AuthorizerBuilder::new()
            .code(format!("{code} allow if true;"))
            .unwrap();
        builder.set_limits(limits).build(&token).unwrap().authorize()
    };
    assert!(careless("").is_err());
    let hash: String = request()
        .draft_hash
        .digest()
        .as_bytes()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let facts = |operation: &str, time: &str| {
        format!("request(\"{operation}\", \"shop/charge:ch_4821\", hex:{hash}, \"https://proxy.shop.example\"); time({time});")
    };
    assert!(careless(&facts("refund.create", "2026-09-21T14:13:30Z")).is_ok());
    assert!(careless(&facts("email.update", "2026-09-21T14:13:30Z")).is_err());
    assert!(careless(&facts("refund.create", "2026-09-21T14:14:20Z")).is_err());
    assert!(careless(&facts("refund.create", "2026-09-21T14:13:14Z")).is_err());
}

#[test]
fn the_same_key_grant_and_entropy_make_the_same_token() {
    let world = World::new();
    let mint = || world.minter.mint(&world.grant(), &SeededEntropy::new(4)).unwrap();
    assert_eq!(mint().expose(), mint().expose());
    assert!(URL_SAFE.decode(mint().expose()).is_ok());
}

#[test]
fn a_resource_has_one_reading() {
    for (text, tenant, kind, id) in [("t/charge:a:b/c", "t", "charge", "a:b/c"), ("t/charge:/", "t", "charge", "/")] {
        let resource: GrantResource = text.parse().unwrap();
        assert_eq!(
            (resource.tenant.as_str(), resource.kind.as_str(), resource.id.as_str()),
            (tenant, kind, id)
        );
        assert_eq!(resource.to_string(), text);
    }
    for bad in [
        "",
        "t",
        "t/charge",
        "charge:x",
        "/charge:x",
        "t/:x",
        "t/charge:",
        "t/a/b:c",
        "t/charge:x y",
    ] {
        assert!(bad.parse::<GrantResource>().is_err(), "{bad}");
    }
}
