//! Random lives of a few drafts that touch one resource: whatever is tried in whatever order, the records agree with each other.

use proptest::prelude::*;
use rusqlite::Connection;
use writ::domain::approval::Decision;
use writ::domain::digest::Digest;
use writ::domain::id::CredentialId;
use writ::domain::stop::StopScope;
use writ::store::intent::{AfterAbort, CloseAs, Dispatch, NewDraft, Proposed, Resolution};
use writ::store::record::{CredentialRecord, DraftRecord, ExecutionRecord};
use writ::store::stop::{StopFilter, Stops};
use writ::store::{Applied, StoreError};

use super::world::*;

/// What must be empty after every step: rows that contradict each other.
const CONTRADICTIONS: &[(&str, &str)] = &[
    (
        "an approval that does not follow its draft",
        "SELECT d.id FROM draft d LEFT JOIN approval a ON a.draft = d.id WHERE NOT CASE d.state
            WHEN 'proposed' THEN a.id IS NULL
            WHEN 'awaiting_approval' THEN a.state IS 'requested'
            WHEN 'approved' THEN a.state IS 'granted'
            WHEN 'consumed' THEN a.state IN ('granted', 'revoked')
            WHEN 'denied' THEN a.id IS NULL OR a.state IN ('refused', 'revoked')
            WHEN 'expired' THEN a.id IS NULL OR a.state = 'lapsed'
            ELSE a.id IS NULL OR a.state = 'voided' END",
    ),
    (
        "an execution without a consumed draft, or a consumed draft without one",
        "SELECT d.id FROM draft d LEFT JOIN execution e ON e.draft = d.id
         WHERE (d.state = 'consumed') <> (e.id IS NOT NULL AND e.state <> 'aborted')",
    ),
    (
        "a usable credential of a draft that may not run",
        "SELECT c.id FROM credential c JOIN draft d ON d.id = c.draft WHERE c.state = 'issued' AND d.state <> 'approved'",
    ),
    (
        "a credential, approval or execution of another hash",
        "SELECT d.id FROM draft d JOIN approval a ON a.draft = d.id LEFT JOIN credential c ON c.draft = d.id
            LEFT JOIN execution e ON e.draft = d.id WHERE a.hash <> d.hash OR c.hash <> d.hash OR e.hash <> d.hash",
    ),
    (
        "two open outcomes on one resource",
        "SELECT d.resource_id FROM draft d JOIN execution e ON e.draft = d.id
         WHERE e.state IN ('claimed', 'dispatched', 'indeterminate', 'handed_off')
         GROUP BY d.tenant, d.resource_type, d.resource_id HAVING count(*) > 1",
    ),
    (
        "a draft that is settled too early or too late",
        "SELECT d.id FROM draft d LEFT JOIN execution e ON e.draft = d.id WHERE (d.settled_at IS NOT NULL) <>
            (d.state NOT IN ('proposed', 'awaiting_approval', 'approved', 'consumed') OR coalesce(e.state IN ('applied', 'not_applied'), 0))",
    ),
    (
        "a request sent after its window",
        "SELECT a.execution FROM attempt a JOIN execution e ON e.id = a.execution WHERE a.n > 1 AND a.sent_at >= e.send_until",
    ),
    (
        "a request sent that was not written down, or the other way round",
        "SELECT e.id FROM execution e WHERE (e.first_sent_at IS NULL) <> (NOT EXISTS (SELECT 1 FROM attempt a WHERE a.execution = e.id))",
    ),
    (
        "an outcome called not applied although an answer left it in doubt",
        "SELECT e.id FROM execution e JOIN attempt a ON a.execution = e.id
         WHERE e.state = 'not_applied' AND coalesce(a.conclusive, 0) = 0 AND NOT EXISTS (SELECT 1 FROM event v WHERE v.execution = e.id
            AND v.type IN ('execution.reconcile_not_applied', 'execution.resolve_not_applied', 'execution.reopen'))",
    ),
    (
        "as many redemptions as claims",
        "SELECT 1 WHERE (SELECT count(*) FROM event WHERE type = 'credential.redeem') <> (SELECT count(*) FROM event WHERE type = 'execution.claim')
            OR (SELECT count(*) FROM event WHERE type = 'draft.consume') <> (SELECT count(*) FROM event WHERE type = 'execution.claim')
            OR (SELECT count(*) FROM credential WHERE state = 'redeemed') <> (SELECT count(*) FROM event WHERE type = 'execution.claim')",
    ),
    (
        "something issued, spent or sent while everything was stopped",
        "SELECT v.seq FROM event v JOIN event p ON p.type = 'stop.place' AND p.seq < v.seq
         WHERE v.type IN ('credential.issue', 'credential.redeem', 'execution.dispatch', 'execution.resend') AND NOT EXISTS (
            SELECT 1 FROM event l WHERE l.type = 'stop.lift' AND l.seq < v.seq AND json_extract(l.body, '$.stop.id') = json_extract(p.body, '$.stop.id'))",
    ),
    (
        "something sent after its approval was taken back",
        "SELECT v.seq FROM event v JOIN event r ON r.type = 'approval.revoke' AND r.draft = v.draft AND r.seq < v.seq
         WHERE v.type IN ('credential.issue', 'credential.redeem', 'execution.dispatch', 'execution.resend')",
    ),
    (
        "an operation whose last event is missing",
        "SELECT o.id FROM operation o LEFT JOIN event e ON e.seq = o.seq WHERE o.cancelled = 0 AND e.seq IS NULL",
    ),
];

/// One thing that is tried.
#[derive(Debug, Clone, Copy)]
struct Try {
    what: u8,
    draft: usize,
    how: usize,
}

fn tries() -> impl Strategy<Value = Vec<Try>> {
    let one = (0_u8..23, 0_usize..3, 0_usize..4).prop_map(|(what, draft, how)| Try { what, draft, how });
    proptest::collection::vec(one, 20..70)
}

/// A refusal is an answer; anything else is a fault of the store.
fn answered<T>(result: Result<Applied<T>, StoreError>) {
    if let Err(error) = result {
        assert!(matches!(error, StoreError::Rejected(_)), "{error}");
    }
}

async fn credential_of(world: &World, draft: &DraftRecord) -> Option<CredentialRecord> {
    let connection = Connection::open(&world.file).unwrap();
    let id: Option<String> = connection
        .query_row(
            "SELECT id FROM credential WHERE draft = ?1 ORDER BY id DESC LIMIT 1",
            [draft.id.to_string()],
            |row| row.get(0),
        )
        .ok();
    world.store().credential(id?.parse::<CredentialId>().unwrap()).await.unwrap()
}

async fn attempt(world: &World, drafts: &mut [DraftRecord], it: Try) {
    let draft = world.draft(drafts[it.draft].id).await;
    let store = world.store();
    let op = world.op();
    let found = || [applied(), pending(), not_applied(), lost()][it.how].clone();
    let execution: Option<ExecutionRecord> = world.store().execution_of(draft.id).await.unwrap();
    match (it.what, execution) {
        (0, _) => {
            let new = sealed(NewDraft {
                resource: draft.resource.clone(),
                content: Digest::of(&[it.draft.to_le_bytes()[0]]),
                supersedes: (it.how == 0).then_some(draft.id),
                ..world.new_draft()
            });
            match store.propose(op, new).await {
                Ok(Applied {
                    value: Proposed::Stored(stored),
                    ..
                }) => drafts[it.draft] = *stored,
                other => answered(other),
            }
        }
        (1 | 2, _) => {
            let decide = match it.how {
                0 => world.auto_approve(draft.id),
                1 => world.deny(draft.id),
                people => world.hold(draft.id, u32::try_from(people).unwrap() - 1),
            };
            answered(store.decide(op, decide).await);
        }
        (3 | 4, _) => {
            let decision = if it.how == 3 { Decision::Deny } else { Decision::Approve };
            let name = if it.how == 0 { "mia" } else { "tom" };
            answered(store.vote(op, world.vote(&draft, name, decision)).await);
        }
        (5, _) => {
            let how = if it.how == 0 { CloseAs::Stale } else { CloseAs::Withdrawn };
            answered(store.close(op, world.close(&draft, how)).await);
        }
        (6 | 7, _) => answered(store.issue(op, world.issue(&draft)).await),
        (8 | 9, _) => {
            if let Some(credential) = credential_of(world, &draft).await {
                answered(store.redeem(op, world.redeem(&credential)).await);
            }
        }
        (10, Some(execution)) => answered(store.take_over(op, world.take_over(&execution)).await),
        (11, Some(execution)) => {
            let then = if it.how == 0 { AfterAbort::Stale } else { AfterAbort::Release };
            answered(store.abort(op, world.abort(&execution, then)).await);
        }
        (12 | 13, Some(execution)) => {
            let dispatch = Dispatch {
                send_window: MINUTE,
                ..world.dispatch(&execution)
            };
            answered(store.dispatch(op, dispatch).await);
        }
        (14, Some(execution)) => answered(store.settle(op, world.settle(&execution, found())).await),
        (15, Some(execution)) => answered(store.look_up(op, world.look_up(&execution, found())).await),
        (16, Some(execution)) => match it.how {
            0 | 1 => answered(store.resolve(op, world.resolve(&execution, Resolution::NotApplied)).await),
            _ => answered(store.hand_off(op, world.hand_off(&execution)).await),
        },
        (19, _) if it.how == 0 => answered(store.place_stop(op, world.place(StopScope::Everything)).await),
        (20 | 21, _) => {
            for stop in store.stops(StopFilter::first(Stops::InForce)).await.unwrap() {
                answered(world.store().lift_stop(world.op(), world.lift(&stop)).await);
            }
        }
        (22, Some(execution)) if it.how == 0 => {
            let revoke = world.revoke(&execution).await;
            answered(store.revoke_approval(op, revoke).await);
        }
        (17, _) => answered(store.sweep(op, 10).await),
        (18, _) => world.clock.advance([MINUTE / 4, MINUTE, MINUTE, HOUR][it.how]),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn records_never_contradict_each_other(tries in tries()) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let world = World::with_two_connections().await;
            let resource = world.new_draft().resource;
            let mut drafts = Vec::new();
            for _ in 0..3 {
                drafts.push(world.propose(NewDraft { resource: resource.clone(), ..world.new_draft() }).await);
            }
            let connection = Connection::open(&world.file).unwrap();
            for it in tries {
                attempt(&world, &mut drafts, it).await;
                for (what, sql) in CONTRADICTIONS {
                    let mut statement = connection.prepare_cached(sql).unwrap();
                    assert!(!statement.exists([]).unwrap(), "after {it:?}: {what}");
                }
            }
            world.events().await;
        });
    }
}
