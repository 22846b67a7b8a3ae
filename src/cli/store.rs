//! `writ store`: the database file.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::{At, Context};
use super::error::CliError;
use crate::store::{Rejection, StoreError};

/// Look after the store.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ store backup --config work/writ.toml backup.db")]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    Backup(Backup),
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

impl StoreArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let StoreCommand::Backup(backup) = self.command;
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
