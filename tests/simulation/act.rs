//! What can be done in one step: by the agent, by people, by processes on their own, by the backend, by time, and by a process that is confused.

use writ::audit::{Actor, ActorKind};
use writ::broker::Caller;
use writ::domain::id::{DraftId, OperationId, RequestId};
use writ::domain::principal::Client;
use writ::store::record::DraftRecord;
use writ::store::{Op, Store as _};

use super::faulty::at_once;
use super::fixture::WORKERS;
use super::gates::Place;
use super::mood::Theme;
use super::schedule::{Done, Schedule};

/// One thing to do.
#[derive(Debug, Clone, Copy)]
enum Act {
    Propose,
    ProposeAgain,
    Supersede,
    Vote,
    Withdraw,
    Exchange,
    Execute,
    ExecuteAgain,
    ExecuteOther,
    ProxySweep,
    BrokerSweep,
    Resolve,
    Revoke,
    TakeBack,
    Stop,
    Lift,
    HangUp,
    Die,
    Elsewhere,
    BankFinishes,
    BankFails,
    BankTells,
    Seconds,
    Minutes,
    Hours,
    Deadline,
    ClockMoves,
    Confused,
}

impl Schedule<'_> {
    /// Does one thing that fits what there is.
    pub async fn act(&mut self) {
        let states = self.states();
        let count = |state: &str| u32::try_from(states.iter().filter(|(_, s, _)| s == state).count()).unwrap();
        let executing = |of: &[&str]| {
            let some = states.iter().filter(|(_, _, e)| e.as_deref().is_some_and(|e| of.contains(&e)));
            u32::try_from(some.count()).unwrap()
        };
        let when = |yes: bool, weight: u32| if yes { weight } else { 0 };
        let theme = self.mood.theme;
        let often = |about: Theme, weight: u32| if theme == about { 8 * weight } else { weight };
        let (taken_back, late, told) = (Theme::TakenBack, Theme::Late, Theme::Told);
        let unspent = self
            .tokens
            .last()
            .is_some_and(|(id, _)| states.iter().any(|(d, s, _)| d == id && s == "approved"));
        let paired = self
            .tokens
            .iter()
            .any(|(id, _)| Some(id) != self.tokens.last().map(|(last, _)| last));
        let waits_for_pair = self.mood.pairs && !paired;
        let lost = executing(&["claimed", "dispatched", "indeterminate", "pending"]);
        let act = self.dice.weighted(&[
            (
                when(self.wanted.len() < 3, if self.drafts.is_empty() { 60 } else { 15 }),
                Act::Propose,
            ),
            (when(!self.wanted.is_empty(), 4), Act::ProposeAgain),
            (when(!self.drafts.is_empty(), 3), Act::Supersede),
            (30 * count("awaiting_approval"), Act::Vote),
            (when(!self.drafts.is_empty(), often(taken_back, 1)), Act::Withdraw),
            (
                when(count("approved") > 0, if unspent && !waits_for_pair { 6 } else { 80 }),
                Act::Exchange,
            ),
            (
                when(!self.tokens.is_empty() && !waits_for_pair, if unspent { 90 } else { 5 }),
                Act::Execute,
            ),
            (
                when(!self.tokens.is_empty(), if self.mood.pairs && !waits_for_pair { 60 } else { 4 }),
                Act::ExecuteAgain,
            ),
            (when(!self.tokens.is_empty() && self.drafts.len() > 1, 2), Act::ExecuteOther),
            (1 + 8 * lost, Act::ProxySweep),
            (1 + 4 * count("proposed"), Act::BrokerSweep),
            (4 * executing(&["handed_off"]), Act::Resolve),
            (when(!self.drafts.is_empty(), often(taken_back, 2)), Act::Revoke),
            (when(!self.drafts.is_empty(), often(taken_back, 1)), Act::TakeBack),
            (when(!self.drafts.is_empty(), often(taken_back, 1)), Act::Stop),
            (when(!self.drafts.is_empty(), 1), Act::Lift),
            (2, Act::HangUp),
            (when(self.mood.deaths, 5), Act::Die),
            (when(self.variant.habits.counts, 3), Act::Elsewhere),
            (3, Act::BankFinishes),
            (often(told, 2), Act::BankFails),
            (often(told, 5), Act::BankTells),
            (when(!self.drafts.is_empty(), 10), Act::Seconds),
            (when(!self.drafts.is_empty(), 5) + 4 * lost, Act::Minutes),
            (when(!self.drafts.is_empty(), 2), Act::Hours),
            (when(!self.drafts.is_empty(), often(late, 4)), Act::Deadline),
            (when(self.mood.clocks, 6), Act::ClockMoves),
            (when(!self.drafts.is_empty(), self.mood.confusion), Act::Confused),
        ]);
        self.fixture.watch.note(|| format!("  {act:?}"));
        let worker = self.dice.below(WORKERS);
        match act {
            Act::Propose => self.propose_new(worker),
            Act::ProposeAgain => {
                let wanted = self.wanted[self.dice.below(self.wanted.len())].clone();
                self.propose(worker, &wanted, None);
            }
            Act::Supersede => {
                let old = self.some_draft();
                let wanted = self.wanted[self.dice.below(self.wanted.len())].clone();
                self.propose(worker, &wanted, Some(old));
            }
            Act::Vote => self.vote(worker, &states),
            Act::Withdraw => {
                let id = self.some_draft();
                let (broker, caller) = (self.lives[worker].broker.clone(), self.caller(&self.fixture.agent.clone()));
                self.start(worker, async move {
                    let _ = broker.withdraw(&caller, id).await;
                    Done::Nothing
                });
            }
            Act::Exchange => self.exchange(worker, &states),
            Act::Execute => {
                let (id, token) = self.tokens[self.tokens.len() - 1].clone();
                self.execute(worker, id, &token);
            }
            Act::ExecuteAgain => {
                let (id, token) = self.tokens[self.dice.below(self.tokens.len())].clone();
                self.execute(worker, id, &token);
            }
            Act::ExecuteOther => {
                let (_, token) = self.tokens[self.dice.below(self.tokens.len())].clone();
                let other = self.some_draft();
                self.execute(worker, other, &token);
            }
            Act::ProxySweep => self.sweep_proxy(worker),
            Act::BrokerSweep => self.sweep_broker(worker),
            Act::Resolve => self.resolve(worker),
            Act::Revoke => self.revoke(worker),
            Act::TakeBack => self.take_back(worker),
            Act::Stop => self.stop(worker),
            Act::Lift => self.lift(worker),
            Act::HangUp => self.hang_up().await,
            Act::Die => self.die(worker).await,
            Act::Elsewhere => {
                let mut bank = self.bank.lock().unwrap();
                let charge = self.dice.below(bank.charges.len());
                bank.elsewhere(charge, 500);
            }
            Act::BankFinishes => self.bank_finishes(),
            Act::BankFails => self.bank_fails(worker),
            Act::BankTells => self.bank_tells(worker),
            Act::Seconds => {
                let millis = self.dice.pick(&[20, 300, 1_000, 5_000, 12_000, 29_000]);
                self.pass_time(millis).await;
            }
            Act::Minutes => {
                let millis = self.dice.pick(&[31_000, 61_000, 61_000, 121_000, 301_000]);
                self.pass_time(millis).await;
            }
            Act::Hours => {
                let minutes = self.dice.pick(&[11, 24, 26, 61, 245, 23 * 60 + 1]);
                self.pass_time(minutes * 60_000).await;
            }
            Act::Deadline => self.come_to_a_deadline().await,
            Act::ClockMoves => {
                let clock = &self.fixture.processes[worker].clock;
                let by = self.dice.pick(&[-3_000, -1_000, 1_000, 3_000]);
                // Bounded: a clock that is wrong by more than the leeway is an operator's case.
                clock.set_ahead((clock.ahead() + by).clamp(-2_500, 2_500));
            }
            Act::Confused => (0..4).for_each(|_| self.confused(worker)),
        }
        self.settle().await;
    }

    /// What the theme is about, just before something that it could have kept from happening.
    pub async fn come_between(&mut self) {
        let worker = self.dice.below(WORKERS);
        if self.mood.theme == Theme::Late {
            let is_written = self.gates.waiting().iter().any(|(_, at)| matches!(at, Place::Answer(_)));
            if !is_written && self.dice.chance(50) {
                return self.come_to_a_deadline().await;
            }
            let millis = self.dice.pick(&[29_000, 31_000, 61_000]);
            return self.pass_time(millis).await;
        }
        match self.dice.below(3) {
            0 => self.revoke(worker),
            1 => self.take_back(worker),
            _ => self.stop(worker),
        }
        self.settle().await;
    }

    /// Time passes until just before, at or just after a moment that something depends on.
    async fn come_to_a_deadline(&mut self) {
        let sql = "SELECT expires_at FROM draft WHERE settled_at IS NULL UNION SELECT coalesce(execute_by, expires_at) FROM approval
            UNION SELECT expires_at FROM credential WHERE state = 'issued' UNION SELECT lease_until FROM execution
            UNION SELECT send_until FROM execution WHERE send_until IS NOT NULL UNION SELECT next_action_at FROM execution WHERE next_action_at IS NOT NULL
            UNION SELECT expires_at FROM stop WHERE expires_at IS NOT NULL ORDER BY 1";
        let now = self.fixture.outside.now();
        let all: Vec<i64> = self.fixture.watch.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            let rows = statement.query_map([], |row| row.get::<_, i64>(0));
            rows.unwrap().map(Result::unwrap).filter(|at| *at > now).collect()
        });
        if !all.is_empty() {
            let at = all[self.dice.below(all.len())];
            let off = self.dice.pick(&[-31_000, -2_000, -20, 0, 20, 2_600]);
            self.pass_time((at - now + off).max(1)).await;
        }
    }

    /// Every draft with its state and its execution's.
    fn states(&self) -> Vec<(DraftId, String, Option<String>)> {
        let sql = "SELECT d.id, d.state, e.state FROM draft d LEFT JOIN execution e ON e.draft = d.id ORDER BY d.id";
        self.fixture.watch.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)));
            rows.unwrap()
                .map(|row| {
                    let (id, draft, execution) = row.unwrap();
                    (id.parse().unwrap(), draft, execution)
                })
                .collect()
        })
    }

    pub fn caller(&self, client: &Client) -> Caller {
        let process = &self.fixture.processes[0];
        Caller {
            client: client.clone(),
            request: RequestId::generate(&*process.clock, &*process.entropy),
        }
    }

    pub fn op(&self, worker: usize, who: &str) -> Op {
        let process = &self.fixture.processes[worker];
        Op {
            id: OperationId::generate(&*process.clock, &*process.entropy),
            actor: Actor::new(ActorKind::Person, who),
            request: None,
        }
    }

    pub fn some_draft(&mut self) -> DraftId {
        self.drafts[self.dice.below(self.drafts.len())]
    }

    /// The record as it stands, read past the schedule.
    pub fn record(&self, id: DraftId) -> Option<DraftRecord> {
        let store = &self.fixture.processes[0].store;
        at_once(self.fixture.threads.handle(), store.draft(id)).unwrap()
    }
}
