//! Composition root: clock, entropy, store, policies, backends, routers, shutdown.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use axum::Router;
use ring::rand::SecureRandom as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::approval::RecordSigner;
use crate::audit::{Actor, EventBody, EventKind, Note};
use crate::backend::{Backends, Clients, Need};
use crate::broker::{self, Broker};
use crate::config::{self, Config};
use crate::domain::clock::{Clock, Entropy};
use crate::domain::id::OperationId;
use crate::domain::name::{KeyId, PrincipalId};
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::http::{self, Common, CommonParts};
use crate::policy::Policy;
use crate::proxy::{self, Proxy};
use crate::store::sqlite::SqliteStore;
use crate::store::{Op, Store};
use crate::token::{KeyRing, KeySet, PUBLIC_KEYS_FILE, Verifier};

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the composition root owns the machine's clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The operating system's source of randomness.
#[derive(Debug)]
pub struct SystemEntropy(ring::rand::SystemRandom);

impl SystemEntropy {
    /// The source.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the composition root owns the source of randomness")]
    pub fn new() -> Self {
        Self(ring::rand::SystemRandom::new())
    }
}

impl Default for SystemEntropy {
    fn default() -> Self {
        Self::new()
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        // A machine without randomness cannot make a nonce; going on with zeros would be worse than ending.
        if self.0.fill(buffer).is_err() {
            tracing::error!("the operating system gives no randomness");
            std::process::abort();
        }
    }
}

/// Which parts of writ a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The broker and the proxy.
    All,
    /// The broker only: it holds the signing keys and the secrets for facts.
    Broker,
    /// The proxy only: it holds public keys and the secrets that execute.
    Proxy,
}

impl Part {
    const fn is_broker(self) -> bool {
        matches!(self, Self::All | Self::Broker)
    }

    const fn is_proxy(self) -> bool {
        matches!(self, Self::All | Self::Proxy)
    }

    const fn need(self) -> Need {
        match self {
            Self::All => Need::All,
            Self::Broker => Need::Broker,
            Self::Proxy => Need::Proxy,
        }
    }
}

/// What keeps the process from starting: everything that is wrong, one sentence each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

/// Where the environment's values come from: the process's own, or a test's.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Clock and chance, given to everything below.
#[derive(Clone)]
pub struct Outside {
    /// Now.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
}

impl Outside {
    /// The machine's own.
    #[must_use]
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::new()),
        }
    }
}

/// A process, put together and not yet serving.
pub struct App {
    config: Config,
    part: Part,
    outside: Outside,
    /// Where state is kept.
    pub store: Arc<dyn Store>,
    /// The broker, if this process is one.
    pub broker: Option<Arc<Broker>>,
    /// The proxy, if this process is one.
    pub proxy: Option<Proxy>,
    tasks: TaskTracker,
}

impl App {
    /// Puts a process together on the store the configuration names.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong with the store, the policy, the backend files, the keys and the secrets.
    pub fn assemble(config: &Config, part: Part, outside: Outside, env: Environment<'_>) -> Result<Self, Faults> {
        let checked = Checked::load(config, part, &outside, env);
        let store = open_store(config, &outside);
        match (checked, store) {
            (Ok(checked), Ok(store)) => Ok(Self::from_parts(store, checked, config, part, outside)),
            (checked, store) => {
                let mut faults = checked.err().map(|f| f.0).unwrap_or_default();
                faults.extend(store.err());
                Err(Faults(faults))
            }
        }
    }

    /// Puts a process together on a store that is open already.
    ///
    /// # Errors
    /// [`Faults`], as for [`App::assemble`].
    pub fn on(store: Arc<dyn Store>, config: &Config, part: Part, outside: Outside, env: Environment<'_>) -> Result<Self, Faults> {
        let checked = Checked::load(config, part, &outside, env)?;
        Ok(Self::from_parts(store, checked, config, part, outside))
    }

    fn from_parts(store: Arc<dyn Store>, parts: Checked, config: &Config, part: Part, outside: Outside) -> Self {
        let tasks = TaskTracker::new();
        let broker = parts.broker.map(|(policy, facts, rule_signer, keys)| {
            Arc::new(Broker {
                store: store.clone(),
                clock: outside.clock.clone(),
                entropy: outside.entropy.clone(),
                policy: Arc::new(policy),
                backends: parts.backends.clone(),
                facts: Arc::new(facts),
                rule_signer: Arc::new(rule_signer),
                keys: RwLock::new(Arc::new(keys)),
                settings: broker::Settings {
                    audience: config.audience.clone(),
                    proxies: vec![config.proxy_audience.clone()],
                    draft_lifetime: config.draft_lifetime,
                    card_lifetime: config.card_lifetime,
                    execution_window: config.execution_window,
                    policy_approver: config.policy_approver.clone(),
                },
            })
        });
        let proxy = parts.proxy.map(|(clients, keys)| {
            Proxy::new(proxy::Parts {
                store: store.clone(),
                clock: outside.clock.clone(),
                entropy: outside.entropy.clone(),
                backends: parts.backends.clone(),
                clients: Arc::new(clients),
                verifier: Arc::new(Verifier::new(keys, config.proxy_audience.clone())),
                settings: proxy::Settings {
                    audience: config.proxy_audience.clone(),
                    holder: config.proxy_name.clone(),
                    lease: config.lease,
                },
                tasks: tasks.clone(),
            })
        });
        Self {
            config: config.clone(),
            part,
            outside,
            store,
            broker,
            proxy,
            tasks,
        }
    }

    /// The process's routes.
    pub fn router(&self) -> Router {
        let common = Common::new(CommonParts {
            store: self.store.clone(),
            clock: self.outside.clock.clone(),
            entropy: self.outside.entropy.clone(),
            public_url: self.config.public_url.clone(),
        });
        http::router(common, self.broker.clone(), self.proxy.clone())
    }

    /// The address the process listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        match self.part {
            Part::All | Part::Broker => self.config.broker_listen,
            Part::Proxy => self.config.proxy_listen,
        }
    }

    /// Writes down that this process begins to write to the log.
    async fn note_start(&self) {
        let actor = Actor::system(match self.part {
            Part::All => "broker and proxy",
            Part::Broker => "broker",
            Part::Proxy => "proxy",
        });
        let op = Op {
            id: OperationId::generate(&*self.outside.clock, &*self.outside.entropy),
            actor: actor.clone(),
            request: None,
        };
        if let Err(error) = self.store.note(op, EventBody::new(EventKind::Note(Note::LogStarted), actor)).await {
            tracing::error!(%error, "the start could not be written to the audit log");
        }
    }

    /// Waits until no execution is under way in this process.
    pub async fn settle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    /// Serves on the listener until `shutdown`, then finishes what has begun: open requests, and every execution past its redeem.
    ///
    /// # Errors
    /// What the operating system says about the listener.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> std::io::Result<()> {
        self.note_start().await;
        let keeper = tokio::spawn(keep(
            self.broker.clone(),
            self.proxy.clone(),
            self.config.keys.clone(),
            shutdown.clone(),
        ));
        let stop = shutdown.clone();
        let served = axum::serve(listener, self.router())
            .with_graceful_shutdown(async move { stop.cancelled().await })
            .await;
        shutdown.cancel();
        if keeper.await.is_err() {
            tracing::error!("the housekeeping task ended badly");
        }
        self.settle().await;
        served
    }
}

/// How often executions that are due are looked for.
const PROXY_SWEEP: Duration = Duration::from_millis(200);
/// How often what is past its time is ended.
const BROKER_SWEEP: Duration = Duration::from_secs(2);
/// How often the key files are looked at.
const KEY_LOOK: Duration = Duration::from_secs(5);

/// Housekeeping: sweeps, and keys that were rotated while the process runs. Each at its own pace, so that one that is slow delays no other.
async fn keep(broker: Option<Arc<Broker>>, proxy: Option<Proxy>, keys: PathBuf, shutdown: CancellationToken) {
    tokio::join!(
        keep_executions(proxy.clone(), shutdown.clone()),
        keep_drafts(broker.clone(), shutdown.clone()),
        keep_keys(broker, proxy, keys, shutdown),
    );
}

async fn keep_executions(proxy: Option<Proxy>, shutdown: CancellationToken) {
    let Some(proxy) = proxy else { return };
    let mut turn = pace(PROXY_SWEEP);
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        if let Err(error) = proxy.sweep().await {
            tracing::error!(%error, "the sweep of executions failed; it is tried again");
        }
    }
}

async fn keep_drafts(broker: Option<Arc<Broker>>, shutdown: CancellationToken) {
    let Some(broker) = broker else { return };
    let mut turn = pace(BROKER_SWEEP);
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        if let Err(error) = broker.sweep().await {
            tracing::error!(%error, "the sweep of drafts failed; it is tried again");
        }
    }
}

async fn keep_keys(broker: Option<Arc<Broker>>, proxy: Option<Proxy>, dir: PathBuf, shutdown: CancellationToken) {
    let mut turn = pace(KEY_LOOK);
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        reload_keys(broker.as_deref(), proxy.as_ref(), &dir);
    }
}

/// A beat that does not catch up after a long turn.
fn pace(period: Duration) -> tokio::time::Interval {
    let mut turn = tokio::time::interval(period);
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    turn
}

fn reload_keys(broker: Option<&Broker>, proxy: Option<&Proxy>, dir: &Path) {
    if let Some(broker) = broker {
        match KeyRing::load(dir) {
            Ok(ring) => broker.replace_keys(ring),
            Err(error) => tracing::error!(%error, "the key files cannot be read; the keys in use stay"),
        }
    }
    if let Some(proxy) = proxy {
        match read_key_set(dir) {
            Ok(set) => proxy.verifier.replace_keys(set),
            Err(error) => tracing::error!(error, "the public keys cannot be read; the keys in use stay"),
        }
    }
}

/// Everything but the store, loaded and checked.
struct Checked {
    backends: Arc<Backends>,
    broker: Option<(Policy, Clients, RecordSigner, KeyRing)>,
    proxy: Option<(Clients, KeySet)>,
}

/// Checks everything a process needs but the store: policy, backend files, keys, secrets.
///
/// # Errors
/// [`Faults`]: everything that is wrong.
pub fn check(config: &Config, part: Part, outside: &Outside, env: Environment<'_>) -> Result<(), Faults> {
    Checked::load(config, part, outside, env).map(|_| ())
}

/// Checks the store the configuration names, without making one: it opens, and knows the key with which the policy signs.
///
/// # Errors
/// [`Faults`] with what is wrong.
pub async fn check_store(config: &Config, part: Part, outside: &Outside) -> Result<(), Faults> {
    let alone = |fault: String| Faults(vec![fault]);
    if !config.store.exists() {
        return Err(alone(no_store(config)));
    }
    let store = open_store(config, outside).map_err(alone)?;
    // A signer that cannot be read is the finding of `check`.
    let Ok(signer) = policy_signer(config) else { return Ok(()) };
    if !part.is_broker() {
        return Ok(());
    }
    let registered = store
        .approver_key(signer.kid())
        .await
        .map_err(|error| alone(format!("{}: {error}", config.store.display())))?;
    let public = signer.public();
    if registered.is_some_and(|key| key.public == public && key.revoked_at.is_none()) {
        return Ok(());
    }
    Err(alone(format!(
        "the store does not know the key in {} as `{}`, so nothing that the policy allows would run; \
         register it with `writ approver add {} --public {public} --alg {} --issuer {} --kid {}`",
        config.keys.join(config::POLICY_KEY).display(),
        signer.kid(),
        config.policy_approver,
        signer.kind().as_str(),
        config.audience,
        signer.kid(),
    )))
}

/// What to do about a store that is not there.
#[must_use]
pub fn no_store(config: &Config) -> String {
    format!(
        "{}: there is no store; make a working directory with `writ init`, or correct [store] path",
        config.store.display()
    )
}

impl Checked {
    fn load(config: &Config, part: Part, outside: &Outside, env: Environment<'_>) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let backends = match Backends::load(&config.backends) {
            Ok(backends) => Some(Arc::new(backends)),
            Err(mistakes) => {
                faults.extend(mistakes.0.iter().map(ToString::to_string));
                None
            }
        };
        let clients = backends
            .as_ref()
            .and_then(|backends| match Clients::connect(backends, part.need(), env) {
                Ok(clients) => Some(clients),
                Err(mistakes) => {
                    faults.extend(mistakes.0.iter().map(ToString::to_string));
                    None
                }
            });
        let clients_again = || {
            backends
                .as_ref()
                .and_then(|backends| Clients::connect(backends, part.need(), env).ok())
        };
        let broker = if part.is_broker() {
            load_broker(config, backends.as_deref(), clients, outside, &mut faults)
        } else {
            None
        };
        let proxy = if part.is_proxy() {
            match read_key_set(&config.keys) {
                Ok(keys) => clients_again().map(|clients| (clients, keys)),
                Err(error) => {
                    faults.push(error);
                    None
                }
            }
        } else {
            None
        };
        if let (Some(backends), true) = (&backends, part.is_proxy()) {
            faults.extend(short_lease(config, backends));
        }
        match backends {
            Some(backends) if faults.is_empty() => Ok(Self { backends, broker, proxy }),
            _ => Err(Faults(faults)),
        }
    }
}

/// A backend that can be waited for longer than the lease lasts: another proxy would take over while the first one's request is still open.
fn short_lease(config: &Config, backends: &Backends) -> Option<String> {
    let slowest = backends
        .operations()
        .map(|operation| operation.backend())
        .max_by_key(|b| b.total_timeout())?;
    (config.lease <= slowest.total_timeout()).then(|| {
        format!(
            "proxy.lease: {} s is not longer than the total_timeout of {} s in {}.toml; make the lease longer or the time-out shorter",
            config.lease.as_secs(),
            slowest.total_timeout().as_secs(),
            slowest.name()
        )
    })
}

fn load_broker(
    config: &Config,
    backends: Option<&Backends>,
    clients: Option<Clients>,
    outside: &Outside,
    faults: &mut Vec<String>,
) -> Option<(Policy, Clients, RecordSigner, KeyRing)> {
    let policy = Policy::load(&config.policy)
        .map_err(|mistakes| faults.extend(mistakes.0.iter().map(ToString::to_string)))
        .ok();
    if let (Some(policy), Some(backends)) = (&policy, backends) {
        for operation in backends.operations() {
            match policy.consequence(operation.name()) {
                None => faults.push(format!(
                    "schema.cedarschema: `{}` is declared by a backend file and not by the policy; add it",
                    operation.name()
                )),
                Some(said) if said != operation.consequence() => faults.push(format!(
                    "schema.cedarschema: `{}` is of class `{}` here and of class `{}` in its backend file; make them the same",
                    operation.name(),
                    said.as_str(),
                    operation.consequence().as_str()
                )),
                Some(_) => {}
            }
        }
    }
    let keys = KeyRing::load(&config.keys).map_err(|error| faults.push(error.to_string())).ok();
    if let Some(Err(error)) = keys.as_ref().map(|k| k.signing(outside.clock.now())) {
        // Not a reason not to start: readiness is red, and a rotation is picked up while the process runs.
        tracing::warn!(%error, "no credential can be signed yet");
    }
    let signer = policy_signer(config).map_err(|error| faults.push(error)).ok();
    Some((policy?, clients?, signer?, keys?))
}

/// The id of the key with which the policy signs.
///
/// # Errors
/// A sentence, if the configured name cannot be part of one.
pub fn policy_key_id(approver: &PrincipalId) -> Result<KeyId, String> {
    format!("{approver}-1")
        .parse()
        .map_err(|error: crate::domain::name::NameError| error.to_string())
}

fn policy_signer(config: &Config) -> Result<RecordSigner, String> {
    let path = config.keys.join(config::POLICY_KEY);
    let pem = read_private(&path)?;
    RecordSigner::from_pkcs8_pem(&pem, policy_key_id(&config.policy_approver)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// A private key's text; refused if others on the machine can read it.
///
/// # Errors
/// A sentence with the file and what to do.
pub fn read_private(path: &Path) -> Result<Secret, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let mode = std::fs::metadata(path).map_err(at)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "{} can be read by others (mode {mode:04o}); run `chmod 600` on it, and replace the key if it was copied",
            path.display()
        ));
    }
    std::fs::read_to_string(path).map(Secret::new).map_err(at)
}

fn read_key_set(dir: &Path) -> Result<KeySet, String> {
    let path = dir.join(PUBLIC_KEYS_FILE);
    let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}; make keys with `writ keys generate`", path.display()))?;
    KeySet::from_json(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Opens the store the configuration names.
///
/// # Errors
/// A sentence with what is wrong and what to do.
pub fn open_store(config: &Config, outside: &Outside) -> Result<Arc<dyn Store>, String> {
    let open = SqliteStore::open(&config.store, outside.clock.clone(), outside.entropy.clone());
    open.map(|store| Arc::new(store) as Arc<dyn Store>)
        .map_err(|error| format!("{}: {error}", config.store.display()))
}
