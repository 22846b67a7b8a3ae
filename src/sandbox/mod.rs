//! The demo's payments and orders backend: a real HTTP server on loopback, Stripe-shaped, with scripted faults.
//!
//! It holds no real money and listens on 127.0.0.1 only. Its books live in memory and are gone when it stops.

mod answer;
mod control;
mod endpoint;
mod event;
mod fault;
mod idempotency;
mod lie;
mod payments;
mod seen;
mod server;
mod shop;
mod wire;
mod world;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::domain::clock::{Clock, Entropy};
use crate::domain::secret::Secret;

pub use event::event_signature;
pub use fault::{Fault, FaultKind, FaultMatch};
pub use payments::{Refund, RefundStatus};
pub use seen::{KeyUsed, SeenRequest};
pub use world::demo;

pub use server::Witness;

use server::Shared;

/// How long a key is remembered unless the configuration says otherwise: 24 hours, as the payment provider it imitates.
pub const IDEMPOTENCY_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// What a sandbox is started with.
pub struct SandboxConfig {
    /// The TCP port on 127.0.0.1; 0 picks a free one.
    pub port: u16,
    /// The key that may only read.
    pub read_key: Secret,
    /// The key that may read and write.
    pub write_key: Secret,
    /// The secret under which the desk signs events; without one it signs none.
    pub webhook_secret: Option<Secret>,
    /// How long an idempotency key replays its first answer; after that the same key runs anew.
    pub idempotency_window: Duration,
    /// Where `created` times and the age of keys come from.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub entropy: Arc<dyn Entropy>,
}

impl SandboxConfig {
    /// A free port, fresh keys, and the usual window.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let key = |prefix: &str| Secret::new(world::fresh_id(entropy.as_ref(), prefix));
        Self {
            port: 0,
            read_key: key("rk_sandbox"),
            write_key: key("sk_sandbox"),
            webhook_secret: None,
            idempotency_window: IDEMPOTENCY_WINDOW,
            clock,
            entropy,
        }
    }
}

/// The sandbox before it runs.
pub struct Sandbox;

impl Sandbox {
    /// Binds the port and serves the demo's data until [`RunningSandbox::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// The operating system's error when the port cannot be bound.
    pub async fn start(config: SandboxConfig) -> io::Result<RunningSandbox> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, config.port))).await?;
        let address = listener.local_addr()?;
        let closing = CancellationToken::new();
        let shared = Arc::new(Shared::new(config, closing.clone()));
        let tasks = TaskTracker::new();
        tasks.spawn(server::serve(listener, Arc::clone(&shared), tasks.clone()));
        tasks.close();
        Ok(RunningSandbox {
            url: format!("http://{address}"),
            shared,
            tasks,
            _stop: closing.drop_guard(),
        })
    }
}

/// A sandbox that answers. Stops when dropped.
pub struct RunningSandbox {
    /// Where it answers, such as `http://127.0.0.1:40123`; no trailing slash.
    pub url: String,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    _stop: DropGuard,
}

impl RunningSandbox {
    /// The key that may only read.
    #[must_use]
    pub fn read_key(&self) -> &Secret {
        &self.shared.read_key
    }

    /// The key that may read and write.
    #[must_use]
    pub fn write_key(&self) -> &Secret {
        &self.shared.write_key
    }

    /// Every request that was seen on the wire, oldest first, apart from those to `/_sandbox/`.
    #[must_use]
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.shared.world().seen.all().to_vec()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The refunds of a charge, newest first.
    #[must_use]
    pub fn refunds(&self, charge: &str) -> Vec<Refund> {
        self.shared.world().payments.refunds_of(charge)
    }

    /// The version of a customer's record and the record itself, as `GET /customers/{id}` shows them.
    #[must_use]
    pub fn customer(&self, id: &str) -> Option<(u64, serde_json::Value)> {
        self.shared.world().shop.customer(id)
    }

    /// Sets who looks at every request when it has arrived and before anything is done about it; only the first one set counts.
    pub fn witness(&self, witness: Witness) {
        let _is_first = self.shared.witness.set(witness).is_ok();
    }

    /// Queues a fault behind those already queued.
    pub fn fault(&self, fault: Fault) {
        self.shared.world().faults.push(fault);
    }

    /// Forgets the faults that are still to come.
    pub fn clear_faults(&self) {
        self.shared.world().faults.clear();
    }

    /// Lets every held request go on, and returns how many there were. See [`FaultKind::Hold`].
    #[must_use = "how many requests were waiting"]
    pub fn release(&self) -> usize {
        self.shared.release()
    }

    /// Waits until at least `count` requests are held. See [`FaultKind::Hold`].
    pub async fn held(&self, count: usize) {
        self.shared.held(count).await;
    }

    /// Changes the status of a refund later on, as the provider does when a bank answers; `false` if there is no such refund.
    #[must_use = "whether there was such a refund"]
    pub fn settle(&self, refund: &str, status: RefundStatus) -> bool {
        self.shared.world().payments.settle(refund, status)
    }

    /// What the provider tells of a refund as it stands: the bytes of an event of this type; `None` if there is no such refund. See
    /// [`event_signature`].
    #[must_use]
    pub fn event(&self, kind: &str, refund: &str) -> Option<String> {
        self.shared.event(kind, refund)
    }

    /// Stops accepting, cuts every open connection, and waits until all of them are gone.
    pub async fn shutdown(self) {
        let Self { tasks, _stop, .. } = self;
        drop(_stop);
        tasks.wait().await;
    }
}
