//! `writ audit export`: part of the log, in a form that others can check.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde_json::{Map, Value, json};

use super::super::context::{Context, load, open};
use super::super::describe::Decimals;
use super::super::error::CliError;
use super::super::output::shown;
use super::file::{self, ExportFormat};
use crate::app;
use crate::audit::bundle::{self, Request, What, Written};
use crate::audit::source::LogSource as _;
use crate::audit::{CasePruned, EventBody, EventKind, Note, VerifierKey, read_log_lines};
use crate::domain::clock::random;
use crate::domain::digest::Digest;
use crate::domain::name::{CaseId, TenantId};
use crate::domain::time::Timestamp;
use crate::store::sqlite::Evidence;

/// Write events of the log out, in a form that others can check.
///
/// A bundle is a directory in the layout of C2SP tlog-tiles: the signed checkpoint, the tree, the events as lines, receipts for those of a
/// case, the public keys, and a list of the files. It verifies with `writ audit verify` and with other people's tools; docs/evidence.md shows
/// how. The other forms are one file each, and every record in them has the event's number and its leaf hash; docs/export.md describes them.
/// The export is itself an event of the log.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit export --config work/writ.toml --case case-1 --format bundle --out evidence\n  writ audit export --config work/writ.toml --range 0..99 --format bundle --out first-hundred\n  writ audit export --db backup.db --time 2026-11-01T00:00:00Z..2026-12-01T00:00:00Z --format bundle --out november\n  writ audit export --config work/writ.toml --range 0..99 --format ocsf --out events.jsonl\n  writ audit export --config work/writ.toml --case case-1 --format page --out case-1.html"
)]
pub(super) struct Export {
    #[command(flatten)]
    what: Which,
    /// The tenant whose case it is, if several have one of this name.
    #[arg(long, value_name = "TENANT", requires = "case")]
    tenant: Option<TenantId>,
    /// The form.
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// The new directory of a bundle, or the new file of any other form.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// The configuration file.
    #[arg(long, value_name = "FILE", env = "WRIT_CONFIG", default_value = "writ.toml")]
    config: PathBuf,
    /// A database file without its configuration, such as a backup. The export is then not written down in the log.
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// With `--db`: the log's public keys, such as keys/log.pub, to go with the bundle.
    #[arg(long, value_name = "FILE", requires = "db")]
    keys: Option<PathBuf>,
}

/// Which events.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The events of one case.
    #[arg(long, value_name = "CASE")]
    case: Option<CaseId>,
    /// The events with these numbers, the last included.
    #[arg(long, value_name = "A..B")]
    range: Option<Span<u64>>,
    /// The events of this time, up to and without the second moment.
    #[arg(long, value_name = "FROM..TO")]
    time: Option<Span<Timestamp>>,
}

/// Two ends with `..` between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span<T> {
    pub(super) from: T,
    pub(super) to: T,
}

/// An end of a span as it is written.
pub(super) trait End: Sized {
    const EXAMPLE: &'static str;
    fn read(text: &str) -> Option<Self>;
}

impl End for u64 {
    const EXAMPLE: &'static str = "0..99";
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl End for Timestamp {
    const EXAMPLE: &'static str = "2026-11-01T00:00:00Z..2026-12-01T00:00:00Z";
    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl<T: End + PartialOrd> FromStr for Span<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.split_once("..").and_then(|(from, to)| Some((T::read(from)?, T::read(to)?)));
        let (from, to) = ends
            .filter(|(from, to)| from <= to)
            .ok_or_else(|| format!("expected two ends, the earlier first, such as {}", T::EXAMPLE))?;
        Ok(Self { from, to })
    }
}

/// What was written, of whichever form.
struct Exported {
    subject: String,
    events: u64,
    origin: String,
    size: u64,
    root: String,
    /// The number of files of a bundle.
    files: Option<usize>,
    /// SHA-256 over the one file, or over the list of files of a bundle.
    sha256: Digest,
    signature: Signature,
    /// What of a case was pruned before its first event that is there.
    pruned: Option<CasePruned>,
}

/// What is known of the signature on the head that covers what was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signature {
    /// A key of the log has made it.
    Checked,
    /// Nobody named a key.
    NotChecked,
}

impl Export {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        if self.format == ExportFormat::Page && self.what.case.is_none() {
            return Err(CliError::usage("--format page is for one case: name it with --case"));
        }
        let Some(db) = &self.db else {
            let config = load(&self.config)?;
            // Opened before anything is written out: who cannot write the export down does not make one.
            let store = open(&config, context)?;
            let public = app::log_files(&config).public();
            let keys = read_keys(&public)?;
            let exported = self.write(&config.store, &keys, &Decimals::of(&config), context)?;
            let op = context.op();
            let event = EventBody {
                subject: Some(exported.subject.clone()),
                count: Some(exported.events),
                content_sha256: Some(exported.sha256),
                ..EventBody::new(EventKind::Note(Note::AuditExported), op.actor.clone())
            };
            store.note(op, event).await.map_err(|error| {
                CliError::failed(format!(
                    "{} is written, but not that it was: {error}; delete it, or write down who has it",
                    self.out.display()
                ))
            })?;
            return self.answer(&exported, context);
        };
        let keys = self.keys.as_deref().map_or(Ok(Vec::new()), read_keys)?;
        let exported = self.write(db, &keys, &Decimals::unknown(), context)?;
        context
            .out
            .warn("this export is not written down in the log, since --db names a file without its configuration");
        if keys.is_empty() {
            context
                .out
                .warn("the signature of the log's head was not checked: name the log's public keys with --keys");
        }
        self.answer(&exported, context)
    }

    fn write(&self, db: &Path, keys: &[VerifierKey], decimals: &Decimals, context: &Context) -> Result<Exported, CliError> {
        let evidence = Evidence::open(db).map_err(CliError::failed)?;
        // What a case or a time is found by must be what the events say, or something is left out that nobody misses.
        if let Some(fault) = evidence.search_faults().map_err(CliError::failed)?.first() {
            return Err(CliError::failed(format!(
                "the log is not written out, since not everything in it can be found: {fault}; see `writ audit verify --index`"
            )));
        }
        let (what, seqs, subject) = self.selected(&evidence)?;
        let now = context.outside.clock.now();
        let mark = format!("{:08x}", u32::from_be_bytes(random(&*context.outside.entropy)));
        let signature = if keys.is_empty() {
            Signature::NotChecked
        } else {
            Signature::Checked
        };
        if self.format != ExportFormat::Bundle {
            let wanted = file::Wanted {
                what: &what,
                seqs: &seqs,
                keys,
                format: self.format,
                now,
                decimals: &|operation, currency| decimals.exponent(&operation.parse().ok()?, currency),
            };
            let done = file::write(&evidence, &wanted, &self.out, &mark).map_err(CliError::failed)?;
            return Ok(Exported {
                subject,
                events: done.events,
                origin: done.head.origin().to_string(),
                size: done.head.size(),
                root: done.head.root().to_string(),
                files: None,
                sha256: done.sha256,
                signature,
                pruned: done.pruned,
            });
        }
        let request = Request {
            what,
            seqs: &seqs,
            keys,
            tool: format!("writ {}", env!("CARGO_PKG_VERSION")),
            now,
        };
        let Written { manifest, sha256, pruned } = bundle::write(&evidence, &request, &self.out, &mark).map_err(CliError::failed)?;
        Ok(Exported {
            subject,
            events: manifest.events,
            origin: manifest.origin,
            size: manifest.size,
            root: manifest.root,
            files: Some(manifest.files.len()),
            sha256,
            signature,
            pruned,
        })
    }

    fn selected(&self, evidence: &Evidence) -> Result<(What, Vec<u64>, String), CliError> {
        if let Some(Span { from, to }) = self.what.time {
            let found = evidence.between(from, to).map_err(CliError::failed)?;
            let (first, last) = found.ok_or_else(|| CliError::failed(format!("the log has no event of the time {from}..{to}")))?;
            let what = What::Time {
                from,
                until: to,
                first,
                last,
            };
            return Ok((what, Vec::new(), format!("time {from}..{to}")));
        }
        if let Some(Span { from, to }) = self.what.range {
            let last = evidence.size().map_err(CliError::failed)?.saturating_sub(1);
            if to > last {
                return Err(CliError::failed(format!("the log ends with event {last}")));
            }
            return Ok((What::Range { first: from, last: to }, Vec::new(), format!("range {from}..{to}")));
        }
        let Some(case) = &self.what.case else {
            return Err(CliError::usage("name what to export: --case, --range or --time"));
        };
        let tenants = evidence.tenants(case.as_str()).map_err(CliError::failed)?;
        let tenant = match (&self.tenant, tenants.as_slice()) {
            (Some(tenant), _) => Some(tenant.to_string()),
            (None, []) => return Err(CliError::failed(format!("the log has no event of the case {case}"))),
            (None, [tenant]) => tenant.clone(),
            (None, several) => {
                let names: Vec<String> = several.iter().flatten().map(|name| shown(name)).collect();
                return Err(CliError::failed(format!(
                    "several tenants have a case {case}; say which with --tenant: {}",
                    names.join(", ")
                )));
            }
        };
        let seqs = evidence.case(case.as_str(), tenant.as_deref()).map_err(CliError::failed)?;
        if seqs.is_empty() {
            return Err(CliError::failed(format!("the log has no event of the case {case} of that tenant")));
        }
        let what = What::Case {
            case_id: case.to_string(),
            tenant,
        };
        Ok((what, seqs, format!("case {case}")))
    }

    fn answer(&self, exported: &Exported, context: &Context) -> Result<(), CliError> {
        let out = self.out.display().to_string();
        let Exported {
            events,
            origin,
            size,
            root,
            sha256,
            ..
        } = exported;
        let mut value = Map::new();
        let mut put = |name: &str, what: Value| drop(value.insert(name.to_owned(), what));
        put("out", json!(out));
        put("events", json!(events));
        put("origin", json!(origin));
        put("size", json!(size));
        put("root", json!(root));
        let mut under = format!("{events} events of {origin} are in {out}, under its head of {size} events");
        match exported.signature {
            Signature::Checked => put("signature", json!("checked")),
            Signature::NotChecked => {
                put("signature", json!("not checked"));
                under.push_str(", whose signature was not checked");
            }
        }
        under.push('\n');
        if let Some(pruned) = &exported.pruned {
            put("pruned", json!(pruned));
            under.push_str(&format!("{pruned}\n"));
        }
        let text = match exported.files {
            Some(files) => {
                put("files", json!(files));
                put("manifest_sha256", json!(sha256));
                format!("{under}verify them with the log's public keys, got by another way:\n  writ audit verify {out} --trust log.pub\n")
            }
            None => {
                put("sha256", json!(sha256));
                format!("{under}the file proves nothing by itself; what does is a bundle: --format bundle\n")
            }
        };
        context.out.answer(&value, |_| text.clone())
    }
}

/// The public keys of a log.
fn read_keys(path: &Path) -> Result<Vec<VerifierKey>, CliError> {
    let at = |why: &dyn std::fmt::Display| CliError::failed(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
    read_log_lines(&text).map_err(|why| at(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_two_ends_the_earlier_first() {
        assert_eq!("3..3".parse(), Ok(Span { from: 3_u64, to: 3 }));
        for bad in ["3", "4..3", "a..b", "1...2", "..", "-1..2"] {
            assert!(bad.parse::<Span<u64>>().unwrap_err().contains("0..99"), "{bad}");
        }
        assert!("2026-11-01T00:00:00Z..2026-12-01T00:00:00Z".parse::<Span<Timestamp>>().is_ok());
        assert!("2026-12-01T00:00:00Z..2026-11-01T00:00:00Z".parse::<Span<Timestamp>>().is_err());
    }
}
