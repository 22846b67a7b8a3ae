//! What a backend file may say of events: both halves, recognised by something, about this draft, and looked up where that can be done.

use std::path::Path;

use writ::backend::{Backends, Client, EventError, Need, SHIPPED};
use writ::domain::time::Timestamp;

fn stripe() -> &'static str {
    SHIPPED.iter().find(|(name, _)| *name == "stripe.toml").unwrap().1
}

/// The mistakes of the shipped file with another text at its first place.
fn changed(from: &str, to: &str) -> Vec<String> {
    let text = stripe();
    assert!(text.contains(from), "the file does not hold `{from}`");
    let text = text.replacen(from, to, 1);
    let found = Backends::from_texts([("stripe.toml", text.as_str())], Path::new("."));
    found.map_or_else(|mistakes| mistakes.0.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

/// The part of the file from `start` to the next line that begins with `end`.
fn part(start: &str, end: &str) -> String {
    let (_, rest) = stripe().split_once(start).unwrap();
    let until = rest.find(&format!("\n{end}")).map_or(rest.len(), |at| at + 1);
    format!("{start}{}", &rest[..until])
}

#[test]
fn every_mistake_about_events_is_named_with_its_place() {
    let events = "operation[refund.create].events";
    for (from, to, mistake) in [
        (
            "signature = \"timestamped\"",
            "signature = \"md5\"",
            "webhook.signature: `md5` is not known: expected `timestamped`",
        ),
        (
            "header    = \"stripe-signature\"",
            "header    = \"Stripe-Signature\"",
            "webhook.header: `Stripe-Signature` is not a header's name in lower case",
        ),
        (
            "tolerance = \"5m\"",
            "tolerance = \"2h\"",
            "webhook.tolerance: expected `1s` to `1h`",
        ),
        (
            "tolerance = \"5m\"",
            "tolerance = \"0s\"",
            "webhook.tolerance: expected `1s` to `1h`",
        ),
        (
            "secrets   = { env = \"WRIT_STRIPE_WEBHOOK_SECRETS\" }",
            "secrets   = \"whsec_x\"",
            "webhook.secrets: holds the secret itself",
        ),
        (
            "id        = \"/id\"\ntype",
            "id        = \"id\"\ntype",
            "webhook.id: `id` is not a JSON pointer",
        ),
        ("type      = \"/type\"", "kind      = \"/type\"", "webhook.type: is missing"),
        (
            "confirm   = \"look_up\"",
            "confirm   = \"event\"",
            &format!("{events}.confirm: the backend can be asked under `reconcile`"),
        ),
        (
            "confirm   = \"look_up\"",
            "confirm   = \"maybe\"",
            &format!("{events}.confirm: `maybe` is not known"),
        ),
        (
            "    { pointer = \"/data/object/amount\", equals = \"{params.amount}\" },\n",
            "",
            &format!("{events}.require: does not compare anything with `{{params.amount}}`"),
        ),
        (
            "    { pointer = \"/data/object/charge\", equals = \"{params.charge}\" },\n",
            "",
            &format!("{events}.require: does not compare anything with `{{params.charge}}`"),
        ),
        (
            "    { pointer = \"/data/object/currency\", equals = \"{params.currency}\", fold = \"lower\" },\n",
            "",
            &format!("{events}.require: does not compare anything with `{{params.currency}}`"),
        ),
        (
            "types   = [\"refund.created\", \"refund.updated\", \"charge.refund.updated\"]",
            "types   = []",
            &format!("{events}.on[refund succeeded].types: is missing or empty"),
        ),
        (
            "succeeded\" }\noutcome = \"applied\"",
            "succeeded\" }\noutcome = \"in_flight\"",
            &format!("{events}.on[refund succeeded].outcome: `in_flight` is not known"),
        ),
    ] {
        let found = changed(from, to);
        let start = format!("stripe.toml: {mistake}");
        assert!(found.iter().any(|found| found.starts_with(&start)), "{start} is not in {found:?}");
    }
    let marks = "draft     = \"/data/object/metadata/writ_draft\"\nkey       = \"/data/object/metadata/writ_key\"\nreference = \"/data/object/id\"\n";
    assert!(changed(marks, "")[0].starts_with(&format!("stripe.toml: {events}.draft: is missing")));
}

#[test]
fn events_need_both_halves() {
    let webhook = part("[webhook]", "# Pinned");
    assert_eq!(
        changed(&webhook, ""),
        ["stripe.toml: webhook: is missing: an operation has `events`, so say how the backend's events are recognised"]
    );
    let events = part("[operation.events]", "[operation.retry]");
    assert_eq!(
        changed(&events, ""),
        ["stripe.toml: webhook: no operation has `events`: say what they mean, or remove the table"]
    );
}

#[test]
fn without_a_look_up_the_file_must_say_that_the_event_s_own_word_counts() {
    let list = part("[[operation.reconcile]]", "[[operation.reconcile]]");
    let found = changed(&list, "");
    assert!(
        found[0].contains("events.confirm: nothing under `reconcile` can be looked up"),
        "{found:?}"
    );
}

#[test]
fn only_the_proxy_reads_the_secrets_and_bad_ones_are_named_without_their_text() {
    let backends = Backends::from_texts([("stripe.toml", stripe())], Path::new(".")).unwrap();
    let backend = backends.backend(&"stripe".parse().unwrap()).unwrap();
    let with = |secrets: Option<&'static str>| {
        move |name: &str| match name {
            "WRIT_STRIPE_WEBHOOK_SECRETS" => secrets.map(str::to_owned),
            _ => Some("sk_live_abc".to_owned()),
        }
    };
    let broker = Client::connect(backend, Need::Broker, &with(None)).unwrap();
    let now = Timestamp::from_millis(0);
    assert_eq!(broker.open_event(Some("t=0,v1=00"), b"{}", now), Err(EventError::NotDeclared));
    for (secrets, why) in [
        (None, "is not set"),
        (Some("  \n "), "is empty"),
        (Some("whsec_short"), "shorter than 16 characters"),
        (Some("whsec_long_enough_to_be_one\nwhsec_short"), "shorter than 16 characters"),
        (
            Some("aaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbb cccccccccccccccc dddddddddddddddd eeeeeeeeeeeeeeee"),
            "more than four",
        ),
    ] {
        let mistakes = Client::connect(backend, Need::Proxy, &with(secrets)).unwrap_err();
        let told = mistakes[0].to_string();
        assert!(
            mistakes.len() == 1 && told.starts_with("stripe.toml: webhook.secrets: ") && told.contains(why),
            "{told}"
        );
        assert!(!told.contains("whsec_"), "{told}");
    }
    Client::connect(
        backend,
        Need::Proxy,
        &with(Some("whsec_long_enough_to_be_one\nwhsec_and_the_one_that_follows")),
    )
    .unwrap();
}
