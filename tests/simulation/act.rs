//! What can be done in one step: by the agent, by people, by processes on their own, by the backend, by time, and by a process that is confused.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use rusqlite::OptionalExtension as _;
use writ::audit::{Actor, ActorKind};
use writ::broker::{Caller, ExchangeRequest, ProposeRequest, SubjectToken};
use writ::domain::approval::{Approval, ApproverType, AskedBy, By, Claims, Decision};
use writ::domain::clock::Clock as _;
use writ::domain::digest::Digest;
use writ::domain::id::{CredentialId, DraftId, ExecutionId, OperationId, RecordId, RequestId, StopId};
use writ::domain::json::Json;
use writ::domain::principal::Client;
use writ::domain::secret::Secret;
use writ::domain::stop::StopScope;
use writ::proxy::{Denial, ExecuteRequest, Subject, resolve};
use writ::sandbox::event_signature;
use writ::setup::LOCAL_ISSUER;
use writ::store::intent::Resolution;
use writ::store::record::DraftRecord;
use writ::store::stop::{LiftStop, PlaceStop, RevokeApproval, RevokeCredential};
use writ::store::{Op, Store as _};

use super::bank::Refund;
use super::faulty::at_once;
use super::fixture::{APPROVERS, READER, WORKERS};
use super::gates::Place;
use super::schedule::{Done, Schedule, Theme, Wanted};

/// Why the kill switch is thrown.
const REASON: &str = "the schedule says so";

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

    pub fn propose_new(&mut self, worker: usize) {
        let charges = self.bank.lock().unwrap().charges.len();
        let wanted = Wanted {
            charge: self.dice.below(charges),
            // The two of a pair differ, or they would be one wish.
            amount: if self.mood.pairs {
                let more = if self.mood.people { 18_000 } else { 0 };
                more + [8_000, 9_000, 5_000][self.wanted.len() % 3]
            } else if self.mood.people {
                self.dice.pick(&[24_000, 24_000, 24_000, 120_000])
            } else {
                self.dice
                    .weighted(&[(6, 3_000), (6, 5_000), (6, 8_000), (5, 24_000), (3, 120_000), (1, 600_000)])
            },
        };
        self.wanted.push(wanted.clone());
        self.propose(worker, &wanted, None);
    }

    fn propose(&mut self, worker: usize, wanted: &Wanted, supersedes: Option<DraftId>) {
        let text = format!(
            "{{\"charge\":\"ch_{}\",\"amount\":{},\"currency\":\"usd\"}}",
            wanted.charge, wanted.amount
        );
        let request_key = self.dice.chance(30).then(|| format!("order-{}-{}", wanted.charge, wanted.amount));
        let request = ProposeRequest {
            operation: "refund.create".parse().unwrap(),
            parameters: Json::parse(text.as_bytes()).unwrap(),
            case_id: None,
            reason_code: None,
            on_behalf_of: None,
            evidence: Vec::new(),
            supersedes,
            request_key,
            request_hash: Digest::of(format!("{text}{supersedes:?}").as_bytes()),
        };
        let (broker, caller) = (self.lives[worker].broker.clone(), self.caller(&self.fixture.agent.clone()));
        self.start(worker, async move {
            match broker.propose(&caller, request).await {
                Ok(draft) => Done::Draft(draft.id),
                Err(_) => Done::Nothing,
            }
        });
    }

    fn vote(&mut self, worker: usize, states: &[(DraftId, String, Option<String>)]) {
        let open: Vec<DraftId> = states
            .iter()
            .filter(|(_, s, _)| s == "awaiting_approval")
            .map(|(id, ..)| *id)
            .collect();
        let id = self.dice.pick(&open);
        let Some(draft) = self.record(id) else { return };
        let approver = self.dice.weighted(&[(10, 0), (6, 1), (1, 2)]);
        let decision = if self.dice.chance(12) { Decision::Deny } else { Decision::Approve };
        self.sign(worker, &draft, approver, decision);
    }

    /// One person answers a card.
    pub fn sign(&mut self, worker: usize, draft: &DraftRecord, approver: usize, decision: Decision) {
        let Some(claims) = self.claims(draft, approver, decision) else {
            return;
        };
        let jws = self.fixture.signers[approver].sign(&claims).unwrap();
        let (broker, caller) = (self.lives[worker].broker.clone(), self.caller(&self.fixture.desk.clone()));
        self.start(worker, async move {
            let _ = broker.accept(&caller, &jws).await;
            Done::Nothing
        });
    }

    pub fn claims(&self, draft: &DraftRecord, approver: usize, decision: Decision) -> Option<Claims> {
        let process = &self.fixture.processes[0];
        let (card, verdict) = (draft.approval.as_ref()?, draft.verdict.as_ref()?);
        let now = process.clock.now().seconds();
        // Some sign for a few minutes only.
        let execute_by = (approver == 1).then(|| now + 400);
        let policy = &verdict.answer.policy;
        Some(Claims {
            iss: LOCAL_ISSUER.to_owned(),
            sub: APPROVERS[approver].parse().unwrap(),
            aud: self.fixture.audience.clone(),
            jti: RecordId::generate(&*process.clock, &*process.entropy),
            iat: now,
            nbf: now,
            exp: now + 600,
            apr: Approval {
                v: 1,
                decision,
                draft_id: draft.id,
                draft_hash: draft.hash,
                request_nonce: card.nonce.clone(),
                verdict_id: verdict.id,
                policy: AskedBy {
                    id: policy.id.clone(),
                    version: policy.version,
                    sha256: policy.sha256,
                },
                by: By {
                    kind: ApproverType::Human,
                    id: APPROVERS[approver].parse().unwrap(),
                    queue: None,
                    amr: vec!["hwk".to_owned(), "user".to_owned()],
                    auth_time: Some(now - 10),
                    rule: None,
                },
                reason: Some("seen".to_owned()),
                execute_by,
            },
        })
    }

    fn exchange(&mut self, worker: usize, states: &[(DraftId, String, Option<String>)]) {
        let approved: Vec<DraftId> = states.iter().filter(|(_, s, _)| s == "approved").map(|(id, ..)| *id).collect();
        // Of a pair the one without a credential comes first.
        let without: Vec<DraftId> = approved
            .iter()
            .filter(|id| !self.tokens.iter().any(|(t, _)| t == *id))
            .copied()
            .collect();
        let id = self.dice.pick(if without.is_empty() { &approved } else { &without });
        self.exchange_for(worker, id);
    }

    pub fn exchange_for(&mut self, worker: usize, id: DraftId) {
        let request = ExchangeRequest {
            subject: SubjectToken::Draft(id),
            audience: None,
            authorization_details: None,
        };
        let (broker, caller) = (self.lives[worker].broker.clone(), self.caller(&self.fixture.agent.clone()));
        self.start(worker, async move {
            match broker.exchange(&caller, request).await {
                Ok(issued) => Done::Token(id, issued.token.expose().to_owned()),
                Err(_) => Done::Nothing,
            }
        });
    }

    pub fn execute(&mut self, worker: usize, id: DraftId, token: &str) {
        let request = ExecuteRequest {
            token: Secret::new(token.to_owned()),
            subject: Subject::Id(id),
            request: self.caller(&self.fixture.agent.clone()).request,
            denial: Denial::Noted,
        };
        let proxy = self.lives[worker].proxy.clone();
        self.start(worker, async move {
            let _ = proxy.execute(request).await;
            Done::Nothing
        });
    }

    pub fn sweep_proxy(&mut self, worker: usize) {
        let proxy = self.lives[worker].proxy.clone();
        self.start(worker, async move {
            let _ = proxy.sweep().await;
            Done::Nothing
        });
    }

    pub fn sweep_broker(&mut self, worker: usize) {
        let broker = self.lives[worker].broker.clone();
        self.start(worker, async move {
            let _ = broker.sweep().await;
            Done::Nothing
        });
    }

    /// What is true at the backend about a draft; nothing while something of it may still arrive.
    pub fn truth(&self, draft: &str) -> Option<bool> {
        let bank = self.bank.lock().unwrap();
        let made = bank.refunds.iter().any(|r| r.draft.as_deref() == Some(draft) && r.lives());
        (bank.holds() == 0).then_some(made)
    }

    /// An operator looks at the backend and closes a case that is in a person's hands.
    fn resolve(&mut self, worker: usize) {
        let sql = "SELECT id, draft FROM execution WHERE state = 'handed_off' ORDER BY id LIMIT 1";
        let case = self.fixture.watch.look(|db| {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            db.prepare_cached(sql).unwrap().query_row([], read).optional().unwrap()
        });
        let Some((id, draft)) = case else { return };
        self.close_case(worker, id.parse().unwrap(), &draft);
    }

    pub fn close_case(&mut self, worker: usize, id: ExecutionId, draft: &str) {
        // Only when nothing can still be on its way: a person waits before they say no.
        if !self.is_idle() {
            return;
        }
        let Some(made) = self.truth(draft) else { return };
        let resolution = if made { Resolution::Applied } else { Resolution::NotApplied };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_ops");
        self.start(worker, async move {
            let _ = resolve(&*store, op, id, resolution, "looked at the account", None).await;
            Done::Nothing
        });
    }

    fn revoke(&mut self, worker: usize) {
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_ops");
        let what = self.dice.weighted(&[(3, 0), (3, 1), (1, 2)]);
        // Somebody whose signature something rests on, if there is such a person.
        let sql = "SELECT approver FROM approval_record WHERE approver LIKE 'usr%' ORDER BY id DESC LIMIT 1";
        let signer: Option<String> = self
            .fixture
            .watch
            .look(|db| db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).optional().unwrap());
        let signer = signer.unwrap_or_else(|| "usr_mia".to_owned());
        self.start(worker, async move {
            let _ = match what {
                0 => store.revoke_key(op, format!("{signer}-1").parse().unwrap()).await,
                1 => store.revoke_approver(op, signer.parse().unwrap()).await,
                _ => store.revoke_client(op, "support-agent".parse().unwrap()).await,
            };
            Done::Nothing
        });
    }

    /// An approval or a credential is taken back.
    fn take_back(&mut self, worker: usize) {
        let id = self.some_draft();
        let Some(draft) = self.record(id) else { return };
        let credential = self.live_credential(id);
        let Some(approval) = draft.approval.map(|a| a.id) else { return };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_soc");
        let whole = self.dice.chance(60);
        self.start(worker, async move {
            if whole {
                let reason = REASON.parse().unwrap();
                let _ = store.revoke_approval(op, RevokeApproval { approval, reason }).await;
            } else if let Some(credential) = credential {
                let code = "revoked".to_owned();
                let _ = store.revoke_credential(op, RevokeCredential { credential, code }).await;
            }
            Done::Nothing
        });
    }

    fn live_credential(&self, id: DraftId) -> Option<CredentialId> {
        let sql = "SELECT id FROM credential WHERE draft = ?1 ORDER BY id DESC LIMIT 1";
        let found: Option<String> = self.fixture.watch.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            statement.query_row([id.to_string()], |row| row.get(0)).optional().unwrap()
        });
        found.map(|id| id.parse().unwrap())
    }

    /// The kill switch.
    fn stop(&mut self, worker: usize) {
        let id = self.some_draft();
        let approval = self.record(id).and_then(|draft| draft.approval).map(|a| a.id);
        let credential = self.live_credential(id);
        let scope = match (self.dice.below(6), approval, credential) {
            (0, Some(approval), _) => StopScope::Approval(approval),
            (1, _, Some(credential)) => StopScope::Credential(credential),
            (2, ..) => StopScope::Client("support-agent".parse().unwrap()),
            (3, ..) => StopScope::Approver("usr_mia".parse().unwrap()),
            (4, ..) => StopScope::Everything,
            _ => StopScope::Draft(id),
        };
        let process = &self.fixture.processes[worker];
        let minutes = self.dice.pick(&[1, 5, 30]);
        let end = process.clock.now().plus(Duration::from_secs(minutes * 60));
        let place = PlaceStop {
            id: StopId::generate(&*process.clock, &*process.entropy),
            tenant: None,
            scope,
            reason: REASON.parse().unwrap(),
            expires_at: self.dice.chance(60).then_some(end),
        };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_soc");
        self.start(worker, async move {
            let _ = store.place_stop(op, place).await;
            Done::Nothing
        });
    }

    fn lift(&mut self, worker: usize) {
        let sql = "SELECT id FROM stop WHERE state = 'active' ORDER BY id LIMIT 1";
        let active: Option<String> = self
            .fixture
            .watch
            .look(|db| db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).optional().unwrap());
        let Some(active) = active else { return };
        let lift = LiftStop {
            stop: active.parse().unwrap(),
            reason: REASON.parse().unwrap(),
        };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_soc");
        self.start(worker, async move {
            let _ = store.lift_stop(op, lift).await;
            Done::Nothing
        });
    }

    pub fn bank_finishes(&mut self) {
        let fails = self.dice.chance(40);
        let mut bank = self.bank.lock().unwrap();
        for refund in bank.refunds.iter_mut().filter(|r| r.status == "pending") {
            refund.status = if fails { "failed" } else { "succeeded" };
        }
    }

    /// What the backend called done turns out to have failed.
    fn bank_fails(&mut self, worker: usize) {
        let mut bank = self.bank.lock().unwrap();
        let some = bank.refunds.iter_mut().find(|r| r.status == "succeeded" && r.draft.is_some());
        if let Some(refund) = some {
            refund.status = "failed";
            drop(bank);
            self.bank_tells(worker);
        }
    }

    /// The backend tells by itself how a refund stands; or delivers once more what it told before.
    fn bank_tells(&mut self, worker: usize) {
        let refunds: Vec<_> = self.bank.lock().unwrap().refunds.iter().map(Refund::json).collect();
        if refunds.is_empty() {
            return;
        }
        if self.told.is_empty() || self.dice.chance(75) {
            let refund = &refunds[self.dice.below(refunds.len())];
            let event = serde_json::json!({
                "object": "event", "id": format!("evt_{}", self.told.len()), "type": "refund.updated", "data": { "object": refund },
            });
            self.told.push(event.to_string());
        }
        let body = self.told[self.told.len() - 1 - self.dice.below(self.told.len().min(3))].clone();
        let signature = event_signature(&Secret::new(READER.to_owned()), self.fixture.processes[worker].clock.now(), &body);
        let headers = HeaderMap::from_iter([(HeaderName::from_static("stripe-signature"), signature.parse().unwrap())]);
        let (proxy, request) = (self.lives[worker].proxy.clone(), self.caller(&self.fixture.agent.clone()).request);
        self.start(worker, async move {
            let _ = proxy.take_event("stripe", &headers, body.as_bytes(), request).await;
            Done::Nothing
        });
    }
}
