//! `writ config`: what is wrong with a working directory.

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::{At, Context};
use super::error::CliError;
use super::serve::RoleArg;
use crate::app::{self, Faults};
use crate::config::{self, Config};

/// Look at the configuration.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ config check --config work/writ.toml")]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    Check(Check),
}

/// Report everything that is wrong at once: configuration, policy, backend files, keys and their modes, secrets, store.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ config check --config work/writ.toml\n  writ config check --config work/writ.toml --role proxy")]
struct Check {
    #[command(flatten)]
    at: At,
    /// For which part.
    #[arg(long, value_enum, default_value_t = RoleArg::All)]
    role: RoleArg,
}

impl ConfigArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let ConfigCommand::Check(check) = self.command;
        let (config, mistakes) = Config::look(&check.at.config);
        let mut faults: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        if let Some(config) = &config {
            let part = check.role.part();
            faults.extend(app::too_few_files(config).map(|wrong| format!("{wrong}; a service may have another limit than this shell")));
            for result in [
                app::check(config, part, &context.outside, &config::environment),
                app::check_store(config, part, &context.outside).await,
            ] {
                faults.extend(result.err().map(|f| f.0).unwrap_or_default());
            }
        }
        if !faults.is_empty() {
            return Err(Faults(faults).into());
        }
        context.out.answer(&json!({ "ok": true }), |out| out.good("ok"))
    }
}
