//! Copies of one token in other bytes, other roots, other shapes: each is refused, before the token was spent and after.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use biscuit_auth::builder::BlockBuilder;
use biscuit_auth::{Algorithm, Biscuit, KeyPair, PrivateKey, PublicKey};
use serde_json::{Value, json};
use writ::domain::clock::Clock as _;
use writ::domain::secret::Secret;
use writ::token::{Grant, KeyRing, Minter, RootKeyId, Rotation};

use super::support::{held, refused, still_good};
use crate::support::world::World;

/// The outer message's first bytes: field 1 (`rootKeyId`), value 1.
const KEY_ID_1: [u8; 2] = [0x08, 0x01];

/// The token again, in bytes that say the same.
fn copies(token: &str) -> Vec<String> {
    let bytes = URL_SAFE.decode(token).unwrap();
    assert!(bytes.starts_with(&KEY_ID_1));
    let unknown_field = [bytes.as_slice(), &[0x78, 0x2a]].concat();
    let key_id_moved = [&bytes[2..], &KEY_ID_1].concat();
    let key_id_twice = [&[0x08, 0x63], bytes.as_slice()].concat();
    let merged = [bytes.as_slice(), bytes.as_slice()].concat();
    vec![
        URL_SAFE.encode(merged),
        URL_SAFE.encode(unknown_field),
        URL_SAFE.encode(key_id_moved),
        URL_SAFE.encode(key_id_twice),
    ]
}

#[tokio::test]
async fn a_copy_of_a_token_in_other_bytes_is_refused_before_it_is_spent_and_after() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = json!({ "draft_id": held.draft });
    for copy in copies(&held.token) {
        refused(&world, &copy, body.clone(), 401, "credential_malformed").await;
    }
    still_good(&world, &held).await;
    for copy in copies(&held.token) {
        world.execute(&copy, &held.draft).await.refused(401, "credential_malformed");
    }
    world.execute(&held.token, &held.draft).await.expect(200);
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn a_changed_key_id_an_appended_block_and_a_sealed_token_are_refused() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = json!({ "draft_id": held.draft });
    let bytes = URL_SAFE.decode(&held.token).unwrap();
    let without = URL_SAFE.encode(&bytes[2..]);
    refused(&world, &without, body.clone(), 401, "credential_key_id_missing").await;
    let other = URL_SAFE.encode([&[0x08, 0x02], &bytes[2..]].concat());
    refused(&world, &other, body.clone(), 401, "credential_key_unknown").await;
    let opened = Biscuit::from_base64(&held.token, root_of(&world)).unwrap();
    let narrowed = opened.append(BlockBuilder::new().code("check if true;").unwrap()).unwrap();
    refused(&world, &narrowed.to_base64().unwrap(), body.clone(), 401, "credential_extra_blocks").await;
    let widened = opened
        .append(
            BlockBuilder::new()
                .code("request(\"refund.create\", \"main/charge:ch_another\", hex:00, \"a\");")
                .unwrap(),
        )
        .unwrap();
    refused(&world, &widened.to_base64().unwrap(), body.clone(), 401, "credential_extra_blocks").await;
    let sealed = opened.seal().unwrap().to_base64().unwrap();
    refused(&world, &sealed, body.clone(), 401, "credential_sealed").await;
    still_good(&world, &held).await;
}

fn root_of(world: &World) -> PublicKey {
    let ring = KeyRing::load(&world.config.keys).unwrap();
    let published: Value = serde_json::from_slice(&ring.public().to_json()).unwrap();
    PublicKey::from_bytes_hex(published[0]["key_bytes"].as_str().unwrap(), Algorithm::Ed25519).unwrap()
}

#[tokio::test]
async fn a_credential_signed_by_an_unknown_root_is_refused() {
    let world = World::new().await;
    let held = held(&world).await;
    let body = json!({ "draft_id": held.draft });
    let root = KeyPair::from(&PrivateKey::from_bytes(&[7; 32], Algorithm::Ed25519).unwrap());
    let pem = Secret::new(root.to_private_key_pem().unwrap().to_string());
    for (kid, code) in [(9, "credential_key_unknown"), (1, "credential_signature_invalid")] {
        let minter = Minter::from_pkcs8_pem(RootKeyId::new(kid), &pem).unwrap();
        let token = minter.mint(&held.grant, &*world.entropy).unwrap();
        refused(&world, token.expose(), body.clone(), 401, code).await;
    }
    still_good(&world, &held).await;
}

#[tokio::test]
async fn a_credential_signed_by_a_retired_root_is_refused() {
    let mut world = World::new().await;
    let old = KeyRing::load(&world.config.keys).unwrap();
    let rotation = Rotation::default();
    KeyRing::rotate(&world.config.keys, world.clock.now(), rotation, &*world.entropy).unwrap();
    // While both verify, a credential of the old key is good.
    world.restart();
    still_good(&world, &held(&world).await).await;
    world.clock.advance(rotation.settle + rotation.overlap);
    // The broker signs with the new key, and whoever still has the old one is too late.
    let held = super::support::exchanged(
        &world,
        "support-agent",
        super::support::refund_on(&world, writ::sandbox::demo::CHARGE, 3_900, "usd").await,
    )
    .await;
    assert_eq!(&URL_SAFE.decode(&held.token).unwrap()[..2], &[0x08, 0x02]);
    let minter = old.list(world.clock.now())[0].kid;
    let signer = old.signing(held.grant.not_before).unwrap();
    assert_eq!(signer.kid(), minter);
    let token = signer.mint(&held.grant, &*world.entropy).unwrap();
    refused(
        &world,
        token.expose(),
        json!({ "draft_id": held.draft }),
        401,
        "credential_key_retired",
    )
    .await;
    still_good(&world, &held).await;
}

#[tokio::test]
async fn a_key_that_is_retired_at_once_takes_its_credentials_with_it() {
    let mut world = World::new().await;
    let held = held(&world).await;
    let now = world.clock.now();
    let at_once = Rotation {
        settle: Duration::ZERO,
        ..Rotation::default()
    };
    KeyRing::rotate(&world.config.keys, now, at_once, &*world.entropy).unwrap();
    KeyRing::retire(&world.config.keys, RootKeyId::new(1), now).unwrap();
    world.restart();
    refused(
        &world,
        &held.token,
        json!({ "draft_id": held.draft }),
        401,
        "credential_key_retired",
    )
    .await;
    let again = super::support::exchanged(&world, "support-agent", held.draft).await;
    assert_eq!(Grant::window(now, Duration::from_secs(60)).1, again.grant.expires_at);
    still_good(&world, &again).await;
}
