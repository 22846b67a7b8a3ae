//! What a backend tells by itself: an event whose signature fits, and what it says of a draft, by the backend's own file.
//!
//! The signature is one that many providers use: `t=SECONDS,v1=HEX`, where HEX is HMAC-SHA256 over `SECONDS.BODY` under a shared secret.

use std::path::Path;
use std::time::Duration;

use ring::hmac;
use serde_json::Value;

use super::answer::pointer_at;
use super::classify::{Classified, Outcome};
use super::condition::{Condition, Subject};
use super::operation::{Backend, Operation};
use super::secrets::{Environment, Source, source};
use super::template::Context;
use super::unique_json;
use crate::domain::digest::Digest;
use crate::domain::draft::{DraftDocument, IdempotencyKey};
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::settings::{Mistake, Section};

/// The longest signature header that is read.
const MAX_HEADER: usize = 2048;
/// The most signatures that are compared.
const MAX_SIGNATURES: usize = 8;
/// The shortest secret: shorter ones can be guessed from one signature.
const MIN_SECRET: usize = 16;
/// The longest id and type of an event.
const MAX_NAME: usize = 255;

/// How a backend's events are recognised.
#[derive(Debug, Clone)]
pub(super) struct Webhook {
    header: String,
    tolerance: Duration,
    secrets: Source,
    id: String,
    kind: String,
}

/// An event that the backend signed, not older and not newer than the file allows.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendEvent {
    /// The backend's own id of it, the same each time it is delivered.
    pub id: String,
    /// Its type, in the backend's words.
    pub kind: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
    body: Value,
}

/// Why an event is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The backend's file declares none, or this process does not hold its secrets.
    #[error("this backend sends no events here")]
    NotDeclared,
    /// There is no signature of the expected form.
    #[error("the signature header is missing or not `t=SECONDS,v1=HEX`")]
    SignatureMissing,
    /// No signature is one of ours.
    #[error("no signature fits the body under a secret that is known here")]
    SignatureInvalid,
    /// It was signed too long ago, or in the future.
    #[error("it was signed {0}, by the clock here")]
    Time(&'static str),
    /// It is not an event as the file describes them.
    #[error("{0}")]
    Malformed(String),
}

/// By what an event names the draft it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The draft's id, as it was sent.
    pub draft: Option<String>,
    /// The idempotency key, as it was sent.
    pub key: Option<String>,
    /// The backend's id of what was made.
    pub reference: Option<String>,
}

/// What an operation's events mean.
#[derive(Debug, Clone)]
pub(super) struct Events {
    pub(super) draft: Option<String>,
    pub(super) key: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) require: Vec<Condition>,
    pub(super) trust: Trust,
    pub(super) on: Vec<EventRule>,
}

/// What an event that agrees with its draft is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The backend is looked at; only what is found there counts.
    LookUp,
    /// The backend cannot be asked: its signed word counts.
    Event,
}

/// One kind of event.
#[derive(Debug, Clone)]
pub(super) struct EventRule {
    pub(super) name: String,
    pub(super) types: Vec<String>,
    pub(super) when: Vec<Condition>,
    pub(super) outcome: Outcome,
}

impl Webhook {
    /// Reads the table `webhook`.
    pub(super) fn read(section: Section<'_>, dir: &Path) -> Option<Self> {
        let kind = section.word("signature", &[("timestamped", ())]);
        let header = section.text("header", "the name of the header with the signature, in lower case");
        let name = header.and_then(|text| {
            let name = http::HeaderName::from_bytes(text.as_bytes())
                .ok()
                .filter(|name| name.as_str() == text);
            if name.is_none() {
                section.wrong("header", format!("`{text}` is not a header's name in lower case"));
            }
            name
        });
        let tolerance = section.duration("tolerance", Duration::from_secs(300));
        if tolerance.is_some_and(|t| t < Duration::from_secs(1) || t > Duration::from_secs(3600)) {
            section.wrong(
                "tolerance",
                "expected `1s` to `1h`: how far the backend's clock and ours may be apart, delivery included",
            );
        }
        let secrets = source(&section, "secrets", dir);
        let at = |key: &str| {
            let text = section.text(key, "a JSON pointer such as `/id`")?;
            pointer_at(&section, key, text)
        };
        let (id, event_type) = (at("id"), at("type"));
        section.close();
        kind?;
        Some(Self {
            header: name?.as_str().to_owned(),
            tolerance: tolerance?,
            secrets: secrets?,
            id: id?,
            kind: event_type?,
        })
    }

    /// Reads the secrets, one a line. A mistake never holds any of their text.
    fn resolve(&self, env: Environment<'_>) -> Result<Vec<Secret>, String> {
        let text = self.secrets.fetch(env)?;
        let secrets: Vec<Secret> = text.expose().split_whitespace().map(|one| Secret::new(one.to_owned())).collect();
        if secrets.iter().any(|secret| secret.expose().len() < MIN_SECRET) {
            return Err(format!(
                "a secret is shorter than {MIN_SECRET} characters: write the backend's signing secrets, one a line"
            ));
        }
        if secrets.len() > 4 {
            return Err("more than four secrets: keep the current one and those it replaces".to_owned());
        }
        Ok(secrets)
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

    /// The event, if the backend signed these bytes and did so about now.
    pub(super) fn open(&self, backend: &Backend, header: Option<&str>, body: &[u8], now: Timestamp) -> Result<BackendEvent, EventError> {
        let webhook = backend
            .webhook
            .as_ref()
            .filter(|_| !self.0.is_empty())
            .ok_or(EventError::NotDeclared)?;
        let signed = Signed::parse(header).ok_or(EventError::SignatureMissing)?;
        // Whoever cannot sign learns nothing else.
        if !signed.fits(&self.0, body) {
            return Err(EventError::SignatureInvalid);
        }
        let tolerance = i64::try_from(webhook.tolerance.as_millis()).unwrap_or(i64::MAX);
        let at = signed.seconds.saturating_mul(1000);
        if now.millis().saturating_sub(at) > tolerance {
            return Err(EventError::Time("too long ago"));
        }
        if at.saturating_sub(now.millis()) > tolerance {
            return Err(EventError::Time("in the future"));
        }
        let value =
            unique_json::parse(body).map_err(|why| EventError::Malformed(format!("the event is not JSON with each key once: {why}")))?;
        let name = |pointer: &str| -> Result<String, EventError> {
            let found = value.pointer(pointer).and_then(Value::as_str);
            found
                .filter(|text| (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()))
                .map(str::to_owned)
                .ok_or_else(|| EventError::Malformed(format!("the event has no name of 1 to {MAX_NAME} visible characters at {pointer}")))
        };
        Ok(BackendEvent {
            id: name(&webhook.id)?,
            kind: name(&webhook.kind)?,
            sha256: Digest::of(body),
            body: value,
        })
    }
}

impl Webhook {
    fn warn_if_readable(&self) {
        if let Source::File(path) = &self.secrets {
            super::secrets::warn_if_readable(path);
        }
    }
}

impl Backend {
    /// The name of the header with the signature of its events; `None` where its file declares no events.
    #[must_use]
    pub fn event_header(&self) -> Option<&str> {
        self.webhook.as_ref().map(|webhook| webhook.header.as_str())
    }
}

/// A signature header, read.
struct Signed<'h> {
    seconds: i64,
    /// The time as it stands in the header: these characters are signed.
    time: &'h str,
    signatures: Vec<Vec<u8>>,
}

impl<'h> Signed<'h> {
    /// Reads `t=SECONDS,v1=HEX,…`; other schemes are passed over, as is what is not hexadecimal.
    fn parse(header: Option<&'h str>) -> Option<Self> {
        let header = header.filter(|text| text.len() <= MAX_HEADER)?;
        let mut time = None;
        let mut signatures = Vec::new();
        for element in header.split(',') {
            match element.trim().split_once('=')? {
                ("t", text) if time.is_none() => time = Some(text),
                ("t", _) => return None,
                ("v1", text) => signatures.extend(bytes_of(text)),
                _ => {}
            }
        }
        let time = time.filter(|text| (1..=12).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()))?;
        if signatures.is_empty() || signatures.len() > MAX_SIGNATURES {
            return None;
        }
        Some(Self {
            seconds: time.parse().ok()?,
            time,
            signatures,
        })
    }

    /// Whether any signature is that of any secret; compared in constant time.
    fn fits(&self, secrets: &[Secret], body: &[u8]) -> bool {
        let mut signed = Vec::with_capacity(self.time.len() + 1 + body.len());
        signed.extend_from_slice(self.time.as_bytes());
        signed.push(b'.');
        signed.extend_from_slice(body);
        secrets.iter().any(|secret| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
            self.signatures.iter().any(|given| hmac::verify(&key, &signed, given).is_ok())
        })
    }
}

/// The 32 bytes of a signature in hexadecimal.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
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

impl Operation {
    /// Whether an event of this type can be about this operation.
    #[must_use]
    pub fn has_events_of(&self, kind: &str) -> bool {
        self.events()
            .is_some_and(|events| events.on.iter().any(|rule| rule.types.iter().any(|t| t == kind)))
    }

    /// What an event that agrees with its draft is good for; `None` where the operation has no events.
    #[must_use]
    pub fn trust_in_events(&self) -> Option<Trust> {
        self.events().map(|events| events.trust)
    }

    fn events(&self) -> Option<&Events> {
        self.write().and_then(|write| write.events.as_ref())
    }

    /// By what the event names the draft it is about.
    #[must_use]
    pub fn marks(&self, event: &BackendEvent) -> Marks {
        let at = |pointer: Option<&String>| {
            let text = event.body.pointer(pointer?)?.as_str()?;
            (1..=MAX_NAME).contains(&text.len()).then(|| text.to_owned())
        };
        let events = self.events();
        Marks {
            draft: at(events.and_then(|e| e.draft.as_ref())),
            key: at(events.and_then(|e| e.key.as_ref())),
            reference: at(events.and_then(|e| e.reference.as_ref())),
        }
    }

    /// What the event says of this draft: applied, pending or failed; ambiguous, with why, if it does not agree with the draft or no rule covers
    /// it.
    #[must_use]
    pub fn told(&self, draft: &DraftDocument, key: &IdempotencyKey, event: &BackendEvent) -> Classified {
        let ambiguous = |rule: String| Classified {
            outcome: Outcome::Ambiguous,
            reference: None,
            rule,
        };
        let Some(events) = self.events() else {
            return ambiguous("the operation has no events".to_owned());
        };
        let text = key.to_string();
        let context = Context {
            key: Some(&text),
            ..self.context(draft)
        };
        let headers = std::collections::BTreeMap::new();
        let subject = Subject {
            body: &event.body,
            headers: &headers,
        };
        let chosen = events
            .on
            .iter()
            .find(|rule| rule.types.contains(&event.kind) && rule.when.iter().all(|condition| condition.holds(subject, &context)));
        let Some(rule) = chosen else {
            return ambiguous("no rule covers this event".to_owned());
        };
        if let Some(broken) = events.require.iter().find(|condition| !condition.holds(subject, &context)) {
            return ambiguous(format!("{}: {} is not what the draft says", rule.name, broken.place()));
        }
        Classified {
            outcome: rule.outcome,
            reference: self.marks(event).reference,
            rule: rule.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(header: &str) -> Option<(i64, usize)> {
        Signed::parse(Some(header)).map(|signed| (signed.seconds, signed.signatures.len()))
    }

    #[test]
    fn a_signature_header_has_one_time_and_at_least_one_signature() {
        let hex = "ab".repeat(32);
        assert_eq!(parsed(&format!("t=12,v1={hex}")), Some((12, 1)));
        assert_eq!(parsed(&format!("v0=x, t=12 ,v1={hex},v1={hex}")), Some((12, 2)));
        assert_eq!(parsed(&format!("t=12,v1=zz,v1={hex}")), Some((12, 1)));
        let many = format!("t=1{}", format!(",v1={hex}").repeat(9));
        let long = format!("t=1,v1={hex},v0={}", "x".repeat(MAX_HEADER));
        for bad in [
            "",
            "t=12",
            &format!("v1={hex}"),
            &format!("t=,v1={hex}"),
            &format!("t=-1,v1={hex}"),
            &format!("t=+1,v1={hex}"),
            &format!("t=1e3,v1={hex}"),
            &format!("t=1234567890123,v1={hex}"),
            &format!("t=1,t=2,v1={hex}"),
            &format!("t=1,v1={}", &hex[2..]),
            &format!("t=1;v1={hex}"),
            &many,
            &long,
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
        assert!(Signed::parse(None).is_none());
    }
}
