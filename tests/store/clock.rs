//! The store's clock: never behind what is written down; one that was set back is told once, and nothing new begins until it is past it.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use writ::domain::approval::Decision;
use writ::domain::lifecycle::{CredentialState, ExecutionState};
use writ::domain::stop::StopScope;
use writ::domain::time::Timestamp;
use writ::store::health::{ClockState, Pause, TOLERANCE};
use writ::store::intent::{AcceptClock, Redeemed, Resolution};
use writ::store::stop::{PlaceStop, StopFilter, Stops};
use writ::store::{Applied, Rejection, StoreError};
use writ::token::CLOCK_SKEW;

use super::world::*;
use crate::support::{ManualClock, SeededEntropy};

super::over_one_and_two_connections! {
    a_clock_that_is_set_back_stops_everything_that_rests_on_time,
    a_step_is_told_once_with_both_times,
    a_step_is_told_once_also_across_a_restart,
    a_second_step_is_told_again,
    what_could_not_be_written_of_the_clock_is_written_by_the_next_step,
    what_came_of_sent_requests_is_recorded_while_the_clock_is_behind,
    looking_up_goes_on_at_its_pace_while_the_clock_is_behind,
    a_lease_is_not_cut_short_by_a_step,
    jitter_stops_nothing_and_no_recorded_time_goes_back,
    what_expired_does_not_come_back_with_the_clock,
}

const TEN_MINUTES: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);

fn is_behind<T: std::fmt::Debug>(answer: Result<Applied<T>, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Paused(Pause::ClockBehind { .. }))), "{answer:?}");
}

/// How often each of the clock's events is in the log.
async fn told(world: &World, event: &str) -> usize {
    world.types_after(0).await.iter().filter(|t| *t == event).count()
}

async fn a_clock_that_is_set_back_stops_everything_that_rests_on_time(world: World) {
    let proposed = world.proposed().await;
    let held = world.held(1).await;
    let doubtful = world.held(1).await;
    let approved = world.approved().await;
    let issued = world.issued().await;
    let claimed = world.claimed().await;
    let indeterminate = world.indeterminate().await;
    world.clock.set_back(TEN_MINUTES);
    let before = world.events().await.len();
    for _ in 0..2 {
        let store = world.store();
        is_behind(store.propose(world.op(), world.new_draft()).await);
        is_behind(store.decide(world.op(), world.auto_approve(proposed.id)).await);
        is_behind(store.decide(world.op(), world.hold(proposed.id, 1)).await);
        is_behind(store.vote(world.op(), world.vote(&held, "mia", Decision::Approve)).await);
        is_behind(store.issue(world.op(), world.issue(&approved)).await);
        is_behind(store.redeem(world.op(), world.redeem(&issued)).await);
        is_behind(store.dispatch(world.op(), world.dispatch(&claimed)).await);
        is_behind(store.dispatch(world.op(), world.dispatch(&indeterminate)).await);
        let behind = ClockState::Behind {
            now: world.now(),
            latest: world.now().plus(TEN_MINUTES),
        };
        assert_eq!(store.health().clock, behind);
    }
    assert_eq!(world.types_after(before).await, ["clock.stepped_back"]);
    // A no can only end something.
    let no = world.vote(&doubtful, "mia", Decision::Deny);
    world.store().vote(world.op(), no).await.unwrap();
    let denied = world.deny(world.draft(proposed.id).await.id);
    world.store().decide(world.op(), denied).await.unwrap();

    // One millisecond before it has caught up, and then.
    world.clock.advance(TEN_MINUTES - Duration::from_millis(1));
    is_behind(world.store().issue(world.op(), world.issue(&approved)).await);
    world.clock.advance(Duration::from_millis(1));
    let store = world.store();
    store.issue(world.op(), world.issue(&approved)).await.unwrap();
    let redeemed = store.redeem(world.op(), world.redeem(&issued)).await.unwrap().value;
    assert!(matches!(redeemed, Redeemed::Claimed(_)));
    store.vote(world.op(), world.vote(&held, "mia", Decision::Approve)).await.unwrap();
    store.dispatch(world.op(), world.dispatch(&claimed)).await.unwrap();
    assert_eq!(store.health().clock, ClockState::Steady);
    for store in &world.stores {
        store.probe().await.unwrap();
    }
    assert_eq!(
        (told(&world, "clock.stepped_back").await, told(&world, "clock.caught_up").await),
        (1, 1)
    );
}

async fn what_could_not_be_written_of_the_clock_is_written_by_the_next_step(world: World) {
    for event in ["clock.stepped_back", "clock.caught_up"] {
        let behind = rusqlite::Connection::open(&world.file).unwrap();
        let trigger =
            format!("CREATE TRIGGER full BEFORE INSERT ON event WHEN NEW.type = '{event}' BEGIN SELECT RAISE(ABORT, 'full'); END");
        behind.execute_batch(&trigger).unwrap();
        if event == "clock.stepped_back" {
            world.clock.set_back(TEN_MINUTES);
        } else {
            world.clock.advance(TEN_MINUTES);
        }
        for _ in 0..2 {
            drop(world.store().probe().await);
        }
        assert_eq!(told(&world, event).await, 0);
        behind.execute_batch("DROP TRIGGER full").unwrap();
        for _ in 0..2 {
            for store in &world.stores {
                store.probe().await.unwrap();
            }
        }
        assert_eq!(told(&world, event).await, 1, "{event}");
    }
}

async fn a_step_is_told_once_with_both_times(world: World) {
    world.approved().await;
    let latest = world.now();
    world.clock.set_back(TEN_MINUTES);
    for _ in 0..4 {
        world.store().probe().await.unwrap();
        world.clock.advance(SECOND);
    }
    let events = world.events().await;
    let event = events.last().unwrap();
    assert_eq!(told(&world, "clock.stepped_back").await, 1);
    assert_eq!(event["type"], "clock.stepped_back", "{event}");
    assert_eq!(event["clock"]["latest"], latest.to_string());
    assert_eq!(event["clock"]["now"], latest.minus(TEN_MINUTES).to_string());
    assert_eq!(event["time"], latest.to_string(), "the log's own time does not go back");
    assert_eq!(event["outcome"], "failed");
}

async fn a_step_is_told_once_also_across_a_restart(mut world: World) {
    let approved = world.approved().await;
    world.clock.set_back(TEN_MINUTES);
    is_behind(world.store().issue(world.op(), world.issue(&approved)).await);
    for _ in 0..3 {
        world.stores = vec![open(&world.file, &world.clock, &world.entropy)];
        world.clock.advance(SECOND);
        is_behind(world.store().issue(world.op(), world.issue(&approved)).await);
    }
    assert_eq!(told(&world, "clock.stepped_back").await, 1);
    // Set back while no process runs: the first one that starts finds out.
    world.clock.advance(TEN_MINUTES);
    world.store().issue(world.op(), world.issue(&approved)).await.unwrap();
    world.stores.clear();
    world.clock.set_back(TEN_MINUTES);
    world.stores = vec![open(&world.file, &world.clock, &world.entropy)];
    is_behind(world.store().issue(world.op(), world.issue(&approved)).await);
    assert_eq!(told(&world, "clock.stepped_back").await, 2);
}

async fn a_second_step_is_told_again(world: World) {
    world.approved().await;
    for step in 1..=3 {
        world.clock.set_back(TEN_MINUTES);
        for _ in 0..4 {
            world.store().probe().await.unwrap();
        }
        assert_eq!(told(&world, "clock.stepped_back").await, step);
    }
}

async fn what_came_of_sent_requests_is_recorded_while_the_clock_is_behind(world: World) {
    let sent = world.dispatched().await;
    let unsent = world.claimed().await;
    let lost = world.indeterminate().await;
    let pending = world.settled(pending()).await;
    let handed = world.handed_off().await;
    world.clock.set_back(TEN_MINUTES);
    let store = world.store();
    let settled = store.settle(world.op(), world.settle(&sent, applied())).await.unwrap().value;
    assert_eq!(settled.state, ExecutionState::Applied);
    let looked = store.look_up(world.op(), world.look_up(&lost, applied())).await.unwrap().value;
    assert_eq!(looked.state, ExecutionState::Applied);
    let failed = store
        .look_up(world.op(), world.look_up(&pending, not_applied()))
        .await
        .unwrap()
        .value;
    assert_eq!(failed.state, ExecutionState::NotApplied);
    let closed = store
        .resolve(world.op(), world.resolve(&handed, Resolution::Applied))
        .await
        .unwrap()
        .value;
    assert_eq!(closed.state, ExecutionState::Applied);
    let abort = world.abort(&unsent, writ::store::intent::AfterAbort::Release);
    assert_eq!(store.abort(world.op(), abort).await.unwrap().value.state, ExecutionState::Aborted);
}

async fn looking_up_goes_on_at_its_pace_while_the_clock_is_behind(world: World) {
    let execution = world.indeterminate().await;
    let next = world.look_up(&execution, lost());
    world.store().look_up(world.op(), next).await.unwrap();
    assert!(world.store().due(9).await.unwrap().is_empty(), "the next look is a minute from now");
    world.clock.set_back(TEN_MINUTES);
    world.store().probe().await.unwrap();
    assert!(world.store().due(9).await.unwrap().is_empty(), "and it still is");
    world.clock.advance(MINUTE);
    let due = world.store().due(9).await.unwrap();
    assert_eq!(due.len(), 1, "not ten minutes later");
    let taken = world.store().take_over(world.op(), world.take_over(&due[0])).await.unwrap().value;
    assert!(world.store().due(9).await.unwrap().is_empty(), "its lease counts");
    let found = world
        .store()
        .look_up(world.op(), world.look_up(&taken, applied()))
        .await
        .unwrap()
        .value;
    assert_eq!(found.state, ExecutionState::Applied);
}

async fn a_lease_is_not_cut_short_by_a_step(world: World) {
    let execution = world.dispatched().await;
    world.clock.advance(SECOND);
    world.store().probe().await.unwrap();
    world.clock.set_back(TEN_MINUTES);
    world.store().probe().await.unwrap();
    world.clock.advance(MINUTE);
    assert!(world.store().due(9).await.unwrap().is_empty(), "whoever holds it may be at work");
    let early = rejection(world.store().take_over(world.op(), world.take_over(&execution)).await);
    assert_eq!(early, Rejection::Leased(execution.lease_until));
    world.clock.advance(TEN_MINUTES);
    let taken = world
        .store()
        .take_over(world.op(), world.take_over(&execution))
        .await
        .unwrap()
        .value;
    assert_eq!(taken.state, ExecutionState::Indeterminate);
}

async fn jitter_stops_nothing_and_no_recorded_time_goes_back(world: World) {
    let mut back = [Duration::from_millis(1), Duration::from_millis(900), SECOND, TOLERANCE]
        .into_iter()
        .cycle();
    for _ in 0..8 {
        world.issued().await;
        world.clock.set_back(back.next().unwrap());
        world.issued().await;
        world.clock.advance(Duration::from_millis(1_500));
    }
    let events = world.events().await;
    let times: Vec<&str> = events.iter().map(|e| e["time"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(told(&world, "clock.stepped_back").await, 0);
    // One millisecond more than the tolerance is a step.
    world.store().probe().await.unwrap();
    world.clock.set_back(TOLERANCE + Duration::from_millis(1));
    let store = world.store();
    is_behind(store.propose(world.op(), world.new_draft()).await);
    assert!(matches!(store.health().clock, ClockState::Behind { .. }));
}

async fn what_expired_does_not_come_back_with_the_clock(world: World) {
    let issued = world.issued().await;
    world.clock.advance(MINUTE);
    world.store().probe().await.unwrap();
    world.clock.set_back(TOLERANCE);
    assert!(world.now() < issued.expires_at);
    let late = rejection(world.store().redeem(world.op(), world.redeem(&issued)).await);
    assert_eq!(late, Rejection::CredentialExpired(issued.expires_at));
    let row = world.store().credential(issued.id).await.unwrap().unwrap();
    assert_eq!(row.state, CredentialState::Issued, "the refusal wrote nothing");
}

/// A process whose clock is `skew` milliseconds off tries to spend a credential `after` milliseconds, by the issuer's clock, after it was
/// issued. Both beat once a second, as processes do. Gives the issuer's time and the expiry, if it succeeds.
async fn redeemed_across(skew: i64, after: i64) -> Option<(Timestamp, Timestamp)> {
    let world = World::with_one_connection().await;
    let issuer = world.store();
    let other = Arc::new(ManualClock::apart(skew));
    let verifier = open(&world.file, &other, &Arc::new(SeededEntropy::new(77)));
    let issued = world.issued().await;
    let mut left = after;
    while left > 0 {
        // The last beats are the ones that count.
        let step = if left > 4_000 { left - 3_000 } else { left.min(1_000) };
        for store in [issuer, &verifier] {
            store.probe().await.unwrap();
        }
        let step_by = Duration::from_millis(step.unsigned_abs());
        world.clock.advance(step_by);
        other.advance(step_by);
        left -= step;
    }
    match verifier.redeem(world.op(), world.redeem(&issued)).await {
        Ok(_) => Some((world.now(), issued.expires_at)),
        Err(StoreError::Paused(Pause::ClockBehind { .. }) | StoreError::Rejected(Rejection::CredentialExpired(_))) => None,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn one_second_apart_works_both_ways_and_more_is_refused_by_whoever_is_behind() {
    for (skew, works) in [
        (0, true),
        (1_000, true),
        (-1_000, true),
        // Whoever is ahead sees the credential end early and no later.
        (30_000, true),
        (-30_000, false),
        (600_000, false),
        (-600_000, false),
    ] {
        assert_eq!(redeemed_across(skew, 3_000).await.is_some(), works, "{skew} ms apart");
    }
    // The one that is ahead stops the one that is behind, whichever of them issues.
    let world = World::with_one_connection().await;
    let approved = world.approved().await;
    let ahead = open(
        &world.file,
        &Arc::new(ManualClock::apart(30_000)),
        &Arc::new(SeededEntropy::new(77)),
    );
    ahead.probe().await.unwrap();
    for _ in 0..5 {
        is_behind(world.store().issue(world.op(), world.issue(&approved)).await);
        ahead.probe().await.unwrap();
    }
    assert_eq!(told(&world, "clock.stepped_back").await, 1, "once, though the other goes on");
    assert_eq!(ahead.health().clock, ClockState::Steady);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn expiry_is_never_extended_by_more_than_the_skew_that_is_allowed(
        skew in prop_oneof![-6_000..6_000_i64, -75_000..-1_000_i64, -700_000..700_000_i64],
        after in prop_oneof![0..70_000_i64, 55_000..70_000_i64, 65_000..130_000_i64],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if let Some((at, expires_at)) = runtime.block_on(redeemed_across(skew, after)) {
            prop_assert!(at < expires_at.plus(CLOCK_SKEW), "{skew} ms apart: spent at {at}, though it ended at {expires_at}");
        }
    }
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// The clock ran a year ahead, was used so, and was corrected.
async fn corrected() -> World {
    let world = World::with_two_connections().await;
    world.clock.advance(YEAR);
    world
}

fn accept(latest: Timestamp) -> AcceptClock {
    AcceptClock { latest }
}

#[tokio::test]
async fn a_clock_is_accepted_only_when_it_is_behind_and_the_latest_time_is_named() {
    let world = corrected().await;
    world.approved().await;
    let latest = world.now();
    let store = world.store();
    let steady = rejection(store.accept_clock(world.op(), accept(latest)).await);
    assert_eq!(steady, Rejection::ClockNotBehind(latest));
    world.clock.set_back(YEAR);
    let before = world.events().await.len();
    let wrong = rejection(store.accept_clock(world.op(), accept(latest.plus(SECOND))).await);
    assert_eq!(wrong, Rejection::LatestIs(latest));
    is_behind(store.propose(world.op(), world.new_draft()).await);
    assert_eq!(world.types_after(before).await, ["clock.stepped_back"]);
}

#[tokio::test]
async fn what_was_begun_by_a_clock_a_year_ahead_ends_when_the_right_one_is_accepted() {
    let world = World::with_two_connections().await;
    let earlier = world.approved().await;
    world.clock.advance(YEAR);
    let held = world.held(1).await;
    let approved = world.approved().await;
    let issued = world.issued().await;
    let claimed = world.claimed().await;
    let sent = world.dispatched().await;
    let doubtful = world.indeterminate().await;
    let latest = world.now();
    world.clock.set_back(YEAR);
    let answer = world.store().accept_clock(world.op(), accept(latest)).await.unwrap().value;
    assert_eq!((answer.drafts, answer.credentials, answer.executions), (3, 1, 1));
    let last = world.events().await.pop().unwrap();
    assert_eq!(
        (&last["type"], &last["actor"]["id"]),
        (&serde_json::json!("clock.accepted"), &serde_json::json!("orchestrator-1"))
    );
    assert_eq!(
        (&last["time"], &last["clock"]["latest"]),
        (&serde_json::json!(world.now().to_string()), &serde_json::json!(latest.to_string()))
    );
    for store in &world.stores {
        store.probe().await.unwrap();
        assert_eq!(store.health().clock, ClockState::Steady);
    }
    // Nothing that a wrong time made good for a year is good.
    let store = world.store();
    assert!(store.vote(world.op(), world.vote(&held, "mia", Decision::Approve)).await.is_err());
    assert!(store.issue(world.op(), world.issue(&approved)).await.is_err());
    assert!(store.redeem(world.op(), world.redeem(&issued)).await.is_err());
    assert!(store.dispatch(world.op(), world.dispatch(&claimed)).await.is_err());
    let until = doubtful.send_until.unwrap();
    let closed = rejection(store.dispatch(world.op(), world.dispatch(&doubtful)).await);
    assert_eq!(
        closed,
        Rejection::SendWindowClosed(until),
        "how much of the window is left is not known"
    );
    // What was sent can still be found out, and its lease does not last a year.
    let due = store.due(9).await.unwrap();
    assert!(due.iter().any(|e| e.id == sent.id), "{due:?}");
    let settled = store.settle(world.op(), world.settle(&sent, applied())).await.unwrap().value;
    assert_eq!(settled.state, ExecutionState::Applied);
    // What was approved before keeps its own times, and new work begins.
    store.issue(world.op(), world.issue(&earlier)).await.unwrap();
    world.claimed().await;
    let later = world.events().await;
    assert_eq!(later.last().unwrap()["time"], world.now().to_string());
}

/// A lapse is final, but a clock that ran ahead must not be a way round a stop.
#[tokio::test]
async fn a_stop_that_a_wrong_clock_ended_is_in_force_again_when_the_right_one_is_accepted() {
    let world = World::with_one_connection().await;
    let credential = world.issued().await;
    let day = PlaceStop {
        expires_at: Some(world.now().plus(Duration::from_secs(24 * 3600))),
        ..world.place(StopScope::Everything)
    };
    let placed = world.store().place_stop(world.op(), day).await.unwrap().value.stop;
    world.clock.advance(YEAR);
    world.store().sweep(world.op(), 10).await.unwrap();
    assert!(world.store().stops(StopFilter::first(Stops::InForce)).await.unwrap().is_empty());
    let latest = world.now();
    world.clock.set_back(YEAR);
    let answer = world.store().accept_clock(world.op(), accept(latest)).await.unwrap().value;
    assert_eq!(answer.stops, 1);
    world.store().probe().await.unwrap();
    let stops = world.store().stops(StopFilter::first(Stops::InForce)).await.unwrap();
    assert_eq!(stops.len(), 1);
    assert_ne!(stops[0].id, placed.id);
    assert_eq!(
        (&stops[0].scope, &stops[0].reason, stops[0].expires_at),
        (&placed.scope, &placed.reason, placed.expires_at)
    );
    let refused = rejection(world.store().redeem(world.op(), world.redeem(&credential)).await);
    assert!(
        matches!(
            refused,
            Rejection::Stopped(_) | Rejection::CredentialExpired(_) | Rejection::CredentialIs(_)
        ),
        "{refused:?}"
    );
    let fresh = world.approved().await;
    assert_eq!(
        rejection(world.store().issue(world.op(), world.issue(&fresh)).await),
        Rejection::Stopped(stops[0].id)
    );
    // Lifted, it stays lifted when the clock was wrong a second time.
    world.store().lift_stop(world.op(), world.lift(&stops[0])).await.unwrap();
    world.clock.advance(YEAR);
    world.store().sweep(world.op(), 10).await.unwrap();
    world.store().probe().await.unwrap();
    let latest = world.now();
    world.clock.set_back(YEAR);
    let answer = world.store().accept_clock(world.op(), accept(latest)).await.unwrap().value;
    assert_eq!(answer.stops, 0);
    assert!(world.store().stops(StopFilter::first(Stops::InForce)).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_short_stop_is_placed_while_the_clock_is_behind() {
    let world = World::with_one_connection().await;
    world.issued().await;
    world.clock.set_back(Duration::from_secs(3 * 3600));
    let short = PlaceStop {
        expires_at: Some(world.now().plus(Duration::from_secs(2 * 3600))),
        ..world.place(StopScope::Everything)
    };
    world.store().place_stop(world.op(), short).await.unwrap();
    let over = PlaceStop {
        expires_at: Some(world.now()),
        ..world.place(StopScope::Everything)
    };
    let refused = rejection(world.store().place_stop(world.op(), over).await);
    assert!(matches!(refused, Rejection::StopEnded(_)), "{refused:?}");
}
