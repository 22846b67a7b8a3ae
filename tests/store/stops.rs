//! The kill switch in the store: what each scope covers, when a stop counts, what is in flight, and what is taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use writ::domain::id::StopId;
use writ::domain::lifecycle::{ApprovalState, CredentialState, DraftState, ExecutionState, StopState};
use writ::domain::money::Money;
use writ::domain::stop::StopScope;
use writ::store::contract::OperationOutcome;
use writ::store::intent::{AfterAbort, NewDraft, Redeemed};
use writ::store::record::{CredentialRecord, ExecutionRecord};
use writ::store::stop::{PlaceStop, Reached, RevokeCredential, StopFilter, Stops};
use writ::store::{Rejection, StoreError};

use super::world::*;

super::over_one_and_two_connections! {
    each_scope_stops_what_it_names_and_nothing_else,
    a_stop_of_one_tenant_stops_nothing_of_another,
    a_stop_on_what_does_not_exist_is_refused,
    a_stop_counts_until_its_moment_and_no_longer,
    a_stop_that_would_be_over_is_refused,
    the_first_send_and_a_repetition_are_stopped_and_what_was_sent_is_still_recorded,
    what_is_in_flight_is_listed_with_its_money,
    placing_and_lifting_repeat,
    what_is_lifted_runs_again_and_another_stop_still_holds,
    an_approval_taken_back_ends_what_it_released,
    an_approval_taken_back_after_sending_says_so_and_nothing_is_sent_again,
    an_approval_whose_outcome_is_final_stays,
    an_approval_that_is_not_granted_stays,
    a_credential_is_taken_back_once,
    after_a_stop_is_answered_nothing_is_sent_that_it_did_not_list,
    an_exchange_or_a_stop_wins,
    an_exchange_or_a_revocation_wins,
    a_send_or_a_revocation_wins,
}

/// The scopes that cover this credential's draft, by their words.
async fn scopes(world: &World, credential: &CredentialRecord) -> Vec<StopScope> {
    let draft = world.draft(credential.draft).await;
    vec![
        StopScope::Credential(credential.id),
        StopScope::Draft(draft.id),
        StopScope::Approval(credential.approval),
        StopScope::Approver("usr_mia".parse().unwrap()),
        StopScope::Operation("refund.create".parse().unwrap()),
        StopScope::Operation("refund.*".parse().unwrap()),
        StopScope::Operation("*".parse().unwrap()),
        StopScope::Tenant(draft.tenant),
        StopScope::Client(draft.maker),
        StopScope::Everything,
    ]
}

async fn each_scope_stops_what_it_names_and_nothing_else(world: World) {
    world
        .store()
        .add_client(world.op(), client(&world, "orchestrator-1"))
        .await
        .unwrap();
    let first = world.issued().await;
    for scope in scopes(&world, &first).await {
        let credential = world.issued().await;
        // What names this one thing is asked of this one thing.
        let scope = match scope {
            StopScope::Credential(_) => StopScope::Credential(credential.id),
            StopScope::Draft(_) => StopScope::Draft(credential.draft),
            StopScope::Approval(_) => StopScope::Approval(credential.approval),
            wide => wide,
        };
        let stop = world.stopped(scope.clone()).await.stop;
        assert_eq!(
            rejection(world.store().redeem(world.op(), world.redeem(&credential)).await),
            Rejection::Stopped(stop.id),
            "{scope}"
        );
        let draft = world.draft(credential.draft).await;
        let issued = world.store().issue(world.op(), world.issue(&draft)).await;
        if matches!(scope, StopScope::Credential(_)) {
            assert_eq!(
                issued.unwrap().value.state,
                CredentialState::Issued,
                "another credential is not covered"
            );
        } else {
            assert_eq!(rejection(issued), Rejection::Stopped(stop.id), "{scope}");
        }
        world.store().lift_stop(world.op(), world.lift(&stop)).await.unwrap();
        let again = world.store().issue(world.op(), world.issue(&draft)).await.unwrap().value;
        world.claim(&again).await;
    }
    // Each of these names something that exists, and not this.
    let (credential, other) = (world.issued().await, world.issued().await);
    world.store().add_client(world.op(), client(&world, "another")).await.unwrap();
    let else_where = writ::store::record::ClientEntry {
        client: writ::domain::principal::Client {
            tenant: "globex".parse().unwrap(),
            ..client(&world, "globex-1").client
        },
        ..client(&world, "globex-1")
    };
    world.store().add_client(world.op(), else_where).await.unwrap();
    for scope in [
        StopScope::Credential(other.id),
        StopScope::Draft(other.draft),
        StopScope::Approval(other.approval),
        StopScope::Approver("usr_tom".parse().unwrap()),
        StopScope::Client("another".parse().unwrap()),
        StopScope::Operation("refund.createall".parse().unwrap()),
        StopScope::Operation("ref.*".parse().unwrap()),
        StopScope::Operation("refund.create.*".parse().unwrap()),
        StopScope::Operation("email.*".parse().unwrap()),
        StopScope::Tenant("globex".parse().unwrap()),
    ] {
        world.stopped(scope).await;
    }
    world.claim(&credential).await;
}

async fn a_stop_of_one_tenant_stops_nothing_of_another(world: World) {
    let theirs = NewDraft {
        tenant: "globex".parse().unwrap(),
        ..world.new_draft()
    };
    let theirs = world.propose(theirs).await;
    let theirs = world.store().decide(world.op(), world.auto_approve(theirs.id)).await.unwrap().value;
    let theirs = world.store().issue(world.op(), world.issue(&theirs)).await.unwrap().value;
    let ours = world.issued().await;
    let bounded = PlaceStop {
        tenant: Some("acme".parse().unwrap()),
        ..world.place(StopScope::Everything)
    };
    let stop = world.store().place_stop(world.op(), bounded).await.unwrap().value.stop;
    assert_eq!(
        rejection(world.store().redeem(world.op(), world.redeem(&ours)).await),
        Rejection::Stopped(stop.id)
    );
    let sent = world.claim(&theirs).await;
    world.store().dispatch(world.op(), world.dispatch(&sent)).await.unwrap();
    // And what it lists is its tenant's.
    let (acme, globex) = ("acme".parse().unwrap(), "globex".parse().unwrap());
    let seen = world.store().stop(stop.id, Some(acme)).await.unwrap().unwrap();
    assert!(seen.in_flight.is_empty(), "{seen:?}");
    assert_eq!(world.store().stop(stop.id, Some(globex)).await.unwrap(), None, "not theirs to see");
    let every = world.stopped(StopScope::Everything).await;
    assert_eq!(every.in_flight.len(), 1);
    let seen = world
        .store()
        .stop(every.stop.id, Some("acme".parse().unwrap()))
        .await
        .unwrap()
        .unwrap();
    assert!(seen.in_flight.is_empty(), "of a stop over all tenants each sees its own: {seen:?}");
}

async fn a_stop_on_what_does_not_exist_is_refused(world: World) {
    let credential = world.issued().await;
    let before = world.events().await.len();
    for scope in [
        StopScope::Credential(world.id(writ::domain::id::CredentialId::generate)),
        StopScope::Draft(world.id(writ::domain::id::DraftId::generate)),
        StopScope::Approval(world.id(writ::domain::id::ApprovalId::generate)),
        StopScope::Approver("usr_nobody".parse().unwrap()),
        StopScope::Client("nobody".parse().unwrap()),
        StopScope::Tenant("nowhere".parse().unwrap()),
    ] {
        let op = world.op();
        assert_eq!(
            rejection(world.store().place_stop(op.clone(), world.place(scope.clone())).await),
            Rejection::NotFound,
            "{scope}"
        );
        assert_eq!(world.store().outcome_of(op.id).await.unwrap(), OperationOutcome::NeverApplied);
    }
    // What is another tenant's does not exist for a stop of this one.
    for scope in [
        StopScope::Credential(credential.id),
        StopScope::Draft(credential.draft),
        StopScope::Approval(credential.approval),
        StopScope::Tenant("acme".parse().unwrap()),
    ] {
        let theirs = PlaceStop {
            tenant: Some("globex".parse().unwrap()),
            ..world.place(scope.clone())
        };
        assert_eq!(
            rejection(world.store().place_stop(world.op(), theirs).await),
            Rejection::NotFound,
            "{scope}"
        );
    }
    let nothing = world.store().lift_stop(
        world.op(),
        writ::store::stop::LiftStop {
            stop: world.id(StopId::generate),
            reason: reason(),
        },
    );
    assert_eq!(rejection(nothing.await), Rejection::NotFound);
    assert_eq!(world.events().await.len(), before, "a refusal wrote an event");
}

async fn a_stop_counts_until_its_moment_and_no_longer(world: World) {
    let short = PlaceStop {
        expires_at: Some(world.now().plus(MINUTE / 2)),
        ..world.place(StopScope::Everything)
    };
    let credential = world.issued().await;
    let stop = world.store().place_stop(world.op(), short).await.unwrap().value.stop;
    world.clock.advance(MINUTE / 2 - std::time::Duration::from_millis(1));
    assert_eq!(
        rejection(world.store().redeem(world.op(), world.redeem(&credential)).await),
        Rejection::Stopped(stop.id)
    );
    assert_eq!(world.store().stops(StopFilter::first(Stops::InForce)).await.unwrap().len(), 1);
    world.clock.advance(std::time::Duration::from_millis(1));
    // No sweep has tidied it away.
    let state = world.store().stop(stop.id, None).await.unwrap().unwrap().stop.state;
    assert_eq!(state, StopState::Active);
    assert!(world.store().stops(StopFilter::first(Stops::InForce)).await.unwrap().is_empty());
    world.claim(&credential).await;
    world.store().sweep(world.op(), 10).await.unwrap();
    let swept = world.store().stop(stop.id, None).await.unwrap().unwrap().stop;
    assert_eq!(swept.state, StopState::Lapsed);
    // Lifting what is over changes nothing.
    let lifted = world.store().lift_stop(world.op(), world.lift(&swept)).await.unwrap().value;
    assert_eq!(lifted, swept);
}

async fn a_stop_that_would_be_over_is_refused(world: World) {
    let over = PlaceStop {
        expires_at: Some(world.now()),
        ..world.place(StopScope::Everything)
    };
    assert_eq!(
        rejection(world.store().place_stop(world.op(), over).await),
        Rejection::StopEnded(world.now())
    );
    assert!(world.store().stops(StopFilter::first(Stops::All)).await.unwrap().is_empty());
}

async fn the_first_send_and_a_repetition_are_stopped_and_what_was_sent_is_still_recorded(world: World) {
    let (claimed, unknown, sent, handed_off) = (
        world.claimed().await,
        world.indeterminate().await,
        world.dispatched().await,
        world.handed_off().await,
    );
    let stop = world.stopped(StopScope::Everything).await.stop;
    for execution in [&claimed, &unknown] {
        let dispatch = world.dispatch(execution);
        assert_eq!(
            rejection(world.store().dispatch(world.op(), dispatch).await),
            Rejection::Stopped(stop.id)
        );
        assert_eq!(world.execution(execution.id).await, *execution, "it stands as it stood");
    }
    let aborted = world.store().abort(world.op(), world.abort(&claimed, AfterAbort::Release)).await;
    assert_eq!(aborted.unwrap().value.state, ExecutionState::Aborted);
    let settled = world.store().settle(world.op(), world.settle(&sent, applied())).await;
    assert_eq!(settled.unwrap().value.state, ExecutionState::Applied);
    let found = world.store().look_up(world.op(), world.look_up(&unknown, applied())).await;
    assert_eq!(found.unwrap().value.state, ExecutionState::Applied);
    let resolve = world.resolve(&handed_off, writ::store::intent::Resolution::NotApplied);
    let resolved = world.store().resolve(world.op(), resolve).await;
    assert_eq!(resolved.unwrap().value.state, ExecutionState::NotApplied);
}

/// A dispatched refund of this much.
async fn refund(world: &World, minor: i64, currency: &str) -> ExecutionRecord {
    let new = NewDraft {
        amount: Some(Money::new(minor, currency.parse().unwrap()).unwrap()),
        ..world.new_draft()
    };
    let draft = world.propose(new).await;
    let draft = world.store().decide(world.op(), world.auto_approve(draft.id)).await.unwrap().value;
    let credential = world.store().issue(world.op(), world.issue(&draft)).await.unwrap().value;
    let execution = world.claim(&credential).await;
    world.store().dispatch(world.op(), world.dispatch(&execution)).await.unwrap().value
}

async fn what_is_in_flight_is_listed_with_its_money(world: World) {
    let usd = refund(&world, 1_234, "usd").await;
    let eur = refund(&world, 99, "eur").await;
    let claimed = world.claimed().await;
    let (unknown, pending) = (world.indeterminate().await, world.settled(pending()).await);
    let handed_off = world.handed_off().await;
    // None of these is in flight.
    world.settled(applied()).await;
    world.settled(not_applied()).await;
    world.issued().await;
    let aborted = world.claimed().await;
    world
        .store()
        .abort(world.op(), world.abort(&aborted, AfterAbort::Release))
        .await
        .unwrap();

    let standing = world.stopped(StopScope::Everything).await;
    let listed: BTreeMap<_, _> = standing.in_flight.iter().map(|open| (open.execution, open)).collect();
    let expected = [&usd, &eur, &claimed, &unknown, &pending, &handed_off];
    assert_eq!(listed.len(), expected.len(), "{standing:?}");
    for execution in expected {
        let open = listed[&execution.id];
        let stands = world.execution(execution.id).await;
        assert_eq!(open.state, stands.state);
        assert_eq!((&open.resource, open.amount), (&execution.resource, execution.amount));
        assert_eq!((open.draft, &open.operation), (execution.draft, &execution.operation));
    }
    let totals = standing.totals();
    let of = |currency: &str| totals[&currency.parse().unwrap()];
    assert_eq!(
        (of("usd").executions, of("usd").minor, of("usd").unsent_minor),
        (5, 1_234 + 4 * 24_000, 24_000)
    );
    assert_eq!((of("eur").executions, of("eur").minor, of("eur").unsent_minor), (1, 99, 0));
    assert_eq!(totals.len(), 2);
    // A narrower stop lists what is within it.
    let narrow = world.stopped(StopScope::Draft(eur.draft)).await;
    assert_eq!(narrow.in_flight.iter().map(|open| open.execution).collect::<Vec<_>>(), [eur.id]);
    let narrow = world.stopped(StopScope::Credential(usd.credential)).await;
    assert_eq!(narrow.in_flight.iter().map(|open| open.execution).collect::<Vec<_>>(), [usd.id]);
    let event = world
        .events()
        .await
        .into_iter()
        .find(|event| event["type"] == "stop.place")
        .unwrap();
    assert_eq!(
        (event["stop"]["scope"].as_str(), event["stop"]["id"].as_str()),
        (Some("everything"), Some(&*standing.stop.id.to_string()))
    );
    assert!(
        event["content_sha256"].is_string() && !event.to_string().contains("looks wrong"),
        "{event}"
    );
}

async fn placing_and_lifting_repeat(world: World) {
    world.dispatched().await;
    let (op, place) = (world.op(), world.place(StopScope::Everything));
    let first = world.store().place_stop(op.clone(), place.clone()).await.unwrap();
    let after = world.events().await.len();
    // What is in flight changes meanwhile; the answer is the one of the moment at which everything was stopped.
    let again = world.store().place_stop(op.clone(), place).await.unwrap();
    assert!(again.replayed);
    assert_eq!((&again.value, again.seq), (&first.value, first.seq));
    let other = world.place(StopScope::Tenant("acme".parse().unwrap()));
    assert_eq!(rejection(world.store().place_stop(op, other).await), Rejection::OperationReused);
    assert_eq!(world.events().await.len(), after);
    let (op, lift) = (world.op(), world.lift(&first.value.stop));
    let lifted = world.store().lift_stop(op.clone(), lift.clone()).await.unwrap();
    assert_eq!(lifted.value.state, StopState::Lifted);
    let again = world.store().lift_stop(op, lift.clone()).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.value, lifted.value);
    // Somebody else lifts it once more: it stays as it ended, and nothing is written.
    let once_more = world.store().lift_stop(world.op(), lift).await.unwrap();
    assert_eq!(once_more.value, lifted.value);
    assert_eq!(world.events().await.len(), after + 1);
}

async fn what_is_lifted_runs_again_and_another_stop_still_holds(world: World) {
    let credential = world.issued().await;
    let (wide, narrow) = (
        world.stopped(StopScope::Everything).await.stop,
        world.stopped(StopScope::Draft(credential.draft)).await.stop,
    );
    world.store().lift_stop(world.op(), world.lift(&wide)).await.unwrap();
    assert_eq!(
        rejection(world.store().redeem(world.op(), world.redeem(&credential)).await),
        Rejection::Stopped(narrow.id)
    );
    world.store().lift_stop(world.op(), world.lift(&narrow)).await.unwrap();
    world.claim(&credential).await;
}

async fn an_approval_taken_back_ends_what_it_released(world: World) {
    let draft = world.approved().await;
    let unspent = world.issued().await;
    let claimed = world.claimed().await;
    for (draft, credential, execution) in [
        (draft.id, None, None),
        (unspent.draft, Some(unspent.id), None),
        (claimed.draft, None, Some(&claimed)),
    ] {
        let approval = world.draft(draft).await.approval.unwrap().id;
        let revoke = writ::store::stop::RevokeApproval {
            approval,
            reason: reason(),
        };
        let op = world.op();
        let first = world.store().revoke_approval(op.clone(), revoke.clone()).await.unwrap();
        let revoked = &first.value;
        assert_eq!((revoked.reached, revoked.draft.state), (Reached::NothingSent, DraftState::Denied));
        let closed = revoked.draft.closed.clone().unwrap();
        assert_eq!(
            (closed.code.as_str(), closed.reason.as_deref()),
            ("approval_revoked", Some(reason().as_str()))
        );
        let approval = revoked.draft.approval.clone().unwrap();
        assert_eq!((approval.state, approval.revocation), (ApprovalState::Revoked, Some(closed)));
        if let Some(credential) = credential {
            let credential = world.store().credential(credential).await.unwrap().unwrap();
            assert_eq!(credential.state, CredentialState::Revoked);
            let redeemed = world.store().redeem(world.op(), world.redeem(&credential)).await;
            assert_eq!(rejection(redeemed), Rejection::CredentialIs(CredentialState::Revoked));
        }
        if let Some(execution) = execution {
            assert_eq!(world.execution(execution.id).await.state, ExecutionState::Aborted);
            let dispatched = world.store().dispatch(world.op(), world.dispatch(execution)).await;
            assert_eq!(rejection(dispatched), Rejection::ExecutionIs(ExecutionState::Aborted));
        }
        let issued = world.store().issue(world.op(), world.issue(&revoked.draft)).await;
        assert_eq!(rejection(issued), Rejection::DraftIs(DraftState::Denied));
        // The same intent, and the same wish anew.
        let events = world.events().await.len();
        let again = world.store().revoke_approval(op, revoke.clone()).await.unwrap();
        assert!(again.replayed);
        assert_eq!(again.value, first.value);
        let anew = world.store().revoke_approval(world.op(), revoke).await.unwrap().value;
        assert_eq!((anew.reached, anew.draft.state), (Reached::NothingSent, DraftState::Denied));
        assert_eq!(world.events().await.len(), events);
    }
}

async fn an_approval_taken_back_after_sending_says_so_and_nothing_is_sent_again(world: World) {
    let sent = [
        world.dispatched().await,
        world.indeterminate().await,
        world.settled(pending()).await,
        world.handed_off().await,
    ];
    for execution in sent {
        let state = world.execution(execution.id).await.state;
        let revoke = world.revoke(&execution).await;
        let revoked = world.store().revoke_approval(world.op(), revoke).await.unwrap().value;
        assert_eq!((revoked.reached, revoked.draft.state), (Reached::Sent, DraftState::Consumed));
        assert_eq!(revoked.draft.execution.unwrap().state, state);
        let approval = revoked.draft.approval.unwrap();
        assert_eq!(approval.state, ApprovalState::Revoked);
        assert_eq!(approval.revocation.unwrap().reason.as_deref(), Some(reason().as_str()));
        if state == ExecutionState::Indeterminate {
            let resent = world.store().dispatch(world.op(), world.dispatch(&execution)).await;
            assert_eq!(rejection(resent), Rejection::ApprovalIs(ApprovalState::Revoked));
        }
        // What it came to is still recorded.
        let recorded = if state == ExecutionState::Dispatched {
            world.store().settle(world.op(), world.settle(&execution, applied())).await
        } else {
            world.store().look_up(world.op(), world.look_up(&execution, applied())).await
        };
        assert_eq!(recorded.unwrap().value.state, ExecutionState::Applied);
    }
}

async fn an_approval_whose_outcome_is_final_stays(world: World) {
    for (settled, state) in [(applied(), ExecutionState::Applied), (not_applied(), ExecutionState::NotApplied)] {
        let execution = world.settled(settled).await;
        let revoke = world.revoke(&execution).await;
        assert_eq!(
            rejection(world.store().revoke_approval(world.op(), revoke).await),
            Rejection::ExecutionIs(state)
        );
        assert_eq!(world.draft(execution.draft).await.approval.unwrap().state, ApprovalState::Granted);
    }
}

async fn an_approval_that_is_not_granted_stays(world: World) {
    let open = world.held(1).await;
    let gone = world.held(1).await;
    let close = world.close(&gone, writ::store::intent::CloseAs::Withdrawn);
    world.store().close(world.op(), close).await.unwrap();
    for (draft, state) in [(open, ApprovalState::Requested), (gone, ApprovalState::Voided)] {
        let revoke = writ::store::stop::RevokeApproval {
            approval: draft.approval.unwrap().id,
            reason: reason(),
        };
        assert_eq!(
            rejection(world.store().revoke_approval(world.op(), revoke).await),
            Rejection::ApprovalIs(state)
        );
    }
}

async fn a_credential_is_taken_back_once(world: World) {
    let credential = world.issued().await;
    let revoke = |credential: &CredentialRecord| RevokeCredential {
        credential: credential.id,
        code: "revoked_by_client".to_owned(),
    };
    let revoked = world
        .store()
        .revoke_credential(world.op(), revoke(&credential))
        .await
        .unwrap()
        .value;
    assert_eq!(revoked.state, CredentialState::Revoked);
    let events = world.events().await.len();
    let again = world
        .store()
        .revoke_credential(world.op(), revoke(&credential))
        .await
        .unwrap()
        .value;
    assert_eq!(again.state, CredentialState::Revoked);
    let spent = world.claimed().await;
    let spent = world.store().credential(spent.credential).await.unwrap().unwrap();
    let events = events + (world.events().await.len() - events);
    let same = world.store().revoke_credential(world.op(), revoke(&spent)).await.unwrap().value;
    assert_eq!(same, spent, "what is spent stays spent");
    assert_eq!(world.events().await.len(), events);
    assert_eq!(
        rejection(world.store().redeem(world.op(), world.redeem(&credential)).await),
        Rejection::CredentialIs(CredentialState::Revoked)
    );
}

async fn after_a_stop_is_answered_nothing_is_sent_that_it_did_not_list(world: World) {
    let (mut sent_before, mut kept_from_sending) = (0, 0);
    // As many rounds as it takes for the stop to fall between a claim and its first send, and after one.
    for _ in 0..60 {
        let (sent, kept) = stopped_in_the_middle(&world).await;
        sent_before += sent;
        kept_from_sending += kept;
        if sent_before > 0 && kept_from_sending > 0 {
            return;
        }
    }
    panic!("the stop met nothing in the middle: {sent_before} sent before it, {kept_from_sending} kept from it");
}

/// Twelve claim and send, each at its own pace, while everything is stopped. How many were sent, and how many had claimed and were refused.
async fn stopped_in_the_middle(world: &World) -> (usize, usize) {
    let mut credentials = Vec::new();
    for _ in 0..12 {
        credentials.push(world.issued().await);
    }
    let from = world.events().await.len() as u64;
    let mut racers = JoinSet::new();
    for (n, credential) in credentials.iter().enumerate() {
        let (store, redeem_op, dispatch_op) = (Arc::clone(world.store()), world.op(), world.op());
        let redeem = world.redeem(credential);
        racers.spawn(async move {
            let claimed = match store.redeem(redeem_op, redeem).await {
                Ok(applied) => applied.value,
                Err(StoreError::Rejected(Rejection::Stopped(_))) => return None,
                other => panic!("{other:?}"),
            };
            let Redeemed::Claimed(execution) = claimed else {
                panic!("{claimed:?}")
            };
            for _ in 0..n * 3 {
                store.execution(execution.id).await.unwrap();
            }
            let dispatch = writ::store::intent::Dispatch {
                execution: execution.id,
                fence: execution.fence,
                request_sha256: writ::domain::digest::Digest::of(b"the body"),
                secrets: writ::domain::secret::SecretsMark::of([]),
                lease: MINUTE,
                send_window: HOUR,
            };
            match store.dispatch(dispatch_op, dispatch).await {
                Ok(applied) => Some((execution.id, Some(applied.seq))),
                Err(StoreError::Rejected(Rejection::Stopped(_))) => Some((execution.id, None)),
                other => panic!("{other:?}"),
            }
        });
    }
    let (store, op, place) = (Arc::clone(world.store()), world.op(), world.place(StopScope::Everything));
    let stopping = tokio::spawn(async move {
        let is_sent = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("\"type\":\"execution.dispatch\"");
        while !store.events(from, 1_000).await.unwrap().iter().any(|event| is_sent(&event.bytes)) {
            tokio::task::yield_now().await;
        }
        store.place_stop(op, place).await.unwrap()
    });
    let claimed: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    let stopped = stopping.await.unwrap();
    let listed: BTreeMap<_, _> = stopped.value.in_flight.iter().map(|open| (open.execution, open.state)).collect();
    let (mut sent, mut kept) = (0, 0);
    for (execution, seq) in claimed {
        if let Some(seq) = seq {
            assert!(
                seq < stopped.seq,
                "{execution} was written down as event {seq}, after the stop of {}",
                stopped.seq
            );
            assert_eq!(
                listed.get(&execution),
                Some(&ExecutionState::Dispatched),
                "{execution} was sent and is not listed"
            );
            sent += 1;
        } else {
            assert_eq!(
                listed.get(&execution),
                Some(&ExecutionState::Claimed),
                "{execution} was claimed and is not listed"
            );
            assert!(world.execution(execution).await.attempts.is_empty());
            kept += 1;
        }
    }
    world.store().lift_stop(world.op(), world.lift(&stopped.value.stop)).await.unwrap();
    (sent, kept)
}

async fn an_exchange_or_a_stop_wins(world: World) {
    let mut won = [0, 0];
    for n in 0..12 {
        let draft = world.approved().await;
        let (store, op, issue) = (Arc::clone(world.store()), world.op(), world.issue(&draft));
        let exchanging = tokio::spawn(async move { store.issue(op, issue).await });
        let (store, op, place) = (Arc::clone(world.store()), world.op(), world.place(StopScope::Draft(draft.id)));
        let stopping = tokio::spawn(async move { store.place_stop(op, place).await.unwrap() });
        let (exchanged, stopped) = (exchanging.await.unwrap(), stopping.await.unwrap());
        match exchanged {
            Ok(issued) => {
                assert!(issued.seq < stopped.seq, "round {n}: issued after the stop was placed");
                let spent = world.store().redeem(world.op(), world.redeem(&issued.value)).await;
                assert_eq!(rejection(spent), Rejection::Stopped(stopped.value.stop.id));
                won[0] += 1;
            }
            other => {
                assert_eq!(rejection(other), Rejection::Stopped(stopped.value.stop.id));
                won[1] += 1;
            }
        }
    }
    assert_eq!(won[0] + won[1], 12);
}

async fn an_exchange_or_a_revocation_wins(world: World) {
    for _ in 0..12 {
        let draft = world.approved().await;
        let (store, op, issue) = (Arc::clone(world.store()), world.op(), world.issue(&draft));
        let exchanging = tokio::spawn(async move { store.issue(op, issue).await });
        let revoke = writ::store::stop::RevokeApproval {
            approval: draft.approval.clone().unwrap().id,
            reason: reason(),
        };
        let (store, op) = (Arc::clone(world.store()), world.op());
        let revoking = tokio::spawn(async move { store.revoke_approval(op, revoke).await.unwrap().value });
        let (exchanged, revoked) = (exchanging.await.unwrap(), revoking.await.unwrap());
        assert_eq!((revoked.reached, revoked.draft.state), (Reached::NothingSent, DraftState::Denied));
        match exchanged {
            Ok(issued) => {
                let dead = world.store().credential(issued.value.id).await.unwrap().unwrap();
                assert_eq!(
                    dead.state,
                    CredentialState::Revoked,
                    "it was issued first and died with the approval"
                );
                assert!(!world.store().is_usable(dead.id).await.unwrap());
            }
            other => assert_eq!(rejection(other), Rejection::DraftIs(DraftState::Denied)),
        }
    }
}

async fn a_send_or_a_revocation_wins(world: World) {
    for _ in 0..12 {
        let claimed = world.claimed().await;
        let (store, op, dispatch) = (Arc::clone(world.store()), world.op(), world.dispatch(&claimed));
        let sending = tokio::spawn(async move { store.dispatch(op, dispatch).await });
        let (store, op, revoke) = (Arc::clone(world.store()), world.op(), world.revoke(&claimed).await);
        let revoking = tokio::spawn(async move { store.revoke_approval(op, revoke).await.unwrap().value });
        let (sent, revoked) = (sending.await.unwrap(), revoking.await.unwrap());
        match sent {
            Ok(_) => {
                assert_eq!(
                    revoked.reached,
                    Reached::Sent,
                    "it was sent, and whoever took the approval back is told"
                );
                assert_eq!(world.execution(claimed.id).await.state, ExecutionState::Dispatched);
            }
            other => {
                assert_eq!(rejection(other), Rejection::ExecutionIs(ExecutionState::Aborted));
                assert_eq!(revoked.reached, Reached::NothingSent);
                assert_eq!(world.draft(claimed.draft).await.state, DraftState::Denied);
            }
        }
    }
}
