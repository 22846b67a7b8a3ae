//! `writ store`: the database file.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::{At, Context};
use super::error::CliError;
use crate::app;
use crate::domain::time::Timestamp;
use crate::store::intent::{AcceptClock, ClockAccepted};
use crate::store::{Rejection, StoreError};

/// Look after the store.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ store backup --config work/writ.toml backup.db\n  writ store accept-clock --config work/writ.toml --latest 2027-11-29T12:00:00.000Z"
)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    Backup(Backup),
    AcceptClock(AcceptClockArgs),
    RecoverLog(RecoverLog),
}

/// Go on with the audit log under another name, after the database was restored from a backup or the head file was lost.
///
/// What was signed under the old name stays valid; under the new one nothing can contradict it. First stop every process, restore the database,
/// and keep the old head file: its head says how many events are lost. Whoever verifies the log needs the new public key, which is added to
/// `log.pub`. Nothing is changed unless what the database holds is a log that its key has signed.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ store recover-log --config work/writ.toml")]
struct RecoverLog {
    #[command(flatten)]
    at: At,
}

impl RecoverLog {
    fn run(self, context: &Context) -> Result<(), CliError> {
        let config = self.at.load()?;
        app::find_store(&config).map_err(CliError::failed)?;
        let recovered = app::recover_log(&config, &context.op(), &context.outside).map_err(CliError::failed)?;
        let before = recovered.before.as_ref();
        let value = json!({
            "origin": recovered.origin.as_str(), "size": recovered.size,
            "before": before.map(|head| json!({ "origin": head.origin, "size": head.size, "root": head.root })),
        });
        context.out.answer(&value, |_| {
            let before = before.map_or_else(
                || "the head before is not known".to_owned(),
                |head| format!("the last head before was that of {} with {} events", head.origin, head.size),
            );
            format!("the log goes on as {} with {} events; {before}", recovered.origin, recovered.size)
        })
    }
}

/// Copy the store to a new file, consistent and compact, while writ runs.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ store backup --config work/writ.toml backup.db")]
struct Backup {
    /// The new file, in a directory that is there.
    to: PathBuf,
    #[command(flatten)]
    at: At,
}

/// Take this machine's clock for right, though later times are written down.
///
/// For a clock that had run far ahead and was corrected: until it is past the latest time in the store nothing new begins. First stop every
/// process whose clock is still wrong. Drafts, approvals, credentials and unsent executions that were begun by the wrong times end; what
/// was sent by them is only looked up, never sent again. The change is in the log.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ store accept-clock --config work/writ.toml --latest 2027-11-29T12:00:00.000Z")]
struct AcceptClockArgs {
    /// The latest time in the store, as `/readyz`, the log and this command's refusal say it.
    #[arg(long, value_name = "TIME", value_parser = time)]
    latest: Timestamp,
    #[command(flatten)]
    at: At,
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "expected a time such as 2026-11-29T12:00:00.000Z".to_owned())
}

impl AcceptClockArgs {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let store = self.at.store(context)?;
        let accept = AcceptClock { latest: self.latest };
        let accepted = store.accept_clock(context.op(), accept).await.map_err(|error| match error {
            StoreError::Rejected(rejection @ Rejection::LatestIs(latest)) => CliError::failed(format!(
                "{rejection}, and now it is {}; if the clock is right now, say --latest {latest}",
                context.outside.clock.now()
            )),
            StoreError::Rejected(rejection @ Rejection::ClockNotBehind(_)) => {
                CliError::failed(format!("{rejection}; nothing keeps new work from beginning"))
            }
            other => CliError::failed(other),
        })?;
        let ClockAccepted {
            drafts,
            credentials,
            executions,
            stops,
        } = accepted.value;
        context.out.answer(
            &json!({ "drafts": drafts, "credentials": credentials, "executions": executions, "stops": stops }),
            |_| {
                let renewed = if stops > 0 { format!("; in force again: {stops} stops") } else { String::new() };
                format!("the clock is taken for right; ended: {drafts} drafts, {credentials} credentials, {executions} unsent executions{renewed}")
            },
        )
    }
}

impl StoreArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let backup = match self.command {
            StoreCommand::Backup(backup) => backup,
            StoreCommand::AcceptClock(accept) => return accept.run(context).await,
            StoreCommand::RecoverLog(recover) => return recover.run(context),
        };
        let to = backup.to.display().to_string();
        if let Some(dir) = backup.to.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()) {
            return Err(CliError::failed(format!("there is no directory {}; make it first", dir.display())));
        }
        let copied = backup.at.store(context)?.backup(&backup.to).await;
        copied.map_err(|error| match error {
            StoreError::Rejected(Rejection::Exists(_)) => CliError::failed(format!("{to} exists already; name a new file")),
            other => CliError::failed(other),
        })?;
        context
            .out
            .answer(&json!({ "backup": to }), |_| format!("the store is copied to {to}"))
    }
}
