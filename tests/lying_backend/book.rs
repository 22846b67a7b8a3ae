//! One writ before one backend, and one refund of its own charge for each case.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use writ::sandbox::{Fault, RefundStatus, SeenRequest};

use crate::support::attempts::is_written_down;
use crate::support::world::{Setup, World};

/// Past every lease and every pause.
const MINUTE: std::time::Duration = std::time::Duration::from_secs(61);

/// After this many rounds everything has been found out or handed over.
const ROUNDS: usize = 20;

const AMOUNT: i64 = 4_000;

/// Where it must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In this state.
    In(&'static str),
    /// Given up before anything was sent; the approval can be used again.
    Released,
}

/// Lies in the order in which they are told, and where it must end.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub faults: Vec<Fault>,
    /// What becomes of a refund that is pending.
    pub bank: RefundStatus,
    pub end: End,
    /// How many refunds the backend made, and how many of its requests it took to get there, where that is certain.
    pub effects: usize,
    pub requests: Option<usize>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Refunds that the backend made for the draft.
    pub effects: usize,
    /// What writ says and the backend's books do not.
    pub lies: Vec<String>,
    /// What else is not as it must be.
    pub wrong: Vec<String>,
}

pub struct Book {
    world: World,
    unlogged: Arc<Mutex<Vec<String>>>,
}

impl Book {
    pub async fn open() -> Self {
        let mut edits = Vec::new();
        for (from, to) in [
            ("connect_timeout = \"3s\"", "connect_timeout = \"2s\""),
            ("total_timeout   = \"30s\"", "total_timeout   = \"3s\""),
        ] {
            edits.push(("policies/backends/stripe.toml", from, to.to_owned()));
        }
        let world = World::with(Setup { edits, ..Setup::default() }).await;
        let unlogged = Arc::new(Mutex::new(Vec::new()));
        let (store, missing) = (world.path("data/writ.db"), Arc::clone(&unlogged));
        world.sandbox.witness(Box::new(move |seen| {
            if let Some(key) = &seen.idempotency_key
                && !is_written_down(&store, seen)
            {
                missing.lock().unwrap().push(key.clone());
            }
        }));
        Self { world, unlogged }
    }

    /// A refund of a new charge, with these lies on its way.
    pub async fn play(&self, case: &Case) -> Verdict {
        let world = &self.world;
        world.sandbox.clear_faults();
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let charge = world
            .arrange("POST", "/v1/charges", &headers, "amount=40000&currency=usd&source=tok_visa")
            .await;
        let charge = charge["id"].as_str().unwrap();
        let (draft, token) = self.approved(charge).await;
        for fault in &case.faults {
            world.sandbox.fault(fault.clone());
        }
        world.execute(&token, &draft).await.expect(202);
        let mut execution = world.execution(&draft).await;
        for _ in 0..ROUNDS {
            match execution["state"].as_str().unwrap() {
                "applied" | "not_applied" | "handed_off" | "aborted" => break,
                "pending" => {
                    for refund in world.sandbox.refunds(charge) {
                        let _is_there = world.sandbox.settle(&refund.id, case.bank);
                    }
                }
                _ => {}
            }
            world.later(MINUTE).await;
            execution = world.execution(&draft).await;
        }
        self.judge(case, charge, &draft, &execution).await
    }

    /// A draft for the charge and its credential. On a busy machine an honest backend may need more time than there is; the caller tries again.
    async fn approved(&self, charge: &str) -> (String, String) {
        for _ in 0..5 {
            let draft = self.world.propose(World::refund_of(charge, AMOUNT, "usd")).await;
            if draft.status == 503 {
                continue;
            }
            assert!(matches!(draft.status, 200 | 201), "{}", draft.body);
            let draft = draft.body["id"].as_str().unwrap().to_owned();
            let issued = self.world.exchange(&draft).await;
            if issued.status != 503 {
                return (draft, issued.expect(200)["access_token"].as_str().unwrap().to_owned());
            }
        }
        panic!("an honest backend does not answer");
    }

    async fn judge(&self, case: &Case, charge: &str, draft: &str, execution: &Value) -> Verdict {
        let world = &self.world;
        let made = world.sandbox.refunds(charge);
        let ours: Vec<_> = made.iter().filter(|refund| refund.metadata["writ_draft"] == *draft).collect();
        let holding = ours
            .iter()
            .filter(|r| r.amount == AMOUNT && r.status == RefundStatus::Succeeded)
            .count();
        let mut verdict = Verdict {
            effects: ours.len(),
            ..Verdict::default()
        };
        let state = execution["state"].as_str().unwrap();
        let is_true = match state {
            "applied" => holding == 1,
            "not_applied" | "aborted" => holding == 0,
            // Nobody claims anything.
            "handed_off" => true,
            _ => false,
        };
        if !is_true {
            verdict
                .lies
                .push(format!("it is {state}, and {holding} refunds hold the money: {execution}"));
        }
        let attempts = execution["attempts"].as_array().unwrap();
        let record = world.app.store.execution_of(draft.parse().unwrap()).await.unwrap().unwrap();
        let doubtful = record.is_ambiguous();
        let failed = holding == 0 && ours.len() == 1;
        if state == "not_applied" && doubtful && !failed {
            verdict
                .lies
                .push(format!("a refusal after doubt, or an absence, was taken for proof: {execution}"));
        }
        let key = execution["idempotency_key"].as_str();
        let sent: Vec<SeenRequest> = world
            .sandbox
            .requests()
            .into_iter()
            .filter(|seen| seen.idempotency_key.as_deref() == key)
            .collect();
        let mut wrong = Vec::new();
        let left = attempts.iter().filter(|attempt| attempt["outcome"] != "not_sent").count();
        if left != sent.len() {
            wrong.push(format!("{left} attempts and {} requests on the wire", sent.len()));
        }
        let mut bodies = sent.iter().map(|seen| &seen.body).filter(|body| !body.is_empty());
        let first = bodies.next();
        if bodies.any(|body| Some(body) != first) {
            wrong.push("two bodies under one key".to_owned());
        }
        let others = world.sandbox.requests().iter().filter(|seen| seen.body.contains(draft)).count();
        if others > sent.len() {
            wrong.push("the draft was sent under another key".to_owned());
        }
        // One that is reused could be closed as the request is written, and nobody could tell whether it arrived.
        if world.sandbox.requests().len() > world.sandbox.connections() {
            wrong.push("a connection carried two requests".to_owned());
        }
        if world.sandbox.requests().iter().any(|seen| seen.path.starts_with("/_sandbox")) {
            wrong.push("a redirect was followed".to_owned());
        }
        if !self.unlogged.lock().unwrap().is_empty() {
            wrong.push("a request arrived before it was written down".to_owned());
            self.unlogged.lock().unwrap().clear();
        }
        if case.requests.is_some_and(|expected| expected != sent.len()) {
            wrong.push(format!("{} requests instead of {:?}", sent.len(), case.requests));
        }
        if ours.len() != case.effects {
            wrong.push(format!("{} refunds were made instead of {}", ours.len(), case.effects));
        }
        let end = match case.end {
            End::In(expected) => expected == state,
            End::Released => state == "aborted" && world.draft(draft).await["state"] == "approved",
        };
        if !end {
            wrong.push(format!("it ended {state} instead of {:?}: {execution}", case.end));
        }
        verdict.wrong = wrong;
        verdict
    }
}
