//! `writ audit`: the log as evidence, carried off and verified.

mod disclose;
mod erase;
mod export;
mod hold;
mod prune;
mod verify;

use clap::{Args, Subcommand};

use super::context::Context;
use super::error::CliError;

/// Verify the audit log, carry it off as evidence, and keep no more of it than must be kept.
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
    Disclose(disclose::Disclose),
    Erase(erase::Erase),
    Export(export::Export),
    Hold(hold::Hold),
    Prune(prune::Prune),
    Release(hold::Release),
    Verify(verify::Verify),
}

impl AuditArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            AuditCommand::Disclose(disclose) => disclose.run(context).await,
            AuditCommand::Erase(erase) => erase.run(context).await,
            AuditCommand::Export(export) => export.run(context).await,
            AuditCommand::Hold(hold) => hold.run(context).await,
            AuditCommand::Prune(prune) => prune.run(context).await,
            AuditCommand::Release(release) => release.run(context).await,
            AuditCommand::Verify(verify) => verify.run(context),
        }
    }
}
