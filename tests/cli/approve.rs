//! `writ approve`, `writ deny`, and the drafts and executions they are about.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::support::{Running, fed, http, writ};

/// What the registry would say of usr_mia's key, for signing without it.
const MIA: [&str; 6] = ["--kid", "usr_mia-1", "--approver", "usr_mia", "--audience", "http://127.0.0.1:0"];

#[test]
fn a_denial_without_a_reason_is_refused() {
    let run = Running::new();
    let draft = run.held();
    let key = run.work.text("approvers/usr_mia.pem");
    run.work.run(&["deny", &draft, "--key", &key]).refused(2);
    let complaint = run.work.run(&["deny", &draft, "--key", &key, "--reason", "  "]).refused(1);
    assert!(complaint.contains("required on a denial"), "{complaint}");
    assert_eq!(run.work.json(&["draft", "show", &draft])["state"], "awaiting_approval");
}

#[test]
fn whoever_may_not_approve_does_not() {
    let run = Running::new();
    let draft = run.held();
    let key = |name: &str| run.work.text(&format!("approvers/{name}.pem"));
    let approve = |key: &str| run.work.run(&["approve", &draft, "--key", key, "--reason", "fine"]).refused(1);
    assert!(
        approve(&key("usr_ann")).contains("cannot approve this draft"),
        "the owner of the maker"
    );
    assert!(approve(&key("usr_ada")).contains("no authority"), "another queue");
    let stranger = run.work.text("stranger.pem");
    run.work
        .run(&["keys", "generate", "--approver", "usr_eve", "--out", &stranger])
        .ok();
    assert!(approve(&stranger).contains("no approver has this key registered"));
    run.work.run(&["approver", "revoke", "--key", "usr_mia-1"]).ok();
    assert!(approve(&key("usr_mia")).contains("revoked"));
    fs::set_permissions(key("usr_tom"), Permissions::from_mode(0o640)).unwrap();
    assert!(approve(&key("usr_tom")).contains("can be read by others"));
    assert_eq!(run.work.json(&["draft", "show", &draft])["state"], "awaiting_approval");
}

#[test]
fn a_card_and_bytes_that_do_not_belong_together_are_not_signed() {
    let run = Running::new();
    let (draft, other) = (run.held(), run.proposed(25_000));
    let (card, bytes) = (run.work.text("card.json"), run.work.text("bytes.json"));
    fs::write(&card, run.seen(&format!("/v1/drafts/{draft}"))).unwrap();
    fs::write(&bytes, run.seen(&format!("/v1/drafts/{other}/bytes"))).unwrap();
    let key = run.work.text("approvers/usr_mia.pem");
    let offline = |more: &[&str], input: &str| {
        let ran = fed(&[&["approve", "--key", &key, "--reason", "fine"], more, &MIA].concat(), input);
        assert_eq!(ran.out, "");
        ran.refused(1)
    };
    assert!(offline(&["--card", &card, "--bytes", &bytes], "").contains("do not approve it"));
    assert!(offline(&[&other, "--card", &card], "").contains("the card is for draft"));
    // The card as the orchestrator sees it has no nonce.
    let shown = run.call("support-agent", "GET", &format!("/v1/drafts/{draft}"), "application/json", "", 200);
    assert!(offline(&["--card", "-"], &shown).contains("approval_service"));
    assert!(offline(&["--card", "-"], "{}").contains("the card is not a draft"));
    let without_names = ["approve", "--card", &card, "--key", &key, "--reason", "fine"];
    writ(&without_names).refused(2);
}

#[test]
fn a_record_signed_without_a_store_is_accepted_by_the_server() {
    let run = Running::new();
    let draft = run.held();
    let bytes = run.work.text("bytes.json");
    fs::write(&bytes, run.seen(&format!("/v1/drafts/{draft}/bytes"))).unwrap();
    let key = run.work.text("approvers/usr_mia.pem");
    let offline = ["approve", "--card", "-", "--bytes", &bytes, "--key", &key, "--reason", "cracked"];
    let signed = fed(&[&offline[..], &MIA].concat(), &run.seen(&format!("/v1/drafts/{draft}")));
    assert!(signed.err.contains("amount=24000"), "what is signed is shown: {}", signed.err);
    let body = json!({ "record": signed.ok().trim() }).to_string();
    let answer = run.call("review-desk", "POST", "/v1/approvals", "application/json", &body, 200);
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["draft"]["state"], "approved");
}

#[test]
fn an_approval_and_its_execution_are_told_as_they_stand() {
    let run = Running::new();
    let draft = run.held();
    let key = run.work.text("approvers/usr_mia.pem");
    let approve = ["approve", &draft, "--key", &key, "--reason", "fine"];
    let printed = run.work.run(&[&approve[..], &["--print"]].concat());
    assert!(printed.err.contains("240.00 USD"), "{}", printed.err);
    assert_eq!(printed.ok().trim().split('.').count(), 3);
    let standing = run.work.json(&["draft", "show", &draft]);
    assert_eq!(standing["state"], "awaiting_approval", "printing hands nothing in");
    assert_eq!(standing["approval"]["request_nonce"], Value::Null);
    let said = run.work.run(&approve).ok();
    assert!(said.contains("approved by usr_mia; the draft is approved"), "{said}");
    assert!(run.work.run(&approve).refused(1).contains("nothing to sign"));
    assert!(run.work.run(&["execution", "show", &draft]).refused(1).contains("no execution"));

    let bearer = format!("Bearer {}", run.credential(&draft));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = json!({ "draft_id": draft }).to_string();
    let (status, answer) = http(&run.server.url, "POST", "/v1/executions?wait=10", &headers, &body);
    assert_eq!(status, 200, "{answer}");
    let execution = run.work.json(&["execution", "show", &draft]);
    assert_eq!(execution["state"], "applied");
    let id = execution["id"].as_str().unwrap();
    assert_eq!(run.work.json(&["execution", "show", id]), execution);
    assert_eq!(run.work.json(&["execution", "list"])["executions"], json!([execution]));
    assert_eq!(run.work.json(&["execution", "list", "--unresolved"])["executions"], json!([]));
    let resolve = |evidence: &str| {
        let outcome = ["execution", "resolve", id, "--applied", "--evidence", evidence];
        run.work.run(&outcome).refused(1)
    };
    assert!(resolve("the account shows none").contains("is applied"));
    assert!(resolve(" ").contains("how you know"));
    let shown = run.work.run(&["draft", "show", &draft]).ok();
    for words in [
        "240.00 USD (24000 minor units)",
        "amount=24000",
        "idempotency-key: ",
        "refund-over-limit",
        "usr_mia-1",
        "is applied",
    ] {
        assert!(shown.contains(words), "{words} is missing in:\n{shown}");
    }
}

#[test]
fn a_denial_reaches_the_orchestrator_word_for_word() {
    let run = Running::new();
    let draft = run.held();
    let key = run.work.text("approvers/usr_tom.pem");
    let reason = "refund the item only; \"delivery\" stays";
    let denied = run.work.json(&["deny", &draft, "--key", &key, "--reason", reason]);
    assert_eq!(denied["draft"]["state"], "denied");
    let seen = run.call("support-agent", "GET", &format!("/v1/drafts/{draft}"), "application/json", "", 200);
    assert_eq!(serde_json::from_str::<Value>(&seen).unwrap()["reason"], reason);
}

#[test]
fn the_desk_of_a_prover_is_not_taken_for_the_one_that_people_use() {
    let run = Running::new();
    let draft = run.held();
    run.work
        .run(&["client", "add", "prover-desk", "--role", "approval_service", "--role", "prover"])
        .ok();
    let key = run.work.text("approvers/usr_mia.pem");
    run.work.run(&["approve", &draft, "--key", &key, "--reason", "fine"]).ok();
}

#[test]
fn of_two_approval_services_one_must_be_named() {
    let run = Running::new();
    let draft = run.held();
    run.work.run(&["client", "add", "other-desk", "--role", "approval_service"]).ok();
    let key = run.work.text("approvers/usr_mia.pem");
    let approve = ["approve", &draft, "--key", &key, "--reason", "fine"];
    assert!(run.work.run(&approve).refused(2).contains("--as CLIENT"));
    run.work.run(&[&approve[..], &["--as", "security"]].concat()).refused(1);
    run.work.run(&[&approve[..], &["--as", "other-desk"]].concat()).ok();
}

#[test]
fn what_nobody_else_can_find_out_a_person_resolves() {
    let run = Running::new();
    let draft = run.proposed(4_000);
    let fault = r#"{"match":{"method":"POST","path":"/v1/refunds"},"kind":"hang"}"#;
    assert_eq!(http(&run.sandbox.url, "POST", "/_sandbox/faults", &[], fault).0, 200);
    let bearer = format!("Bearer {}", run.credential(&draft));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = json!({ "draft_id": draft }).to_string();
    let (status, answer) = http(&run.server.url, "POST", "/v1/executions", &headers, &body);
    assert_eq!(status, 202, "{answer}");
    let id = serde_json::from_str::<Value>(&answer).unwrap()["id"].as_str().unwrap().to_owned();
    // The refund is made and its answer hangs; then the backend is gone, and whoever looks finds nobody.
    let refunded = || http(&run.sandbox.url, "GET", "/_sandbox/state", &[], "").1.contains("\"re_");
    assert!((0..10_000).any(|_| refunded()), "no refund was made");
    drop(run.sandbox);
    let resolve = [
        "execution",
        "resolve",
        &id,
        "--applied",
        "--reference",
        "re_seen",
        "--evidence",
        "seen in the books",
    ];
    // A repetition may be under way, which nobody resolves.
    let resolved = (0..50).map(|_| run.work.run(&resolve)).find(|ran| ran.code == Some(0));
    let shown = resolved.expect("it was never resolved").ok();
    for words in ["applied", "re_seen", "seen in the books"] {
        assert!(shown.contains(words), "{words} is missing in:\n{shown}");
    }
    assert_eq!(run.work.json(&["execution", "list", "--unresolved"])["executions"], json!([]));
    assert_eq!(run.work.json(&["execution", "show", &draft])["state"], "applied");
}
