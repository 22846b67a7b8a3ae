//! The same intent again gives the first result again and writes nothing; a lost answer can be asked for.

use writ::audit::{Actor, ActorKind, EventBody, EventKind, Note};
use writ::domain::approval::Decision;
use writ::domain::digest::Digest;
use writ::domain::id::OperationId;
use writ::store::Rejection;
use writ::store::contract::OperationOutcome;
use writ::store::intent::{AfterAbort, CloseAs, Proposed, Resolution};

use super::world::*;

super::over_one_and_two_connections! {
    drafts_and_votes_repeat,
    credentials_and_claims_repeat,
    attempts_and_outcomes_repeat,
    administration_repeats,
    a_lost_answer_can_be_asked_for,
    an_answer_that_wrote_nothing_is_asked_anew,
}

/// The operation twice, then its id with other input.
macro_rules! repeats {
    ($world:ident, $transition:ident($($input:expr),*), other: $other:ident($($different:expr),*)) => {{
        let op = $world.op();
        let first = $world.store().$transition(op.clone(), $($input.clone()),*).await.unwrap();
        assert!(!first.replayed);
        let after = $world.events().await;
        assert_eq!(first.seq, after.len() as u64 - 1, "the number is its last event's");
        $world.clock.advance(std::time::Duration::from_secs(1));
        let again = $world.store().$transition(op.clone(), $($input.clone()),*).await.unwrap();
        assert!(again.replayed);
        assert_eq!((&again.value, again.seq), (&first.value, first.seq));
        assert_eq!(rejection($world.store().$other(op.clone(), $($different),*).await), Rejection::OperationReused);
        assert_eq!($world.store().outcome_of(op.id).await.unwrap(), OperationOutcome::Applied { seq: first.seq });
        assert_eq!($world.events().await.len(), after.len(), "a repetition wrote an event");
        first.value
    }};
}

fn event() -> EventBody {
    EventBody::new(EventKind::Note(Note::AuthFailed), Actor::new(ActorKind::Anonymous, "unknown"))
}

async fn drafts_and_votes_repeat(world: World) {
    let new = world.new_draft();
    let stored = repeats!(world, propose(new), other: propose(world.new_draft()));
    assert!(matches!(stored, Proposed::Stored(_)));
    let other = world.proposed().await;
    let hold = world.hold(new.id, 1);
    let held = repeats!(world, decide(hold), other: decide(world.hold(new.id, 2)));
    let allow = world.auto_approve(other.id);
    let approved = repeats!(world, decide(allow), other: decide(world.deny(other.id)));
    let vote = world.vote(&held, "mia", Decision::Approve);
    repeats!(world, vote(vote), other: vote(world.vote(&held, "mia", Decision::Deny)));
    let close = world.close(&approved, CloseAs::Withdrawn);
    repeats!(world, close(close), other: close(world.close(&approved, CloseAs::Stale)));
}

async fn credentials_and_claims_repeat(world: World) {
    let other = world.dispatched().await;
    let draft = world.approved().await;
    let issue = world.issue(&draft);
    let credential = repeats!(world, issue(issue), other: issue(world.issue(&draft)));
    let redeem = world.redeem(&credential);
    repeats!(world, redeem(redeem), other: redeem(world.redeem(&credential)));
    let execution = world.execution(redeem.execution).await;
    world.clock.advance(MINUTE);
    let take = world.take_over(&execution);
    let taken = repeats!(world, take_over(take), other: take_over(world.take_over(&other)));
    let abort = world.abort(&taken, AfterAbort::Release);
    repeats!(world, abort(abort), other: abort(world.abort(&taken, AfterAbort::Stale)));
}

async fn attempts_and_outcomes_repeat(world: World) {
    let other = world.claimed().await;
    let claimed = world.claimed().await;
    let dispatch = world.dispatch(&claimed);
    let sent = repeats!(world, dispatch(dispatch), other: dispatch(world.dispatch(&other)));
    let settle = world.settle(&sent, lost());
    let unknown = repeats!(world, settle(settle), other: settle(world.settle(&sent, applied())));
    let look_up = world.look_up(&unknown, lost());
    repeats!(world, look_up(look_up), other: look_up(world.look_up(&unknown, applied())));
    let hand_off = world.hand_off(&unknown);
    let handed = repeats!(world, hand_off(hand_off), other: hand_off(world.hand_off(&other)));
    let resolve = world.resolve(&handed, Resolution::Applied);
    repeats!(world, resolve(resolve), other: resolve(world.resolve(&handed, Resolution::NotApplied)));
}

async fn administration_repeats(world: World) {
    let (client, other) = (client(&world, "c-1"), client(&world, "c-2"));
    let id = client.client.id.clone();
    repeats!(world, add_client(client), other: add_client(other));
    repeats!(world, replace_secret(id, Digest::of(b"new")), other: replace_secret(id.clone(), Digest::of(b"newer")));
    let may = client.client.permissions.clone();
    repeats!(world, replace_permissions(id, may), other: replace_permissions(id.clone(), Vec::new()));
    repeats!(world, revoke_client(id), other: revoke_client("c-2".parse().unwrap()));
    let approver = world.approver("zoe");
    repeats!(world, add_approver(approver), other: add_approver(world.approver("max")));
    let (zoe, rows) = (
        "usr_zoe".parse::<writ::domain::name::PrincipalId>().unwrap(),
        world.approver("mia").approver.authority,
    );
    repeats!(world, replace_authority(zoe, rows), other: replace_authority(zoe.clone(), Vec::new()));
    let kid: writ::domain::name::KeyId = "k-zoe".parse().unwrap();
    repeats!(world, revoke_key(kid), other: revoke_key("k-mia".parse().unwrap()));
    let who: writ::domain::name::PrincipalId = "usr_zoe".parse().unwrap();
    repeats!(world, revoke_approver(who), other: revoke_approver("usr_mia".parse().unwrap()));
    let note = event();
    repeats!(world, note(note), other: note(event().denied("no_such_client")));
    world.proposed().await;
    world.clock.advance(24 * HOUR);
    let limit = 10_u32;
    repeats!(world, sweep(limit), other: sweep(11));
}

async fn a_lost_answer_can_be_asked_for(world: World) {
    let op = world.op();
    let applied = world.store().propose(op.clone(), world.new_draft()).await.unwrap();
    assert_eq!(
        world.store().outcome_of(op.id).await.unwrap(),
        OperationOutcome::Applied { seq: applied.seq }
    );
    let never = world.id(OperationId::generate);
    let before = world.events().await.len();
    assert_eq!(world.store().outcome_of(never).await.unwrap(), OperationOutcome::NeverApplied);
    assert_eq!(world.events().await.len(), before);
}

async fn an_answer_that_wrote_nothing_is_asked_anew(world: World) {
    let new = world.new_draft();
    let first = world.propose(new.clone()).await;
    let again = writ::store::intent::NewDraft {
        content: new.content,
        ..world.new_draft()
    };
    let op = world.op();
    let open = world.store().propose(op.clone(), again.clone()).await.unwrap();
    assert_eq!(open.value, Proposed::Open(Box::new(first.clone())));
    world
        .store()
        .close(world.op(), world.close(&first, CloseAs::Withdrawn))
        .await
        .unwrap();
    let stored = world.store().propose(op, again).await.unwrap();
    assert!(!stored.replayed && matches!(stored.value, Proposed::Stored(_)));
}
