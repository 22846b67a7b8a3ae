//! Every reason for which a transition does not take place; whoever is refused has written nothing.

use std::future::Future;

use writ::domain::approval::Decision;
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::id::{ApprovalId, DraftId, ExecutionId};
use writ::domain::lifecycle::{ApprovalState, CredentialState, DraftState, ExecutionState};
use writ::store::contract::{
    AfterAbort, CloseAs, Dispatch, Follow, Issue, LookUp, NewDraft, OperationOutcome, Redeem, Resolution, Settle, Vote,
};
use writ::store::record::{AttemptResult, SignedRecord};
use writ::store::{Applied, Rejection, StoreError};

use super::world::*;

super::over_one_and_two_connections! {
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
    a_vote_for_another_hash_or_card_does_not_count,
    a_vote_on_a_decided_card_is_told_so,
    a_vote_after_the_deadline_does_not_count,
    nobody_approves_their_own_draft,
    nobody_answers_twice,
    a_record_is_good_for_one_card,
    a_revoked_or_unknown_key_does_not_count,
    a_record_whose_own_window_is_over_does_not_approve,
    a_draft_without_a_card_takes_no_votes,
    a_credential_needs_an_approved_draft_and_its_hash,
    a_credential_needs_every_record_that_counted,
    a_credential_is_refused_once_a_key_that_signed_is_revoked,
    a_credential_is_refused_after_the_execution_window,
    a_credential_is_refused_after_the_drafts_time,
    a_credential_that_would_be_over_is_not_issued,
    a_resource_with_an_open_outcome_is_not_touched_again,
    two_credentials_for_one_resource_are_not_both_redeemed,
    a_credential_is_good_only_for_what_was_signed,
    a_credential_is_not_redeemed_after_its_time,
    a_replaced_credential_is_not_redeemed,
    a_credential_of_a_withdrawn_draft_is_not_redeemed,
    a_credential_is_not_redeemed_twice_after_an_abort,
    a_lease_is_not_taken_while_it_runs,
    a_settled_execution_is_not_taken_over,
    whoever_lost_the_lease_writes_nothing,
    nothing_is_sent_from_a_state_that_may_not,
    nothing_is_sent_for_the_first_time_after_the_drafts_time,
    nothing_is_resent_after_the_window,
    nothing_is_resent_when_no_window_was_given,
    other_bytes_are_never_sent_with_the_same_key,
    an_answer_is_recorded_once,
    an_answer_to_an_attempt_that_was_not_made_is_refused,
    an_earlier_attempt_in_doubt_forbids_not_applied,
    an_answer_that_proves_nothing_forbids_not_applied,
    a_look_up_changes_only_what_is_open,
    only_what_is_lost_is_handed_off_or_resolved,
    only_what_was_done_is_reopened,
}

async fn refused<T: std::fmt::Debug>(world: &World, attempt: impl Future<Output = Result<Applied<T>, StoreError>>) -> Rejection {
    let before = world.events().await.len();
    let rejection = rejection(attempt.await);
    assert_eq!(world.events().await.len(), before, "{rejection} wrote an event");
    rejection
}

/// Checks one refusal: the transition, its input, and why.
macro_rules! refuses {
    ($world:ident, $transition:ident($($input:expr),*), $why:expr) => {{
        let op = $world.op();
        let attempt = $world.store().$transition(op.clone(), $($input),*);
        assert_eq!(refused(&$world, attempt).await, $why);
        // A refusal leaves no operation behind: asked for, the id is cancelled.
        assert_eq!($world.store().outcome_of(op.id).await.unwrap(), OperationOutcome::NeverApplied);
    }};
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
    refuses!(world, reopen(world.reopen(&execution)), Rejection::NotFound);
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
    assert_eq!(again.value, writ::store::contract::Proposed::Open(Box::new(draft)));
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

async fn a_vote_for_another_hash_or_card_does_not_count(world: World) {
    let draft = world.held(1).await;
    let vote = Vote {
        hash: DraftHash::of_canonical(b"{}"),
        ..world.vote(&draft, "mia", Decision::Approve)
    };
    refuses!(world, vote(vote), Rejection::HashMismatch);
    let vote = Vote {
        nonce: "BBBBBBBBBBBBBBBBBBBBBB".to_owned(),
        ..world.vote(&draft, "mia", Decision::Approve)
    };
    refuses!(world, vote(vote), Rejection::NonceMismatch);
    assert_eq!(world.draft(draft.id).await, draft);
}

async fn a_vote_on_a_decided_card_is_told_so(world: World) {
    let draft = world.held(1).await;
    world.approve(&draft).await;
    let late = world.vote(&draft, "tom", Decision::Deny);
    refuses!(world, vote(late), Rejection::ApprovalIs(ApprovalState::Granted));

    let draft = world.held(2).await;
    let deny = world.vote(&draft, "mia", Decision::Deny);
    world.store().vote(world.op(), deny).await.unwrap();
    let late = world.vote(&draft, "tom", Decision::Approve);
    refuses!(world, vote(late), Rejection::ApprovalIs(ApprovalState::Refused));

    let draft = world.held(1).await;
    world
        .store()
        .close(world.op(), world.close(&draft, CloseAs::Withdrawn))
        .await
        .unwrap();
    let late = world.vote(&draft, "tom", Decision::Approve);
    refuses!(world, vote(late), Rejection::ApprovalIs(ApprovalState::Voided));
}

async fn a_vote_after_the_deadline_does_not_count(world: World) {
    let draft = world.held(1).await;
    let deadline = draft.approval.clone().unwrap().expires_at;
    world.clock.advance(4 * HOUR);
    let vote = world.vote(&draft, "mia", Decision::Approve);
    refuses!(world, vote(vote), Rejection::ApprovalExpired(deadline));
    let vote = world.vote(&draft, "mia", Decision::Deny);
    refuses!(world, vote(vote), Rejection::ApprovalExpired(deadline));
}

async fn nobody_approves_their_own_draft(world: World) {
    for name in ["olga", "ben"] {
        world.store().add_approver(world.op(), world.approver(name)).await.unwrap();
        let draft = world.held(1).await;
        let vote = world.vote(&draft, name, Decision::Approve);
        refuses!(world, vote(vote), Rejection::SelfApproval(format!("usr_{name}").parse().unwrap()));
    }
    let new = NewDraft {
        maker: "usr_mia".parse().unwrap(),
        ..world.new_draft()
    };
    let draft = world.propose(new).await;
    let draft = world.store().decide(world.op(), world.hold(draft.id, 1)).await.unwrap().value;
    let vote = world.vote(&draft, "mia", Decision::Approve);
    refuses!(world, vote(vote), Rejection::SelfApproval("usr_mia".parse().unwrap()));
}

async fn nobody_answers_twice(world: World) {
    let draft = world.held(2).await;
    let vote = world.vote(&draft, "mia", Decision::Approve);
    world.store().vote(world.op(), vote.clone()).await.unwrap();
    let answered = Rejection::AlreadyAnswered("usr_mia".parse().unwrap());
    refuses!(world, vote(vote.clone()), answered);
    refuses!(world, vote(world.vote(&draft, "mia", Decision::Deny)), answered);
    let tom = world.vote(&draft, "tom", Decision::Approve);
    world.store().vote(world.op(), tom).await.unwrap();
    refuses!(world, vote(vote), answered);
}

async fn a_record_is_good_for_one_card(world: World) {
    let first = world.held(2).await;
    let vote = world.vote(&first, "mia", Decision::Approve);
    world.store().vote(world.op(), vote.clone()).await.unwrap();
    let reused = Rejection::RecordReused(vote.record.id);
    let second = world.held(2).await;
    let elsewhere = Vote {
        record: vote.record.clone(),
        ..world.vote(&second, "mia", Decision::Approve)
    };
    refuses!(world, vote(elsewhere), reused);
    let altered = SignedRecord {
        jws: "header.other.signature".to_owned(),
        ..vote.record.clone()
    };
    refuses!(
        world,
        vote(Vote {
            record: altered,
            ..vote.clone()
        }),
        reused
    );
    let third = world.proposed().await;
    let mut allow = world.auto_approve(third.id);
    if let Follow::AutoApprove { record, .. } = &mut allow.then {
        record.id = vote.record.id;
    }
    refuses!(world, decide(allow), reused);
}

async fn a_revoked_or_unknown_key_does_not_count(world: World) {
    let draft = world.held(1).await;
    let mut unknown = world.vote(&draft, "mia", Decision::Approve);
    unknown.record.kid = "k-nobody".parse().unwrap();
    refuses!(world, vote(unknown), Rejection::KeyRevoked("k-nobody".parse().unwrap()));
    let mut of_another = world.vote(&draft, "mia", Decision::Approve);
    of_another.record.kid = "k-tom".parse().unwrap();
    refuses!(world, vote(of_another), Rejection::KeyRevoked("k-tom".parse().unwrap()));
    world.store().revoke_key(world.op(), "k-mia".parse().unwrap()).await.unwrap();
    refuses!(
        world,
        vote(world.vote(&draft, "mia", Decision::Approve)),
        Rejection::KeyRevoked("k-mia".parse().unwrap())
    );
    world.store().revoke_approver(world.op(), "usr_tom".parse().unwrap()).await.unwrap();
    refuses!(
        world,
        vote(world.vote(&draft, "tom", Decision::Deny)),
        Rejection::KeyRevoked("k-tom".parse().unwrap())
    );
}

async fn a_record_whose_own_window_is_over_does_not_approve(world: World) {
    let draft = world.held(1).await;
    let mut vote = world.vote(&draft, "mia", Decision::Approve);
    vote.record.execute_by = Some(world.now());
    refuses!(world, vote(vote), Rejection::WindowExpired(world.now()));
}

async fn a_draft_without_a_card_takes_no_votes(world: World) {
    let draft = world.proposed().await;
    let vote = world.vote(&draft, "mia", Decision::Approve);
    refuses!(world, vote(vote), Rejection::DraftIs(DraftState::Proposed));
}

async fn a_credential_needs_an_approved_draft_and_its_hash(world: World) {
    let held = world.held(1).await;
    refuses!(world, issue(world.issue(&held)), Rejection::DraftIs(DraftState::AwaitingApproval));
    let approved = world.approved().await;
    let issue = Issue {
        hash: held.hash,
        ..world.issue(&approved)
    };
    refuses!(world, issue(issue), Rejection::HashMismatch);
    world
        .store()
        .close(world.op(), world.close(&approved, CloseAs::Stale))
        .await
        .unwrap();
    refuses!(world, issue(world.issue(&approved)), Rejection::DraftIs(DraftState::Stale));
}

async fn a_credential_needs_every_record_that_counted(world: World) {
    let draft = world.held(2).await;
    world.approve(&draft).await;
    let tom = world.vote(&draft, "tom", Decision::Approve);
    let draft = world.store().vote(world.op(), tom).await.unwrap().value;
    let all = world.issue(&draft);
    refuses!(
        world,
        issue(Issue {
            records: vec![],
            ..all.clone()
        }),
        Rejection::NotFound
    );
    refuses!(
        world,
        issue(Issue {
            records: all.records[..1].to_vec(),
            ..all.clone()
        }),
        Rejection::NotFound
    );
    let foreign = world.record("mia", Decision::Approve).id;
    let with_foreign = all.records.iter().copied().chain([foreign]).collect();
    refuses!(
        world,
        issue(Issue {
            records: with_foreign,
            ..all.clone()
        }),
        Rejection::NotFound
    );
    world.store().issue(world.op(), all).await.unwrap();
}

async fn a_credential_is_refused_once_a_key_that_signed_is_revoked(world: World) {
    let draft = world.approved().await;
    world.store().revoke_key(world.op(), "k-mia".parse().unwrap()).await.unwrap();
    refuses!(world, issue(world.issue(&draft)), Rejection::KeyRevoked("k-mia".parse().unwrap()));

    let draft = world.held(1).await;
    let tom = world.vote(&draft, "tom", Decision::Approve);
    let draft = world.store().vote(world.op(), tom).await.unwrap().value;
    world.store().revoke_approver(world.op(), "usr_tom".parse().unwrap()).await.unwrap();
    refuses!(world, issue(world.issue(&draft)), Rejection::KeyRevoked("k-tom".parse().unwrap()));
}

async fn a_credential_is_refused_after_the_execution_window(world: World) {
    let draft = world.approved().await;
    let until = draft.approval.clone().unwrap().execute_by.unwrap();
    world.clock.advance(HOUR);
    refuses!(world, issue(world.issue(&draft)), Rejection::WindowExpired(until));
}

async fn a_credential_is_refused_after_the_drafts_time(world: World) {
    let draft = world.approved().await;
    world.clock.advance(24 * HOUR);
    refuses!(world, issue(world.issue(&draft)), Rejection::DraftExpired(draft.expires_at));
}

async fn a_credential_that_would_be_over_is_not_issued(world: World) {
    let draft = world.approved().await;
    let issue = Issue {
        expires_at: world.now(),
        ..world.issue(&draft)
    };
    refuses!(world, issue(issue), Rejection::CredentialExpired(world.now()));
}

async fn a_resource_with_an_open_outcome_is_not_touched_again(world: World) {
    let execution = world.indeterminate().await;
    let new = NewDraft {
        resource: execution.resource.clone(),
        ..world.new_draft()
    };
    let draft = world.propose(new).await;
    let draft = world.store().decide(world.op(), world.auto_approve(draft.id)).await.unwrap().value;
    let busy = Rejection::ResourceBusy {
        execution: execution.id,
        state: ExecutionState::Indeterminate,
    };
    refuses!(world, issue(world.issue(&draft)), busy);
    // Tenants share the backend's things; what is called the same at another backend is another thing.
    let proposed = async |tenant: &str, backend: &str| {
        let draft = NewDraft {
            resource: execution.resource.clone(),
            tenant: tenant.parse().unwrap(),
            backend: backend.parse().unwrap(),
            ..world.new_draft()
        };
        let draft = world.propose(draft).await;
        world.store().decide(world.op(), world.auto_approve(draft.id)).await.unwrap().value
    };
    let same_thing = proposed("other", execution.backend.as_str()).await;
    let busy = Rejection::ResourceBusy {
        execution: execution.id,
        state: ExecutionState::Indeterminate,
    };
    refuses!(world, issue(world.issue(&same_thing)), busy);
    let another_thing = proposed("other", "elsewhere").await;
    world.store().issue(world.op(), world.issue(&another_thing)).await.unwrap();
    world
        .store()
        .look_up(world.op(), world.look_up(&execution, applied()))
        .await
        .unwrap();
    world.store().issue(world.op(), world.issue(&draft)).await.unwrap();
}

async fn two_credentials_for_one_resource_are_not_both_redeemed(world: World) {
    let first = world.new_draft();
    let second = NewDraft {
        resource: first.resource.clone(),
        ..world.new_draft()
    };
    let mut credentials = Vec::new();
    for new in [first, second] {
        let draft = world.propose(new).await;
        let draft = world.store().decide(world.op(), world.auto_approve(draft.id)).await.unwrap().value;
        credentials.push(world.store().issue(world.op(), world.issue(&draft)).await.unwrap().value);
    }
    let execution = world.claim(&credentials[0]).await;
    let busy = Rejection::ResourceBusy {
        execution: execution.id,
        state: ExecutionState::Claimed,
    };
    refuses!(world, redeem(world.redeem(&credentials[1])), busy);
    let credential = world.store().credential(credentials[1].id).await.unwrap().unwrap();
    assert_eq!(credential.state, CredentialState::Issued, "the refusal spent nothing");
}

async fn a_credential_is_good_only_for_what_was_signed(world: World) {
    let credential = world.issued().await;
    let other = world.issued().await;
    let good = world.redeem(&credential);
    for altered in [
        Redeem {
            draft: other.draft,
            ..good.clone()
        },
        Redeem {
            approval: other.approval,
            ..good.clone()
        },
        Redeem {
            hash: other.hash,
            ..good.clone()
        },
        Redeem {
            audience: "https://elsewhere.example".parse().unwrap(),
            ..good.clone()
        },
        Redeem {
            approval: world.id(ApprovalId::generate),
            ..good.clone()
        },
        Redeem {
            draft: world.id(DraftId::generate),
            ..good.clone()
        },
    ] {
        refuses!(world, redeem(altered), Rejection::GrantMismatch);
    }
    world.claim(&credential).await;
    let altered = Redeem { hash: other.hash, ..good };
    refuses!(world, redeem(altered), Rejection::GrantMismatch);
}

async fn a_credential_is_not_redeemed_after_its_time(world: World) {
    let credential = world.issued().await;
    world.clock.advance(MINUTE);
    refuses!(
        world,
        redeem(world.redeem(&credential)),
        Rejection::CredentialExpired(credential.expires_at)
    );
    world.store().sweep(world.op(), 10).await.unwrap();
    refuses!(
        world,
        redeem(world.redeem(&credential)),
        Rejection::CredentialIs(CredentialState::Lapsed)
    );
}

async fn a_replaced_credential_is_not_redeemed(world: World) {
    let earlier = world.issued().await;
    let draft = world.draft(earlier.draft).await;
    let later = world.store().issue(world.op(), world.issue(&draft)).await.unwrap().value;
    refuses!(
        world,
        redeem(world.redeem(&earlier)),
        Rejection::CredentialIs(CredentialState::Revoked)
    );
    world.claim(&later).await;
}

async fn a_credential_of_a_withdrawn_draft_is_not_redeemed(world: World) {
    let credential = world.issued().await;
    let draft = world.draft(credential.draft).await;
    world
        .store()
        .close(world.op(), world.close(&draft, CloseAs::Withdrawn))
        .await
        .unwrap();
    refuses!(
        world,
        redeem(world.redeem(&credential)),
        Rejection::CredentialIs(CredentialState::Revoked)
    );
    assert_eq!(world.store().execution_of(draft.id).await.unwrap(), None);
}

async fn a_credential_is_not_redeemed_twice_after_an_abort(world: World) {
    let credential = world.issued().await;
    let execution = world.claim(&credential).await;
    world
        .store()
        .abort(world.op(), world.abort(&execution, AfterAbort::Release))
        .await
        .unwrap();
    refuses!(
        world,
        redeem(world.redeem(&credential)),
        Rejection::CredentialIs(CredentialState::Redeemed)
    );
}

async fn a_lease_is_not_taken_while_it_runs(world: World) {
    for execution in [world.claimed().await, world.dispatched().await] {
        let until = execution.lease_until;
        refuses!(world, take_over(world.take_over(&execution)), Rejection::Leased(until));
    }
}

async fn a_settled_execution_is_not_taken_over(world: World) {
    for settled in [applied(), not_applied()] {
        let execution = world.settled(settled).await;
        refuses!(
            world,
            take_over(world.take_over(&execution)),
            Rejection::ExecutionIs(execution.state)
        );
    }
}

async fn whoever_lost_the_lease_writes_nothing(world: World) {
    let fenced = Rejection::Fenced { given: 1, current: 2 };
    let old = world.claimed().await;
    world.clock.advance(MINUTE);
    world.store().take_over(world.op(), world.take_over(&old)).await.unwrap();
    refuses!(world, take_over(world.take_over(&old)), fenced);
    refuses!(world, dispatch(world.dispatch(&old)), fenced);
    refuses!(world, abort(world.abort(&old, AfterAbort::Release)), fenced);

    let old = world.dispatched().await;
    world.clock.advance(MINUTE);
    world.store().take_over(world.op(), world.take_over(&old)).await.unwrap();
    refuses!(world, settle(world.settle(&old, applied())), fenced);
    refuses!(world, look_up(world.look_up(&old, applied())), fenced);
    refuses!(world, look_up(world.look_up(&old, lost())), fenced);
    refuses!(world, hand_off(world.hand_off(&old)), fenced);
    refuses!(world, dispatch(world.dispatch(&old)), fenced);
}

async fn nothing_is_sent_from_a_state_that_may_not(world: World) {
    for execution in [
        world.dispatched().await,
        world.settled(applied()).await,
        world.settled(pending()).await,
        world.handed_off().await,
    ] {
        let is = Rejection::ExecutionIs(execution.state);
        refuses!(world, dispatch(world.dispatch(&execution)), is);
        refuses!(world, abort(world.abort(&execution, AfterAbort::Release)), is);
    }
}

async fn nothing_is_sent_for_the_first_time_after_the_drafts_time(world: World) {
    let execution = world.claimed().await;
    let draft = world.draft(execution.draft).await;
    world.clock.advance(HOUR);
    let until = draft.approval.unwrap().execute_by.unwrap();
    refuses!(world, dispatch(world.dispatch(&execution)), Rejection::WindowExpired(until));
    world.clock.advance(23 * HOUR);
    refuses!(
        world,
        dispatch(world.dispatch(&execution)),
        Rejection::DraftExpired(draft.expires_at)
    );
    assert_eq!(world.execution(execution.id).await.first_sent_at, None);
}

async fn nothing_is_resent_after_the_window(world: World) {
    let execution = world.indeterminate().await;
    let until = execution.send_until.unwrap();
    world.clock.advance(23 * HOUR);
    let longer = Dispatch {
        send_window: 100 * HOUR,
        ..world.dispatch(&execution)
    };
    refuses!(world, dispatch(longer), Rejection::SendWindowClosed(until));
}

async fn nothing_is_resent_when_no_window_was_given(world: World) {
    let claimed = world.claimed().await;
    let once = Dispatch {
        send_window: std::time::Duration::ZERO,
        ..world.dispatch(&claimed)
    };
    let sent = world.store().dispatch(world.op(), once).await.unwrap().value;
    let lost = world.store().settle(world.op(), world.settle(&sent, lost())).await.unwrap().value;
    refuses!(world, dispatch(world.dispatch(&lost)), Rejection::SendWindowClosed(world.now()));
}

async fn other_bytes_are_never_sent_with_the_same_key(world: World) {
    let execution = world.indeterminate().await;
    let other = Dispatch {
        request_sha256: Digest::of(b"another body"),
        ..world.dispatch(&execution)
    };
    refuses!(world, dispatch(other), Rejection::HashMismatch);
}

async fn an_answer_is_recorded_once(world: World) {
    let execution = world.dispatched().await;
    world.store().settle(world.op(), world.settle(&execution, applied())).await.unwrap();
    refuses!(
        world,
        settle(world.settle(&execution, lost())),
        Rejection::ExecutionIs(ExecutionState::Applied)
    );
    let execution = world.settled(pending()).await;
    refuses!(
        world,
        settle(world.settle(&execution, applied())),
        Rejection::ExecutionIs(ExecutionState::Pending)
    );
}

async fn an_answer_to_an_attempt_that_was_not_made_is_refused(world: World) {
    let first = world.indeterminate().await;
    let second = world.store().dispatch(world.op(), world.dispatch(&first)).await.unwrap().value;
    for attempt in [0, 1, 3] {
        let settle = Settle {
            attempt,
            ..world.settle(&second, applied())
        };
        refuses!(world, settle(settle), Rejection::NotFound);
    }
}

async fn an_earlier_attempt_in_doubt_forbids_not_applied(world: World) {
    let first = world.indeterminate().await;
    let second = world.store().dispatch(world.op(), world.dispatch(&first)).await.unwrap().value;
    refuses!(world, settle(world.settle(&second, not_applied())), Rejection::AttemptInDoubt(1));

    let sent = world.dispatched().await;
    world.clock.advance(MINUTE);
    let taken = world.store().take_over(world.op(), world.take_over(&sent)).await.unwrap().value;
    let second = world.store().dispatch(world.op(), world.dispatch(&taken)).await.unwrap().value;
    refuses!(world, settle(world.settle(&second, not_applied())), Rejection::AttemptInDoubt(1));
    let settled = world.store().settle(world.op(), world.settle(&second, lost())).await.unwrap().value;
    assert_eq!(settled.state, ExecutionState::Indeterminate);
}

async fn an_answer_that_proves_nothing_forbids_not_applied(world: World) {
    let sent = world.dispatched().await;
    let settle = world.settle(&sent, not_applied());
    let unproven = Settle {
        result: AttemptResult {
            conclusive: false,
            ..settle.result.clone()
        },
        ..settle
    };
    refuses!(world, settle(unproven), Rejection::AttemptInDoubt(1));
}

async fn a_look_up_changes_only_what_is_open(world: World) {
    for execution in [
        world.claimed().await,
        world.dispatched().await,
        world.settled(applied()).await,
        world.settled(not_applied()).await,
    ] {
        for found in [applied(), pending(), not_applied(), lost()] {
            let is = Rejection::ExecutionIs(execution.state);
            refuses!(world, look_up(world.look_up(&execution, found)), is);
        }
    }
    let execution = world.indeterminate().await;
    let stale = LookUp {
        fence: 9,
        ..world.look_up(&execution, applied())
    };
    refuses!(world, look_up(stale), Rejection::Fenced { given: 9, current: 1 });
}

async fn only_what_is_lost_is_handed_off_or_resolved(world: World) {
    for execution in [world.claimed().await, world.dispatched().await, world.settled(applied()).await] {
        let is = Rejection::ExecutionIs(execution.state);
        refuses!(world, hand_off(world.hand_off(&execution)), is);
        refuses!(world, resolve(world.resolve(&execution, Resolution::NotApplied)), is);
    }
    let execution = world.handed_off().await;
    refuses!(
        world,
        hand_off(world.hand_off(&execution)),
        Rejection::ExecutionIs(ExecutionState::HandedOff)
    );
}

async fn only_what_was_done_is_reopened(world: World) {
    for execution in [
        world.claimed().await,
        world.dispatched().await,
        world.indeterminate().await,
        world.settled(not_applied()).await,
    ] {
        refuses!(world, reopen(world.reopen(&execution)), Rejection::ExecutionIs(execution.state));
    }
}
