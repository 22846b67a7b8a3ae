//! `writ audit`: the log as evidence, carried off and verified.

mod export;
mod verify;

use clap::{Args, Subcommand};

use super::context::Context;
use super::error::CliError;

/// Verify the audit log, and carry it off as evidence.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit verify --config work/writ.toml\n  writ audit export --config work/writ.toml --case case-1 --format bundle --out evidence"
)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
enum AuditCommand {
    Export(export::Export),
    Verify(verify::Verify),
}

impl AuditArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            AuditCommand::Export(export) => export.run(context).await,
            AuditCommand::Verify(verify) => verify.run(context),
        }
    }
}
