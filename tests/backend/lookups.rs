//! Looking a lost result up, and when the same request may go again.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{answer, charge, customer, draft, operation, refund_params, shipped};
use crate::support::{ManualClock, SeededEntropy};
use writ::backend::{Finding, Next, Outcome, retry_after};
use writ::domain::clock::Clock as _;
use writ::domain::draft::{DraftDocument, IdempotencyKey};
use writ::domain::time::Timestamp;

struct Lost {
    backends: writ::backend::Backends,
    draft: DraftDocument,
    key: IdempotencyKey,
}

impl Lost {
    fn refund() -> Self {
        let backends = shipped();
        let draft = draft(operation(&backends, "refund.create"), refund_params(), &answer(200, charge()));
        let key = draft.seal().unwrap().key;
        Self { backends, draft, key }
    }

    fn entry(&self, id: &str) -> Value {
        json!({
            "id": id, "object": "refund", "amount": 24_000, "currency": "usd", "charge": "ch_3Rw4821blender", "status": "succeeded",
            "metadata": { "writ_draft": self.draft.id.to_string(), "writ_key": self.key.to_string() },
        })
    }

    fn list(&self, pages: &[(Vec<Value>, bool)]) -> Finding {
        let operation = operation(&self.backends, "refund.create");
        let answers: Vec<_> = pages
            .iter()
            .map(|(data, more)| answer(200, json!({ "data": data, "has_more": more })))
            .collect();
        operation.evaluate(&operation.reconcile()[0], &self.draft, &self.key, &answers)
    }
}

fn other(id: &str) -> Value {
    json!({ "id": id, "object": "refund", "amount": 24_000, "currency": "usd", "charge": "ch_3Rw4821blender", "status": "succeeded", "metadata": {} })
}

#[test]
fn not_found_in_a_list_proves_nothing() {
    let lost = Lost::refund();
    assert_eq!(lost.list(&[(vec![], false)]), Finding::Absent { proof: None });
    assert_eq!(
        lost.list(&[(vec![other("re_9")], false)]),
        Finding::Absent { proof: None },
        "an equal refund of another draft"
    );
}

#[test]
fn an_answer_that_is_not_the_list_decides_nothing() {
    let lost = Lost::refund();
    let refund = operation(&lost.backends, "refund.create");
    let step = &refund.reconcile()[0];
    for answers in [
        vec![answer(500, json!({}))],
        vec![answer(404, json!({}))],
        vec![answer(200, json!({ "data": {} }))],
        vec![answer(200, json!("no"))],
        vec![answer(200, json!({ "data": [] }))],
        vec![answer(200, json!({ "data": [], "has_more": null }))],
        vec![answer(200, json!({ "data": [], "has_more": "true" }))],
        vec![answer(200, json!({ "data": [lost.entry("re_1")], "has_more": 1 }))],
        vec![],
    ] {
        let found = refund.evaluate(step, &lost.draft, &lost.key, &answers);
        assert!(matches!(found, Finding::Inconclusive { .. }), "{found:?}");
    }
}

#[test]
fn two_entries_with_the_draft_s_mark_go_to_a_person() {
    let lost = Lost::refund();
    match lost.list(&[(vec![lost.entry("re_1"), lost.entry("re_2")], false)]) {
        Finding::Inconclusive { why } => assert!(why.contains("2 entries carry this draft's mark"), "{why}"),
        found => panic!("{found:?}"),
    }
}

#[test]
fn an_entry_with_the_mark_and_another_amount_goes_to_a_person() {
    let lost = Lost::refund();
    let mut entry = lost.entry("re_1");
    entry["amount"] = json!(1);
    assert!(matches!(lost.list(&[(vec![entry], false)]), Finding::Inconclusive { .. }));
}

#[test]
fn the_entry_with_the_draft_s_mark_is_judged_by_the_rules() {
    let lost = Lost::refund();
    match lost.list(&[(vec![other("re_9"), lost.entry("re_1")], false)]) {
        Finding::Found(said) => assert_eq!((said.outcome, said.reference.as_deref()), (Outcome::Applied, Some("re_1"))),
        found => panic!("{found:?}"),
    }
    let mut failed = lost.entry("re_1");
    failed["status"] = json!("failed");
    assert!(matches!(lost.list(&[(vec![failed], false)]), Finding::Found(said) if said.outcome == Outcome::Failed));
}

#[test]
fn a_long_list_is_read_page_by_page_and_not_for_ever() {
    let lost = Lost::refund();
    let refund = operation(&lost.backends, "refund.create");
    let first = refund.look_up(&refund.reconcile()[0], &lost.draft, &lost.key, None).unwrap();
    assert_eq!(first.url, "http://127.0.0.1:9/v1/refunds?charge=ch_3Rw4821blender&limit=100");
    match lost.list(&[(vec![other("re_7")], true)]) {
        Finding::More(plan) => assert_eq!(plan.url, format!("{}&starting_after=re_7", first.url)),
        found => panic!("{found:?}"),
    }
    let found = lost.list(&[(vec![other("re_7")], true), (vec![lost.entry("re_1")], false)]);
    assert!(matches!(found, Finding::Found(_)), "{found:?}");
    let endless: Vec<_> = (0..10).map(|_| (vec![other("re_7")], true)).collect();
    assert!(matches!(lost.list(&endless), Finding::Inconclusive { .. }));
    assert!(
        matches!(lost.list(&[(vec![], true)]), Finding::Inconclusive { .. }),
        "no entry to go on from"
    );
}

#[test]
fn a_changed_record_counts_only_with_a_new_version_and_the_new_value() {
    let backends = shipped();
    let email = operation(&backends, "email.update");
    let params = json!({ "customer": "cus_88", "old_email": "ada.moreno@example.com", "new_email": "ada@example.org" });
    let made = draft(email, params, &answer(200, customer()));
    let key = made.seal().unwrap().key;
    let step = &email.reconcile()[0];
    let look = |tag: &str, address: &str| {
        let mut body = customer();
        body["email"] = json!(address);
        let mut answer = answer(200, body);
        answer.headers.insert("etag".to_owned(), tag.to_owned());
        email.evaluate(step, &made, &key, &[answer])
    };
    assert_eq!(look("\"1\"", "ada.moreno@example.com"), Finding::Absent { proof: None });
    assert_eq!(look("\"1\"", "ada@example.org"), Finding::Absent { proof: None });
    assert_eq!(look("\"2\"", "eve@example.org"), Finding::Absent { proof: None });
    assert!(matches!(look("\"2\"", "ada@example.org"), Finding::Found(said) if said.outcome == Outcome::Applied));
}

#[test]
fn a_look_comes_before_the_same_request_again() {
    let backends = shipped();
    for operation in backends.operations().filter(|operation| !operation.is_read()) {
        let kinds: Vec<bool> = operation.reconcile().iter().map(writ::backend::Step::is_replay).collect();
        assert_eq!(kinds, [false, true], "{}", operation.name());
        let lost = Lost::refund();
        assert_eq!(operation.look_up(&operation.reconcile()[1], &lost.draft, &lost.key, None), None);
    }
}

#[test]
fn the_key_is_never_used_near_the_end_of_its_window() {
    let backends = shipped();
    let window = operation(&backends, "refund.create").window().unwrap();
    let first = Timestamp::from_seconds(1_000_000);
    assert_eq!(window.resend_before(first), Some(first.plus(Duration::from_secs(23 * 3600))));
}

#[test]
fn an_ambiguous_answer_is_looked_up_and_a_busy_one_repeated() {
    let backends = shipped();
    let retry = operation(&backends, "refund.create").retry().unwrap();
    let plain = answer(409, json!({}));
    assert_eq!(retry.after(Outcome::Ambiguous, &plain), Next::LookUp);
    assert_eq!(retry.after(Outcome::Mismatch, &plain), Next::LookUp);
    assert_eq!(retry.after(Outcome::InFlight, &plain), Next::Again);
    assert_eq!(retry.after(Outcome::NotExecuted, &plain), Next::Again);
    let mut told = plain;
    told.headers.insert("stripe-should-retry".to_owned(), "false".to_owned());
    assert_eq!(retry.after(Outcome::InFlight, &told), Next::LookUp);
    told.headers.insert("stripe-should-retry".to_owned(), "true".to_owned());
    assert_eq!(retry.after(Outcome::Ambiguous, &told), Next::LookUp);
}

#[test]
fn waiting_follows_the_answer_up_to_a_cap_and_else_a_jittered_backoff() {
    let clock = ManualClock::new();
    let entropy = SeededEntropy::new(7);
    let backends = shipped();
    let retry = operation(&backends, "refund.create").retry().unwrap();
    let asking = |text: &str| {
        let mut answer = answer(429, json!({}));
        answer.headers.insert("retry-after".to_owned(), text.to_owned());
        answer
    };
    let now = clock.now();
    assert_eq!(retry_after(&asking("7"), now), Some(Duration::from_secs(7)));
    assert_eq!(
        retry_after(&asking("Mon, 21 Sep 2026 14:13:50 GMT"), now),
        Some(Duration::from_secs(30))
    );
    assert_eq!(retry_after(&asking("Mon, 21 Sep 2026 14:13:00 GMT"), now), Some(Duration::ZERO));
    for nonsense in ["", "-1", "soon", "1.5", "7s"] {
        assert_eq!(retry_after(&asking(nonsense), now), None, "{nonsense}");
    }
    assert_eq!(
        retry.wait(2, Some(&asking("99999999999999999999999")), now, &entropy),
        Duration::from_secs(60)
    );
    for (next, most) in [(2, 500), (3, 1000), (4, 2000), (5, 4000), (6, 5000), (40, 5000)] {
        for _ in 0..50 {
            assert!(retry.wait(next, None, now, &entropy) <= Duration::from_millis(most));
        }
    }
}
