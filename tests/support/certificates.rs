//! Certificate authorities of the tests' own, and what they sign.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use rustls::pki_types::CertificateDer;
use writ::domain::digest::Digest;
use writ::domain::time::Timestamp;

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate and its private key.
pub struct Pair {
    pub der: CertificateDer<'static>,
    pub pem: String,
    pub key: String,
}

/// When a certificate holds.
#[derive(Clone, Copy)]
pub enum Holds {
    /// From 2020 to 2100, whatever clock is asked.
    Always,
    /// It ended in 2021.
    NoLonger,
    /// It begins in 2099.
    NotYet,
    /// Until this moment.
    Until(Timestamp),
}

impl Authority {
    /// A fresh authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // OpenSSL takes a certificate for self-signed whose subject is called like its issuer.
        params.distinguished_name.push(DnType::CommonName, "an authority of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1));
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate of a server called `localhost`, which is at 127.0.0.1 too.
    pub fn server(&self, holds: Holds) -> Pair {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        self.sign(CertificateParams::new(names).unwrap(), ExtendedKeyUsagePurpose::ServerAuth, holds)
    }

    /// A certificate of a client with this DNS name, or this URI, as its subject alternative name.
    pub fn client(&self, name: &str, holds: Holds) -> Pair {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let text = Ia5String::try_from(name.to_owned()).unwrap();
        params.subject_alt_names = vec![if name.contains(':') {
            SanType::URI(text)
        } else {
            SanType::DnsName(text)
        }];
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth, holds)
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose, holds: Holds) -> Pair {
        params.extended_key_usages = vec![usage];
        params.distinguished_name.push(DnType::CommonName, "signed for the tests");
        (params.not_before, params.not_after) = match holds {
            Holds::Always => (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1)),
            Holds::NoLonger => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Holds::NotYet => (date_time_ymd(2099, 1, 1), date_time_ymd(2100, 1, 1)),
            Holds::Until(end) => {
                let epoch = date_time_ymd(1970, 1, 1);
                let seconds = u64::try_from(end.seconds()).unwrap();
                (date_time_ymd(2020, 1, 1), epoch + Duration::from_secs(seconds))
            }
        };
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            der: signed.der().clone(),
            pem: signed.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Pair {
    /// Its thumbprint, `x5t#S256`.
    pub fn thumbprint(&self) -> Digest {
        Digest::of(&self.der)
    }

    /// Writes the pair as `NAME.pem` and `NAME.key`, over what is there; the paths.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let certificate = dir.join(format!("{name}.pem"));
        let key = dir.join(format!("{name}.key"));
        std::fs::write(&certificate, &self.pem).unwrap();
        private(&key, &self.key);
        (certificate, key)
    }
}

/// Writes a file that only its owner can read.
pub fn private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
