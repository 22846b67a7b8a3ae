//! Accepting connections: so many at once and no more, so many from one address, and an end to all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::converse::{Line, converse};
use crate::edge::{Limits, ServerTls, Source};

/// What stands between the network and the router.
pub(super) struct Door {
    pub(super) limits: Limits,
    pub(super) tls: Option<Arc<ServerTls>>,
}

/// Serves until `shutdown`; then takes no more, and waits for open requests, but not for ever.
pub(super) async fn serve(listener: TcpListener, router: Router, door: Door, shutdown: &CancellationToken) {
    let places = Arc::new(Semaphore::new(door.limits.connections));
    let addresses = Arc::new(Addresses::default());
    let open = TaskTracker::new();
    loop {
        let accepted = shutdown.run_until_cancelled(async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        });
        let Some(Some((place, accepted))) = accepted.await else { break };
        match accepted {
            Ok((stream, from)) => {
                let Some(seat) = Addresses::take(&addresses, from.ip(), door.limits.connections_per_address) else {
                    tracing::debug!(address = %from.ip(), "a connection is closed: its address has all it may have");
                    continue;
                };
                let line = Line {
                    stream,
                    address: from.ip(),
                    tls: door.tls.as_ref().map(|tls| tls.config()),
                    patience: door.limits.head_timeout,
                };
                let connection = converse(line, router.clone(), shutdown.clone());
                open.spawn(async move {
                    connection.await;
                    drop((place, seat));
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

/// How many connections are open from each address.
#[derive(Default)]
struct Addresses(Mutex<HashMap<Source, usize>>);

impl Addresses {
    /// A seat for one connection from `address`, given back when it is dropped; `None` if all are taken.
    fn take(all: &Arc<Self>, address: IpAddr, most: usize) -> Option<Seat> {
        let address = Source::of(address);
        let mut open = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        let all = Arc::clone(all);
        Some(Seat { all, address })
    }
}

struct Seat {
    all: Arc<Addresses>,
    address: Source,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.address)),
        }
    }
}
