//! `writ sandbox`: a payments and orders server on this machine, to try things with.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::error::CliError;
use super::signal;
use crate::sandbox::{RunningSandbox, Sandbox, SandboxConfig, demo};
use crate::setup;

/// Run a payments and orders server on 127.0.0.1 that holds no real money.
///
/// Its books live in memory. With a working directory it takes the keys and the port that the directory's backend files expect.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ sandbox --config work/writ.toml\n  writ sandbox --port 8790")]
pub(super) struct SandboxArgs {
    /// The port; 8790, or the one in the working directory's backend file.
    #[arg(long)]
    port: Option<u16>,
    /// The configuration file of a working directory.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A working directory.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    dir: Option<PathBuf>,
}

impl SandboxArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let mut config = SandboxConfig::new(context.outside.clock.clone(), context.outside.entropy.clone());
        config.port = setup::SANDBOX_PORT;
        let beside = self.config.as_deref().map(|file| file.parent().unwrap_or(Path::new(".")));
        if let Some(dir) = self.dir.as_deref().or(beside) {
            let expected = setup::sandbox_of(dir).map_err(CliError::failed)?;
            config.port = expected.port;
            config.read_key = expected.read_key;
            config.write_key = expected.write_key;
            config.webhook_secret = expected.webhook_secret;
        }
        config.port = self.port.unwrap_or(config.port);
        let stop = signal::stop()?;
        let port = config.port;
        let running = Sandbox::start(config)
            .await
            .map_err(|error| CliError::cannot_listen(format!("127.0.0.1:{port}"), &error, "name another port with --port"))?;
        say(context, &running)?;
        stop.cancelled().await;
        running.shutdown().await;
        Ok(())
    }
}

/// The one place where the sandbox's keys are printed: they open nothing but this toy.
fn say(context: &Context, running: &RunningSandbox) -> Result<(), CliError> {
    let url = &running.url;
    let (read, write) = (running.read_key().expose(), running.write_key().expose());
    let fault = format!(
        "curl -sX POST {url}/_sandbox/faults -d '{{\"match\":{{\"method\":\"POST\",\"path\":\"/v1/refunds\"}},\"kind\":\"drop_after\"}}'"
    );
    let value = json!({
        "url": url, "read_key": read, "write_key": write, "fault": fault,
        "demo": { "order": demo::ORDER, "customer": demo::CUSTOMER, "charge": demo::CHARGE, "charge_eur": demo::CHARGE_EUR, "charge_jpy": demo::CHARGE_JPY },
    });
    let said = context.out.answer_line(&value, |out| {
        let pairs = out.pairs(&[
            ("sandbox", url.clone()),
            ("read key", read.to_owned()),
            ("write key", write.to_owned()),
            ("order", demo::ORDER.to_owned()),
            ("customer", demo::CUSTOMER.to_owned()),
            ("charge", format!("{} (400.00 usd)", demo::CHARGE)),
            ("charge", format!("{} (129.00 eur)", demo::CHARGE_EUR)),
            ("charge", format!("{} (9000 jpy)", demo::CHARGE_JPY)),
        ]);
        let state = format!("{url}/_sandbox/state");
        format!("{pairs}\nlose the answer to the next refund:\n  {fault}\nsee the books:\n  curl -s {state}\n")
    });
    match said {
        // A server goes on when nobody reads its first lines.
        Err(CliError::Closed) => Ok(()),
        other => other,
    }
}
