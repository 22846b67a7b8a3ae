//! What guarantees are tried on.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use tokio::sync::OnceCell;

use super::ambiguity;
use super::deployment::Deployment;
use super::log;
use super::outcome::Amiss;
use super::private::Private;
use crate::audit::SignedHead;

/// The live deployment, and a private one that is started when the first guarantee asks for it.
pub(super) struct Ground {
    pub(super) live: Deployment,
    /// Where throw-away directories are made.
    pub(super) parent: PathBuf,
    /// Whether faults may be queued at the sandbox.
    pub(super) faulted: AtomicBool,
    private: OnceCell<Private>,
    first: OnceCell<Result<SignedHead, Amiss>>,
}

impl Ground {
    pub(super) fn new(live: Deployment, parent: PathBuf) -> Self {
        Self {
            live,
            parent,
            faulted: AtomicBool::new(false),
            private: OnceCell::new(),
            first: OnceCell::new(),
        }
    }

    /// Keeps the checkpoint that the live log has before anything is tried.
    pub(super) async fn begin(&self) {
        self.first.get_or_init(|| log::head(&self.live)).await;
    }

    /// The live log's checkpoint from the beginning of the run.
    pub(super) fn first_head(&self) -> Result<&SignedHead, Amiss> {
        match self.first.get() {
            Some(Ok(head)) => Ok(head),
            Some(Err(amiss)) => Err(amiss.clone()),
            None => Err(Amiss::Unclear("no checkpoint was kept when the run began".to_owned())),
        }
    }

    /// The private deployment.
    pub(super) async fn private(&self) -> Result<&Private, Amiss> {
        self.private
            .get_or_try_init(|| Private::start(&self.live.outside, &self.parent))
            .await
            .map_err(|error| Amiss::Unclear(format!("no private deployment could be started: {error}")))
    }

    /// Withdraws what is open, and stops what was started.
    pub(super) async fn leave(self) {
        ambiguity::tidy(&self).await;
        self.live.tidy().await;
        if let Some(private) = self.private.into_inner() {
            private.stop().await;
        }
    }
}
