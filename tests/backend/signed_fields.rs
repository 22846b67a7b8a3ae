//! Events signed over values in their body: Adyen's own published examples, and what its file may say of them.

use std::path::Path;

use serde_json::{Value, json};
use writ::backend::{BackendEvent, Backends, Client, EXAMPLES, EventError, Need};
use writ::domain::time::Timestamp;

fn adyen() -> &'static str {
    EXAMPLES.iter().find(|(name, _)| *name == "adyen.toml").unwrap().1
}

fn client(secrets: &str) -> Result<Client, String> {
    let backends = Backends::from_texts([("adyen.toml", adyen())], Path::new(".")).unwrap();
    let env = |name: &str| match name {
        "WRIT_ADYEN_WEBHOOK_SECRETS" => Some(secrets.to_owned()),
        _ => Some("a-key-that-writes".to_owned()),
    };
    Client::connect(backends.backend(&"adyen".parse().unwrap()).unwrap(), Need::Proxy, &env).map_err(|mistakes| mistakes[0].to_string())
}

fn opened(key: &str, item: &Value) -> Result<BackendEvent, EventError> {
    let body = json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": item }] });
    client(key)
        .unwrap()
        .open_event(None, body.to_string().as_bytes(), Timestamp::from_millis(0))
}

/// The keys, items and signatures of the official libraries' own tests:
/// adyen-node-api-library `src/__tests__/hmacValidator.spec.ts`, adyen-php-api-library `tests/Adyen/Util/HmacSignatureTest.php`,
/// adyen-python-api-library `test/UtilTest.py` and `test/mocks/util/colon_notification.json`.
fn published() -> [(&'static str, Value); 4] {
    let shared = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00";
    let payment = |signature: &str| {
        json!({
            "pspReference": "7914073381342284", "merchantAccountCode": "TestMerchant", "merchantReference": "TestPayment-1407325143704",
            "amount": { "value": 1130, "currency": "EUR" }, "eventCode": "AUTHORISATION", "success": "true",
            "additionalData": { "hmacSignature": signature },
        })
    };
    [
        (
            shared,
            json!({
                "pspReference": "pspReference", "originalReference": "originalReference", "merchantAccountCode": "merchantAccount",
                "merchantReference": "reference", "amount": { "currency": "EUR", "value": 1000 }, "eventCode": "CAPTURE", "success": "true",
                "additionalData": { "hmacSignature": "xhpHvYq2u2Np0rstbZ6QjLGu7JWhvf7Iwaa6EviJSX0=" },
            }),
        ),
        (shared, payment("Ny9gS2veKo5E4w8/OL6xz1/wvT/hYkAXy1xNc/QvO4I=")),
        (
            "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
            payment("coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="),
        ),
        (
            "74F490DD33F7327BAECC88B2947C011FC02D014A473AAA33A8EC93E4DC069174",
            json!({
                "pspReference": "M8NB66SBZSGLNK82", "merchantAccountCode": "AntoniStroinski", "merchantReference": ":slashes are fun",
                "amount": { "value": 1000, "currency": "EUR" }, "eventCode": "AUTHORISATION", "success": "true",
                "additionalData": { "hmacSignature": "2EQYm7YJpKO4EtHSPu55SQTyWf8dkW5u2nD1tJFpViA=" },
            }),
        ),
    ]
}

#[test]
fn each_signed_value_counts_and_no_other_key_does() {
    for (key, item) in published() {
        for place in [
            "/pspReference",
            "/originalReference",
            "/merchantAccountCode",
            "/merchantReference",
            "/amount/value",
            "/amount/currency",
            "/eventCode",
            "/success",
        ] {
            let mut changed = item.clone();
            let value = if place == "/amount/value" { json!(1) } else { json!("another") };
            match changed.pointer_mut(place) {
                Some(found) => *found = value,
                None => changed[&place[1..]] = value,
            }
            assert_eq!(opened(key, &changed), Err(EventError::SignatureInvalid), "{place}");
        }
        let other = key.replace('B', "C");
        assert_eq!(opened(&other, &item), Err(EventError::SignatureInvalid));
        let mut bare = item.clone();
        bare["additionalData"] = json!({});
        assert!(matches!(opened(key, &bare), Err(EventError::SignatureMissing(_))));
    }
}

#[test]
fn the_providers_own_examples_are_recognised() {
    let [node, php, python, colon] = published().map(|(key, item)| opened(key, &item).unwrap());
    assert_eq!(
        (node.id.as_str(), node.kind.as_deref()),
        ("pspReference:CAPTURE:true", Some("CAPTURE"))
    );
    assert_eq!(
        (php.id.as_str(), php.kind.as_deref()),
        ("7914073381342284:AUTHORISATION:true", Some("AUTHORISATION"))
    );
    assert_eq!(php, python, "one event, under two keys");
    // Its reference holds a colon, which is not escaped: where one value ends is anybody's guess.
    assert_eq!(colon.kind, None);
}

#[test]
fn a_key_is_64_hexadecimal_digits_and_a_mistake_holds_none_of_them() {
    let good = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00";
    let short = "not 64 hexadecimal digits";
    for (secrets, why) in [
        (good[2..].to_owned(), short),
        (format!("{good}00"), short),
        (good.replace('D', "X"), short),
        (format!("{good}\n{}", &good[1..]), short),
        (format!("{good},{good}"), short),
        ([good; 5].join(" "), "more than four"),
        (String::new(), "is empty"),
    ] {
        let told = client(&secrets).unwrap_err();
        assert!(told.starts_with("adyen.toml: webhook.secrets: ") && told.contains(why), "{told}");
        assert!(!told.contains("DFB1") && !told.contains("8589"), "{told}");
    }
    client(&format!("{good}\n{}", good.to_lowercase())).unwrap();
}

/// The mistakes of the file with another text at its first place after `after`.
fn changed(after: &str, from: &str, to: &str) -> Vec<String> {
    let (head, tail) = adyen().split_once(after).unwrap();
    assert!(tail.contains(from), "the file does not hold `{from}` after `{after}`");
    let text = format!("{head}{after}{}", tail.replacen(from, to, 1));
    let found = Backends::from_texts([("adyen.toml", text.as_str())], Path::new("."));
    found.map_or_else(|mistakes| mistakes.0.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

#[test]
fn a_file_whose_rules_look_at_what_is_not_signed_is_refused() {
    let events = "operation[refund.adyen].events";
    let unsigned = "is not one of `webhook.signed`: whoever delivers the event could change it";
    for (from, to, mistake) in [
        (
            "draft     = \"/merchantReference\"",
            "draft = \"/metadata/draft\"",
            format!("{events}.draft: `/metadata/draft` {unsigned}"),
        ),
        (
            "reference = \"/pspReference\"",
            "reference = \"/additionalData/arn\"",
            format!("{events}.reference: `/additionalData/arn` {unsigned}"),
        ),
        (
            "pointer = \"/amount/value\"",
            "pointer = \"/additionalData/value\"",
            format!("{events}.require: `/additionalData/value` {unsigned}"),
        ),
        (
            "pointer = \"/success\"",
            "pointer = \"/reason\"",
            format!("{events}.on[refunded].when: `/reason` {unsigned}"),
        ),
        (
            "pointer = \"/success\"",
            "header = \"success\"",
            format!("{events}.on[refunded].when: `header success` {unsigned}"),
        ),
        (
            "pointer = \"/success\"",
            "sum = [\"/amount/value\", \"/fee\"]",
            format!("{events}.on[refunded].when: `+/amount/value +/fee` {unsigned}"),
        ),
        (
            "pointer = \"/success\"",
            "among = \"/list\", where = { pointer = \"/success\", equals = \"true\" }, pointer = \"/success\"",
            format!("{events}.on[refunded].when: `/list/*/success` {unsigned}"),
        ),
        (
            "confirm   = \"event\"",
            "confirm = \"look_up\"",
            format!("{events}.confirm: nothing under `reconcile` can be looked up"),
        ),
    ] {
        let found = changed("\n[operation.events]\n", from, to);
        let start = format!("adyen.toml: {mistake}");
        assert!(found.iter().any(|found| found.starts_with(&start)), "{start} is not in {found:?}");
    }
}

#[test]
fn every_mistake_about_what_is_signed_is_named_with_its_place() {
    let unsigned = "is not one of `signed`: whoever delivers the event could change it";
    for (from, to, mistake) in [
        (
            "\"joined\"",
            "\"joint\"",
            "signature: `joint` is not known: expected `timestamped` or `joined`".to_owned(),
        ),
        ("\"joined\"", "\"timestamped\"", "header: is missing".to_owned()),
        ("list      =", "listed =", "list: is missing".to_owned()),
        ("item      =", "items =", "item: is missing".to_owned()),
        ("given     =", "mac =", "given: is missing".to_owned()),
        (
            "\"/additionalData/hmacSignature\"",
            "\"hmacSignature\"",
            "given: `hmacSignature` is not a JSON pointer".to_owned(),
        ),
        (
            "\"/merchantReference\"",
            "\"/merchantReference\", \"/pspReference\"",
            "signed: `/pspReference` stands here twice".to_owned(),
        ),
        (
            "\"/merchantReference\"",
            "\"/merchantReference\", \"/amount\"",
            "signed: `/amount` stands here twice, or above another".to_owned(),
        ),
        (
            "\"/merchantReference\"",
            "\"/merchantReference\", \"/a//b\"",
            "signed: `/a//b` is not a plain place".to_owned(),
        ),
        (
            "\"/merchantReference\"",
            "\"/merchantReference\", \"/a~1b\"",
            "signed: `/a~1b` is not a plain place".to_owned(),
        ),
        (
            "numbers   = [\"/amount/value\"]",
            "numbers = [\"/fee\"]",
            format!("numbers: `/fee` {unsigned}"),
        ),
        (
            "id        = [\"/pspReference\"",
            "id = [\"/eventDate\"",
            format!("id: `/eventDate` {unsigned}"),
        ),
        (
            "id        = [\"/pspReference\", \"/eventCode\", \"/success\"]",
            "id = []",
            "id: is missing or empty".to_owned(),
        ),
        (
            "type      = \"/eventCode\"",
            "type = \"/reason\"",
            format!("type: `/reason` {unsigned}"),
        ),
        (
            "type      = \"/eventCode\"",
            "type = \"/eventCode\"\ntolerance = \"5m\"",
            "tolerance: is not a setting here".to_owned(),
        ),
    ] {
        let found = changed("\n[webhook]\n", from, to);
        let start = format!("adyen.toml: webhook.{mistake}");
        assert!(found.iter().any(|found| found.starts_with(&start)), "{start} is not in {found:?}");
    }
}
