//! `writ demo`: the damaged-blender run, played on this machine.

use std::io::IsTerminal as _;

use clap::Args;

use super::context::Context;
use super::error::CliError;
use super::output::{Format, colour};
use super::signal;
use crate::demo::{Afterwards, DemoError, DemoOptions, Look, Output, run};

/// Play the damaged-blender run: one process, real HTTP, no money.
///
/// Starts a payments server, a broker and two proxies on 127.0.0.1 in a temporary directory, tells the story, and checks every step of it.
/// The exit code is 1 if anything was not as it should be. Nothing is left behind.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ demo\n  writ demo --json\n  writ demo --serve   then call it yourself with curl")]
pub(super) struct Demo {
    /// Leave the servers up after the story, and print how to call them, until Ctrl-C.
    #[arg(long)]
    serve: bool,
}

impl Demo {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let stdout = std::io::stdout();
        let output = match context.out.format() {
            Format::Json if self.serve => return Err(CliError::usage("--json and --serve do not go together: leave one out")),
            Format::Json => Output::Json,
            Format::Text if colour(stdout.is_terminal()) => Output::Story(Look::Terminal),
            Format::Text => Output::Story(Look::Plain),
        };
        let options = DemoOptions {
            outside: context.outside.clone(),
            parent: std::env::temp_dir(),
            output,
            afterwards: if self.serve { Afterwards::Serve } else { Afterwards::Stop },
            stop: signal::stop()?,
        };
        let summary = run(options, &mut &stdout).await.map_err(|error| match error {
            DemoError::Output(error) => error.into(),
            other => CliError::failed(other),
        })?;
        match summary.failed() {
            0 => Ok(()),
            some => Err(CliError::failed(format!("{some} of {} checks failed", summary.checks.len()))),
        }
    }
}
