//! `writ audit prune`: the bytes of old events go, once a bundle that has them was verified by a process of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::super::context::{At, Context, sqlite};
use super::super::error::CliError;
use crate::app;
use crate::audit::LogFiles;
use crate::audit::bundle::{Manifest, What};
use crate::audit::source::LogSource as _;
use crate::config::Config;
use crate::domain::digest::Digest;
use crate::store::retention::Prune as Order;
use crate::store::sqlite::Evidence;

/// Delete the bytes of old events, whose bundle was exported before. Their hashes and the signed heads stay, so that every proof stays good.
///
/// The bundle is verified first, by a fresh process, with the log's public keys and against its head file: what is deleted here is then kept
/// there, and nowhere else. Keep it on another medium. What is held is not pruned.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit export --config work/writ.toml --range 0..99 --format bundle --out first-hundred\n  writ audit prune --config work/writ.toml --before 100 --bundle first-hundred\n  writ audit prune --config work/writ.toml --older-than 13mo --bundle last-year"
)]
pub(super) struct Prune {
    /// Delete the events with smaller numbers.
    #[arg(long, value_name = "SEQ", required_unless_present = "older_than", conflicts_with = "older_than")]
    before: Option<u64>,
    /// Delete the events that are older, such as 13mo, 400d or 2y; a month has 31 days.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// The directory of the bundle that has them.
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    #[command(flatten)]
    at: At,
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "expected an age such as 13mo, 400d or 2y".to_owned();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let days: u64 = match unit {
        "d" => 1,
        "mo" => 31,
        "y" => 366,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(days * 86_400).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

impl Prune {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let config = self.at.load()?;
        let store = sqlite(&config, context)?;
        // An earlier call may have told and not finished.
        store.sweep_pruned().await.map_err(CliError::failed)?;
        let (from, to) = self.range(&config, context)?;
        let bundle_sha256 = self.verified(from, to, &config)?;
        let order = Order { to, bundle_sha256 };
        let (from, gone) = store.prune(context.op(), order).await.map_err(CliError::failed)?;
        context.out.answer(
            &json!({ "from": from, "to": to, "pruned": gone, "bundle_sha256": bundle_sha256 }),
            |_| {
                format!(
                    "the bytes of {gone} events are gone, from {from} to {to}; keep {}, which has them",
                    self.bundle.display()
                )
            },
        )
    }

    /// The first and the last event that shall go.
    fn range(&self, config: &Config, context: &Context) -> Result<(u64, u64), CliError> {
        let evidence = Evidence::open(&config.store).map_err(CliError::failed)?;
        let (from, _) = evidence.held().map_err(CliError::failed)?;
        let size = evidence.size().map_err(CliError::failed)?;
        let to = match (self.before, self.older_than) {
            (Some(before), _) => before.checked_sub(1),
            (None, Some(age)) => {
                let moment = context.outside.clock.now().minus(age);
                evidence.last_before(moment).map_err(CliError::failed)?
            }
            (None, None) => None,
        };
        to.filter(|to| *to >= from && to.saturating_add(1) < size)
            .map(|to| (from, to))
            .ok_or_else(|| {
                CliError::failed(format!(
                    "there is nothing to prune: the log has the events from {from} to {}, and its last one stays",
                    size.saturating_sub(1)
                ))
            })
    }

    /// The hash of the bundle's list of files, once the bundle has every event that shall go and a fresh process has verified it.
    fn verified(&self, from: u64, to: u64, config: &Config) -> Result<Digest, CliError> {
        let dir = self.bundle.display();
        let wrong = |why: &dyn std::fmt::Display| CliError::failed(format!("{dir}: {why}; nothing is pruned"));
        let read = || std::fs::read(self.bundle.join(Manifest::FILE));
        let listed = read().map_err(|error| wrong(&format!("no list of files can be read, so it is no bundle: {error}")))?;
        let manifest: Manifest = serde_json::from_slice(&listed).map_err(|error| wrong(&error))?;
        let has = match manifest.what {
            What::Range { first, last } | What::Time { first, last, .. } => first <= from && last >= to,
            What::Case { .. } => false,
        };
        if !has {
            return Err(wrong(&format!(
                "it does not have every event from {from} to {to}: export them with `writ audit export --range {from}..{to} --format bundle`"
            )));
        }
        let LogFiles { head, .. } = app::log_files(config);
        let public = app::log_files(config).public();
        let program = std::env::current_exe().map_err(|error| wrong(&error))?;
        let ran = Command::new(program)
            .args(["audit", "verify"])
            .arg(&self.bundle)
            .arg("--trust")
            .arg(&public)
            .output()
            .map_err(|error| wrong(&error))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stdout);
            let why = String::from_utf8_lossy(&ran.stderr);
            return Err(wrong(&format!("it does not verify: {} {}", said.trim(), why.trim())));
        }
        self.is_of_this_log(&manifest, &head, config).map_err(|why| wrong(&why))?;
        if read().ok().as_deref() != Some(&*listed) {
            return Err(wrong(&"it was changed while it was verified"));
        }
        Ok(Digest::of(&listed))
    }

    /// Whether the bundle's head is one that this log still has in its tree: a bundle of a fork keeps nothing of what is deleted here.
    fn is_of_this_log(&self, manifest: &Manifest, head: &std::path::Path, config: &Config) -> Result<(), String> {
        use crate::audit::source::Nodes;
        use crate::audit::tree::Edge;
        let evidence = Evidence::open(&config.store).map_err(|error| error.to_string())?;
        let root = Edge::read(manifest.size, &Nodes(&evidence)).and_then(|edge| edge.root());
        if root.is_ok_and(|root| root.to_string() == manifest.root) {
            Ok(())
        } else {
            Err(format!("it is of another history than the log with the head {}", head.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit_and_is_not_nothing() {
        assert_eq!(age("2d"), Ok(Duration::from_secs(2 * 86_400)));
        assert_eq!(age("13mo"), Ok(Duration::from_secs(13 * 31 * 86_400)));
        for bad in ["", "13", "mo", "0d", "1h", "-1d", "99999999999999999999y"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
