//! One connection, from its handshake to its end: each side has a bound on how long it may keep silent.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::edge::{Certificate, Peer};

/// The longest head of a request, in bytes.
const LONGEST_HEAD: u32 = 32 * 1024;
/// How many requests one HTTP/2 connection may have open.
const STREAMS: u32 = 64;
/// How many streams a client may open and reset before we have looked at them.
const RESETS_PENDING: usize = 20;
/// How many of our own resets a client may provoke on one connection.
const RESETS_PROVOKED: usize = 64;
/// How much of all bodies together an HTTP/2 connection may send ahead, in bytes; one stream has the usual 64 KiB.
const SENT_AHEAD: u32 = 256 * 1024;
/// How often a silent HTTP/2 client is asked whether it is still there while a request of its is open.
const PING: Duration = Duration::from_secs(20);
/// How long open requests get to end once the process is told to stop.
const GRACE: Duration = Duration::from_secs(20);
/// How long a connection without a request gets to end once it is asked to.
const LINGER: Duration = Duration::from_secs(5);

/// A connection that was accepted.
pub(super) struct Line {
    pub(super) stream: TcpStream,
    pub(super) address: IpAddr,
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// How long it may take for its handshake, and then to bring each request.
    pub(super) patience: Duration,
}

/// Serves one connection to its end.
pub(super) async fn converse(line: Line, router: Router, shutdown: CancellationToken) {
    // An answer is small and goes at once.
    drop(line.stream.set_nodelay(true));
    let mut peer = Peer {
        address: line.address,
        certificate: None,
    };
    let Some(config) = line.tls else {
        let talk = Talk::new(router, peer, line.patience, shutdown);
        return talk.http1(line.stream).await;
    };
    let handshake = tokio::time::timeout(line.patience, TlsAcceptor::from(config).accept(line.stream));
    let stream = match shutdown.run_until_cancelled(handshake).await {
        None => return,
        Some(Err(_)) => return tracing::debug!(address = %peer.address, "a TLS handshake took too long"),
        Some(Ok(Err(error))) => return tracing::debug!(address = %peer.address, %error, "a TLS handshake failed"),
        Some(Ok(Ok(stream))) => stream,
    };
    let (_, session) = stream.get_ref();
    if let Some(leaf) = session.peer_certificates().and_then(|chain| chain.first()) {
        match Certificate::read(leaf) {
            Ok(read) => peer.certificate = Some(Arc::new(read)),
            Err(error) => return tracing::debug!(address = %peer.address, %error, "a client's certificate cannot be read"),
        }
    }
    let speaks_h2 = session.alpn_protocol() == Some(b"h2");
    let talk = Talk::new(router, peer, line.patience, shutdown);
    if speaks_h2 {
        talk.http2(stream).await
    } else {
        talk.http1(stream).await
    }
}

/// The conversation on one connection, whichever version of HTTP it is in.
struct Talk {
    router: Router,
    peer: Peer,
    patience: Duration,
    shutdown: CancellationToken,
    requests: Requests,
}

impl Talk {
    fn new(router: Router, peer: Peer, patience: Duration, shutdown: CancellationToken) -> Self {
        Self {
            router,
            peer,
            patience,
            shutdown,
            requests: Requests::new(),
        }
    }

    async fn http1(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.patience)
            .max_header_size(LONGEST_HEAD as usize)
            .max_buf_size(2 * LONGEST_HEAD as usize);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), self.service()));
        let end = tokio::select! {
            ended = connection.as_mut() => return told(ended),
            end = self.end() => end,
        };
        connection.as_mut().graceful_shutdown();
        told(tokio::time::timeout(end, connection).await.unwrap_or(Ok(())));
    }

    async fn http2(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(LONGEST_HEAD)
            .max_pending_accept_reset_streams(RESETS_PENDING)
            .max_local_error_reset_streams(RESETS_PROVOKED)
            .initial_connection_window_size(SENT_AHEAD)
            .keep_alive_interval(PING)
            .keep_alive_timeout(self.patience);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), self.service()));
        let end = tokio::select! {
            ended = connection.as_mut() => return told(ended),
            end = self.end() => end,
        };
        connection.as_mut().graceful_shutdown();
        told(tokio::time::timeout(end, connection).await.unwrap_or(Ok(())));
    }

    /// The router, told who calls, with every request counted while it is worked on.
    fn service(
        &self,
    ) -> impl Service<Request<Incoming>, Response = axum::response::Response, Error = std::convert::Infallible, Future: Send> + use<> {
        let router = TowerToHyperService::new(self.router.clone());
        let (peer, requests) = (self.peer.clone(), self.requests.clone());
        service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let open = requests.begin();
            let answer = router.call(request);
            async move {
                let answer = answer.await;
                drop(open);
                answer
            }
        })
    }

    /// Waits until the connection is to end, because the process does or because it brings no request; gives how long it has for that.
    async fn end(&self) -> Duration {
        tokio::select! {
            () = self.shutdown.cancelled() => GRACE,
            () = self.requests.none_for(self.patience) => LINGER,
        }
    }
}

fn told(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        // A client that went away or sent no request: nothing that an operator could do about.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The requests of one connection that are being worked on.
#[derive(Clone)]
struct Requests(watch::Sender<Count>);

#[derive(Clone, Copy)]
struct Count {
    open: usize,
    /// When it changed last.
    since: Instant,
}

impl Requests {
    fn new() -> Self {
        let since = Instant::now();
        Self(watch::Sender::new(Count { open: 0, since }))
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        self.0.send_modify(|count| {
            *count = Count {
                open: change(count.open),
                since: Instant::now(),
            };
        });
    }

    fn begin(&self) -> Open {
        self.change(|open| open + 1);
        Open(self.clone())
    }

    /// Returns once no request has been open for this long.
    async fn none_for(&self, patience: Duration) {
        let mut counts = self.0.subscribe();
        loop {
            let count = *counts.borrow_and_update();
            let silence = async {
                if count.open > 0 {
                    std::future::pending().await
                } else {
                    tokio::time::sleep_until(count.since + patience).await;
                }
            };
            tokio::select! {
                () = silence => return,
                // The sender is `self`, so it is there.
                _ = counts.changed() => {}
            }
        }
    }
}

struct Open(Requests);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.change(|open| open.saturating_sub(1));
    }
}
