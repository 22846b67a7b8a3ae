//! One connection, from its handshake to its end: each side has a bound on how long it may keep silent.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::requests::{ANSWERED_AHEAD, Answer, Requests};
use crate::edge::{Certificate, Peer, Seat, Shown};

/// The longest head of a request, in bytes.
const LONGEST_HEAD: u32 = 32 * 1024;
/// How many requests one HTTP/2 connection may have open.
const STREAMS: u32 = 32;
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
/// How long a connection gets to end, once it is asked to and has no request open.
const LINGER: Duration = Duration::from_secs(5);
/// How long it gets while it has: longer than any request takes.
const LONGEST: Duration = Duration::from_secs(90);

/// A connection that was accepted.
pub(super) struct Line {
    pub(super) stream: TcpStream,
    pub(super) address: IpAddr,
    pub(super) seat: Arc<Seat>,
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
        let talk = Talk::new(router, peer, line.seat, line.patience, shutdown);
        return talk.http1(line.stream).await;
    };
    let handshake = tokio::time::timeout(line.patience, TlsAcceptor::from(config).accept(line.stream));
    let shaken = tokio::select! {
        () = shutdown.cancelled() => return,
        () = line.seat.is_wanted() => return tracing::debug!(address = %peer.address, "a handshake gives way to another connection"),
        shaken = handshake => shaken,
    };
    let stream = match shaken {
        Err(_) => return tracing::debug!(address = %peer.address, "a TLS handshake took too long"),
        Ok(Err(error)) => return tracing::debug!(address = %peer.address, %error, "a TLS handshake failed"),
        Ok(Ok(stream)) => stream,
    };
    let (_, session) = stream.get_ref();
    if let Some(leaf) = session.peer_certificates().and_then(|chain| chain.first()) {
        match Certificate::read(leaf) {
            Ok(read) => peer.certificate = Some(Arc::new(read)),
            Err(error) => return tracing::debug!(address = %peer.address, %error, "a client's certificate cannot be read"),
        }
    }
    let speaks_h2 = session.alpn_protocol() == Some(b"h2");
    let talk = Talk::new(router, peer, line.seat, line.patience, shutdown);
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
    seat: Arc<Seat>,
    patience: Duration,
    shutdown: CancellationToken,
    requests: Requests,
}

impl Talk {
    fn new(router: Router, peer: Peer, seat: Arc<Seat>, patience: Duration, shutdown: CancellationToken) -> Self {
        Self {
            router,
            peer,
            seat,
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
        if let End::AtOnce = end {
            return tracing::debug!(address = %self.peer.address, "a connection gives way to others");
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => told(ended),
            () = self.patience_is_over() => {}
        }
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
            .max_send_buf_size(ANSWERED_AHEAD)
            .keep_alive_interval(PING)
            .keep_alive_timeout(self.patience);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), self.service()));
        let end = tokio::select! {
            ended = connection.as_mut() => return told(ended),
            end = self.end() => end,
        };
        if let End::AtOnce = end {
            return tracing::debug!(address = %self.peer.address, "a connection gives way to others");
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => told(ended),
            () = self.patience_is_over() => {}
        }
    }

    /// The router, told who calls, with every request counted while it is worked on.
    fn service(
        &self,
    ) -> impl Service<Request<Incoming>, Response = Response<Answer>, Error = std::convert::Infallible, Future: Send> + use<> {
        let router = TowerToHyperService::new(self.router.clone());
        let (peer, seat, requests) = (self.peer.clone(), self.seat.clone(), self.requests.clone());
        service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(seat.clone());
            let open = requests.begin(&seat);
            let answer = router.call(request);
            async move {
                let (head, body) = answer.await?.into_parts();
                Ok(Response::from_parts(head, Answer::new(body, open)))
            }
        })
    }

    /// Waits until the connection is to end: the process does, or it brings no request, or nobody shows who they are, or its place is wanted.
    async fn end(&self) -> End {
        tokio::select! {
            () = self.shutdown.cancelled() => End::InOrder,
            () = self.requests.none_for(self.patience, self.requests.begun) => End::InOrder,
            () = self.seat.is_outstayed() => End::InOrder,
            () = self.seat.is_a_burden() => End::AtOnce,
            () = self.seat.is_wanted() => match self.seat.standing(Instant::now()) {
                Shown::Stranger => End::AtOnce,
                Shown::Known | Shown::Guard => End::InOrder,
            },
        }
    }

    /// Waits until a connection that was asked to end has had its time: requests that are open, or come in at that moment, are finished.
    async fn patience_is_over(&self) {
        tokio::select! {
            () = self.requests.none_for(LINGER, Instant::now()) => {}
            () = async { self.shutdown.cancelled().await; tokio::time::sleep(GRACE).await } => {}
            () = async { self.seat.is_wanted().await; tokio::time::sleep(LINGER).await } => {}
            () = self.seat.is_a_burden() => {}
            () = tokio::time::sleep(LONGEST) => {}
        }
    }
}

fn told(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        // A client that went away or sent no request: nothing that an operator could do about.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// How a connection ends.
enum End {
    /// What is open is finished first.
    InOrder,
    /// As it stands.
    AtOnce,
}
