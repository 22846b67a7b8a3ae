//! Every credential that must be refused, each for its own reason.

use std::time::Duration;

use biscuit_auth::builder::BlockBuilder;
use writ::domain::digest::DraftHash;
use writ::token::{CONTEXT, KeySet, PublishedKey, RootKeyId, TokenError, Verifier};

use super::support::{CHECK, World, check, forge, grant_code, key_set, opened, published, request, root};

#[test]
fn a_credential_for_another_operation_is_refused() {
    let world = World::new();
    let refusal = world.refusal_for(|r| r.operation = "email.update".parse().unwrap());
    assert_eq!(refusal, TokenError::OperationMismatch);
}

#[test]
fn a_credential_for_another_resource_is_refused() {
    let world = World::new();
    for other in ["shop/charge:ch_4822", "shop/order:ch_4821", "shop/charge:ch_4821/x"] {
        let refusal = world.refusal_for(|r| r.resource = other.parse().unwrap());
        assert_eq!(refusal, TokenError::ResourceMismatch, "{other}");
    }
}

#[test]
fn a_credential_of_another_tenant_is_refused() {
    let world = World::new();
    let refusal = world.refusal_for(|r| r.resource = "other/charge:ch_4821".parse().unwrap());
    assert_eq!(refusal, TokenError::TenantMismatch);
}

#[test]
fn a_credential_for_another_draft_is_refused() {
    let world = World::new();
    let refusal = world.refusal_for(|r| r.draft_hash = DraftHash::of_canonical(b"{\"amount\":24001}"));
    assert_eq!(refusal, TokenError::DraftMismatch);
}

#[test]
fn a_credential_for_another_audience_is_refused() {
    let world = World::new();
    let other = Verifier::new(key_set(&[(1, &world.root)]), "https://other.example".parse().unwrap());
    let refusal = check(&other, world.token().expose(), &request(), world.now()).unwrap_err();
    assert_eq!(refusal, TokenError::AudienceMismatch);
}

#[test]
fn a_credential_is_refused_from_the_second_it_expires() {
    let world = World::new();
    let token = world.token();
    world.clock.advance(Duration::from_millis(59_999));
    assert!(world.check(token.expose(), &request()).is_ok());
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.refusal(token.expose()), TokenError::Expired);
}

#[test]
fn a_credential_is_refused_before_its_first_second() {
    let world = World::new();
    let mut grant = world.grant();
    grant.not_before = world.now().plus(Duration::from_secs(1));
    let token = world.mint(&grant);
    assert_eq!(world.refusal(token.expose()), TokenError::NotYetValid);
    world.clock.advance(Duration::from_secs(1));
    assert!(world.check(token.expose(), &request()).is_ok());
}

#[test]
fn a_credential_that_lives_longer_than_the_cap_is_refused_though_the_root_signed_it() {
    let world = World::new();
    let mut grant = world.grant();
    grant.expires_at = world.now().plus(Duration::from_secs(126));
    let token = world.signed(&format!("{}{CHECK}", grant_code(&grant)));
    assert_eq!(world.refusal(&token), TokenError::LifetimeTooLong);
    grant.expires_at = world.now().plus(Duration::from_secs(125));
    assert!(world.check(&world.signed(&grant_code(&grant)), &request()).is_ok());
}

#[test]
fn a_token_without_a_key_id_is_refused_though_the_right_key_signed_it() {
    let world = World::new();
    let token = forge(&world.root, None, Some(CONTEXT), &grant_code(&world.grant()));
    assert_eq!(world.refusal(&token), TokenError::KeyIdMissing);
}

#[test]
fn a_token_of_an_unknown_key_is_refused_and_no_other_key_is_tried() {
    let world = World::new();
    let token = forge(&world.root, Some(2), Some(CONTEXT), &grant_code(&world.grant()));
    assert_eq!(world.refusal(&token), TokenError::KeyUnknown(RootKeyId::new(2)));
}

#[test]
fn a_token_of_another_key_in_the_set_is_refused_under_the_wrong_id() {
    let world = World::new();
    let second = root([8; 32]);
    world.verifier.replace_keys(key_set(&[(1, &world.root), (2, &second)]));
    let token = forge(&second, Some(1), Some(CONTEXT), &grant_code(&world.grant()));
    assert_eq!(world.refusal(&token), TokenError::SignatureInvalid(RootKeyId::new(1)));
    let token = forge(&second, Some(2), Some(CONTEXT), &grant_code(&world.grant()));
    assert!(world.check(&token, &request()).is_ok());
}

#[test]
fn a_token_of_a_retired_key_or_one_whose_time_has_not_come_is_refused() {
    let world = World::new();
    let kid = RootKeyId::new(1);
    let in_window = |not_before, not_after| {
        let mut set = KeySet::new();
        let key = PublishedKey {
            not_before,
            not_after,
            ..published(&world.root)
        };
        set.insert(kid, key).unwrap();
        world.verifier.replace_keys(set);
        world.check(world.token().expose(), &request()).map(|_| ())
    };
    let (now, second) = (world.now(), Duration::from_secs(1));
    assert_eq!(in_window(now.minus(second), Some(now)), Err(TokenError::KeyRetired(kid)));
    assert_eq!(in_window(now.plus(6 * second), None), Err(TokenError::KeyNotYetValid(kid)));
    assert_eq!(in_window(now.plus(5 * second), None), Ok(()), "within the skew of clocks");
    assert_eq!(in_window(now.minus(second), Some(now.plus(second))), Ok(()));
}

#[test]
fn a_rogue_key_under_the_right_id_is_refused() {
    let world = World::new();
    let token = forge(&root([9; 32]), Some(1), Some(CONTEXT), &grant_code(&world.grant()));
    assert_eq!(world.refusal(&token), TokenError::SignatureInvalid(RootKeyId::new(1)));
}

#[test]
fn a_p256_root_is_refused_as_a_signer_and_as_a_published_key() {
    let world = World::new();
    let p256 = biscuit_auth::KeyPair::new_with_algorithm(biscuit_auth::Algorithm::Secp256r1);
    let token = forge(&p256, Some(1), Some(CONTEXT), &grant_code(&world.grant()));
    assert_eq!(world.refusal(&token), TokenError::SignatureInvalid(RootKeyId::new(1)));

    let hex = p256.public().to_bytes_hex();
    for algorithm in ["secp256r1", "ed25519", "Ed25519", ""] {
        let json = format!(r#"[{{"algorithm":"{algorithm}","key_bytes":"{hex}","key_id":1}}]"#);
        assert!(KeySet::from_json(json.as_bytes()).is_err(), "{algorithm}");
    }
}

#[test]
fn a_token_with_an_appended_block_is_refused_even_if_the_block_only_restricts() {
    let world = World::new();
    let token = opened(&world).append(BlockBuilder::new().code("check if true;").unwrap()).unwrap();
    assert_eq!(world.refusal(&token.to_base64().unwrap()), TokenError::ExtraBlocks);
}

#[test]
fn a_token_with_a_third_party_block_is_refused() {
    let world = World::new();
    let token = opened(&world);
    let guest = root([3; 32]);
    let block = BlockBuilder::new().code("proven(true);").unwrap();
    let block = token.third_party_request().unwrap().create_block(&guest.private(), block).unwrap();
    let token = token.append_third_party(guest.public(), block).unwrap();
    assert_eq!(world.refusal(&token.to_base64().unwrap()), TokenError::ExtraBlocks);
}

#[test]
fn a_block_made_to_burn_seconds_is_refused_before_its_signature_is_checked_or_any_of_it_runs() {
    let world = World::new();
    let facts: String = (0..40).map(|n| format!("n({n});")).collect();
    let join = "check if n($a), n($b), n($c), n($d), $a + $b + $c + $d < 0;";
    let bomb = BlockBuilder::new().code(format!("{facts}{join}")).unwrap();
    let token = opened(&world).append(bomb).unwrap().to_base64().unwrap();
    assert!(token.len() <= 2048, "the size limit alone does not stop it");
    // Without a single key the answer is the same: neither a key was looked for nor a signature checked.
    let keyless = Verifier::new(KeySet::new(), world.verifier.audience().clone());
    assert_eq!(keyless.read(&token, world.now()).unwrap_err(), TokenError::ExtraBlocks);
    assert_eq!(world.refusal(&token), TokenError::ExtraBlocks);
}

#[test]
fn a_sealed_token_is_refused() {
    let world = World::new();
    let token = opened(&world).seal().unwrap().to_base64().unwrap();
    assert_eq!(world.refusal(&token), TokenError::Sealed);
}

#[test]
fn a_token_of_another_context_or_none_is_refused_though_the_root_signed_it() {
    let world = World::new();
    let code = format!("{}{CHECK}", grant_code(&world.grant()));
    for context in [None, Some(""), Some("writ/2"), Some("writ/1 ")] {
        let token = forge(&world.root, Some(1), context, &code);
        assert_eq!(world.refusal(&token), TokenError::ContextWrong, "{context:?}");
    }
    assert!(world.check(&world.signed(&code), &request()).is_ok());
}

#[test]
fn anything_but_one_grant_of_the_right_form_is_refused_though_the_root_signed_it() {
    let world = World::new();
    let good = grant_code(&world.grant());
    let mut other = world.grant();
    other.operation = "email.update".parse().unwrap();
    let cases = [
        ("nothing", "allowed(true);".to_owned()),
        ("two grants", good.clone() + &grant_code(&other)),
        ("seven terms", good.replace("\"refund.create\", ", "")),
        ("nine terms", good.replace("grant(", "grant(1, ")),
        ("a number for an operation", good.replace("\"refund.create\"", "7")),
        ("an operation outside its alphabet", good.replace("refund.create", "*")),
        ("a resource without a tenant", good.replace("shop/", "")),
        ("a short jti", good.replace(&"a1".repeat(16), "a1")),
    ];
    for (what, code) in cases {
        assert_eq!(world.refusal(&world.signed(&code)), TokenError::GrantMalformed, "{what}: {code}");
    }
}

#[test]
fn a_check_in_the_token_that_does_not_hold_refuses_it() {
    let world = World::new();
    for check in [
        "check if false;",
        "check if grant($o), proven($o);",
        "check if holder($k), proven($k);",
    ] {
        let token = world.signed(&format!("{}{check}", grant_code(&world.grant())));
        assert_eq!(world.refusal(&token), TokenError::ChecksFailed, "{check}");
    }
}

#[test]
fn running_out_of_budget_is_our_fault_and_no_refusal() {
    let world = World::new();
    let numbers: String = (0..12).map(|n| format!("n({n});")).collect();
    let token = world.signed(&format!("{}{numbers}pair($a, $b) <- n($a), n($b);", grant_code(&world.grant())));
    let error = world.refusal(&token);
    assert_eq!(error, TokenError::BudgetExhausted);
    assert!(error.is_ours());
    assert!(!TokenError::ChecksFailed.is_ours());
}

#[test]
fn what_is_not_a_token_is_refused_before_anything_is_read() {
    let world = World::new();
    let token = world.token();
    let cases = [
        (String::new(), TokenError::Empty),
        ("A".repeat(2049), TokenError::TooLong),
        ("A".repeat(2048), TokenError::Malformed),
        ("not a token".to_owned(), TokenError::NotBase64),
        (format!(" {}", token.expose()), TokenError::NotBase64),
        (format!("Bearer {}", token.expose()), TokenError::NotBase64),
        ("é".to_owned(), TokenError::NotBase64),
        ("AAAA".to_owned(), TokenError::Malformed),
        (format!("{}AAAA", token.expose().trim_end_matches('=')), TokenError::Malformed),
    ];
    for (text, expected) in cases {
        assert_eq!(world.refusal(&text), expected, "{text}");
    }
}

#[test]
fn each_refusal_has_its_own_code() {
    let kid = RootKeyId::new(1);
    let all = [
        TokenError::Empty,
        TokenError::TooLong,
        TokenError::NotBase64,
        TokenError::Malformed,
        TokenError::ExtraBlocks,
        TokenError::Sealed,
        TokenError::KeyIdMissing,
        TokenError::KeyUnknown(kid),
        TokenError::KeyNotYetValid(kid),
        TokenError::KeyRetired(kid),
        TokenError::SignatureInvalid(kid),
        TokenError::ContextWrong,
        TokenError::GrantMalformed,
        TokenError::OperationMismatch,
        TokenError::TenantMismatch,
        TokenError::ResourceMismatch,
        TokenError::DraftMismatch,
        TokenError::AudienceMismatch,
        TokenError::NotYetValid,
        TokenError::Expired,
        TokenError::LifetimeTooLong,
        TokenError::ChecksFailed,
        TokenError::BudgetExhausted,
        TokenError::VerifierFailed,
    ];
    let codes: std::collections::BTreeSet<_> = all.iter().map(TokenError::code).collect();
    assert_eq!(codes.len(), all.len());
    assert!(codes.iter().all(|code| code.starts_with("credential_")));
}
