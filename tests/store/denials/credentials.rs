//! Every reason for which a credential is refused.

use writ::domain::approval::Decision;
use writ::domain::id::{ApprovalId, DraftId};
use writ::domain::lifecycle::{CredentialState, DraftState, ExecutionState};
use writ::store::contract::OperationOutcome;
use writ::store::intent::{AfterAbort, CloseAs, Issue, NewDraft, Redeem};
use writ::store::{Busy, Rejection};

use super::super::world::*;
use super::{refused, refuses};

super::super::over_one_and_two_connections! {
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
    let busy = Rejection::ResourceBusy(Busy {
        execution: Some(execution.id),
        state: ExecutionState::Indeterminate,
    });
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
    let busy = Rejection::ResourceBusy(Busy {
        execution: None,
        state: ExecutionState::Indeterminate,
    });
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
    let busy = Rejection::ResourceBusy(Busy {
        execution: Some(execution.id),
        state: ExecutionState::Claimed,
    });
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
