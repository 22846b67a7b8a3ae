//! May this be done? Propose, decide, review, issue, retire. The broker reads facts and signs; it holds no secret that could execute.

mod decide;
mod details;
mod issue;
mod propose;
mod recheck;
mod retire;
mod review;
mod revoke;
mod stop;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

pub use decide::DecideError;
pub use issue::{ExchangeError, ExchangeRequest, Issued, SubjectToken};
pub use propose::{ProposeError, ProposeRequest};
pub use retire::WithdrawError;
pub use review::{AcceptError, Accepted};
pub use revoke::{Introspection, RevokeApprovalError, TokenCallError};
pub use stop::{StopError, StopRequest};

use crate::approval::RecordSigner;
use crate::audit::{Actor, ActorKind, EventBody};
use crate::backend::{Answer, Backends, Clients, Credential, ReadError, ReadPlan};
use crate::domain::clock::{Clock, Entropy, random};
use crate::domain::id::{OperationId, RequestId};
use crate::domain::name::{Audience, PrincipalId};
use crate::domain::principal::Client;
use crate::policy::Policy;
use crate::store::{Op, Store};
use crate::token::KeyRing;

/// How long things last, and what the broker is called.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The broker's own name: the audience of approval records.
    pub audience: Audience,
    /// The audiences credentials are issued for: one per set of proxies that share a store.
    pub proxies: Vec<Audience>,
    /// From storing a draft to the moment it can no longer be approved or executed.
    pub draft_lifetime: Duration,
    /// From asking people to the moment their card closes.
    pub card_lifetime: Duration,
    /// From the last signature to the moment the grant can no longer be used.
    pub execution_window: Duration,
    /// The approver in whose name the policy signs what it allows.
    pub policy_approver: PrincipalId,
}

/// Everything the broker works with.
pub struct Broker {
    /// Where state is kept.
    pub store: Arc<dyn Store>,
    /// Now.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// The policy in force.
    pub policy: Arc<Policy>,
    /// The declared operations.
    pub backends: Arc<Backends>,
    /// Reads facts, with the broker's read secrets.
    pub facts: Arc<Clients>,
    /// Signs what the policy allows.
    pub rule_signer: Arc<RecordSigner>,
    /// Signs credentials; replaced when the files change.
    pub keys: RwLock<Arc<KeyRing>>,
    /// Whether the key files could be read when they were last looked at.
    pub key_files_ok: AtomicBool,
    /// Lifetimes and names.
    pub settings: Settings,
}

/// Who calls, and in which request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The authenticated client.
    pub client: Client,
    /// The request.
    pub request: RequestId,
}

impl Caller {
    /// The caller as an event names it.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::new(ActorKind::Client, self.client.id.as_str())
    }
}

impl Broker {
    /// The keys in use.
    #[must_use]
    pub fn signing_keys(&self) -> Arc<KeyRing> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other keys in their place, from the next credential on.
    pub fn replace_keys(&self, keys: KeyRing) {
        self.key_files_ok.store(true, Ordering::Relaxed);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// The key files could not be read: the keys in use stay, and the process says that it is not ready, before a rotation it has not seen
    /// ends them.
    pub fn key_files_unreadable(&self) {
        self.key_files_ok.store(false, Ordering::Relaxed);
    }

    /// Whether the key files could be read when they were last looked at.
    #[must_use]
    pub fn key_files_ok(&self) -> bool {
        self.key_files_ok.load(Ordering::Relaxed)
    }

    /// One read of facts, with the broker's own secret.
    async fn look(&self, plan: &ReadPlan) -> Result<Answer, ReadError> {
        self.facts.read(plan, Credential::Facts).await
    }

    /// A fresh operation by `actor`.
    fn op(&self, actor: Actor, request: Option<RequestId>) -> Op {
        Op {
            id: OperationId::generate(&*self.clock, &*self.entropy),
            actor,
            request,
        }
    }

    /// A fresh operation by the caller.
    fn op_of(&self, caller: &Caller) -> Op {
        self.op(caller.actor(), Some(caller.request))
    }

    /// 16 random bytes in base64url.
    fn nonce(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random::<16>(&*self.entropy))
    }

    /// Writes a denial down. That it could not be written is logged: the denial stands all the same.
    async fn note_denial(&self, caller: &Caller, event: EventBody) {
        let event = EventBody {
            request_id: Some(caller.request),
            tenant: event.tenant.or_else(|| Some(caller.client.tenant.clone())),
            ..event
        };
        if let Err(error) = self.store.note(self.op_of(caller), event).await {
            tracing::error!(request.id = %caller.request, %error, "a denial could not be written to the audit log");
        }
    }
}
