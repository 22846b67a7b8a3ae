//! What a caller may send as parameters.

use serde_json::{Value, json};

use super::support::{json as strict, operation, refund_params, shipped};

/// The refusals as `pointer: reason`.
fn refused(name: &str, params: Value) -> Vec<String> {
    let backends = shipped();
    let errors = operation(&backends, name).check(&strict(params)).expect_err("refused");
    errors.iter().map(ToString::to_string).collect()
}

fn refund_with(key: &str, value: Value) -> Value {
    let mut params = refund_params();
    params[key] = value;
    params
}

fn address() -> Value {
    json!({ "line1": "12 Harbour Street", "city": "Portland", "postal_code": "97201", "country": "US" })
}

#[test]
fn unknown_and_case_variant_keys_are_refused_by_name() {
    let unknown = refused("refund.create", refund_with("note", json!("please")));
    assert_eq!(
        unknown,
        ["/note: is not a parameter of this operation; it takes `amount`, `charge`, `currency` or `reason`"]
    );
    for variant in ["Amount", "AMOUNT", "amOunt"] {
        let found = refused("refund.create", refund_with(variant, json!(1)));
        assert_eq!(
            found,
            [format!(
                "/{variant}: is not a parameter; `amount` is, and names are compared letter by letter"
            )]
        );
    }
    for key in [
        "idempotency_key",
        "Idempotency-Key",
        "metadata",
        "metadata[writ_key]",
        "payment_intent",
    ] {
        let found = refused("refund.create", refund_with(key, json!("x")));
        assert!(found[0].starts_with(&format!("/{key}: ")), "{found:?}");
    }
}

#[test]
fn every_mistake_is_reported_at_once_with_its_place() {
    let found = refused("refund.create", json!({ "charge": 7, "amount": "100", "extra": null }));
    assert_eq!(found.len(), 4, "{found:?}");
    for place in ["/charge: ", "/amount: ", "/extra: ", "/currency: is missing"] {
        assert!(found.iter().any(|line| line.starts_with(place)), "{place} in {found:?}");
    }
    let nested = refused(
        "shipping_address.update",
        json!({ "customer": "cus_88", "old": address(), "new": { "line1": "", "City": "x" } }),
    );
    assert!(
        nested
            .iter()
            .any(|line| line.starts_with("/new/City: is not a parameter; `city` is")),
        "{nested:?}"
    );
    assert!(nested.iter().any(|line| line.starts_with("/new/line1: ")), "{nested:?}");
    assert!(
        nested.iter().any(|line| line.starts_with("/new/postal_code: is missing")),
        "{nested:?}"
    );
}

#[test]
fn an_amount_out_of_range_or_of_another_kind_is_refused() {
    for amount in [
        json!(0),
        json!(-1),
        json!(100_000_000),
        json!(9_007_199_254_740_991_i64),
        json!("24000"),
        json!(null),
        json!(true),
        json!([1]),
    ] {
        let found = refused("refund.create", refund_with("amount", amount.clone()));
        assert!(found.len() == 1 && found[0].starts_with("/amount: "), "{amount}: {found:?}");
    }
}

#[test]
fn an_amount_the_backend_would_round_is_refused() {
    for (currency, bad, good) in [("isk", 150, 200), ("ugx", 99, 100), ("bhd", 1234, 1230), ("kwd", 5, 10)] {
        let mut params = refund_params();
        params["currency"] = json!(currency);
        params["amount"] = json!(bad);
        let found = refused("refund.create", params.clone());
        assert!(found[0].contains("is not a multiple of"), "{found:?}");
        params["amount"] = json!(good);
        assert!(operation(&shipped(), "refund.create").check(&strict(params)).is_ok());
    }
}

#[test]
fn a_currency_the_backend_does_not_take_is_refused_and_either_case_is_folded() {
    assert_eq!(
        refused("refund.create", refund_with("currency", json!("xxx"))),
        ["/currency: XXX is not a currency this backend takes"]
    );
    assert!(refused("refund.create", refund_with("currency", json!("dollars")))[0].starts_with("/currency: `dollars`"));
    let backends = shipped();
    let refund = operation(&backends, "refund.create");
    let checked = refund.check(&strict(refund_with("currency", json!("USD")))).unwrap();
    assert_eq!(checked.params().member("currency").unwrap().as_str(), Some("usd"));
    assert_eq!(checked.amount().unwrap().currency().as_str(), "usd");
}

#[test]
fn an_id_outside_its_pattern_is_refused() {
    for id in [
        "",
        "pi_123",
        "ch_",
        "ch_1/../../v1/payouts",
        "ch_1?expand[]=x",
        "ch_1\u{200b}",
        "ch_\u{ff11}",
        "xch_1",
        "ch_1 ",
        "ch_1%2F",
        "py",
    ] {
        let found = refused("refund.create", refund_with("charge", json!(id)));
        assert!(found[0].starts_with("/charge: "), "{id}: {found:?}");
    }
}

#[test]
fn text_that_would_deceive_the_reviewer_is_refused() {
    for line in [
        "12 Har\u{202e}bour",
        "12\u{200b} Harbour",
        "Zu\u{308}rich",
        "two\nlines",
        " 12 Harbour",
        "",
        "00000000-0000-8000-8000-000000000000",
    ] {
        let mut new = address();
        new["line1"] = json!(line);
        let found = refused(
            "shipping_address.update",
            json!({ "customer": "cus_88", "old": address(), "new": new }),
        );
        assert!(found.len() == 1 && found[0].starts_with("/new/line1: "), "{line:?}: {found:?}");
    }
    for email in [
        "ada@example",
        "ada@b\u{430}nk.example",
        "a b@example.com",
        "ada@example.com\u{200d}",
    ] {
        let found = refused(
            "email.update",
            json!({ "customer": "cus_88", "old_email": "ada.moreno@example.com", "new_email": email }),
        );
        assert!(found[0].starts_with("/new_email: "), "{email:?}: {found:?}");
    }
}

#[test]
fn an_explicit_null_is_not_an_absent_parameter() {
    assert!(refused("refund.create", refund_with("reason", json!(null)))[0].starts_with("/reason: expected text"));
    assert_eq!(refused("refund.create", json!([])), ["the parameters: expected an object"]);
}

#[test]
fn what_fits_carries_amount_resource_and_fields() {
    let backends = shipped();
    let checked = operation(&backends, "refund.create").check(&strict(refund_params())).unwrap();
    assert_eq!(checked.amount().unwrap().minor(), 24_000);
    assert_eq!(checked.resource().as_str(), "ch_3Rw4821blender");
    assert!(checked.fields().is_empty());
    let params = json!({ "customer": "cus_88", "old_email": "ada.moreno@example.com", "new_email": "ada@example.org" });
    let checked = operation(&backends, "email.update").check(&strict(params)).unwrap();
    assert_eq!(checked.fields().iter().collect::<Vec<_>>(), ["email"]);
    assert_eq!(checked.amount(), None);
}
