//! `writ audit tail`: the last events, and those that come.

use std::time::Duration;

use clap::Args;

use super::super::context::{At, Context};
use super::super::error::CliError;
use super::super::output::{Format, raw};
use super::{Line, record, row};
use crate::store::log::{EventQuery, Order};
use crate::store::record::StoredEvent;

/// How many events are read at a time.
const PAGE: u32 = 500;
/// How often new ones are looked for.
const LOOK: Duration = Duration::from_millis(500);

/// Print the last events, and with --follow those that come: one line each, and with --json one object a line.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ audit tail --config work/writ.toml\n  writ audit tail --follow --json --config work/writ.toml")]
pub(super) struct Tail {
    /// How many, up to 1000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    lines: u32,
    /// Go on with what comes, until it is interrupted.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    at: At,
}

impl Tail {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let store = self.at.store(context)?;
        let format = context.out.format();
        record(
            context,
            &*store,
            if self.follow { "tail --follow" } else { "tail" },
            &self.lines.to_string(),
        )
        .await?;
        let last = EventQuery {
            limit: self.lines,
            order: Order::NewestFirst,
            ..EventQuery::default()
        };
        let page = store.search(last).await.map_err(CliError::failed)?;
        for event in page.events.iter().rev() {
            print(format, event)?;
        }
        let mut next = EventQuery {
            after: page.events.first().map(|event| event.seq),
            limit: PAGE,
            ..EventQuery::default()
        };
        if !self.follow {
            return Ok(());
        }
        loop {
            let page = store.search(next.clone()).await.map_err(CliError::failed)?;
            for event in &page.events {
                print(format, event)?;
            }
            next.after = page.next(&next);
            if page.complete {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

fn print(format: Format, event: &StoredEvent) -> Result<(), CliError> {
    match format {
        Format::Text => raw(row(event).join("  ").trim_end()),
        Format::Json => raw(&serde_json::to_string(&Line::from(event)).map_err(CliError::failed)?),
    }
}
