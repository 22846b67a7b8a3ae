//! Every record that must be refused, each for its own reason.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};
use writ::approval::{RecordError, UnverifiedRecord};
use writ::domain::time::Timestamp;

use super::support::{SIGNED_AT, TestKey, claims, ed25519, now, p256, refused, verify};

/// Three parts of a compact JWS.
fn parts(jws: &str) -> [String; 3] {
    let parts: Vec<String> = jws.split('.').map(str::to_owned).collect();
    parts.try_into().unwrap()
}

fn good() -> String {
    static RECORD: LazyLock<String> = LazyLock::new(|| p256().record(&claims()));
    RECORD.clone()
}

#[test]
fn an_unsigned_record_is_refused() {
    for alg in ["none", "None", "NONE", "nOnE"] {
        let [header, payload, _] = parts(&p256().with_header(|h| h["alg"] = json!(alg)));
        assert_eq!(refused(&format!("{header}.{payload}.")), "record_algorithm_none", "{alg}");
    }
    let [header, payload, _] = parts(&good());
    assert_eq!(refused(&format!("{header}.{payload}.")), "record_signature_invalid");
}

#[test]
fn hs256_with_the_public_key_as_its_secret_is_refused() {
    let public = URL_SAFE_NO_PAD.decode(p256().registered().public).unwrap();
    let [header, payload, _] = parts(&p256().with_header(|h| h["alg"] = json!("HS256")));
    let message = format!("{header}.{payload}");
    let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public), message.as_bytes());
    assert_eq!(
        refused(&format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))),
        "record_algorithm_refused"
    );
}

#[test]
fn any_other_algorithm_is_refused() {
    for alg in ["ES384", "ES256K", "RS256", "PS256", "Ed448", "es256", "ES256 ", ""] {
        assert_eq!(
            refused(&p256().with_header(|h| h["alg"] = json!(alg))),
            "record_algorithm_refused",
            "{alg}"
        );
    }
}

#[test]
fn an_algorithm_the_key_is_not_registered_for_is_refused() {
    for alg in ["EdDSA", "Ed25519"] {
        assert_eq!(
            refused(&p256().with_header(|h| h["alg"] = json!(alg))),
            "record_algorithm_not_for_key"
        );
    }
    let jws = ed25519().with_header(|h| h["alg"] = json!("ES256"));
    let error = verify(&jws, &ed25519().registered(), now()).unwrap_err();
    assert_eq!(error.code(), "record_algorithm_not_for_key");
}

#[test]
fn a_record_that_brings_a_key_is_refused() {
    for name in ["jwk", "jku", "x5u", "x5c", "x5t", "x5t#S256"] {
        let jws = p256().with_header(|h| h[name] = json!({"kty": "EC"}));
        assert_eq!(refused(&jws), "record_header_embeds_key", "{name}");
    }
}

#[test]
fn extensions_and_unknown_header_members_are_refused() {
    assert_eq!(
        refused(&p256().with_header(|h| h["crit"] = json!(["exp"]))),
        "record_header_critical"
    );
    assert_eq!(refused(&p256().with_header(|h| h["b64"] = json!(false))), "record_header_unencoded");
    assert_eq!(refused(&p256().with_header(|h| h["b64"] = json!(true))), "record_header_unencoded");
    for name in ["cty", "zip", "enc", "Alg", "KID", ""] {
        assert_eq!(
            refused(&p256().with_header(|h| h[name] = json!("x"))),
            "record_header_unknown_member",
            "{name}"
        );
    }
}

#[test]
fn another_type_of_token_is_refused() {
    for typ in ["JWT", "at+jwt", "application/approval+jwt", "Approval+JWT", "approval+jwt ", ""] {
        assert_eq!(
            refused(&p256().with_header(|h| h["typ"] = json!(typ))),
            "record_type_refused",
            "{typ}"
        );
    }
}

#[test]
fn a_header_that_lacks_a_member_or_says_it_twice_is_refused() {
    for name in ["typ", "alg", "kid"] {
        let jws = p256().with_header(|h| drop(h.as_object_mut().unwrap().remove(name)));
        assert_eq!(refused(&jws), "record_header_malformed", "{name}");
        let jws = p256().with_header(|h| h[name] = json!(1));
        assert_eq!(refused(&jws), "record_header_malformed", "{name}");
    }
    let twice = r#"{"alg":"ES256","alg":"none","kid":"appr-p256","typ":"approval+jwt"}"#;
    let kids = r#"{"alg":"ES256","kid":"appr-p256","k\u0069d":"appr-p256","typ":"approval+jwt"}"#;
    for header in [twice, kids, "[]", "null", "{", "", "\u{feff}{}"] {
        assert_eq!(
            refused(&p256().sign(header, &claims().to_string())),
            "record_header_malformed",
            "{header}"
        );
    }
    for kid in ["", "a b", "../x", "é"] {
        assert_eq!(
            refused(&p256().with_header(|h| h["kid"] = json!(kid))),
            "record_header_malformed",
            "{kid}"
        );
    }
}

#[test]
fn a_record_that_was_edited_after_signing_is_refused() {
    let [header, _, signature] = parts(&good());
    let mut other = claims();
    other["apr"]["draft_id"] = json!("drf_0192f0c1a2b37c4d8e5f60718293a4b6");
    let payload = URL_SAFE_NO_PAD.encode(other.to_string());
    assert_eq!(refused(&format!("{header}.{payload}.{signature}")), "record_signature_invalid");
    // The same JSON in another order is another text.
    let [_, payload, _] = parts(&good());
    let reordered = URL_SAFE_NO_PAD.encode(r#"{"kid":"appr-p256","alg":"ES256","typ":"approval+jwt"}"#);
    assert_ne!(reordered, header);
    assert_eq!(refused(&format!("{reordered}.{payload}.{signature}")), "record_signature_invalid");
}

#[test]
fn a_signature_by_another_key_under_the_right_id_is_refused() {
    let rogue = TestKey::new("appr-p256", p256().kind, [0x61; 32]);
    assert_eq!(refused(&rogue.record(&claims())), "record_signature_invalid");
}

#[test]
fn a_signature_of_the_wrong_form_is_refused() {
    let [header, payload, signature] = parts(&good());
    let bytes = URL_SAFE_NO_PAD.decode(&signature).unwrap();
    let zero = vec![0; 64];
    for bytes in [
        &bytes[..63],
        &[bytes.as_slice(), &[0]].concat(),
        &zero,
        &[0x30, 0x06, 2, 1, 1, 2, 1, 1],
    ] {
        let jws = format!("{header}.{payload}.{}", URL_SAFE_NO_PAD.encode(bytes));
        assert_eq!(refused(&jws), "record_signature_invalid");
    }
}

#[test]
fn a_record_is_read_in_one_encoding_only() {
    let [header, payload, signature] = parts(&good());
    let malformed = [
        String::new(),
        header.clone(),
        format!("{header}.{payload}"),
        format!("{header}.{payload}.{signature}="),
        format!("{header}=.{payload}.{signature}"),
        format!(" {header}.{payload}.{signature}"),
        format!("{header}.{payload}.{signature}\n"),
        format!("{header}.{payload}.{signature}.{signature}"),
        format!("{header}..{payload}.{signature}"),
        format!("{header}.{payload}.{}", signature.replace(&signature[..1], "+")),
        json!({"payload": payload, "signatures": [{"protected": header, "signature": signature}]}).to_string(),
    ];
    for jws in malformed {
        let code = refused(&jws);
        assert!(code == "record_malformed" || code == "record_header_malformed", "{code}: {jws}");
    }
    // The last character of a signature carries bits that are no part of it.
    let last = signature.chars().last().unwrap();
    let sibling = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = sibling.find(last).unwrap();
    let other = &sibling[at + 1..at + 2];
    assert_eq!(
        refused(&format!("{header}.{payload}.{}{other}", &signature[..85])),
        "record_malformed"
    );
}

#[test]
fn a_record_beyond_eight_kibibytes_is_refused_unread() {
    assert!(matches!(
        UnverifiedRecord::parse(&"A".repeat(8193)),
        Err(RecordError::TooLarge { length: 8193 })
    ));
    assert_eq!(UnverifiedRecord::parse(&"A".repeat(8192)).unwrap_err().code(), "record_malformed");
    let padded = p256().with_claims(|c| c["note"] = json!("x".repeat(6000)));
    assert_eq!(refused(&padded), "record_too_large");
}

#[test]
fn a_record_of_another_key_is_not_verified_with_this_one() {
    assert_eq!(
        refused(&p256().with_header(|h| h["kid"] = json!("appr-other"))),
        "record_key_mismatch"
    );
}

#[test]
fn a_record_for_another_broker_or_for_several_is_refused() {
    assert_eq!(
        refused(&p256().with_claims(|c| c["aud"] = json!("https://other.example"))),
        "record_audience_wrong"
    );
    assert_eq!(
        refused(&p256().with_claims(|c| c["aud"] = json!("https://broker.shop.example/"))),
        "record_audience_wrong"
    );
    for aud in [json!(["https://broker.shop.example"]), json!(null), json!(1)] {
        assert_eq!(
            refused(&p256().with_claims(|c| c["aud"] = aud.clone())),
            "record_claims_malformed",
            "{aud}"
        );
    }
}

#[test]
fn issuer_subject_and_approver_must_be_those_of_the_key() {
    assert_eq!(
        refused(&p256().with_claims(|c| c["iss"] = json!("https://evil.example"))),
        "record_issuer_mismatch"
    );
    assert_eq!(
        refused(&p256().with_claims(|c| c["sub"] = json!("usr_ann"))),
        "record_approver_mismatch"
    );
    assert_eq!(
        refused(&p256().with_claims(|c| c["apr"]["by"]["id"] = json!("usr_ann"))),
        "record_approver_mismatch"
    );
    let both = p256().with_claims(|c| {
        c["sub"] = json!("usr_ann");
        c["apr"]["by"]["id"] = json!("usr_ann");
    });
    assert_eq!(refused(&both), "record_subject_mismatch");
}

#[test]
fn times_are_held_to_the_second() {
    let at = |change: &dyn Fn(&mut Value), seconds: i64| {
        let jws = p256().with_claims(change);
        verify(&jws, &p256().registered(), Timestamp::from_seconds(SIGNED_AT + seconds))
            .map(|_| ())
            .map_err(|e| e.code())
    };
    let same = |_: &mut Value| {};
    assert_eq!(at(&same, 899), Ok(()));
    assert_eq!(at(&same, 900), Err("record_expired"));
    assert_eq!(at(&same, -5), Ok(()), "five seconds of leeway for a clock that is ahead");
    assert_eq!(at(&same, -6), Err("record_issued_in_future"));
    let later = |c: &mut Value| c["nbf"] = json!(SIGNED_AT + 100);
    assert_eq!(at(&later, 94), Err("record_not_yet_valid"));
    assert_eq!(at(&later, 95), Ok(()));
    let an_hour = |c: &mut Value| c["exp"] = json!(SIGNED_AT + 3600);
    assert_eq!(at(&an_hour, 0), Ok(()));
    let longer = |c: &mut Value| c["exp"] = json!(SIGNED_AT + 3601);
    assert_eq!(at(&longer, 0), Err("record_lifetime_too_long"));
    let backwards = |c: &mut Value| c["exp"] = json!(SIGNED_AT);
    assert_eq!(at(&backwards, -1), Err("record_times_disordered"));
    let empty = |c: &mut Value| c["nbf"] = json!(SIGNED_AT + 900);
    assert_eq!(at(&empty, 0), Err("record_times_disordered"));
    let extreme = |c: &mut Value| {
        c["iat"] = json!(-9_007_199_254_740_991_i64);
        c["exp"] = json!(9_007_199_254_740_991_i64);
    };
    assert_eq!(at(&extreme, 0), Err("record_lifetime_too_long"));
}

#[test]
fn a_time_that_is_not_whole_seconds_is_refused() {
    for name in ["iat", "nbf", "exp"] {
        for value in [json!(1.5), json!("1790000000"), json!(true), json!(null), json!([SIGNED_AT])] {
            assert_eq!(
                refused(&p256().with_claims(|c| c[name] = value.clone())),
                "record_claims_malformed",
                "{name} {value}"
            );
        }
    }
}

#[test]
fn a_claim_that_languages_read_differently_is_refused_even_where_claims_are_ignored() {
    for value in ["1.5", "1e3", "-0", "9007199254740993"] {
        let payload = claims().to_string().replacen('{', &format!("{{\"azp\":{value},"), 1);
        assert_eq!(
            refused(&p256().sign(&p256().header().to_string(), &payload)),
            "record_claims_malformed",
            "{value}"
        );
    }
}

#[test]
fn a_denial_needs_a_reason_and_no_reason_is_longer_than_a_thousand_characters() {
    let deny = |reason: Value| {
        p256().with_claims(|c| {
            c["apr"]["decision"] = json!("deny");
            c["apr"]["reason"] = reason;
        })
    };
    for reason in [json!(null), json!(""), json!(" \n\t ")] {
        assert_eq!(refused(&deny(reason.clone())), "record_reason_missing", "{reason}");
    }
    assert_eq!(refused(&deny(json!("é".repeat(1001)))), "record_reason_too_long");
    assert!(verify(&deny(json!("é".repeat(1000))), &p256().registered(), now()).is_ok());
    assert_eq!(
        refused(&p256().with_claims(|c| c["apr"]["reason"] = json!("x".repeat(1001)))),
        "record_reason_too_long"
    );
}

#[test]
fn claims_outside_the_closed_form_are_refused_with_their_place() {
    let cases: [(&str, Value, &str); 9] = [
        ("/apr/extra", json!(1), "/apr/extra"),
        ("/apr/policy/extra", json!(1), "/apr/policy/extra"),
        ("/apr/by/roles", json!(["admin"]), "/apr/by/roles"),
        ("/apr/decision", json!("approved"), "/apr/decision"),
        ("/apr/draft_hash", json!("AAAA"), "/apr/draft_hash"),
        ("/apr/draft_id", json!("drf_1"), "/apr/draft_id"),
        ("/apr/by/type", json!("agent"), "/apr/by/type"),
        ("/jti", json!("x"), "/jti"),
        ("/sub", json!("mia"), "/sub"),
    ];
    for (pointer, value, place) in cases {
        let jws = p256().with_claims(|c| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            c.pointer_mut(parent).unwrap()[name] = value;
        });
        match verify(&jws, &p256().registered(), now()) {
            Err(RecordError::ClaimsMalformed(error)) => assert_eq!(error.pointer, place),
            other => panic!("{pointer}: {other:?}"),
        }
    }
    for name in ["iss", "sub", "aud", "jti", "iat", "nbf", "exp", "apr"] {
        let jws = p256().with_claims(|c| drop(c.as_object_mut().unwrap().remove(name)));
        assert_eq!(refused(&jws), "record_claims_malformed", "{name}");
    }
}

#[test]
fn a_duplicate_key_is_refused_at_any_depth_and_however_it_is_written() {
    let text = claims().to_string();
    for (from, to) in [
        (r#""decision":"approve""#, r#""decision":"deny","decision":"approve""#),
        (r#""decision":"approve""#, r#""decision":"deny","d\u0065cision":"approve""#),
        (r#""exp":"#, r#""exp":1,"exp":"#),
        (r#""version":7"#, r#""version":6,"version":7"#),
    ] {
        let payload = text.replacen(from, to, 1);
        assert_ne!(payload, text);
        assert_eq!(
            refused(&p256().sign(&p256().header().to_string(), &payload)),
            "record_claims_malformed",
            "{to}"
        );
    }
}

#[test]
fn a_nonce_that_is_not_sixteen_bytes_and_a_version_that_is_not_one_are_refused() {
    for nonce in [
        "",
        "AAAA",
        "u0cB6h0QqkM0d2o3s5lJ1g==",
        "u0cB6h0QqkM0d2o3s5lJ1h",
        "u0cB6h0QqkM0d2o3s5lJ1gAA",
    ] {
        assert_eq!(
            refused(&p256().with_claims(|c| c["apr"]["request_nonce"] = json!(nonce))),
            "record_nonce_malformed",
            "{nonce}"
        );
    }
    for v in [0, 2, 255] {
        assert_eq!(refused(&p256().with_claims(|c| c["apr"]["v"] = json!(v))), "record_version_unknown");
    }
}

#[test]
fn a_key_outside_its_window_or_revoked_does_not_count() {
    let with = |change: &dyn Fn(&mut writ::domain::principal::ApproverKey)| {
        let mut key = p256().registered();
        change(&mut key);
        verify(&good(), &key, now()).map(|_| ()).map_err(|e| e.code())
    };
    let at = |seconds: i64| Timestamp::from_seconds(SIGNED_AT + seconds);
    assert_eq!(with(&|k| k.not_before = at(11)), Err("record_key_not_yet_valid"));
    assert_eq!(
        with(&|k| k.not_before = at(6)),
        Err("record_key_not_yet_valid"),
        "signed before the key's first moment"
    );
    assert_eq!(with(&|k| k.not_before = at(5)), Ok(()), "within the leeway of clocks");
    let mut young = p256().registered();
    young.not_before = at(5);
    let early = verify(&good(), &young, at(4)).map(|_| ()).map_err(|e| e.code());
    assert_eq!(early, Err("record_key_not_yet_valid"), "handed in before the key's first moment");
    assert_eq!(
        with(&|k| k.not_after = Some(at(10))),
        Err("record_key_expired"),
        "signed in time, handed in too late"
    );
    assert_eq!(with(&|k| k.not_after = Some(at(11))), Ok(()));
    assert_eq!(with(&|k| k.revoked_at = Some(at(10))), Err("record_key_revoked"));
    assert_eq!(with(&|k| k.revoked_at = Some(at(11))), Ok(()), "revoked from later on");
    assert_eq!(with(&|k| k.public = "AAAA".to_owned()), Err("record_key_unusable"));
}

#[test]
fn a_good_record_of_either_kind_and_name_is_accepted() {
    let named = ed25519().with_header(|h| h["alg"] = json!("Ed25519"));
    for (jws, key) in [(good(), p256()), (ed25519().record(&claims()), ed25519()), (named, ed25519())] {
        let record = verify(&jws, &key.registered(), now()).unwrap();
        assert_eq!(record.kid().as_str(), key.kid);
        assert_eq!(record.jws(), jws);
        assert_eq!(serde_json::to_value(record.claims()).unwrap(), claims());
    }
}

#[test]
fn claims_that_a_library_adds_at_the_top_are_ignored() {
    let jws = p256().with_claims(|c| {
        c["azp"] = json!("x");
        c["scope"] = json!(["admin"]);
        c["nonce"] = json!({"a": 1});
    });
    let record = verify(&jws, &p256().registered(), now()).unwrap();
    assert_eq!(serde_json::to_value(record.claims()).unwrap(), claims());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_changed_character_never_leaves_a_record_that_is_accepted(at in 0..2000_usize, new in any::<char>()) {
        let jws = good();
        let mut chars: Vec<char> = jws.chars().collect();
        let at = at % chars.len();
        prop_assume!(chars[at] != new);
        chars[at] = new;
        let changed: String = chars.into_iter().collect();
        prop_assert!(verify(&changed, &p256().registered(), now()).is_err());
    }

    #[test]
    fn any_text_is_refused_without_panic(text in prop_oneof![".*", "[A-Za-z0-9_.-]{0,300}"]) {
        prop_assert!(verify(&text, &p256().registered(), now()).is_err());
    }
}
