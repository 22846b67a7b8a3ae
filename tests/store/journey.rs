//! What a draft goes through when nobody is in the way.

use writ::domain::lifecycle::{ApprovalState, CredentialState, DraftState, ExecutionState};
use writ::store::contract::Redeemed;

use super::world::*;

super::over_one_and_two_connections! {
    a_refund_that_people_approve_runs_once,
}

async fn a_refund_that_people_approve_runs_once(world: World) {
    let draft = world.held(2).await;
    assert_eq!(draft.state, DraftState::AwaitingApproval);
    let first = world.approve(&draft).await;
    assert_eq!(first.state, DraftState::AwaitingApproval, "one of two signed");
    let vote = world.vote(&draft, "tom", writ::domain::approval::Decision::Approve);
    let approved = world.store().vote(world.op(), vote).await.unwrap().value;
    assert_eq!(approved.state, DraftState::Approved);
    let approval = approved.approval.clone().unwrap();
    assert_eq!(approval.state, ApprovalState::Granted);
    assert_eq!(approval.execute_by, Some(world.now().plus(HOUR)));
    assert_eq!(approval.records.len(), 2);

    let credential = world.store().issue(world.op(), world.issue(&approved)).await.unwrap().value;
    assert_eq!(credential.state, CredentialState::Issued);
    let claimed = world.claim(&credential).await;
    assert_eq!((claimed.state, claimed.fence), (ExecutionState::Claimed, 1));
    let again = world.store().redeem(world.op(), world.redeem(&credential)).await.unwrap().value;
    assert_eq!(again, Redeemed::Already(Box::new(claimed.clone())));

    let dispatched = world.store().dispatch(world.op(), world.dispatch(&claimed)).await.unwrap().value;
    assert_eq!(dispatched.state, ExecutionState::Dispatched);
    assert_eq!(dispatched.send_until, Some(world.now().plus(23 * HOUR)));
    let done = world
        .store()
        .settle(world.op(), world.settle(&dispatched, applied()))
        .await
        .unwrap()
        .value;
    assert_eq!((done.state, done.reference.as_deref()), (ExecutionState::Applied, Some("re_1")));
    let draft = world.draft(draft.id).await;
    assert_eq!(draft.state, DraftState::Consumed);
    assert_eq!(draft.execution.unwrap().state, ExecutionState::Applied);

    assert_eq!(
        world.types_after(2).await,
        [
            "draft.propose",
            "draft.hold",
            "approval.request",
            "approval.record_counted",
            "approval.record_counted",
            "approval.grant",
            "draft.approve",
            "credential.issue",
            "credential.redeem",
            "draft.consume",
            "execution.claim",
            "execution.dispatch",
            "execution.confirm_applied",
        ]
    );
}
