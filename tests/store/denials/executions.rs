//! Every reason for which an execution is refused.

use writ::domain::digest::Digest;
use writ::domain::lifecycle::ExecutionState;
use writ::domain::secret::SecretsMark;
use writ::store::Rejection;
use writ::store::contract::OperationOutcome;
use writ::store::intent::{AfterAbort, Dispatch, LookUp, Resolution, Settle};
use writ::store::record::{AttemptResult, LookUpRecord};

use super::super::world::*;
use super::{refused, refuses};

super::super::over_one_and_two_connections! {
    a_lease_is_not_taken_while_it_runs,
    a_settled_execution_is_not_taken_over,
    whoever_lost_the_lease_writes_nothing,
    nothing_is_sent_from_a_state_that_may_not,
    nothing_is_sent_for_the_first_time_after_the_drafts_time,
    nothing_is_sent_once_its_signer_or_its_client_is_revoked,
    nothing_is_resent_after_the_window,
    nothing_is_resent_when_no_window_was_given,
    other_bytes_are_never_sent_with_the_same_key,
    what_may_have_been_sent_is_never_sent_with_other_secrets,
    an_answer_is_recorded_once,
    an_answer_to_an_attempt_that_was_not_made_is_refused,
    an_earlier_attempt_in_doubt_forbids_not_applied,
    an_answer_that_proves_nothing_forbids_not_applied,
    an_attempt_in_doubt_forbids_not_applied_by_the_attempts_alone,
    a_look_up_changes_only_what_is_open,
    only_what_is_lost_is_handed_off_or_resolved,
    what_nobody_doubts_is_not_resolved,
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

async fn nothing_is_sent_once_its_signer_or_its_client_is_revoked(world: World) {
    let (claimed, unknown) = (world.claimed().await, world.indeterminate().await);
    world.store().revoke_key(world.op(), "k-mia".parse().unwrap()).await.unwrap();
    for execution in [&claimed, &unknown] {
        let revoked = Rejection::KeyRevoked("k-mia".parse().unwrap());
        refuses!(world, dispatch(world.dispatch(execution)), revoked);
    }
    let maker = world.draft(claimed.draft).await.maker;
    world.store().add_client(world.op(), client(&world, maker.as_str())).await.unwrap();
    world.store().revoke_client(world.op(), maker.clone()).await.unwrap();
    for execution in [&claimed, &unknown] {
        refuses!(world, dispatch(world.dispatch(execution)), Rejection::ClientRevoked(maker.clone()));
    }
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

async fn what_may_have_been_sent_is_never_sent_with_other_secrets(world: World) {
    let rotated = |execution| Dispatch {
        secrets: SecretsMark::of([&b"sk_2"[..]]),
        ..world.dispatch(execution)
    };
    let unknown = world.indeterminate().await;
    refuses!(world, dispatch(rotated(&unknown)), Rejection::SecretsChanged(1));
    world.store().dispatch(world.op(), world.dispatch(&unknown)).await.unwrap();
    // What certainly never arrived is nowhere, so it may go out with any.
    let claimed = world.claimed().await;
    let sent = world.store().dispatch(world.op(), world.dispatch(&claimed)).await.unwrap().value;
    let unsent = Settle {
        result: AttemptResult {
            conclusive: true,
            ..world.settle(&sent, lost()).result
        },
        ..world.settle(&sent, lost())
    };
    let unsent = world.store().settle(world.op(), unsent).await.unwrap().value;
    let again = world.store().dispatch(world.op(), rotated(&unsent)).await.unwrap().value;
    assert_eq!(again.attempts[1].secrets, Some(SecretsMark::of([&b"sk_2"[..]])));
}

async fn an_attempt_in_doubt_forbids_not_applied_by_the_attempts_alone(world: World) {
    let unknown = world.indeterminate().await;
    let by_attempts = world.look_up(&unknown, not_applied());
    let by_attempts = LookUp {
        result: LookUpRecord {
            step: LookUpRecord::BY_ATTEMPTS.to_owned(),
            ..by_attempts.result
        },
        ..by_attempts
    };
    refuses!(world, look_up(by_attempts), Rejection::AttemptInDoubt(1));
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

async fn what_nobody_doubts_is_not_resolved(world: World) {
    for execution in [world.claimed().await, world.dispatched().await, world.settled(not_applied()).await] {
        for resolution in [Resolution::Applied, Resolution::NotApplied] {
            let is = Rejection::ExecutionIs(execution.state);
            refuses!(world, resolve(world.resolve(&execution, resolution)), is);
        }
    }
}
