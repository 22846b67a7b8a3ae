//! A listener's TLS while it serves: the pair in use, and a look now and then whether the files hold another.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

use super::{Certificate, TlsFiles};
use crate::domain::clock::Clock;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// How a listener's certificate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is what the files hold, and it holds now.
    Good,
    /// The files hold something that cannot be served with, so what was read before goes on.
    Refused,
    /// Its last moment is over: nobody who checks will connect.
    Expired,
}

/// A listener's TLS. New connections get what was read last; open ones keep what they began with.
pub struct ServerTls {
    files: TlsFiles,
    clock: Arc<dyn Clock>,
    serving: RwLock<Serving>,
    looked: Mutex<Looked>,
}

#[derive(Clone)]
struct Serving {
    config: Arc<ServerConfig>,
    leaf: Arc<Certificate>,
}

/// What the last look at the files found.
struct Looked {
    /// A hash over the files that are served with.
    served: Digest,
    /// What is wrong with what lies there now; empty if nothing is.
    wrong: Vec<String>,
}

impl ServerTls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// Everything that is wrong with them, one sentence each.
    pub fn load(files: TlsFiles, clock: Arc<dyn Clock>) -> Result<Self, Vec<String>> {
        let contents = files.contents()?;
        let (config, leaf) = files.serving(&contents, clock.now(), Arc::new(Now(clock.clone())))?;
        let leaf = Arc::new(leaf);
        Ok(Self {
            serving: RwLock::new(Serving { config, leaf }),
            looked: Mutex::new(Looked {
                served: contents.digest(),
                wrong: Vec::new(),
            }),
            files,
            clock,
        })
    }

    /// Looks at the files and takes over what has changed. A pair that cannot be served with is refused, and the old one goes on.
    pub fn look(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        match self.changed(looked.served) {
            Ok(None) => looked.wrong.clear(),
            Ok(Some((serving, digest))) => {
                let days = days_left(&serving.leaf, self.clock.now());
                tracing::info!(certificate = %self.files.certificate.display(), days_left = days, "new connections get the new certificate");
                *self.serving.write().unwrap_or_else(PoisonError::into_inner) = serving;
                *looked = Looked {
                    served: digest,
                    wrong: Vec::new(),
                };
            }
            Err(wrong) => {
                if looked.wrong != wrong {
                    tracing::warn!(why = wrong.join("; "), "the TLS files are refused; what was read before goes on");
                }
                looked.wrong = wrong;
            }
        }
    }

    fn changed(&self, served: Digest) -> Result<Option<(Serving, Digest)>, Vec<String>> {
        let contents = self.files.contents()?;
        let digest = contents.digest();
        if digest == served {
            return Ok(None);
        }
        let (config, leaf) = self.files.serving(&contents, self.clock.now(), Arc::new(Now(self.clock.clone())))?;
        let leaf = Arc::new(leaf);
        Ok(Some((Serving { config, leaf }, digest)))
    }

    /// What a new connection is served with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// The certificate that new connections get.
    #[must_use]
    pub fn certificate(&self) -> Arc<Certificate> {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).leaf.clone()
    }

    /// How the certificate stands.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        if now > self.certificate().not_after {
            return Standing::Expired;
        }
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.wrong.is_empty() {
            Standing::Good
        } else {
            Standing::Refused
        }
    }
}

fn days_left(leaf: &Certificate, now: Timestamp) -> i64 {
    leaf.not_after.seconds().saturating_sub(now.seconds()).div_euclid(86_400)
}

/// The program's clock, for the verification of clients' certificates.
struct Now(Arc<dyn Clock>);

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Now(..)")
    }
}

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().seconds()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}
