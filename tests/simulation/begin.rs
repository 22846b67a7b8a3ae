//! How a schedule begins: with nothing, or with a journey that has come some way without a fault, so that what can go wrong late is met early.

use writ::domain::approval::Decision;
use writ::domain::id::DraftId;

use super::bank::Treat;
use super::fixture::WORKERS;
use super::gates::{Pass, Place};
use super::mood::Begun;
use super::schedule::{Faults, Schedule};

impl Schedule<'_> {
    /// Brings the first journey, or both of a pair, as far as the mood says.
    pub async fn begin(&mut self) {
        let until = self.mood.begun;
        if until == Begun::Not {
            return;
        }
        self.fixture.watch.note(|| format!("begun: {until:?}"));
        let drafts = if self.mood.pairs && until >= Begun::Approved { 2 } else { 1 };
        for _ in 0..drafts {
            let before = self.drafts.len();
            let worker = self.dice.below(WORKERS);
            self.propose_new(worker);
            self.undisturbed().await;
            if let Some(draft) = self.drafts.get(before).copied() {
                self.release(worker, draft).await;
            }
        }
        if until >= Begun::Sent
            && let Some((draft, token)) = self.tokens.last().cloned()
        {
            let worker = self.dice.below(WORKERS);
            self.execute(worker, draft, &token);
            self.send_off().await;
        }
        if until == Begun::Again
            && let Some(due) = self.next_due()
        {
            self.until(due).await;
            let worker = self.dice.below(WORKERS);
            self.sweep_proxy(worker);
            self.settle().await;
            while let Some((worker, at)) = self.gates.waiting().first().copied()
                && at != Place::Post
            {
                self.let_through(0, worker, at, Pass::Through).await;
            }
        }
    }

    /// People approve it, and it gets its credential.
    async fn release(&mut self, worker: usize, id: DraftId) {
        let until = self.mood.begun;
        for approver in [0, 1] {
            let Some(draft) = self.record(id).filter(|_| until >= Begun::Approved) else {
                return;
            };
            if draft.state.as_str() == "awaiting_approval" {
                self.sign(worker, &draft, approver, Decision::Approve);
                self.undisturbed().await;
            }
        }
        if until >= Begun::Issued {
            self.exchange_for(worker, id);
            self.undisturbed().await;
        }
    }

    async fn undisturbed(&mut self) {
        self.settle().await;
        self.run_out(Faults::NoMore).await;
    }

    /// Lets the request come to the backend, and perhaps beyond it.
    async fn send_off(&mut self) {
        self.settle().await;
        while let Some((worker, at)) = self.gates.waiting().first().copied() {
            let pass = match at {
                Place::Post if self.mood.begun == Begun::Sent => return,
                Place::Post => Pass::Backend(self.loss()),
                _ => Pass::Through,
            };
            self.let_through(0, worker, at, pass).await;
        }
    }

    /// How an answer fails to come.
    fn loss(&mut self) -> Treat {
        let held = if self.variant.arrives_late() { 3 } else { 0 };
        self.dice.weighted(&[
            (3, Treat::DropBefore),
            (5, Treat::DropAfter),
            (held, Treat::Hold),
            (2, Treat::ErrorAfter),
            (2, Treat::ErrorBefore),
            (1, Treat::Torn),
            (1, Treat::InFlight),
            (1, Treat::NoConnection),
            (2, Treat::Pending),
        ])
    }
}
