//! Do it, at most once: redeem, dispatch, settle, reconcile, sweep. The proxy holds the secrets that can execute and public keys only.

mod dispatch;
mod handoff;
mod logged;
mod look;
mod proof;
mod read;
mod reconcile;
mod redeem;
mod resolve;
mod settle;
mod sweep;
mod told;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

pub use handoff::{Action, LookFor, Reason, actions, look_for};
pub use logged::{LogTrust, Logged, NotLogged};
pub use read::{ReadDenied, ReadRequest, ReadResult};
pub use redeem::{Denied, ExecuteError, ExecuteRequest, Fault, Subject};
pub use resolve::{MAX_EVIDENCE_CHARS, ResolveError, resolve};
pub use told::{EventDenied, Taken, Teller};

use crate::audit::{Actor, EventBody};
use crate::backend::{Backends, Clients, Operation, Replay};
use crate::domain::clock::{Clock, Entropy};
use crate::domain::draft::DraftDocument;
use crate::domain::id::{DraftId, OperationId, RequestId};
use crate::domain::name::Audience;
use crate::domain::secret::SecretsMark;
use crate::store::record::ExecutionRecord;
use crate::store::{Applied, Op, PATIENCE, Store, StoreError, insist};
use crate::token::Verifier;

/// What the proxy is called, and how long it may hold what it took.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The audience of the credentials it takes.
    pub audience: Audience,
    /// Its own name, written beside each lease.
    pub holder: String,
    /// How long nobody else takes over an execution after its last sign of life; longer than the longest backend time-out.
    pub lease: Duration,
    /// Whether whoever brings a credential must show the receipt of its issue too.
    pub require_receipt: bool,
}

/// Everything the proxy works with. Cheap to clone; the clones share.
#[derive(Clone)]
pub struct Proxy(Arc<Parts>);

/// The parts of a proxy.
pub struct Parts {
    /// Where state is kept.
    pub store: Arc<dyn Store>,
    /// Now.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// The declared operations.
    pub backends: Arc<Backends>,
    /// Sends and reads, with the proxy's secrets.
    pub clients: Arc<Clients>,
    /// Verifies credentials, offline.
    pub verifier: Arc<Verifier>,
    /// Under which keys the log is believed.
    pub log: Arc<LogTrust>,
    /// Names and times.
    pub settings: Settings,
    /// Work past the redeem; shutdown waits for it.
    pub tasks: TaskTracker,
}

impl std::ops::Deref for Proxy {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Proxy {
    /// A proxy of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Parts {
    fn actor(&self) -> Actor {
        Actor::system(&format!("proxy:{}", self.settings.holder))
    }

    fn op(&self, request: Option<RequestId>) -> Op {
        Op {
            id: OperationId::generate(&*self.clock, &*self.entropy),
            actor: self.actor(),
            request,
        }
    }

    /// Writes a denial or a read down.
    async fn note(&self, request: RequestId, event: EventBody) -> Result<(), StoreError> {
        let op = Op {
            actor: event.actor.clone(),
            ..self.op(Some(request))
        };
        let event = EventBody {
            request_id: Some(request),
            ..event
        };
        let noted = self.store.note(op, event).await;
        if let Err(error) = &noted {
            tracing::error!(%error, "an event could not be written to the audit log");
        }
        noted.map(|_| ())
    }

    /// The stored document and its operation, if the bytes still hash to the execution's hash and the adapter is the one that compiled them.
    async fn plan(&self, execution: &ExecutionRecord) -> Result<Plan<'_>, PlanError> {
        let document = self.document(execution.draft, execution).await?;
        let operation = self.backends.operation(&execution.operation).ok_or(PlanError::AdapterChanged)?;
        if document.adapter != *operation.backend().adapter() {
            return Err(PlanError::AdapterChanged);
        }
        let client = self.clients.of(operation.backend().name()).ok_or(PlanError::AdapterChanged)?;
        Ok(Plan {
            document,
            operation,
            secrets: client.secrets_mark(),
        })
    }

    async fn document(&self, draft: DraftId, execution: &ExecutionRecord) -> Result<DraftDocument, PlanError> {
        let corrupt = |why: String| PlanError::Store(StoreError::Corrupt(why));
        let bytes = self
            .store
            .draft_bytes(draft)
            .await?
            .ok_or_else(|| corrupt(format!("draft {draft} has no bytes")))?;
        if crate::domain::digest::DraftHash::of_canonical(&bytes) != execution.hash {
            return Err(corrupt(format!("the bytes of draft {draft} do not hash to its hash")));
        }
        DraftDocument::parse(&bytes).map_err(|error| corrupt(format!("draft {draft}: {error}")))
    }

    /// A transition, repeated until the store says what became of it.
    async fn surely<T, F>(&self, run: impl Fn(Op) -> F) -> Result<Applied<T>, StoreError>
    where
        F: Future<Output = Result<Applied<T>, StoreError>>,
    {
        self.insist(PATIENCE, run).await
    }

    /// As [`Parts::surely`], for about as long as `patience`.
    async fn insist<T, F>(&self, patience: Duration, run: impl Fn(Op) -> F) -> Result<Applied<T>, StoreError>
    where
        F: Future<Output = Result<Applied<T>, StoreError>>,
    {
        insist(patience, self.op(None), run).await
    }
}

/// A draft's document with the operation that reads its answers.
struct Plan<'a> {
    document: DraftDocument,
    operation: &'a Operation,
    /// The secrets that this process would send and look up with.
    secrets: SecretsMark,
}

impl Plan<'_> {
    /// From the first send to the moment nothing may be sent any more; zero where the backend recognises no key.
    fn send_window(&self) -> Duration {
        let window = self.operation.window().filter(|w| w.replay != Replay::Never);
        window.map_or(Duration::ZERO, |w| w.window.saturating_sub(w.safety))
    }
}

/// Why an execution cannot go on here.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    /// The adapter file is not the one that compiled the request: other rules, other address, other credential.
    #[error("the backend's adapter file has changed since the draft was made")]
    AdapterChanged,
    /// The store did not give what is needed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
