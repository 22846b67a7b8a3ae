//! Connections served by hand, so that a fault can really close one without an answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::clock::{Clock, Entropy};
use crate::domain::digest::Digest;
use crate::domain::secret::{Secret, constant_time_eq};
use crate::domain::time::Timestamp;

use super::SandboxConfig;
use super::answer::{Answer, ErrorAnswer, ErrorType};
use super::control;
use super::endpoint::{Call, Outcome, route};
use super::fault::FaultKind;
use super::idempotency::{Claim, in_use};
use super::lie::{Script, script};
use super::seen::{KeyUsed, SeenRequest};
use super::wire::{Dropped, WireBody, wire};
use super::world::{World, fresh_id};

/// The longest request body that is read, in bytes.
const LONGEST_BODY: usize = 256 * 1024;

/// How many bytes an oversize answer carries too many.
const OVERSIZE: usize = 4 * 1024 * 1024;

/// What every connection works on.
pub(super) struct Shared {
    pub(super) read_key: Secret,
    pub(super) write_key: Secret,
    webhook_secret: Option<Secret>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    closing: CancellationToken,
    world: Mutex<World>,
    gate: watch::Sender<Gate>,
    /// How many connections were accepted.
    pub(super) connections: AtomicUsize,
    /// Told of every request before anything is done about it.
    pub(super) witness: OnceLock<Witness>,
}

/// Looks at a request that has arrived whole and was not answered yet.
pub type Witness = Box<dyn Fn(&SeenRequest) + Send + Sync>;

/// Where held requests wait: a release opens the gate for all that wait now, and for nobody who comes later.
#[derive(Clone, Copy, Default)]
struct Gate {
    waiting: usize,
    releases: u64,
}

impl Shared {
    pub(super) fn new(config: SandboxConfig, closing: CancellationToken) -> Self {
        Self {
            world: Mutex::new(World::seeded(&config)),
            read_key: config.read_key,
            write_key: config.write_key,
            webhook_secret: config.webhook_secret,
            clock: config.clock,
            entropy: config.entropy,
            closing,
            gate: watch::Sender::new(Gate::default()),
            connections: AtomicUsize::new(0),
            witness: OnceLock::new(),
        }
    }

    /// The books, locked. A panic elsewhere cannot leave them half written: every change is one step.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of an event about a refund as it stands.
    pub(super) fn event(&self, kind: &str, refund: &str) -> Option<String> {
        let refund = self.world().payments.find_refund(refund).cloned()?;
        Some(super::event::body(kind, &refund, self.clock.now(), self.entropy.as_ref()))
    }

    /// The signature for these bytes now, if there is a secret to sign with.
    pub(super) fn signature(&self, body: &str) -> Option<String> {
        let secret = self.webhook_secret.as_ref()?;
        Some(super::event::event_signature(secret, self.clock.now(), body))
    }

    pub(super) fn held_now(&self) -> usize {
        self.gate.borrow().waiting
    }

    pub(super) fn release(&self) -> usize {
        let waiting = self.held_now();
        self.gate.send_modify(|gate| gate.releases += 1);
        waiting
    }

    pub(super) async fn held(&self, count: usize) {
        // Fails only when the sender is gone, and it lives as long as `self`.
        let _ = self.gate.subscribe().wait_for(|gate| gate.waiting >= count).await;
    }

    /// Waits for the next release. Leaves the count right if the client goes away meanwhile.
    async fn hold(&self) {
        struct Waiting<'a>(&'a watch::Sender<Gate>);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.send_modify(|gate| gate.waiting -= 1);
            }
        }
        let mut gate = self.gate.subscribe();
        let before = gate.borrow().releases;
        self.gate.send_modify(|gate| gate.waiting += 1);
        let _waiting = Waiting(&self.gate);
        let _ = gate.wait_for(|gate| gate.releases > before).await;
    }

    fn key_used(&self, headers: &HeaderMap) -> KeyUsed {
        let Some(given) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(presented) else {
            return KeyUsed::None;
        };
        if constant_time_eq(given.as_bytes(), self.write_key.expose().as_bytes()) {
            KeyUsed::Write
        } else if constant_time_eq(given.as_bytes(), self.read_key.expose().as_bytes()) {
            KeyUsed::Read
        } else {
            KeyUsed::None
        }
    }
}

/// The key in `Bearer KEY`, or the user name in `Basic base64(KEY:)`.
fn presented(authorization: &str) -> Option<String> {
    let (scheme, rest) = authorization.split_once(' ')?;
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(rest.trim().to_owned()),
        "basic" => {
            let pair = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
            pair.split(':').next().map(str::to_owned)
        }
        _ => None,
    }
}

/// Accepts until the sandbox closes.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    loop {
        tokio::select! {
            () = shared.closing.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    tasks.spawn(connection(stream, Arc::clone(&shared)));
                }
                // Out of descriptors, say: the next attempt may do better, but not at once.
                Err(error) => {
                    tracing::warn!(%error, "the sandbox could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let closing = shared.closing.clone();
    let lie = Mutex::new(None);
    let service = service_fn(|request| Box::pin(answered(&shared, &lie, request)));
    let mut serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = closing.cancelled() => return,
        // An error here is a fault that was asked for, or a client that went away; both are in the record.
        _ = std::future::poll_fn(|cx| serving.poll_without_shutdown(cx)) => {}
    }
    let stream = serving.into_parts().io.into_inner();
    let lie: Option<Script> = lie.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(lie) = lie {
        closing.run_until_cancelled(lie.play(stream)).await;
    }
}

/// One request, from its bytes to its answer or the lack of one.
async fn answered(shared: &Shared, lie: &Mutex<Option<Script>>, request: Request<Incoming>) -> Result<Response<WireBody>, Dropped> {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        head.headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let (method, path) = (head.method.as_str(), head.uri.path());
    let request_id = fresh_id(shared.entropy.as_ref(), "req");
    let is_cut = method != "GET" && shared.world().faults.take_kind(FaultKind::CloseAsWritten, method, path);
    let body = if is_cut {
        bytes::Bytes::new()
    } else {
        let body = axum::body::to_bytes(axum::body::Body::new(body), LONGEST_BODY).await;
        body.map_err(|_| Dropped)?
    };
    if path.starts_with(control::PREFIX) && path != "/_sandbox/redirected" {
        return Ok(wire(&control::answer(shared, method, path, &body), &request_id));
    }
    let key = shared.key_used(&head.headers);
    let idempotency_key = header("idempotency-key");
    let if_match = header("if-match");
    let now = shared.clock.now();
    let seen = SeenRequest {
        number: 0,
        at: now,
        method: method.to_owned(),
        path: path.to_owned(),
        query: head.uri.query().map(str::to_owned),
        key,
        idempotency_key: idempotency_key.clone(),
        if_match: if_match.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
        body_sha256: Digest::of(&body),
        effect: false,
        replayed: false,
        status: None,
    };
    if let Some(witness) = shared.witness.get() {
        witness(&seen);
    }
    let (number, refused, fault) = {
        let mut world = shared.world();
        let number = world.seen.push(seen);
        if is_cut {
            return Err(Dropped);
        }
        // Whoever may not come in uses up no fault.
        let refused = unauthorized(key, method);
        let fault = if refused.is_some() { None } else { world.faults.take(method, path) };
        (number, refused, fault)
    };
    let visit = Visit {
        shared,
        number,
        request_id: &request_id,
    };
    if fault == Some(FaultKind::DropBefore) {
        return Err(Dropped);
    }
    if let Some(refused) = refused.or_else(|| before(fault, idempotency_key.as_deref(), now)) {
        return Ok(visit.send(&refused));
    }
    let call = Call {
        method,
        path,
        query: head.uri.query().unwrap_or_default(),
        body: &body,
        if_match: if_match.as_deref(),
        now,
        entropy: shared.entropy.as_ref(),
        fault,
    };
    // A key means nothing on a request that changes nothing.
    let idempotency_key = idempotency_key.filter(|_| method != "GET");
    let answer = told(visit.run(&call, idempotency_key.as_deref()).await, fault);
    if let Some(script) = script(fault, &answer) {
        *lie.lock().unwrap_or_else(PoisonError::into_inner) = Some(script);
        visit.note(|seen| seen.status = Some(answer.status));
        return Err(Dropped);
    }
    match fault {
        Some(FaultKind::DropAfter | FaultKind::PendingUnanswered) => Err(Dropped),
        Some(FaultKind::Hang) => {
            shared.closing.cancelled().await;
            Err(Dropped)
        }
        Some(FaultKind::HoldAfter) => {
            shared.hold().await;
            Ok(visit.send(&answer))
        }
        Some(FaultKind::Truncate) => {
            let response = visit.send(&answer);
            Ok(response.map(WireBody::cut))
        }
        Some(FaultKind::Oversize) => {
            let mut long = answer;
            if let Some(members) = long.body.as_object_mut() {
                members.insert("padding".to_owned(), "x".repeat(OVERSIZE).into());
            }
            Ok(visit.send(&long))
        }
        _ => Ok(visit.send(&answer)),
    }
}

/// 401 without a known key, 403 for a change with the key that may only read.
fn unauthorized(key: KeyUsed, method: &str) -> Option<Answer> {
    match key {
        KeyUsed::None => {
            let message =
                "No API key, or one that is not known here. Send it as `Authorization: Bearer KEY`, or as the user name of Basic.";
            let refused: Answer = ErrorAnswer::new(401, ErrorType::InvalidRequest, message).into();
            Some(refused.with("www-authenticate", "Basic realm=\"sandbox\""))
        }
        KeyUsed::Read if method != "GET" => {
            let message = format!("This key may only read, and {method} changes something.");
            Some(
                ErrorAnswer::new(403, ErrorType::InvalidRequest, message)
                    .code("more_permissions_required")
                    .into(),
            )
        }
        KeyUsed::Read | KeyUsed::Write => None,
    }
}

/// The answers of faults that strike before anything happens.
fn before(fault: Option<FaultKind>, key: Option<&str>, now: Timestamp) -> Option<Answer> {
    match fault? {
        FaultKind::Error503Before => Some(ErrorAnswer::new(503, ErrorType::Api, "The service is not available. Try again later.").into()),
        FaultKind::RateLimit => {
            let limited: Answer = ErrorAnswer::new(429, ErrorType::InvalidRequest, "Too many requests. Try again more slowly.")
                .code("rate_limit")
                .into();
            Some(limited.with("retry-after", "1"))
        }
        FaultKind::RateLimitDate => {
            let limited: Answer = ErrorAnswer::new(429, ErrorType::InvalidRequest, "Too many requests. Come back later.").into();
            let since = Duration::from_secs(u64::try_from(now.seconds()).unwrap_or_default().saturating_add(30));
            Some(limited.with("retry-after", httpdate::fmt_http_date(std::time::SystemTime::UNIX_EPOCH + since)))
        }
        FaultKind::KeyReused => {
            let message = "This key was first used with other parameters.";
            Some(ErrorAnswer::new(400, ErrorType::Idempotency, message).into())
        }
        FaultKind::AlreadyRefunded => {
            let refused = ErrorAnswer::new(400, ErrorType::InvalidRequest, "The charge has already been refunded.");
            Some(refused.code("charge_already_refunded").into())
        }
        FaultKind::InFlight => Some(in_use(key.unwrap_or_default())),
        FaultKind::Redirect => {
            let mut elsewhere: Answer = ErrorAnswer::new(307, ErrorType::Api, "Elsewhere.").into();
            elsewhere = elsewhere.with("location", "/_sandbox/redirected");
            Some(elsewhere)
        }
        _ => None,
    }
}

/// One request on its way through the books.
struct Visit<'a> {
    shared: &'a Shared,
    number: usize,
    request_id: &'a str,
}

/// A claimed key goes free again if its request ends before it ran, because the client went away.
struct ClaimedKey<'a> {
    shared: &'a Shared,
    key: Option<&'a str>,
}

impl Drop for ClaimedKey<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.world().keys.forget(key);
        }
    }
}

impl Visit<'_> {
    /// Claims the key, if there is one; runs the call; stores the answer under the key if the call ran.
    async fn run(&self, call: &Call<'_>, key: Option<&str>) -> Answer {
        let mut claimed = ClaimedKey {
            shared: self.shared,
            key: None,
        };
        if let Some(key) = key {
            let claim = self.shared.world().keys.claim(key, call.parameters(), call.now);
            match claim {
                Claim::Refuse(answer) => return answer,
                Claim::Replay(answer) => {
                    self.note(|seen| seen.replayed = true);
                    return answer;
                }
                Claim::Run => claimed.key = Some(key),
            }
        }
        if call.fault == Some(FaultKind::Hold) {
            self.shared.hold().await;
        }
        let mut world = self.shared.world();
        let outcome = route(&mut world, call);
        if let (Outcome::Changed(_), Some(seen)) = (&outcome, world.seen.note(self.number)) {
            seen.effect = true;
        }
        let answer = match outcome {
            // The lock goes first: the claimed key takes it again to go free.
            Outcome::Refused(answer) => return answer,
            Outcome::Unchanged(answer) | Outcome::Changed(answer) => bent(answer, call.fault),
        };
        if let Some(key) = claimed.key.take() {
            world.keys.keep(key, &answer, self.request_id);
        }
        answer
    }

    fn note(&self, change: impl FnOnce(&mut SeenRequest)) {
        if let Some(seen) = self.shared.world().seen.note(self.number) {
            change(seen);
        }
    }

    fn send(&self, answer: &Answer) -> Response<WireBody> {
        self.note(|seen| seen.status = Some(answer.status));
        wire(answer, self.request_id)
    }
}

/// What is told of an answer once, and not stored.
fn told(mut answer: Answer, fault: Option<FaultKind>) -> Answer {
    match fault {
        Some(FaultKind::OtherId) => {
            set(&mut answer, "id", "re_another");
            for item in answer.body.get_mut("data").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(id) = item.get_mut("id") {
                    *id = "re_another".into();
                }
            }
        }
        Some(FaultKind::EmptyList) => {
            set(&mut answer, "data", json!([]));
            set(&mut answer, "has_more", false);
        }
        Some(FaultKind::SeeOther) => {
            let elsewhere: Answer = ErrorAnswer::new(303, ErrorType::Api, "Elsewhere.").into();
            return elsewhere.with("location", "/_sandbox/redirected");
        }
        _ => {}
    }
    answer
}

/// Puts another value in the place of a member, if there is one.
fn set(answer: &mut Answer, member: &str, value: impl Into<Value>) {
    if let Some(old) = answer.body.get_mut(member) {
        *old = value.into();
    }
}

/// The answers of faults that strike after the effect and are stored like any other answer.
fn bent(mut answer: Answer, fault: Option<FaultKind>) -> Answer {
    match fault {
        Some(FaultKind::Error500After) => ErrorAnswer::new(500, ErrorType::Api, "An unknown error occurred.").into(),
        Some(FaultKind::WrongAmount) => {
            if let Some(amount) = answer.body.get_mut("amount") {
                *amount = (amount.as_i64().unwrap_or_default() + 1).into();
            }
            answer
        }
        Some(FaultKind::WrongCurrency) => {
            set(&mut answer, "currency", "jpy");
            answer
        }
        Some(FaultKind::WrongTarget) => {
            set(&mut answer, "charge", "ch_another");
            answer
        }
        Some(FaultKind::WrongDraft) => {
            if let Some(metadata) = answer.body.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("writ_draft".to_owned(), "drf_another".into());
            }
            answer
        }
        _ => answer,
    }
}
