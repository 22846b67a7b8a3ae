//! Accepting connections: so many at once and no more, so many from one address, always a newcomer, and an end to all of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::converse::{Line, converse};
use crate::edge::{Connections, Limits, ServerTls, Source};

/// What stands between the network and the router.
pub(super) struct Door {
    pub(super) limits: Limits,
    pub(super) tls: Option<Arc<ServerTls>>,
}

/// Serves until `shutdown`; then takes no more, and waits for open requests, but not for ever.
pub(super) async fn serve(listener: TcpListener, router: Router, door: Door, shutdown: &CancellationToken) {
    let places = Arc::new(Semaphore::new(door.limits.connections));
    let connections = Connections::new(&door.limits);
    let open = TaskTracker::new();
    loop {
        let accepted = shutdown.run_until_cancelled(async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        });
        let Some(Some((place, accepted))) = accepted.await else { break };
        match accepted {
            Ok((stream, from)) => {
                let Some(seat) = connections.enter(Source::of(from.ip()), Instant::now()) else {
                    tracing::debug!(address = %from.ip(), "a connection is closed: its address has all it may have");
                    continue;
                };
                let line = Line {
                    stream,
                    address: from.ip(),
                    seat: Arc::new(seat),
                    tls: door.tls.as_ref().map(|tls| tls.config()),
                    patience: door.limits.head_timeout,
                };
                let connection = converse(line, router.clone(), shutdown.clone());
                open.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            // Out of descriptors, most likely: the next ones are free when a connection ends.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    open.close();
    open.wait().await;
}
