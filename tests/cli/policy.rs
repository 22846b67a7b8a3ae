//! `writ policy`.

use super::support::{Work, writ};
use crate::support::peers::root;

#[test]
fn a_wrong_answer_is_a_failure_that_shows_both() {
    let work = Work::new();
    work.edit("policies/cedar/cases/refunds.json", "\"minor\": 4000,", "\"minor\": 40000,");
    let ran = work.run(&["policy", "test"]);
    assert!(
        ran.out.contains("40.00 usd runs") && ran.out.contains("wanted allow"),
        "{}",
        ran.out
    );
    assert!(ran.refused(1).contains("case(s) failed"));
}

#[test]
fn a_rule_without_a_case_is_a_failure() {
    let work = Work::new();
    std::fs::remove_file(work.path("policies/cedar/cases/access.json")).unwrap();
    let ran = work.run(&["policy", "test"]);
    assert!(ran.out.contains("never fired"), "{}", ran.out);
    let complaint = ran.refused(1);
    assert!(complaint.contains("0 case(s) failed"), "{complaint}");
}

#[test]
fn rules_that_cannot_be_read_are_reported_line_by_line() {
    let work = Work::new();
    work.edit("policies/cedar/rules.cedar", "@id(", "@idd(");
    let complaint = work.run(&["policy", "check"]).refused(1);
    assert!(complaint.lines().count() > 1, "{complaint}");
}

#[test]
fn the_shipped_policy_passes_its_cases() {
    let dir = root().join("policies/cedar").display().to_string();
    assert!(writ(&["policy", "check", "--dir", &dir]).ok().starts_with("ok: "));
    let said = writ(&["policy", "test", "--dir", &dir]).ok();
    assert!(said.ends_with(" passed, 0 failed\n") && !said.starts_with("0 "), "{said}");
}

#[test]
fn a_question_is_answered_with_its_rules_and_who_must_sign() {
    let dir = root().join("policies/cedar").display().to_string();
    let run = |more: &[&str]| writ(&[&["policy", "try", "--dir", &dir, "--json", "--operation"], more].concat());
    for wrong in [
        &["refund.create", "--amount", "1"][..],
        &["refund.create", "--amount", "0", "--currency", "usd"],
        &["Refund"],
    ] {
        run(wrong).refused(2);
    }
    assert_eq!(run(&["refund.create"]).json()["outcome"], "deny", "money without an amount");
    assert_eq!(
        run(&["account.delete"]).json()["outcome"],
        "deny",
        "an operation that nobody declared"
    );
    let answer = run(&["refund.create", "--amount", "24000", "--currency", "usd"]).json();
    assert_eq!(answer["outcome"], "ask");
    assert_eq!(answer["requirement"]["all_of"][0]["queue"], "finance.refunds");
    let answer = run(&["refund.create", "--amount", "4000", "--currency", "usd"]).json();
    assert_eq!(answer["outcome"], "allow");
}
