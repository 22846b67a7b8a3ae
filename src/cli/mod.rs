//! The command line: one file per command.
//!
//! A command turns its arguments into one call of the library and prints what came of it. Exit codes: 0 done, 1 refused or failed, 2 not understood;
//! `audit verify` has its own, and of `prove` 2 means that something went through that must be refused, and nothing else does.

mod approval;
mod approve;
mod approver;
mod audit;
mod backend;
mod client;
mod completions;
mod config;
mod context;
mod demo;
mod describe;
mod draft;
mod error;
mod execution;
mod handoff;
mod init;
mod keys;
mod output;
mod policy;
mod prove;
mod sandbox;
mod serve;
mod signal;
mod stop;
mod store;
mod token;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::audit::verify::EXIT_UNREADABLE;

use self::context::Context;
use self::error::CliError;
use self::output::{Format, Output};

/// What `writ` is told to do.
#[derive(Parser)]
#[command(
    name = "writ",
    version,
    about = "A short-lived credential broker for agents, with a thin execution proxy: one approved draft, one credential, one effect.",
    after_help = "Examples:\n  writ demo   the whole journey of a refund, played on this machine\n  writ init work   make a working directory with keys, clients and an example policy\n  writ sandbox --config work/writ.toml   a payments server to try it with\n  writ serve --config work/writ.toml   the broker and the proxy",
    arg_required_else_help = true,
    propagate_version = false
)]
struct Cli {
    /// Print JSON for programs instead of text for people; a failure is one JSON object on standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Init(init::Init),
    Serve(serve::Serve),
    Config(config::ConfigArgs),
    Sandbox(sandbox::SandboxArgs),
    Keys(keys::Keys),
    Client(client::ClientArgs),
    Approver(approver::ApproverArgs),
    Draft(draft::DraftArgs),
    Approve(approve::Approve),
    Deny(approve::Deny),
    Approval(approval::ApprovalArgs),
    Stop(stop::Stop),
    Resume(stop::Resume),
    Stops(stop::StopsArgs),
    Token(token::TokenArgs),
    Execution(execution::ExecutionArgs),
    Handoff(handoff::HandoffArgs),
    Policy(policy::PolicyArgs),
    Backend(backend::BackendArgs),
    Store(store::StoreArgs),
    Audit(audit::AuditArgs),
    Prove(prove::ProveArgs),
    Completions(completions::Completions),
    #[command(name = "openapi")]
    OpenApi(completions::OpenApi),
}

/// The whole command line as it is declared, for completions and for tests that walk through it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs what the arguments say; the first of them is the program's name.
pub fn run<T: Into<OsString> + Clone>(arguments: impl IntoIterator<Item = T>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && asks_for_json(&arguments) => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim();
            return Format::Json.report(&CliError::Ended(misused(&arguments), text.to_owned()));
        }
        Err(error) => {
            // Nobody is left to be told if this cannot be printed.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { misused(&arguments) } else { 0 });
        }
    };
    let format = if cli.json { Format::Json } else { Format::Text };
    let context = Context::new(Output::new(format));
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("the runtime cannot start: {error}")))
        .and_then(|runtime| runtime.block_on(dispatch(cli.command, &context)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => format.report(&error),
    }
}

/// The exit code of arguments that were not understood. A verification must not seem to have found something, nor a misspelt option of the
/// prover's be taken for an alarm.
fn misused(arguments: &[OsString]) -> u8 {
    let words = arguments.iter().skip(1).filter(|word| *word != "--json");
    let first: Vec<&OsString> = words.take(2).collect();
    match first.as_slice() {
        [audit, verify] if *audit == "audit" && *verify == "verify" => EXIT_UNREADABLE,
        [prove, ..] if *prove == "prove" => 1,
        _ => 2,
    }
}

/// Whether `--json` is among arguments that were not understood.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

async fn dispatch(command: Command, context: &Context) -> Result<(), CliError> {
    match command {
        Command::Demo(command) => command.run(context).await,
        Command::Init(command) => command.run(context).await,
        Command::Serve(command) => command.run(context).await,
        Command::Config(command) => command.run(context).await,
        Command::Sandbox(command) => command.run(context).await,
        Command::Keys(command) => command.run(context).await,
        Command::Client(command) => command.run(context).await,
        Command::Approver(command) => command.run(context).await,
        Command::Draft(command) => command.run(context).await,
        Command::Approve(command) => command.run(context).await,
        Command::Deny(command) => command.run(context).await,
        Command::Approval(command) => command.run(context).await,
        Command::Stop(command) => command.run(context).await,
        Command::Resume(command) => command.run(context).await,
        Command::Stops(command) => command.run(context).await,
        Command::Token(command) => command.run(context),
        Command::Execution(command) => command.run(context).await,
        Command::Handoff(command) => command.run(context).await,
        Command::Policy(command) => command.run(context),
        Command::Backend(command) => command.run(context),
        Command::Store(command) => command.run(context).await,
        Command::Audit(command) => command.run(context).await,
        Command::Prove(command) => command.run(context).await,
        Command::Completions(command) => command.run(context),
        Command::OpenApi(command) => command.run(),
    }
}
