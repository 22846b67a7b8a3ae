//! Accepting connections: so many at once and no more, each with a bound on how long it may keep silent, and an end to all of them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many connections are open at once; further ones wait in the operating system's queue.
const CONNECTIONS: usize = 512;
/// How long a connection may take to bring the head of its next request.
const HEAD: Duration = Duration::from_secs(10);
/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 32 * 1024;
/// How long open requests get to end once the process is told to stop.
const GRACE: Duration = Duration::from_secs(20);

/// Serves until `shutdown`; then takes no more, and waits for open requests, but not for ever.
pub(super) async fn serve(listener: TcpListener, router: Router, shutdown: &CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let open = TaskTracker::new();
    loop {
        let accepted = shutdown.run_until_cancelled(async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        });
        let Some(Some((place, accepted))) = accepted.await else { break };
        match accepted {
            Ok((stream, _)) => {
                let connection = converse(stream, router.clone(), shutdown.clone());
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

async fn converse(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LONGEST_HEAD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shutdown.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        // A client that went away or sent no request: nothing that an operator could do about.
        tracing::debug!(%error, "a connection ended early");
    }
}
