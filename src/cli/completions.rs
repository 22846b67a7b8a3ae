//! `writ completions` and `writ openapi`: what the program says about itself.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use super::context::Context;
use super::error::CliError;
use super::output::raw;

/// Print a script that completes commands and options in a shell.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ completions bash > /etc/bash_completion.d/writ\n  writ completions zsh > ~/.zfunc/_writ")]
pub(super) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "writ", &mut script);
        let script = String::from_utf8_lossy(&script).into_owned();
        let value = json!({ "shell": self.shell.to_string(), "script": script });
        context.out.answer(&value, |_| script.clone())
    }
}

/// Print the API's description (OpenAPI 3.1).
#[derive(Args)]
#[command(after_help = "Examples:\n  writ openapi > openapi.json")]
pub(super) struct OpenApi {}

impl OpenApi {
    pub(super) fn run(self) -> Result<(), CliError> {
        raw(&crate::http::document().to_pretty_json().map_err(CliError::failed)?)
    }
}
