//! What a certificate says (RFC 5280): when it holds, whose it is, and its thumbprint (RFC 8705 section 3.1).

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::domain::client_certificate::ClientCertificate;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// A certificate, as far as anybody here asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// SHA-256 of its DER bytes: `x5t#S256`.
    pub thumbprint: Digest,
    /// First moment it holds.
    pub not_before: Timestamp,
    /// Last moment it holds.
    pub not_after: Timestamp,
    /// The DNS names in its subject alternative name, in lower case.
    pub dns: Vec<String>,
    /// The URIs in its subject alternative name, as they are written.
    pub uris: Vec<String>,
}

/// Bytes that are not one X.509 certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not an X.509 certificate: {0}")]
pub struct CertificateError(String);

impl Certificate {
    /// Reads the DER bytes of one certificate.
    ///
    /// # Errors
    /// [`CertificateError`], also where something follows it.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let wrong = |why: &dyn std::fmt::Display| CertificateError(why.to_string());
        let (rest, read) = X509Certificate::from_der(der).map_err(|error| wrong(&error))?;
        if !rest.is_empty() {
            return Err(wrong(&"something follows it"));
        }
        let names = read.subject_alternative_name().map_err(|error| wrong(&error))?;
        let names = names.map_or(&[][..], |extension| &extension.value.general_names);
        let dns = names.iter().filter_map(|name| match name {
            GeneralName::DNSName(dns) => Some(dns.to_ascii_lowercase()),
            _ => None,
        });
        let uris = names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        });
        Ok(Self {
            thumbprint: Digest::of(der),
            not_before: Timestamp::from_seconds(read.validity().not_before.timestamp()),
            not_after: Timestamp::from_seconds(read.validity().not_after.timestamp()),
            dns: dns.collect(),
            uris: uris.collect(),
        })
    }

    /// Everything a client can be registered with to be recognised by this certificate.
    #[must_use]
    pub fn names(&self) -> Vec<ClientCertificate> {
        let dns = self.dns.iter().cloned().map(ClientCertificate::SanDns);
        let uris = self.uris.iter().cloned().map(ClientCertificate::SanUri);
        std::iter::once(ClientCertificate::Thumbprint(self.thumbprint))
            .chain(dns)
            .chain(uris)
            .collect()
    }

    /// Whether it holds at `now`.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }
}
