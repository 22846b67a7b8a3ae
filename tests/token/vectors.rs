//! The published vectors of credentials: `tests/vectors/credential.json`, which two foreign libraries judge as well.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use biscuit_auth::builder::BlockBuilder;
use biscuit_auth::{Algorithm, KeyPair, PrivateKey};
use serde_json::{Value, json};
use writ::domain::digest::DraftHash;
use writ::domain::name::Audience;
use writ::domain::time::Timestamp;
use writ::token::{CONTEXT, Grant, KeySet, PublishedKey, RequestFacts, RootKeyId, Verifier};

use super::support::{AUDIENCE, CHECK, audience, check, forge, grant, grant_code, minter, opened_by, published, request, root};
use crate::support::{SeededEntropy, vectors};

const ABOUT: &str = "Credentials and what becomes of them. `keys` is a Biscuit web key set. Each case gives a token, the time, and the facts and policy that a \
verifier evaluates. `expected` is this program's answer: `accepted`, or the code of the refusal. `stock_library` is what any Biscuit library answers with \
the key of that id (if it is in its window) and the authorizer alone: where it allows what is refused here, the verifier itself must look. The private keys are for tests only.";

/// What a stock library makes of a case.
#[derive(Clone, Copy)]
enum Stock {
    Allows,
    Refuses,
}

struct Case {
    name: &'static str,
    token: String,
    at: Timestamp,
    request: RequestFacts,
    audience: Audience,
    stock: Stock,
}

fn issued_at() -> Timestamp {
    Timestamp::from_seconds(1_790_000_000)
}

fn keys() -> KeySet {
    let window = |seed, from: i64, to: i64| PublishedKey {
        not_before: Timestamp::from_seconds(from),
        not_after: Some(Timestamp::from_seconds(to)),
        ..published(&root([seed; 32]))
    };
    let mut set = KeySet::new();
    set.insert(RootKeyId::new(1), window(7, 1_789_000_000, 1_800_000_000)).unwrap();
    set.insert(RootKeyId::new(2), window(8, 1_780_000_000, 1_789_999_000)).unwrap();
    set
}

fn cases() -> Vec<Case> {
    let root = root([7; 32]);
    let minter = minter(1, &root);
    let mint = |grant: &Grant| minter.mint(grant, &SeededEntropy::new(1)).unwrap().expose().to_owned();
    let good_grant = grant(issued_at());
    let good = mint(&good_grant);
    let bytes = URL_SAFE.decode(&good).unwrap();
    let code = grant_code(&good_grant) + CHECK;
    let case = |name, token: &str, stock| Case {
        name,
        token: token.to_owned(),
        at: issued_at(),
        request: request(),
        audience: audience(),
        stock,
    };
    let later = |seconds| issued_at().plus(Duration::from_secs(seconds));
    let with = |name, change: &dyn Fn(&mut RequestFacts)| {
        let mut case = case(name, &good, Stock::Refuses);
        change(&mut case.request);
        case
    };
    let rewritten = |bytes: &[&[u8]]| URL_SAFE.encode(bytes.concat());
    let mut flipped = bytes.clone();
    // The third byte from the end belongs to the private key of the proof.
    let at = flipped.len() - 3;
    flipped[at] ^= 1;
    let mut signed_otherwise = bytes.clone();
    signed_otherwise[100] ^= 1;
    let long = Grant {
        expires_at: later(126),
        ..good_grant.clone()
    };
    let early = Grant {
        not_before: later(1),
        ..good_grant.clone()
    };
    let other = Grant {
        operation: "email.update".parse().unwrap(),
        ..good_grant.clone()
    };
    let opened = opened_by(&good, &root);
    let block = |source: &str| BlockBuilder::new().code(source).unwrap();
    let next = super::support::root([6; 32]);
    let appended = |source: &str| opened.append_with_keypair(&next, block(source)).unwrap().to_base64().unwrap();
    let p256 = KeyPair::from(&PrivateKey::from_bytes(&[7; 32], Algorithm::Secp256r1).unwrap());
    let rogue = super::support::root([9; 32]);
    let retired = super::support::root([8; 32]);

    vec![
        case("a good credential", &good, Stock::Allows),
        Case {
            at: later(59),
            ..case("in its last second", &good, Stock::Allows)
        },
        case(
            "without padding: the same credential",
            &URL_SAFE_NO_PAD.encode(&bytes),
            Stock::Allows,
        ),
        case("with an unknown field", &rewritten(&[&bytes, &[0x78, 0x2a]]), Stock::Allows),
        case("written twice over", &rewritten(&[&bytes, &bytes]), Stock::Allows),
        with("for another operation", &|r| r.operation = "email.update".parse().unwrap()),
        with("for another resource", &|r| r.resource = "shop/charge:ch_4822".parse().unwrap()),
        with("for another tenant", &|r| r.resource = "other/charge:ch_4821".parse().unwrap()),
        with("for another draft", &|r| {
            r.draft_hash = DraftHash::of_canonical(b"{\"amount\":24001}")
        }),
        Case {
            audience: "https://other.example".parse().unwrap(),
            ..case("at another audience", &good, Stock::Refuses)
        },
        Case {
            at: later(60),
            ..case("expired this second", &good, Stock::Refuses)
        },
        Case {
            at: later(3600),
            ..case("expired long ago", &good, Stock::Refuses)
        },
        case("not valid yet", &mint(&early), Stock::Refuses),
        case(
            "a life beyond the cap",
            &forge(&root, Some(1), Some(CONTEXT), &(grant_code(&long) + CHECK)),
            Stock::Refuses,
        ),
        case("no key id", &rewritten(&[&bytes[2..]]), Stock::Refuses),
        case("an unknown key id", &rewritten(&[&[0x08, 0x03], &bytes[2..]]), Stock::Refuses),
        case("a retired key", &forge(&retired, Some(2), Some(CONTEXT), &code), Stock::Refuses),
        case(
            "a rogue key under a good id",
            &forge(&rogue, Some(1), Some(CONTEXT), &code),
            Stock::Refuses,
        ),
        case(
            "a P-256 root under a good id",
            &forge(&p256, Some(1), Some(CONTEXT), &code),
            Stock::Refuses,
        ),
        case("a flipped bit in the block", &URL_SAFE.encode(&signed_otherwise), Stock::Refuses),
        case("a flipped bit in the proof", &URL_SAFE.encode(&flipped), Stock::Refuses),
        case(
            "an appended block that tries to widen",
            &appended(&grant_code(&other)),
            Stock::Allows,
        ),
        case(
            "an appended block that restricts",
            &appended("check if time($t), $t < 2030-01-01T00:00:00Z;"),
            Stock::Allows,
        ),
        case("sealed", &opened.seal().unwrap().to_base64().unwrap(), Stock::Allows),
        case("another context", &forge(&root, Some(1), Some("writ/2"), &code), Stock::Allows),
        case("no context", &forge(&root, Some(1), None, &code), Stock::Allows),
        case(
            "two grants",
            &forge(&root, Some(1), Some(CONTEXT), &(grant_code(&other) + &code)),
            Stock::Allows,
        ),
        case("no grant", &forge(&root, Some(1), Some(CONTEXT), CHECK), Stock::Refuses),
        case("empty", "", Stock::Refuses),
        case("not base64", "%%%", Stock::Refuses),
        case("not a token", "AAAA", Stock::Refuses),
    ]
}

/// The facts and the policy of a proxy, as text for libraries that take text.
fn authorizer(case: &Case) -> String {
    let hex: String = case
        .request
        .draft_hash
        .digest()
        .as_bytes()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let date = |at: Timestamp| at.to_string().replace(".000Z", "Z");
    format!(
        "request(\"{}\", \"{}\", hex:{hex}, \"{}\"); time({}); latest({}); \
         check if grant($o, $r, $d, $a, $c, $j, $n, $e), latest($l), $e <= $l; \
         allow if grant($o, $r, $d, $a, $c, $j, $n, $e), request($o, $r, $d, $a);",
        case.request.operation,
        case.request.resource,
        case.audience,
        date(case.at),
        date(case.at.plus(Duration::from_secs(125)))
    )
}

fn verdict(case: &Case) -> &'static str {
    let verifier = Verifier::new(keys(), case.audience.clone());
    match check(&verifier, &case.token, &case.request, case.at) {
        Ok(verified) => {
            assert_eq!(verified.grant(), &grant(issued_at()), "{}: another grant", case.name);
            "accepted"
        }
        Err(error) => error.code(),
    }
}

fn document() -> Value {
    let cases: Vec<Value> = cases()
        .iter()
        .map(|case| {
            json!({
                "name": case.name,
                "token": case.token,
                "at": case.at,
                "authorizer": authorizer(case),
                "expected": verdict(case),
                "stock_library": match case.stock { Stock::Allows => "allows", Stock::Refuses => "refuses" },
            })
        })
        .collect();
    let private = |kid: u32, seed: u8| json!({"key_id": kid, "key": root([seed; 32]).private().to_prefixed_string()});
    json!({
        "about": ABOUT,
        "audience": AUDIENCE,
        "keys": serde_json::from_slice::<Value>(&keys().to_json()).unwrap(),
        "test_private_keys": [private(1, 7), private(2, 8)],
        "grant": grant(issued_at()),
        "cases": cases,
    })
}

#[test]
fn the_published_credentials_are_what_the_code_makes_and_decides() {
    let document = document();
    vectors::only_the_first_are_accepted(&document, 3);
    vectors::hold("credential.json", &document);
}
