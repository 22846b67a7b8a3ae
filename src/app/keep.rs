//! Housekeeping while a process serves: sweeps, and keys and certificates that were renewed meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::check::read_key_set;
use crate::audit::{EventKind, LogFiles};
use crate::broker::Broker;
use crate::domain::lifecycle::CredentialTransition;
use crate::edge::ServerTls;
use crate::http::{self, Common};
use crate::proxy::{LogTrust, Proxy};
use crate::store::Store;
use crate::token::KeyRing;
use crate::witness::Witnesses;

/// How often the store says that it lives, and what time it is here. A process whose clock is behind another's finds out within this and the
/// tolerance, together less than the skew that tokens allow for.
const STORE_BEAT: Duration = Duration::from_secs(1);
/// How often executions that are due are looked for.
const PROXY_SWEEP: Duration = Duration::from_millis(200);
/// How often what is past its time is ended.
const BROKER_SWEEP: Duration = Duration::from_secs(2);
/// How often refusals and reads that were only counted are looked for.
const COUNT_LOOK: Duration = Duration::from_secs(10);
/// How often the key and certificate files are looked at.
const FILE_LOOK: Duration = Duration::from_secs(5);

/// How often witnesses are shown the log's head, if nothing is issued.
const WITNESS_LOOK: Duration = Duration::from_secs(10);
/// The shortest time between two such looks, however much is issued.
const WITNESS_PACE: Duration = Duration::from_secs(1);

/// The files that are looked at now and then, and whoever wants it done now.
pub(super) struct Files {
    pub(super) keys: PathBuf,
    /// The log's public keys.
    pub(super) log: LogFiles,
    pub(super) tls: Option<Arc<ServerTls>>,
    pub(super) reload: Arc<Notify>,
}

/// Housekeeping: sweeps, and keys and certificates that were renewed while the process runs. Each at its own pace, so that one that is slow delays no other.
pub(super) async fn keep(
    store: Arc<dyn Store>,
    broker: Option<Arc<Broker>>,
    proxy: Option<Proxy>,
    witnesses: Option<Arc<Witnesses>>,
    files: Files,
    common: Common,
    shutdown: CancellationToken,
) {
    tokio::join!(
        keep_store(store.clone(), shutdown.clone()),
        keep_witnesses(witnesses, store, shutdown.clone()),
        keep_executions(proxy.clone(), shutdown.clone()),
        keep_drafts(broker.clone(), shutdown.clone()),
        keep_counts(common, shutdown.clone()),
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
    let mut told = Told::default();
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        match proxy.sweep().await {
            Err(error) if told.fails() => {
                tracing::error!(%error, "the sweep of executions fails; it is tried again, and told when it goes on");
            }
            Ok(_) if told.goes_on() => tracing::info!("the sweep of executions goes on"),
            _ => {}
        }
    }
}

async fn keep_drafts(broker: Option<Arc<Broker>>, shutdown: CancellationToken) {
    let Some(broker) = broker else { return };
    let mut turn = pace(BROKER_SWEEP);
    let mut told = Told::default();
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        match broker.sweep().await {
            Err(error) if told.fails() => {
                tracing::error!(%error, "the sweep of drafts fails; it is tried again, and told when it goes on");
            }
            Ok(_) if told.goes_on() => tracing::info!("the sweep of drafts goes on"),
            _ => {}
        }
    }
}

async fn keep_counts(common: Common, shutdown: CancellationToken) {
    let mut turn = pace(COUNT_LOOK);
    while shutdown.run_until_cancelled(turn.tick()).await.is_some() {
        http::note_refusals(&common).await;
        http::note_reads(&common).await;
    }
}

/// Every ten seconds, and at once after a credential was issued.
async fn keep_witnesses(witnesses: Option<Arc<Witnesses>>, store: Arc<dyn Store>, shutdown: CancellationToken) {
    let Some(witnesses) = witnesses else { return };
    let (mut turn, mut changes, tally) = (pace(WITNESS_LOOK), store.changes(), store.tally());
    let issued = || tally.count_of(EventKind::Credential(CredentialTransition::Issue));
    let mut shown = issued();
    loop {
        let due = async {
            loop {
                tokio::select! {
                    _ = turn.tick() => return,
                    changed = changes.changed() => match changed {
                        Ok(()) if issued() == shown => {}
                        Ok(()) => return,
                        // The store is gone, and with it what could be issued.
                        Err(_) => std::future::pending().await,
                    },
                }
            }
        };
        if shutdown.run_until_cancelled(due).await.is_none() {
            return;
        }
        shown = issued();
        let look = async {
            witnesses.round().await;
            tokio::time::sleep(WITNESS_PACE).await;
        };
        if shutdown.run_until_cancelled(look).await.is_none() {
            return;
        }
    }
}

async fn keep_files(broker: Option<Arc<Broker>>, proxy: Option<Proxy>, files: Files, shutdown: CancellationToken) {
    let mut turn = pace(FILE_LOOK);
    let mut told = (Told::default(), Told::default());
    let mut log_told = Told::default();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = turn.tick() => {}
            () = files.reload.notified() => tracing::info!("the key and certificate files are looked at, as was asked"),
        }
        reload_keys(broker.as_deref(), proxy.as_ref(), &files.keys, &mut told);
        if let Some(proxy) = &proxy {
            reload_log(&proxy.log, &files.log, &mut log_told);
        }
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

/// Whether a failure that lasts has been told: an outage is one line when it begins and one when it ends, not one for each try.
#[derive(Debug, Default)]
struct Told(bool);

impl Told {
    /// It fails; whether that is news.
    const fn fails(&mut self) -> bool {
        !std::mem::replace(&mut self.0, true)
    }

    /// It does not fail; whether that is news.
    const fn goes_on(&mut self) -> bool {
        std::mem::replace(&mut self.0, false)
    }
}

fn reload_keys(broker: Option<&Broker>, proxy: Option<&Proxy>, dir: &Path, (ring, set): &mut (Told, Told)) {
    if let Some(broker) = broker {
        match KeyRing::load(dir) {
            Ok(read) => {
                broker.replace_keys(read);
                if ring.goes_on() {
                    tracing::info!("the key files can be read again");
                }
            }
            Err(error) => {
                if ring.fails() {
                    tracing::error!(%error, "the key files cannot be read; the keys in use stay");
                }
                broker.key_files_unreadable();
            }
        }
    }
    if let Some(proxy) = proxy {
        match read_key_set(dir) {
            Ok(read) => {
                proxy.verifier.replace_keys(read);
                if set.goes_on() {
                    tracing::info!("the public keys can be read again");
                }
            }
            Err(error) => {
                if set.fails() {
                    tracing::error!(error, "the public keys cannot be read; the keys in use stay");
                }
            }
        }
    }
}

fn reload_log(log: &LogTrust, files: &LogFiles, told: &mut Told) {
    match files.believed() {
        Ok(keys) => {
            log.replace(keys);
            if told.goes_on() {
                tracing::info!("the log's public keys can be read again");
            }
        }
        Err(error) => {
            if told.fails() {
                tracing::error!(error, "the log's public keys cannot be read; the keys in use stay");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_lasts_is_told_once_and_so_is_its_end() {
        let mut told = Told::default();
        assert!(!told.goes_on());
        assert_eq!([told.fails(), told.fails(), told.fails()], [true, false, false]);
        assert_eq!([told.goes_on(), told.goes_on()], [true, false]);
        assert!(told.fails());
    }
}
