//! `writ backend`: no secret is set anywhere here.

use serde_json::{Value, json};

use super::support::writ;
use writ::backend::EXAMPLES;

/// An example in a directory of its own.
fn example(name: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{name}.toml"));
    std::fs::write(&path, writ(&["backend", "example", name]).ok()).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

#[test]
fn every_mistake_of_a_file_is_told_with_its_place() {
    let (_dir, path) = example("square");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replace("attempts        = 4", "attempts = 0")
            .replace("max_len = 45", "max_len = 12"),
    )
    .unwrap();
    let told = writ(&["backend", "check", &path]).refused(1);
    for place in [
        "operation[refund.square].retry.attempts: ",
        "operation[refund.square].idempotency.max_len: ",
    ] {
        assert!(told.contains(&format!("square.toml: {place}")), "{told}");
    }
    std::fs::write(&path, "name = \"square\"\nbase_url = [").unwrap();
    assert!(
        writ(&["backend", "check", &path])
            .refused(1)
            .contains("square.toml: line 2: is not TOML")
    );
}

#[test]
fn a_sample_that_does_not_fit_is_refused() {
    let (_dir, path) = example("square");
    let told = writ(&[
        "backend",
        "check",
        &path,
        "--params",
        r#"{"payment":"p","amount":0,"currency":"kwd"}"#,
    ])
    .refused(1);
    assert!(
        told.contains("/amount: 0 is out of range") && told.contains("/currency: KWD is not"),
        "{told}"
    );
    writ(&["backend", "check", &path, "--operation", "refund.other"]).refused(1);
    writ(&["backend", "check", &path, "--params", "{"]).refused(1);
    writ(&["backend", "example", "stripe"]).refused(1);
}

#[test]
fn every_example_is_explained_in_full() {
    for (file, text) in EXAMPLES {
        let name = file.trim_end_matches(".toml");
        let (_dir, path) = example(name);
        assert_eq!(std::fs::read_to_string(&path).unwrap().trim_end(), text.trim_end());
        let told = writ(&["backend", "check", &path, "--json"]).json();
        let explained = &told["operations"][0]["explained"];
        assert_eq!(explained["operation"], format!("refund.{name}"));
        assert_eq!(
            explained["answers"].as_array().unwrap().len(),
            text.matches("[[operation.classify]]").count()
        );
        assert_eq!(
            explained["look_ups"].as_array().unwrap().len(),
            text.matches("[[operation.reconcile]]").count()
        );
        assert_eq!(
            explained["events"].as_array().unwrap().len(),
            text.matches("[[operation.events.on]]").count()
        );
        assert_eq!(explained["signed"].as_array().unwrap().len(), if name == "adyen" { 8 } else { 0 });
        assert_eq!(explained["reads"].as_array().unwrap().is_empty(), name == "adyen");
        assert!(
            explained["request"]["body"]
                .as_str()
                .unwrap()
                .contains("drf_00000000000070008000000000000000")
        );
        let said = writ(&["backend", "check", &path]).ok();
        assert!(said.contains("anything else -> ambiguous: looked up"), "{said}");
    }
}

#[test]
fn what_a_backend_tells_by_itself_is_explained() {
    let (_dir, path) = example("adyen");
    let said = writ(&["backend", "check", &path]).ok();
    for line in [
        "told by the backend, signed",
        "refunded (REFUND and /success is true) -> applied: done, on the event's word",
        "refund failed, or was reversed (REFUND_FAILED,REFUNDED_REVERSED) -> failed: not done, on the event's word, also after it was done",
        "  only if /originalReference is {params.payment}",
        "signed, and so all that is looked at: /pspReference, /originalReference,",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let (_dir, path) = example("square");
    assert!(!writ(&["backend", "check", &path]).ok().contains("told by the backend"));
}

#[test]
fn a_proposal_says_what_would_be_sent() {
    let (dir, path) = example("paypal");
    let draft = dir.path().join("draft.json");
    let parameters = json!({ "capture": "2GG279541U471931P", "amount": 12345, "currency": "jpy" });
    std::fs::write(
        &draft,
        json!({ "operation": "refund.paypal", "parameters": parameters }).to_string(),
    )
    .unwrap();
    let said = writ(&["backend", "check", &path, "--draft", &draft.display().to_string()]).ok();
    assert!(said.contains(r#""amount":{"currency_code":"JPY","value":"12345"}"#), "{said}");
    assert!(said.contains("in the header `paypal-request-id`; sent for 3801600 s"), "{said}");
}

#[test]
fn an_answer_is_judged_as_the_proxy_would() {
    let (dir, path) = example("square");
    let answer = dir.path().join("answer.json");
    let judged = |body: Value, status: u16| {
        std::fs::write(&answer, json!({ "status": status, "body": body }).to_string()).unwrap();
        writ(&["backend", "check", &path, "--answer", &answer.display().to_string(), "--json"]).json()["operations"][0]["meant"].clone()
    };
    let refund = json!({ "refund": {
        "id": "r1", "status": "COMPLETED", "payment_id": "UNOE3kv2BZwqHlJ830RCt5YCuaB", "reason": "drf_00000000000070008000000000000000",
        "amount_money": { "amount": 4000, "currency": "USD" },
    } });
    assert_eq!(judged(refund.clone(), 200)["outcome"], "applied");
    let mut other = refund;
    other["refund"]["amount_money"]["amount"] = json!(4001);
    assert_eq!(judged(other, 200)["outcome"], "ambiguous");
    let reused = judged(json!({ "errors": [{ "code": "IDEMPOTENCY_KEY_REUSED" }] }), 400);
    assert_eq!(
        (&reused["outcome"], &reused["then"]),
        (&json!("mismatch"), &json!("a person's case; nothing is sent again"))
    );
    assert_eq!(judged(json!({}), 500)["outcome"], "ambiguous");
}

#[test]
fn every_shipped_file_says_what_each_of_its_operations_would_send() {
    let shipped = crate::support::peers::root().join("policies/backends");
    for file in std::fs::read_dir(shipped).unwrap() {
        let path = file.unwrap().path();
        let told = writ(&["backend", "check", path.to_str().unwrap()]).ok();
        let writes = std::fs::read_to_string(&path).unwrap().matches("[operation.request]").count();
        assert!(writes > 0 && !told.contains("no sample"), "{told}");
        assert_eq!(told.matches("\nsent\n  ").count(), writes, "{told}");
        assert_eq!(told.matches("anything else -> ambiguous").count(), writes, "{told}");
    }
}
