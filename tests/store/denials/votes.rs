//! Every reason for which a vote is refused.

use writ::domain::approval::Decision;
use writ::domain::digest::DraftHash;
use writ::domain::lifecycle::{ApprovalState, DraftState};
use writ::store::Rejection;
use writ::store::contract::OperationOutcome;
use writ::store::intent::{CloseAs, Follow, NewDraft, Vote};
use writ::store::record::SignedRecord;

use super::super::world::*;
use super::{refused, refuses};

super::super::over_one_and_two_connections! {
    a_vote_for_another_hash_or_card_does_not_count,
    a_vote_on_a_decided_card_is_told_so,
    a_vote_after_the_deadline_does_not_count,
    nobody_approves_their_own_draft,
    nobody_answers_twice,
    a_record_is_good_for_one_card,
    a_revoked_or_unknown_key_does_not_count,
    a_record_whose_own_window_is_over_does_not_approve,
    a_draft_without_a_card_takes_no_votes,
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
