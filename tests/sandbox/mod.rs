//! The sandbox behaves as the provider it stands for, fails as it is told to, and writes down what came.

mod faults;
mod idempotency;
mod payments;
mod shop;

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use writ::sandbox::{RunningSandbox, Sandbox, SandboxConfig};

use crate::support::{ManualClock, SeededEntropy};

/// How long something may take that is certain to happen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sandbox with a clock of the test's own, and a client that never retries, follows or pools.
struct Bench {
    sandbox: RunningSandbox,
    clock: Arc<ManualClock>,
    client: reqwest::Client,
}

/// An answer, read whole.
#[derive(Debug)]
struct Said {
    status: StatusCode,
    headers: reqwest::header::HeaderMap,
    body: Value,
}

impl Said {
    fn error(&self, member: &str) -> &str {
        self.body["error"][member].as_str().unwrap_or("")
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Bench {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let config = SandboxConfig::new(Arc::clone(&clock) as _, Arc::new(SeededEntropy::new(7)));
        let sandbox = Sandbox::start(config).await.unwrap();
        // Another test of this process may have installed it already; either way it is there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .timeout(PATIENCE)
            .build()
            .unwrap();
        Self { sandbox, clock, client }
    }

    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.sandbox.url))
    }

    fn write(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(self.sandbox.write_key().expose())
    }

    fn form(&self, path: &str, body: &str) -> RequestBuilder {
        self.write(Method::POST, path)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.to_owned())
    }

    async fn read(&self, path: &str) -> Said {
        let key = self.sandbox.read_key().expose();
        said(self.bare(Method::GET, path).bearer_auth(key)).await
    }

    async fn refund(&self, key: &str, body: &str) -> Said {
        said(self.form("/v1/refunds", body).header("idempotency-key", key)).await
    }

    /// Waits until a request is held; fails rather than wait for ever.
    async fn held(&self) {
        tokio::time::timeout(PATIENCE, self.sandbox.held(1))
            .await
            .expect("nothing was held");
    }

    fn effects(&self) -> usize {
        self.sandbox.requests().iter().filter(|seen| seen.effect).count()
    }
}

async fn said(request: RequestBuilder) -> Said {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    Said { status, headers, body }
}
