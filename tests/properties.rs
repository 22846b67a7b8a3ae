//! What holds for every value of a kind, tried with many.

use std::time::Duration;

use proptest::prelude::*;
use writ::backend::Backends;
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::id::{ApprovalId, CredentialId};
use writ::domain::json::Json;
use writ::domain::lifecycle::{
    ApprovalState, ApprovalTransition, CredentialState, CredentialTransition, DraftState, DraftTransition, ExecutionState,
    ExecutionTransition,
};
use writ::domain::money::{Currency, MAX_SAFE_INTEGER, Money, decimal};
use writ::domain::name::ResourceId;
use writ::domain::time::Timestamp;
use writ::token::Grant;

use crate::support::SeededEntropy;
use crate::support::peers::{output, python, script};
use crate::token::support::{World, audience};

/// The last moment that RFC 3339 can write.
const LAST: i64 = 253_402_300_799_999;

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).prop_map(Json::Integer),
        "[ -~\\n\\t\u{e9}\u{7ff}\u{ffed}\u{10000}\u{1f600}]{0,12}".prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            proptest::collection::btree_map("[ -~\u{e9}\u{ffed}\u{10000}]{0,6}", inner, 0..6).prop_map(Json::Object),
        ]
    })
}

proptest! {
    #[test]
    fn an_amount_reads_back_from_its_decimals(minor in 1..=MAX_SAFE_INTEGER, exponent in 0_u8..=4) {
        let shown = decimal(minor, exponent);
        let (whole, fraction) = shown.split_once('.').unwrap_or((&shown, ""));
        prop_assert_eq!(fraction.len(), usize::from(exponent));
        prop_assert!(whole == "0" || !whole.starts_with('0'), "{}", shown);
        prop_assert_eq!(format!("{whole}{fraction}").parse::<i64>().unwrap(), minor);
        prop_assert_eq!(decimal(-minor, exponent), format!("-{shown}"));
    }

    #[test]
    fn an_amount_is_read_only_if_it_is_one(minor in any::<i64>(), currency in "[A-Za-z]{3}") {
        let code: Currency = currency.parse().unwrap();
        prop_assert_eq!(code.as_str(), currency.to_ascii_lowercase());
        let read: Result<Money, _> = serde_json::from_value(serde_json::json!({ "minor": minor, "currency": currency }));
        prop_assert_eq!(read.is_ok(), (1..=MAX_SAFE_INTEGER).contains(&minor));
        if let Ok(money) = read {
            prop_assert_eq!((money.minor(), money.currency()), (minor, code));
        }
    }

    #[test]
    fn a_moment_reads_back_as_it_was_written_and_in_order(one in 0..=LAST, two in 0..=LAST) {
        let (a, b) = (Timestamp::from_millis(one), Timestamp::from_millis(two));
        prop_assert_eq!(Timestamp::parse(&a.to_string()), Some(a));
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()), "text sorts as time does: the store compares it");
    }

    #[test]
    fn time_never_wraps(millis in any::<i64>(), seconds in any::<u64>()) {
        let (at, by) = (Timestamp::from_millis(millis), Duration::from_secs(seconds));
        prop_assert!(at.plus(by) >= at && at.minus(by) <= at);
        prop_assert!(at.plus(by).since(at) <= by);
        prop_assert_eq!(at.since(at.plus(by)), Duration::ZERO);
        prop_assert!(Timestamp::from_seconds(at.seconds()) <= at);
    }

    #[test]
    fn what_a_grant_says_is_what_its_token_says(id in "[A-Za-z0-9_.:-]{1,40}", hash in any::<[u8; 32]>(), jti in any::<[u8; 16]>(), credential in any::<[u8; 16]>(), life in 1_u64..=120) {
        prop_assume!(id.parse::<ResourceId>().is_ok());
        let world = World::new();
        let (not_before, expires_at) = Grant::window(world.now(), Duration::from_secs(life));
        let grant = Grant {
            operation: "refund.create".parse().unwrap(),
            resource: format!("shop/charge:{id}").parse().unwrap(),
            draft_hash: DraftHash::from_digest(Digest::from_bytes(hash)),
            audience: audience(),
            credential: CredentialId::from_bytes(credential),
            jti: ApprovalId::from_bytes(jti),
            not_before,
            expires_at,
        };
        let token = world.minter.mint(&grant, &SeededEntropy::new(life)).unwrap();
        let signed = world.verifier.read(token.expose(), world.now()).unwrap();
        prop_assert_eq!(signed.grant(), &grant);
    }

    #[test]
    fn a_text_in_a_form_stays_in_its_field(note in "[ -~\u{e9}\u{df}\u{6771}\u{1f600}]{1,40}") {
        prop_assume!(note.trim() == note);
        let backends = Backends::from_texts([("notes.toml", NOTES)], std::path::Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let name = "note.add".parse().unwrap();
        let operation = backends.operation(&name).unwrap();
        let params = Json::from_value(&serde_json::json!({ "customer": "cus_88", "note": note })).unwrap();
        let Ok(checked) = operation.check(&params) else { return Ok(()) };
        let facts = operation.facts(&checked, &[]).unwrap();
        let request = operation.compile(&"drf_0192f0c1a2b37c4d8e5f60718293a4b5".parse().unwrap(), &checked, &facts).unwrap();
        let fields: Vec<(String, String)> = form_urlencoded::parse(request.body.as_bytes()).into_owned().collect();
        prop_assert_eq!(fields, [("note".to_owned(), note), ("state".to_owned(), "open".to_owned())]);
        prop_assert_eq!(request.url, "https://notes.example.com/customers/cus_88/notes");
        prop_assert!(request.body.is_ascii());
    }
}

const NOTES: &str = r#"
name     = "notes"
base_url = "https://notes.example.com"
[auth]
kind = "none"
[[operation]]
name        = "note.add"
consequence = "write"
on_failure  = "there is no note"
resource    = { type = "customer", id = "customer" }
fields      = ["note"]
[operation.params]
customer = { type = "id", pattern = "^[a-z0-9_]{1,64}$" }
note     = { type = "text", max = 200 }
[operation.request]
method   = "POST"
path     = "/customers/{params.customer}/notes"
encoding = "form"
body     = { note = "{params.note}", state = "open" }
[operation.idempotency]
place  = "header"
name   = "idempotency-key"
window = "24h"
safety = "1h"
replay = "stored"
[[operation.classify]]
name      = "the note is there"
status    = "200"
require   = [{ pointer = "/customer", equals = "{params.customer}" }]
outcome   = "applied"
reference = "/id"
[operation.retry]
on       = ["not_executed"]
attempts = 2
give_up  = "10m"
[[operation.reconcile]]
name = "send the same request under the same key"
kind = "replay"
"#;

/// Nothing leads out of a state that is an end, and every other state can still reach one.
#[test]
fn ends_are_ends_and_everything_else_can_reach_one() {
    macro_rules! ends {
        ($states:ty, $transitions:ty, [$($end:ident),*]) => {
            let ends: &[$states] = &[$(<$states>::$end),*];
            let leads = |from: $states| <$transitions>::ALL.iter().filter(move |t| t.from().contains(&from));
            for state in <$states>::ALL {
                assert_eq!(leads(*state).next().is_none(), ends.contains(state), "{state}");
                let mut reached = vec![*state];
                for _ in <$states>::ALL {
                    let next: Vec<$states> = reached.iter().flat_map(|from| leads(*from).map(|t| t.to())).collect();
                    reached.extend(next.into_iter().collect::<std::collections::BTreeSet<_>>());
                    reached.sort();
                    reached.dedup();
                }
                assert!(reached.iter().any(|at| ends.contains(at)), "{state} never ends");
            }
        };
    }
    ends!(DraftState, DraftTransition, [Denied, Withdrawn, Superseded, Expired, Stale]);
    ends!(ApprovalState, ApprovalTransition, [Refused, Lapsed, Voided, Revoked]);
    ends!(CredentialState, CredentialTransition, [Redeemed, Revoked, Lapsed]);
    ends!(ExecutionState, ExecutionTransition, [NotApplied]);
}

/// RFC 8785 by `rfc8785` for Python, on random documents.
#[test]
fn python_writes_the_same_canonical_bytes() {
    use proptest::strategy::ValueTree as _;
    let Some(mut python) = python() else { return };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let lines: Vec<String> = (0..400)
        .map(|_| {
            let value = json().new_tree(&mut runner).unwrap().current();
            String::from_utf8(value.canonical()).unwrap()
        })
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let said = output(python.arg(script("canonical.py")).arg(file.path()));
    assert_eq!(said.trim(), format!("{} documents, 0 differ", lines.len()));
}
