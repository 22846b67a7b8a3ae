//! What the store must refuse, said once more and apart from the store: for each transition the conditions under which nobody may make it, read
//! from the rows as they stand. What was taken although it is refused here is a fault, and so is what a confused process gets through.

use rusqlite::{Connection, OptionalExtension, Row};
use writ::domain::approval::Decision;
use writ::domain::id::{DraftId, ExecutionId};
use writ::store::intent::{
    Abort, Close, CloseAs, Decide, Dispatch, Follow, HandOff, Issue, LookUp, Redeem, Resolve, Settle, Settled, TakeOver, Vote,
};

/// A transition that somebody asks for.
#[derive(Debug, Clone)]
pub enum Wish<'a> {
    Decide(&'a Decide),
    Close(&'a Close),
    Vote(&'a Vote),
    Issue(&'a Issue),
    Redeem(&'a Redeem),
    TakeOver(&'a TakeOver),
    Abort(&'a Abort),
    Dispatch(&'a Dispatch),
    Settle(&'a Settle),
    LookUp(&'a LookUp),
    HandOff(&'a HandOff),
    Resolve(&'a Resolve),
}

/// Why it must be refused.
type No = &'static str;

/// How far a clock may be behind what is written down, in milliseconds.
const TOLERANCE: i64 = 2_000;

const UNRESOLVED: &str = "('claimed', 'dispatched', 'indeterminate', 'handed_off')";

struct Draft {
    state: String,
    hash: String,
    expires_at: i64,
    maker: String,
    owner: Option<String>,
    for_whom: Option<String>,
}

struct Grant {
    id: String,
    state: String,
    nonce: String,
    expires_at: i64,
    execute_by: Option<i64>,
}

struct Execution {
    draft: String,
    credential: String,
    state: String,
    fence: i64,
    lease_until: i64,
    send_until: Option<i64>,
}

fn one<T>(db: &Connection, sql: &str, id: &str, read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>) -> Option<T> {
    db.prepare_cached(sql).unwrap().query_row([id], read).optional().unwrap()
}

fn holds(db: &Connection, sql: &str, params: impl rusqlite::Params) -> bool {
    db.prepare_cached(sql).unwrap().exists(params).unwrap()
}

fn draft(db: &Connection, id: &str) -> Option<Draft> {
    let sql = "SELECT state, hash, expires_at, maker, owner, on_behalf_of FROM draft WHERE id = ?1";
    one(db, sql, id, |row| {
        Ok(Draft {
            state: row.get(0)?,
            hash: row.get(1)?,
            expires_at: row.get(2)?,
            maker: row.get(3)?,
            owner: row.get(4)?,
            for_whom: row.get(5)?,
        })
    })
}

fn grant(db: &Connection, draft: &str) -> Option<Grant> {
    let sql = "SELECT id, state, nonce, expires_at, execute_by FROM approval WHERE draft = ?1";
    one(db, sql, draft, |row| {
        Ok(Grant {
            id: row.get(0)?,
            state: row.get(1)?,
            nonce: row.get(2)?,
            expires_at: row.get(3)?,
            execute_by: row.get(4)?,
        })
    })
}

fn execution(db: &Connection, id: ExecutionId) -> Option<Execution> {
    let sql = "SELECT draft, state, fence, lease_until, send_until, credential FROM execution WHERE id = ?1";
    one(db, sql, &id.to_string(), |row| {
        Ok(Execution {
            draft: row.get(0)?,
            state: row.get(1)?,
            fence: row.get(2)?,
            lease_until: row.get(3)?,
            send_until: row.get(4)?,
            credential: row.get(5)?,
        })
    })
}

fn no(refused: bool, why: No) -> Result<(), No> {
    if refused { Err(why) } else { Ok(()) }
}

fn held(db: &Connection, id: ExecutionId, fence: u64) -> Result<Execution, No> {
    let execution = execution(db, id).ok_or("there is no such execution")?;
    no(i64::try_from(fence).ok() != Some(execution.fence), "an older fencing token")?;
    Ok(execution)
}

fn is_in(state: &str, states: &[&str], why: No) -> Result<(), No> {
    no(!states.contains(&state), why)
}

/// Whether something that the backend told waits for a look.
fn told(db: &Connection, execution: ExecutionId) -> bool {
    let sql = "SELECT 1 FROM backend_event WHERE execution = ?1 AND look_at IS NOT NULL";
    holds(db, sql, [execution.to_string()])
}

/// Whether another draft's execution on the same resource is open.
fn busy(db: &Connection, draft: DraftId) -> bool {
    let sql = format!(
        "SELECT 1 FROM draft m JOIN draft d ON d.resource_id = m.resource_id AND d.resource_type = m.resource_type AND d.id <> m.id
         JOIN execution e ON e.draft = d.id WHERE m.id = ?1 AND e.state IN {UNRESOLVED}"
    );
    holds(db, &sql, [draft.to_string()])
}

/// Whether a key or an approver behind what was signed is revoked.
fn signer_revoked(db: &Connection, approval: &str) -> bool {
    let sql = "SELECT 1 FROM approval_record r JOIN approver_key k ON k.kid = r.kid JOIN approver a ON a.id = k.approver
        WHERE r.approval = ?1 AND r.decision = 'approve' AND (k.revoked_at IS NOT NULL OR a.revoked_at IS NOT NULL)";
    holds(db, sql, [approval])
}

fn client_revoked(db: &Connection, client: &str) -> bool {
    holds(db, "SELECT 1 FROM client WHERE id = ?1 AND revoked_at IS NOT NULL", [client])
}

/// Whether a stop that is in force covers the draft, or the credential that is used for it.
fn stopped(db: &Connection, draft: &str, credential: Option<&str>, now: i64) -> bool {
    let sql = "SELECT 1 FROM stop s JOIN draft d ON d.id = ?1 LEFT JOIN approval a ON a.draft = d.id
        WHERE s.state = 'active' AND coalesce(s.expires_at > ?3, 1) AND (s.scope = 'everything'
            OR (s.scope = 'draft' AND s.value = d.id) OR (s.scope = 'client' AND s.value = d.maker) OR (s.scope = 'approval' AND s.value = a.id)
            OR (s.scope = 'credential' AND s.value = ?2) OR (s.scope = 'approver' AND s.value IN
                (SELECT approver FROM approval_record WHERE approval = a.id AND decision = 'approve')))";
    holds(db, sql, (draft, credential, now))
}

fn usable(db: &Connection, id: DraftId, now: i64) -> Result<(Draft, Grant), No> {
    let draft = draft(db, &id.to_string()).ok_or("there is no such draft")?;
    let grant = grant(db, &id.to_string()).ok_or("there is no approval")?;
    no(draft.state != "approved", "the draft is not approved")?;
    no(draft.expires_at <= now, "the draft has expired")?;
    no(grant.state != "granted", "the approval is not granted")?;
    no(grant.execute_by.is_none_or(|until| until <= now), "the approval's time is over")?;
    no(signer_revoked(db, &grant.id), "a signer is revoked")?;
    no(busy(db, id), "the resource is busy")?;
    Ok((draft, grant))
}

/// Why nobody may do this, by a clock that says `wall`. Deadlines count by the latest time that is written down, if that is later.
pub fn refuses(db: &Connection, wall: i64, wish: &Wish<'_>) -> Option<No> {
    let sql = "SELECT max(coalesce((SELECT at FROM event ORDER BY seq DESC LIMIT 1), 0), (SELECT at FROM probe))";
    let latest: i64 = db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).unwrap();
    check(db, wall, latest, wish).err()
}

fn check(db: &Connection, wall: i64, latest: i64, wish: &Wish<'_>) -> Result<(), No> {
    let now = wall.max(latest);
    // By a clock that is behind nothing begins, and what rests on a time not having come does not go on.
    let begins = match wish {
        Wish::Decide(decide) => !matches!(decide.then, Follow::Deny { .. }),
        Wish::Vote(vote) => vote.record.decision == Decision::Approve,
        Wish::Issue(_) | Wish::Redeem(_) | Wish::Dispatch(_) => true,
        _ => false,
    };
    no(begins && wall + TOLERANCE < latest, "the clock is behind")?;
    match wish {
        Wish::Decide(decide) => {
            let draft = draft(db, &decide.draft.to_string()).ok_or("there is no such draft")?;
            no(draft.state != "proposed", "the draft is decided already")?;
            let lasting = matches!(decide.then, Follow::Deny { .. });
            no(draft.expires_at <= now && !lasting, "the draft has expired")
        }
        Wish::Close(close) => {
            let draft = draft(db, &close.draft.to_string()).ok_or("there is no such draft")?;
            match close.how {
                CloseAs::Withdrawn => is_in(&draft.state, &["proposed", "awaiting_approval", "approved"], "the draft is over"),
                CloseAs::Stale => is_in(&draft.state, &["approved"], "the draft is not approved"),
            }
        }
        Wish::Vote(vote) => may_vote(db, now, vote),
        Wish::Issue(issue) => {
            let (draft, grant) = usable(db, issue.draft, now)?;
            no(!is_carried(db, &grant.id, issue), "too few have signed, or others")?;
            no(draft.hash != issue.hash.to_string(), "another hash")?;
            no(stopped(db, &issue.draft.to_string(), None, now), "a stop covers it")?;
            no(issue.expires_at.millis() <= now, "the credential would have expired")
        }
        Wish::Redeem(redeem) => may_redeem(db, now, redeem),
        Wish::TakeOver(take) => {
            let execution = held(db, take.execution, take.fence)?;
            // A lease that was over when the clock was set back stays over.
            no(
                execution.lease_until > wall && execution.lease_until > latest,
                "the lease is running",
            )?;
            if told(db, take.execution) {
                return Ok(());
            }
            is_in(
                &execution.state,
                &["claimed", "dispatched", "pending", "indeterminate", "handed_off"],
                "the execution is over",
            )
        }
        Wish::Abort(abort) => {
            let execution = held(db, abort.execution, abort.fence)?;
            is_in(&execution.state, &["claimed"], "the execution is not merely claimed")
        }
        Wish::Dispatch(dispatch) => may_dispatch(db, now, dispatch),
        Wish::Settle(settle) => may_settle(db, settle),
        Wish::LookUp(look) => {
            let execution = held(db, look.execution, look.fence)?;
            if !look.events.is_empty() && told(db, look.execution) {
                let over = ["applied", "not_applied", "aborted", "indeterminate", "pending", "handed_off"];
                return is_in(&execution.state, &over, "something is under way");
            }
            is_in(
                &execution.state,
                &["indeterminate", "pending", "handed_off"],
                "the outcome is not open",
            )
        }
        Wish::HandOff(hand_off) => {
            let execution = held(db, hand_off.execution, hand_off.fence)?;
            is_in(&execution.state, &["indeterminate", "pending"], "the outcome is not open")
        }
        Wish::Resolve(resolve) => {
            let execution = execution(db, resolve.execution).ok_or("there is no such execution")?;
            is_in(
                &execution.state,
                &["indeterminate", "pending", "handed_off"],
                "the outcome is not open",
            )
        }
    }
}

/// Whether everybody who is named has signed this card with yes, and whether they are as many as are needed.
fn is_carried(db: &Connection, approval: &str, issue: &Issue) -> bool {
    let ids: Vec<String> = issue.records.iter().map(ToString::to_string).collect();
    let sql = "SELECT 1 FROM approval a WHERE a.id = ?1 AND
        (SELECT count(DISTINCT r.approver) FROM approval_record r
            WHERE r.approval = a.id AND r.decision = 'approve' AND r.id IN (SELECT value FROM json_each(?2)))
        = max(?3, 1, (SELECT coalesce(sum(json_extract(value, '$.count')), 0) FROM json_each(a.requirement, '$.all_of')))";
    holds(
        db,
        sql,
        (approval, serde_json::to_string(&ids).unwrap(), i64::try_from(ids.len()).unwrap()),
    )
}

fn may_vote(db: &Connection, now: i64, vote: &Vote) -> Result<(), No> {
    let id = vote.draft.to_string();
    let draft = draft(db, &id).ok_or("there is no such draft")?;
    let card = grant(db, &id).ok_or("there is no card")?;
    let record = &vote.record;
    let approver = record.approver.as_str();
    no(draft.hash != vote.hash.to_string(), "another hash")?;
    no(card.nonce != vote.nonce, "another card")?;
    no(card.state != "requested", "the card is answered")?;
    no(card.expires_at <= now, "the card has expired")?;
    no(draft.state != "awaiting_approval", "the draft does not wait")?;
    no(draft.expires_at <= now, "the draft has expired")?;
    let party = [draft.owner.as_deref(), draft.for_whom.as_deref(), Some(draft.maker.as_str())];
    no(party.contains(&Some(approver)), "the approver is a party")?;
    let late = record.decision == Decision::Approve && record.execute_by.is_some_and(|until| until.millis() <= now);
    no(late, "the record's own time is over")?;
    let answered = "SELECT 1 FROM approval_record WHERE approval = ?1 AND approver = ?2";
    no(holds(db, answered, (&card.id, approver)), "the approver has answered")?;
    no(
        holds(db, "SELECT 1 FROM approval_record WHERE id = ?1", [record.id.to_string()]),
        "the record was used",
    )?;
    let key = "SELECT 1 FROM approver_key k JOIN approver a ON a.id = k.approver
        WHERE k.kid = ?1 AND a.id = ?2 AND k.revoked_at IS NULL AND a.revoked_at IS NULL";
    no(!holds(db, key, (record.kid.as_str(), approver)), "the key is revoked or another's")
}

fn may_redeem(db: &Connection, now: i64, redeem: &Redeem) -> Result<(), No> {
    let (draft, grant) = usable(db, redeem.draft, now)?;
    let live = "SELECT 1 FROM credential WHERE id = ?1 AND draft = ?2 AND approval = ?3 AND hash = ?4 AND audience = ?5
        AND state = 'issued' AND expires_at > ?6";
    let of = (
        redeem.credential.to_string(),
        redeem.draft.to_string(),
        redeem.approval.to_string(),
        redeem.hash.to_string(),
        redeem.audience.as_str(),
        now,
    );
    no(!holds(db, live, of), "the credential is not live, or not for this")?;
    no(redeem.approval.to_string() != grant.id, "another approval")?;
    no(
        stopped(db, &redeem.draft.to_string(), Some(&redeem.credential.to_string()), now),
        "a stop covers it",
    )?;
    no(draft.hash != redeem.hash.to_string(), "another hash")?;
    no(client_revoked(db, &draft.maker), "the client is revoked")?;
    let earlier = "SELECT 1 FROM execution WHERE draft = ?1 AND state <> 'aborted'";
    no(holds(db, earlier, [redeem.draft.to_string()]), "the draft was executed")
}

fn in_doubt(db: &Connection, id: ExecutionId, but: u32) -> bool {
    let sql = "SELECT 1 FROM attempt WHERE execution = ?1 AND n <> ?2 AND coalesce(conclusive, 0) = 0";
    holds(db, sql, (id.to_string(), but))
}

fn may_dispatch(db: &Connection, now: i64, dispatch: &Dispatch) -> Result<(), No> {
    let execution = held(db, dispatch.execution, dispatch.fence)?;
    is_in(&execution.state, &["claimed", "indeterminate"], "not to be sent")?;
    let again = execution.state == "indeterminate";
    no(
        again && execution.send_until.is_none_or(|until| until <= now),
        "the window is closed",
    )?;
    let other = "SELECT 1 FROM attempt WHERE execution = ?1 AND request_sha256 <> ?2";
    no(
        holds(db, other, (dispatch.execution.to_string(), dispatch.request_sha256.to_string())),
        "other bytes",
    )?;
    let elsewhere = "SELECT 1 FROM attempt WHERE execution = ?1 AND coalesce(conclusive, 0) = 0 AND secrets <> ?2";
    no(
        holds(db, elsewhere, (dispatch.execution.to_string(), dispatch.secrets.to_string())),
        "other secrets",
    )?;
    no(stopped(db, &execution.draft, Some(&execution.credential), now), "a stop covers it")?;
    let grant = grant(db, &execution.draft).ok_or("there is no approval")?;
    no(grant.state == "revoked", "the approval was taken back")?;
    no(signer_revoked(db, &grant.id), "a signer is revoked")?;
    let draft = draft(db, &execution.draft).ok_or("there is no such draft")?;
    no(client_revoked(db, &draft.maker), "the client is revoked")?;
    if !in_doubt(db, dispatch.execution, 0) {
        no(draft.expires_at <= now, "the draft has expired")?;
        no(grant.execute_by.is_none_or(|until| until <= now), "the approval's time is over")?;
    }
    Ok(())
}

fn may_settle(db: &Connection, settle: &Settle) -> Result<(), No> {
    let execution = held(db, settle.execution, settle.fence)?;
    is_in(&execution.state, &["dispatched"], "nothing is under way")?;
    let last = "SELECT 1 FROM attempt WHERE execution = ?1 AND n = ?2 AND result_at IS NULL
        AND n = (SELECT max(n) FROM attempt WHERE execution = ?1)";
    no(
        !holds(db, last, (settle.execution.to_string(), settle.attempt)),
        "not the attempt that is under way",
    )?;
    let denies = matches!(settle.settled, Settled::NotApplied { .. });
    no(
        denies && (!settle.result.conclusive || in_doubt(db, settle.execution, settle.attempt)),
        "an attempt is in doubt",
    )
}
