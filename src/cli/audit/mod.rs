//! `writ audit`: the log as whoever sits at the command line reads it, of every tenant, carries it off and verifies it. Every read is itself in
//! the log.

mod disclose;
mod erase;
mod export;
mod file;
mod hold;
mod prune;
mod search;
mod show;
mod tail;
mod verify;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::context::Context;
use super::error::CliError;
use super::output::{Output, shown};
use crate::audit::tree::leaf_hash;
use crate::audit::{EventBody, EventKind, Note, SignedHead};
use crate::domain::digest::Digest;
use crate::store::Store;
use crate::store::record::StoredEvent;

/// Read the audit log, verify it, carry it off as evidence, and keep no more of it than must be kept.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit show case-1 --config work/writ.toml\n  writ audit tail --follow --config work/writ.toml\n  writ audit verify --config work/writ.toml\n  writ audit export --config work/writ.toml --case case-1 --format bundle --out evidence"
)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
enum AuditCommand {
    Show(show::Show),
    Search(Box<search::Search>),
    Tail(tail::Tail),
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
            AuditCommand::Show(command) => command.run(context).await,
            AuditCommand::Search(command) => command.run(context).await,
            AuditCommand::Tail(command) => command.run(context).await,
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

/// One event, as programs get it.
#[derive(Serialize)]
struct Line {
    seq: u64,
    /// In hexadecimal.
    leaf_hash: String,
    /// Its exact bytes, as text.
    event: String,
}

impl From<&StoredEvent> for Line {
    fn from(event: &StoredEvent) -> Self {
        Self {
            seq: event.seq,
            leaf_hash: leaf_hash(&event.bytes).0.iter().map(|byte| format!("{byte:02x}")).collect(),
            event: String::from_utf8_lossy(&event.bytes).into_owned(),
        }
    }
}

/// The log's head, as programs get it.
#[derive(Serialize)]
struct Head {
    size: u64,
    checkpoint: String,
}

impl From<&SignedHead> for Head {
    fn from(head: &SignedHead) -> Self {
        Self {
            size: head.size(),
            checkpoint: head.text().to_owned(),
        }
    }
}

/// Records a read before anything of it is shown.
async fn record(context: &Context, store: &dyn Store, subject: &str, asked: &str) -> Result<(), CliError> {
    let op = context.op();
    let event = EventBody {
        subject: Some(subject.to_owned()),
        content_sha256: Some(Digest::of(asked.as_bytes())),
        ..EventBody::new(EventKind::Note(Note::AuditRead), op.actor.clone())
    };
    let noted = store.note(op, event).await;
    noted
        .map(drop)
        .map_err(|error| CliError::failed(format!("the read cannot be recorded, so nothing is shown: {error}")))
}

/// What stands above the columns of [`row`].
const HEADER: [&str; 7] = ["seq", "time", "type", "outcome", "actor", "case", "about"];

/// One event in a line.
fn row(event: &StoredEvent) -> Vec<String> {
    let value: Value = serde_json::from_slice(&event.bytes).unwrap_or_default();
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(shown).unwrap_or_default();
    vec![
        event.seq.to_string(),
        text("/time"),
        text("/type"),
        text("/outcome"),
        text("/actor/id"),
        text("/case_id"),
        about(&value),
    ]
}

/// What an event is about, the most telling first.
fn about(event: &Value) -> String {
    let named = [
        ("", "/code"),
        ("approver ", "/approval/approver"),
        ("reference ", "/provider/reference"),
        ("stop ", "/stop/id"),
        ("", "/subject"),
        ("", "/credential/id"),
        ("", "/execution/id"),
        ("", "/draft/id"),
    ];
    let found = named.iter().filter_map(|(word, pointer)| {
        let text = event.pointer(pointer).and_then(Value::as_str)?;
        Some(format!("{word}{}", shown(text)))
    });
    found.take(2).collect::<Vec<_>>().join(", ")
}

fn table(out: &Output, events: &[StoredEvent]) -> String {
    out.table(&HEADER, &events.iter().map(row).collect::<Vec<_>>())
}
