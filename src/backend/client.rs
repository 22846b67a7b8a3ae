//! The client of one backend: sends once, only to the backend's own address, and never calls "no answer" a "no".

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;

use super::answer::Answer;
use super::headers::is_reserved;
use super::operation::{Backend, ReadPlan};
use super::secrets::{Credential, Environment, Headers, Need};
use super::webhook::{BackendEvent, EventError, WebhookSecrets};
use super::wire::{Broken, Connect, Outgoing, Wire};
use crate::crash_points::{Point, reached};
use crate::domain::digest::Digest;
use crate::domain::draft::{CompiledRequest, IdempotencyKey, KeyPlacement};
use crate::domain::secret::SecretsMark;
use crate::domain::time::Timestamp;
use crate::settings::Mistake;

/// Talks to one backend with the secrets of one role.
#[derive(Debug)]
pub struct Client {
    backend: Arc<Backend>,
    wire: Box<dyn Wire>,
    headers: Headers,
    events: WebhookSecrets,
}

/// What became of a request that was to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// A whole answer came back.
    Answer(Answer),
    /// Not a byte left: the request certainly had no effect.
    NotSent {
        /// Why.
        why: String,
    },
    /// Something may have left and no whole answer came back: the effect is unknown.
    Lost {
        /// Why.
        why: String,
    },
}

/// A read gave no answer. Reads change nothing, so it can be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The role does not hold this secret.
    #[error("this process does not hold the `{0}` secret of the backend: it belongs to another role")]
    NoCredential(&'static str),
    /// The plan does not belong to this backend.
    #[error("the address does not belong to the backend: {0}")]
    Foreign(String),
    /// No connection.
    #[error("cannot reach the backend {0}")]
    Unreachable(String),
    /// No whole answer.
    #[error("no whole answer came from the backend {0}")]
    Lost(String),
}

impl Client {
    /// Reads the role's secrets; requests will leave over HTTP. Opens no connection.
    ///
    /// # Errors
    /// Every secret that is missing, and a TLS setup that cannot work.
    pub fn connect(backend: &Arc<Backend>, need: Need, env: Environment<'_>) -> Result<Self, Vec<Mistake>> {
        Self::over(backend, need, env, &super::wire::http)
    }

    /// As [`Client::connect`], over a wire of another make.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn over(backend: &Arc<Backend>, need: Need, env: Environment<'_>, connect: Connect<'_>) -> Result<Self, Vec<Mistake>> {
        let file = format!("{}.toml", backend.name);
        let events = match need {
            Need::Broker => Ok(WebhookSecrets::none()),
            Need::Proxy | Need::All => WebhookSecrets::of(backend, env),
        };
        let (headers, events) = match (backend.auth.resolve(&file, need, env), events) {
            (Ok(headers), Ok(events)) => (headers, events),
            (headers, events) => {
                let mut mistakes = headers.err().unwrap_or_default();
                mistakes.extend(events.err());
                return Err(mistakes);
            }
        };
        let wire = connect(backend).map_err(|problem| {
            vec![Mistake {
                file,
                place: "base_url".to_owned(),
                problem,
            }]
        })?;
        Ok(Self {
            backend: Arc::clone(backend),
            wire,
            headers,
            events,
        })
    }

    /// A mark of the secrets that this process writes and looks up with.
    #[must_use]
    pub fn secrets_mark(&self) -> SecretsMark {
        let held = [Credential::Read, Credential::Write].map(|credential| self.headers.get(&credential).and_then(Option::as_ref));
        SecretsMark::of(held.map(|header| header.map_or(&[][..], |(_, value)| value.as_bytes())))
    }

    /// An event that came in, if the backend signed it, about now where a time is signed. `signature` is the header that [`Backend::event_header`] names.
    ///
    /// # Errors
    /// [`EventError`].
    pub fn open_event(&self, signature: Option<&str>, body: &[u8], now: Timestamp) -> Result<BackendEvent, EventError> {
        self.events.open(&self.backend, signature, body, now)
    }

    /// One read: a GET, or a question in GraphQL.
    ///
    /// # Errors
    /// [`ReadError`]; whatever the status, an answer is not an error.
    pub async fn read(&self, plan: &ReadPlan, credential: Credential) -> Result<Answer, ReadError> {
        let held = self.headers.get(&credential).ok_or(ReadError::NoCredential(credential.as_str()))?;
        if plan.backend != self.backend.name {
            return Err(ReadError::Foreign(format!("`{}` is another backend", plan.backend)));
        }
        let url = self.own(&plan.url).map_err(ReadError::Foreign)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.backend.headers {
            insert(&mut headers, name, value).map_err(ReadError::Foreign)?;
        }
        if let Some((name, value)) = held {
            put(&mut headers, name.clone(), value.clone()).map_err(ReadError::Foreign)?;
        }
        if plan.question.is_some() {
            let json = HeaderValue::from_static("application/json");
            put(&mut headers, http::header::CONTENT_TYPE, json).map_err(ReadError::Foreign)?;
        }
        let request = Outgoing {
            method: if plan.question.is_some() { Method::POST } else { Method::GET },
            url,
            headers,
            body: plan.question.clone().map(String::into_bytes),
        };
        self.wire.carry(request).await.map_err(|broken| match broken {
            Broken::NotSent(why) => ReadError::Unreachable(self.named(&why)),
            Broken::Lost(why) => ReadError::Lost(self.named(&why)),
        })
    }

    fn named(&self, why: &str) -> String {
        let host = self.backend.base_url().host_str().unwrap_or_default();
        format!("`{}` at {host}: {why}", self.backend.name)
    }

    /// Sends the stored bytes with the stored key, once.
    ///
    /// Dropping the future mid-way is as if the answer were [`Sent::Lost`]: the request may have left.
    pub async fn send(&self, request: &CompiledRequest, key: &IdempotencyKey) -> Sent {
        let outgoing = match self.prepare(request, key) {
            Ok(ready) => ready,
            Err(why) => return Sent::NotSent { why },
        };
        // From here on bytes may leave.
        reached(Point::SendLeaving);
        match self.wire.carry(outgoing).await {
            Ok(answer) => {
                reached(Point::SendAnswered);
                Sent::Answer(answer)
            }
            Err(Broken::NotSent(why)) => Sent::NotSent { why },
            Err(Broken::Lost(why)) => Sent::Lost { why },
        }
    }

    fn prepare(&self, request: &CompiledRequest, key: &IdempotencyKey) -> Result<Outgoing, String> {
        let held = self
            .headers
            .get(&Credential::Write)
            .ok_or_else(|| "this process does not hold the backend's `write` secret".to_owned())?;
        if request.backend != self.backend.name {
            return Err(format!("the request is for the backend `{}`", request.backend));
        }
        if Digest::of(request.body.as_bytes()) != request.body_sha256 {
            return Err("the stored body does not have the stored hash".to_owned());
        }
        let url = self.own(&request.url)?;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| format!("`{}` is not a method", request.method))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &request.headers {
            if name != "content-type" && is_reserved(name) {
                return Err(format!("the stored request sets the header `{name}`"));
            }
            insert(&mut headers, name, value)?;
        }
        if let KeyPlacement::Header { name, quoted } = &request.idempotency_key {
            if is_reserved(name) {
                return Err(format!("the stored request puts its key into the header `{name}`"));
            }
            let text = if *quoted { format!("\"{key}\"") } else { key.to_string() };
            insert(&mut headers, name, &text)?;
        }
        if let Some((name, value)) = held {
            put(&mut headers, name.clone(), value.clone())?;
        }
        Ok(Outgoing {
            method,
            url,
            headers,
            body: Some(request.wire_body(key)),
        })
    }

    /// The URL, if it lies under the backend's own address: a secret never goes anywhere else.
    fn own(&self, text: &str) -> Result<Url, String> {
        let url = Url::parse(text).map_err(|error| format!("`{text}` is not an address ({error})"))?;
        let base = &self.backend.base_url;
        let under = url.path().starts_with(&format!("{}/", base.path().trim_end_matches('/')));
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        // What was approved is what is called: a text that a URL parser rewrites (`..`, say) is not.
        if url.origin() != base.origin() || !under || !plain || url.as_str() != text {
            return Err(format!("`{text}` does not lie under {base}"));
        }
        Ok(url)
    }
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is not a header's name"))?;
    let value = HeaderValue::from_str(value).map_err(|_| format!("the header `{name}` holds characters it cannot carry"))?;
    put(headers, name, value)
}

/// Adds a header that is not there yet: the second would replace the first, and what left would not be what was approved.
fn put(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) -> Result<(), String> {
    if headers.contains_key(&name) {
        return Err(format!("the header `{name}` is set twice: give it one place in the backend file"));
    }
    headers.insert(name, value);
    Ok(())
}
