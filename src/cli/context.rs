//! What every command gets, and how a command fails.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::output::Output;
use crate::app::{self, Faults, Outside};
use crate::audit::{Actor, ActorKind};
use crate::config::Config;
use crate::domain::id::OperationId;
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
            actor: Actor::new(ActorKind::Person, "command-line"),
            request: None,
        }
    }
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
    if !config.store.exists() {
        return Err(CliError::failed(app::no_store(config)));
    }
    app::open_store(config, &context.outside).map_err(CliError::failed)
}

/// How a command ends when it does not end well.
#[derive(Debug)]
pub(super) enum CliError {
    /// The arguments make no sense together.
    Usage(String),
    /// It was refused, or failed: one sentence each.
    Failed(Vec<String>),
    /// Whoever read the output went away, which is nobody's mistake.
    Closed,
}

impl CliError {
    /// A failure; each line of the text is one sentence.
    pub(super) fn failed(why: impl std::fmt::Display) -> Self {
        Self::Failed(why.to_string().lines().map(str::to_owned).collect())
    }

    pub(super) fn usage(why: impl std::fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }

    /// Says what went wrong on standard error, and which exit code tells it.
    pub(super) fn report(&self) -> ExitCode {
        let (lines, code) = match self {
            Self::Usage(line) => (std::slice::from_ref(line), 2),
            Self::Failed(lines) => (lines.as_slice(), 1),
            Self::Closed => return ExitCode::SUCCESS,
        };
        let mut errors = std::io::stderr().lock();
        for line in lines {
            // Nobody is left to be told if this cannot be printed.
            drop(writeln!(errors, "error: {line}"));
        }
        ExitCode::from(code)
    }
}

impl From<Faults> for CliError {
    fn from(faults: Faults) -> Self {
        Self::Failed(faults.0.iter().flat_map(|fault| fault.lines()).map(str::to_owned).collect())
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::failed(format!("the output cannot be written: {error}"))
    }
}
