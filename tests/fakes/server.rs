//! What every fake has in common: a port of 127.0.0.1, two secrets, a list of what was seen on the wire, and scripted faults.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use writ::domain::clock::Clock;
use writ::domain::time::Timestamp;

use crate::support::ManualClock;

/// A request, read whole.
pub struct Call {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub raw: String,
    pub body: Value,
    pub now: Timestamp,
    /// Whether the secret may change anything.
    pub may_write: bool,
}

impl Call {
    /// The parts of the path.
    pub fn segments(&self) -> Vec<&str> {
        self.path.trim_start_matches('/').split('/').collect()
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
}

impl Said {
    pub fn new(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// The books of one provider.
pub trait Books: Send + 'static {
    /// What a request presents as its secret.
    fn secret(headers: &BTreeMap<String, String>) -> Option<String>;
    /// Whether the request is to change something.
    fn is_write(call: &Call) -> bool;
    /// The answer to a request without a known secret, or to a change with one that only reads.
    fn unauthorized(call: &Call) -> Said;
    /// What the provider does.
    fn answer(&mut self, call: &Call) -> Said;
    /// Leaves the key of the next change claimed, as if its request were still running, until [`Books::finish`].
    fn run_slowly(&mut self);
    /// The slow request ends.
    fn finish(&mut self);
    /// How many refunds there are.
    fn effects(&self) -> usize;
}

/// What happens to the next request that changes something.
pub enum Fault {
    /// The connection closes before anything runs.
    DropBefore,
    /// It runs, and the connection closes without an answer.
    DropAfter,
    /// This answer comes before anything runs.
    Instead(Said),
    /// It runs, and this answer comes instead of its own.
    After(Said),
    /// It runs, and its answer is bent.
    Bend(fn(&mut Value)),
    /// It runs on while the connection closes: the key is taken until [`Fake::finish`].
    Slow,
    /// It runs, and its answer is held back until [`Fake::release`].
    Hold,
}

struct Shared<B> {
    books: B,
    faults: VecDeque<Fault>,
    seen: Vec<(String, String, String)>,
    clock: Arc<ManualClock>,
    held: Arc<Notify>,
    released: Arc<Notify>,
}

/// A fake that answers until it is dropped.
pub struct Fake<B> {
    pub url: String,
    shared: Arc<Mutex<Shared<B>>>,
    task: JoinHandle<()>,
}

impl<B> Drop for Fake<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The secret that only reads.
pub const READS: &str = "token-that-reads";
/// The key under which a provider signs what it tells by itself: 32 bytes in hexadecimal.
pub const EVENTS: &str = "8F2B6C0E5D417A93B1E4F60728395A4C6D7E8F901A2B3C4D5E6F708192A3B4C5";
/// The secret that changes things.
pub const WRITES: &str = "token-that-writes";

#[derive(Debug, thiserror::Error)]
#[error("the connection closes")]
struct Dropped;

impl<B: Books> Fake<B> {
    pub async fn start(books: B, clock: Arc<ManualClock>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Mutex::new(Shared {
            books,
            faults: VecDeque::new(),
            seen: Vec::new(),
            clock,
            held: Arc::new(Notify::new()),
            released: Arc::new(Notify::new()),
        }));
        let served = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let served = Arc::clone(&served);
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&served), request));
                    // Fails whenever a fault closes the connection.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .keep_alive(false)
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { url, shared, task }
    }

    fn lock(&self) -> MutexGuard<'_, Shared<B>> {
        self.shared.lock().unwrap()
    }

    /// From here on this clock says how old a key is.
    pub fn keep_time_by(&self, clock: Arc<ManualClock>) {
        self.lock().clock = clock;
    }

    /// Queues a fault for a request that changes something.
    pub fn fault(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    /// Looks into the books, or changes them behind writ's back.
    pub fn books<T>(&self, change: impl FnOnce(&mut B) -> T) -> T {
        change(&mut self.lock().books)
    }

    /// Comes back once an answer is held back.
    pub async fn held(&self) {
        let held = Arc::clone(&self.lock().held);
        held.notified().await;
    }

    /// The answer that is held back is given.
    pub fn release(&self) {
        self.lock().released.notify_one();
    }

    /// The slow request ends.
    pub fn finish(&self) {
        self.lock().books.finish();
    }

    /// The bodies of the requests to change something, oldest first.
    pub fn writes(&self) -> Vec<String> {
        self.lock()
            .seen
            .iter()
            .filter(|(kind, ..)| kind == "write")
            .map(|(_, _, body)| body.clone())
            .collect()
    }

    /// How many refunds there are.
    pub fn effects(&self) -> usize {
        self.lock().books.effects()
    }
}

async fn answer<B: Books>(shared: Arc<Mutex<Shared<B>>>, request: Request<Incoming>) -> Result<Response<Body>, Dropped> {
    let (head, body) = request.into_parts();
    let raw = axum::body::to_bytes(Body::new(body), 1 << 20).await.map_err(|_| Dropped)?;
    let raw = String::from_utf8(raw.to_vec()).unwrap();
    let headers: BTreeMap<String, String> = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let (said, wait) = judged(&shared, head.method.as_str(), head.uri.path(), headers, raw)?;
    if let Some((held, released)) = wait {
        held.notify_one();
        released.notified().await;
    }
    Ok(sent(&said))
}

/// The answer, and for one that is held back whom to tell so and whom to wait for.
type Judged = (Said, Option<(Arc<Notify>, Arc<Notify>)>);

fn judged<B: Books>(
    shared: &Mutex<Shared<B>>,
    method: &str,
    path: &str,
    headers: BTreeMap<String, String>,
    raw: String,
) -> Result<Judged, Dropped> {
    let mut shared = shared.lock().unwrap();
    let secret = B::secret(&headers);
    let call = Call {
        method: method.to_owned(),
        path: path.to_owned(),
        body: serde_json::from_str(&raw).unwrap_or(Value::Null),
        raw,
        headers,
        now: shared.clock.now(),
        may_write: secret.as_deref() == Some(WRITES),
    };
    let write = B::is_write(&call);
    let kind = if write { "write" } else { "read" };
    shared.seen.push((kind.to_owned(), call.path.clone(), call.raw.clone()));
    let known = secret.is_some_and(|s| s == READS || s == WRITES);
    if !known || (write && !call.may_write) {
        return Ok((B::unauthorized(&call), None));
    }
    let fault = if write { shared.faults.pop_front() } else { None };
    match fault {
        Some(Fault::DropBefore) => return Err(Dropped),
        Some(Fault::Instead(said)) => return Ok((said, None)),
        Some(Fault::Slow) => shared.books.run_slowly(),
        _ => {}
    }
    let mut said = shared.books.answer(&call);
    let mut wait = None;
    match fault {
        Some(Fault::Hold) => wait = Some((Arc::clone(&shared.held), Arc::clone(&shared.released))),
        Some(Fault::DropAfter | Fault::Slow) => return Err(Dropped),
        Some(Fault::After(instead)) => said = instead,
        Some(Fault::Bend(bend)) => bend(&mut said.body),
        _ => {}
    }
    Ok((said, wait))
}

fn sent(said: &Said) -> Response<Body> {
    let mut builder = Response::builder().status(said.status).header("content-type", "application/json");
    for (name, value) in &said.headers {
        builder = builder.header(*name, value);
    }
    builder.body(Body::from(said.body.to_string())).unwrap()
}
