//! Alive, and ready: two questions with two answers.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::problem::ProblemBody;
use super::{Code, Common, Problem};
use crate::broker::Broker;
use crate::edge::Standing;
use crate::proxy::Proxy;
use crate::store::health::{ClockState, FileState, WitnessState};
use crate::store::{Store, StoreError};

/// Whether the store commits. To find out is a write: anybody may ask, and only so many are made.
#[derive(Debug)]
pub struct Probe(Mutex<Probed>);

#[derive(Debug)]
struct Probed {
    /// When the next one may be made that is not among the first few.
    full_at: Instant,
    last: Result<(), DoesNotCommit>,
}

/// The store did not commit when it was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store does not commit")]
pub struct DoesNotCommit;

/// So many probes at once, and then one in [`PROBE_EVERY`].
const PROBES: u32 = 5;
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long one may take: a disk that hangs does not commit.
const PROBE_TIME: Duration = Duration::from_secs(2);

impl Default for Probe {
    fn default() -> Self {
        Self(Mutex::new(Probed {
            full_at: Instant::now(),
            last: Ok(()),
        }))
    }
}

impl Probe {
    /// Whether it commits, or did so within the last second.
    ///
    /// # Errors
    /// The store does not commit; why is in the log, once for each probe.
    pub async fn ask(&self, store: &dyn Store) -> Result<(), DoesNotCommit> {
        self.ask_by(store.probe()).await
    }

    async fn ask_by(&self, probe: impl Future<Output = Result<(), StoreError>>) -> Result<(), DoesNotCommit> {
        // Whoever comes meanwhile waits for the same answer.
        let mut probed = self.0.lock().await;
        let full_at = probed.full_at.max(Instant::now()) + PROBE_EVERY;
        if full_at <= Instant::now() + PROBE_EVERY * PROBES {
            probed.full_at = full_at;
            probed.last = match tokio::time::timeout(PROBE_TIME, probe).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    tracing::error!(%error, "the store cannot commit");
                    Err(DoesNotCommit)
                }
                Err(_) => {
                    tracing::error!("the store did not commit within {} s", PROBE_TIME.as_secs());
                    Err(DoesNotCommit)
                }
            };
        }
        probed.last
    }
}

/// What readiness looks at.
#[derive(Clone)]
pub(super) struct Checked {
    pub(super) common: Common,
    pub(super) broker: Option<Arc<Broker>>,
    pub(super) proxy: Option<Proxy>,
}

/// One check and how it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Check {
    /// What was checked.
    name: &'static str,
    /// `ok`, or what is wrong.
    status: String,
    /// What an operator must see to although it is `ok` for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

impl Check {
    const fn new(name: &'static str, status: String) -> Self {
        Self {
            name,
            status,
            warning: None,
        }
    }
}

/// How the process stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StatusView {
    /// `ok`.
    status: &'static str,
    /// Each check.
    checks: Vec<Check>,
}

/// The process runs.
#[utoipa::path(get, path = "/healthz", tag = "status", responses((status = 200, description = "the process runs", body = StatusView)))]
pub(super) async fn healthz() -> axum::Json<StatusView> {
    axum::Json(StatusView {
        status: "ok",
        checks: Vec::new(),
    })
}

/// The process can do its work: the store commits, and a key may sign.
#[utoipa::path(
    get, path = "/readyz", tag = "status",
    responses(
        (status = 200, description = "ready", body = StatusView),
        (status = 503, description = "not ready, with what is wrong", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn readyz(Extension(checked): Extension<Checked>) -> Response {
    let mut checks = Vec::new();
    let ok = || "ok".to_owned();
    let probed = checked.common.probe.ask(&*checked.common.store).await;
    let health = checked.common.store.health();
    let store = match (probed, &health.file) {
        (Ok(()), FileState::Sound) => ok(),
        (_, FileState::Failed(trouble)) => trouble.to_string(),
        (Err(DoesNotCommit), FileState::Sound) => "it cannot commit; the log says why".to_owned(),
    };
    let clock = match health.clock {
        ClockState::Steady => ok(),
        ClockState::Behind { now, latest } => {
            format!(
                "says {now}, and the store holds times up to {latest}; nothing new begins until then: correct the clock, or see `writ store accept-clock --help`"
            )
        }
    };
    let disk = if health.disk.is_low() {
        "little room is left; no drafts and no credentials are taken: make room".to_owned()
    } else {
        ok()
    };
    let log = if health.log.is_kept() {
        ok()
    } else {
        "its head cannot be written outside the database; nothing new begins: look at the file that `[audit] head` names".to_owned()
    };
    for (name, status) in [("store", store), ("clock", clock), ("disk", disk), ("log", log)] {
        checks.push(Check::new(name, status));
    }
    let now = checked.common.clock.now();
    if health.witnesses != WitnessState::NotRequired {
        let status = match health.witnesses.pause(now) {
            Some(pause) => format!("{pause}; look at the witnesses that `[audit]` names"),
            None => ok(),
        };
        checks.push(Check::new("witnesses", status));
    }
    if let Some(broker) = &checked.broker {
        let signing = broker.signing_keys();
        let status = match signing.signing(now) {
            Err(error) => error.to_string(),
            Ok(_) if !broker.key_files_ok() => "the key files cannot be read; the log says why".to_owned(),
            Ok(_) => ok(),
        };
        checks.push(Check::new("signing_key", status));
    }
    if let Some(proxy) = &checked.proxy {
        let known = proxy
            .verifier
            .keys()
            .iter()
            .any(|(_, key)| key.not_before <= now && key.not_after.is_none_or(|end| now < end));
        let status = if known {
            ok()
        } else {
            "no root key is valid now; rotate the keys".to_owned()
        };
        checks.push(Check::new("verifying_key", status));
    }
    if let Some(tls) = &checked.common.tls {
        let (status, warning) = match tls.standing(now) {
            Standing::Good => (ok(), None),
            // The old pair serves as well as before: taking the process out of service would only make it worse.
            Standing::Refused => (
                ok(),
                Some("the certificate files are refused and what was read before goes on; the log says why"),
            ),
            Standing::Expired => ("the certificate has expired; renew it".to_owned(), None),
        };
        checks.push(Check {
            warning,
            ..Check::new("tls", status)
        });
    }
    let wrong: Vec<String> = checks
        .iter()
        .filter(|c| c.status != "ok")
        .map(|c| format!("{}: {}", c.name, c.status))
        .collect();
    if wrong.is_empty() {
        axum::Json(StatusView { status: "ok", checks }).into_response()
    } else {
        Problem::new(Code::NotReady, wrong.join("; ")).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_does_not_commit_and_keeps_nobody_waiting() {
        let (probe, begun) = (Probe::default(), Instant::now());
        let hangs = || probe.ask_by(std::future::pending());
        let (one, other) = tokio::join!(hangs(), hangs());
        assert_eq!((one, other), (Err(DoesNotCommit), Err(DoesNotCommit)));
        assert!(begun.elapsed() <= PROBE_TIME * 2, "{:?}", begun.elapsed());
        tokio::time::advance(PROBE_EVERY * PROBES).await;
        assert_eq!(probe.ask_by(std::future::ready(Ok(()))).await, Ok(()));
    }
}
