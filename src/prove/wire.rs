//! HTTP to a deployment, as any client speaks it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde_json::{Value, json};

use super::outcome::{Amiss, Reply};
use super::settings::Login;

/// Longer than any call that waits here, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a call shows who makes it.
pub(super) enum By<'a> {
    Nobody,
    Client(&'a Login),
    Wrong(&'a Login),
    Bearer(&'a str),
}

/// What a call sends.
pub(super) enum Body<'a> {
    Nothing,
    Json(Value),
    Form(&'a [(&'a str, &'a str)]),
}

/// A client that follows no redirect and speaks past any proxy the environment names.
pub(super) struct Wire(reqwest::Client);

impl Wire {
    /// Trusts the authorities in `ca`, or without one those of the machine.
    pub(super) fn new(ca: Option<&Path>) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let tls = match ca {
            Some(path) => builder.with_root_certificates(roots(path)?).with_no_client_auth(),
            None => builder
                .with_platform_verifier()
                .map_err(|error| format!("the machine's trusted certificates cannot be read ({error}): name a file with `ca`"))?
                .with_no_client_auth(),
        };
        reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .map(Self)
            .map_err(|error| format!("no client can be set up: {error}"))
    }

    /// For loopback without TLS, on a machine that may have no trusted certificates at all.
    pub(super) fn plain() -> Result<Self, String> {
        reqwest::Client::builder()
            .tls_backend_preconfigured(
                rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .map_err(|error| format!("TLS cannot be set up: {error}"))?
                    .with_root_certificates(RootCertStore::empty())
                    .with_no_client_auth(),
            )
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .map(Self)
            .map_err(|error| format!("no client can be set up: {error}"))
    }

    /// One call, sent once.
    pub(super) async fn call(&self, method: Method, url: &str, by: By<'_>, body: Body<'_>) -> Result<Reply, Amiss> {
        let mut request = self.0.request(method, url);
        request = match by {
            By::Nobody => request,
            By::Client(login) => request.basic_auth(login.id.as_str(), Some(login.secret.expose())),
            By::Wrong(login) => request.basic_auth(login.id.as_str(), Some("not-the-secret")),
            By::Bearer(token) => request.bearer_auth(token),
        };
        request = match body {
            Body::Nothing => request,
            Body::Json(value) => request.header("content-type", "application/json").body(value.to_string()),
            Body::Form(pairs) => {
                let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
                request.header("content-type", "application/x-www-form-urlencoded").body(form)
            }
        };
        let lost = |error: reqwest::Error| Amiss::Unclear(format!("no answer came from {url}: {}", whole(&error)));
        let response = request.send().await.map_err(lost)?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(lost)?;
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Ok(Reply { status, body })
    }
}

/// An error with what is behind it, without the URL, which stands beside it.
fn whole(error: &reqwest::Error) -> String {
    let mut causes = vec![];
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    causes.pop().unwrap_or_else(|| "the connection failed".to_owned())
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let at = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| at(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| at(&error))?;
        roots.add(certificate).map_err(|error| at(&error))?;
    }
    if roots.is_empty() {
        return Err(at(&"holds no certificate; expected PEM"));
    }
    Ok(roots)
}
