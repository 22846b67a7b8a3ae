//! A whole writ in one process, on a real store, before a real sandbox backend, reached through its router, on a clock of the test's own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;
use writ::app::{App, Outside, Part};
use writ::approval::RecordSigner;
use writ::audit::{Actor, ActorKind};
use writ::config::Config;
use writ::domain::approval::{Claims, Decision};
use writ::domain::clock::{Clock as _, Entropy};
use writ::domain::id::OperationId;
use writ::domain::principal::{Client, KeyKind};
use writ::domain::secret::Secret;
use writ::domain::time::Timestamp;
use writ::sandbox::{RunningSandbox, Sandbox, SandboxConfig, demo};
use writ::setup::{self, Approvers, Created, Endpoint, Options};

use writ::store::Op;
use writ::store::record::{ApproverEntry, ClientEntry};

use super::{ManualClock, SeededEntropy, people};
use crate::fakes::server::{EVENTS, READS, WRITES};

/// Everything, running.
pub struct World {
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<dyn Entropy>,
    pub sandbox: RunningSandbox,
    pub app: App,
    pub made: Created,
    pub config: Config,
    /// The environment of every process that is started from here on.
    pub env: BTreeMap<String, String>,
    /// Removed when the world is dropped.
    _dir: TempDir,
    router: Router,
    /// How many changes at the backend the test made itself.
    /// How many other processes were started, so that each has a source of chance of its own.
    others: AtomicU64,
    arranged: AtomicUsize,
}

/// An answer: its status, its headers, its body.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: axum::http::HeaderMap,
    pub body: Value,
}

impl Reply {
    /// The problem's code, or the OAuth error's.
    pub fn code(&self) -> &str {
        self.body["code"]
            .as_str()
            .unwrap_or_else(|| panic!("no code in {} {}", self.status, self.body))
    }

    /// The body, if the status is this one.
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// Asserts a refusal with this status and code.
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.body);
        self
    }
}

/// What is different in a world.
#[derive(Default)]
pub struct Setup {
    /// Edits of the files that were made: path below the working directory, what stands there, what shall.
    pub edits: Vec<(&'static str, &'static str, String)>,
    /// Only payments, and at this address, instead of the sandbox for payments and shop.
    pub stripe: Option<String>,
    /// Further backends: the example file's name without `.toml`, and where its server is. Their secrets come from [`World::env`].
    pub examples: Vec<(&'static str, String)>,
    /// When the world begins, if not when the test's clock does; not before that.
    pub starts: Option<Timestamp>,
}

impl Setup {
    /// Another text at its first place in one file.
    pub fn edit(path: &'static str, from: &'static str, to: &str) -> Self {
        Self {
            edits: vec![(path, from, to.to_owned())],
            ..Self::default()
        }
    }
}

impl World {
    /// A world with the example policy, clients and approvers.
    pub async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    /// A world of which something is different.
    pub async fn with(setup: Setup) -> Self {
        let clock = Arc::new(ManualClock::new());
        if let Some(starts) = setup.starts {
            clock.advance(starts.since(clock.now()));
        }
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(7));
        let sandbox = Sandbox::start(SandboxConfig::new(clock.clone(), entropy.clone())).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (url, reader, writer) = match &setup.stripe {
            Some(url) => (url, "sk_test_reader", "sk_test_writer"),
            None => (&sandbox.url, sandbox.read_key().expose(), sandbox.write_key().expose()),
        };
        let endpoint = |name| Endpoint {
            name,
            url: url.clone(),
            facts: Secret::new(reader.to_owned()),
            read: Secret::new(reader.to_owned()),
            write: Secret::new(writer.to_owned()),
        };
        let options = Options {
            dir: dir.path().join("writ"),
            broker_listen: "127.0.0.1:8700".to_owned(),
            proxy_listen: "127.0.0.1:8701".to_owned(),
            public_url: None,
            audience: None,
            endpoints: match setup.stripe {
                Some(_) => vec![endpoint("stripe")],
                None => vec![endpoint("stripe"), endpoint("shop")],
            },
            approvers: Approvers::Examples,
        };
        let outside = Outside {
            clock: clock.clone(),
            entropy: entropy.clone(),
        };
        let made = setup::create(&options, &outside).await.unwrap();
        for (path, from, to) in &setup.edits {
            let path = options.dir.join(path);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{} does not hold `{from}`", path.display());
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        }
        let mut env = BTreeMap::new();
        for (name, url) in &setup.examples {
            let file = format!("{name}.toml");
            let (_, text) = writ::backend::EXAMPLES.iter().find(|(known, _)| *known == file).unwrap();
            let text = writ::backend::relocated(&file, text, url).unwrap();
            std::fs::write(options.dir.join("policies/backends").join(&file), text).unwrap();
            for (role, secret) in [("FACTS", READS), ("READ", READS), ("WRITE", WRITES)] {
                env.insert(format!("WRIT_{}_{role}_KEY", name.to_uppercase()), secret.to_owned());
            }
            env.insert(format!("WRIT_{}_WEBHOOK_SECRETS", name.to_uppercase()), EVENTS.to_owned());
        }
        let config = Config::load(&made.config).unwrap();
        let app = App::assemble(&config, Part::All, outside, &|name| env.get(name).cloned()).unwrap();
        let router = app.router();
        Self {
            clock,
            entropy,
            sandbox,
            app,
            made,
            config,
            env,
            _dir: dir,
            router,
            arranged: AtomicUsize::new(0),
            others: AtomicU64::new(0),
        }
    }

    /// A second process on the same store: its own connections, its own tasks.
    pub fn another(&self) -> (App, Router) {
        let outside = Outside {
            clock: self.clock.clone(),
            entropy: Arc::new(SeededEntropy::new(99 + self.others.fetch_add(1, Ordering::SeqCst))),
        };
        let app = App::assemble(&self.config, Part::All, outside, &|name| self.env.get(name).cloned()).unwrap();
        let router = app.router();
        (app, router)
    }

    /// Starts the process anew on what is on disk, as after a crash.
    pub fn restart(&mut self) {
        let (app, router) = self.another();
        self.app = app;
        self.router = router;
    }

    /// The value of the Authorization header of a client of the example.
    pub fn basic(&self, client: &str) -> String {
        if client == "prover" {
            let file = self.made.prover.as_ref().unwrap().with_file_name("prover/reporter");
            let secret = std::fs::read_to_string(file).unwrap();
            return format!("Basic {}", STANDARD.encode(format!("{client}:{secret}")));
        }
        let (_, secret) = self.made.secret(client).unwrap();
        format!("Basic {}", STANDARD.encode(format!("{client}:{}", secret.expose())))
    }

    /// Sends a request through the router.
    pub async fn send(&self, request: Request<Body>) -> Reply {
        send(&self.router, request).await
    }

    /// A call by a client, with a JSON body or none.
    pub async fn call(&self, client: &str, method: &str, path: &str, body: Option<Value>) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, self.basic(client));
        let request = match body {
            None => request.body(Body::empty()),
            Some(body) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_string())),
        };
        self.send(request.unwrap()).await
    }

    /// Proposes by the support agent.
    pub async fn propose(&self, body: Value) -> Reply {
        self.call("support-agent", "POST", "/v1/drafts", Some(body)).await
    }

    /// The body that proposes a refund on the demo's charge.
    pub fn refund(amount: i64) -> Value {
        json!({
            "operation": "refund.create", "case_id": "case-1", "reason_code": "damaged",
            "parameters": { "charge": demo::CHARGE, "amount": amount, "currency": "usd" },
        })
    }

    /// The draft as the approval service sees it, nonce included.
    pub async fn card(&self, draft: &str) -> Value {
        self.call("review-desk", "GET", &format!("/v1/drafts/{draft}"), None)
            .await
            .expect(200)
    }

    /// The claims with which an approver of the example would answer this card.
    pub fn claims(&self, approver: &str, card: &Value, decision: Decision) -> Claims {
        let outside = Outside {
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
        };
        people::claims(&outside, self.config.audience.to_string(), approver, card, decision)
    }

    /// The signer of an approver of the example.
    pub fn signer(&self, approver: &str) -> RecordSigner {
        let (_, path) = self.made.approvers.iter().find(|(id, _)| id.as_str() == approver).unwrap();
        let pem = Secret::new(std::fs::read_to_string(path).unwrap());
        RecordSigner::from_pkcs8_pem(&pem, format!("{approver}-1").parse().unwrap()).unwrap()
    }

    /// A record by an approver of the example about a draft that waits.
    pub async fn record(&self, approver: &str, draft: &str, decision: Decision) -> String {
        let card = self.card(draft).await;
        self.signer(approver).sign(&self.claims(approver, &card, decision)).unwrap()
    }

    /// Hands a record in.
    pub async fn hand_in(&self, record: &str) -> Reply {
        self.call("review-desk", "POST", "/v1/approvals", Some(json!({ "record": record })))
            .await
    }

    /// Brings a record to the token endpoint, where it must be refused with the same code.
    pub async fn refused_at_the_exchange(&self, record: &str, code: &str) {
        // An empty parameter counts as absent there (RFC 6749 section 3.2).
        if record.is_empty() {
            return;
        }
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", record),
            ("subject_token_type", "urn:writ:token-type:approval-record"),
        ];
        let reply = self.exchange_form("support-agent", &form).await;
        assert_eq!(reply.code(), code, "{}", reply.body);
    }

    /// Exchanges with these form parameters.
    pub async fn exchange_form(&self, client: &str, form: &[(&str, &str)]) -> Reply {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::post("/oauth2/token")
            .header(header::AUTHORIZATION, self.basic(client))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(body));
        self.send(request.unwrap()).await
    }

    /// Exchanges a draft whose records are stored.
    pub async fn exchange(&self, draft: &str) -> Reply {
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", draft),
            ("subject_token_type", "urn:writ:token-type:draft"),
        ];
        self.exchange_form("support-agent", &form).await
    }

    /// A credential for a draft that is approved.
    pub async fn credential(&self, draft: &str) -> String {
        self.exchange(draft).await.expect(200)["access_token"].as_str().unwrap().to_owned()
    }

    /// Spends a credential, and waits until this process has done what it can.
    pub async fn execute(&self, token: &str, draft: &str) -> Reply {
        let reply = self.execute_body(token, json!({ "draft_id": draft })).await;
        self.app.settle().await;
        reply
    }

    /// Calls the execute endpoint with this body.
    pub async fn execute_body(&self, token: &str, body: Value) -> Reply {
        self.send(execute_request(token, body)).await
    }

    /// The draft's id and its execution as it stands now.
    pub async fn execution(&self, draft: &str) -> Value {
        let view = self
            .call("support-agent", "GET", &format!("/v1/drafts/{draft}"), None)
            .await
            .expect(200);
        let id = view["execution"]["id"].as_str().unwrap_or_else(|| panic!("no execution in {view}"));
        self.call("support-agent", "GET", &format!("/v1/executions/{id}"), None)
            .await
            .expect(200)
    }

    /// A draft that a rule approved: 40.00 USD.
    pub async fn allowed_draft(&self) -> String {
        let draft = self.propose(Self::refund(4_000)).await.expect(201);
        assert_eq!(draft["state"], "approved", "{draft}");
        draft["id"].as_str().unwrap().to_owned()
    }

    /// A draft that waits for people: 240.00 USD.
    pub async fn held_draft(&self) -> String {
        let draft = self.propose(Self::refund(24_000)).await.expect(201);
        assert_eq!(draft["state"], "awaiting_approval", "{draft}");
        draft["id"].as_str().unwrap().to_owned()
    }

    /// Moves the clock and lets the proxy go on with what is due.
    pub async fn later(&self, by: Duration) -> usize {
        self.clock.advance(by);
        let taken = self.app.proxy.as_ref().unwrap().sweep().await.unwrap();
        self.app.settle().await;
        taken
    }

    /// How many requests that change something reached the backend, apart from those of [`World::arrange`].
    pub fn writes(&self) -> usize {
        let all = self.sandbox.requests().iter().filter(|r| r.method != "GET").count();
        all - self.arranged.load(Ordering::SeqCst)
    }

    /// Changes something at the backend behind writ's back.
    pub async fn arrange(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
        // Another test of this process may have installed it already; either way it is there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().http1_only().build().unwrap();
        let mut request = client
            .request(method.parse().unwrap(), format!("{}{path}", self.sandbox.url))
            .bearer_auth(self.sandbox.write_key().expose())
            .body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        self.arranged.fetch_add(1, Ordering::SeqCst);
        assert_eq!(response.status(), 200);
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    }

    /// A new charge of the demo's first customer; its id.
    pub async fn charge(&self, amount: i64, currency: &str) -> String {
        let body = format!("amount={amount}&currency={currency}&source=tok_visa&customer={}", demo::CUSTOMER);
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let charge = self.arrange("POST", "/v1/charges", &headers, &body).await;
        charge["id"].as_str().unwrap().to_owned()
    }

    /// The body that proposes a refund on this charge.
    pub fn refund_of(charge: &str, amount: i64, currency: &str) -> Value {
        json!({ "operation": "refund.create", "parameters": { "charge": charge, "amount": amount, "currency": currency } })
    }

    /// The body that proposes another e-mail address for the demo's first customer.
    pub fn email(to: &str) -> Value {
        json!({
            "operation": "email.update", "case_id": "case-1",
            "parameters": { "customer": demo::CUSTOMER, "old_email": "ada.moreno@example.com", "new_email": to },
        })
    }

    /// Registers a further client, like `model` but for what `change` changes, with a secret that [`World::basic`] knows.
    pub async fn add_client(&mut self, model: &str, change: impl FnOnce(&mut Client)) {
        let (mut client, _) = self
            .made
            .clients
            .iter()
            .find(|(client, _)| client.id.as_str() == model)
            .map(|(client, secret)| (client.clone(), secret))
            .unwrap();
        change(&mut client);
        let (secret, secret_sha256) = setup::fresh_secret(&*self.entropy);
        let entry = ClientEntry {
            client: client.clone(),
            secret_sha256,
            certificate: None,
        };
        self.app.store.add_client(self.op(), entry).await.unwrap();
        self.made.clients.push((client, secret));
    }

    /// Registers a further approver, like `model` but for what `change` changes, whose key [`World::signer`] finds.
    pub async fn add_approver(&mut self, model: &str, id: &str, change: impl FnOnce(&mut ApproverEntry)) {
        let generated = RecordSigner::generate(KeyKind::Es256).unwrap();
        let mut entry = self.app.store.approver(&model.parse().unwrap()).await.unwrap().unwrap();
        entry.approver.id = id.parse().unwrap();
        entry.keys.truncate(1);
        entry.keys[0].kid = format!("{id}-1").parse().unwrap();
        entry.keys[0].approver = entry.approver.id.clone();
        entry.keys[0].public = generated.public;
        change(&mut entry);
        let path = self.path("approvers").join(format!("{id}.pem"));
        setup::write(&path, generated.private_pem.expose(), 0o600).unwrap();
        self.made.approvers.push((entry.approver.id.clone(), path));
        self.app.store.add_approver(self.op(), entry).await.unwrap();
    }

    /// A fresh operation, as of an operator at the console.
    pub fn op(&self) -> Op {
        Op {
            id: OperationId::generate(&*self.clock, &*self.entropy),
            actor: Actor::new(ActorKind::Person, "test"),
            request: None,
        }
    }

    /// A path in the working directory.
    pub fn path(&self, below: &str) -> PathBuf {
        self.made.config.parent().unwrap().join(below)
    }

    /// The draft as its maker sees it.
    pub async fn draft(&self, id: &str) -> Value {
        self.call("support-agent", "GET", &format!("/v1/drafts/{id}"), None)
            .await
            .expect(200)
    }

    /// Every audit event, in order.
    pub async fn events(&self) -> Vec<Value> {
        let events = self.app.store.events(0, 1000).await.unwrap();
        events.iter().map(|e| serde_json::from_slice(&e.bytes).unwrap()).collect()
    }

    /// Asserts that this refusal has this status and code, that the log tells of it under this type with the same code and the request's
    /// own id, and that nothing was sent to change anything at the backend since `writes` were counted.
    pub async fn denied(&self, reply: &Reply, status: u16, code: &str, event: &str, writes: usize) {
        assert_eq!((reply.status, reply.code()), (status, code), "{}", reply.body);
        let request = reply.headers["x-request-id"].to_str().unwrap();
        let events = self.events().await;
        let told = events.iter().find(|e| e["request_id"] == request && e["type"] == event);
        let told = told.unwrap_or_else(|| panic!("no {event} for {}", reply.body));
        assert_eq!((&told["outcome"], &told["code"]), (&json!("denied"), &json!(code)), "{told}");
        assert_eq!(self.writes(), writes, "a refusal reached the backend");
    }

    /// The types of all audit events, in order.
    pub async fn event_types(&self) -> Vec<String> {
        let events = self.events().await;
        events.iter().map(|e| e["type"].as_str().unwrap().to_owned()).collect()
    }
}

/// A call of the execute endpoint.
pub fn execute_request(token: &str, body: Value) -> Request<Body> {
    Request::post("/v1/executions")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

/// Sends a request through a router.
pub async fn send(router: &Router, request: Request<Body>) -> Reply {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    let media = parts.headers.get(header::CONTENT_TYPE).map_or("", |media| media.to_str().unwrap());
    super::answers::hold(&method, &path, parts.status.as_u16(), media, &body);
    Reply {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

/// 16 bytes that are nobody's nonce.
pub fn foreign_nonce() -> String {
    URL_SAFE_NO_PAD.encode([7; 16])
}
