//! `writ events`: the audit log as it is stored, one JSON object a line.

use clap::Args;

use super::context::{At, Context};
use super::error::CliError;
use super::output::raw;

/// How many events are read at a time.
const PAGE: u32 = 500;

/// Print the audit log, one JSON object a line.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ events --config work/writ.toml\n  writ events --config work/writ.toml --from 100")]
pub(super) struct Events {
    /// The first event's number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    #[command(flatten)]
    at: At,
}

impl Events {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let store = self.at.store(context)?;
        let mut next = self.from;
        loop {
            let page = store.events(next, PAGE).await.map_err(CliError::failed)?;
            let Some(last) = page.last() else { return Ok(()) };
            next = last.seq + 1;
            for event in &page {
                raw(&String::from_utf8_lossy(&event.bytes))?;
            }
        }
    }
}
