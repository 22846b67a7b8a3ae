//! How every client that calls out behaves: no redirects, no proxies, no retries of its own, no connection that is used again, TLS by the
//! machine's own trust.

use std::error::Error;
use std::sync::Arc;

use rustls_platform_verifier::BuilderVerifierExt as _;

/// A client that speaks HTTP/1.1, over TLS if it is to reach beyond this machine; times are the caller's to set.
///
/// # Errors
/// A sentence: TLS cannot be set up, or the machine's trusted certificates cannot be read.
pub fn http_client(is_https: bool) -> Result<reqwest::ClientBuilder, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    // Plain loopback needs no trust anchors, and a machine may have none.
    let mut tls = if is_https {
        builder
            .with_platform_verifier()
            .map_err(|error| format!("the machine's trusted certificates cannot be read ({error}): install its CA bundle"))?
            .with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .http1_only()
        .https_only(is_https)
        .user_agent(concat!("writ/", env!("CARGO_PKG_VERSION")));
    Ok(client)
}

/// The error and its causes in one line, without the URL.
pub fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
