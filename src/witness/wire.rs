//! The way to one witness: HTTP/1.1, over TLS wherever it leaves the machine; one request, one answer of bounded size and time.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rustls_platform_verifier::BuilderVerifierExt as _;
use url::Url;

use super::exchange::MAX_ANSWER;
use super::settings::WitnessAt;

const CONNECT: Duration = Duration::from_secs(3);
const TOTAL: Duration = Duration::from_secs(8);

/// A witness and the way to it.
#[derive(Debug)]
pub struct Connected {
    pub(super) at: WitnessAt,
    submit: Url,
    client: reqwest::Client,
}

impl Connected {
    /// Prepares the way to each of them. Opens no connection.
    ///
    /// # Errors
    /// A sentence for each to which there is none.
    pub fn all(witnesses: &[WitnessAt]) -> Result<Vec<Self>, Vec<String>> {
        let (mut ready, mut faults) = (Vec::new(), Vec::new());
        for at in witnesses {
            match client(&at.url) {
                Ok(client) => ready.push(Self {
                    submit: submission(&at.url),
                    at: at.clone(),
                    client,
                }),
                Err(why) => faults.push(format!("the witness {}: {why}", at.key.name())),
            }
        }
        if faults.is_empty() { Ok(ready) } else { Err(faults) }
    }

    /// Posts a body and gives the status and the answer.
    pub(super) async fn post(&self, body: String) -> Result<(u16, Vec<u8>), String> {
        let request = self.client.post(self.submit.clone()).body(body);
        let mut response = request.send().await.map_err(chain)?;
        let status = response.status().as_u16();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(chain)? {
            if answer.len() + chunk.len() > MAX_ANSWER {
                return Err(format!("its answer is longer than {MAX_ANSWER} bytes"));
            }
            answer.extend_from_slice(&chunk);
        }
        Ok((status, answer))
    }
}

fn submission(prefix: &Url) -> Url {
    let mut url = prefix.clone();
    url.set_path(&format!("{}/add-checkpoint", prefix.path().trim_end_matches('/')));
    url
}

fn client(url: &Url) -> Result<reqwest::Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let is_https = url.scheme() == "https";
    // A witness on this machine needs no trust anchors, and a machine may have none.
    let mut tls = if is_https {
        builder
            .with_platform_verifier()
            .map_err(|error| format!("the machine's trusted certificates cannot be read ({error}): install its CA bundle"))?
            .with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .http1_only()
        .https_only(is_https)
        .connect_timeout(CONNECT)
        .timeout(TOTAL)
        .user_agent(concat!("writ/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("the HTTP client cannot be built: {}", chain(error)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_below_the_prefix_with_or_without_a_slash() {
        for (prefix, whole) in [
            ("https://w.example", "https://w.example/add-checkpoint"),
            ("https://w.example/a/", "https://w.example/a/add-checkpoint"),
        ] {
            assert_eq!(submission(&Url::parse(prefix).unwrap()).as_str(), whole);
        }
    }
}
