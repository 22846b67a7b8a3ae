//! Every reason for which an id, an operation id or a draft is refused.

use writ::domain::approval::Decision;
use writ::domain::digest::Digest;
use writ::domain::id::ExecutionId;
use writ::domain::lifecycle::DraftState;
use writ::store::Rejection;
use writ::store::contract::OperationOutcome;
use writ::store::intent::{AfterAbort, CloseAs, Follow, Issue, NewDraft, Redeem, Resolution, Vote};

use super::super::world::*;
use super::{refused, refuses};

super::super::over_one_and_two_connections! {
    what_does_not_exist_is_not_found,
    a_taken_id_is_refused_by_name,
    a_request_key_stands_for_one_request,
    an_operation_id_stands_for_one_input,
    a_cancelled_operation_never_takes_place,
    a_draft_is_decided_once,
    a_draft_whose_time_is_over_is_not_decided,
    only_the_makers_own_open_draft_is_superseded,
    an_ended_draft_is_not_ended_again,
    only_an_approved_draft_becomes_stale,
    bytes_that_do_not_have_the_hash_are_not_stored,
}

async fn what_does_not_exist_is_not_found(world: World) {
    let draft = world.held(1).await;
    let other = world.new_draft();
    let mut execution = world.dispatched().await;
    execution.id = world.id(ExecutionId::generate);
    refuses!(world, decide(world.deny(other.id)), Rejection::NotFound);
    let mut close = world.close(&draft, CloseAs::Withdrawn);
    close.draft = other.id;
    refuses!(world, close(close), Rejection::NotFound);
    let vote = Vote {
        draft: other.id,
        ..world.vote(&draft, "mia", Decision::Approve)
    };
    refuses!(world, vote(vote), Rejection::NotFound);
    let issue = Issue {
        draft: other.id,
        ..world.issue(&draft)
    };
    refuses!(world, issue(issue), Rejection::NotFound);
    let credential = world.issued().await;
    let redeem = Redeem {
        credential: world.issue(&draft).credential,
        ..world.redeem(&credential)
    };
    refuses!(world, redeem(redeem), Rejection::NotFound);
    refuses!(world, take_over(world.take_over(&execution)), Rejection::NotFound);
    refuses!(world, abort(world.abort(&execution, AfterAbort::Release)), Rejection::NotFound);
    refuses!(world, dispatch(world.dispatch(&execution)), Rejection::NotFound);
    refuses!(world, settle(world.settle(&execution, applied())), Rejection::NotFound);
    refuses!(world, look_up(world.look_up(&execution, applied())), Rejection::NotFound);
    refuses!(world, hand_off(world.hand_off(&execution)), Rejection::NotFound);
    refuses!(world, resolve(world.resolve(&execution, Resolution::Applied)), Rejection::NotFound);
}

async fn a_taken_id_is_refused_by_name(world: World) {
    let draft = world.proposed().await;
    let new = NewDraft {
        id: draft.id,
        ..world.new_draft()
    };
    refuses!(world, propose(new), Rejection::Exists(draft.id.to_string()));

    let held = world.held(1).await;
    let taken = held.approval.unwrap().id;
    let mut hold = world.hold(draft.id, 1);
    if let Follow::Hold { approval, .. } = &mut hold.then {
        *approval = taken;
    }
    refuses!(world, decide(hold), Rejection::Exists(taken.to_string()));

    let credential = world.issued().await;
    let approved = world.approved().await;
    let issue = Issue {
        credential: credential.id,
        ..world.issue(&approved)
    };
    refuses!(world, issue(issue), Rejection::Exists(credential.id.to_string()));

    let execution = world.claim(&credential).await;
    let credential = world.issued().await;
    let redeem = Redeem {
        execution: execution.id,
        ..world.redeem(&credential)
    };
    refuses!(world, redeem(redeem), Rejection::Exists(execution.id.to_string()));
}

async fn a_request_key_stands_for_one_request(world: World) {
    let keyed = |request: &[u8]| NewDraft {
        request_key: Some(("key-1".to_owned(), Digest::of(request))),
        ..world.new_draft()
    };
    let draft = world.propose(keyed(b"one")).await;
    refuses!(world, propose(keyed(b"two")), Rejection::RequestKeyReused);
    let again = world.store().propose(world.op(), keyed(b"one")).await.unwrap();
    assert_eq!(again.value, writ::store::intent::Proposed::Open(Box::new(draft)));
}

async fn an_operation_id_stands_for_one_input(world: World) {
    let op = world.op();
    let first = world.proposed().await;
    let second = world.proposed().await;
    world.store().decide(op.clone(), world.deny(first.id)).await.unwrap();
    let other_input = world.store().decide(op.clone(), world.deny(second.id));
    assert_eq!(refused(&world, other_input).await, Rejection::OperationReused);
    let other_transition = world.store().close(op, world.close(&second, CloseAs::Withdrawn));
    assert_eq!(refused(&world, other_transition).await, Rejection::OperationReused);
}

async fn a_cancelled_operation_never_takes_place(world: World) {
    let draft = world.proposed().await;
    let op = world.op();
    assert_eq!(world.store().outcome_of(op.id).await.unwrap(), OperationOutcome::NeverApplied);
    let late = world.store().decide(op.clone(), world.deny(draft.id));
    assert_eq!(refused(&world, late).await, Rejection::OperationCancelled);
    assert_eq!(world.store().outcome_of(op.id).await.unwrap(), OperationOutcome::NeverApplied);
    assert_eq!(world.draft(draft.id).await.state, DraftState::Proposed);
}

async fn a_draft_is_decided_once(world: World) {
    let draft = world.held(1).await;
    let is = Rejection::DraftIs(DraftState::AwaitingApproval);
    refuses!(world, decide(world.deny(draft.id)), is);
    refuses!(world, decide(world.hold(draft.id, 1)), is);
    refuses!(world, decide(world.auto_approve(draft.id)), is);
}

async fn a_draft_whose_time_is_over_is_not_decided(world: World) {
    let new = world.new_draft();
    let over = new.expires_at;
    refuses!(
        world,
        propose(NewDraft {
            expires_at: world.now(),
            ..world.new_draft()
        }),
        Rejection::DraftExpired(world.now())
    );
    let draft = world.propose(new).await;
    let mut hold = world.hold(draft.id, 1);
    if let Follow::Hold { expires_at, .. } = &mut hold.then {
        *expires_at = world.now();
    }
    refuses!(world, decide(hold), Rejection::ApprovalExpired(world.now()));
    let mut allow = world.auto_approve(draft.id);
    if let Follow::AutoApprove { execute_by, .. } = &mut allow.then {
        *execute_by = world.now();
    }
    refuses!(world, decide(allow), Rejection::WindowExpired(world.now()));
    world.clock.advance(24 * HOUR);
    refuses!(world, decide(world.hold(draft.id, 1)), Rejection::DraftExpired(over));
    refuses!(world, decide(world.auto_approve(draft.id)), Rejection::DraftExpired(over));
}

async fn only_the_makers_own_open_draft_is_superseded(world: World) {
    let draft = world.proposed().await;
    let by_another = NewDraft {
        maker: "orchestrator-2".parse().unwrap(),
        supersedes: Some(draft.id),
        ..world.new_draft()
    };
    refuses!(world, propose(by_another), Rejection::NotFound);
    let of_another_tenant = NewDraft {
        tenant: "other".parse().unwrap(),
        supersedes: Some(draft.id),
        ..world.new_draft()
    };
    refuses!(world, propose(of_another_tenant), Rejection::NotFound);
    let execution = world.claimed().await;
    let consumed = NewDraft {
        supersedes: Some(execution.draft),
        ..world.new_draft()
    };
    refuses!(world, propose(consumed), Rejection::DraftIs(DraftState::Consumed));
}

async fn an_ended_draft_is_not_ended_again(world: World) {
    let draft = world.proposed().await;
    world
        .store()
        .close(world.op(), world.close(&draft, CloseAs::Withdrawn))
        .await
        .unwrap();
    refuses!(
        world,
        close(world.close(&draft, CloseAs::Withdrawn)),
        Rejection::DraftIs(DraftState::Withdrawn)
    );
    refuses!(world, decide(world.hold(draft.id, 1)), Rejection::DraftIs(DraftState::Withdrawn));
    let execution = world.claimed().await;
    let consumed = world.draft(execution.draft).await;
    refuses!(
        world,
        close(world.close(&consumed, CloseAs::Withdrawn)),
        Rejection::DraftIs(DraftState::Consumed)
    );
}

async fn only_an_approved_draft_becomes_stale(world: World) {
    let draft = world.held(1).await;
    let is = Rejection::DraftIs(DraftState::AwaitingApproval);
    refuses!(world, close(world.close(&draft, CloseAs::Stale)), is);
}

async fn bytes_that_do_not_have_the_hash_are_not_stored(world: World) {
    let new = NewDraft {
        document: b"{}".to_vec(),
        ..world.new_draft()
    };
    refuses!(world, propose(new), Rejection::HashMismatch);
}
