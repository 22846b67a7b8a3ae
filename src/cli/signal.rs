//! The signals a server listens to.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::error::CliError;

/// Cancelled by the first SIGTERM or SIGINT. A second one ends the process at once: whoever sends it will not wait.
pub(super) fn stop() -> Result<CancellationToken, CliError> {
    let cannot = |error: std::io::Error| CliError::failed(format!("signals cannot be listened for: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if first {
                told.cancel();
            } else {
                std::process::exit(1);
            }
        }
    });
    Ok(stop)
}

/// Passes each SIGHUP on, as long as the process runs.
pub(super) fn reload(wish: Arc<Notify>) -> Result<(), CliError> {
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| CliError::failed(format!("signals cannot be listened for: {error}")))?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            wish.notify_one();
        }
    });
    Ok(())
}
