//! Housekeeping while a process serves: sweeps, and keys and certificates that were renewed meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::check::read_key_set;
use crate::broker::Broker;
use crate::edge::ServerTls;
use crate::http::{self, Common};
use crate::proxy::Proxy;
use crate::store::Store;
use crate::token::KeyRing;

/// How often the store says that it lives, and what time it is here. A process whose clock is behind another's finds out within this and the
/// tolerance, together less than the skew that tokens allow for.
const STORE_BEAT: Duration = Duration::from_secs(1);
/// How often executions that are due are looked for.
const PROXY_SWEEP: Duration = Duration::from_millis(200);
/// How often what is past its time is ended.
const BROKER_SWEEP: Duration = Duration::from_secs(2);
/// How often refusals that were only counted are looked for.
const REFUSAL_LOOK: Duration = Duration::from_secs(10);
/// How often the key and certificate files are looked at.
const FILE_LOOK: Duration = Duration::from_secs(5);

/// The files that are looked at now and then, and whoever wants it done now.
pub(super) struct Files {
    pub(super) keys: PathBuf,
    pub(super) tls: Option<Arc<ServerTls>>,
    pub(super) reload: Arc<Notify>,
}

/// Housekeeping: sweeps, and keys and certificates that were renewed while the process runs. Each at its own pace, so that one that is slow delays no other.
pub(super) async fn keep(
    store: Arc<dyn Store>,
    broker: Option<Arc<Broker>>,
    proxy: Option<Proxy>,
    files: Files,
    common: Common,
    shutdown: CancellationToken,
) {
    tokio::join!(
        keep_store(store, shutdown.clone()),
        keep_executions(proxy.clone(), shutdown.clone()),
        keep_drafts(broker.clone(), shutdown.clone()),
        keep_refusals(common, shutdown.clone()),
        keep_files(broker, proxy, files, shutdown),
    );
}

async fn keep_store(store: Arc<dyn Store>, shutdown: CancellationToken) {
    let mut turn = pace(STORE_BEAT);
    let mut was_well = true;
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        let beat = store.probe().await;
        if let Err(error) = &beat
            && was_well
        {
            tracing::error!(%error, "the store does not commit; it is tried again every second, and readiness says how it stands");
        }
        if beat.is_ok() && !was_well {
            tracing::info!("the store commits again");
        }
        was_well = beat.is_ok();
    }
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

async fn keep_refusals(common: Common, shutdown: CancellationToken) {
    let mut turn = pace(REFUSAL_LOOK);
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        http::note_refusals(&common).await;
    }
}

async fn keep_files(broker: Option<Arc<Broker>>, proxy: Option<Proxy>, files: Files, shutdown: CancellationToken) {
    let mut turn = pace(FILE_LOOK);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = turn.tick() => {}
            () = files.reload.notified() => tracing::info!("the key and certificate files are looked at, as was asked"),
        }
        reload_keys(broker.as_deref(), proxy.as_ref(), &files.keys);
        if let Some(tls) = &files.tls {
            tls.look();
        }
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
            Err(error) => {
                tracing::error!(%error, "the key files cannot be read; the keys in use stay");
                broker.key_files_unreadable();
            }
        }
    }
    if let Some(proxy) = proxy {
        match read_key_set(dir) {
            Ok(set) => proxy.verifier.replace_keys(set),
            Err(error) => tracing::error!(error, "the public keys cannot be read; the keys in use stay"),
        }
    }
}
