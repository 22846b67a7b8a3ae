//! Nothing is decided by what somebody wrote into a draft's row: the document, whose hash everything is bound to, has the last word.

use rusqlite::Connection;
use serde_json::json;
use writ::domain::approval::Decision;
use writ::domain::id::DraftId;
use writ::sandbox::{Fault, FaultKind, demo};
use writ::store::StoreError;

use super::support::{MINUTE, address, exchanged, held, still_good, until};
use crate::support::vandal::without_guards;
use crate::support::world::World;

fn vandal(world: &World, sql: &str, draft: &str) {
    let file = Connection::open(&world.config.store).unwrap();
    without_guards(&file, |db| assert_eq!(db.execute(sql, [draft]).unwrap(), 1, "{sql}"));
}

/// The policy asks for two people above 1,000.00 USD, and would ask for one below.
#[tokio::test]
async fn an_amount_that_was_made_less_in_a_row_lowers_no_requirement() {
    let world = World::new().await;
    let charge = world.charge(300_000, "usd").await;
    let draft = world.propose(World::refund_of(&charge, 200_000, "usd")).await.expect(201);
    let draft = draft["id"].as_str().unwrap().to_owned();
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    vandal(
        &world,
        "UPDATE approval SET requirement = json_set(requirement, '$.all_of', json_array(json_extract(requirement, '$.all_of[0]'))) WHERE draft = ?1",
        &draft,
    );
    vandal(
        &world,
        "UPDATE approval SET requirement = json_set(requirement, '$.all_of[0].count', 1) WHERE draft = ?1",
        &draft,
    );
    vandal(&world, "UPDATE draft SET amount_minor = 1 WHERE id = ?1", &draft);
    world.hand_in(&record).await.refused(500, "internal");
    world.exchange(&draft).await.refused(500, "internal");
    let reply = world.call("review-desk", "GET", &format!("/v1/drafts/{draft}"), None).await;
    reply.refused(500, "internal");
    // Put back, the draft waits for the second person as before.
    vandal(&world, "UPDATE draft SET amount_minor = 200000 WHERE id = ?1", &draft);
    world.hand_in(&record).await;
    world.exchange(&draft).await.refused(400, "policy_denies");
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn an_owner_that_was_changed_in_a_row_lets_nobody_approve_their_own() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let id: DraftId = draft.parse().unwrap();
    let owner = world.app.store.draft(id).await.unwrap().unwrap().owner.unwrap();
    let (approver, _) = &world.made.approvers[0];
    let record = world.record(approver.as_str(), &draft, Decision::Approve).await;
    vandal(&world, "UPDATE draft SET owner = 'usr_zed' WHERE id = ?1", &draft);
    world.hand_in(&record).await.refused(500, "internal");
    world.exchange(&draft).await.refused(500, "internal");
    let file = Connection::open(&world.config.store).unwrap();
    without_guards(&file, |db| {
        db.execute("UPDATE draft SET owner = ?1", [owner.as_str()]).unwrap();
    });
    world.hand_in(&record).await.expect(200);
    let held = exchanged(&world, "support-agent", draft).await;
    still_good(&world, &held).await;
}

/// The same refund beside one whose outcome nobody knows would be the second one.
#[tokio::test]
async fn a_row_that_was_moved_to_another_resource_frees_nothing() {
    for hide in [
        "UPDATE draft SET resource_id = 'ch_elsewhere', settled_at = 1 WHERE id = ?1",
        "UPDATE draft SET backend = 'elsewhere', settled_at = 1 WHERE id = ?1",
    ] {
        let world = World::new().await;
        let first = held(&world).await;
        for (method, path) in [("POST", "/v1/refunds"), ("GET", "/v1/refunds")] {
            world.sandbox.fault(Fault::times(FaultKind::DropBefore, method, path, 3));
        }
        world.execute(&first.token, &first.draft).await.expect(202);
        assert_eq!(world.execution(&first.draft).await["state"], "indeterminate");
        vandal(&world, hide, &first.draft);
        let again = world.propose(World::refund(4_000)).await.expect(201);
        let again = again["id"].as_str().unwrap().to_owned();
        assert_ne!(again, first.draft);
        world.exchange(&again).await.refused(400, "resource_busy");
        let back = if hide.contains("backend") {
            "UPDATE draft SET backend = 'stripe' WHERE id = ?1"
        } else {
            "UPDATE draft SET resource_id = (SELECT resource_id FROM draft WHERE id <> ?1), settled_at = 1 WHERE id = ?1"
        };
        vandal(&world, back, &first.draft);
        until(&world, &first.draft, "applied", 8).await;
        assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    }
}

/// An execution that is called over in its row keeps its resource as long as the log tells of it.
#[tokio::test]
async fn an_execution_that_was_called_over_in_its_row_frees_nothing() {
    let world = World::new().await;
    let first = held(&world).await;
    let second = super::support::refund_on(&world, demo::CHARGE, 3_900, "usd").await;
    world.sandbox.fault(Fault::times(FaultKind::DropBefore, "POST", "/v1/refunds", 1));
    world.execute(&first.token, &first.draft).await.expect(202);
    vandal(&world, "UPDATE execution SET state = 'not_applied' WHERE draft = ?1", &first.draft);
    world.exchange(&second).await.refused(400, "resource_busy");
    vandal(
        &world,
        "UPDATE execution SET state = 'indeterminate' WHERE draft = ?1",
        &first.draft,
    );
    until(&world, &first.draft, "applied", 3).await;
    world.exchange(&second).await.refused(400, "resource_changed");
}

/// The fields of a patch are what the policy is asked about.
#[tokio::test]
async fn fields_that_were_changed_in_a_row_change_no_answer() {
    let world = World::new().await;
    let draft = world.propose(address()).await.expect(201);
    assert_eq!(draft["state"], "approved", "{draft}");
    let draft = draft["id"].as_str().unwrap().to_owned();
    let fields = world.app.store.draft(draft.parse().unwrap()).await.unwrap().unwrap().fields;
    vandal(&world, "UPDATE draft SET fields = '[\"nickname\"]' WHERE id = ?1", &draft);
    world.exchange(&draft).await.refused(500, "internal");
    let back = format!("UPDATE draft SET fields = '{}' WHERE id = ?1", json!(fields));
    vandal(&world, &back, &draft);
    still_good(&world, &exchanged(&world, "support-agent", draft).await).await;
}

#[tokio::test]
async fn every_column_that_repeats_the_document_is_held_against_it() {
    let world = World::new().await;
    let held = held(&world).await;
    let id: DraftId = held.draft.parse().unwrap();
    world.execute(&held.token, &held.draft).await.expect(202);
    for (change, of_execution) in [
        ("tenant = 'other'", true),
        ("maker = 'other'", true),
        ("owner = 'usr_zed'", false),
        ("owner = NULL", false),
        ("on_behalf_of = 'usr_zed'", false),
        ("case_id = 'case-2'", false),
        ("operation = 'shipping_address.update'", true),
        ("consequence = 'read'", false),
        ("resource_type = 'customer'", true),
        ("resource_id = 'ch_elsewhere'", true),
        ("resource_version = 'v9'", true),
        ("amount_minor = 1", true),
        ("currency = 'eur'", true),
        ("idempotency_key = '11111111-1111-8111-8111-111111111111'", true),
        ("backend = 'shop'", true),
        ("supersedes = id", false),
        ("expires_at = expires_at + 86400000", false),
        ("hash = replace(hash, substr(hash, 1, 4), 'AAAA')", false),
    ] {
        let file = Connection::open(&world.config.store).unwrap();
        without_guards(&file, |db| {
            db.execute_batch("CREATE TEMP TABLE was AS SELECT * FROM draft").unwrap();
            assert_eq!(db.execute(&format!("UPDATE draft SET {change}"), []).unwrap(), 1);
        });
        let read = world.app.store.draft(id).await;
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{change}: {read:?}");
        let read = world.app.store.execution_of(id).await;
        assert_eq!(matches!(read, Err(StoreError::Corrupt(_))), of_execution, "{change}: {read:?}");
        without_guards(&file, |db| {
            db.execute_batch("DELETE FROM draft; INSERT INTO draft SELECT * FROM was; DROP TABLE was")
                .unwrap();
        });
        world.app.store.draft(id).await.unwrap();
    }
    world.later(MINUTE).await;
    assert_eq!(world.execution(&held.draft).await["state"], json!("applied"));
}
