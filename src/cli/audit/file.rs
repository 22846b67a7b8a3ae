//! One file of exported events, in one of other people's formats: written beside its place and put there whole, over nothing.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::audit::bundle::{BundleError, What, has_place, pruned_before};
use crate::audit::export::page::{CaseEntry, CasePage, Command, html};
use crate::audit::export::{Entry, ExportError, csv, jsonl, ocsf, selected};
use crate::audit::source::LogSource;
use crate::audit::{CasePruned, SignedHead, VerifierKey, sync_dir_of};
use crate::domain::digest::Digest;
use crate::domain::money::Currency;
use crate::domain::time::Timestamp;

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// A tlog-tiles directory with everything that is needed to check it.
    Bundle,
    /// A JSON object a line: number, leaf hash and the exact bytes.
    Jsonl,
    /// RFC 4180, with a line of names.
    Csv,
    /// OCSF 1.8.0 events, one a line.
    Ocsf,
    /// A page of one case, for people.
    Page,
}

/// What is to be written.
pub(super) struct Wanted<'a> {
    pub(super) what: &'a What,
    /// The numbers of a case's events.
    pub(super) seqs: &'a [u64],
    /// The log's keys; without any the head's signature is not looked at.
    pub(super) keys: &'a [VerifierKey],
    pub(super) format: ExportFormat,
    pub(super) now: Timestamp,
    pub(super) decimals: &'a dyn Fn(&str, Currency) -> Option<u8>,
}

/// What was written.
pub(super) struct Done {
    pub(super) head: SignedHead,
    pub(super) events: u64,
    pub(super) sha256: Digest,
    /// What of a case was pruned before its first event that is there.
    pub(super) pruned: Option<CasePruned>,
}

/// Writes the file, whole or not at all.
pub(super) fn write(source: &impl LogSource, wanted: &Wanted<'_>, to: &Path, mark: &str) -> Result<Done, BundleError> {
    let at = |path: &Path, error: std::io::Error| BundleError::Write(format!("{}: {error}", path.display()));
    if to.exists() {
        return Err(BundleError::Write(format!("{} exists already: name a new file", to.display())));
    }
    has_place(to).map_err(BundleError::Write)?;
    let partial = Partial(to.with_file_name(format!(".{}.partial-{mark}", to.file_name().unwrap_or_default().to_string_lossy())));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial.0);
    let mut out = BufWriter::new(file.map_err(|error| at(&partial.0, error))?);
    let pruned = pruned_before(source, wanted.seqs)?;
    let (head, events) = lines(source, wanted, pruned.as_ref(), &mut out)?;
    let file = out.into_inner().map_err(|error| at(&partial.0, error.into_error()))?;
    file.sync_all().map_err(|error| at(&partial.0, error))?;
    let bytes = std::fs::read(&partial.0).map_err(|error| at(&partial.0, error))?;
    // A link is never put over what has come there meanwhile.
    std::fs::hard_link(&partial.0, to).map_err(|error| at(to, error))?;
    sync_dir_of(to).inspect_err(|_| drop(std::fs::remove_file(to)))?;
    Ok(Done {
        head,
        events,
        sha256: Digest::of(&bytes),
        pruned,
    })
}

/// Goes away with whoever made it.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Nobody is left to be told.
        drop(std::fs::remove_file(&self.0));
    }
}

fn lines(
    source: &impl LogSource,
    wanted: &Wanted<'_>,
    pruned: Option<&CasePruned>,
    out: &mut BufWriter<File>,
) -> Result<(SignedHead, u64), BundleError> {
    let mut put = |text: Result<String, ExportError>| -> Result<(), String> {
        let text = text.map_err(|error| error.to_string())?;
        out.write_all(text.as_bytes()).map_err(|error| error.to_string())
    };
    let mut case = Vec::new();
    if wanted.format == ExportFormat::Csv {
        put(Ok(csv::header())).map_err(BundleError::Write)?;
    }
    let (head, events) = selected::each(source, wanted.what, wanted.seqs, wanted.keys, |head, entry| match wanted.format {
        ExportFormat::Jsonl => put(jsonl::line(&entry)),
        ExportFormat::Csv => put(csv::record(&entry)),
        ExportFormat::Ocsf => put(ocsf::line(&entry, head.origin().as_str())),
        ExportFormat::Page | ExportFormat::Bundle => {
            case.push(entry);
            Ok(())
        }
    })?;
    if wanted.format == ExportFormat::Page {
        put(page(wanted, &head, pruned, case)).map_err(BundleError::Write)?;
    }
    Ok((head, events))
}

fn page(wanted: &Wanted<'_>, head: &SignedHead, pruned: Option<&CasePruned>, entries: Vec<Entry>) -> Result<String, ExportError> {
    let case_id = match wanted.what {
        What::Case { case_id, .. } => case_id.as_str(),
        What::Range { .. } | What::Time { .. } => "",
    };
    let entries: Vec<CaseEntry> = entries.into_iter().map(|entry| CaseEntry { entry, verify: Vec::new() }).collect();
    let command = |what: &str, command: String| Command {
        what: what.to_owned(),
        command,
    };
    let mut findings = vec!["Each event on this page is in the log under the head below.".to_owned()];
    if wanted.keys.is_empty() {
        findings.push(
            "NOT SIGNED FOR ALL WE KNOW: the signature of the head was not checked, since nobody said whose key to believe.".to_owned(),
        );
    }
    findings.extend(pruned.map(|pruned| format!("NOT FROM ITS BEGINNING: {pruned}.")));
    findings.push(
        "NOT ANCHORED: this page was not compared with anything that is kept outside; the bundle and the commands are for that.".to_owned(),
    );
    html(&CasePage {
        case_id,
        origin: head.origin().as_str(),
        checkpoint: head.text(),
        made_at: wanted.now,
        findings: &findings,
        entries: &entries,
        commands: &[
            command(
                "Writes this case out with its proofs, where the log is.",
                format!("writ audit export --case {case_id} --format bundle --out evidence"),
            ),
            command(
                "Verifies it anywhere, with the log's public keys got by another way.",
                "writ audit verify evidence --trust log.pub".to_owned(),
            ),
            command(
                "Shows without writ that its list of files is the one that was written; the list has the hash of each.",
                "cd evidence && sha256sum -c MANIFEST.sha256".to_owned(),
            ),
        ],
        decimals: wanted.decimals,
    })
}
