//! The two signals that end a server.

use tokio::signal::unix::{SignalKind, signal};
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
