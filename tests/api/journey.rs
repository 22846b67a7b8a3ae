//! The happy paths: allowed by policy, and approved by a person.

use writ::domain::approval::Decision;
use writ::sandbox::demo;

use crate::support::world::World;

#[tokio::test]
async fn a_refund_that_the_policy_allows_runs_once() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    let execution = world.execution(&draft).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    assert_eq!(world.sandbox.refunds(demo::CHARGE).len(), 1);
    assert_eq!(world.writes(), 1);
    let again = world.execute(&token, &draft).await.expect(200);
    assert_eq!(again["id"], execution["id"]);
    assert_eq!(world.writes(), 1, "a repeated call never acts again");
}

#[tokio::test]
async fn a_refund_that_a_person_approves_runs_once() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    world.exchange(&draft).await.refused(400, "approval_pending");
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    let accepted = world.hand_in(&record).await.expect(200);
    assert_eq!(accepted["draft"]["state"], "approved", "{accepted}");
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    assert_eq!(world.execution(&draft).await["state"], "applied");
    assert_eq!(world.sandbox.refunds(demo::CHARGE)[0].amount, 24_000);
}
