//! The wire of the simulation: every request waits for what the schedule does with it, and is counted before it can have an effect.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use writ::backend::{Answer, Broken, Outgoing, Wire};
use writ::domain::clock::Clock as _;

use super::bank::{self, Bank, Look, Request, Treat};
use super::chance::{Outside, WallClock};
use super::gates::{Gates, Pass, Place};
use super::watch::Watch;

/// One worker's wire.
pub struct ModelWire {
    pub worker: usize,
    pub life: u64,
    pub gates: Arc<Gates>,
    pub bank: Arc<Mutex<Bank>>,
    pub outside: Arc<Outside>,
    pub watch: Arc<Watch>,
    pub clock: Arc<WallClock>,
    /// How long the client waits, in milliseconds.
    pub patience: i64,
    /// Whether what the client no longer waits for may arrive still.
    pub arrives_late: bool,
}

impl fmt::Debug for ModelWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelWire({})", self.worker)
    }
}

#[async_trait]
impl Wire for ModelWire {
    async fn carry(&self, request: Outgoing) -> Result<Answer, Broken> {
        if request.method == http::Method::GET {
            return self.look(&request).await;
        }
        let began = self.outside.now();
        let key = request.headers.get("idempotency-key").map(|v| v.to_str().unwrap().to_owned());
        let request = Request {
            at: began,
            key,
            body: request.body.unwrap_or_default(),
        };
        // From here on it may have left.
        self.watch.leaves(self.worker, self.clock.now().millis(), &request);
        let pass = self.gates.arrive(self.worker, self.life, Place::Post).await;
        let Pass::Backend(treat) = pass else {
            return Err(Broken::Lost("the process died".to_owned()));
        };
        let at = self.outside.now();
        let late = at - began >= self.patience;
        let request = Request { at, ..request };
        // On its way for longer than that it is lost.
        let lost = late && (!self.arrives_late || at - began > self.patience + 45_000);
        let treat = if lost { Treat::DropBefore } else { treat };
        if treat == Treat::NoConnection && !late {
            self.watch.never_left(&request);
            return Err(Broken::NotSent("no connection".to_owned()));
        }
        let answer = self.bank.lock().unwrap().post(request, treat);
        let Some(answer) = answer.filter(|_| !late) else {
            return Err(Broken::Lost("no answer in time".to_owned()));
        };
        match self.gates.arrive(self.worker, self.life, Place::Reply).await {
            Pass::Through if self.outside.now() - began < self.patience => Ok(bank::answer(answer)),
            _ => Err(Broken::Lost("no answer in time".to_owned())),
        }
    }
}

impl ModelWire {
    async fn look(&self, request: &Outgoing) -> Result<Answer, Broken> {
        let began = self.outside.now();
        let pass = self.gates.arrive(self.worker, self.life, Place::Get).await;
        let look = match pass {
            Pass::Through => Look::Well,
            Pass::Unavailable => Look::Error,
            _ => Look::Lost,
        };
        if look == Look::Lost || self.outside.now() - began >= self.patience {
            return Err(Broken::Lost("no answer".to_owned()));
        }
        if look == Look::Error {
            return Ok(bank::answer((503, serde_json::json!({ "error": {} }))));
        }
        let url = &request.url;
        let answer = self.bank.lock().unwrap().get(url.path(), url.query().unwrap_or_default());
        if let (Some(charge), Some(refunded)) = (url.path().strip_prefix("/v1/charges/"), answer.1["amount_refunded"].as_i64()) {
            self.watch.looked(self.worker, charge, refunded);
        }
        Ok(bank::answer(answer))
    }
}
