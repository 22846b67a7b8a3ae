//! Looks on: what leaves, what the store takes, and what must never be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension};
use writ::domain::digest::Digest;
use writ::domain::id::OperationId;
use writ::store::record::ExecutionRecord;
use writ::store::{Applied, StoreError};

use super::bank::Request;
use super::law::{Wish, refuses};

/// One request that may have left.
#[derive(Debug, Clone)]
pub struct Left {
    pub draft: String,
    pub attempt: i64,
    pub at: i64,
    pub key: Option<String>,
    pub body: Digest,
    pub reached: bool,
}

#[derive(Default)]
struct Seen {
    faults: Vec<String>,
    left: Vec<Left>,
    /// What was applied, by operation.
    applied: BTreeMap<OperationId, i64>,
    /// A definite, first dispatch: draft and attempt, whose it is, and until when it may be used.
    permits: BTreeMap<(String, i64), (usize, i64)>,
    first_key: BTreeMap<String, i64>,
    /// The looks of each process at each charge: after which event, and how much was given back.
    looks: BTreeMap<(usize, String), Vec<(i64, i64)>>,
    trace: Option<Vec<String>>,
}

/// What is seen of one schedule.
pub struct Watch {
    db: Mutex<Connection>,
    seen: Mutex<Seen>,
    /// How long a client waits, in milliseconds.
    patience: i64,
}

impl Watch {
    pub fn new(db: Connection, patience: i64) -> Self {
        db.set_prepared_statement_cache_capacity(64);
        Self {
            db: Mutex::new(db),
            seen: Mutex::default(),
            patience,
        }
    }

    /// Forgets everything, for the next schedule.
    pub fn reset(&self, traced: bool) {
        *self.seen.lock().unwrap() = Seen {
            trace: traced.then(Vec::new),
            ..Seen::default()
        };
    }

    pub fn fault(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("FAULT: {what}"));
        self.seen.lock().unwrap().faults.push(what);
    }

    pub fn faults(&self) -> Vec<String> {
        self.seen.lock().unwrap().faults.clone()
    }

    pub fn left(&self) -> Vec<Left> {
        self.seen.lock().unwrap().left.clone()
    }

    pub fn note(&self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.seen.lock().unwrap().trace {
            trace.push(what());
        }
    }

    pub fn trace(&self) -> Vec<String> {
        self.seen.lock().unwrap().trace.clone().unwrap_or_default()
    }

    /// Looks into the store from outside.
    pub fn look<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        read(&self.db.lock().unwrap())
    }

    /// Why this must be refused now.
    pub fn refuses(&self, now: i64, wish: &Wish<'_>) -> Option<&'static str> {
        self.look(|db| refuses(db, now, wish))
    }

    /// A request leaves: it must be written down, under the permit of the attempt, with its bytes, inside its window.
    pub fn leaves(&self, worker: usize, now: i64, request: &Request) {
        let Some(draft) = request.field("metadata[writ_draft]") else {
            return self.fault("a request left that names no draft");
        };
        let sql = "SELECT (SELECT max(n) FROM attempt WHERE execution = e.id),
                (SELECT request_sha256 FROM attempt WHERE execution = e.id ORDER BY n DESC LIMIT 1),
                (SELECT result_at FROM attempt WHERE execution = e.id ORDER BY n DESC LIMIT 1), e.state
            FROM execution e WHERE e.draft = ?1";
        let row = self.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            let read = |row: &rusqlite::Row<'_>| {
                Ok((
                    row.get::<_, Option<i64>>(0)?,
                    row.get::<_, Option<String>>(1)?,
                    row.get::<_, Option<i64>>(2)?,
                ))
            };
            statement.query_row([&draft], read).optional().unwrap()
        });
        let body = Digest::of(&request.body);
        let attempt = match row {
            Some((Some(n), Some(sha), None)) => {
                if sha != body.to_string() {
                    self.fault(format!("attempt {n} of {draft} left with other bytes than were written down"));
                }
                n
            }
            _ => {
                self.fault(format!("a request of {draft} left before it was written down"));
                0
            }
        };
        if attempt > 0 {
            self.looked_before(worker, &draft, attempt, &request.field("charge").unwrap_or_default());
        }
        let permit = self.seen.lock().unwrap().permits.remove(&(draft.clone(), attempt));
        match permit {
            Some((whose, until)) if whose == worker => {
                if now > until - self.patience {
                    self.fault(format!("attempt {attempt} of {draft} left after its lease"));
                }
            }
            _ => self.fault(format!("attempt {attempt} of {draft} left without a first, definite dispatch")),
        }
        let left = Left {
            draft,
            attempt,
            at: request.at,
            key: request.key.clone(),
            body,
            reached: true,
        };
        let mut seen = self.seen.lock().unwrap();
        if let Some(key) = &request.key {
            seen.first_key.entry(key.clone()).or_insert(request.at);
        }
        seen.left.push(left);
    }

    /// Whether what the backend tells under this id is written down already.
    pub fn was_told(&self, event: &str) -> bool {
        self.look(|db| {
            db.prepare_cached("SELECT 1 FROM backend_event WHERE id = ?1")
                .unwrap()
                .exists([event])
                .unwrap()
        })
    }

    /// A process has looked at a charge.
    pub fn looked(&self, worker: usize, charge: &str, refunded: i64) {
        let sql = "SELECT coalesce(max(seq), -1) FROM event";
        let events = self.look(|db| db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).unwrap());
        let key = (worker, charge.to_owned());
        self.seen.lock().unwrap().looks.entry(key).or_default().push((events, refunded));
    }

    /// A send that counts as the first must follow a look which showed what was approved. Once something may have been done, a repetition only
    /// finds out.
    fn looked_before(&self, worker: usize, draft: &str, attempt: i64, charge: &str) {
        let sql = "SELECT (SELECT max(seq) FROM event WHERE draft = d.id AND type IN ('execution.claim', 'execution.reclaim', 'execution.lose_track')),
                json_extract(CAST(b.bytes AS TEXT), '$.facts.charge.amount_refunded'),
                EXISTS (SELECT 1 FROM attempt a JOIN execution e ON e.id = a.execution
                    WHERE e.draft = d.id AND a.n < ?2 AND coalesce(a.conclusive, 0) = 0)
            FROM draft d JOIN draft_document b ON b.draft = d.id WHERE d.id = ?1";
        let (since, approved, in_doubt): (i64, i64, bool) = self.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            statement.query_row((draft, attempt), read).unwrap()
        });
        let looks = self.seen.lock().unwrap().looks.get(&(worker, charge.to_owned())).cloned();
        let shown = |(event, refunded): &(i64, i64)| *event >= since && *refunded == approved;
        if !in_doubt && !looks.unwrap_or_default().iter().any(shown) {
            self.fault(format!(
                "attempt {attempt} of {draft} left without a look that showed what was approved"
            ));
        }
    }

    /// It is certain that the last request of this draft did not leave.
    pub fn never_left(&self, request: &Request) {
        let draft = request.field("metadata[writ_draft]").unwrap_or_default();
        let mut seen = self.seen.lock().unwrap();
        if let Some(last) = seen.left.iter_mut().rev().find(|left| left.draft == draft) {
            last.reached = false;
        }
    }

    /// A dispatch came back as done for the first time: its attempt may leave, once.
    pub fn dispatched(&self, worker: usize, applied: &Applied<ExecutionRecord>) {
        if applied.replayed {
            return;
        }
        let record = &applied.value;
        let Some(last) = record.attempts.last() else {
            return self.fault(format!("{} was dispatched without an attempt", record.id));
        };
        let key = (record.draft.to_string(), i64::from(last.n));
        let until = record.lease_until.millis();
        self.seen.lock().unwrap().permits.insert(key, (worker, until));
    }

    /// What the store itself said about a transition, before anything of its answer is lost.
    pub fn judge<T>(
        &self,
        name: &str,
        op: OperationId,
        now: i64,
        refused: Option<&'static str>,
        wrote: bool,
        answer: &Result<Applied<T>, StoreError>,
    ) {
        let known = self.seen.lock().unwrap().applied.get(&op).copied();
        // The store keeps an operation for two days.
        let known = known.filter(|at| now - at < 47 * 3_600_000);
        match answer {
            Ok(applied) if applied.replayed => {
                if known.is_none() {
                    self.fault(format!("{name}: an operation was called a repetition that was not one"));
                }
            }
            Ok(_) => {
                if known.is_some() {
                    self.fault(format!("{name}: an operation took place twice"));
                }
                if let (true, Some(why)) = (wrote, refused) {
                    self.fault(format!("{name}: taken, though {why}"));
                }
                if wrote {
                    self.seen.lock().unwrap().applied.insert(op, now);
                }
            }
            Err(StoreError::Rejected(_)) => {
                if known.is_some() {
                    self.fault(format!("{name}: the repetition of an operation that took place was refused"));
                }
            }
            // A clock that is behind: nothing was done.
            Err(StoreError::Paused(_)) => {}
            Err(error) => self.fault(format!("{name}: the store failed by itself: {error}")),
        }
    }

    /// The drafts that left anything.
    pub fn senders(&self) -> BTreeSet<String> {
        self.seen.lock().unwrap().left.iter().map(|left| left.draft.clone()).collect()
    }
}
