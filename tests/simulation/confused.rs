//! A process of another make, or with a fault: it asks the store for what it must not get. Only what [`super::law`] refuses is asked for, so that
//! an answer other than a refusal is a fault of the store.

use std::time::Duration;

use rusqlite::OptionalExtension as _;
use writ::domain::approval::Decision;
use writ::domain::clock::Clock as _;
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::id::{ApprovalId, CredentialId, ExecutionId, RecordId, VerdictId};
use writ::domain::lifecycle::ExecutionState;
use writ::domain::policy::Question;
use writ::domain::secret::SecretsMark;
use writ::store::Store as _;
use writ::store::StoreError;
use writ::store::intent::*;
use writ::store::record::*;

use super::faulty::at_once;
use super::fixture::APPROVERS;
use super::law::Wish;
use super::schedule::Schedule;

const LEASE: Duration = Duration::from_secs(60);

/// Asks if the law says no, and judges what comes of it.
macro_rules! ask {
    ($schedule:ident, $worker:ident, $method:ident, $wish:ident, $input:expr) => {{
        let input = $input;
        let wish = Wish::$wish(&input);
        let process = &$schedule.fixture.processes[$worker];
        let now = process.clock.now().millis();
        let Some(why) = $schedule.fixture.watch.refuses(now, &wish) else {
            return;
        };
        let op = $schedule.op($worker, "confused");
        let answer = at_once($schedule.fixture.threads.handle(), process.store.$method(op, input.clone()));
        $schedule.confusion_answered(stringify!($method), why, &answer.map(|_| ()));
    }};
}

impl Schedule<'_> {
    /// One thing nobody may do.
    pub fn confused(&mut self, worker: usize) {
        if self.drafts.is_empty() {
            return;
        }
        let sql = "SELECT draft FROM execution WHERE state IN ('claimed', 'dispatched', 'indeterminate', 'pending') ORDER BY id LIMIT 1";
        let open: Option<String> = self
            .fixture
            .watch
            .look(|db| db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).optional().unwrap());
        let about_open = if self.mood.pairs { 40 } else { 60 };
        let open = open.filter(|_| self.dice.chance(about_open));
        let id = open.map_or_else(|| self.some_draft(), |id| id.parse().unwrap());
        let Some(draft) = self.record(id) else { return };
        let execution = draft.execution.as_ref().and_then(|e| self.execution(e.id));
        // Where there is an execution it is mostly about that.
        let is_repeated = execution
            .as_ref()
            .is_some_and(|e| e.state == ExecutionState::Dispatched && e.attempts.len() > 1);
        let what = if is_repeated && self.dice.chance(50) {
            9
        } else if execution.is_some() && self.dice.chance(60) {
            6 + self.dice.below(8)
        } else {
            self.dice.below(6)
        };
        match (what, execution) {
            (0, _) => self.decide_again(worker, &draft),
            (1, _) => {
                let how = self.dice.pick(&[CloseAs::Withdrawn, CloseAs::Stale]);
                ask!(self, worker, close, Close, close(&draft, how));
            }
            (2, _) => self.vote_wrongly(worker, &draft),
            (3, _) => self.issue_wrongly(worker, &draft),
            (4 | 5, _) => self.redeem_wrongly(worker, &draft),
            (6, Some(e)) => {
                let fence = self.fence(&e);
                let take = TakeOver {
                    execution: e.id,
                    fence,
                    holder: "confused".to_owned(),
                    lease: LEASE,
                };
                ask!(self, worker, take_over, TakeOver, take);
            }
            (7, Some(e)) => {
                let abort = Abort {
                    execution: e.id,
                    fence: self.fence(&e),
                    code: "confused".to_owned(),
                    then: AfterAbort::Release,
                };
                ask!(self, worker, abort, Abort, abort);
            }
            (8, Some(e)) => {
                let bytes = e.attempts.first().map_or(Digest::of(b"x"), |a| a.request_sha256);
                let other = SecretsMark::of([&b"another account's"[..]]);
                let secrets = e.attempts.first().and_then(|a| a.secrets).unwrap_or(other);
                let dispatch = Dispatch {
                    execution: e.id,
                    fence: self.fence(&e),
                    request_sha256: if self.dice.chance(30) { Digest::of(b"other") } else { bytes },
                    secrets: if self.dice.chance(30) { other } else { secrets },
                    lease: LEASE,
                    send_window: LEASE,
                };
                ask!(self, worker, dispatch, Dispatch, dispatch);
            }
            (9 | 10, Some(e)) => self.settle_wrongly(worker, &e),
            (11, Some(e)) => {
                let look = LookUp {
                    execution: e.id,
                    fence: self.fence(&e),
                    settled: self.some_outcome(),
                    result: LookUpRecord {
                        at: self.fixture.processes[worker].clock.now(),
                        step: "confused".to_owned(),
                        finding: "inconclusive".to_owned(),
                        status: None,
                        body_sha256: None,
                    },
                    next_action_at: None,
                    events: Vec::new(),
                };
                ask!(self, worker, look_up, LookUp, look);
            }
            (12 | 13, Some(e)) if self.dice.chance(50) => self.settle_wrongly(worker, &e),
            (12 | 13, Some(e)) => {
                let hand_off = HandOff {
                    execution: e.id,
                    fence: self.fence(&e),
                    code: "confused".to_owned(),
                };
                ask!(self, worker, hand_off, HandOff, hand_off);
            }
            _ => {}
        }
    }

    fn confusion_answered(&self, name: &str, why: &str, answer: &Result<(), StoreError>) {
        self.fixture
            .watch
            .note(|| format!("  a confused process: {name}, though {why}: {answer:?}"));
        match answer {
            Err(StoreError::Rejected(_) | StoreError::Paused(_)) => {}
            Ok(()) => self
                .fixture
                .watch
                .fault(format!("{name}: taken from a confused process, though {why}")),
            Err(error) => self
                .fixture
                .watch
                .fault(format!("{name}: only the schema stopped a confused process: {error}")),
        }
    }

    fn execution(&self, id: ExecutionId) -> Option<ExecutionRecord> {
        at_once(self.fixture.threads.handle(), self.fixture.processes[0].store.execution(id)).unwrap()
    }

    fn credentials(&self, draft: &DraftRecord) -> Vec<CredentialRecord> {
        let ids: Vec<String> = self.fixture.watch.look(|db| {
            let mut statement = db.prepare_cached("SELECT id FROM credential WHERE draft = ?1").unwrap();
            let rows = statement.query_map([draft.id.to_string()], |row| row.get(0));
            rows.unwrap().map(Result::unwrap).collect()
        });
        let store = &self.fixture.processes[0].store;
        ids.iter()
            .filter_map(|id| at_once(self.fixture.threads.handle(), store.credential(id.parse().unwrap())).unwrap())
            .collect()
    }

    /// The current fencing token, or one that was.
    fn fence(&mut self, execution: &ExecutionRecord) -> u64 {
        if self.dice.chance(50) && execution.fence > 1 {
            execution.fence - 1
        } else {
            execution.fence
        }
    }

    fn some_outcome(&mut self) -> Settled {
        match self.dice.below(4) {
            0 => Settled::Applied { reference: None },
            1 => Settled::Pending { reference: None },
            2 => Settled::Indeterminate {
                code: "confused".to_owned(),
            },
            _ => Settled::NotApplied {
                code: "confused".to_owned(),
            },
        }
    }

    fn decide_again(&mut self, worker: usize, draft: &DraftRecord) {
        let process = &self.fixture.processes[worker];
        let verdict = StoredVerdict {
            id: VerdictId::generate(&*process.clock, &*process.entropy),
            answer: self.fixture.policy.propose(&Question {
                operation: draft.operation.clone(),
                client: draft.maker.clone(),
                owner: draft.owner.clone(),
                amount: draft.amount,
                fields: draft.fields.clone(),
                recent: draft.recent,
            }),
        };
        let decide = Decide {
            draft: draft.id,
            then: Follow::Hold {
                approval: ApprovalId::generate(&*process.clock, &*process.entropy),
                nonce: "confused".to_owned(),
                requirement: verdict.answer.requirement.clone(),
                expires_at: draft.expires_at,
            },
            verdict,
        };
        ask!(self, worker, decide, Decide, decide);
    }

    fn vote_wrongly(&mut self, worker: usize, draft: &DraftRecord) {
        let approver = self.dice.below(APPROVERS.len());
        let Some(claims) = self.claims(draft, approver, Decision::Approve) else {
            return;
        };
        let process = &self.fixture.processes[worker];
        let earlier = draft.approval.as_ref().and_then(|a| a.records.first()).cloned();
        let fresh = SignedRecord {
            id: RecordId::generate(&*process.clock, &*process.entropy),
            approver: claims.sub.clone(),
            kid: format!("{}-1", APPROVERS[approver]).parse().unwrap(),
            decision: Decision::Approve,
            reason: None,
            queues: ["finance.refunds".parse().unwrap()].into(),
            step_up: false,
            execute_by: None,
            received_at: process.clock.now(),
            jws: "confused".to_owned(),
        };
        let record = match (self.dice.below(3), earlier) {
            (0, Some(earlier)) => SignedRecord { id: fresh.id, ..earlier },
            _ => fresh,
        };
        let vote = Vote {
            draft: draft.id,
            hash: if self.dice.chance(20) {
                DraftHash::of_canonical(b"{}")
            } else {
                draft.hash
            },
            nonce: if self.dice.chance(20) {
                "another".to_owned()
            } else {
                claims.apr.request_nonce
            },
            record,
            window: LEASE,
        };
        ask!(self, worker, vote, Vote, vote);
    }

    fn issue_wrongly(&mut self, worker: usize, draft: &DraftRecord) {
        let Some(verdict) = draft.verdict.clone() else { return };
        let process = &self.fixture.processes[worker];
        let mut records: Vec<RecordId> = draft.approval.iter().flat_map(|a| &a.records).map(|r| r.id).collect();
        if self.dice.chance(20) {
            records.pop();
        }
        let now = process.clock.now();
        let issue = Issue {
            credential: CredentialId::generate(&*process.clock, &*process.entropy),
            draft: draft.id,
            hash: if self.dice.chance(15) {
                DraftHash::of_canonical(b"{}")
            } else {
                draft.hash
            },
            audience: "urn:writ:proxy:main".parse().unwrap(),
            root_key_id: 1,
            expires_at: if self.dice.chance(15) { now } else { now.plus(LEASE) },
            records,
            answer: verdict.answer,
        };
        if self.dice.chance(10) {
            // It may get one, but not for so long; how long it is good is looked at in the end.
            let expires_at = now.plus(Duration::from_secs(86_400));
            let op = self.op(worker, "confused");
            let asked = process.store.issue(op, Issue { expires_at, ..issue });
            let _ = at_once(self.fixture.threads.handle(), asked);
            return;
        }
        ask!(self, worker, issue, Issue, issue);
    }

    fn redeem_wrongly(&mut self, worker: usize, draft: &DraftRecord) {
        let all = self.credentials(draft);
        if all.is_empty() {
            return;
        }
        let credential = all[self.dice.below(all.len())].clone();
        let process = &self.fixture.processes[worker];
        let other = self.dice.below(6);
        let redeem = Redeem {
            credential: credential.id,
            approval: if other == 0 {
                ApprovalId::generate(&*process.clock, &*process.entropy)
            } else {
                credential.approval
            },
            draft: credential.draft,
            hash: if other == 1 {
                DraftHash::of_canonical(b"{}")
            } else {
                credential.hash
            },
            audience: if other == 2 {
                "urn:writ:proxy:other".parse().unwrap()
            } else {
                credential.audience
            },
            execution: ExecutionId::generate(&*process.clock, &*process.entropy),
            holder: "confused".to_owned(),
            lease: LEASE,
        };
        let wish = Wish::Redeem(&redeem);
        let now = process.clock.now().millis();
        let Some(why) = self.fixture.watch.refuses(now, &wish) else {
            return;
        };
        let op = self.op(worker, "confused");
        let answer = at_once(self.fixture.threads.handle(), process.store.redeem(op, redeem.clone()));
        // What was executed before is answered with what is known, and nothing is written.
        let answer = match answer.map(|applied| applied.value) {
            Ok(Redeemed::Already(_)) => return,
            Ok(Redeemed::Claimed(_)) => Ok(()),
            Err(error) => Err(error),
        };
        self.confusion_answered("redeem", why, &answer);
    }

    fn settle_wrongly(&mut self, worker: usize, execution: &ExecutionRecord) {
        let Some(last) = execution.attempts.last().map(|last| last.n) else {
            return;
        };
        let attempt = if self.dice.chance(50) { 1 } else { last };
        let settled = if self.dice.chance(40) {
            Settled::NotApplied {
                code: "confused".to_owned(),
            }
        } else {
            self.some_outcome()
        };
        let settle = Settle {
            execution: execution.id,
            fence: self.fence(execution),
            attempt,
            settled,
            result: AttemptResult {
                at: self.fixture.processes[worker].clock.now(),
                outcome: "confused".to_owned(),
                conclusive: self.dice.chance(50),
                status: None,
                rule: None,
                body_sha256: None,
            },
            next_action_at: None,
        };
        ask!(self, worker, settle, Settle, settle);
    }
}

fn close(draft: &DraftRecord, how: CloseAs) -> Close {
    Close {
        draft: draft.id,
        how,
        code: "confused".to_owned(),
        reason: None,
        answer: None,
    }
}
