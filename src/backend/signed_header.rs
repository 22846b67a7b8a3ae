//! Events signed in a header, `t=SECONDS,v1=HEX`, where HEX is HMAC-SHA256 over `SECONDS.BODY` under a shared secret: the whole body is signed, and when.

use std::time::Duration;

use ring::hmac;
use serde_json::Value;

use super::answer::pointer_at;
use super::unique_json;
use super::webhook::{BackendEvent, EventError, MAX_NAME, hex32};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::settings::Section;

/// The longest signature header that is read.
const MAX_HEADER: usize = 2048;
/// The most signatures that are compared.
const MAX_SIGNATURES: usize = 8;

/// The header, how old a signature may be, and where an event's id and type stand.
#[derive(Debug, Clone)]
pub(super) struct SignedHeader {
    pub(super) header: String,
    tolerance: Duration,
    id: String,
    kind: String,
}

impl SignedHeader {
    /// Reads the keys of this scheme from the table `webhook`.
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
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
        let at = |key: &str| {
            let text = section.text(key, "a JSON pointer such as `/id`")?;
            pointer_at(section, key, text)
        };
        let (id, kind) = (at("id"), at("type"));
        Some(Self {
            header: name?.as_str().to_owned(),
            tolerance: tolerance?,
            id: id?,
            kind: kind?,
        })
    }

    /// The event, if these bytes were signed under one of the keys, about now.
    pub(super) fn open(&self, keys: &[hmac::Key], header: Option<&str>, body: &[u8], now: Timestamp) -> Result<BackendEvent, EventError> {
        let signed = Signed::parse(header).ok_or(EventError::SignatureMissing("the header, as `t=SECONDS,v1=HEX`"))?;
        // Whoever cannot sign learns nothing else.
        if !signed.fits(keys, body) {
            return Err(EventError::SignatureInvalid);
        }
        let tolerance = i64::try_from(self.tolerance.as_millis()).unwrap_or(i64::MAX);
        let at = signed.seconds.saturating_mul(1000);
        if now.millis().saturating_sub(at) > tolerance {
            return Err(EventError::Time("too long ago"));
        }
        if at.saturating_sub(now.millis()) > tolerance {
            return Err(EventError::Time("in the future"));
        }
        let value = unique_json::parse(body).map_err(|why| EventError::not_json(&why))?;
        let name = |pointer: &str| -> Result<String, EventError> {
            let found = value.pointer(pointer).and_then(Value::as_str);
            found
                .filter(|text| super::webhook::is_name(text))
                .map(str::to_owned)
                .ok_or_else(|| EventError::Malformed(format!("the event has no name of 1 to {MAX_NAME} visible characters at {pointer}")))
        };
        Ok(BackendEvent {
            id: name(&self.id)?,
            kind: Some(name(&self.kind)?),
            sha256: Digest::of(body),
            body: value,
        })
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
                ("v1", text) => signatures.extend(hex32(text)),
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

    /// Whether any signature is that of any key; compared in constant time.
    fn fits(&self, keys: &[hmac::Key], body: &[u8]) -> bool {
        let mut signed = Vec::with_capacity(self.time.len() + 1 + body.len());
        signed.extend_from_slice(self.time.as_bytes());
        signed.push(b'.');
        signed.extend_from_slice(body);
        keys.iter()
            .any(|key| self.signatures.iter().any(|given| hmac::verify(key, &signed, given).is_ok()))
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
