//! Metrics at an address of their own: they must answer when callers are locked out and when the store is not well, and only to the inside.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::broker::Broker;
use crate::domain::clock::Clock;
use crate::domain::time::Timestamp;
use crate::edge::{ServerTls, Standing};
use crate::http::Probe;
use crate::metrics::{self, Lag, Requests, Snapshot, TimeLeft, Watched};
use crate::proxy::Proxy;
use crate::store::Store;
use crate::store::health::ClockState;
use crate::witness::Witnesses;

/// What a scrape looks at.
#[derive(Clone)]
pub(super) struct Scrape {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) broker: Option<Arc<Broker>>,
    pub(super) proxy: Option<Proxy>,
    pub(super) witnesses: Option<Arc<Witnesses>>,
    pub(super) probe: Arc<Probe>,
    pub(super) requests: Arc<Requests>,
    pub(super) tls: Option<Arc<ServerTls>>,
}

impl Scrape {
    /// The one path, `/metrics`.
    pub(super) fn router(self) -> Router {
        Router::new().route("/metrics", get(answer)).with_state(self)
    }

    async fn snapshot(&self) -> Snapshot {
        let now = self.clock.now();
        let store_commits = self.probe.ask(&*self.store).await;
        let backlog = self.store.backlog().await;
        if let Err(error) = &backlog {
            tracing::warn!(%error, "the store could not be read for the metrics");
        }
        let mut left = Vec::new();
        let health = self.store.health();
        let mut watched = vec![
            Watched {
                name: "store",
                well: store_commits.is_ok() && backlog.is_ok() && health.file.is_sound(),
            },
            Watched {
                name: "clock",
                well: health.clock == ClockState::Steady,
            },
            Watched {
                name: "disk",
                well: !health.disk.is_low(),
            },
            Watched {
                name: "log",
                well: health.log.is_kept(),
            },
        ];
        if let Some(broker) = &self.broker {
            let keys = broker.signing_keys();
            left.push(TimeLeft {
                purpose: "signing_key",
                until: keys.signs_until(now),
            });
            watched.push(Watched {
                name: "signing_key",
                well: keys.signing(now).is_ok() && broker.key_files_ok(),
            });
        }
        if let Some(proxy) = &self.proxy {
            let keys = proxy.verifier.keys();
            let valid: Vec<_> = keys
                .iter()
                .map(|(_, key)| key)
                .filter(|key| key.not_before <= now && key.not_after.is_none_or(|end| now < end))
                .collect();
            left.push(TimeLeft {
                purpose: "verifying_key",
                until: if valid.is_empty() {
                    keys.iter().filter_map(|(_, key)| key.not_after).max()
                } else {
                    latest(valid.iter().map(|key| key.not_after))
                },
            });
            watched.push(Watched {
                name: "verifying_key",
                well: !valid.is_empty(),
            });
        }
        if let Some(tls) = &self.tls {
            left.push(TimeLeft {
                purpose: "certificate",
                until: Some(tls.certificate().not_after),
            });
            watched.push(Watched {
                name: "tls",
                well: tls.standing(now) != Standing::Expired,
            });
            // Readiness tells it as a warning: the old pair serves as well as before.
            watched.push(Watched {
                name: "tls_files",
                well: tls.standing(now) != Standing::Refused,
            });
        }
        let mut lags = Vec::new();
        if let Some(witnesses) = &self.witnesses {
            watched.push(Watched {
                name: "witnesses",
                well: witnesses.are_enough(),
            });
            lags.extend(witnesses.standing().into_iter().map(|seen| Lag {
                witness: seen.name,
                lag: seen.lag,
                disagrees: seen.disagrees,
            }));
        }
        Snapshot {
            now,
            tally: self.store.tally(),
            backlog: backlog.ok(),
            disk: health.disk,
            waiting_results: health.waiting_results,
            left,
            watched,
            lags,
        }
    }
}

/// The last of these ends; none if one of them has no end, or if there are none.
fn latest(ends: impl Iterator<Item = Option<Timestamp>>) -> Option<Timestamp> {
    ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max())
}

async fn answer(State(scrape): State<Scrape>) -> Response {
    let snapshot = scrape.snapshot().await;
    match metrics::text(&scrape.requests, snapshot) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
