//! Which certificate a client must show beside its secret (RFC 8705 section 2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::digest::Digest;

/// What a client's certificate must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientCertificate {
    /// Exactly this one, by the SHA-256 of its DER bytes; a renewed one must be registered anew.
    Thumbprint(Digest),
    /// Any that the clients' authority signed for this DNS name.
    SanDns(String),
    /// Any that the clients' authority signed for this URI.
    SanUri(String),
}

/// Text that names no certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected x5t#S256:HASH (43 characters of base64url, or 64 hex digits), san_dns:NAME or san_uri:URI")]
pub struct ClientCertificateError;

impl FromStr for ClientCertificate {
    type Err = ClientCertificateError;
    fn from_str(text: &str) -> Result<Self, ClientCertificateError> {
        let (kind, value) = text.split_once(':').ok_or(ClientCertificateError)?;
        let fits = !value.is_empty() && value.len() <= 500 && value.bytes().all(|b| b.is_ascii_graphic());
        match kind {
            "x5t#S256" => thumbprint(value).map(Self::Thumbprint),
            // Names are compared letter by letter: one that could stand for others would stand for none.
            "san_dns" if fits && !value.contains('*') => Some(Self::SanDns(value.to_ascii_lowercase())),
            "san_uri" if fits && value.contains(':') => Some(Self::SanUri(value.to_owned())),
            _ => None,
        }
        .ok_or(ClientCertificateError)
    }
}

/// In base64url, or in hex digits as OpenSSL prints it, with or without colons.
fn thumbprint(text: &str) -> Option<Digest> {
    if let Some(digest) = Digest::parse(text) {
        return Some(digest);
    }
    let hex: Vec<u8> = text.bytes().filter(|b| *b != b':').collect();
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes = hex.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
    bytes.try_into().ok().map(Digest::from_bytes)
}

impl fmt::Display for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thumbprint(digest) => write!(f, "x5t#S256:{digest}"),
            Self::SanDns(name) => write!(f, "san_dns:{name}"),
            Self::SanUri(uri) => write!(f, "san_uri:{uri}"),
        }
    }
}

impl Serialize for ClientCertificate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ClientCertificate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thumbprint_reads_in_the_forms_that_tools_print() {
        let digest = Digest::of(b"der");
        let hex: Vec<String> = digest.as_bytes().iter().map(|b| format!("{b:02X}")).collect();
        for text in [digest.to_string(), hex.concat(), hex.join(":")] {
            let read: ClientCertificate = format!("x5t#S256:{text}").parse().unwrap();
            assert_eq!(read, ClientCertificate::Thumbprint(digest));
            assert_eq!(read.to_string().parse(), Ok(read));
        }
    }

    #[test]
    fn a_name_that_could_stand_for_others_names_nothing() {
        for bad in [
            "san_dns:*.example",
            "san_dns:",
            "san_uri:agent",
            "x5t#S256:00",
            "dns:a.example",
            "a.example",
            "san_dns:a b",
        ] {
            assert!(bad.parse::<ClientCertificate>().is_err(), "{bad}");
        }
        assert_eq!("san_dns:A.Example".parse(), Ok(ClientCertificate::SanDns("a.example".to_owned())));
    }
}
