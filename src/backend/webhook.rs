//! What a backend tells by itself: an event whose signature fits.

use std::path::Path;

use ring::hmac;
use serde_json::Value;

use super::operation::Backend;
use super::secrets::{Environment, Source, source};
use super::signed_fields::SignedFields;
use super::signed_header::SignedHeader;
use crate::domain::digest::Digest;
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::settings::{Mistake, Section};

/// The shortest secret: shorter ones can be guessed from one signature.
const MIN_SECRET: usize = 16;
/// The most secrets: the current one and those it replaces.
const MAX_SECRETS: usize = 4;
/// The longest id and type of an event.
pub(super) const MAX_NAME: usize = 255;

/// How a backend's events are recognised.
#[derive(Debug, Clone)]
pub(super) struct Webhook {
    scheme: Scheme,
    secrets: Source,
}

#[derive(Debug, Clone)]
enum Scheme {
    /// `timestamped`: a header over the time and the whole body.
    Header(SignedHeader),
    /// `joined`: a signature in the body, over some of its values.
    Fields(SignedFields),
}

/// An event that the backend signed, not older and not newer than the file allows.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendEvent {
    /// The backend's own id of it, the same each time it is delivered; the hash of what was signed if that reads in more than one way.
    pub id: String,
    /// Its type, in the backend's words; `None` if what was signed reads in more than one way, so that nothing may follow from it.
    pub kind: Option<String>,
    /// SHA-256 of the bytes that were signed.
    pub sha256: Digest,
    /// What was signed, and nothing else.
    pub(super) body: Value,
}

/// Why an event is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The backend's file declares none, or this process does not hold its secrets.
    #[error("this backend sends no events here")]
    NotDeclared,
    /// There is no signature of the expected form.
    #[error("there is no signature in {0}")]
    SignatureMissing(&'static str),
    /// No signature is one of ours.
    #[error("no signature fits the event under a secret that is known here")]
    SignatureInvalid,
    /// It was signed too long ago, or in the future.
    #[error("it was signed {0}, by the clock here")]
    Time(&'static str),
    /// It is not an event as the file describes them.
    #[error("{0}")]
    Malformed(String),
}

impl EventError {
    pub(super) fn not_json(why: &str) -> Self {
        Self::Malformed(format!("the event is not JSON with each key once: {why}"))
    }
}

impl Webhook {
    /// Reads the table `webhook`.
    pub(super) fn read(section: Section<'_>, dir: &Path) -> Option<Self> {
        #[derive(Clone, Copy)]
        enum Kind {
            Timestamped,
            Joined,
        }
        let kind = section.word("signature", &[("timestamped", Kind::Timestamped), ("joined", Kind::Joined)]);
        let secrets = source(&section, "secrets", dir);
        let scheme = match kind? {
            Kind::Timestamped => SignedHeader::read(&section).map(Scheme::Header),
            Kind::Joined => SignedFields::read(&section).map(Scheme::Fields),
        };
        section.close();
        Some(Self {
            scheme: scheme?,
            secrets: secrets?,
        })
    }

    /// The places of an event that are signed; `None` where all of it is.
    pub(super) fn signed(&self) -> Option<&[String]> {
        match &self.scheme {
            Scheme::Header(_) => None,
            Scheme::Fields(fields) => Some(fields.signed()),
        }
    }

    /// Reads the secrets, one a line. A mistake never holds any of their text.
    fn resolve(&self, env: Environment<'_>) -> Result<Vec<Secret>, String> {
        let text = self.secrets.fetch(env)?;
        let secrets: Vec<Secret> = text.expose().split_whitespace().map(|one| Secret::new(one.to_owned())).collect();
        if secrets.iter().any(|secret| self.key(secret).is_none()) {
            return Err(match self.scheme {
                Scheme::Header(_) => {
                    format!("a secret is shorter than {MIN_SECRET} characters: write the backend's signing secrets, one a line")
                }
                Scheme::Fields(_) => {
                    "a secret is not 64 hexadecimal digits: write the keys that the backend made for this endpoint, one a line".to_owned()
                }
            });
        }
        if secrets.len() > MAX_SECRETS {
            return Err("more than four secrets: keep the current one and those it replaces".to_owned());
        }
        Ok(secrets)
    }

    /// The key that a secret stands for.
    fn key(&self, secret: &Secret) -> Option<hmac::Key> {
        let text = secret.expose();
        match self.scheme {
            Scheme::Header(_) => (text.len() >= MIN_SECRET).then(|| hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())),
            Scheme::Fields(_) => hex32(text).map(|bytes| hmac::Key::new(hmac::HMAC_SHA256, &bytes)),
        }
    }

    fn warn_if_readable(&self) {
        if let Source::File(path) = &self.secrets {
            super::secrets::warn_if_readable(path);
        }
    }
}

/// The secrets that a process holds to recognise a backend's events.
#[derive(Debug)]
pub(super) struct WebhookSecrets(Vec<Secret>);

impl WebhookSecrets {
    /// Those of the backend; none where its file declares no events.
    pub(super) fn of(backend: &Backend, env: Environment<'_>) -> Result<Self, Mistake> {
        let Some(webhook) = &backend.webhook else {
            return Ok(Self(Vec::new()));
        };
        webhook.warn_if_readable();
        webhook.resolve(env).map(Self).map_err(|problem| Mistake {
            file: format!("{}.toml", backend.name),
            place: "webhook.secrets".to_owned(),
            problem,
        })
    }

    /// None: another role's.
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// The event, if the backend signed it; where the signature holds a time, about now.
    pub(super) fn open(&self, backend: &Backend, header: Option<&str>, body: &[u8], now: Timestamp) -> Result<BackendEvent, EventError> {
        let webhook = backend
            .webhook
            .as_ref()
            .filter(|_| !self.0.is_empty())
            .ok_or(EventError::NotDeclared)?;
        let keys: Vec<hmac::Key> = self.0.iter().filter_map(|secret| webhook.key(secret)).collect();
        match &webhook.scheme {
            Scheme::Header(scheme) => scheme.open(&keys, header, body, now),
            Scheme::Fields(scheme) => scheme.open(&keys, body),
        }
    }
}

impl Backend {
    /// Whether it sends events here.
    #[must_use]
    pub const fn sends_events(&self) -> bool {
        self.webhook.is_some()
    }

    /// The name of the header with the signature of its events; `None` where there is none, or the signature is in the body.
    #[must_use]
    pub fn event_header(&self) -> Option<&str> {
        match &self.webhook.as_ref()?.scheme {
            Scheme::Header(scheme) => Some(&scheme.header),
            Scheme::Fields(_) => None,
        }
    }
}

/// Whether this can be an event's id or type.
pub(super) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// 32 bytes in hexadecimal.
pub(super) fn hex32(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16)?.try_into().ok()).collect::<Option<_>>()?;
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}
