//! A throw-away deployment of this very program, with its own sandbox, store, keys and clock: for what would harm a live one.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::deployment::Deployment;
use super::settings::Settings;
use crate::app::{App, Outside, Part};
use crate::config::Config;
use crate::domain::clock::Clock;
use crate::domain::time::Timestamp;
use crate::sandbox::{RunningSandbox, Sandbox, SandboxConfig};
use crate::setup::{self, Approvers, Options, TempDir};

/// The audience of its second proxy.
const ELSEWHERE: &str = "urn:writ:proxy:elsewhere";

/// The machine's clock and an offset.
struct MovedClock {
    machine: Arc<dyn Clock>,
    offset: AtomicI64,
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.machine.now().millis().saturating_add(self.offset.load(Ordering::SeqCst)))
    }
}

/// The processes' part of it, which can be stopped and started again on the same store.
struct Serving {
    stop: CancellationToken,
    servers: Vec<JoinHandle<std::io::Result<()>>>,
}

/// A deployment that nobody else knows of.
pub(super) struct Private {
    deployment: Deployment,
    clock: Arc<MovedClock>,
    config: Config,
    elsewhere: String,
    serving: Mutex<Option<Serving>>,
    sandbox: RunningSandbox,
    // The last field, so that it is dropped when everything that writes into it is gone.
    dir: TempDir,
}

impl Private {
    /// Starts it below a directory of its own in `parent`.
    pub(super) async fn start(outside: &Outside, parent: &Path) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let clock = Arc::new(MovedClock {
            machine: Arc::clone(&outside.clock),
            offset: AtomicI64::new(0),
        });
        let outside = Outside {
            clock: clock.clone(),
            entropy: Arc::clone(&outside.entropy),
        };
        let dir = TempDir::new(parent, "prove", &*outside.entropy).map_err(|error| told(&error))?;
        let sandbox = Sandbox::start(SandboxConfig::new(outside.clock.clone(), outside.entropy.clone()));
        let sandbox = sandbox.await.map_err(|error| told(&error))?;
        let (listener, listen) = loopback().await?;
        let (annex, annex_listen) = loopback().await?;
        let options = Options {
            dir: dir.path().join("writ"),
            broker_listen: listen,
            proxy_listen: annex_listen.clone(),
            public_url: None,
            audience: None,
            endpoints: setup::sandbox_endpoints(&sandbox.url, sandbox.read_key(), sandbox.write_key()),
            approvers: Approvers::Examples,
        };
        let made = setup::create(&options, &outside).await.map_err(|error| told(&error))?;
        let config = Config::load(&made.config).map_err(|error| told(&error))?;
        let settings = made.prover.ok_or("its set-up made no prover")?;
        let settings = Settings::load(&settings).map_err(|error| told(&error))?;
        let deployment = Deployment::new(settings, outside)?;
        let private = Self {
            deployment,
            clock,
            config,
            elsewhere: format!("http://{annex_listen}"),
            serving: Mutex::new(None),
            sandbox,
            dir,
        };
        private.serve(listener, annex)?;
        Ok(private)
    }

    fn serve(&self, listener: TcpListener, annex: TcpListener) -> Result<(), String> {
        let outside = &self.deployment.outside;
        let app = App::assemble(&self.config, Part::All, outside.clone(), &|_| None).map_err(|error| error.to_string())?;
        let elsewhere = Config {
            proxy_audience: ELSEWHERE
                .parse()
                .map_err(|error: crate::domain::name::NameError| error.to_string())?,
            proxy_name: "proxy-elsewhere".to_owned(),
            ..self.config.clone()
        };
        let other = App::on(app.store.clone(), &elsewhere, Part::Proxy, outside.clone(), &|_| None).map_err(|error| error.to_string())?;
        let stop = CancellationToken::new();
        let servers = vec![
            tokio::spawn(app.serve(listener, stop.clone())),
            tokio::spawn(other.serve(annex, stop.clone())),
        ];
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(Serving { stop, servers });
        Ok(())
    }

    /// The deployment.
    pub(super) const fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Its configuration.
    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// A directory that is gone when it is.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The URL of a proxy on the same store that answers to another audience.
    pub(super) fn elsewhere(&self) -> &str {
        &self.elsewhere
    }

    /// Puts its clock so far behind the machine's.
    pub(super) fn set_clock_back(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.clock.offset.store(-millis, Ordering::SeqCst);
    }

    async fn end(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Serving { stop, servers }) = serving {
            stop.cancel();
            for server in servers {
                if !matches!(server.await, Ok(Ok(()))) {
                    tracing::warn!("a private deployment did not end as it should");
                }
            }
        }
    }

    /// Stops its processes, lets `change` edit its directory, and starts them again at the same addresses.
    pub(super) async fn restarted(&self, change: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        self.end().await;
        change(&self.dir.path().join("writ"))?;
        let bind = async |url: &str| {
            let address = url.trim_start_matches("http://").to_owned();
            TcpListener::bind(&address).await.map_err(|error| format!("{address}: {error}"))
        };
        let listener = bind(&self.deployment.settings.broker).await?;
        let annex = bind(&self.elsewhere).await?;
        self.serve(listener, annex)
    }

    /// Stops everything and removes the directory.
    pub(super) async fn stop(self) {
        self.end().await;
        self.sandbox.shutdown().await;
    }
}

async fn loopback() -> Result<(TcpListener, String), String> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|error| format!("no port on 127.0.0.1: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok((listener, address.to_string()))
}
