//! The files of a listener's TLS, read and checked into what rustls serves with.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::Certificate;
use crate::domain::digest::Digest;
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::settings::Section;

/// Whether a client must show a certificate to get a connection at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// A connection without one is served; a client that is registered with one must show it all the same.
    Optional,
    /// A connection without one is refused in the handshake.
    Required,
}

/// Where a listener's certificate, its key, and the authority of its clients' certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the listener's own certificate first, then those that lead to its authority.
    pub certificate: PathBuf,
    /// PEM: the private key of the first.
    pub key: PathBuf,
    /// PEM: the authorities that sign clients' certificates, and whether each client needs one.
    pub clients: Option<(PathBuf, Demand)>,
}

impl TlsFiles {
    /// Reads the table; relative paths are taken from `dir`.
    pub(crate) fn read(section: Section<'_>, dir: &Path) -> Option<Self> {
        let certificate = section.text("certificate", "a PEM file: the certificate and those that lead to its authority");
        let key = section.text("key", "a PEM file: the certificate's private key");
        let authority = section.maybe_text("client_ca", "a PEM file: the authorities that sign clients' certificates");
        let words = [("optional", Demand::Optional), ("required", Demand::Required)];
        let demand = section.maybe_word("client_certificate", &words);
        if demand.is_some() && authority.is_none() {
            section.wrong(
                "client_certificate",
                "needs `client_ca`: name the authority that signs clients' certificates",
            );
        }
        section.close();
        Some(Self {
            certificate: dir.join(certificate?),
            key: dir.join(key?),
            clients: authority.map(|path| (dir.join(path), demand.unwrap_or(Demand::Optional))),
        })
    }

    /// The bytes of all files, or everything that keeps them from being read.
    pub(super) fn contents(&self) -> Result<Contents, Vec<String>> {
        let (certificate, key) = (public(&self.certificate), private(&self.key));
        let authority = self.clients.as_ref().map(|(path, _)| public(path)).transpose();
        match (certificate, key, authority) {
            (Ok(certificate), Ok(key), Ok(authority)) => Ok(Contents {
                certificate,
                key,
                authority,
            }),
            (certificate, key, authority) => Err([certificate.err(), key.err(), authority.err()].into_iter().flatten().collect()),
        }
    }

    /// What rustls serves with, made of these bytes; or everything that is wrong with them.
    pub(super) fn serving(
        &self,
        contents: &Contents,
        now: Timestamp,
        time: Arc<dyn TimeProvider>,
    ) -> Result<(Arc<ServerConfig>, Certificate), Vec<String>> {
        let pair = self.pair(contents, now);
        let verifier = match (&self.clients, &contents.authority) {
            (Some((path, demand)), Some(bytes)) => client_verifier(path, *demand, bytes).map(Some),
            _ => Ok(None),
        };
        let ((key, leaf), verifier) = match (pair, verifier) {
            (Ok(pair), Ok(verifier)) => (pair, verifier),
            (pair, verifier) => return Err([pair.err(), verifier.err()].into_iter().flatten().collect()),
        };
        let at = |error: rustls::Error| vec![format!("{}: {error}", self.certificate.display())];
        let builder = ServerConfig::builder_with_details(Arc::new(default_provider()), time)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(at)?;
        let bound = verifier.is_some();
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if bound {
            // A session that is resumed is not verified anew: a client's certificate would hold for as long as its ticket.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((Arc::new(config), leaf))
    }

    fn pair(&self, contents: &Contents, now: Timestamp) -> Result<(CertifiedKey, Certificate), String> {
        let file = self.certificate.display();
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let first = chain.first().ok_or_else(|| format!("{file}: holds no certificate"))?;
        let leaf = Certificate::read(first).map_err(|error| format!("{file}: {error}"))?;
        if now > leaf.not_after {
            return Err(format!("{file}: expired at {}; renew it", leaf.not_after));
        }
        if now < leaf.not_before {
            return Err(format!(
                "{file}: holds from {} on; set this machine's clock right, or wait",
                leaf.not_before
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(contents.key.expose().as_bytes())
            .map_err(|_| format!("{}: holds no private key in PEM (PKCS #8, PKCS #1 or SEC 1)", self.key.display()))?;
        let key = default_provider().key_provider.load_private_key(key).map_err(|error| {
            format!(
                "{}: cannot be used ({error}); make an ECDSA, Ed25519 or RSA key",
                self.key.display()
            )
        })?;
        let pair = CertifiedKey::new(chain, key);
        pair.keys_match().map_err(|_| {
            format!(
                "{}: is not the key of the first certificate in {file}; name the pair that was issued together",
                self.key.display()
            )
        })?;
        Ok((pair, leaf))
    }
}

/// What the files hold.
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Secret,
    authority: Option<Vec<u8>>,
}

impl Contents {
    /// A hash over all of it, to see whether anything has changed.
    pub(super) fn digest(&self) -> Digest {
        let authority = self.authority.as_deref().unwrap_or_default();
        let parts = [&self.certificate, self.key.expose().as_bytes(), authority];
        let all: Vec<u8> = parts.iter().flat_map(|part| *Digest::of(part).as_bytes()).collect();
        Digest::tagged("writ.tls-files.v1", &all)
    }
}

fn client_verifier(path: &Path, demand: Demand, bytes: &[u8]) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, bytes)? {
        roots
            .add(certificate)
            .map_err(|error| format!("{}: holds a certificate that is no authority ({error})", path.display()))?;
    }
    if roots.is_empty() {
        return Err(format!("{}: holds no certificate", path.display()));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let builder = match demand {
        Demand::Optional => builder.allow_unauthenticated(),
        Demand::Required => builder,
    };
    builder.build().map_err(|error| format!("{}: {error}", path.display()))
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: is not PEM: {error}", path.display()))
}

fn public(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A private key's text; refused if others on the machine can read it.
fn private(path: &Path) -> Result<Secret, String> {
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(at)?;
    let mode = file.metadata().map_err(at)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "{} can be read by others (mode {mode:04o}); run `chmod 600` on it, and replace the key if it was copied",
            path.display()
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(at)?;
    Ok(Secret::new(text))
}
