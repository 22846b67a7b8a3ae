//! Composition root: clock, entropy, store, policies, backends, routers, shutdown.

mod check;
mod converse;
mod descriptors;
mod head_lines;
mod keep;
mod listen;
mod requests;
mod scrape;
mod system;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use check::{
    check, check_store, find_store, log_files, log_name, open_sqlite, open_store, policy_key_id, read_private, recover_log, rotate_log_key,
};
pub use descriptors::{TooFewFiles, too_few_files};
pub use system::{SystemClock, SystemEntropy};

use check::Checked;
use head_lines::HeadPrinter;
use keep::{Files, keep};
use listen::Door;
use scrape::Scrape;

use crate::audit::{Actor, EventBody, EventKind, Note};
use crate::broker::{self, Broker};
use crate::config::Config;
use crate::domain::clock::{Clock, Entropy};
use crate::domain::id::OperationId;
use crate::edge::{Admission, Limits, Rates, ServerTls};
use crate::http::{self, AuditDesk, Common, CommonParts, Probe};
use crate::metrics::Requests;
use crate::proxy::{self, Proxy};
use crate::store::{Op, Store};
use crate::token::Verifier;
use crate::witness::{self, Witnesses};

/// How many connections the metrics' own address has.
const SCRAPERS: usize = 32;

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
    /// The witnesses of its log, if it is a broker and has any.
    pub witnesses: Option<Arc<Witnesses>>,
    /// The certificate of the address it listens on, if it has one.
    pub tls: Option<Arc<ServerTls>>,
    reload: Arc<Notify>,
    rates: Arc<Rates>,
    admission: Arc<Admission>,
    tasks: TaskTracker,
    requests: Arc<Requests>,
    probe: Arc<Probe>,
    audit: Arc<AuditDesk>,
    metrics: Option<TcpListener>,
    printer: Option<HeadPrinter>,
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
                key_files_ok: AtomicBool::new(true),
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
        let proxy = parts.proxy.zip(parts.log).map(|((clients, keys), log)| {
            Proxy::new(proxy::Parts {
                store: store.clone(),
                clock: outside.clock.clone(),
                entropy: outside.entropy.clone(),
                backends: parts.backends.clone(),
                clients: Arc::new(clients),
                verifier: Arc::new(Verifier::new(keys, config.proxy_audience.clone())),
                log: Arc::new(log),
                settings: proxy::Settings {
                    audience: config.proxy_audience.clone(),
                    holder: config.proxy_name.clone(),
                    lease: config.lease,
                    require_receipt: config.require_receipt,
                },
                tasks: tasks.clone(),
            })
        });
        let witnesses = (!parts.witnesses.is_empty()).then(|| {
            Arc::new(Witnesses::new(witness::Parts {
                connected: parts.witnesses,
                settings: config.witnesses.clone(),
                store: store.clone(),
                clock: outside.clock.clone(),
                entropy: outside.entropy.clone(),
            }))
        });
        Self {
            config: config.clone(),
            part,
            outside,
            store,
            broker,
            proxy,
            witnesses,
            tls: parts.tls,
            reload: Arc::new(Notify::new()),
            rates: Arc::new(Rates::new(&config.limits)),
            admission: Arc::new(Admission::new(config.limits.calls)),
            tasks,
            requests: Arc::default(),
            probe: Arc::default(),
            audit: Arc::default(),
            metrics: None,
            printer: None,
        }
    }

    /// The process's routes.
    pub fn router(&self) -> Router {
        http::router(self.common(), self.broker.clone(), self.proxy.clone())
    }

    /// What the process's handlers share.
    #[must_use]
    pub fn common(&self) -> Common {
        Common::new(CommonParts {
            store: self.store.clone(),
            clock: self.outside.clock.clone(),
            entropy: self.outside.entropy.clone(),
            public_url: self.config.public_url.clone(),
            tls: self.tls.clone(),
            rates: self.rates.clone(),
            admission: self.admission.clone(),
            probe: self.probe.clone(),
            waiters: http::Waiters::default(),
            audit: self.audit.clone(),
            requests: self.requests.clone(),
        })
    }

    /// The address the process listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        match self.part {
            Part::All | Part::Broker => self.config.broker_listen,
            Part::Proxy => self.config.proxy_listen,
        }
    }

    /// The address the process tells its metrics at, if it does.
    #[must_use]
    pub const fn metrics_address(&self) -> Option<SocketAddr> {
        match self.part {
            Part::All | Part::Broker => self.config.broker_metrics,
            Part::Proxy => self.config.proxy_metrics,
        }
    }

    /// The same process, which also answers at `/metrics` of this listener while it serves.
    #[must_use]
    pub fn telling_at(self, listener: TcpListener) -> Self {
        Self {
            metrics: Some(listener),
            ..self
        }
    }

    /// The same process, which prints the log's heads to `out` while it serves, in the format of its log.
    #[must_use]
    pub fn printing_heads(self, out: impl std::io::Write + Send + 'static) -> Self {
        let printer = HeadPrinter::new(
            self.store.clone(),
            self.outside.clock.clone(),
            self.config.log_format,
            Box::new(out),
        );
        Self {
            printer: Some(printer),
            ..self
        }
    }

    /// The routes of the metrics' own address.
    pub fn metrics_router(&self) -> Router {
        let scrape = Scrape {
            store: self.store.clone(),
            clock: self.outside.clock.clone(),
            broker: self.broker.clone(),
            proxy: self.proxy.clone(),
            witnesses: self.witnesses.clone(),
            probe: self.probe.clone(),
            requests: self.requests.clone(),
            tls: self.tls.clone(),
        };
        scrape.router()
    }

    /// Whoever notifies it has the key and certificate files looked at now instead of within seconds.
    #[must_use]
    pub fn reload(&self) -> Arc<Notify> {
        self.reload.clone()
    }

    /// An operation of this process itself.
    fn own_op(&self) -> Op {
        Op {
            id: OperationId::generate(&*self.outside.clock, &*self.outside.entropy),
            actor: Actor::system(match self.part {
                Part::All => "broker and proxy",
                Part::Broker => "broker",
                Part::Proxy => "proxy",
            }),
            request: None,
        }
    }

    /// Writes down that this process begins to write to the log, and which policy it decides by.
    async fn note_start(&self) {
        self.note(Note::LogStarted).await;
        if let Some(broker) = &self.broker
            && let Err(error) = self.store.activate_policy(self.own_op(), broker.policy.reference().clone()).await
        {
            tracing::error!(%error, "which policy decides could not be written to the audit log");
        }
    }

    async fn note(&self, note: Note) {
        let op = self.own_op();
        let event = EventBody::new(EventKind::Note(note), op.actor.clone());
        if let Err(error) = self.store.note(op, event).await {
            tracing::error!(%error, event = note.as_str(), "the start or the end could not be written to the audit log");
        }
    }

    fn files(&self) -> Files {
        Files {
            keys: self.config.keys.clone(),
            log: log_files(&self.config),
            tls: self.tls.clone(),
            reload: self.reload.clone(),
        }
    }

    fn door(&self) -> Door {
        Door {
            limits: self.config.limits.clone(),
            tls: self.tls.clone(),
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
    pub async fn serve(mut self, listener: TcpListener, shutdown: CancellationToken) -> std::io::Result<()> {
        // What waits beside the store goes in before anything else is decided; what the store cannot do, readiness tells.
        drop(self.store.probe().await);
        self.note_start().await;
        if let Some(listener) = self.metrics.take() {
            let (router, shutdown) = (self.metrics_router(), shutdown.clone());
            let inside = Door {
                limits: inside(&self.config.limits),
                tls: None,
            };
            self.tasks
                .spawn(async move { listen::serve(listener, router, inside, &shutdown).await });
        }
        let (desk, end) = (self.audit.clone(), shutdown.clone());
        self.tasks.spawn(async move {
            end.cancelled().await;
            desk.close();
        });
        // It ends after everything else: the last head is over the event that says so.
        let silent = CancellationToken::new();
        let printing = self.printer.take().map(|printer| tokio::spawn(printer.keep(silent.clone())));
        let mut keeper = tokio::spawn(keep(
            self.store.clone(),
            self.broker.clone(),
            self.proxy.clone(),
            self.witnesses.clone(),
            self.files(),
            self.common(),
            shutdown.clone(),
        ));
        // Without sweeps nothing that was lost is found: a process whose housekeeping has died must not go on looking well.
        let mut serving = std::pin::pin!(listen::serve(listener, self.router(), self.door(), &shutdown));
        let kept = tokio::select! {
            () = &mut serving => None,
            kept = &mut keeper => Some(kept),
        };
        let died = kept.is_some() && !shutdown.is_cancelled();
        shutdown.cancel();
        match kept {
            Some(_) => serving.await,
            None => drop(keeper.await),
        }
        self.settle().await;
        http::note_all_refusals(&self.common()).await;
        http::note_all_reads(&self.common()).await;
        self.note(Note::LogStopped).await;
        silent.cancel();
        if let Some(printing) = printing {
            drop(printing.await);
        }
        if died {
            return Err(std::io::Error::other("the housekeeping task died; the log says why"));
        }
        Ok(())
    }
}

/// The metrics' own address serves a few who scrape it.
fn inside(limits: &Limits) -> Limits {
    Limits {
        connections: limits.connections.min(SCRAPERS),
        connections_per_address: limits.connections_per_address.min(SCRAPERS),
        ..limits.clone()
    }
}
