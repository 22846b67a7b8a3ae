//! The shipped files: what they send, byte for byte.

use proptest::prelude::*;
use serde_json::json;

use super::support::{answer, charge, checked, customer, draft, draft_id, operation, refund_params, shipped};
use writ::domain::draft::{KEY_PLACEHOLDER, KeyPlacement};

#[test]
fn a_refund_goes_out_as_a_form_with_the_key_in_two_places() {
    let backends = shipped();
    let refund = operation(&backends, "refund.create");
    let sealed = draft(refund, refund_params(), &answer(200, charge()));
    let request = &sealed.request;
    assert_eq!(request.method, "POST");
    assert_eq!(request.url, "http://127.0.0.1:9/v1/refunds");
    let head =
        "amount=24000&charge=ch_3Rw4821blender&metadata%5Bwrit_draft%5D=drf_0192f0c1a2b37c4d8e5f60718293a4b5&metadata%5Bwrit_key%5D=";
    assert_eq!(request.body, format!("{head}{KEY_PLACEHOLDER}"));
    assert_eq!(request.key_offsets, [u32::try_from(head.len()).unwrap()]);
    assert_eq!(
        request.idempotency_key,
        KeyPlacement::Header {
            name: "idempotency-key".to_owned(),
            quoted: false
        }
    );
    assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
    let key = sealed.seal().unwrap().key;
    assert_eq!(String::from_utf8(request.wire_body(&key)).unwrap(), format!("{head}{key}"));
}

#[test]
fn an_address_change_goes_out_as_json_under_the_version_that_was_read() {
    let backends = shipped();
    let update = operation(&backends, "shipping_address.update");
    let old = json!({ "line1": "12 Harbour Street", "city": "Portland", "postal_code": "97201", "country": "US" });
    let new = json!({ "line1": "9 \"Quay\" Road", "city": "Zürich", "postal_code": "97202", "country": "US" });
    let params = json!({ "customer": "cus_88", "old": old, "new": new });
    let made = draft(update, params, &answer(200, customer()));
    assert_eq!(made.resource.version.as_deref(), Some("\"1\""));
    assert_eq!(made.request.method, "PATCH");
    assert_eq!(made.request.url, "http://127.0.0.1:9/customers/cus_88");
    assert_eq!(made.request.headers["if-match"], "\"1\"");
    assert_eq!(
        made.request.body,
        r#"{"shipping_address":{"city":"Zürich","country":"US","line1":"9 \"Quay\" Road","line2":null,"postal_code":"97202"}}"#
    );
}

#[test]
fn the_same_draft_compiles_to_the_same_bytes() {
    let backends = shipped();
    let refund = operation(&backends, "refund.create");
    let parts = checked(refund, refund_params());
    let facts = refund.facts(&parts, &[answer(200, charge())]).unwrap();
    let once = refund.compile(&draft_id(), &parts, &facts).unwrap();
    assert_eq!(once, refund.compile(&draft_id(), &parts, &facts).unwrap());
}

#[test]
fn a_version_that_cannot_stand_in_a_header_is_not_compiled() {
    let backends = shipped();
    let email = operation(&backends, "email.update");
    let params = json!({ "customer": "cus_88", "old_email": "ada.moreno@example.com", "new_email": "ada@example.org" });
    let parts = checked(email, params);
    for tag in ["\"é\"", " \"1\"", ""] {
        let mut shown = answer(200, customer());
        shown.headers.insert("etag".to_owned(), tag.to_owned());
        let facts = email.facts(&parts, &[shown]).unwrap();
        let error = email.compile(&draft_id(), &parts, &facts).unwrap_err();
        assert!(error.to_string().starts_with("the header `if-match` cannot be written"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_text_a_json_body_carries_reads_back_as_it_was_sent(line1 in "[ -~à-üА-я东京😀]{1,60}", city in "[!-~]{1,40}") {
        let backends = shipped();
        let update = operation(&backends, "shipping_address.update");
        let old = json!({ "line1": "12 Harbour Street", "city": "Portland", "postal_code": "97201", "country": "US" });
        let new = json!({ "line1": line1.trim(), "city": city, "postal_code": "1", "country": "US" });
        prop_assume!(!line1.trim().is_empty());
        let made = draft(update, json!({ "customer": "cus_88", "old": old, "new": new }), &answer(200, customer()));
        let sent: serde_json::Value = serde_json::from_str(&made.request.body).unwrap();
        let mut expected = new;
        expected["line2"] = json!(null);
        prop_assert_eq!(&sent["shipping_address"], &expected);
        prop_assert_eq!(sent.as_object().unwrap().len(), 1);
    }

    #[test]
    fn whatever_passes_as_a_charge_names_one_segment_and_one_field(id in "(ch|py)_[A-Za-z0-9_]{1,64}", amount in 1_i64..=36_000) {
        let backends = shipped();
        let refund = operation(&backends, "refund.create");
        let mut shown = charge();
        shown["id"] = json!(id);
        let made = draft(refund, json!({ "charge": id, "amount": amount, "currency": "usd" }), &answer(200, shown));
        let fields: Vec<(String, String)> = form_urlencoded::parse(made.request.body.as_bytes()).into_owned().collect();
        prop_assert_eq!(fields.len(), 4);
        prop_assert!(fields.contains(&("charge".to_owned(), id.clone())));
        prop_assert!(fields.contains(&("amount".to_owned(), amount.to_string())));
        prop_assert_eq!(refund.precondition(&made).unwrap().url, format!("http://127.0.0.1:9/v1/charges/{id}"));
    }
}
