//! What the backend does by itself.

use http::{HeaderMap, HeaderName};
use writ::domain::clock::Clock as _;
use writ::domain::secret::Secret;
use writ::sandbox::event_signature;

use super::bank::Refund;
use super::fixture::READER;
use super::schedule::{Done, Schedule};

impl Schedule<'_> {
    pub fn bank_finishes(&mut self) {
        let fails = self.dice.chance(40);
        let mut bank = self.bank.lock().unwrap();
        for refund in bank.refunds.iter_mut().filter(|r| r.status == "pending") {
            refund.status = if fails { "failed" } else { "succeeded" };
        }
    }

    /// What the backend called done turns out to have failed.
    pub fn bank_fails(&mut self, worker: usize) {
        let mut bank = self.bank.lock().unwrap();
        let some = bank.refunds.iter_mut().find(|r| r.status == "succeeded" && r.draft.is_some());
        if let Some(refund) = some {
            refund.status = "failed";
            drop(bank);
            self.bank_tells(worker);
        }
    }

    /// The backend tells by itself how a refund stands; or delivers once more what it told before.
    pub fn bank_tells(&mut self, worker: usize) {
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
