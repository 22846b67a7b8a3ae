//! Many at once: one wins, and the others are told what became of it.

use std::sync::Arc;

use tokio::task::JoinSet;
use writ::domain::approval::Decision;
use writ::domain::lifecycle::{ApprovalState, DraftState, ExecutionState};
use writ::store::intent::{CloseAs, Proposed, Redeemed};
use writ::store::{Rejection, StoreError};

use super::world::*;

super::over_one_and_two_connections! {
    of_64_who_redeem_one_claims,
    of_two_last_signatures_one_grants,
    a_vote_or_a_withdrawal_wins,
    of_many_equal_proposals_one_is_stored,
    of_many_exchanges_one_credential_stays_live,
    events_stay_without_gaps_when_all_write_at_once,
}

async fn of_64_who_redeem_one_claims(world: World) {
    let credential = world.issued().await;
    let mut racers = JoinSet::new();
    for _ in 0..64 {
        let (store, op, redeem) = (Arc::clone(world.store()), world.op(), world.redeem(&credential));
        racers.spawn(async move { store.redeem(op, redeem).await.unwrap().value });
    }
    let outcomes = racers.join_all().await;
    let claimed: Vec<_> = outcomes
        .iter()
        .filter_map(|o| if let Redeemed::Claimed(e) = o { Some(e) } else { None })
        .collect();
    assert_eq!(claimed.len(), 1);
    for outcome in &outcomes {
        let (Redeemed::Claimed(execution) | Redeemed::Already(execution)) = outcome;
        assert_eq!(execution.id, claimed[0].id);
    }
    let types = world.types_after(0).await;
    assert_eq!(types.iter().filter(|t| *t == "credential.redeem").count(), 1);
    assert_eq!(types.iter().filter(|t| *t == "execution.claim").count(), 1);
}

async fn of_two_last_signatures_one_grants(world: World) {
    for _ in 0..8 {
        let draft = world.held(1).await;
        let mut racers = JoinSet::new();
        for name in ["mia", "tom"] {
            let (store, op, vote) = (Arc::clone(world.store()), world.op(), world.vote(&draft, name, Decision::Approve));
            racers.spawn(async move { store.vote(op, vote).await });
        }
        let (won, lost): (Vec<_>, Vec<_>) = racers.join_all().await.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 1));
        let lost = lost.into_iter().next().unwrap();
        assert_eq!(rejection(lost), Rejection::ApprovalIs(ApprovalState::Granted));
        assert_eq!(world.draft(draft.id).await.approval.unwrap().records.len(), 1);
    }
}

async fn a_vote_or_a_withdrawal_wins(world: World) {
    for _ in 0..8 {
        let draft = world.held(1).await;
        let (store, op, vote) = (Arc::clone(world.store()), world.op(), world.vote(&draft, "mia", Decision::Deny));
        let voting = tokio::spawn(async move { store.vote(op, vote).await });
        let (store, op, close) = (Arc::clone(world.store()), world.op(), world.close(&draft, CloseAs::Withdrawn));
        let closing = tokio::spawn(async move { store.close(op, close).await });
        let (voted, closed) = (voting.await.unwrap(), closing.await.unwrap());
        let state = world.draft(draft.id).await.state;
        if voted.is_ok() {
            assert_eq!(state, DraftState::Denied);
            assert_eq!(rejection(closed), Rejection::DraftIs(DraftState::Denied));
        } else {
            assert_eq!(state, DraftState::Withdrawn);
            assert_eq!(rejection(voted), Rejection::ApprovalIs(ApprovalState::Voided));
        }
    }
}

async fn of_many_equal_proposals_one_is_stored(world: World) {
    let new = world.new_draft();
    let mut racers = JoinSet::new();
    for _ in 0..16 {
        let same = writ::store::intent::NewDraft {
            content: new.content,
            ..world.new_draft()
        };
        let (store, op) = (Arc::clone(world.store()), world.op());
        racers.spawn(async move { store.propose(op, same).await.unwrap().value });
    }
    let outcomes = racers.join_all().await;
    assert_eq!(outcomes.iter().filter(|o| matches!(o, Proposed::Stored(_))).count(), 1);
    let ids: std::collections::BTreeSet<_> = outcomes
        .iter()
        .map(|o| match o {
            Proposed::Stored(d) | Proposed::Open(d) => d.id,
        })
        .collect();
    assert_eq!(ids.len(), 1);
}

async fn of_many_exchanges_one_credential_stays_live(world: World) {
    let draft = world.approved().await;
    let mut racers = JoinSet::new();
    for _ in 0..16 {
        let (store, op, issue) = (Arc::clone(world.store()), world.op(), world.issue(&draft));
        racers.spawn(async move { store.issue(op, issue).await.unwrap().value });
    }
    let mut usable = 0;
    for credential in racers.join_all().await {
        match world.store().redeem(world.op(), world.redeem(&credential)).await {
            Ok(applied) if matches!(applied.value, Redeemed::Claimed(_)) => usable += 1,
            Ok(_) | Err(StoreError::Rejected(Rejection::CredentialIs(_))) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(usable, 1);
    assert_eq!(
        world.store().execution_of(draft.id).await.unwrap().unwrap().state,
        ExecutionState::Claimed
    );
}

async fn events_stay_without_gaps_when_all_write_at_once(world: World) {
    let before = world.events().await.len();
    let mut racers = JoinSet::new();
    for _ in 0..100 {
        let (store, op, new) = (Arc::clone(world.store()), world.op(), world.new_draft());
        racers.spawn(async move { store.propose(op, new).await.unwrap().seq });
    }
    let mut numbers = racers.join_all().await;
    numbers.sort_unstable();
    let expected: Vec<u64> = (before as u64..before as u64 + 100).collect();
    assert_eq!(numbers, expected);
    assert_eq!(world.events().await.len(), before + 100);
}
