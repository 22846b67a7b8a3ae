//! The three questions, denials first.

use std::collections::BTreeSet;

use writ::domain::operation::Consequence;
use writ::domain::policy::{Outcome, QueueNeed, Signature};
use writ::policy::{Policy, reserved};

use super::{Copy, ids, question, refund, shipped, signed};

fn policy() -> Policy {
    Policy::load(&shipped()).unwrap()
}

#[test]
fn a_forbid_that_fails_at_run_time_denies() {
    // The engine leaves out a rule that fails; on its own it would allow this refund.
    let failing = Copy::new()
        .append(
            "rules.cedar",
            "@id(\"overflows\") @reason(\"It adds too much.\")\nforbid (principal, action == Action::\"refund.create\", resource)\nwhen { resource.recent + 9223372036854775807 < 0 };\n",
        )
        .load();
    for answer in [failing.propose(&refund(4000, "usd")), failing.confirm(&refund(4000, "usd"), &[])] {
        assert_eq!(answer.outcome, Outcome::Deny);
        assert_eq!(ids(&answer), [reserved::EVALUATION_ERROR]);
        assert!(answer.rules[0].reason.contains("overflow"), "{:?}", answer.rules);
    }
    let unconcerned = failing.propose(&question("order.read"));
    assert_eq!(unconcerned.outcome, Outcome::Allow);
}

#[test]
fn a_rule_that_fails_only_once_people_have_signed_denies_too() {
    let failing = Copy::new()
        .append(
            "rules.cedar",
            "@id(\"overflows\") @reason(\"It multiplies too much.\")\nforbid (principal, action == Action::\"refund.create\", resource)\nwhen { context.signed[\"finance.refunds\"] * 9223372036854775807 < 0 };\n",
        )
        .load();
    let answer = failing.propose(&refund(24000, "usd"));
    assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec![reserved::EVALUATION_ERROR]));
}

#[test]
fn an_unknown_operation_is_denied_before_any_rule_is_read() {
    let open = Copy::new()
        .append(
            "rules.cedar",
            "@id(\"open\") @reason(\"Everything.\")\npermit (principal, action, resource);\n",
        )
        .load();
    for name in ["payout.create", "refund.create.x", "refund.created"] {
        for answer in [
            open.propose(&question(name)),
            open.confirm(&question(name), &[signed("usr_mia", &["finance.refunds"])]),
        ] {
            assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec![reserved::UNKNOWN_OPERATION]));
        }
    }
}

#[test]
fn money_without_an_amount_is_denied_even_if_every_rule_lets_it_pass() {
    let open = Copy::new();
    std::fs::write(
        open.path().join("rules.cedar"),
        "@id(\"open\") @reason(\"Everything.\")\npermit (principal, action, resource);\n",
    )
    .unwrap();
    let open = open
        .edit(
            "schema.cedarschema",
            "{ \"finance.refunds\": Long, \"account.admins\": Long }",
            "{}",
        )
        .load();
    let answer = open.propose(&question("refund.create"));
    assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec![reserved::MISSING_AMOUNT]));
    let answer = open.confirm(&question("refund.create"), &[]);
    assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec![reserved::MISSING_AMOUNT]));
    assert_eq!(open.propose(&refund(1, "usd")).outcome, Outcome::Allow);
}

#[test]
fn what_no_rule_permits_is_denied() {
    let closed = Copy::new()
        .edit(
            "rules.cedar",
            "permit (principal, action in Action::\"write\", resource);",
            "permit (principal, action in Action::\"read\", resource);",
        )
        .load();
    let answer = closed.propose(&question("shipping_address.update"));
    assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec![reserved::NO_PERMIT]));
}

#[test]
fn a_rule_that_approvals_lift_and_that_names_no_queue_denies() {
    let silent = Copy::new()
        .edit("rules.cedar", "@queue(\"account.admins\") @need(\"1\") @stepup(\"true\")\n", "")
        .edit(
            "schema.cedarschema",
            "{ \"finance.refunds\": Long, \"account.admins\": Long }",
            "{ \"finance.refunds\": Long }",
        );
    let silent = silent
        .edit(
            "rules.cedar",
            "context.fresh[\"account.admins\"]",
            "context.fresh[\"finance.refunds\"]",
        )
        .load();
    let answer = silent.propose(&question("email.update"));
    assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec![reserved::NOBODY_TO_ASK]));
    assert!(answer.rules[0].reason.contains("email-needs-an-admin"));
}

#[test]
fn the_owners_signature_denies_alone_and_beside_others() {
    let ann = signed("usr_ann", &["finance.refunds"]);
    let mia = signed("usr_mia", &["finance.refunds"]);
    for signatures in [vec![ann.clone()], vec![mia.clone(), ann]] {
        let answer = policy().confirm(&refund(24000, "usd"), &signatures);
        assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec!["no-self-approval"]));
    }
    assert_eq!(policy().confirm(&refund(24000, "usd"), &[mia]).outcome, Outcome::Allow);
}

#[test]
fn an_owner_named_like_one_of_the_imagined_approvers_leaves_nine_others() {
    let nine = Copy::new()
        .append(
            "rules.cedar",
            "@id(\"refund-needs-nine\") @reason(\"Everybody.\") @queue(\"finance.refunds\") @need(\"9\")\nforbid (principal, action == Action::\"refund.create\", resource)\nunless { context.signed[\"finance.refunds\"] >= 9 };\n",
        )
        .load();
    for number in 0..10 {
        let mut mine = refund(4000, "usd");
        mine.owner = Some(format!("usr_approver-{number}").parse().unwrap());
        let answer = nine.propose(&mine);
        assert_eq!((answer.outcome, answer.requirement.needed()), (Outcome::Ask, 9), "{:?}", mine.owner);
    }
}

#[test]
fn two_rules_of_one_queue_ask_for_the_larger_number_and_the_stricter_sign_in() {
    let both = Copy::new()
        .append(
            "rules.cedar",
            "@id(\"refund-fresh\") @reason(\"Often.\") @queue(\"finance.refunds\") @need(\"1\") @stepup(\"true\")\nforbid (principal, action == Action::\"refund.create\", resource)\nwhen { resource.recent >= 9 }\nunless { context.fresh[\"finance.refunds\"] >= 1 };\n",
        )
        .load();
    let mut large = refund(150_000, "usd");
    large.recent = 9;
    assert_eq!(
        both.propose(&large).requirement.all_of,
        [QueueNeed {
            queue: "finance.refunds".parse().unwrap(),
            count: 2,
            step_up: true
        }]
    );
}

#[test]
fn a_policy_tightened_after_the_approval_denies_at_the_exchange() {
    let mia = [signed("usr_mia", &["finance.refunds"])];
    assert_eq!(policy().confirm(&refund(24000, "usd"), &mia).outcome, Outcome::Allow);
    let lower = Copy::new()
        .edit(
            "limits.toml",
            "[currency.usd]\nask_above = 10000\ntwo_above = 100000\nnever_above = 500000",
            "[currency.usd]\nask_above = 10000\ntwo_above = 20000\nnever_above = 500000",
        )
        .load();
    let answer = lower.confirm(&refund(24000, "usd"), &mia);
    assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec!["refund-needs-two"]));
    assert!(answer.requirement.all_of.is_empty());
    assert_eq!(&answer.policy, lower.reference());
}

#[test]
fn one_person_in_two_queues_does_not_fill_two_places() {
    let both = Copy::new()
        .append(
            "rules.cedar",
            "@id(\"refund-needs-admin\") @reason(\"An administrator too.\") @queue(\"account.admins\") @need(\"1\")\nforbid (principal, action == Action::\"refund.create\", resource)\nwhen { resource.recent >= 9 }\nunless { context.signed[\"account.admins\"] >= 1 };\n",
        )
        .load();
    let mut ninth = refund(1, "usd");
    ninth.recent = 9;
    assert_eq!(both.propose(&ninth).requirement.needed(), 2);
    let mia = signed("usr_mia", &["finance.refunds", "account.admins"]);
    let answer = both.confirm(&ninth, std::slice::from_ref(&mia));
    assert_eq!((answer.outcome, ids(&answer)), (Outcome::Deny, vec![reserved::PLACE_UNFILLED]));
    let answer = both.confirm(&ninth, &[mia, signed("usr_tom", &["finance.refunds"])]);
    assert_eq!(answer.outcome, Outcome::Allow);
}

#[test]
fn the_same_person_signing_twice_counts_once_even_with_other_claims() {
    let first = signed("usr_joe", &["account.admins"]);
    let again = Signature {
        step_up: true,
        ..first.clone()
    };
    let answer = policy().confirm(&question("email.update"), &[first, again.clone()]);
    assert_eq!(answer.outcome, Outcome::Deny);
    assert_eq!(policy().confirm(&question("email.update"), &[again]).outcome, Outcome::Allow);
    let mia = signed("usr_mia", &["finance.refunds"]);
    assert_eq!(
        policy().confirm(&refund(150_000, "usd"), &[mia.clone(), mia]).outcome,
        Outcome::Deny
    );
}

#[test]
fn a_count_beyond_the_rules_range_is_as_large_as_any_limit() {
    let mut often = refund(1, "usd");
    often.recent = u64::MAX;
    assert_eq!(ids(&policy().propose(&often)), ["refund-velocity"]);
}

#[test]
fn names_with_marks_of_the_rule_language_stay_names() {
    let mut patch = question("shipping_address.update");
    patch.fields = BTreeSet::from(["\"]) || true //".to_owned(), "line1\\".to_owned()]);
    assert_eq!(policy().propose(&patch).outcome, Outcome::Allow);
    patch.fields.insert("email".to_owned());
    assert_eq!(policy().propose(&patch).outcome, Outcome::Deny);
}

#[test]
fn an_answer_names_the_rules_in_the_files_order_and_who_must_sign() {
    let answer = policy().propose(&refund(100_001, "usd"));
    assert_eq!(ids(&answer), ["refund-over-limit", "refund-needs-two"]);
    assert_eq!(
        answer.requirement.all_of,
        [QueueNeed {
            queue: "finance.refunds".parse().unwrap(),
            count: 2,
            step_up: false
        }]
    );
    assert!(answer.rules.iter().all(|rule| rule.reason.ends_with('.')));
}

#[test]
fn the_operations_and_their_consequences_are_the_schemas() {
    let policy = policy();
    let known: Vec<(String, Consequence)> = policy
        .operations()
        .into_iter()
        .map(|operation| (operation.to_string(), policy.consequence(&operation).unwrap()))
        .collect();
    let expected = [
        ("charge.read", Consequence::Read),
        ("customer.read", Consequence::Read),
        ("email.update", Consequence::Access),
        ("order.read", Consequence::Read),
        ("refund.adyen", Consequence::Money),
        ("refund.create", Consequence::Money),
        ("refund.paypal", Consequence::Money),
        ("refund.shopify", Consequence::Money),
        ("refund.square", Consequence::Money),
        ("shipping_address.update", Consequence::Write),
    ];
    assert_eq!(known, expected.map(|(name, consequence)| (name.to_owned(), consequence)));
}

#[test]
fn a_policy_is_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Policy>();
}
