//! The example files: what the loader insists on where they use what the shipped ones do not.

use std::path::Path;

use writ::backend::{Backends, EXAMPLES};

/// The mistakes of an example with one change made to its first such place after `after`.
#[track_caller]
fn changed(name: &str, after: &str, from: &str, to: &str) -> Vec<String> {
    let file = format!("{name}.toml");
    let (_, text) = EXAMPLES.iter().find(|(known, _)| *known == file).unwrap();
    let (head, tail) = text.split_once(after).unwrap_or_else(|| panic!("{file} does not hold {after:?}"));
    assert!(tail.contains(from), "{file} does not hold {from:?} after {after:?}");
    let text = format!("{head}{after}{}", tail.replacen(from, to, 1));
    match Backends::from_texts([(file.as_str(), text.as_str())], Path::new(".")) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.0.iter().map(ToString::to_string).collect(),
    }
}

/// The change makes exactly one mistake, which starts so.
#[track_caller]
fn refused(name: &str, after: &str, from: &str, to: &str, mistake: &str) {
    let found = changed(name, after, from, to);
    let start = format!("{name}.toml: operation[refund.{name}]{mistake}");
    assert!(
        found.len() == 1 && found[0].starts_with(&start),
        "expected {start}\nfound {found:#?}"
    );
}

#[test]
fn a_sample_must_be_what_a_caller_could_send() {
    let refused = |from, to, mistake| refused("square", "[operation.sample]", from, to, mistake);
    refused("amount   = 4000", "amount = 0", ".sample: /amount: 0 is out of range");
    refused("amount   = 4000\n", "", ".sample: /amount: is missing");
    refused(
        "currency = \"usd\"",
        "currency = \"kwd\"",
        ".sample: /currency: KWD is not a currency this backend takes",
    );
    refused(
        "currency = \"usd\"",
        "currency = \"usd\"\ncolour = 1",
        ".sample: /colour: is not a parameter",
    );
    refused("amount   = 4000", "amount = 40.0", ".sample: holds what no parameter can");
}

#[test]
fn what_stands_for_an_absent_fact_is_one_plain_value() {
    let refused = |from, to, mistake| refused("square", "[operation.facts.keep]", from, to, mistake);
    refused(
        "default = 0",
        "default = []",
        ".facts[payment].keep.refunded.default: expected a text, a whole number",
    );
    refused(
        "default = 0",
        "default = 0.5",
        ".facts[payment].keep.refunded.default: expected a text, a whole number",
    );
    refused(
        "default = 0",
        "default = 0, optional = true",
        ".facts[payment].keep.refunded.default: stands beside `optional = true`",
    );
}

#[test]
fn a_look_up_by_id_needs_the_id_and_rules_to_read_what_it_shows() {
    let at = ".reconcile[read the refund]";
    let refused = |from, to, mistake: &str| refused("square", "name = \"read the refund\"", from, to, &format!("{at}{mistake}"));
    refused("/v2/refunds/{found.id}", "/v2/refunds", ".path: does not hold `{found.id}`");
    refused(
        "/v2/refunds/{found.id}",
        "/v2/refunds/{found.name}",
        ".path: `{found.name}` is not known at this place",
    );
    refused(
        "kind = \"show\"",
        "kind = \"show\"\nabsent = \"proof\"",
        ".absent: is not a setting here",
    );
    refused("kind = \"show\"", "kind = \"peek\"", ".kind: `peek` is not known");
}

#[test]
fn the_backends_id_stands_nowhere_but_in_a_look_up() {
    refused(
        "square",
        "[operation.request.body]",
        "reason                = \"{draft.id}\"",
        "reason = \"{draft.id}\"\nnote = \"{found.id}\"",
        ".request.body.note: `{found.id}` is not known at this place",
    );
}

#[test]
fn a_list_of_ids_counts_only_for_the_drafts_own_resource_and_with_the_drafts_own_mark() {
    let at = ".reconcile[read the payment's refunds]";
    let refused = |from, to, mistake: &str| {
        refused(
            "square",
            "name    = \"read the payment's refunds\"",
            from,
            to,
            &format!("{at}{mistake}"),
        )
    };
    refused(
        "require = [{ pointer = \"/payment/id\", equals = \"{params.payment}\" }]\n",
        "",
        ".require: does not compare anything with a parameter",
    );
    refused(
        "ids     = \"/payment/refund_ids\"",
        "ids = \"refund_ids\"",
        ".ids: `refund_ids` is not a JSON pointer",
    );
    refused("{found.id}", "1", ".each: does not hold `{found.id}`");
    refused("most    = 20", "most = 0", ".most: expected 1 to 100");
    refused(
        "match   = [{ pointer = \"/refund/reason\", equals = \"{draft.id}\" }]\n",
        "",
        ".match: does not compare with `{draft.id}` or `{idem.key}`",
    );
}

#[test]
fn an_error_within_a_2xx_is_a_failure_only_if_nothing_was_made_beside_it() {
    let rule = |when: &str| {
        let to = format!(
            "[[operation.classify]]\nname = \"error within\"\nstatus = \"200\"\nwhen = {when}\noutcome = \"failed\"\n\n[operation.retry]"
        );
        changed("square", "[[operation.classify]]", "[operation.retry]", &to)
    };
    let there = "{ pointer = \"/errors/0/code\", exists = true }";
    let not_there = "{ pointer = \"/refund\", exists = false }";
    assert_eq!(rule(&format!("[{there}, {not_there}]")), Vec::<String>::new());
    for when in [format!("[{there}]"), format!("[{not_there}]"), "[]".to_owned()] {
        let found = rule(&when);
        assert!(
            found.len() == 1 && found[0].contains("classify[error within].require: is missing: a status of 2xx can be `failed` only if"),
            "{when}: {found:?}"
        );
    }
}

#[test]
fn a_condition_names_its_entry_of_a_list_and_an_ending_that_no_other_id_has() {
    let rule = |condition: &str| {
        let from = "when      = [{ pointer = \"/refund/status\", equals = \"COMPLETED\" }]";
        changed("square", "name      = \"refund completed\"", from, &format!("when = [{condition}]"))
    };
    for sound in [
        r#"{ among = "/links", where = [{ pointer = "/rel", equals = "up" }], pointer = "/href", ends_with = "/payments/{params.payment}" }"#,
        r#"{ pointer = "/refund/amount", decimal = true, equals = "{params.amount}" }"#,
    ] {
        assert_eq!(rule(sound), Vec::<String>::new(), "{sound}");
    }
    for (condition, mistake) in [
        (
            r#"{ among = "/links", pointer = "/href", exists = true }"#,
            "where: is missing: say by what the one entry",
        ),
        (
            r#"{ where = [{ pointer = "/rel", equals = "up" }], pointer = "/href", exists = true }"#,
            "where: stands without `among`",
        ),
        (
            r#"{ among = "links", where = [{ pointer = "/rel", equals = "up" }], pointer = "/href", exists = true }"#,
            "among: `links` is not a JSON pointer",
        ),
        (
            r#"{ header = "x-amount", decimal = true, exists = true }"#,
            "header: is a text and no list",
        ),
        (
            r#"{ pointer = "/href", ends_with = "{params.payment}" }"#,
            "ends_with: expected an ending that starts with `/`",
        ),
        (
            r#"{ pointer = "/href", ends_with = "x/{params.payment}" }"#,
            "ends_with: expected an ending that starts with `/`",
        ),
        (
            r#"{ pointer = "/href", decimal = "yes", exists = true }"#,
            "decimal: is a text: expected true or false",
        ),
    ] {
        let found = rule(condition);
        assert!(found.len() == 1 && found[0].contains(mistake), "{condition}: {found:#?}");
    }
}
