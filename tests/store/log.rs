//! The log: one event for every change of state, none for anything else, and every field that is known.

use std::collections::{BTreeMap, BTreeSet};

use writ::audit::{Actor, ActorKind, EventBody, EventKind, Note};
use writ::domain::approval::Decision;
use writ::domain::json::Json;
use writ::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};
use writ::domain::stop::StopScope;
use writ::store::intent::{AfterAbort, CloseAs, NewDraft, Resolution, Settled};
use writ::store::stop::PlaceStop;

use super::world::*;

super::over_one_and_two_connections! {
    every_change_of_state_has_exactly_one_event,
    an_event_says_everything_that_is_known,
    a_backends_odd_characters_do_not_keep_its_answer_from_being_recorded,
    a_note_is_written_as_it_was_given,
}

/// Brings about every transition that a store can make.
async fn everything(world: &World) {
    world.indeterminate().await;
    let draft = world.proposed().await;
    let allowed = world.store().decide(world.op(), world.auto_approve(draft.id)).await.unwrap().value;
    world.store().issue(world.op(), world.issue(&allowed)).await.unwrap();
    world.store().issue(world.op(), world.issue(&allowed)).await.unwrap();
    let newer = NewDraft {
        supersedes: Some(allowed.id),
        ..world.new_draft()
    };
    let newer = world.propose(newer).await;
    world.store().decide(world.op(), world.deny(newer.id)).await.unwrap();
    let held = world.held(2).await;
    let deny = world.vote(&held, "mia", Decision::Deny);
    world.store().vote(world.op(), deny).await.unwrap();
    let withdrawn = world.held(1).await;
    world
        .store()
        .close(world.op(), world.close(&withdrawn, CloseAs::Withdrawn))
        .await
        .unwrap();

    // Aborted, claimed again, reclaimed, sent, lost, resent, lost to another proxy.
    let execution = world.claimed().await;
    world
        .store()
        .abort(world.op(), world.abort(&execution, AfterAbort::Release))
        .await
        .unwrap();
    let draft = world.draft(execution.draft).await;
    let credential = world.store().issue(world.op(), world.issue(&draft)).await.unwrap().value;
    let again = world.claim(&credential).await;
    assert_eq!(
        (again.id, again.fence),
        (execution.id, 2),
        "one execution a draft, with a newer fencing token"
    );
    world.clock.advance(MINUTE);
    let taken = world.store().take_over(world.op(), world.take_over(&again)).await.unwrap().value;
    let sent = world.store().dispatch(world.op(), world.dispatch(&taken)).await.unwrap().value;
    let unknown = world.store().settle(world.op(), world.settle(&sent, lost())).await.unwrap().value;
    let resent = world.store().dispatch(world.op(), world.dispatch(&unknown)).await.unwrap().value;
    assert_eq!(resent.attempts.len(), 2);
    world.clock.advance(MINUTE);
    let lost_track = world.store().take_over(world.op(), world.take_over(&resent)).await.unwrap().value;
    assert_eq!(lost_track.code.as_deref(), Some("lease_expired"));

    let stale = world.claimed().await;
    world
        .store()
        .abort(world.op(), world.abort(&stale, AfterAbort::Stale))
        .await
        .unwrap();

    world.settled(not_applied()).await;
    world.settled(applied()).await;
    let bounced = world.settled(pending()).await;
    world
        .store()
        .look_up(world.op(), world.look_up(&bounced, not_applied()))
        .await
        .unwrap();
    for (found, held_off) in [(applied(), false), (not_applied(), true), (pending(), false)] {
        let execution = if held_off {
            world.handed_off().await
        } else {
            world.indeterminate().await
        };
        world.store().look_up(world.op(), world.look_up(&execution, lost())).await.unwrap();
        world.store().look_up(world.op(), world.look_up(&execution, found)).await.unwrap();
    }
    for found in [applied(), not_applied()] {
        let execution = world.settled(pending()).await;
        world
            .store()
            .look_up(world.op(), world.look_up(&execution, pending()))
            .await
            .unwrap();
        world.store().look_up(world.op(), world.look_up(&execution, found)).await.unwrap();
    }
    for resolution in [Resolution::Applied, Resolution::NotApplied] {
        let execution = world.handed_off().await;
        world
            .store()
            .resolve(world.op(), world.resolve(&execution, resolution))
            .await
            .unwrap();
    }

    // Taken back before and after something was sent; stopped, resumed, and stopped for a minute.
    for execution in [world.claimed().await, world.dispatched().await] {
        world
            .store()
            .revoke_approval(world.op(), world.revoke(&execution).await)
            .await
            .unwrap();
    }
    let stop = world.stopped(StopScope::Everything).await.stop;
    world.store().lift_stop(world.op(), world.lift(&stop)).await.unwrap();
    let short = PlaceStop {
        expires_at: Some(world.now().plus(MINUTE)),
        ..world.place(StopScope::Everything)
    };
    world.store().place_stop(world.op(), short).await.unwrap();
    world.clock.advance(MINUTE);

    world.held(1).await;
    world.issued().await;
    world.clock.advance(2 * MINUTE);
    let swept = world.store().sweep(world.op(), 100).await.unwrap().value;
    assert_eq!((swept.drafts, swept.credentials), (0, 1));
    world.proposed().await;
    world.clock.advance(24 * HOUR);
    let swept = world.store().sweep(world.op(), 100).await.unwrap().value;
    assert_eq!(swept.drafts, 3, "one held, one issued, one proposed");
}

async fn every_change_of_state_has_exactly_one_event(world: World) {
    everything(&world).await;
    let mut legal = BTreeMap::new();
    macro_rules! legal {
        ($transition:ident) => {
            for t in $transition::ALL {
                let from: Vec<&str> = t.from().iter().map(|s| s.as_str()).collect();
                legal.insert(t.event(), (from, t.to().as_str()));
            }
        };
    }
    legal!(DraftTransition);
    legal!(ApprovalTransition);
    legal!(CredentialTransition);
    legal!(ExecutionTransition);
    legal!(StopTransition);

    // Each event starts where the one before it ended: none is missing, none is there twice.
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for event in world.events().await {
        let kind = event["type"].as_str().unwrap();
        let Some((from, to)) = legal.get(kind) else {
            assert!(event["state"].is_null(), "{kind} changes no state");
            continue;
        };
        seen.insert(kind.to_owned());
        let entity = kind.split('.').next().unwrap();
        let id = event[entity]["id"].as_str().unwrap().to_owned();
        let was = event["state"]["from"].as_str();
        assert_eq!(states.get(&id).map(String::as_str), was, "{kind} of {id}");
        assert!(
            was.map_or(!states.contains_key(&id), |was| from.contains(&was)),
            "{kind} from {was:?}"
        );
        assert_eq!(event["state"]["to"], **to, "{kind}");
        states.insert(id, (*to).to_owned());
    }
    let connection = rusqlite::Connection::open(&world.file).unwrap();
    for table in ["draft", "approval", "credential", "execution", "stop"] {
        let mut statement = connection.prepare(&format!("SELECT id, state FROM {table}")).unwrap();
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .unwrap();
        for (id, state) in rows.map(Result::unwrap) {
            assert_eq!(states.remove(&id), Some(state), "{table} {id}");
        }
    }
    assert!(states.is_empty(), "events about what is not there: {states:?}");
    let unseen: Vec<_> = legal.keys().filter(|kind| !seen.contains(**kind)).collect();
    assert!(unseen.is_empty(), "{unseen:?} did not happen");
}

async fn an_event_says_everything_that_is_known(world: World) {
    let execution = world.settled(applied()).await;
    let draft = world.draft(execution.draft).await;
    let events = world.events().await;
    let of = |kind: &str| events.iter().find(|e| e["type"] == kind).unwrap();
    for kind in [
        "draft.propose",
        "draft.hold",
        "approval.grant",
        "credential.issue",
        "credential.redeem",
        "draft.consume",
        "execution.claim",
        "execution.dispatch",
        "execution.confirm_applied",
    ] {
        let event = of(kind);
        assert_eq!(event["v"], 2);
        assert_eq!(event["origin"], "writ.test/audit");
        assert_eq!(event["actor"]["id"], "orchestrator-1", "{kind}");
        assert!(event["request_id"].as_str().unwrap().starts_with("req_"), "{kind}");
        assert_eq!(event["tenant"], "acme", "{kind}");
        assert_eq!(event["case_id"], "case-7", "{kind}");
        assert_eq!(event["operation"], "refund.create", "{kind}");
        assert_eq!(event["resource"]["type"], "charge", "{kind}");
        assert_eq!(event["amount"]["minor"], 24_000, "{kind}");
        assert_eq!(event["draft"]["hash"], draft.hash.to_string(), "{kind}");
    }
    let approval = draft.approval.unwrap();
    assert_eq!(of("draft.hold")["policy"]["version"], 3);
    assert_eq!(of("draft.hold")["policy"]["rules"][0], "large-refunds");
    assert_eq!(of("approval.grant")["approval"]["approver"], "usr_mia");
    assert_eq!(of("approval.grant")["approval"]["record_id"], approval.records[0].id.to_string());
    assert_eq!(of("credential.issue")["credential"]["root_key_id"], 7);
    assert_eq!(of("credential.issue")["credential"]["audience"], "https://proxy.example");
    assert_eq!(of("execution.claim")["execution"]["fence"], 1);
    assert_eq!(of("execution.claim")["execution"]["idempotency_key"], execution.key.to_string());
    assert_eq!(of("execution.claim")["approval"]["id"], approval.id.to_string());
    assert_eq!(of("execution.dispatch")["attempt"]["n"], 1);
    assert_eq!(of("execution.confirm_applied")["provider"]["reference"], "re_1");
    assert_eq!(of("execution.confirm_applied")["provider"]["status"], 200);
    for stored in world.store().events(0, 1000).await.unwrap() {
        assert_eq!(
            Json::parse_deeper(&stored.bytes).unwrap().canonical(),
            stored.bytes,
            "the bytes are canonical"
        );
    }
}

async fn a_backends_odd_characters_do_not_keep_its_answer_from_being_recorded(world: World) {
    let odd = Settled::Applied {
        reference: Some("re_\u{0}\u{7f}\u{ffff}1".to_owned()),
    };
    let execution = world.settled(odd).await;
    assert_eq!(execution.reference.as_deref(), Some("re_\u{0}\u{7f}\u{ffff}1"));
    let events = world.events().await;
    assert_eq!(events.last().unwrap()["provider"]["reference"], "re_\u{fffd}\u{fffd}\u{fffd}1");
}

async fn a_note_is_written_as_it_was_given(world: World) {
    let op = world.op();
    let note = EventBody::new(EventKind::Note(Note::AuthFailed), Actor::new(ActorKind::Anonymous, "10.0.0.1")).denied("bad_secret");
    let seq = world.store().note(op.clone(), note).await.unwrap().seq;
    let event = world.events().await.pop().unwrap();
    assert_eq!(event["seq"], seq);
    assert_eq!(event["type"], "auth.failed");
    assert_eq!(event["actor"]["id"], "10.0.0.1");
    assert_eq!((&event["outcome"], &event["code"]), (&"denied".into(), &"bad_secret".into()));
    assert_eq!(event["request_id"], op.request.unwrap().to_string());
}
