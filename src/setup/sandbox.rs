//! A working directory that is made for the sandbox, and the keys a sandbox must have to fit one.

use std::path::Path;

use super::Endpoint;
use crate::app;
use crate::backend::Backends;
use crate::domain::secret::Secret;

/// The port of `writ sandbox`.
pub const SANDBOX_PORT: u16 = 8790;

/// Where `writ sandbox` answers unless it is told otherwise.
pub const SANDBOX_URL: &str = "http://127.0.0.1:8790";

/// The charges of a sandbox that a prover takes from: they are nobody's.
pub(super) const CHARGE_PROOFS: &str = "ch_3Rw4840proofs";
pub(super) const CHARGE_PROOFS_CAD: &str = "ch_3Rw4841proofs";

/// Both shipped backends at a sandbox that will answer at `url` with these keys.
#[must_use]
pub fn sandbox_endpoints(url: &str, read_key: &Secret, write_key: &Secret) -> Vec<Endpoint> {
    let copy = |key: &Secret| Secret::new(key.expose().to_owned());
    let endpoint = |name| Endpoint {
        name,
        url: url.to_owned(),
        facts: copy(read_key),
        read: copy(read_key),
        write: copy(write_key),
    };
    vec![endpoint("stripe"), endpoint("shop")]
}

/// The sandbox that a working directory was made for.
pub struct ExpectedSandbox {
    /// The port on 127.0.0.1 that its backend file names.
    pub port: u16,
    /// The key that may only read.
    pub read_key: Secret,
    /// The key that may read and write.
    pub write_key: Secret,
    /// The secret under which its events are signed; a directory that was made before there were events has none.
    pub webhook_secret: Option<Secret>,
}

/// The port and the keys that the working directory expects its sandbox to have.
///
/// # Errors
/// A sentence, if its payments backend is not the sandbox: a real key is never taken for one of the sandbox's.
pub fn sandbox_of(dir: &Path) -> Result<ExpectedSandbox, String> {
    let not_one = || {
        format!(
            "{} was not made for the sandbox; make a directory with `writ init` and no backend URL",
            dir.display()
        )
    };
    let backends = Backends::load(&dir.join("policies/backends")).map_err(|mistakes| mistakes.to_string())?;
    let stripe = backends
        .backends()
        .find(|backend| backend.name().as_str() == "stripe")
        .ok_or_else(not_one)?;
    let url = stripe.base_url();
    let key = |file: &str, prefix: &str| -> Result<Secret, String> {
        let secret = app::read_private(&dir.join("secrets").join(file))?;
        let text = secret.expose().trim();
        if text.starts_with(prefix) {
            Ok(Secret::new(text.to_owned()))
        } else {
            Err(not_one())
        }
    };
    match (url.host_str(), url.port_or_known_default()) {
        (Some("127.0.0.1" | "localhost"), Some(port)) => Ok(ExpectedSandbox {
            port,
            read_key: key("stripe-read", "rk_sandbox_")?,
            write_key: key("stripe-write", "sk_sandbox_")?,
            webhook_secret: key(&super::webhook_file("stripe"), "whsec_").ok(),
        }),
        _ => Err(not_one()),
    }
}
