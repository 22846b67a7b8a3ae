//! Everything that takes part, started: the backend, writ, a second proxy; and the calls that the story makes over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::DemoError;
use crate::app::{App, Outside, Part};
use crate::audit::{Actor, ActorKind};
use crate::config::Config;
use crate::domain::clock::{Clock, Entropy};
use crate::domain::id::OperationId;
use crate::domain::operation::Stage as Permitted;
use crate::domain::principal::{Client, Permission, Role};
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::sandbox::{RunningSandbox, Sandbox, SandboxConfig};
use crate::setup::{self, Approvers, Created, Endpoint, Options, TempDir};
use crate::store::record::ClientEntry;
use crate::store::{Op, Store};

/// The orchestrator of the story.
pub(super) const AGENT: &str = "support-agent";
/// The service that hands approval records in.
pub(super) const DESK: &str = "review-desk";
/// The auditor.
pub(super) const AUDITOR: &str = "security";
/// An orchestrator of another tenant.
pub(super) const FOREIGN_AGENT: &str = "annex-agent";
/// The audience of the second proxy.
const ANNEX: &str = "urn:writ:proxy:annex";

/// The machine's clock and an offset: it runs as the machine's does, and the story can put it forward.
pub(super) struct DemoClock {
    machine: Arc<dyn Clock>,
    offset: AtomicI64,
}

impl DemoClock {
    /// Puts the clock forward.
    pub(super) fn forward(&self, by: Duration) {
        self.offset
            .fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for DemoClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.machine.now().millis().saturating_add(self.offset.load(Ordering::SeqCst)))
    }
}

/// An answer: its status and its body.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Reply {
    /// The stable code of a refusal; of anything else its state, or a dash.
    pub(super) fn code(&self) -> &str {
        let word = |name| self.body.get(name).and_then(Value::as_str);
        word("code").or_else(|| word("state")).unwrap_or("-")
    }

    /// The words of a refusal.
    pub(super) fn words(&self) -> &str {
        let word = |name| self.body.get(name).and_then(Value::as_str);
        word("detail").or_else(|| word("error_description")).unwrap_or("")
    }

    /// The body, if the call went as it must for the story to go on.
    pub(super) fn ok(self) -> Result<Value, DemoError> {
        if (200..300).contains(&self.status) {
            Ok(self.body)
        } else {
            Err(DemoError::Unexpected(format!("{} {}", self.status, self.body)))
        }
    }
}

/// The text at a JSON pointer.
pub(super) fn text(value: &Value, pointer: &str) -> Result<String, DemoError> {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| DemoError::Unexpected(format!("no text at {pointer} in {value}")))
}

/// The text at a JSON pointer for a check: what is not there is a dash, and the check fails.
pub(super) fn seen(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    }
}

/// Everything, running.
pub(super) struct Stage {
    pub(super) clock: Arc<DemoClock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) sandbox: RunningSandbox,
    pub(super) made: Created,
    pub(super) config: Config,
    /// Where writ answers.
    pub(super) url: String,
    /// Where the second proxy answers.
    pub(super) annex: String,
    pub(super) store: Arc<dyn Store>,
    foreign: Secret,
    http: reqwest::Client,
    shutdown: CancellationToken,
    servers: Vec<JoinHandle<std::io::Result<()>>>,
    // The last field, so that it is dropped when everything that writes into it is gone.
    dir: TempDir,
}

impl Stage {
    /// Starts everything below a directory of its own in `parent`.
    pub(super) async fn start(outside: Outside, parent: PathBuf) -> Result<Self, DemoError> {
        let setup = |error: &dyn std::fmt::Display| DemoError::Setup(error.to_string());
        let clock = Arc::new(DemoClock {
            machine: outside.clock,
            offset: AtomicI64::new(0),
        });
        let outside = Outside {
            clock: clock.clone(),
            entropy: outside.entropy,
        };
        let dir = TempDir::new(&parent, "demo", &*outside.entropy).map_err(|error| setup(&format!("{}: {error}", parent.display())))?;
        let sandbox = Sandbox::start(SandboxConfig::new(outside.clock.clone(), outside.entropy.clone()))
            .await
            .map_err(|error| setup(&error))?;
        let listener = loopback().await?;
        let annex_listener = loopback().await?;
        let address = |listener: &TcpListener| listener.local_addr().map(|a| a.to_string()).map_err(|error| setup(&error));
        let (listen, annex_listen) = (address(&listener)?, address(&annex_listener)?);
        let endpoint = |name| Endpoint {
            name,
            url: sandbox.url.clone(),
            facts: Secret::new(sandbox.read_key().expose().to_owned()),
            read: Secret::new(sandbox.read_key().expose().to_owned()),
            write: Secret::new(sandbox.write_key().expose().to_owned()),
        };
        let options = Options {
            dir: dir.path().join("writ"),
            broker_listen: listen.clone(),
            proxy_listen: annex_listen.clone(),
            public_url: None,
            audience: None,
            endpoints: vec![endpoint("stripe"), endpoint("shop")],
            approvers: Approvers::Examples,
        };
        let made = setup::create(&options, &outside).await.map_err(|error| setup(&error))?;
        let config = Config::load(&made.config).map_err(|error| setup(&error))?;
        let app = App::assemble(&config, Part::All, outside.clone(), &|_| None).map_err(|error| setup(&error))?;
        let store = app.store.clone();
        let annex_config = Config {
            proxy_audience: ANNEX.parse().map_err(|error| setup(&error))?,
            proxy_name: "proxy-annex".to_owned(),
            ..config.clone()
        };
        let annex = App::on(store.clone(), &annex_config, Part::Proxy, outside.clone(), &|_| None).map_err(|error| setup(&error))?;
        let shutdown = CancellationToken::new();
        let servers = vec![
            tokio::spawn(app.serve(listener, shutdown.clone())),
            tokio::spawn(annex.serve(annex_listener, shutdown.clone())),
        ];
        let foreign = foreign_agent(&*store, &*outside.clock, &*outside.entropy).await?;
        Ok(Self {
            clock,
            entropy: outside.entropy,
            sandbox,
            made,
            config,
            url: format!("http://{listen}"),
            annex: format!("http://{annex_listen}"),
            store,
            foreign,
            http: http_client().map_err(|error| setup(&error))?,
            shutdown,
            servers,
            dir,
        })
    }

    /// Stops everything and removes the directory.
    pub(super) async fn strike(self) {
        let Self {
            sandbox,
            store,
            http,
            shutdown,
            servers,
            dir,
            ..
        } = self;
        drop(http);
        shutdown.cancel();
        for server in servers {
            if !matches!(server.await, Ok(Ok(()))) {
                tracing::warn!("a server of the demo did not end as it should");
            }
        }
        sandbox.shutdown().await;
        drop(store);
        drop(dir);
    }

    /// The secret of a client.
    pub(super) fn secret(&self, client: &str) -> &Secret {
        self.made.secret(client).map_or(&self.foreign, |(_, secret)| secret)
    }

    fn basic(&self, client: &str) -> String {
        format!("Basic {}", STANDARD.encode(format!("{client}:{}", self.secret(client).expose())))
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Reply, DemoError> {
        let lost = |error: reqwest::Error| DemoError::Http(error.to_string());
        let response = request.send().await.map_err(lost)?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(lost)?;
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Ok(Reply { status, body })
    }

    /// A call by a client with these bytes as its JSON body, and these headers.
    pub(super) async fn send(
        &self,
        client: &str,
        path: &str,
        body: impl Into<reqwest::Body>,
        headers: &[(&str, &str)],
    ) -> Result<Reply, DemoError> {
        let mut request = self
            .http
            .post(format!("{}{path}", self.url))
            .header("authorization", self.basic(client))
            .header("content-type", "application/json")
            .body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.answer(request).await
    }

    /// A POST by a client.
    pub(super) async fn post(&self, client: &str, path: &str, body: &Value) -> Result<Reply, DemoError> {
        self.send(client, path, body.to_string(), &[]).await
    }

    /// A GET by a client.
    pub(super) async fn get(&self, client: &str, path: &str) -> Result<Reply, DemoError> {
        let request = self
            .http
            .get(format!("{}{path}", self.url))
            .header("authorization", self.basic(client));
        self.answer(request).await
    }

    /// The agent proposes.
    pub(super) async fn propose(&self, body: &Value) -> Result<Reply, DemoError> {
        self.post(AGENT, "/v1/drafts", body).await
    }

    /// A form sent to the token endpoint by the agent.
    pub(super) async fn token_endpoint(&self, form: &[(&str, &str)]) -> Result<Reply, DemoError> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self
            .http
            .post(format!("{}/oauth2/token", self.url))
            .header("authorization", self.basic(AGENT))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        self.answer(request).await
    }

    /// The agent exchanges a draft whose records are stored.
    pub(super) async fn exchange(&self, draft: &str) -> Result<Reply, DemoError> {
        self.token_endpoint(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", draft),
            ("subject_token_type", "urn:writ:token-type:draft"),
        ])
        .await
    }

    /// A credential for a draft that is approved.
    pub(super) async fn credential(&self, draft: &str) -> Result<String, DemoError> {
        text(&self.exchange(draft).await?.ok()?, "/access_token")
    }

    /// A call of an execute endpoint with this Authorization header, or none.
    pub(super) async fn execute_at(
        &self,
        url: &str,
        authorization: Option<&str>,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Result<Reply, DemoError> {
        let mut request = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string());
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.answer(request).await
    }

    /// The agent spends a credential and waits for the outcome.
    pub(super) async fn execute(&self, token: &str, draft: &str) -> Result<Reply, DemoError> {
        self.execute_body(token, &json!({ "draft_id": draft })).await
    }

    /// The agent spends a credential on what this body names, and waits for the outcome.
    pub(super) async fn execute_body(&self, token: &str, body: &Value) -> Result<Reply, DemoError> {
        let url = format!("{}/v1/executions?wait=10", self.url);
        self.execute_at(&url, Some(&format!("Bearer {token}")), body, &[]).await
    }

    /// The agent spends a credential and does not wait.
    pub(super) async fn start_execution(&self, token: &str, draft: &str) -> Result<Reply, DemoError> {
        let url = format!("{}/v1/executions", self.url);
        self.execute_at(&url, Some(&format!("Bearer {token}")), &json!({ "draft_id": draft }), &[])
            .await
    }

    /// An execution once it has an outcome.
    pub(super) async fn outcome(&self, execution: &str) -> Result<Value, DemoError> {
        self.get(AGENT, &format!("/v1/executions/{execution}?wait=10")).await?.ok()
    }

    /// A call of the backend with the shop's own key, as its other systems make them.
    pub(super) async fn backend(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: String,
        if_match: Option<&str>,
    ) -> Result<Reply, DemoError> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.sandbox.url))
            .bearer_auth(self.sandbox.write_key().expose())
            .header("content-type", content_type)
            .body(body);
        if let Some(tag) = if_match {
            request = request.header("if-match", tag);
        }
        self.answer(request).await
    }

    /// A new payment of a customer without an account, in USD; its id.
    pub(super) async fn payment(&self, amount: i64) -> Result<String, DemoError> {
        let form = format!("amount={amount}&currency=usd&source=tok_visa");
        let reply = self
            .backend(Method::POST, "/v1/charges", "application/x-www-form-urlencoded", form, None)
            .await?;
        text(&reply.ok()?, "/id")
    }

    /// How many requests that change something writ has sent to the backend: those with an idempotency key, and any other refund.
    pub(super) fn sent(&self) -> usize {
        self.sandbox
            .requests()
            .iter()
            .filter(|r| r.method != "GET" && (r.idempotency_key.is_some() || r.path == "/v1/refunds"))
            .count()
    }

    /// An act of an operator at the console.
    pub(super) fn operator(&self) -> Op {
        Op {
            id: OperationId::generate(&*self.clock, &*self.entropy),
            actor: Actor::new(ActorKind::Person, "demo"),
            request: None,
        }
    }

    /// The run's own directory.
    pub(super) fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }
}

async fn loopback() -> Result<TcpListener, DemoError> {
    TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(|error| DemoError::Setup(format!("no port on 127.0.0.1: {error}")))
}

/// Plain HTTP to this machine, past any proxy the environment names.
fn http_client() -> Result<reqwest::Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(20))
        .build()
        .map_err(|error| error.to_string())
}

/// Registers an orchestrator of another tenant, as `writ client add` would; its secret.
async fn foreign_agent(store: &dyn Store, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<Secret, DemoError> {
    let setup = |error: &dyn std::fmt::Display| DemoError::Setup(error.to_string());
    let (secret, secret_sha256) = setup::fresh_secret(entropy);
    let client = Client {
        id: FOREIGN_AGENT.parse().map_err(|error| setup(&error))?,
        tenant: "annex".parse().map_err(|error| setup(&error))?,
        roles: [Role::Orchestrator].into(),
        owner: None,
        permissions: vec![Permission {
            operations: "refund.create".parse().map_err(|error| setup(&error))?,
            stages: [Permitted::Draft, Permitted::Execute].into(),
        }],
        created_at: clock.now(),
        revoked_at: None,
    };
    let op = Op {
        id: OperationId::generate(clock, entropy),
        actor: Actor::new(ActorKind::Person, "demo"),
        request: None,
    };
    store
        .add_client(
            op,
            ClientEntry {
                client,
                secret_sha256,
                certificate: None,
            },
        )
        .await
        .map_err(|error| setup(&error))?;
    Ok(secret)
}
