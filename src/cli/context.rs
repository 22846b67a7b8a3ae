//! What every command gets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::error::CliError;
use super::output::Output;
use crate::app::{self, Outside};
use crate::audit::{Actor, ActorKind};
use crate::config::{self, Config};
use crate::domain::id::OperationId;
use crate::store::sqlite::SqliteStore;
use crate::store::{Op, Store};

/// What every command gets.
pub(super) struct Context {
    /// The machine's clock and chance.
    pub(super) outside: Outside,
    /// Where answers go.
    pub(super) out: Output,
}

impl Context {
    pub(super) fn new(out: Output) -> Self {
        Self {
            outside: Outside::system(),
            out,
        }
    }

    /// A fresh operation by whoever sits at this command line.
    pub(super) fn op(&self) -> Op {
        Op {
            id: OperationId::generate(&*self.outside.clock, &*self.outside.entropy),
            actor: Actor::new(ActorKind::Person, format!("command-line:{}", user(&config::environment))),
            request: None,
        }
    }
}

/// The operating system's user as the environment names them, whoever they were before `sudo`; a name for the log, not a proof.
fn user(environment: &dyn Fn(&str) -> Option<String>) -> String {
    let plain = |name: String| -> String {
        let kept = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        kept.take(64).collect()
    };
    ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .filter_map(environment)
        .map(plain)
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Which working directory is meant.
#[derive(Args)]
pub(super) struct At {
    /// The configuration file.
    #[arg(long, value_name = "FILE", env = "WRIT_CONFIG", default_value = "writ.toml")]
    pub(super) config: PathBuf,
}

impl At {
    /// The configuration, checked.
    pub(super) fn load(&self) -> Result<Config, CliError> {
        load(&self.config)
    }

    /// The store that the configuration names.
    pub(super) fn store(&self, context: &Context) -> Result<Arc<dyn Store>, CliError> {
        open(&self.load()?, context)
    }
}

/// Reads and checks a configuration file.
pub(super) fn load(path: &Path) -> Result<Config, CliError> {
    Config::load(path).map_err(CliError::failed)
}

/// Opens the store of a working directory; a missing one is not made.
pub(super) fn open(config: &Config, context: &Context) -> Result<Arc<dyn Store>, CliError> {
    app::find_store(config).map_err(CliError::failed)?;
    app::open_store(config, &context.outside).map_err(CliError::failed)
}

/// The store's file itself, for what is done with no other store.
pub(super) fn sqlite(config: &Config, context: &Context) -> Result<SqliteStore, CliError> {
    app::find_store(config).map_err(CliError::failed)?;
    app::open_sqlite(config, &context.outside).map_err(CliError::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_before_sudo_is_named_in_characters_that_are_safe_in_a_log() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            user(&move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(with(&[("USER", "root"), ("SUDO_USER", "mia")]), "mia");
        assert_eq!(with(&[("LOGNAME", "t om\n\u{1b}[2J-1")]), "tom2J-1");
        assert_eq!(with(&[("SUDO_USER", "\u{202e}"), ("USER", "ann.x_1")]), "ann.x_1");
        assert_eq!(with(&[]), "unknown");
    }
}
