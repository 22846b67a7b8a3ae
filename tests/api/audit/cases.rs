//! A case in one answer: what was ordered, decided, approved, issued, sent and answered, with the proofs; and an event that is missing shows.

use std::sync::Arc;

use serde_json::{Value, json};
use writ::app::{Outside, open_sqlite};
use writ::audit::SignedHead;
use writ::audit::tree::{Hash, check_inclusion, leaf_hash};
use writ::domain::approval::Decision;
use writ::domain::digest::Digest;
use writ::store::retention::Prune;
use writ::store::sqlite::SqliteStore;

use super::{audit, elsewhere};
use crate::support::SeededEntropy;
use crate::support::world::World;

/// A refund that a person approved, run to its end.
async fn refunded(world: &World) -> String {
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    world.hand_in(&record).await.expect(200);
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    draft
}

#[tokio::test]
async fn the_whole_chain_of_a_case_is_one_answer_that_proves_itself() {
    let world = World::new().await;
    let draft = refunded(&world).await;
    let case = audit(&world, "/v1/cases/case-1").await.expect(200);
    let step = &case["steps"][0];
    let execution = world.execution(&draft).await;
    assert_eq!(step["draft"]["id"], draft.as_str());
    assert_eq!(step["draft"]["resource"]["type"], "charge");
    assert_eq!(step["draft"]["verdict"]["outcome"], "ask");
    assert_eq!(step["draft"]["approval"]["signatures"][0]["approver"], "usr_mia");
    assert_eq!(step["draft"]["idempotency_key"], execution["idempotency_key"]);
    assert_eq!(step["credentials"][0]["state"], "redeemed");
    assert_eq!(step["credentials"][0]["approval_id"], step["draft"]["approval"]["id"]);
    assert_eq!(step["execution"]["attempts"][0]["status"], 200);
    assert_eq!(
        (&step["execution"]["reference"], &step["execution"]["state"]),
        (&execution["reference"], &json!("applied"))
    );

    let log = &case["log"];
    assert_eq!(
        (&log["complete"], &log["gaps"], &log["next_after_seq"]),
        (&json!(true), &json!([]), &Value::Null)
    );
    let head = SignedHead::read(log["head"]["checkpoint"].as_str().unwrap()).unwrap();
    let mut types = Vec::new();
    for line in log["events"].as_array().unwrap() {
        let (seq, text) = (line["seq"].as_u64().unwrap(), line["event"].as_str().unwrap());
        let proof = line["proof"].as_array().unwrap().iter();
        let proof: Vec<Hash> = proof.map(|hash| Hash::parse_hash(hash.as_str().unwrap()).unwrap()).collect();
        check_inclusion(&proof, head.size(), head.root(), seq, leaf_hash(text.as_bytes())).unwrap();
        let event: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            (&event["case_id"], &event["case"]["n"]),
            (&json!("case-1"), &json!(types.len() + 1))
        );
        types.push(event["type"].as_str().unwrap().to_owned());
    }
    for kind in [
        "draft.propose",
        "draft.hold",
        "approval.grant",
        "credential.issue",
        "credential.redeem",
        "execution.dispatch",
        "execution.confirm_applied",
    ] {
        assert!(types.contains(&kind.to_owned()), "{kind} is missing in {types:?}");
    }
}

#[tokio::test]
async fn an_event_that_is_gone_from_a_case_is_reported() {
    let world = World::new().await;
    let draft = refunded(&world).await;
    let events = world.events().await;
    let gone = events.iter().find(|event| event["type"] == "approval.grant").unwrap();
    assert_eq!(gone["draft"]["id"], draft.as_str());
    let n = gone["case"]["n"].as_u64().unwrap();
    let next = events.iter().find(|event| event["case"]["n"] == n + 1).unwrap();
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch(&format!("DROP TRIGGER event_stays; DELETE FROM event WHERE seq = {}", gone["seq"]))
        .unwrap();
    let log = audit(&world, "/v1/cases/case-1").await.expect(200)["log"].clone();
    assert_eq!(log["gaps"], json!([{ "seq": next["seq"], "expected": n, "found": n + 1 }]));
}

/// The store itself, for what an operator does with it.
fn operators(world: &World) -> SqliteStore {
    let outside = Outside {
        clock: world.clock.clone(),
        entropy: Arc::new(SeededEntropy::new(31)),
    };
    open_sqlite(&world.config, &outside).unwrap()
}

#[tokio::test]
async fn what_was_pruned_of_a_case_is_told_and_what_is_gone_besides_is_a_gap() {
    let world = World::new().await;
    refunded(&world).await;
    let of_case = |events: &[Value]| -> Vec<u64> {
        let own = events.iter().filter(|event| event["case_id"] == "case-1");
        own.map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    let seqs = of_case(&world.events().await);
    let order = Prune {
        to: seqs[2] - 1,
        bundle_sha256: Digest::of(b"bundle"),
    };
    operators(&world).prune(world.op(), order.clone()).await.unwrap();
    let log = audit(&world, "/v1/cases/case-1").await.expect(200)["log"].clone();
    assert_eq!(log["gaps"], json!([]));
    let told = world
        .events()
        .await
        .into_iter()
        .find(|event| event["type"] == "retention.pruned")
        .unwrap();
    assert_eq!(
        log["pruned"],
        json!([{ "n": 2, "from": 0, "to": order.to, "at": told["time"], "seq": told["seq"], "bundle_sha256": order.bundle_sha256 }])
    );
    assert_eq!(log["events"][0]["seq"], seqs[2]);

    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch(&format!("DROP TRIGGER event_stays; DELETE FROM event WHERE seq = {}", seqs[2]))
        .unwrap();
    let log = audit(&world, "/v1/cases/case-1").await.expect(200)["log"].clone();
    assert_eq!(log["gaps"], json!([{ "seq": seqs[3], "expected": 1, "found": 4 }]));
    assert_eq!(log["pruned"], Value::Null, "nothing is said to be pruned that the log has not said");
}

#[tokio::test]
async fn only_an_auditor_is_shown_the_log_and_only_that_of_its_tenant() {
    let mut world = World::new().await;
    elsewhere(&mut world).await;
    refunded(&world).await;
    for (client, executions) in [("support-agent", true), ("operations", true), ("review-desk", false)] {
        let case = world.call(client, "GET", "/v1/cases/case-1", None).await.expect(200);
        assert_eq!(case["log"], Value::Null, "{client}");
        assert_eq!(case["steps"][0]["execution"].is_object(), executions, "{client}");
    }
    world
        .call("elsewhere", "GET", "/v1/cases/case-1", None)
        .await
        .refused(404, "not_found");
    let reads = world.event_types().await.into_iter().filter(|kind| kind == "audit.read").count();
    assert_eq!(reads, 0);
    let again = audit(&world, "/v1/cases/case-1?limit=1").await.expect(200);
    assert!(again["log"].is_object());
    let told = world.events().await.pop().unwrap();
    assert_eq!((&told["type"], &told["subject"]), (&json!("audit.read"), &json!("case case-1")));
    assert_eq!(told["case_id"], Value::Null, "a read of a case is not an event of it");
    let after = again["steps"][0]["draft"]["id"].as_str().unwrap();
    let rest = audit(&world, &format!("/v1/cases/case-1?after={after}")).await.expect(200);
    assert_eq!(rest["log"], Value::Null, "it comes with the first page");
}
