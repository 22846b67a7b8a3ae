//! Credentials: what is refused, and then what is accepted.

mod support;

use support::{World, request};

#[test]
fn a_credential_covers_the_request_it_was_minted_for() {
    let world = World::new();
    let verified = world.check(world.token().expose(), &request()).unwrap();
    assert_eq!(verified.grant(), &world.grant());
}

#[test]
fn junk_is_refused() {
    let world = World::new();
    assert_eq!(world.refusal("").code(), "credential_empty");
    assert!(world.dir.path().join("credential-1.pem").is_file());
}
