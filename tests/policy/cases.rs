//! The shipped cases, and what the runner says about cases and rules that are wrong.

use writ::policy::{Policy, cases};

use super::{Copy, shipped};

fn only(case: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.json"), format!("[{case}]")).unwrap();
    dir
}

const LARGE: &str = r#"{"name": "large", "operation": "refund.create", "client": "a", "recent": 1, "amount": {"minor": 150000, "currency": "usd"},
    "want": {"outcome": "ask", "rules": ["refund-over-limit", "refund-needs-two"], "all_of": [{"queue": "finance.refunds", "count": 2, "step_up": false}]}}"#;

const MAIL: &str = r#"{"name": "mail", "operation": "email.update", "client": "a", "recent": 1,
    "want": {"outcome": "ask", "rules": ["email-needs-an-admin"], "all_of": [{"queue": "account.admins", "count": 1, "step_up": true}]}}"#;

fn disagreements(policy: &Policy, case: &str) -> Vec<String> {
    let report = cases::run(policy, only(case).path()).unwrap();
    assert!(!report.passed());
    report.cases[0].disagreements.clone()
}

#[test]
fn an_amount_that_is_not_positive_cannot_be_asked_about() {
    for minor in ["0", "-1", "-500"] {
        let dir = only(&LARGE.replace("150000", minor));
        let mistakes = cases::run(&Copy::new().load(), dir.path()).unwrap_err();
        assert_eq!(mistakes.0.len(), 1);
        assert_eq!(mistakes.0[0].place, "/0/amount", "{mistakes}");
    }
    for minor in ["1e2", "10.0", "-0", "9007199254740992"] {
        let dir = only(&LARGE.replace("150000", minor));
        let mistakes = cases::run(&Copy::new().load(), dir.path()).unwrap_err();
        assert_eq!(mistakes.0[0].place, "/0/amount/minor", "{mistakes}");
    }
}

#[test]
fn every_unreadable_case_is_reported_at_once() {
    let bad = format!("{}, {LARGE}, {LARGE}", LARGE.replace("recent", "resent"));
    let mistakes = cases::run(&Copy::new().load(), only(&bad).path()).unwrap_err();
    let places: Vec<&str> = mistakes.0.iter().map(|mistake| mistake.place.as_str()).collect();
    assert_eq!(places, ["/0/resent", "/2/name"], "{mistakes}");
}

#[test]
fn a_directory_without_cases_is_no_success() {
    let empty = tempfile::tempdir().unwrap();
    assert!(cases::run(&Copy::new().load(), empty.path()).is_err());
    assert!(cases::run(&Copy::new().load(), &empty.path().join("none")).is_err());
}

#[test]
fn a_wrong_answer_and_a_rule_without_a_case_fail_the_report() {
    let wrong = LARGE.replace("\"ask\"", "\"allow\"");
    let report = cases::run(&Copy::new().load(), only(&wrong).path()).unwrap();
    assert!(!report.cases[0].passed());
    assert!(report.unfired.contains(&"no-self-approval".to_owned()));
    let right = cases::run(&Copy::new().load(), only(LARGE).path()).unwrap();
    assert!(right.cases[0].passed() && !right.passed(), "unfired rules fail the whole report");
}

#[test]
fn a_rule_that_is_lifted_by_fewer_than_it_names_is_found() {
    let lax = Copy::new()
        .edit(
            "rules.cedar",
            "resource.amount.minor > resource.amount.currency.two_above\n}\nunless { context.signed[\"finance.refunds\"] >= 2 }",
            "resource.amount.minor > resource.amount.currency.two_above\n}\nunless { context.signed[\"finance.refunds\"] >= 1 }",
        )
        .load();
    let found = disagreements(&lax, LARGE);
    assert_eq!(
        found,
        ["rule `refund-needs-two` asks for 2 of finance.refunds and is lifted by fewer, or by people of another queue"]
    );
}

#[test]
fn a_rule_that_another_queue_can_lift_is_found() {
    let lax = Copy::new()
        .edit(
            "rules.cedar",
            "context.fresh[\"account.admins\"] >= 1",
            "context.fresh[\"account.admins\"] >= 1 || context.signed[\"finance.refunds\"] >= 1",
        )
        .load();
    let found = disagreements(&lax, MAIL);
    assert!(
        found[0].contains("`email-needs-an-admin` asks for 1 of account.admins and is lifted by fewer"),
        "{found:?}"
    );
}

#[test]
fn a_rule_that_needs_more_than_it_names_is_found() {
    let strict = Copy::new()
        .edit("rules.cedar", "@queue(\"finance.refunds\") @need(\"1\")\nforbid (principal, action in Action::\"refund\", resource)\nwhen { resource.recent >= 3 }\nunless { context.signed[\"finance.refunds\"] >= 1 }",
            "@queue(\"finance.refunds\") @need(\"1\")\nforbid (principal, action in Action::\"refund\", resource)\nwhen { resource.recent >= 3 }\nunless { context.signed[\"account.admins\"] >= 1 }")
        .load();
    let case = r#"{"name": "third", "operation": "refund.create", "client": "a", "recent": 3, "amount": {"minor": 1, "currency": "usd"},
        "want": {"outcome": "ask", "rules": ["refund-velocity"], "all_of": [{"queue": "finance.refunds", "count": 1, "step_up": false}]}}"#;
    let found = disagreements(&strict, case);
    assert_eq!(
        found[0],
        "rule `refund-velocity` asks for 1 of finance.refunds and is not lifted by them"
    );
}

#[test]
fn a_rule_that_names_a_fresh_sign_in_and_does_not_check_it_is_found() {
    let lax = Copy::new()
        .edit(
            "rules.cedar",
            "context.fresh[\"account.admins\"]",
            "context.signed[\"account.admins\"]",
        )
        .load();
    let found = disagreements(&lax, MAIL);
    assert_eq!(
        found,
        ["rule `email-needs-an-admin` asks for a fresh sign-in and is lifted without one"]
    );
}

#[test]
fn every_shipped_case_is_answered_rightly_and_every_rule_takes_part() {
    let report = cases::run(&Policy::load(&shipped()).unwrap(), &shipped().join("cases")).unwrap();
    for case in &report.cases {
        assert!(case.passed(), "{}: {}: {case:#?}", case.file, case.name);
    }
    assert_eq!(report.unfired, Vec::<String>::new());
    assert!(report.cases.len() >= 40, "{} cases", report.cases.len());
}
