//! What the agent asks for, and what processes do on their own.

use writ::broker::{ExchangeRequest, ProposeRequest, SubjectToken};
use writ::domain::digest::Digest;
use writ::domain::id::DraftId;
use writ::domain::json::Json;
use writ::domain::secret::Secret;
use writ::proxy::{Denied, ExecuteRequest, Subject};

use super::schedule::{Done, Schedule, Wanted};

impl Schedule<'_> {
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

    pub fn propose(&mut self, worker: usize, wanted: &Wanted, supersedes: Option<DraftId>) {
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

    pub fn exchange(&mut self, worker: usize, states: &[(DraftId, String, Option<String>)]) {
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
        let token = Secret::new(token.to_owned());
        let request = self.caller(&self.fixture.agent.clone()).request;
        let proxy = self.lives[worker].proxy.clone();
        self.start(worker, async move {
            let outcome = match proxy.recognise(&token) {
                Err(error) => Err(Denied::stranger(error)),
                Ok(credential) => {
                    let subject = Subject::Id(id);
                    proxy
                        .execute(ExecuteRequest {
                            credential,
                            subject,
                            logged: None,
                        })
                        .await
                }
            };
            if let Err(denied) = outcome {
                proxy.note_denied(&denied, request).await;
            }
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
}
