//! Whether a secret for reading facts is in truth one that can execute, which only the values tell.

use super::Backends;
use super::operation::Backend;
use super::secrets::{Credential, Environment, same_value};
use crate::domain::secret::Secret;
use crate::settings::Mistake;

/// Compares the value of every backend's `facts` secret with that of every backend's `write` secret, where both can be read: two variables or files with
/// one value give the broker what can execute. A secret that cannot be read is passed over, [`super::Clients::connect`] names it. Both values pass
/// through the calling process, so only one that may hold both is to call this. No value is in what it returns.
#[must_use]
pub fn same_secret(backends: &Backends, env: Environment<'_>) -> Vec<Mistake> {
    let held = |credential: Credential| -> Vec<(&Backend, Secret)> {
        backends
            .backends()
            .filter_map(|backend| Some((backend.as_ref(), backend.auth.secret(credential, env).ok()?)))
            .collect()
    };
    let (facts, write) = (held(Credential::Facts), held(Credential::Write));
    let mut out = Vec::new();
    for (reader, reads) in &facts {
        for (writer, writes) in &write {
            if same_value(reads, writes) {
                let other = if reader.name == writer.name {
                    "`write`".to_owned()
                } else {
                    format!("`auth.write` in {}.toml", writer.name)
                };
                out.push(Mistake {
                    file: format!("{}.toml", reader.name),
                    place: "auth.facts".to_owned(),
                    problem: format!(
                        "has the same value as {other}, so the broker would hold what can execute: give it one that can only read"
                    ),
                });
            }
        }
    }
    out
}
