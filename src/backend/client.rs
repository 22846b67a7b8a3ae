//! The HTTP client of one backend: sends once, follows nothing, and never calls "no answer" a "no".

use std::collections::BTreeMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls_platform_verifier::BuilderVerifierExt as _;
use url::{Host, Url};

use super::address::refusal;
use super::answer::Answer;
use super::headers::is_reserved;
use super::operation::{Backend, Private, ReadPlan};
use super::secrets::{Credential, Environment, Headers, Need};
use crate::domain::digest::Digest;
use crate::domain::draft::{CompiledRequest, IdempotencyKey, KeyPlacement};
use crate::settings::Mistake;

/// Talks to one backend with the secrets of one role.
#[derive(Debug)]
pub struct Client {
    backend: Arc<Backend>,
    http: reqwest::Client,
    headers: Headers,
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
    #[error("the backend cannot be reached: {0}")]
    Unreachable(String),
    /// No whole answer.
    #[error("the backend gave no whole answer: {0}")]
    Lost(String),
}

impl Client {
    /// Reads the role's secrets and builds the client. Opens no connection.
    ///
    /// # Errors
    /// Every secret that is missing, and a TLS setup that cannot work.
    pub fn connect(backend: &Arc<Backend>, need: Need, env: Environment<'_>) -> Result<Self, Vec<Mistake>> {
        let file = format!("{}.toml", backend.name);
        let headers = backend.auth.resolve(&file, need, env)?;
        let http = http_client(backend).map_err(|problem| {
            vec![Mistake {
                file,
                place: "base_url".to_owned(),
                problem,
            }]
        })?;
        Ok(Self {
            backend: Arc::clone(backend),
            http,
            headers,
        })
    }

    /// One GET.
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
        let response = self.http.get(url).headers(headers).send().await.map_err(|error| {
            if error.is_connect() {
                ReadError::Unreachable(chain(error))
            } else {
                ReadError::Lost(chain(error))
            }
        })?;
        self.whole(response).await.map_err(ReadError::Lost)
    }

    /// Sends the stored bytes with the stored key, once.
    ///
    /// Dropping the future mid-way is as if the answer were [`Sent::Lost`]: the request may have left.
    pub async fn send(&self, request: &CompiledRequest, key: &IdempotencyKey) -> Sent {
        let (method, url, headers) = match self.prepare(request, key) {
            Ok(ready) => ready,
            Err(why) => return Sent::NotSent { why },
        };
        // From here on bytes may leave. Only a failure to connect proves that none did; every other one is looked up by the caller.
        let sent = self
            .http
            .request(method, url)
            .headers(headers)
            .body(request.wire_body(key))
            .send()
            .await;
        match sent {
            Ok(response) => match self.whole(response).await {
                Ok(answer) => Sent::Answer(answer),
                Err(why) => Sent::Lost { why },
            },
            Err(error) if error.is_connect() || error.is_builder() => Sent::NotSent { why: chain(error) },
            Err(error) => Sent::Lost { why: chain(error) },
        }
    }

    fn prepare(&self, request: &CompiledRequest, key: &IdempotencyKey) -> Result<(Method, Url, HeaderMap), String> {
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
        Ok((method, url, headers))
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

    async fn whole(&self, mut response: reqwest::Response) -> Result<Answer, String> {
        let limit = self.backend.max_response;
        let too_long = || format!("the answer is longer than {limit} bytes");
        let status = response.status().as_u16();
        let headers: BTreeMap<String, String> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(chain)? {
            if body.len() + chunk.len() > limit {
                return Err(too_long());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body })
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

/// The error and its causes in one line, without the URL.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

fn http_client(backend: &Backend) -> Result<reqwest::Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    // A backend on plain loopback needs no trust anchors, and a machine may have none.
    let mut tls = if backend.base_url.scheme() == "https" {
        builder
            .with_platform_verifier()
            .map_err(|error| format!("the machine's trusted certificates cannot be read ({error}): install its CA bundle"))?
            .with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    if let Some(ip) = match backend.base_url.host() {
        Some(Host::Ipv4(ip)) => Some(ip.into()),
        Some(Host::Ipv6(ip)) => Some(ip.into()),
        _ => None,
    } && let Some(why) = refusal(ip, backend.private)
    {
        return Err(format!("{ip} {why}"));
    }
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(Resolver::of(backend))
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .http1_only()
        .https_only(backend.base_url.scheme() == "https")
        .connect_timeout(backend.connect_timeout)
        .timeout(backend.total_timeout)
        .user_agent(concat!("writ/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("the HTTP client cannot be built: {}", chain(error)))
}

/// The system's resolver, without addresses a backend must not be at.
#[derive(Debug, Clone, Copy)]
struct Resolver {
    private: Private,
    /// Without TLS a secret must not leave the machine, whatever a name resolves to.
    reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Anywhere,
    Loopback,
}

impl Resolver {
    fn of(backend: &Backend) -> Self {
        let plain = backend.base_url.scheme() != "https";
        Self {
            private: backend.private,
            reach: if plain { Reach::Loopback } else { Reach::Anywhere },
        }
    }

    fn refusal(self, ip: IpAddr) -> Option<&'static str> {
        if self.reach == Reach::Loopback && !ip.is_loopback() {
            return Some("is not a loopback address, and without https secrets would leave the machine unencrypted");
        }
        refusal(ip, self.private)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = *self;
        Box::pin(async move {
            let mut allowed = Vec::new();
            let mut why = "has no address";
            for address in tokio::net::lookup_host((name.as_str(), 0)).await? {
                match resolver.refusal(address.ip()) {
                    None => allowed.push(address),
                    Some(refused) => why = refused,
                }
            }
            if allowed.is_empty() {
                return Err(format!("`{}` {why}", name.as_str()).into());
            }
            let addresses: Addrs = Box::new(allowed.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_a_name_must_lead_to_this_machine() {
        let plain = Resolver {
            private: Private::Allowed,
            reach: Reach::Loopback,
        };
        for ip in ["10.0.0.1", "8.8.8.8", "fd12::1"] {
            assert!(plain.refusal(ip.parse().unwrap()).is_some(), "{ip}");
        }
        assert_eq!(plain.refusal("127.0.0.1".parse().unwrap()), None);
        let tls = Resolver {
            private: Private::Refused,
            reach: Reach::Anywhere,
        };
        assert_eq!(tls.refusal("8.8.8.8".parse().unwrap()), None);
        assert!(tls.refusal("127.0.0.1".parse().unwrap()).is_some());
    }
}
