//! The way to one witness: HTTP/1.1, over TLS wherever it leaves the machine; one request, one answer of bounded size and time.

use std::time::Duration;

use url::Url;

use super::exchange::MAX_ANSWER;
use super::settings::WitnessAt;
use crate::backend::{chain, http_client};

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
    http_client(url.scheme() == "https")?
        .connect_timeout(CONNECT)
        .timeout(TOTAL)
        .build()
        .map_err(|error| format!("the HTTP client cannot be built: {}", chain(error)))
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
