//! The wire to a backend: one request out, one whole answer back. Behind a trait, so that what is above it runs unchanged over a model of a backend.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, Method};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::address::refusal;
use super::answer::Answer;
use super::http_client::{chain, http_client};
use super::operation::{Backend, Private};
use crate::crash_points::{Point, reached};

/// One request, ready to leave.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Every header, authentication and key included; values that are secret say so.
    pub headers: HeaderMap,
    /// The body, if it has one.
    pub body: Option<Vec<u8>>,
}

/// Why there is no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// Not a byte left.
    NotSent(String),
    /// Something may have left.
    Lost(String),
}

/// Carries requests to one backend.
#[async_trait]
pub trait Wire: Debug + Send + Sync {
    /// Carries one request, once: it follows no redirect, repeats nothing, and ends within the backend's total time-out.
    ///
    /// # Errors
    /// [`Broken`]; [`Broken::NotSent`] only if it is certain.
    async fn carry(&self, request: Outgoing) -> Result<Answer, Broken>;
}

/// Makes the wire to a backend. Opens no connection.
pub type Connect<'a> = &'a dyn Fn(&Arc<Backend>) -> Result<Box<dyn Wire>, String>;

/// The wire that every process uses: HTTP/1.1, over TLS wherever it leaves the machine.
///
/// # Errors
/// A sentence, if TLS cannot be set up or the address is one that a backend must not have.
pub(super) fn http(backend: &Arc<Backend>) -> Result<Box<dyn Wire>, String> {
    Ok(Box::new(HttpWire {
        client: client(backend)?,
        max_response: backend.max_response,
    }))
}

#[derive(Debug)]
struct HttpWire {
    client: reqwest::Client,
    max_response: usize,
}

#[async_trait]
impl Wire for HttpWire {
    async fn carry(&self, request: Outgoing) -> Result<Answer, Broken> {
        let Outgoing {
            method,
            url,
            headers,
            body,
        } = request;
        let is_write = body.is_some();
        let mut builder = self.client.request(method, url).headers(headers);
        if let Some(body) = body {
            builder = builder.body(body);
        }
        // Only a failure to connect proves that nothing left.
        match builder.send().await {
            Ok(response) => {
                if is_write {
                    reached(Point::SendHead);
                }
                self.whole(response).await.map_err(Broken::Lost)
            }
            Err(error) if error.is_connect() || error.is_builder() => Err(Broken::NotSent(chain(error))),
            Err(error) => Err(Broken::Lost(chain(error))),
        }
    }
}

impl HttpWire {
    async fn whole(&self, mut response: reqwest::Response) -> Result<Answer, String> {
        let limit = self.max_response;
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

fn client(backend: &Backend) -> Result<reqwest::Client, String> {
    if let Some(ip) = match backend.base_url.host() {
        Some(Host::Ipv4(ip)) => Some(ip.into()),
        Some(Host::Ipv6(ip)) => Some(ip.into()),
        _ => None,
    } && let Some(why) = refusal(ip, backend.private)
    {
        return Err(format!("{ip} {why}"));
    }
    http_client(backend.base_url.scheme() == "https")?
        .dns_resolver(Resolver::of(backend))
        .connect_timeout(backend.connect_timeout)
        .timeout(backend.total_timeout)
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
