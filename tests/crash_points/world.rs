//! One world for one point: a backend, a store, a process that dies, and the two that come after it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use writ::app::{Outside, SystemClock, SystemEntropy};
use writ::approval::RecordSigner;
use writ::domain::approval::Decision;
use writ::domain::secret::Secret;
use writ::sandbox::{Fault, FaultKind, RunningSandbox, Sandbox, SandboxConfig, SeenRequest, demo};
use writ::setup::{self, Approvers, Created, Endpoint, Options};

use super::case::Case;
use super::check::{self, Found};
use super::process::Process;
use super::scenario::{Act, Scenario};
use crate::support::attempts::is_written_down;
use crate::support::people;

/// How long a world may take on a busy machine; a bank alone takes more than a minute.
const PATIENCE: Duration = Duration::from_secs(240);

/// How often the caller looks again.
const PACE: Duration = Duration::from_millis(200);

/// The process the caller talks to is gone.
#[derive(Debug)]
pub struct Gone;

/// What there is.
pub struct World {
    pub scenario: Scenario,
    pub sandbox: RunningSandbox,
    pub made: Created,
    pub outside: Outside,
    /// The drafts the caller knows of, in the order it proposed them.
    pub drafts: Vec<String>,
    /// Answers that no caller should get.
    pub complaints: Vec<String>,
    /// Requests that reached the backend before they were written down.
    pub unlogged: Arc<Mutex<Vec<String>>>,
    charge: String,
    tokens: Vec<(String, String)>,
    records: Vec<String>,
    struck: bool,
    client: reqwest::Client,
    second: PathBuf,
    _dir: TempDir,
}

/// Plays the case to its end and looks at what is left.
pub async fn play(case: &Case) -> Found {
    let mut world = World::new(case.scenario.clone()).await;
    if let Some(before) = case.before
        && !world.dies_at(before).await
    {
        return Found::unreached();
    }
    if !world.dies_at(&case.point).await {
        return Found::unreached();
    }
    let first = Process::start(&world.made.config, None).await;
    let second = Process::start(&world.second, None).await;
    let both = [first.url.clone(), second.url.clone()];
    let over = world.carry_on(&both).await;
    if over {
        let wire = world.writes().len();
        for url in &both {
            world.again(url).await;
        }
        if world.writes().len() != wire {
            world.complaints.push("a call after the end sent another request".to_owned());
        }
    }
    drop((first, second));
    check::look(&world, &case.point, over).await
}

impl World {
    async fn new(scenario: Scenario) -> Self {
        let outside = Outside {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::new()),
        };
        let config = SandboxConfig::new(outside.clock.clone(), outside.entropy.clone());
        let sandbox = Sandbox::start(config).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            dir: dir.path().join("writ"),
            broker_listen: "127.0.0.1:0".to_owned(),
            proxy_listen: "127.0.0.1:0".to_owned(),
            public_url: None,
            audience: None,
            endpoints: vec![Endpoint {
                name: "stripe",
                url: sandbox.url.clone(),
                facts: Secret::new(sandbox.read_key().expose().to_owned()),
                read: Secret::new(sandbox.read_key().expose().to_owned()),
                write: Secret::new(sandbox.write_key().expose().to_owned()),
            }],
            approvers: Approvers::Examples,
        };
        let made = setup::create(&options, &outside).await.unwrap();
        // The shortest lease there is, so that nobody need wait long for a take-over.
        let mut edits = vec![
            ("lease    = \"60s\"", "lease    = \"5s\""),
            ("total_timeout   = \"30s\"", "total_timeout   = \"4s\""),
        ];
        edits.extend(&scenario.edits);
        let files = [made.config.clone(), options.dir.join("policies/backends/stripe.toml")];
        for (from, to) in edits {
            let edited = files.iter().any(|file| edit(file, from, to));
            assert!(edited, "no file holds `{from}`");
        }
        let second = options.dir.join("second.toml");
        std::fs::copy(&made.config, &second).unwrap();
        assert!(edit(&second, "name     = \"proxy-1\"", "name     = \"proxy-2\""));
        let unlogged = Arc::new(Mutex::new(Vec::new()));
        let (store, missing) = (options.dir.join("data/writ.db"), Arc::clone(&unlogged));
        sandbox.witness(Box::new(move |seen| {
            if seen.idempotency_key.is_some() && !is_written_down(&store, seen) {
                missing.lock().unwrap().push(seen.body.clone());
            }
        }));
        // Another test of this process may have installed it already; either way it is there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().http1_only().pool_max_idle_per_host(0);
        let mut world = Self {
            scenario,
            sandbox,
            made,
            outside,
            drafts: Vec::new(),
            complaints: Vec::new(),
            unlogged,
            charge: demo::CHARGE.to_owned(),
            tokens: Vec::new(),
            records: Vec::new(),
            struck: false,
            client: client.timeout(Duration::from_secs(60)).build().unwrap(),
            second,
            _dir: dir,
        };
        if world.scenario.amount > 40_000 {
            let body = format!("amount={}&currency=usd&source=tok_visa", world.scenario.amount);
            world.charge = world.arrange("/v1/charges", body).await["id"].as_str().unwrap().to_owned();
        }
        for fault in world.scenario.faults.clone() {
            world.sandbox.fault(fault);
        }
        world
    }

    /// Requests of ours that were to change something, as the backend saw them.
    pub fn writes(&self) -> Vec<SeenRequest> {
        let all = self.sandbox.requests().into_iter();
        all.filter(|seen| seen.idempotency_key.is_some()).collect()
    }

    pub fn charge(&self) -> &str {
        &self.charge
    }

    /// Plays at one process until it dies at the point; `false` if it does not.
    async fn dies_at(&mut self, point: &str) -> bool {
        let mut process = Process::start(&self.made.config, Some(point)).await;
        let deadline = Instant::now() + PATIENCE;
        while !process.killed_itself() {
            let url = process.url.clone();
            match self.advance(&url).await {
                Ok(true) | Err(Gone) => {
                    // Over, or gone: the operating system needs a moment to say how it ended.
                    for _ in 0..50 {
                        if process.killed_itself() {
                            return true;
                        }
                        sleep(Duration::from_millis(20)).await;
                    }
                    // What follows the end, such as a sweep, may still reach the point.
                    if self.is_over(&url).await && Instant::now() > deadline {
                        return false;
                    }
                }
                Ok(false) => sleep(PACE).await,
            }
            if Instant::now() > deadline {
                return false;
            }
        }
        true
    }

    async fn is_over(&mut self, url: &str) -> bool {
        matches!(self.advance(url).await, Ok(true) | Err(Gone))
    }

    /// Calls both processes again, then goes on at either of them until it is over.
    async fn carry_on(&mut self, both: &[String; 2]) -> bool {
        for url in both {
            self.again(url).await;
        }
        let deadline = Instant::now() + PATIENCE;
        for url in both.iter().cycle() {
            match self.advance(url).await {
                Ok(true) => return true,
                Ok(false) => sleep(PACE).await,
                Err(Gone) => self.complaints.push("a process that nobody killed is gone".to_owned()),
            }
            if Instant::now() > deadline || self.complaints.len() > 3 {
                break;
            }
        }
        false
    }

    /// Every call that was made before, once more.
    async fn again(&mut self, url: &str) {
        for (draft, token) in self.tokens.clone() {
            drop(self.execute(url, &token, &draft).await);
        }
        for record in self.records.clone() {
            drop(self.call(url, "review-desk", "/v1/approvals", json!({ "record": record })).await);
        }
        for n in 0..self.drafts.len() {
            drop(self.propose(url, n).await);
        }
    }

    /// Whatever a caller would do next. `true` when nothing is left to do.
    async fn advance(&mut self, url: &str) -> Result<bool, Gone> {
        let Some(draft) = self.drafts.last().cloned() else {
            self.propose(url, 0).await?;
            return Ok(false);
        };
        let view = self.show(url, &format!("/v1/drafts/{draft}")).await?;
        match view["state"].as_str().unwrap_or_default() {
            "proposed" => self.propose(url, self.drafts.len() - 1).await.map(|()| false),
            "awaiting_approval" => self.sign(url, &view).await.map(|()| false),
            "approved" => self.approved(url, &draft).await.map(|()| false),
            "consumed" => self.under_way(url, &view).await,
            "superseded" => self.propose(url, 1).await.map(|()| false),
            _ => Ok(true),
        }
    }

    async fn propose(&mut self, url: &str, n: usize) -> Result<(), Gone> {
        let mut body = json!({
            "operation": "refund.create", "case_id": "case-1",
            "parameters": { "charge": self.charge, "amount": self.scenario.amount + i64::try_from(n).unwrap(), "currency": "usd" },
        });
        if n > 0 {
            body["supersedes"] = json!(self.drafts[n - 1]);
        }
        let request = self
            .client
            .post(format!("{url}/v1/drafts"))
            .header("idempotency-key", format!("wish-{n}"));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let (_, answer) = self.read(self.auth(request, "support-agent")).await?;
        if let Some(id) = answer["id"].as_str() {
            if self.drafts.len() == n {
                self.drafts.push(id.to_owned());
            } else if self.drafts[n] != id {
                self.complaints
                    .push(format!("the same proposal is {id} and was {}", self.drafts[n]));
            }
        }
        Ok(())
    }

    async fn sign(&mut self, url: &str, _: &Value) -> Result<(), Gone> {
        let decision = if self.scenario.act == Act::Refuse {
            Decision::Deny
        } else {
            Decision::Approve
        };
        if self.records.is_empty() {
            let draft = self.drafts.last().cloned().unwrap();
            let request = self.client.get(format!("{url}/v1/drafts/{draft}"));
            let (_, card) = self.read(self.auth(request, "review-desk")).await?;
            if card["approval"]["request_nonce"].is_string() {
                self.records.push(record(&self.made, &self.outside, "usr_mia", &card, decision));
            }
        }
        for record in self.records.clone() {
            self.call(url, "review-desk", "/v1/approvals", json!({ "record": record })).await?;
        }
        Ok(())
    }

    async fn approved(&mut self, url: &str, draft: &str) -> Result<(), Gone> {
        match self.scenario.act {
            Act::Withdraw => {
                self.exchange(url, draft).await?;
                self.call(url, "support-agent", &format!("/v1/drafts/{draft}/withdraw"), json!(null))
                    .await?;
                return Ok(());
            }
            Act::Supersede if self.drafts.len() == 1 => {
                self.exchange(url, draft).await?;
                return self.propose(url, 1).await;
            }
            Act::LetExpire => {
                if self.tokens.is_empty() && !self.struck {
                    self.struck = true;
                    self.exchange(url, draft).await?;
                    // Nobody spends it.
                    self.tokens.clear();
                }
                return Ok(());
            }
            Act::Stop | Act::StopBriefly => {
                if !self.struck {
                    self.stop(url, draft).await?;
                    return self.exchange(url, draft).await.map(drop);
                }
                if !self.goes_on(url).await? {
                    return Ok(());
                }
            }
            Act::TakeBack => {
                self.exchange(url, draft).await?;
                let view = self.show(url, &format!("/v1/drafts/{draft}")).await?;
                if let Some(approval) = view["approval"]["id"].as_str() {
                    let path = format!("/v1/approvals/{approval}/revoke");
                    self.call(url, "operations", &path, json!({ "reason": "the photo is of something else" }))
                        .await?;
                }
                return Ok(());
            }
            Act::MoveOn if !self.struck => {
                self.struck = true;
                self.arrange("/v1/refunds", format!("charge={}&amount=1000", self.charge)).await;
            }
            _ => {}
        }
        let Some(token) = self.exchange(url, draft).await? else {
            return Ok(());
        };
        if self.scenario.act == Act::Blind && !self.struck {
            self.struck = true;
            self.sandbox.fault(Fault::once(FaultKind::Error503Before, "GET", "/v1/charges/*"));
        }
        self.execute(url, &token, draft).await
    }

    /// Throws the kill switch on the draft.
    async fn stop(&mut self, url: &str, draft: &str) -> Result<(), Gone> {
        let mut body = json!({ "scope": "draft", "value": draft, "reason": "somebody wants to look at it first" });
        if self.scenario.act == Act::StopBriefly {
            let over = self.outside.clock.now().plus(Duration::from_secs(2));
            body["expires_at"] = json!(over.to_string());
        }
        self.call(url, "operations", "/v1/stops", body).await?;
        self.struck = true;
        Ok(())
    }

    /// Whether no stop holds any more; lifts those that have no end of their own.
    async fn goes_on(&mut self, url: &str) -> Result<bool, Gone> {
        let request = self.client.get(format!("{url}/v1/stops?ended=true"));
        let (_, list) = self.read(self.auth(request, "operations")).await?;
        let stops = list["stops"].as_array().cloned().unwrap_or_default();
        let active: Vec<_> = stops.iter().filter(|stop| stop["state"] == "active").collect();
        if self.scenario.act == Act::Stop {
            for stop in &active {
                let path = format!("/v1/stops/{}/resume", stop["id"].as_str().unwrap_or_default());
                self.call(url, "operations", &path, json!({ "reason": "looked at" })).await?;
            }
        }
        Ok(active.is_empty())
    }

    /// Waits for an execution, and does what the bank or an operator does meanwhile.
    async fn under_way(&mut self, url: &str, view: &Value) -> Result<bool, Gone> {
        let Some(id) = view["execution"]["id"].as_str() else {
            return Ok(false);
        };
        let execution = self.show(url, &format!("/v1/executions/{id}")).await?;
        match execution["state"].as_str().unwrap_or_default() {
            "applied" | "not_applied" => Ok(true),
            "pending" => {
                if let (Some(bank), Some(refund)) = (self.scenario.bank, execution["reference"].as_str())
                    && !self.sandbox.settle(refund, bank)
                {
                    self.complaints.push(format!("the backend knows no {refund}"));
                }
                Ok(false)
            }
            "handed_off" => {
                let body = json!({ "outcome": self.scenario.finding, "evidence": "the backend's dashboard, looked at by hand" });
                self.call(url, "operations", &format!("/v1/executions/{id}/resolve"), body).await?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    async fn exchange(&mut self, url: &str, draft: &str) -> Result<Option<String>, Gone> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .append_pair("subject_token", draft)
            .append_pair("subject_token_type", "urn:writ:token-type:draft")
            .finish();
        let request = self.client.post(format!("{url}/oauth2/token"));
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        let (_, answer) = self.read(self.auth(request, "support-agent")).await?;
        let token = answer["access_token"].as_str().map(str::to_owned);
        if let Some(token) = &token
            && self.scenario.act == Act::Execute
        {
            self.tokens.push((draft.to_owned(), token.clone()));
        }
        Ok(token)
    }

    async fn execute(&mut self, url: &str, token: &str, draft: &str) -> Result<(), Gone> {
        let request = self.client.post(format!("{url}/v1/executions")).bearer_auth(token);
        let request = request.header("content-type", "application/json");
        self.read(request.body(json!({ "draft_id": draft }).to_string())).await.map(drop)
    }

    async fn call(&mut self, url: &str, client: &str, path: &str, body: Value) -> Result<Value, Gone> {
        let request = self.client.post(format!("{url}{path}"));
        let request = if body.is_null() {
            request
        } else {
            request.header("content-type", "application/json").body(body.to_string())
        };
        Ok(self.read(self.auth(request, client)).await?.1)
    }

    async fn show(&mut self, url: &str, path: &str) -> Result<Value, Gone> {
        let request = self.client.get(format!("{url}{path}"));
        let (status, body) = self.read(self.auth(request, "support-agent")).await?;
        if status != 200 {
            self.complaints.push(format!("{path}: {status} {body}"));
        }
        Ok(body)
    }

    fn auth(&self, request: reqwest::RequestBuilder, client: &str) -> reqwest::RequestBuilder {
        request.basic_auth(client, Some(self.made.secret(client).unwrap().1.expose()))
    }

    /// The answer; a status from 500 on is a complaint.
    async fn read(&mut self, request: reqwest::RequestBuilder) -> Result<(u16, Value), Gone> {
        let response = request.send().await.map_err(|_| Gone)?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(|_| Gone)?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        // A backend that did not answer in time changed nothing; the caller tries again.
        if status >= 500 && body["code"] != "backend_unavailable" {
            self.complaints.push(format!("{status} {body}"));
        }
        Ok((status, body))
    }

    /// Changes something at the backend behind writ's back.
    async fn arrange(&self, path: &str, body: String) -> Value {
        let request = self.client.post(format!("{}{path}", self.sandbox.url));
        let request = request.bearer_auth(self.sandbox.write_key().expose());
        let response = request.body(body).send().await.unwrap();
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    }
}

/// Another text at its first place; `false` if the file does not hold it.
fn edit(path: &std::path::Path, from: &str, to: &str) -> bool {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    text.contains(from)
}

/// The record with which an approver of the example answers this card.
fn record(made: &Created, outside: &Outside, approver: &str, card: &Value, decision: Decision) -> String {
    let (_, path) = made.approvers.iter().find(|(id, _)| id.as_str() == approver).unwrap();
    let pem = Secret::new(std::fs::read_to_string(path).unwrap());
    let signer = RecordSigner::from_pkcs8_pem(&pem, format!("{approver}-1").parse().unwrap()).unwrap();
    let audience = writ::config::Config::load(&made.config).unwrap().audience.to_string();
    signer.sign(&people::claims(outside, audience, approver, card, decision)).unwrap()
}
