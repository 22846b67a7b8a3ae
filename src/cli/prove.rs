//! `writ prove`: try what must be refused, at a live deployment, and say of each guarantee whether it held.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::error::CliError;
use super::output::{Output, shown};
use super::signal;
use super::words::span;
use crate::prove::{self, Ending, Finding, GUARANTEES, Guarantee, Left, Prove, ProveError, Proved, Report, Settings, Verdict};

/// The exit code of a run in which something went through that must be refused.
const EXIT_PASSED_THROUGH: u8 = 2;

/// Try what must be refused, at a live deployment, and say of each guarantee whether it held.
///
/// Proposes the one operation that the settings file names, and executes it a few times with its smallest amount; `writ init` writes such a file
/// for the sandbox. The report is signed, kept as a file, and its hash is left in the deployment's log.
///
/// The exit code is 0 if all that there was to try held, 1 if something could not be tried or the arguments were not understood, and 2 only if
/// something went through that must be refused.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ prove --config work/prove.toml\n  writ prove --config work/prove.toml --every 1h --junit proofs.xml\n  writ prove --config work/prove.toml --only credential.mutated --only effect.one_winner\n  writ prove --list"
)]
pub(super) struct ProveArgs {
    /// The prover's settings file.
    #[arg(long, value_name = "FILE", default_value = "prove.toml")]
    config: PathBuf,
    /// The broker's URL, in place of the file's.
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// A proxy's URL, in place of the file's; may be given again.
    #[arg(long = "proxy", value_name = "URL")]
    proxies: Vec<String>,
    /// Try again every so often, such as 1h, until it is told to stop.
    #[arg(long, value_name = "TIME", value_parser = span)]
    every: Option<Duration>,
    /// Write each run's results to this file as JUnit XML too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Try only this guarantee; may be given again.
    #[arg(long, value_name = "NAME", value_parser = guarantee)]
    only: Vec<String>,
    /// List the guarantees and try nothing.
    #[arg(long, conflicts_with_all = ["every", "junit", "only"])]
    list: bool,
}

fn guarantee(name: &str) -> Result<String, String> {
    match GUARANTEES.iter().find(|guarantee| guarantee.name == name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("there is no such guarantee; `writ prove --list` names them".to_owned()),
    }
}

impl ProveArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        if self.list {
            return list(context);
        }
        let stop = signal::stop()?;
        let Some(every) = self.every else {
            let ending = self.once(context, stop).await?;
            return said(ending);
        };
        let mut worst = Ending::Held;
        loop {
            let ending = match self.once(context, stop.clone()).await {
                Ok(ending) => ending,
                Err(CliError::Closed) => return Err(CliError::Closed),
                Err(_) if stop.is_cancelled() => break,
                // The next time may find what this one did not: a schedule goes on.
                Err(error) => {
                    let _ = context.out.format().report(&error);
                    Ending::Unclear
                }
            };
            worst = worst.max(ending);
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(every) => {}
            }
        }
        said(worst)
    }

    async fn once(&self, context: &Context, stop: CancellationToken) -> Result<Ending, CliError> {
        let mut settings = Settings::load(&self.config).map_err(CliError::failed)?;
        if let Some(broker) = &self.broker {
            settings.broker = broker.trim_end_matches('/').to_owned();
            settings.proxies = vec![settings.broker.clone()];
        }
        if !self.proxies.is_empty() {
            settings.proxies = self.proxies.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        }
        let run = Prove {
            settings,
            only: self.only.clone(),
            outside: context.outside.clone(),
            parent: std::env::temp_dir(),
            stop,
        };
        let Proved { report, left } = prove::prove(run).await.map_err(|error| match error {
            ProveError::Setup(why) => CliError::failed(why),
            ProveError::Interrupted => CliError::failed(error),
        })?;
        if let Some(path) = &self.junit {
            let written = std::fs::write(path, prove::junit(&report));
            written.map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
        }
        let told = value(&report, &left);
        match self.every {
            Some(_) => context.out.answer_line(&told, |out| text(out, &report, &left))?,
            None => context.out.answer(&told, |out| text(out, &report, &left))?,
        }
        let ending = report.ending();
        for finding in report.guarantees.iter().filter(|finding| finding.passed_through) {
            alarm(context, finding);
        }
        match (&left.logged, ending) {
            (Ok(()), ending) => Ok(ending),
            (Err(why), ending) => {
                context
                    .out
                    .warn(&format!("the report is not in the deployment's log: {}", shown(why)));
                Ok(ending.max(Ending::Unclear))
            }
        }
    }
}

/// How the process ends.
fn said(ending: Ending) -> Result<(), CliError> {
    match ending {
        Ending::Held => Ok(()),
        Ending::Unclear => Err(CliError::failed(
            "not every guarantee could be shown to hold; the report says which and why",
        )),
        Ending::PassedThrough => Err(CliError::Ended(
            EXIT_PASSED_THROUGH,
            "something went through that must be refused; stop what it concerns with `writ stop`, and find out why".to_owned(),
        )),
    }
}

/// On standard error, whatever was asked for on standard output.
fn alarm(context: &Context, finding: &Finding) {
    context
        .out
        .warn(&format!("ALARM: {} does not hold: {}", finding.name, shown(&finding.reason)));
}

fn list(context: &Context) -> Result<(), CliError> {
    let values = GUARANTEES.iter().map(|g| json!({ "name": g.name, "on": g.on, "claim": g.claim }));
    let value = json!({ "guarantees": values.collect::<Vec<_>>() });
    context.out.answer(&value, |out| {
        let row = |g: &Guarantee| vec![g.name.to_owned(), g.on.as_str().to_owned(), g.claim.to_owned()];
        let rows: Vec<Vec<String>> = GUARANTEES.iter().map(row).collect();
        out.table(&["guarantee", "on", "claim"], &rows)
    })
}

fn value(report: &Report, left: &Left) -> Value {
    json!({
        "report": report, "line": report.line(), "file": left.file.display().to_string(), "file_sha256": left.sha256,
        "in_log": left.logged.is_ok(),
    })
}

fn text(out: &Output, report: &Report, left: &Left) -> String {
    let row = |finding: &Finding| {
        let result = match (finding.result, finding.passed_through) {
            (Verdict::Fail, true) => "PASSED THROUGH",
            (verdict, _) => verdict.as_str(),
        };
        let words = [finding.name, finding.on.as_str(), result].map(str::to_owned);
        words.into_iter().chain([shown(&finding.reason)]).collect()
    };
    let rows: Vec<Vec<String>> = report.guarantees.iter().map(row).collect();
    let line = report.line();
    let line = match report.ending() {
        Ending::Held => out.good(&line),
        Ending::Unclear | Ending::PassedThrough => out.bad(&line),
    };
    let mut text = format!("{}\n", out.table(&["guarantee", "on", "result", "reason"], &rows).trim_end());
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n{}\n{line}\n",
        out.pairs(&[("report", left.file.display().to_string()), ("sha-256", left.sha256.to_string())])
            .trim_end()
    );
    text
}
