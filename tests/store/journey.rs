//! What a draft goes through when nobody is in the way.

use std::collections::BTreeSet;

use writ::domain::approval::Decision;
use writ::domain::digest::Digest;
use writ::domain::lifecycle::{ApprovalState, CredentialState, DraftState, ExecutionState};
use writ::store::intent::{AfterAbort, CloseAs, Decide, DraftFilter, Follow, Issue, NewDraft, Proposed, Redeemed, Resolution, Settle};

use super::world::*;

super::over_one_and_two_connections! {
    a_refund_that_people_approve_runs_once,
    a_stored_draft_reads_back_as_it_was_given,
    the_same_proposal_is_given_back_while_something_can_come_of_it,
    a_proposal_whose_time_is_over_makes_room_for_the_same_again,
    the_same_request_is_given_back_even_after_its_draft_ended,
    a_newer_draft_takes_the_place_of_the_one_it_names,
    recent_drafts_of_the_customer_are_counted_in_the_same_step,
    a_rules_grant_is_bounded_by_the_draft,
    a_denial_ends_the_draft_with_its_reason,
    a_grant_is_used_no_later_than_its_records_and_the_draft_say,
    a_credential_is_good_no_longer_than_the_grant,
    an_aborted_execution_gives_the_draft_back,
    an_aborted_execution_can_leave_the_draft_stale,
    a_take_over_leaves_the_outcome_open,
    a_lost_answer_gives_the_lease_up_and_leaves_the_outcome_open,
    a_look_up_settles_what_an_answer_did_not,
    a_person_settles_what_no_look_up_could,
    what_is_due_is_what_somebody_should_look_at,
    drafts_are_listed_by_what_is_asked,
    a_sweep_ends_what_is_over_and_nothing_else,
}

async fn a_refund_that_people_approve_runs_once(world: World) {
    let draft = world.held(2).await;
    assert_eq!(draft.state, DraftState::AwaitingApproval);
    let first = world.approve(&draft).await;
    assert_eq!(first.state, DraftState::AwaitingApproval, "one of two signed");
    let vote = world.vote(&draft, "tom", Decision::Approve);
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

async fn a_stored_draft_reads_back_as_it_was_given(world: World) {
    let new = world.new_draft();
    let draft = world.propose(new.clone()).await;
    assert_eq!(world.draft(new.id).await, draft);
    assert_eq!(world.store().draft_bytes(new.id).await.unwrap(), Some(new.document));
    assert_eq!(
        (draft.tenant, draft.maker, draft.owner, draft.on_behalf_of),
        (new.tenant, new.maker, new.owner, new.on_behalf_of)
    );
    assert_eq!(
        (draft.resource, draft.amount, draft.hash, draft.key),
        (new.resource, new.amount, new.hash, new.key)
    );
    assert_eq!(
        (draft.state, draft.created_at, draft.expires_at),
        (DraftState::Proposed, world.now(), new.expires_at)
    );
    let execution = world.indeterminate().await;
    assert_eq!(world.store().execution_of(execution.draft).await.unwrap(), Some(execution.clone()));
    let approval = world.draft(execution.draft).await.approval.unwrap();
    assert_eq!(
        world.store().approval(approval.id).await.unwrap(),
        Some((execution.draft, approval))
    );
    assert_eq!(
        world.store().credential(execution.credential).await.unwrap().unwrap().state,
        CredentialState::Redeemed
    );
}

fn same_again(world: &World, new: &NewDraft) -> NewDraft {
    sealed(NewDraft {
        content: new.content,
        resource: new.resource.clone(),
        ..world.new_draft()
    })
}

async fn the_same_proposal_is_given_back_while_something_can_come_of_it(world: World) {
    for (settled, is_open) in [(lost(), true), (pending(), true), (applied(), false), (not_applied(), false)] {
        let new = world.new_draft();
        let draft = world.propose(new.clone()).await;
        let again = || world.store().propose(world.op(), same_again(&world, &new));
        assert_eq!(again().await.unwrap().value, Proposed::Open(Box::new(draft.clone())), "proposed");
        let allowed = world.store().decide(world.op(), world.auto_approve(draft.id)).await.unwrap().value;
        let credential = world.store().issue(world.op(), world.issue(&allowed)).await.unwrap().value;
        let claimed = world.claim(&credential).await;
        let sent = world.store().dispatch(world.op(), world.dispatch(&claimed)).await.unwrap().value;
        world
            .store()
            .settle(world.op(), world.settle(&sent, settled.clone()))
            .await
            .unwrap();
        let known = world.draft(draft.id).await;
        let answer = again().await.unwrap().value;
        assert_eq!(answer == Proposed::Open(Box::new(known)), is_open, "{settled:?}: {answer:?}");
    }
}

async fn a_proposal_whose_time_is_over_makes_room_for_the_same_again(world: World) {
    let new = world.new_draft();
    let draft = world.propose(new.clone()).await;
    world.store().decide(world.op(), world.hold(draft.id, 1)).await.unwrap();
    // The card's time is over, the draft's is not: nobody can approve it any more.
    world.clock.advance(4 * HOUR);
    let stored = world.propose(same_again(&world, &new)).await;
    assert_ne!(stored.id, draft.id);
    assert_eq!(world.draft(draft.id).await.state, DraftState::Expired);
    assert_eq!(world.draft(draft.id).await.approval.unwrap().state, ApprovalState::Lapsed);
}

async fn the_same_request_is_given_back_even_after_its_draft_ended(world: World) {
    let new = NewDraft {
        request_key: Some(("key-1".to_owned(), Digest::of(b"request"))),
        ..world.new_draft()
    };
    let draft = world.propose(new.clone()).await;
    let ended = world
        .store()
        .close(world.op(), world.close(&draft, CloseAs::Withdrawn))
        .await
        .unwrap()
        .value;
    let again = NewDraft {
        request_key: new.request_key,
        ..world.new_draft()
    };
    let answer = world.store().propose(world.op(), again).await.unwrap().value;
    assert_eq!(answer, Proposed::Open(Box::new(ended)));
}

async fn a_newer_draft_takes_the_place_of_the_one_it_names(world: World) {
    let credential = world.issued().await;
    let new = NewDraft {
        supersedes: Some(credential.draft),
        ..world.new_draft()
    };
    let newer = world.propose(new.clone()).await;
    assert_eq!(newer.supersedes, Some(credential.draft));
    let old = world.draft(credential.draft).await;
    assert_eq!(old.state, DraftState::Superseded);
    assert_eq!(old.approval.unwrap().state, ApprovalState::Voided);
    assert_eq!(
        world.store().credential(credential.id).await.unwrap().unwrap().state,
        CredentialState::Revoked
    );
    // The same content may replace itself.
    let same = NewDraft {
        supersedes: Some(newer.id),
        ..same_again(&world, &new)
    };
    world.propose(same).await;
    assert_eq!(world.draft(newer.id).await.state, DraftState::Superseded);
}

async fn recent_drafts_of_the_customer_are_counted_in_the_same_step(world: World) {
    let of = |customer: &str| NewDraft {
        subject: Some(customer.to_owned()),
        ..world.new_draft()
    };
    let first = world.propose(of("cus_a")).await;
    assert_eq!(first.recent, 1);
    assert_eq!(world.propose(of("cus_a")).await.recent, 2);
    assert_eq!(world.propose(of("cus_b")).await.recent, 1, "another customer");
    let elsewhere = NewDraft {
        operation: "account.update".parse().unwrap(),
        ..of("cus_a")
    };
    assert_eq!(world.propose(elsewhere).await.recent, 1, "another operation");
    world.store().decide(world.op(), world.deny(first.id)).await.unwrap();
    let third = world.propose(of("cus_a")).await;
    assert_eq!(third.recent, 2, "what the policy denied does not count");
    let held = world.store().decide(world.op(), world.hold(third.id, 1)).await.unwrap().value;
    world
        .store()
        .close(world.op(), world.close(&held, CloseAs::Withdrawn))
        .await
        .unwrap();
    assert_eq!(
        world.propose(of("cus_a")).await.recent,
        3,
        "what was held counts, whatever became of it"
    );
    let nobody = NewDraft {
        subject: None,
        ..world.new_draft()
    };
    assert_eq!(world.propose(nobody).await.recent, 1);
    world.clock.advance(24 * HOUR);
    assert_eq!(world.propose(of("cus_a")).await.recent, 1, "a day later");
}

async fn a_rules_grant_is_bounded_by_the_draft(world: World) {
    let draft = world
        .propose(NewDraft {
            expires_at: world.now().plus(MINUTE),
            ..world.new_draft()
        })
        .await;
    let allow: Decide = world.auto_approve(draft.id);
    let allowed = world.store().decide(world.op(), allow.clone()).await.unwrap().value;
    assert_eq!(allowed.state, DraftState::Approved);
    assert_eq!(allowed.verdict, Some(allow.verdict));
    let approval = allowed.approval.unwrap();
    assert_eq!(
        (approval.state, approval.execute_by),
        (ApprovalState::Granted, Some(draft.expires_at))
    );
    let Follow::AutoApprove { record, .. } = allow.then else {
        unreachable!()
    };
    assert_eq!(approval.records, [*record]);
}

async fn a_denial_ends_the_draft_with_its_reason(world: World) {
    let draft = world.held(2).await;
    world.approve(&draft).await;
    let mut deny = world.vote(&draft, "tom", Decision::Deny);
    deny.record.reason = Some("the parcel was delivered".to_owned());
    let denied = world.store().vote(world.op(), deny).await.unwrap().value;
    assert_eq!(denied.state, DraftState::Denied);
    assert_eq!(denied.approval.unwrap().state, ApprovalState::Refused);
    let closed = denied.closed.unwrap();
    assert_eq!(
        (closed.code.as_str(), closed.reason.as_deref(), closed.by.as_str()),
        ("denied_by_approver", Some("the parcel was delivered"), "usr_tom")
    );

    let draft = world.proposed().await;
    let denied = world.store().decide(world.op(), world.deny(draft.id)).await.unwrap().value;
    let closed = denied.closed.unwrap();
    assert_eq!((denied.state, closed.code.as_str()), (DraftState::Denied, "denied_by_policy"));
    assert_eq!(closed.reason.as_deref(), Some("refunds to another card are never made"));
}

async fn a_grant_is_used_no_later_than_its_records_and_the_draft_say(world: World) {
    let draft = world.held(2).await;
    let mut mia = world.vote(&draft, "mia", Decision::Approve);
    mia.record.execute_by = Some(world.now().plus(10 * MINUTE));
    world.store().vote(world.op(), mia).await.unwrap();
    world.clock.advance(MINUTE);
    let tom = world.vote(&draft, "tom", Decision::Approve);
    let granted = world.store().vote(world.op(), tom).await.unwrap().value;
    assert_eq!(granted.approval.unwrap().execute_by, Some(world.now().plus(9 * MINUTE)));

    let short = world
        .propose(NewDraft {
            expires_at: world.now().plus(MINUTE),
            ..world.new_draft()
        })
        .await;
    let held = world.store().decide(world.op(), world.hold(short.id, 1)).await.unwrap().value;
    assert_eq!(
        held.approval.as_ref().unwrap().expires_at,
        short.expires_at,
        "a card ends with its draft"
    );
    let granted = world.approve(&held).await;
    assert_eq!(granted.approval.unwrap().execute_by, Some(short.expires_at));
}

async fn a_credential_is_good_no_longer_than_the_grant(world: World) {
    let draft = world.approved().await;
    world.clock.advance(HOUR - std::time::Duration::from_secs(5));
    let issue = Issue {
        expires_at: world.now().plus(MINUTE),
        ..world.issue(&draft)
    };
    let credential = world.store().issue(world.op(), issue).await.unwrap().value;
    assert_eq!(Some(credential.expires_at), draft.approval.unwrap().execute_by);
}

async fn an_aborted_execution_gives_the_draft_back(world: World) {
    let first = world.claimed().await;
    let aborted = world
        .store()
        .abort(world.op(), world.abort(&first, AfterAbort::Release))
        .await
        .unwrap()
        .value;
    assert_eq!(
        (aborted.state, aborted.code.as_deref()),
        (ExecutionState::Aborted, Some("precondition_failed"))
    );
    let draft = world.draft(first.draft).await;
    assert_eq!(draft.state, DraftState::Approved);
    let credential = world.store().issue(world.op(), world.issue(&draft)).await.unwrap().value;
    world.clock.advance(MINUTE / 2);
    let again = world.claim(&credential).await;
    assert_eq!((again.id, again.fence, again.state), (first.id, 2, ExecutionState::Claimed));
    assert_eq!(
        (again.claimed_at, again.credential, again.code),
        (first.claimed_at, credential.id, None)
    );
    assert_eq!(again.key, first.key, "the same key for ever");
}

async fn an_aborted_execution_can_leave_the_draft_stale(world: World) {
    let execution = world.claimed().await;
    world
        .store()
        .abort(world.op(), world.abort(&execution, AfterAbort::Stale))
        .await
        .unwrap();
    let draft = world.draft(execution.draft).await;
    assert_eq!(draft.state, DraftState::Stale);
    assert_eq!(draft.closed.unwrap().code, "precondition_failed");
    assert_eq!(draft.approval.unwrap().state, ApprovalState::Voided);
}

async fn a_take_over_leaves_the_outcome_open(world: World) {
    for (execution, becomes) in [
        (world.claimed().await, ExecutionState::Claimed),
        (world.dispatched().await, ExecutionState::Indeterminate),
        (world.indeterminate().await, ExecutionState::Indeterminate),
        (world.handed_off().await, ExecutionState::HandedOff),
        (world.settled(pending()).await, ExecutionState::Pending),
    ] {
        world.clock.advance(MINUTE);
        let taken = world
            .store()
            .take_over(world.op(), world.take_over(&execution))
            .await
            .unwrap()
            .value;
        assert_eq!((taken.state, taken.fence, taken.holder.as_str()), (becomes, 2, "proxy-2"));
        assert_eq!(taken.lease_until, world.now().plus(MINUTE));
        assert_eq!(taken.is_ambiguous(), execution.is_ambiguous());
    }
}

async fn a_lost_answer_gives_the_lease_up_and_leaves_the_outcome_open(world: World) {
    let given_up = world.indeterminate().await;
    assert_eq!(given_up.lease_until, world.now());
    assert_eq!(given_up.code.as_deref(), Some("timed_out"));
    let result = given_up.attempts[0].result.clone().unwrap();
    assert!(!result.conclusive && given_up.is_ambiguous());
}

async fn a_look_up_settles_what_an_answer_did_not(world: World) {
    let unknown = world.indeterminate().await;
    let nothing = world
        .store()
        .look_up(world.op(), world.look_up(&unknown, lost()))
        .await
        .unwrap()
        .value;
    assert_eq!((nothing.state, nothing.lookups.len()), (ExecutionState::Indeterminate, 1));
    assert_eq!(nothing.next_action_at, Some(world.now().plus(MINUTE)));
    let found = world
        .store()
        .look_up(world.op(), world.look_up(&unknown, applied()))
        .await
        .unwrap()
        .value;
    assert_eq!(
        (found.state, found.lookups.len(), found.reference.as_deref()),
        (ExecutionState::Applied, 2, Some("re_1"))
    );
    assert_eq!(found.next_action_at, None);
    for (from, found, becomes) in [
        (world.indeterminate().await, not_applied(), ExecutionState::NotApplied),
        (world.handed_off().await, pending(), ExecutionState::Pending),
        (world.settled(pending()).await, applied(), ExecutionState::Applied),
        (world.settled(pending()).await, not_applied(), ExecutionState::NotApplied),
        (world.settled(pending()).await, lost(), ExecutionState::Pending),
    ] {
        let then = world.store().look_up(world.op(), world.look_up(&from, found)).await.unwrap().value;
        assert_eq!(then.state, becomes);
    }
}

async fn a_person_settles_what_no_look_up_could(world: World) {
    let handed = world.handed_off().await;
    assert_eq!(handed.code.as_deref(), Some("not_found_by_key"));
    let done = world
        .store()
        .resolve(world.op(), world.resolve(&handed, Resolution::Applied))
        .await
        .unwrap()
        .value;
    assert_eq!(
        (done.state, done.evidence.as_deref(), done.reference.as_deref()),
        (ExecutionState::Applied, Some("seen in the dashboard"), Some("re_9"))
    );
}

async fn what_is_due_is_what_somebody_should_look_at(world: World) {
    world.settled(applied()).await;
    world.settled(pending()).await;
    world.handed_off().await;
    let unknown = world.indeterminate().await;
    let sent = world.dispatched().await;
    let later = Settle {
        next_action_at: Some(world.now().plus(2 * MINUTE)),
        ..world.settle(&sent, lost())
    };
    let later = world.store().settle(world.op(), later).await.unwrap().value;
    let sent = world.dispatched().await;
    let checked = Settle {
        next_action_at: Some(world.now().plus(3 * MINUTE)),
        ..world.settle(&sent, pending())
    };
    let checked = world.store().settle(world.op(), checked).await.unwrap().value;
    let claimed = world.claimed().await;
    let due = async || {
        let due: Vec<_> = world.store().due(10).await.unwrap().into_iter().map(|e| e.id).collect();
        assert!(due.is_sorted(), "oldest first");
        due.into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(due().await, BTreeSet::from([unknown.id]), "whose lease was given up");
    world.clock.advance(MINUTE);
    assert_eq!(due().await, BTreeSet::from([unknown.id, claimed.id]), "whose lease ran out");
    world.clock.advance(MINUTE);
    let lost = [unknown.id, later.id, claimed.id];
    assert_eq!(due().await, BTreeSet::from(lost), "whose next action is due");
    world.clock.advance(MINUTE);
    assert_eq!(due().await, BTreeSet::from([unknown.id, later.id, checked.id, claimed.id]));
    assert_eq!(world.store().due(1).await.unwrap().len(), 1);
}

async fn drafts_are_listed_by_what_is_asked(world: World) {
    let first = world.held(1).await;
    let second = world.proposed().await;
    let other = world
        .propose(NewDraft {
            tenant: "other".parse().unwrap(),
            case_id: None,
            maker: "orchestrator-2".parse().unwrap(),
            ..world.new_draft()
        })
        .await;
    let all = DraftFilter {
        limit: 10,
        ..DraftFilter::default()
    };
    let ids = async |filter: DraftFilter| {
        world
            .store()
            .drafts(filter)
            .await
            .unwrap()
            .into_iter()
            .map(|d| d.id)
            .collect::<Vec<_>>()
    };
    let mut everything = [first.id, second.id, other.id];
    everything.sort_unstable();
    assert_eq!(ids(all.clone()).await, everything);
    assert_eq!(ids(DraftFilter { limit: 2, ..all.clone() }).await, everything[..2]);
    assert_eq!(
        ids(DraftFilter {
            after: Some(everything[0]),
            ..all.clone()
        })
        .await,
        everything[1..]
    );
    assert_eq!(
        ids(DraftFilter {
            tenant: Some("other".parse().unwrap()),
            ..all.clone()
        })
        .await,
        [other.id]
    );
    assert_eq!(
        ids(DraftFilter {
            maker: Some("orchestrator-2".parse().unwrap()),
            ..all.clone()
        })
        .await,
        [other.id]
    );
    assert_eq!(
        ids(DraftFilter {
            state: Some(DraftState::AwaitingApproval),
            ..all.clone()
        })
        .await,
        [first.id]
    );
    assert_eq!(
        ids(DraftFilter {
            case_id: Some("case-7".parse().unwrap()),
            ..all.clone()
        })
        .await
        .len(),
        2
    );
    assert_eq!(
        ids(DraftFilter {
            resource: Some(second.resource.to_string()),
            ..all.clone()
        })
        .await,
        [second.id]
    );
    assert!(
        ids(DraftFilter {
            resource: Some("nonsense".to_owned()),
            ..all
        })
        .await
        .is_empty()
    );
}

async fn a_sweep_ends_what_is_over_and_nothing_else(world: World) {
    let open = world.proposed().await;
    let execution = world.indeterminate().await;
    let credential = world.issued().await;
    world.clock.advance(MINUTE);
    let none = world.store().sweep(world.op(), 0).await.unwrap().value;
    assert_eq!((none.drafts, none.credentials), (0, 0));
    let swept = world.store().sweep(world.op(), 10).await.unwrap().value;
    assert_eq!((swept.drafts, swept.credentials), (0, 1));
    assert_eq!(world.draft(credential.draft).await.state, DraftState::Approved);
    world.clock.advance(HOUR);
    let swept = world.store().sweep(world.op(), 10).await.unwrap().value;
    assert_eq!((swept.drafts, swept.credentials), (1, 0), "the window after the approval is over");
    let expired = world.draft(credential.draft).await;
    assert_eq!(
        (expired.state, expired.approval.unwrap().state),
        (DraftState::Expired, ApprovalState::Lapsed)
    );
    assert_eq!(expired.closed.unwrap().code, "expired");
    assert_eq!(world.draft(open.id).await, open);
    world.clock.advance(48 * HOUR);
    world.store().sweep(world.op(), 10).await.unwrap();
    assert_eq!(
        world.execution(execution.id).await.state,
        ExecutionState::Indeterminate,
        "no timer ends what is unknown"
    );
    assert_eq!(world.draft(open.id).await.state, DraftState::Expired);
}
