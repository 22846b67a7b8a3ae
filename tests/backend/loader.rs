//! What a backend file may not say, and what the operator is told.

use std::path::Path;

use writ::backend::{Backends, EXAMPLES, SHIPPED, relocated};

fn text(name: &str) -> &'static str {
    SHIPPED.iter().find(|(file, _)| *file == name).unwrap().1
}

fn load(name: &str, text: &str) -> Vec<String> {
    match Backends::from_texts([(name, text)], Path::new(".")) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.0.iter().map(ToString::to_string).collect(),
    }
}

/// The mistakes of the Stripe file with one change made to its first such place.
fn changed(from: &str, to: &str) -> Vec<String> {
    let stripe = text("stripe.toml");
    assert!(stripe.contains(from), "the file does not hold {from:?}");
    load("stripe.toml", &stripe.replacen(from, to, 1))
}

/// The change makes exactly this mistake.
#[track_caller]
fn refused(from: &str, to: &str, mistake: &str) {
    assert_eq!(changed(from, to), [format!("stripe.toml: {mistake}")]);
}

/// As [`refused`], in the refund operation (the first place after its name).
#[track_caller]
fn refund_refused(from: &str, to: &str, mistake: &str) {
    let stripe = text("stripe.toml");
    let (head, tail) = stripe.split_once("name                = \"refund.create\"").unwrap();
    assert!(tail.contains(from), "the operation does not hold {from:?}");
    let text = format!("{head}name                = \"refund.create\"{}", tail.replacen(from, to, 1));
    assert_eq!(
        load("stripe.toml", &text),
        [format!("stripe.toml: operation[refund.create]{mistake}")]
    );
}

#[test]
fn the_shipped_files_load() {
    for (name, text) in SHIPPED.iter().chain(&EXAMPLES) {
        assert_eq!(load(name, text), Vec::<String>::new());
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/backends");
    let names: Vec<String> = Backends::load(&dir).unwrap().operations().map(|o| o.name().to_string()).collect();
    assert_eq!(
        names,
        [
            "charge.read",
            "customer.read",
            "email.update",
            "order.read",
            "refund.adyen",
            "refund.create",
            "refund.paypal",
            "refund.shopify",
            "refund.square",
            "shipping_address.update"
        ]
    );
}

#[test]
fn all_mistakes_of_all_files_are_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let stripe = text("stripe.toml")
        .replace("kind  = \"bearer\"", "kind  = \"bear\"")
        .replace("window  = \"24h\"", "windw  = \"24h\"")
        .replace("status    = \"200\"", "status    = \"ok\"");
    let shop = text("shop.toml")
        .replace("https://shop.example.com", "http://shop.example.com")
        .replace("\"15s\"", "15");
    std::fs::write(dir.path().join("stripe.toml"), stripe).unwrap();
    std::fs::write(dir.path().join("shop.toml"), shop).unwrap();
    std::fs::write(dir.path().join("odd.toml"), "name = [").unwrap();
    std::fs::write(dir.path().join("notes.txt"), "not a backend").unwrap();
    let said = Backends::load(dir.path()).unwrap_err().to_string();
    for line in [
        "odd.toml: line 1: is not TOML",
        "shop.toml: base_url: `http://shop.example.com` would send secrets unencrypted",
        "shop.toml: total_timeout: is a whole number: expected a duration such as",
        "stripe.toml: auth.kind: `bear` is not known: expected `bearer`, `basic`, `header` or `none`",
        "stripe.toml: operation[refund.create].idempotency.window: is missing",
        "stripe.toml: operation[refund.create].idempotency.windw: is not a setting here",
        "stripe.toml: operation[refund.create].classify[refund succeeded].status: `ok` is not a set of statuses",
    ] {
        assert!(said.contains(line), "{line}\nis not in\n{said}");
    }
}

#[test]
fn a_missing_consequence_hides_no_other_mistake() {
    let found = changed("consequence         = \"money\"\n", "");
    let missing = "stripe.toml: operation[refund.create].consequence: is missing: expected `read`, `write`, `money` or `access`";
    assert_eq!(found, [missing]);
    let stripe = text("stripe.toml")
        .replace("consequence         = \"money\"\n", "colour = \"red\"\n")
        .replace("attempts        = 4", "attempts = 0")
        .replace("path     = \"/v1/refunds\"", "path = \"v1\"");
    let found = load("stripe.toml", &stripe);
    for place in ["consequence", "colour", "retry.attempts", "request.path"] {
        let start = format!("stripe.toml: operation[refund.create].{place}: ");
        assert!(found.iter().any(|mistake| mistake.starts_with(&start)), "{place}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    let stripe = text("stripe.toml")
        .replace("consequence = \"read\"", "consequence = \"look\"")
        .replace("path        = \"/v1/charges/{params.charge}\"", "path = \"v1\"");
    let found = load("stripe.toml", &stripe);
    assert!(found.len() == 2 && found[1].contains("operation[charge.read].path"), "{found:?}");
}

#[test]
fn every_mistake_of_an_address_is_reported_and_hides_no_other() {
    let stripe = text("stripe.toml")
        .replace("\"https://api.stripe.com\"", "\"http://user:pw@10.0.0.1/?a=b\"")
        .replace("attempts        = 4", "attempts = 0");
    let found = load("stripe.toml", &stripe);
    for part in [
        "would send secrets unencrypted",
        "must not hold a user",
        "private or loopback",
        "retry.attempts",
    ] {
        assert!(found.iter().any(|mistake| mistake.contains(part)), "{part}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(
        !found.iter().any(|said| said.contains("pw") || said.contains("a=b")),
        "a secret is repeated: {found:?}"
    );
}

#[test]
fn a_directory_without_backend_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        Backends::load(dir.path())
            .unwrap_err()
            .to_string()
            .contains("holds no backend file")
    );
    assert!(
        Backends::load(&dir.path().join("none"))
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
}

#[test]
fn an_unknown_key_is_refused_at_every_level() {
    for (from, to, place) in [
        ("max_response    =", "max_respons    =", "max_respons"),
        ("kind  = \"bearer\"", "kind  = \"bearer\"\nscope = \"x\"", "auth.scope"),
        ("[headers]", "[header]", "header"),
        (
            "optional = true }",
            "optional = true, hidden = true }",
            "operation[charge.read].answer.customer.hidden",
        ),
        (
            "max = 99999999 }",
            "max = 99999999, step = 1 }",
            "operation[refund.create].params.amount.step",
        ),
        (
            "unchanged =",
            "cached = true\nunchanged =",
            "operation[refund.create].precondition.cached",
        ),
        (
            "encoding = \"form\"",
            "encoding = \"form\"\nquery = {}",
            "operation[refund.create].request.query",
        ),
        (
            "attempts        = 4",
            "attempts = 4\nforever = true",
            "operation[refund.create].retry.forever",
        ),
        (
            "kind = \"replay\"",
            "kind = \"replay\"\npath = \"/v1/refunds\"",
            "operation[refund.create].reconcile[send the same request under the same key].path",
        ),
        (
            "outcome   = \"applied\"",
            "outcome = \"applied\"\nlog = true",
            "operation[refund.create].classify[refund succeeded].log",
        ),
    ] {
        let found = changed(from, to);
        let line = format!("stripe.toml: {place}: is not a setting here");
        assert!(found.iter().any(|mistake| mistake.starts_with(&line)), "{line}: {found:?}");
    }
}

#[test]
fn a_secret_in_the_file_is_refused_and_not_repeated() {
    refused(
        "{ env = \"WRIT_STRIPE_WRITE_KEY\" }",
        "\"sk_live_abc\"",
        "auth.write: holds the secret itself: take it out of the file, replace it at the backend, and write `{ env = \"NAME\" }` or `{ file = \"path\" }`",
    );
    refused(
        "{ env = \"WRIT_STRIPE_READ_KEY\" }",
        "{ env = \"A\", file = \"b\" }",
        "auth.read: expected `{ env = \"NAME\" }` or `{ file = \"path\" }`",
    );
}

#[test]
fn a_broker_that_would_hold_the_write_secret_is_refused() {
    refused(
        "WRIT_STRIPE_FACTS_KEY",
        "WRIT_STRIPE_WRITE_KEY",
        "auth.facts: is the same secret as `write`, so the broker would hold what can execute: give it one that can only read",
    );
}

#[test]
fn an_address_that_is_not_safe_is_refused() {
    for (url, why) in [
        ("http://api.stripe.com", "would send secrets unencrypted"),
        ("ftp://127.0.0.1", "would send secrets unencrypted"),
        ("http://10.0.0.1", "would send secrets unencrypted"),
        ("https://10.0.0.1", "is a private or loopback address"),
        ("http://127.0.0.1:1", "is a private or loopback address"),
        ("http://[::1]:1", "is a private or loopback address"),
        ("https://0x7f.1", "is a private or loopback address"),
        (
            "https://169.254.169.254",
            "is a link-local, metadata, multicast or reserved address, which is never called",
        ),
        ("https://[::ffff:169.254.169.254]", "never called"),
        ("https://user:pw@api.stripe.com", "must not hold a user"),
        ("https://api.stripe.com/?x=1", "must not hold a user, a query"),
        ("api.stripe.com", "is not an address"),
    ] {
        let found = changed("https://api.stripe.com", url);
        assert!(
            found.iter().all(|mistake| mistake.starts_with("stripe.toml: base_url: ")) && found.iter().any(|mistake| mistake.contains(why)),
            "{url}: {found:?}"
        );
    }
    let metadata = relocated("stripe.toml", text("stripe.toml"), "https://169.254.169.254").unwrap();
    assert!(
        load("stripe.toml", &metadata)[0].contains("never called"),
        "not even with allow_private"
    );
}

#[test]
fn a_template_that_names_nothing_declared_is_refused() {
    refund_refused(
        "amount                 = \"{params.amount}\"",
        "amount = \"{params.amnt}\"",
        ".request.body.amount: `{params.amnt}` names no declared parameter: declare it under `params`, or use `amount`, `charge`, `currency` or `reason`",
    );
    refund_refused(
        "\"{draft.id}\"\n",
        "\"{draft.hash}\"\n",
        ".request.body.metadata[writ_draft]: `{draft.hash}` is not known at this place: expected `params.…`, `facts.….…`, `draft.id` or `idem.key`",
    );
    refund_refused(
        "{ charge = \"{params.charge}\", limit = \"100\" }",
        "{ charge = \"{params.charge\" }",
        ".reconcile[list the charge's refunds].query.charge: `{params.charge` opens `{` without `}`: close it, or write `{ literal = \"…\" }`",
    );
    refund_refused(
        "/v1/charges/{params.charge}",
        "/v1/charges/{idem.key}",
        ".facts[charge].path: `{idem.key}` is not known at this place: expected `params.…` or `facts.….…`",
    );
}

#[test]
fn a_path_that_is_not_one_is_refused() {
    for path in [
        "v1/refunds",
        "/v1/refunds?x=1",
        "/v1//refunds",
        "/v1/../refunds",
        "/v1/%2e",
        "/a b",
        "/a#b",
        "/a\\\\b",
    ] {
        let found = changed("path     = \"/v1/refunds\"", &format!("path = \"{path}\""));
        assert!(found.len() == 1 && found[0].contains("is not a path"), "{path}: {found:?}");
    }
}

#[test]
fn a_caller_s_value_in_a_header_is_refused() {
    for header in ["x-note = \"{params.reason}\"", "x-note = { from = \"params.reason\" }"] {
        let found = changed("encoding = \"form\"", &format!("encoding = \"form\"\nheaders = {{ {header} }}"));
        assert_eq!(
            found,
            [
                "stripe.toml: operation[refund.create].request.headers.x-note: a header must not hold what a caller supplies: use a kept fact or `{resource.version}`"
            ]
        );
    }
    for name in ["authorization", "host", "content-type", "transfer-encoding", "cookie"] {
        let found = changed("[headers]", &format!("[headers]\n{name} = \"x\""));
        assert_eq!(
            found,
            [format!(
                "stripe.toml: headers.{name}: `{name}` must not be set by a backend file: remove it"
            )]
        );
    }
}

#[test]
fn a_header_with_two_places_is_refused_with_both() {
    let also = |name: &str, first: &str| {
        format!("the header `{name}` is also set by `{first}`, and only one of them would be sent: give it one place")
    };
    let auth = "kind  = \"header\"\nname  = \"x-key\"";
    let keyed = |name: &str| text("stripe.toml").replace("kind  = \"bearer\"", &auth.replace("x-key", name));
    let refund = "stripe.toml: operation[refund.create]";
    // The secret that executes would go out in place of the draft's key.
    assert_eq!(
        load("stripe.toml", &keyed("idempotency-key")),
        [format!("{refund}.idempotency.name: {}", also("idempotency-key", "auth.name"))]
    );
    assert_eq!(
        load("stripe.toml", &keyed("stripe-version")),
        [format!(
            "stripe.toml: headers.stripe-version: {}",
            also("stripe-version", "auth.name")
        )]
    );
    assert_eq!(
        load(
            "stripe.toml",
            &keyed("x-key").replace("encoding = \"form\"", "encoding = \"form\"\nheaders = { x-key = \"a\" }")
        ),
        [format!("{refund}.request.headers.x-key: {}", also("x-key", "auth.name"))]
    );
    refused(
        "[headers]",
        "[headers]\nidempotency-key = \"1\"",
        &format!(
            "operation[refund.create].idempotency.name: {}",
            also("idempotency-key", "headers.idempotency-key")
        ),
    );
    refund_refused(
        "encoding = \"form\"",
        "encoding = \"form\"\nheaders = { stripe-version = \"1\" }",
        &format!(
            ".request.headers.stripe-version: {}",
            also("stripe-version", "headers.stripe-version")
        ),
    );
    refund_refused(
        "encoding = \"form\"",
        "encoding = \"form\"\nheaders = { idempotency-key = \"1\" }",
        &format!(
            ".idempotency.name: {}",
            also("idempotency-key", "operation[refund.create].request.headers.idempotency-key")
        ),
    );
    for name in ["authorization", "content-type"] {
        refund_refused(
            "name    = \"idempotency-key\"",
            &format!("name    = \"{name}\""),
            &format!(".idempotency.name: `{name}` must not be set by a backend file: remove it"),
        );
        let found = load("stripe.toml", &keyed(name));
        assert_eq!(
            found,
            [format!(
                "stripe.toml: auth.name: `{name}` must not be set by a backend file: remove it"
            )]
        );
    }
}

#[test]
fn a_key_that_does_not_fit_the_backend_is_refused() {
    refund_refused(
        "max_len = 255",
        "max_len = 35",
        ".idempotency.max_len: a key has 36 characters, and 1 to 35 does not fit it: this backend's keys cannot be used, write `place = \"none\"`",
    );
}

#[test]
fn a_backend_without_keys_is_sent_to_once() {
    let stripe = text("stripe.toml");
    let start = stripe.find("[operation.idempotency]").unwrap();
    let end = start + stripe[start..].find("[[operation.classify]]").unwrap();
    let keyless = format!(
        "{}[operation.idempotency]\nplace = \"none\"\n\n{}",
        &stripe[..start],
        &stripe[end..]
    );
    assert_eq!(
        load("stripe.toml", &keyless),
        [
            "stripe.toml: operation[refund.create].reconcile[send the same request under the same key].kind: a replay without an idempotency key is a second request: remove the step",
            "stripe.toml: operation[refund.create].retry.on: without an idempotency key only `not_executed` may be repeated: anything else could act twice",
        ]
    );
}

#[test]
fn a_repetition_that_could_outlive_the_key_is_refused() {
    let mistake = ".retry.give_up: the key could be sent after the backend forgot it: `give_up` plus `total_timeout` must be shorter than `window` minus `safety`";
    refund_refused("give_up         = \"10m\"", "give_up = \"23h\"", mistake);
    refund_refused(
        "window  = \"24h\"\nsafety  = \"1h\"",
        "window = \"unknown\"\nsafety = \"55m\"",
        mistake,
    );
    refund_refused(
        "safety  = \"1h\"",
        "safety = \"24h\"",
        ".idempotency.safety: leaves nothing of the window: expected less than `window`",
    );
}

#[test]
fn an_operation_that_cannot_be_looked_up_is_refused() {
    let stripe = text("stripe.toml");
    let (kept, _) = stripe.split_once("# Look first").unwrap();
    assert_eq!(
        load("stripe.toml", kept),
        ["stripe.toml: operation[refund.create].reconcile: is missing: say how a lost result is looked up, with at least one step"]
    );
    refund_refused(
        "{ pointer = \"/metadata/writ_key\", equals = \"{idem.key}\" }",
        "{ pointer = \"/amount\", equals = \"{params.amount}\" }",
        ".reconcile[list the charge's refunds].match: does not compare with `{draft.id}` or `{idem.key}`: another draft's result could be taken for this one's",
    );
    refund_refused(
        "\"metadata[writ_key]\"   = \"{idem.key}\"\n",
        "",
        ".reconcile[list the charge's refunds].match: compares with a mark that `request.body` does not send: put `{draft.id}` or `{idem.key}` there",
    );
}

#[test]
fn absence_that_is_looked_for_too_soon_too_rarely_or_on_one_page_is_no_proof() {
    let step = ".reconcile[list the charge's refunds]";
    let inconclusive = "absent = \"inconclusive\"";
    let proof = |settle: &str, repeats: u32| format!("absent = \"proof\"\nsettle = \"{settle}\"\nrepeats = {repeats}");
    let soon =
        format!("{step}.settle: a proof needs at least `60s` and more than `total_timeout`: longer than any sender can still be under way");
    refund_refused(inconclusive, &proof("59s", 2), &soon);
    let slow = text("stripe.toml")
        .replace("total_timeout   = \"30s\"", "total_timeout = \"90s\"")
        .replacen(inconclusive, &proof("90s", 2), 1);
    assert_eq!(load("stripe.toml", &slow), [format!("stripe.toml: operation[refund.create]{soon}")]);
    refund_refused(
        inconclusive,
        &proof("60s", 1),
        &format!("{step}.repeats: a proof needs at least 2 looks with the same answer: lists lag behind"),
    );
    refund_refused(
        "next   = { more = \"/has_more\", param = \"starting_after\", last = \"/id\", pages = 10 }\nabsent = \"inconclusive\"",
        &proof("60s", 2),
        &format!(
            "{step}.next: is missing: an entry on a page that was not read is not absent: say how the list goes on, or write `absent = \"inconclusive\"`"
        ),
    );
    assert_eq!(changed(inconclusive, &proof("60s", 2)), Vec::<String>::new());
}

#[test]
fn without_a_key_absence_is_no_proof() {
    let stripe = text("stripe.toml");
    let start = stripe.find("[operation.idempotency]").unwrap();
    let end = start + stripe[start..].find("[[operation.classify]]").unwrap();
    let (kept, _) = stripe[end..].split_once("[[operation.reconcile]]\nname = \"send the same").unwrap();
    let keyless = format!("{}[operation.idempotency]\nplace = \"none\"\n\n{kept}", &stripe[..start])
        .replace("\"in_flight\", \"not_executed\"]\nattempts", "\"not_executed\"]\nattempts")
        .replace("[\"in_flight\", \"not_executed\"]", "[\"not_executed\"]")
        .replace("absent = \"inconclusive\"", "absent = \"proof\"\nsettle = \"10m\"\nrepeats = 3");
    assert_eq!(
        load("stripe.toml", &keyless),
        [
            "stripe.toml: operation[refund.create].reconcile[list the charge's refunds].absent: without an idempotency key nothing proves that a request will not act later: write `inconclusive`"
        ]
    );
}

#[test]
fn an_expectation_of_what_is_not_kept_is_refused() {
    let problem = |pointer: &str| {
        format!(".expect[{{}}]: `{pointer}` is not a kept fact, so nothing would be checked: expected `/read/name` of one under `facts`")
    };
    for (from, to, pointer, index) in [
        ("\"/charge/currency\"", "\"/charge/curency\"", "/charge/curency", "1"),
        ("\"/charge/status\"", "\"/status\"", "/status", "2"),
        ("pointer = \"/charge/id\"", "pointer = \"/charge\"", "/charge", "0"),
        ("pointer = \"/charge/id\"", "pointer = \"/charge/id/x\"", "/charge/id/x", "0"),
        ("\"-/charge/amount_refunded\"", "\"-/charge/refunded\"", "/charge/refunded", "3"),
    ] {
        refund_refused(from, to, &problem(pointer).replace("{}", index));
    }
    refund_refused(
        "pointer = \"/charge/id\"\nequals  = \"{params.charge}\"",
        "header = \"x-blocked\"\nexists = false",
        ".expect[0].header: an expectation is about kept facts: keep the header under `facts` and write its `pointer`",
    );
}

#[test]
fn money_without_facts_an_expectation_or_a_precondition_is_refused() {
    let stripe = text("stripe.toml");
    let without = |from: &str, to: &str| {
        let start = stripe.find(from).unwrap();
        let end = start + stripe[start..].find(to).unwrap();
        load("stripe.toml", &format!("{}{}", &stripe[..start], &stripe[end..]))
    };
    let problem = |key: &str, remedy: &str| {
        format!("stripe.toml: operation[refund.create].{key}: is missing: an operation that moves money needs it: {remedy}")
    };
    let expect = problem("expect", "say what must hold of the facts");
    assert_eq!(without("[[operation.expect]]", "# Read again"), std::slice::from_ref(&expect));
    assert_eq!(
        without("[operation.precondition]", "[operation.request]"),
        [problem("precondition", "say which facts must be unchanged right before it is sent")]
    );
    let bare = without("[[operation.facts]]", "[operation.request]");
    assert!(
        bare.contains(&problem("facts", "read what is about to be changed")) && bare.contains(&expect),
        "{bare:?}"
    );
    let start = stripe.find("[[operation.expect]]").unwrap();
    let end = start + stripe[start..].find("# Read again").unwrap();
    let empty = format!("{}{}", &stripe[..start], &stripe[end..]).replace("subject             =", "expect = []\nsubject =");
    assert_eq!(load("stripe.toml", &empty), [expect]);
}

#[test]
fn a_server_s_error_or_an_unbound_success_is_never_a_failure() {
    let place = ".classify[refused by the card network]";
    for status in ["5xx", "402,503", "599"] {
        refund_refused(
            "status  = \"402\"",
            &format!("status  = \"{status}\""),
            &format!(
                "{place}.outcome: a status of 5xx does not say that nothing was done, so it cannot be `failed`: write `ambiguous`, or take it out of `status`"
            ),
        );
    }
    refund_refused(
        "require   = [{ pointer = \"/metadata/writ_draft\", equals = \"{draft.id}\" }]\n",
        "",
        ".classify[refund failed or was cancelled].require: is missing: a status of 2xx can be `failed` only if the answer is about this draft: compare it with `{draft.id}` or a parameter; or, for an error within, ask under `when` that the error is there (`exists = true`) and that what would have been made is not (`exists = false`)",
    );
}

#[test]
fn a_success_that_is_not_compared_with_the_draft_is_refused() {
    for (line, param) in [
        ("{ pointer = \"/charge\", equals = \"{params.charge}\" },", "charge"),
        ("{ pointer = \"/amount\", equals = \"{params.amount}\" },", "amount"),
        (
            "{ pointer = \"/currency\", equals = \"{params.currency}\", fold = \"lower\" },",
            "currency",
        ),
    ] {
        refund_refused(
            line,
            "",
            &format!(
                ".classify[refund succeeded].require: does not compare anything with `{{params.{param}}}`: an answer is `applied` only if it is about this draft"
            ),
        );
    }
    refund_refused(
        "reference = \"/id\"",
        "",
        ".classify[refund succeeded].reference: is missing: name the pointer to the id of what was made",
    );
}

#[test]
fn a_pending_answer_that_is_not_compared_with_the_draft_is_refused() {
    let pending = text("stripe.toml").replacen("outcome = \"in_flight\"", "outcome = \"pending\"", 1);
    let place = "stripe.toml: operation[refund.create].classify[the first request is still running]";
    assert_eq!(
        load("stripe.toml", &pending),
        [
            format!(
                "{place}.require: does not compare anything with `{{params.charge}}`: an answer is `pending` only if it is about this draft"
            ),
            format!(
                "{place}.require: does not compare anything with `{{params.amount}}`: an answer is `pending` only if it is about this draft"
            ),
            format!(
                "{place}.require: does not compare anything with `{{params.currency}}`: an answer is `pending` only if it is about this draft"
            ),
            format!("{place}.reference: is missing: name the pointer to the id of what was made"),
        ]
    );
}

#[test]
fn what_is_settled_is_never_repeated() {
    refund_refused(
        "[\"in_flight\", \"not_executed\"]",
        "[\"in_flight\", \"applied\"]",
        ".retry.on: `applied` is not repeatable: expected `in_flight`, `not_executed` or `ambiguous`",
    );
    refund_refused(
        "attempts        = 4",
        "attempts = 0",
        ".retry.attempts: expected 1 to 20, the first time included",
    );
}

#[test]
fn a_credential_that_lives_too_long_is_refused() {
    for lifetime in ["61s", "1h", "0s"] {
        refund_refused(
            "credential_lifetime = \"60s\"",
            &format!("credential_lifetime = \"{lifetime}\""),
            ".credential_lifetime: is out of range: a credential for money lives from `5s` to `60s`",
        );
    }
    let shop = text("shop.toml").replacen("credential_lifetime = \"60s\"", "credential_lifetime = \"120s\"", 1);
    assert_eq!(load("shop.toml", &shop), Vec::<String>::new());
    assert_eq!(
        load("shop.toml", &shop.replace("120s", "121s")),
        ["shop.toml: operation[shipping_address.update].credential_lifetime: is out of range: a credential lives from `5s` to `120s`"]
    );
    let stripe = text("stripe.toml").replace("credential_lifetime = \"60s\"\n", "");
    let backends = Backends::from_texts([("stripe.toml", stripe.as_str())], Path::new(".")).unwrap();
    let refund = backends.operation(&"refund.create".parse().unwrap()).unwrap();
    assert_eq!(refund.credential_lifetime(), std::time::Duration::from_secs(60));
}

#[test]
fn money_without_an_amount_or_with_an_optional_one_is_refused() {
    let found = changed("min = 1, max = 99999999 }", "min = 1, max = 99999999, optional = true }");
    assert!(found.iter().any(|m| m.contains("the amount must not be optional")), "{found:?}");
    let found = changed("min = 1, max = 99999999 }", "min = 0, max = 99999999 }");
    assert!(found.iter().any(|m| m.contains("is not a range of amounts")), "{found:?}");
    let found = changed(
        "type = \"minor\", currency = \"currency\"",
        "type = \"minor\", currency = \"charge\"",
    );
    assert!(
        found.iter().any(|m| m.contains("is not a required parameter of type `currency`")),
        "{found:?}"
    );
}

#[test]
fn a_pattern_that_does_not_cover_the_whole_text_is_refused() {
    for (pattern, why) in [("(ch|py)_[a-z]+", "does not cover the whole text"), ("^ch_($", "is not a pattern")] {
        let found = changed("^(ch|py)_[A-Za-z0-9_]{1,64}$", pattern);
        assert!(found.len() == 1 && found[0].contains(why), "{found:?}");
    }
    // Alternatives must not escape the anchors.
    let stripe = text("stripe.toml")
        .replace("^(ch|py)_[A-Za-z0-9_]{1,64}$", "^ch_[a-z]+|py_[a-z]+$")
        .replace("ch_3PQxK2eZvKYlo2C1", "ch_sample");
    let backends = Backends::from_texts([("stripe.toml", stripe.as_str())], Path::new(".")).unwrap();
    let read = backends.operation(&"charge.read".parse().unwrap()).unwrap();
    let try_id = |id: &str| read.check(&super::support::json(serde_json::json!({ "charge": id }))).is_ok();
    assert!(try_id("ch_a") && try_id("py_a") && !try_id("ch_a/x") && !try_id("x/py_a"));
}

#[test]
fn a_fact_that_is_not_kept_is_refused() {
    refund_refused(
        "\"charge.customer\"",
        "\"charge.buyer\"",
        ".subject: `charge.buyer` is not a kept fact: expected `charge.amount`, `charge.amount_refunded`, `charge.card_last4`, `charge.currency`, `charge.customer`, `charge.description`, `charge.disputed`, `charge.id` or `charge.status`",
    );
    let found = changed("unchanged = [\"id\",", "unchanged = [\"version\",");
    assert!(
        found.len() == 1 && found[0].contains("`version` is not kept by that read"),
        "{found:?}"
    );
}

#[test]
fn a_currency_table_that_contradicts_itself_is_refused() {
    let found = changed("3 = [\"bhd\"", "3 = [\"usd\", \"bhd\"");
    assert_eq!(
        found,
        ["stripe.toml: currency.exponents.3: `usd` stands here twice or under two numbers of decimals"]
    );
    let found = changed("isk = 100", "xyz = 100");
    assert_eq!(
        found,
        ["stripe.toml: currency.multiple_of.xyz: expected a currency listed under `exponents` and a whole number above 1"]
    );
}

#[test]
fn two_files_with_one_operation_or_a_file_under_another_name_are_refused() {
    let other = text("stripe.toml").replacen("name            = \"stripe\"", "name            = \"second\"", 1);
    let found = Backends::from_texts([("stripe.toml", text("stripe.toml")), ("second.toml", &other)], Path::new(".")).unwrap_err();
    assert_eq!(
        found.to_string().lines().next(),
        Some("second.toml: operation[charge.read]: is already declared in stripe.toml: give one of them another name")
    );
    assert_eq!(
        load("x.toml", text("stripe.toml")),
        ["x.toml: name: `stripe` is not the file's name: call the file `stripe.toml`"]
    );
}

#[test]
fn decimals_are_the_backend_s_own() {
    let backends = Backends::from_texts(SHIPPED, Path::new(".")).unwrap();
    let refund = backends.operation(&"refund.create".parse().unwrap()).unwrap();
    for (code, exponent) in [
        ("usd", Some(2)),
        ("jpy", Some(0)),
        ("isk", Some(2)),
        ("ugx", Some(2)),
        ("bhd", Some(3)),
        ("xxx", None),
    ] {
        assert_eq!(refund.exponent(code.parse().unwrap()), exponent, "{code}");
    }
}

#[test]
fn another_address_changes_the_file_s_hash_and_nothing_else() {
    let moved = relocated("stripe.toml", text("stripe.toml"), "http://127.0.0.1:8420").unwrap();
    assert_eq!(load("stripe.toml", &moved), Vec::<String>::new());
    let differing: Vec<(&str, &str)> = text("stripe.toml").lines().zip(moved.lines()).filter(|(a, b)| a != b).collect();
    assert_eq!(differing.len(), 2, "{differing:?}");
    assert!(relocated("x.toml", "name = \"x\"", "https://x.example").is_err());
}
