//! After a schedule: everything that has begun is brought to its end, and then what must hold is looked at.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::draft::DraftDocument;
use writ::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

use super::bank::Refund;
use super::fixture::WORKERS;
use super::report::Report;
use super::schedule::{Faults, Schedule};
use super::watch::Left;

/// Every transition by its event: where it may start, and where it ends.
pub fn lifecycle() -> BTreeMap<&'static str, (Vec<&'static str>, &'static str)> {
    let mut all = BTreeMap::new();
    for t in DraftTransition::ALL {
        all.insert(t.event(), (t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str()));
    }
    for t in ApprovalTransition::ALL {
        all.insert(t.event(), (t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str()));
    }
    for t in CredentialTransition::ALL {
        all.insert(t.event(), (t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str()));
    }
    for t in ExecutionTransition::ALL {
        all.insert(t.event(), (t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str()));
    }
    for t in StopTransition::ALL {
        all.insert(t.event(), (t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str()));
    }
    all
}

struct Row {
    id: String,
    draft: String,
    state: String,
}

impl Schedule<'_> {
    /// Brings everything to its end: no more faults, but time, sweeps, the bank's answers, and in the end a person.
    pub async fn finish(&mut self) {
        self.fixture.watch.note(|| "nothing new begins".to_owned());
        self.run_out(Faults::Still).await;
        // What is open is looked into while things still go wrong.
        for round in 0..3 {
            let Some(due) = self.next_due() else { break };
            self.until(due).await;
            self.sweep_proxy(round % WORKERS);
            self.run_out(Faults::Still).await;
        }
        self.fixture.watch.note(|| "the end: no more faults".to_owned());
        self.pass_time(46_000).await;
        self.bank.lock().unwrap().release(i64::MAX);
        self.bank_finishes();
        let mut worker = 0;
        for round in 0..60 {
            let Some(due) = self.next_due() else { break };
            self.until(due).await;
            worker = (worker + 1) % WORKERS;
            self.sweep_proxy(worker);
            self.run_out(Faults::NoMore).await;
            if round == 59 {
                self.fixture.watch.fault("an outcome stays open and nobody is told");
            }
        }
        for (id, draft) in self.cases() {
            self.close_case(worker, id.parse().unwrap(), &draft);
            self.run_out(Faults::NoMore).await;
        }
        if self.dice.chance(50) {
            let hours = self.dice.pick(&[0, 0, 5]);
            self.pass_time(11_000 + hours * 3_600_000).await;
            self.sweep_broker(0);
            self.run_out(Faults::NoMore).await;
        }
    }

    /// Lets time pass until this moment has come by every clock.
    pub async fn until(&mut self, due: i64) {
        let slowest = self.fixture.processes.iter().map(|p| p.clock.ahead()).min().unwrap_or(0);
        let wall = self.fixture.outside.now() + slowest;
        if due > wall {
            self.pass_time(due - wall + 1).await;
        }
    }

    /// When something that is open can go on by itself.
    pub fn next_due(&self) -> Option<i64> {
        let sql = "SELECT min(due) FROM (
            SELECT max(lease_until, coalesce(next_action_at, 0)) AS due FROM execution
                WHERE state IN ('claimed', 'dispatched', 'indeterminate', 'pending')
            UNION ALL SELECT max(e.lease_until, b.look_at) FROM backend_event b JOIN execution e ON e.id = b.execution WHERE b.look_at IS NOT NULL)";
        self.fixture
            .watch
            .look(|db| db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).unwrap())
    }

    fn cases(&self) -> Vec<(String, String)> {
        let sql = "SELECT id, draft FROM execution WHERE state = 'handed_off' ORDER BY id";
        self.fixture.watch.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            rows.unwrap().map(Result::unwrap).collect()
        })
    }

    fn rows(&self, sql: &str) -> Vec<Row> {
        self.fixture.watch.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            let rows = statement.query_map([], |row| {
                Ok(Row {
                    id: row.get(0)?,
                    draft: row.get(1)?,
                    state: row.get(2)?,
                })
            });
            rows.unwrap().map(Result::unwrap).collect()
        })
    }
}

/// Looks at everything that must hold.
pub fn all(schedule: &Schedule<'_>) -> Report {
    let watch = &schedule.fixture.watch;
    let mut report = Report::default();
    second_effects(schedule, &mut report);
    outcomes(schedule);
    wire(schedule);
    events(schedule, &mut report);
    contents(schedule);
    if let Some(charge) = schedule.bank.lock().unwrap().overdrawn() {
        watch.fault(format!("more was given back of {} than was paid", charge.id));
    }
    if let Some(key) = &schedule.bank.lock().unwrap().forgotten {
        watch.fault(format!("the key {key} came after the backend had forgotten it"));
    }
    report.faults = watch.faults();
    report.trace = watch.trace();
    report.left = watch.left().len();
    report
}

fn made(schedule: &Schedule<'_>) -> BTreeMap<String, Vec<Refund>> {
    let mut made: BTreeMap<String, Vec<Refund>> = BTreeMap::new();
    for refund in &schedule.bank.lock().unwrap().refunds {
        if let Some(draft) = &refund.draft {
            made.entry(draft.clone()).or_default().push(refund.clone());
        }
    }
    made
}

fn second_effects(schedule: &Schedule<'_>, report: &mut Report) {
    for (draft, refunds) in made(schedule) {
        if refunds.len() > 1 {
            report.second_effects += 1;
            schedule.fixture.watch.fault(format!("{} effects of {draft}", refunds.len()));
        }
    }
}

/// What is stored is what is true.
fn outcomes(schedule: &Schedule<'_>) {
    let watch = &schedule.fixture.watch;
    let made = made(schedule);
    let executions = schedule.rows("SELECT id, draft, state FROM execution");
    let senders = watch.senders();
    for row in &executions {
        let effects = made.get(&row.draft).map_or(&[][..], Vec::as_slice);
        let lives = effects.iter().any(Refund::lives);
        match row.state.as_str() {
            "applied" if effects.is_empty() => watch.fault(format!("{} is called applied and nothing was done", row.id)),
            "not_applied" if lives => watch.fault(format!("{} is called not applied and it was done", row.id)),
            "aborted" if senders.contains(&row.draft) => {
                watch.fault(format!("{} was given up after something had left", row.id));
            }
            "claimed" | "dispatched" | "indeterminate" | "pending" => watch.fault(format!("{} is {} for ever", row.id, row.state)),
            _ => {}
        }
    }
    let executed: BTreeSet<&String> = executions.iter().map(|row| &row.draft).collect();
    for draft in made.keys().filter(|draft| !executed.contains(draft)) {
        watch.fault(format!("{draft} had an effect and no execution"));
    }
}

/// What left is what was written down, once each, under one key and with the approved bytes.
fn wire(schedule: &Schedule<'_>) {
    let watch = &schedule.fixture.watch;
    let left = watch.left();
    let mut seen = BTreeSet::new();
    for one in &left {
        if !seen.insert((one.draft.clone(), one.attempt)) {
            watch.fault(format!("attempt {} of {} left twice", one.attempt, one.draft));
        }
    }
    let mut by_draft: BTreeMap<&str, Vec<&Left>> = BTreeMap::new();
    for one in &left {
        by_draft.entry(one.draft.as_str()).or_default().push(one);
    }
    for (draft, all) in by_draft {
        let reached: Vec<&&Left> = all.iter().filter(|l| l.reached).collect();
        if !schedule.variant.keyed && reached.len() > 1 {
            watch.fault(format!("{draft} was sent {} times to a backend without keys", reached.len()));
        }
        let window = schedule.variant.habits.remembers;
        if let (Some(first), Some(last), true) = (all.first(), all.last(), window > 0)
            && last.at >= first.at + window
        {
            watch.fault(format!("the key of {draft} was sent after its window"));
        }
        if all.iter().any(|one| one.key != all[0].key || one.body != all[0].body) {
            watch.fault(format!("{draft} left under another key or with other bytes"));
        }
    }
    // Every attempt that an answer came to has left.
    let sql = "SELECT e.draft, a.n, a.outcome FROM attempt a JOIN execution e ON e.id = a.execution WHERE a.outcome IS NOT NULL";
    let answered: Vec<(String, i64, String)> = watch.look(|db| {
        let mut statement = db.prepare_cached(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().map(Result::unwrap).collect()
    });
    for (draft, n, outcome) in answered {
        let reached = left.iter().any(|l| l.draft == draft && l.attempt == n && l.reached);
        if (outcome == "not_sent") == reached {
            watch.fault(format!(
                "attempt {n} of {draft} is called {outcome}, and on the wire it was otherwise"
            ));
        }
    }
}

/// Every change of state has one event, in order and without a gap.
fn events(schedule: &Schedule<'_>, report: &mut Report) {
    let watch = &schedule.fixture.watch;
    let lifecycle = lifecycle();
    let events: Vec<(i64, String)> = watch.look(|db| {
        let mut statement = db.prepare_cached("SELECT seq, body FROM event ORDER BY seq").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    });
    let mut stands: BTreeMap<(String, String), String> = BTreeMap::new();
    for (place, (seq, body)) in (0_i64..).zip(&events) {
        if place != *seq {
            watch.fault(format!("the log has a gap before event {seq}"));
            report.without_event += 1;
        }
        let event: Value = serde_json::from_str(body).unwrap();
        let kind = event["type"].as_str().unwrap_or_default();
        let Some((name, (from, to))) = lifecycle.get_key_value(kind) else {
            continue;
        };
        report.reached.insert(name);
        let entity = kind.split('.').next().unwrap_or_default().to_owned();
        let id = event[&entity]["id"].as_str().unwrap_or_default().to_owned();
        let was = stands.insert((entity, id.clone()), (*to).to_owned());
        let says = event["state"]["from"].as_str();
        let begins = from.is_empty() || (kind == "execution.claim" && was.is_none());
        let fits = match &was {
            None => begins && says.is_none(),
            Some(was) => says == Some(was.as_str()) && from.contains(&was.as_str()),
        };
        if !fits || event["state"]["to"].as_str() != Some(*to) {
            report.without_event += 1;
            watch.fault(format!("{kind} of {id} at {seq} starts from {was:?} and says {says:?}"));
        }
    }
    for (entity, sql) in [
        ("draft", "SELECT id, id, state FROM draft"),
        ("approval", "SELECT id, draft, state FROM approval"),
        ("credential", "SELECT id, draft, state FROM credential"),
        ("execution", "SELECT id, draft, state FROM execution"),
        ("stop", "SELECT id, id, state FROM stop"),
    ] {
        for row in schedule.rows(sql) {
            let told = stands.get(&(entity.to_owned(), row.id.clone()));
            if told != Some(&row.state) {
                report.without_event += 1;
                watch.fault(format!("{} is {} and its events say {told:?}", row.id, row.state));
            }
        }
    }
}

/// Drafts never change, their keys follow from them, and what belongs together agrees.
fn contents(schedule: &Schedule<'_>) {
    let watch = &schedule.fixture.watch;
    let sql = "SELECT d.id, d.hash, d.idempotency_key, b.bytes FROM draft d JOIN draft_document b ON b.draft = d.id";
    let drafts: Vec<(String, String, String, Vec<u8>)> = watch.look(|db| {
        let mut statement = db.prepare_cached(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        rows.unwrap().map(Result::unwrap).collect()
    });
    let left = watch.left();
    for (id, hash, key, bytes) in drafts {
        let now = DraftHash::of_canonical(&bytes);
        if now.to_string() != hash {
            watch.fault(format!("the bytes of {id} have changed"));
        }
        if key_of(&now) != key {
            watch.fault(format!("the key of {id} does not follow from its hash"));
        }
        let document = DraftDocument::parse(&bytes).unwrap();
        let key: writ::domain::draft::IdempotencyKey = serde_json::from_value(Value::String(key)).unwrap();
        let approved = Digest::of(&document.request.wire_body(&key));
        for one in left.iter().filter(|l| l.draft == id) {
            let sent_key = one.key.as_ref().is_none_or(|k| *k == key.to_string());
            if one.body != approved || !sent_key {
                watch.fault(format!("{id} left with other bytes, or under another key, than were approved"));
            }
        }
    }
    for (what, sql) in [
        (
            "two live credentials of one draft",
            "SELECT draft FROM credential WHERE state = 'issued' GROUP BY draft HAVING count(*) > 1",
        ),
        (
            "a live credential of a draft that may not run",
            "SELECT c.id FROM credential c JOIN draft d ON d.id = c.draft WHERE c.state = 'issued' AND d.state <> 'approved'",
        ),
        (
            "a credential that outlives its approval or its draft",
            "SELECT c.id FROM credential c JOIN draft d ON d.id = c.draft JOIN approval a ON a.id = c.approval
             WHERE c.expires_at > min(a.execute_by, d.expires_at)",
        ),
        (
            "an approval by fewer people than were needed",
            "SELECT a.id FROM approval a WHERE a.execute_by IS NOT NULL AND
                (SELECT count(DISTINCT r.approver) FROM approval_record r WHERE r.approval = a.id AND r.decision = 'approve')
                < max(1, (SELECT coalesce(sum(json_extract(value, '$.count')), 0) FROM json_each(a.requirement, '$.all_of')))",
        ),
        (
            "an approval that lasts longer than somebody who signed it wanted",
            "SELECT a.id FROM approval a JOIN approval_record r ON r.approval = a.id
             WHERE r.decision = 'approve' AND a.execute_by > r.execute_by",
        ),
        (
            "an approval that is good although its draft is over",
            "SELECT a.id FROM approval a JOIN draft d ON d.id = a.draft
             WHERE a.state IN ('requested', 'granted') AND d.state NOT IN ('awaiting_approval', 'approved', 'consumed')",
        ),
        (
            "a draft that was replaced and is open still",
            "SELECT old.id FROM draft new JOIN draft old ON old.id = new.supersedes
             WHERE old.state IN ('proposed', 'awaiting_approval', 'approved')",
        ),
        (
            "two open outcomes on one resource",
            "SELECT d.resource_id FROM draft d JOIN execution e ON e.draft = d.id
             WHERE e.state IN ('claimed', 'dispatched', 'indeterminate', 'handed_off') GROUP BY d.resource_id HAVING count(*) > 1",
        ),
        (
            "a consumed draft without an execution, or the other way round",
            "SELECT d.id FROM draft d LEFT JOIN execution e ON e.draft = d.id
             WHERE (d.state = 'consumed') <> (e.id IS NOT NULL AND e.state <> 'aborted')",
        ),
        (
            "two open drafts of the same wish",
            "SELECT content FROM draft WHERE settled_at IS NULL GROUP BY tenant, maker, content HAVING count(*) > 1",
        ),
        (
            "as many redemptions as claims",
            "SELECT 1 WHERE (SELECT count(*) FROM event WHERE type = 'credential.redeem') <> (SELECT count(*) FROM event WHERE type = 'execution.claim')
                OR (SELECT count(*) FROM credential WHERE state = 'redeemed') <> (SELECT count(*) FROM event WHERE type = 'execution.claim')",
        ),
    ] {
        if watch.look(|db| db.prepare_cached(sql).unwrap().exists([]).unwrap()) {
            watch.fault(what);
        }
    }
}

/// The key of a hash, computed here once more.
fn key_of(hash: &DraftHash) -> String {
    let digest = Digest::tagged("writ.idempotency-key.v1", hash.digest().as_bytes());
    let mut bytes: [u8; 16] = digest.as_bytes()[..16].try_into().unwrap();
    bytes[6] = (bytes[6] & 0x0F) | 0x80;
    bytes[8] = (bytes[8] & 0x3F) | 0x80;
    uuid::Uuid::from_bytes(bytes).to_string()
}
