//! What is printed when somebody prints everything.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use writ::token::{KeyRing, With, inspect};

use super::support::{World, key_set, opened, request};
use crate::support::SeededEntropy;

/// A secret in every form in which a careless `Debug` would show it.
fn forms(secret: &[u8]) -> Vec<String> {
    let hex: String = secret.iter().map(|b| format!("{b:02x}")).collect();
    let list = format!("{secret:?}");
    let list = list.trim_matches(['[', ']']).to_owned();
    vec![hex.to_uppercase(), hex, list, STANDARD.encode(secret), URL_SAFE.encode(secret)]
}

fn shows(text: &str, secret: &[u8]) -> bool {
    let squeezed = text.replace(['\n', ' '], "");
    forms(secret).iter().any(|form| squeezed.contains(&form.replace(' ', "")))
}

#[test]
fn nothing_of_ours_prints_a_key_or_a_token() {
    let world = World::new();
    let token = world.token();
    let biscuit = opened(&world);
    let root = world.root.private().to_bytes().to_vec();
    let next = match biscuit.container().to_proto().proof.content {
        Some(biscuit_auth::format::schema::proof::Content::NextSecret(secret)) => secret,
        _ => panic!("the token is sealed"),
    };
    assert!(
        shows(&format!("{biscuit:#?}"), &next),
        "the library's own type does print it, so this test can fail"
    );

    let signed = world.verifier.read(token.expose(), world.now()).unwrap();
    let mut printed = format!("{signed:#?} {signed:?}");
    let verified = world.verifier.authorize(signed, &request(), world.now()).unwrap();
    let laid_open = inspect(token.expose(), With::Set(&key_set(&[(1, &world.root)])), world.now()).unwrap();
    printed += &format!("{verified:#?} {:#?} {:#?} {token:?} {laid_open:#?}", world.minter, world.verifier);
    printed += &serde_json::to_string(&laid_open).unwrap();
    printed += &format!("{:?}", world.check("junk", &request()));
    assert!(printed.contains("refund.create"), "it prints what is not secret");
    for secret in [root.as_slice(), &next, &world.bytes()] {
        assert!(!shows(&printed, secret));
    }
    assert!(!printed.contains(&token.expose()[..40]));
}

#[test]
fn a_ring_prints_no_key() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let ring = KeyRing::generate(dir.path(), world.now(), std::time::Duration::from_secs(600), &SeededEntropy::new(9)).unwrap();
    let seed: [u8; 32] = writ::domain::clock::random(&SeededEntropy::new(9));
    let pem = std::fs::read_to_string(dir.path().join("credential-1.pem")).unwrap();
    let pair = biscuit_auth::KeyPair::from_private_key_pem(&pem).unwrap();
    assert_eq!(
        pair.private().to_bytes().as_slice(),
        seed,
        "the key comes from the entropy that was handed in"
    );
    let printed = format!("{ring:#?} {:#?}", ring.list(world.now()));
    assert!(printed.contains("ed25519/"));
    assert!(!shows(&printed, &seed));
}
