//! `writ audit verify`: whether a log, or what was carried off of it, is what was signed.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::super::context::{Context, load};
use super::super::error::CliError;
use super::super::output::{Output, shown};
use super::super::words::span;
use crate::app;
use crate::audit::bundle::{Bundle, Manifest};
use crate::audit::source::SourceError;
use crate::audit::vault::Vault;
use crate::audit::verify::{
    Asked, EXIT_NO_KEY, EXIT_UNREADABLE, Fault, OutsideHead, Report, StateTables, Verdict, verify, verify_bundle, verify_lines,
    verify_receipt,
};
use crate::audit::{Receipt, TrustPolicy, VerifierKey};
use crate::store::sqlite::Evidence;

/// Verify a database, a bundle, a receipt or lines of events, without asking anybody.
///
/// Every event is hashed from its bytes and every root is recomputed; nothing is believed but the keys you name and the heads you kept. Without
/// a head from outside, or witnesses, a log that was taken back, or signed anew with a stolen key, looks good: the last line then is
/// SELF-CONSISTENT, NOT ANCHORED.
///
/// Exit codes: 0 good; 1 wrong use, or it cannot be read; 2 tampered; 3 rolled back, forked or stale; 4 incomplete; 5 no key named.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit verify --config work/writ.toml\n  writ audit verify evidence --trust log.pub\n  writ audit verify backup.db --trust log.pub --against yesterday.checkpoint --state\n  writ audit verify 17.tlog-proof --event 17.json --vkey broker.example/audit+79602d21+Aa/lmHQJuW/oLLH2WLItsiGWGBelhbBz1dwOnDZT9Fxr"
)]
pub(super) struct Verify {
    /// A database, a bundle, a `.tlog-proof` receipt, or an events.jsonl; with --config, the store it names.
    what: Option<PathBuf>,
    /// Whom to believe: a C2SP tlog-policy such as keys/log.pub, got by a way that the log's host does not control.
    #[arg(long, value_name = "FILE", conflicts_with = "vkey")]
    trust: Option<PathBuf>,
    /// A public key of the log, `name+id+key`.
    #[arg(long, value_name = "VKEY")]
    vkey: Vec<VerifierKey>,
    /// A head that was kept outside: a checkpoint, a receipt, a log's head file, an older bundle, or a file with the head lines that a broker
    /// printed (`head_lines` in `[audit]`).
    #[arg(long, value_name = "PATH")]
    against: Vec<PathBuf>,
    /// The public key of a witness that must have signed.
    #[arg(long, value_name = "VKEY")]
    witness: Vec<VerifierKey>,
    /// How many of the witnesses must have signed; all of them if left out.
    #[arg(long, value_name = "N", requires = "witness")]
    quorum: Option<usize>,
    /// How old the witnesses' signatures may be, such as 15m; without witnesses, the last event by its own clock.
    #[arg(long, value_name = "DURATION", value_parser = span)]
    max_age: Option<Duration>,
    /// A case that must be there without a gap.
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// Replay the events of a database and compare them with the state that the broker decides by.
    #[arg(long)]
    state: bool,
    /// Check that what the events of a database are found by is what they say.
    #[arg(long)]
    index: bool,
    /// Check that every commitment of a database has its opening, or was erased as its log says; with --config, that each opens.
    #[arg(long)]
    openings: bool,
    /// With a receipt: the file with the event's exact bytes.
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// Verify the store of this configuration by its own keys and its head file. That is the operator's look: outsiders bring their own.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What kind of thing is verified.
enum Kind {
    Database,
    Directory,
    Receipt,
    Lines,
}

fn unreadable(why: impl std::fmt::Display) -> CliError {
    CliError::Ended(EXIT_UNREADABLE, why.to_string())
}

impl Verify {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let config = self.config.as_deref().map(load).transpose().map_err(as_unreadable)?;
        let files = config.as_ref().map(app::log_files);
        let what = match (&self.what, &config) {
            (Some(what), _) => what.clone(),
            (None, Some(config)) => config.store.clone(),
            (None, None) => return Err(unreadable("name what to verify, or a configuration with --config")),
        };
        let kind = kind(&what)?;
        let trust_file = self
            .trust
            .clone()
            .or_else(|| files.as_ref().filter(|_| self.vkey.is_empty()).map(|files| files.public()));
        let own_head = files.as_ref().filter(|_| self.what.is_none()).map(|files| files.head.clone());
        let is_gone = |head: &PathBuf| matches!(head.try_exists(), Ok(false));
        let (gone, own_head) = (own_head.clone().filter(is_gone), own_head.filter(|head| !is_gone(head)));
        let against: Vec<PathBuf> = self.against.iter().cloned().chain(own_head).collect();
        self.fits(&kind)?;
        if let Some(dir) = bundle_of(&what, &kind)? {
            outside(&dir, trust_file.iter().chain(&against))?;
        }
        let trust = self.trusted(trust_file.as_deref())?;
        // Before the log is read: what is kept outside may only be older than what is then found.
        let anchors = against.iter().map(|path| OutsideHead::read(path)).collect::<Result<Vec<_>, _>>();
        let mut asked = Asked {
            anchors: anchors.map_err(unreadable)?,
            max_age: self.max_age,
            now: context.outside.clock.now(),
            case: self.case.clone(),
            state: None,
        };
        let mut report = self.report(&what, &kind, &trust, &mut asked).map_err(unreadable)?;
        // The first process on a log writes its head file after the head: looked for once more, it is there.
        if let Some(head) = gone.filter(|head| is_gone(head) && report.origin.is_some()) {
            let what = format!(
                "the head file {} is not there, and the log has had one since its first head: whoever takes a log back removes it",
                head.display()
            );
            report.find(Fault::RolledBack, what);
        }
        context.out.answer(&value(&report), |out| text(&report, out))?;
        match report.verdict().exit() {
            0 => Ok(()),
            code => Err(CliError::Answered(code)),
        }
    }

    /// What is asked of one kind of thing means nothing for another.
    fn fits(&self, kind: &Kind) -> Result<(), CliError> {
        let is_receipt = matches!(kind, Kind::Receipt);
        if is_receipt && self.case.is_some() {
            return Err(unreadable(
                "--case needs a database, a bundle or lines: a receipt is about one event and cannot show that its case has no gap",
            ));
        }
        if !is_receipt && self.event.is_some() {
            return Err(unreadable(
                "--event goes with a receipt, and with nothing else: name the receipt, or leave it out",
            ));
        }
        Ok(())
    }

    fn report(&self, what: &Path, kind: &Kind, trust: &TrustPolicy, asked: &mut Asked<'_>) -> Result<Report, SourceError> {
        let told = |why: &dyn std::fmt::Display| SourceError(format!("{}: {why}", what.display()));
        let only = |name: &str| told(&format!("--{name} needs a database"));
        match kind {
            Kind::Database => {
                let evidence = Evidence::open(what).map_err(|error| SourceError(error.to_string()))?;
                let tables: &dyn StateTables = &evidence;
                let asked = Asked {
                    anchors: std::mem::take(&mut asked.anchors),
                    case: asked.case.take(),
                    state: self.state.then_some(tables),
                    ..*asked
                };
                let mut report = verify(&evidence, trust, &asked)?;
                if self.index || self.state {
                    let mut faults = if self.index {
                        evidence.search_faults()
                    } else {
                        evidence.schema_faults()
                    }?;
                    if faults.is_empty() && !self.index {
                        faults = evidence.index_faults()?;
                    }
                    faults.into_iter().for_each(|what| report.find(Fault::Tampered, what));
                }
                if self.openings {
                    let vault = self.vault()?;
                    let (seen, wrong) = evidence.openings(vault.as_ref())?;
                    report.openings = Some(seen);
                    wrong.into_iter().for_each(|what| report.find(Fault::Incomplete, what));
                }
                Ok(report)
            }
            _ if self.openings => Err(only("openings")),
            _ if self.state => Err(only("state")),
            _ if self.index => Err(only("index")),
            Kind::Directory => verify_bundle(&Bundle::open(what)?, trust, asked),
            Kind::Lines => verify_lines(what, trust, asked),
            Kind::Receipt => {
                let event = self
                    .event
                    .as_deref()
                    .ok_or_else(|| told(&"name the event that it is about with --event"))?;
                let text = std::fs::read_to_string(what).map_err(|error| told(&error))?;
                let receipt = Receipt::read(&text).map_err(|error| told(&error))?;
                let bytes = std::fs::read(event).map_err(|error| SourceError(format!("{}: {error}", event.display())))?;
                Ok(verify_receipt(&receipt, bytes.strip_suffix(b"\n").unwrap_or(&bytes), trust, asked))
            }
        }
    }

    /// What opens the openings, where the configuration names it.
    fn vault(&self) -> Result<Option<Vault>, SourceError> {
        let Some(path) = &self.config else { return Ok(None) };
        let config = crate::config::Config::load(path).map_err(|error| SourceError(error.to_string()))?;
        Vault::load(&app::log_files(&config).subjects()).map_err(SourceError)
    }

    /// Whom to believe.
    fn trusted(&self, file: Option<&Path>) -> Result<TrustPolicy, CliError> {
        let policy = match file {
            Some(path) => {
                let at = |why: &dyn std::fmt::Display| unreadable(format!("{}: {why}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
                TrustPolicy::parse(&text).map_err(|why| at(&why))?
            }
            None => {
                if let Some(key) = self.vkey.iter().find(|key| key.is_witness()) {
                    return Err(unreadable(format!("{key} is the key of a witness: name it with --witness")));
                }
                TrustPolicy::of_logs(self.vkey.clone())
            }
        };
        if policy.logs().is_empty() {
            return Err(CliError::Ended(
                EXIT_NO_KEY,
                "nobody said whose key to believe: name the log's public key with --trust or --vkey".to_owned(),
            ));
        }
        if self.witness.is_empty() {
            return Ok(policy);
        }
        let quorum = self.quorum.unwrap_or(self.witness.len());
        policy.witnessed_by(self.witness.clone(), quorum).map_err(unreadable)
    }
}

/// What cannot be used at all ends as what cannot be read.
fn as_unreadable(error: CliError) -> CliError {
    match error {
        CliError::Failed(lines) => unreadable(lines.join("\n")),
        other => other,
    }
}

fn kind(what: &Path) -> Result<Kind, CliError> {
    let at = |error: std::io::Error| unreadable(format!("{}: {error}", what.display()));
    if std::fs::metadata(what).map_err(at)?.is_dir() {
        return Ok(Kind::Directory);
    }
    let mut first = Vec::new();
    let file = std::fs::File::open(what).map_err(at)?;
    file.take(22).read_to_end(&mut first).map_err(at)?;
    Ok(match first.as_slice() {
        bytes if bytes.starts_with(b"SQLite format 3\0") => Kind::Database,
        bytes if bytes.starts_with(b"c2sp.org/tlog-proof@v1") => Kind::Receipt,
        _ => Kind::Lines,
    })
}

/// The bundle that is verified, or that what is verified lies in.
fn bundle_of(what: &Path, kind: &Kind) -> Result<Option<PathBuf>, CliError> {
    let is_bundle = |dir: &&Path| {
        ["checkpoint", Manifest::FILE]
            .iter()
            .any(|file| dir.join(file).symlink_metadata().is_ok())
    };
    let what = what
        .canonicalize()
        .map_err(|error| unreadable(format!("{}: {error}", what.display())))?;
    Ok(match kind {
        Kind::Directory => Some(what),
        Kind::Receipt | Kind::Lines => what.ancestors().skip(1).find(is_bundle).map(Path::to_owned),
        Kind::Database => None,
    })
}

/// Whoever made the directory could have put a key or a head there that suits it.
fn outside<'p>(dir: &Path, files: impl Iterator<Item = &'p PathBuf>) -> Result<(), CliError> {
    let real = |path: &Path| {
        path.canonicalize()
            .map_err(|error| unreadable(format!("{}: {error}", path.display())))
    };
    let dir_is = real(dir)?;
    for file in files {
        if real(file)?.starts_with(&dir_is) {
            return Err(unreadable(format!(
                "{} lies in the directory that is verified, or with it in one bundle, so that it proves nothing: get it by another way",
                file.display()
            )));
        }
    }
    Ok(())
}

fn value(report: &Report) -> serde_json::Value {
    let verdict = report.verdict();
    let mut value = json!({ "verdict": verdict, "exit": verdict.exit(), "line": verdict.line(), "anchored": report.anchored() });
    if let (Some(value), Ok(serde_json::Value::Object(more))) = (value.as_object_mut(), serde_json::to_value(report)) {
        value.extend(more);
    }
    value
}

fn text(report: &Report, out: &Output) -> String {
    let span = |first: Option<&String>, last: Option<&String>| match (first, last) {
        (Some(first), Some(last)) => format!("{} to {}", shown(first), shown(last)),
        _ => "-".to_owned(),
    };
    let numbers = match (report.first, report.last) {
        (Some(first), Some(last)) => format!("{}, from {first} to {last}", report.events),
        _ => "none".to_owned(),
    };
    let mut pairs = vec![
        ("log", report.origin.as_deref().map_or_else(|| "-".to_owned(), shown)),
        ("size", format!("{} events", report.size)),
        ("root", report.root.clone().unwrap_or_else(|| "-".to_owned())),
        ("events", numbers),
        ("times", span(report.first_time.as_ref(), report.last_time.as_ref())),
        ("heads", report.heads.to_string()),
        ("written by", format!("{} processes", report.writers)),
        ("cases", report.cases.to_string()),
    ];
    for key in &report.keys {
        let until = key.until.map_or_else(String::new, |until| format!(" to {until}"));
        pairs.push(("key", format!("{}, from {}{until} events", key.key, key.from)));
    }
    for case in &report.case {
        let tenant = case
            .tenant
            .as_deref()
            .map_or_else(String::new, |tenant| format!(" of {}", shown(tenant)));
        pairs.push(("case", format!("{}{tenant}, {} events", shown(&case.case_id), case.events)));
    }
    if let Some(state) = &report.state {
        let compared = format!(
            "{} things, {} records, {} registered",
            state.things, state.records, state.registered
        );
        pairs.push(("state", compared));
    }
    if let Some(first) = report.pruned {
        pairs.push(("pruned", format!("the events before {first}, as the log says")));
    }
    if let Some(seen) = &report.openings {
        let erased = format!(
            "{} commitments, {} with their opening, {} erased as the log says",
            seen.commitments, seen.sealed, seen.erased
        );
        pairs.push(("openings", erased));
    }
    for anchor in &report.anchors {
        let at = anchor.at.map_or_else(String::new, |at| format!(" at {at}"));
        pairs.push(("anchor", format!("{}{at}, {} events", shown(&anchor.what), anchor.size)));
    }
    if let Some(after) = report
        .anchored()
        .and_then(|upto| report.size.checked_sub(upto))
        .filter(|after| *after > 0)
    {
        pairs.push(("not anchored", format!("the last {after} events")));
    }
    let mut text = out.pairs(&pairs);
    for finding in &report.findings {
        text.push_str(&format!("{}\n", out.bad(&shown(&finding.what))));
    }
    if report.more_findings > 0 {
        text.push_str(&format!("and {} more findings\n", report.more_findings));
    }
    let verdict = report.verdict();
    let line = match verdict {
        Verdict::Anchored => out.good(verdict.line()),
        Verdict::SelfConsistent => out.strong(verdict.line()),
        _ => out.bad(verdict.line()),
    };
    text + &line + "\n"
}
