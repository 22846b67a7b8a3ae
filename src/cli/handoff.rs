//! `writ handoff`: executions whose outcome only a person can find out, and what that person needs.

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::{At, Context, load, open};
use super::describe::{Decimals, document as told, section};
use super::error::CliError;
use super::execution::text as execution_text;
use super::output::{Output, shown};
use crate::domain::draft::DraftDocument;
use crate::domain::id::ExecutionId;
use crate::domain::lifecycle::ExecutionState;
use crate::domain::time::Timestamp;
use crate::http::{HandoffLine, HandoffView};
use crate::proxy::{Reason, actions, look_for};
use crate::store::Store;
use crate::store::intent::{Case, HandoffFilter};
use crate::store::record::ExecutionRecord;

/// See what waits for a person, and what that person needs to find it out.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ handoff list\n  writ handoff show exe_0192f0c1a2b37c4d8e5f60718293a4b5")]
pub(super) struct HandoffArgs {
    #[command(subcommand)]
    command: HandoffCommand,
}

#[derive(Subcommand)]
enum HandoffCommand {
    List(List),
    Show(Show),
}

/// List executions that wait for a person, oldest first.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ handoff list --config work/writ.toml\n  writ handoff list --all")]
struct List {
    /// Also those that were resolved.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    at: At,
}

/// Show one with its exact request, every attempt, every look-up, what to look for at the backend, and what can be done.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ handoff show exe_0192f0c1a2b37c4d8e5f60718293a4b5\n  writ handoff show exe_0192f0c1a2b37c4d8e5f60718293a4b5 --json"
)]
struct Show {
    /// The execution.
    #[arg(value_name = "EXECUTION")]
    id: ExecutionId,
    #[command(flatten)]
    at: At,
}

impl HandoffArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let now = context.outside.clock.now();
        match self.command {
            HandoffCommand::List(list) => {
                let config = load(&list.at.config)?;
                let found = every(&*open(&config, context)?, list.all).await?;
                let views: Vec<HandoffLine> = found.iter().filter_map(|execution| HandoffLine::of(execution, now)).collect();
                context.out.answer(&json!({ "handoffs": views }), |out| {
                    let decimals = Decimals::of(&config);
                    let rows: Vec<Vec<String>> = found.iter().map(|execution| row(execution, &decimals, now)).collect();
                    out.table(&["execution", "waits", "why", "operation", "resource", "amount"], &rows)
                })
            }
            HandoffCommand::Show(show) => {
                let config = load(&show.at.config)?;
                let store = open(&config, context)?;
                let unknown = || {
                    CliError::failed(format!(
                        "{} was never handed to a person; `writ handoff list --all` names those that were",
                        show.id
                    ))
                };
                let execution = store.execution(show.id).await.map_err(CliError::failed)?.ok_or_else(unknown)?;
                let draft = store.draft(execution.draft).await.map_err(CliError::failed)?.ok_or_else(unknown)?;
                let bytes = store
                    .draft_bytes(execution.draft)
                    .await
                    .map_err(CliError::failed)?
                    .ok_or_else(unknown)?;
                let document = DraftDocument::parse(&bytes).map_err(|error| CliError::failed(format!("draft {}: {error}", draft.id)))?;
                let view = HandoffView::of(&execution, &draft, &document, now).ok_or_else(unknown)?;
                context.out.answer(&view, |out| {
                    let decimals = Decimals::of(&config);
                    let mut text = execution_text(out, &execution, &decimals);
                    text.push_str(&case(out, &execution, &document, now));
                    text.push('\n');
                    text.push_str(&told(out, &document, &execution.key, &decimals));
                    text
                })
            }
        }
    }
}

/// Every handoff, page by page.
async fn every(store: &dyn Store, all: bool) -> Result<Vec<ExecutionRecord>, CliError> {
    const PAGE: u32 = 200;
    let mut found: Vec<ExecutionRecord> = Vec::new();
    loop {
        let filter = HandoffFilter {
            case: (!all).then_some(Case::Open),
            after: found.last().map(|execution| execution.id),
            limit: PAGE,
            ..HandoffFilter::default()
        };
        let page = store.handoffs(filter).await.map_err(CliError::failed)?;
        let full = page.len() == PAGE as usize;
        found.extend(page);
        if !full {
            return Ok(found);
        }
    }
}

fn row(execution: &ExecutionRecord, decimals: &Decimals, now: Timestamp) -> Vec<String> {
    let handed_off = execution.handed_off.as_ref();
    let waits = match handed_off {
        Some(handed_off) if execution.state == ExecutionState::HandedOff => age(now.since(handed_off.at).as_secs()),
        _ => format!("no, it is {}", execution.state),
    };
    let amount = execution.amount.map(|money| decimals.amount(&execution.operation, money));
    vec![
        execution.id.to_string(),
        waits,
        handed_off.map(|h| shown(&h.code)).unwrap_or_default(),
        execution.operation.to_string(),
        execution.resource.to_string(),
        amount.unwrap_or_else(|| "-".to_owned()),
    ]
}

/// A time that has passed, in its largest whole unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Why it waits, what to look for, what can be done.
fn case(out: &Output, execution: &ExecutionRecord, document: &DraftDocument, now: Timestamp) -> String {
    let mut text = String::new();
    if let Some(handed_off) = &execution.handed_off {
        let sentence = Reason::parse(&handed_off.code).map_or("a reason this program does not know", Reason::sentence);
        let why = format!("{}: {sentence}", shown(&handed_off.code));
        text.push_str(&section(out, "why a person", &[format!("handed off at {}", handed_off.at), why]));
    }
    text.push_str(&section(out, "hashes", &hashes(execution)));
    let mut lines: Vec<String> = look_for(execution, document)
        .iter()
        .map(|l| format!("{}: {} ({})", l.what, shown(&l.value), l.place))
        .collect();
    lines.push(match execution.send_until {
        Some(until) if until <= now => format!("the window of the key is over since {until}: the backend may have forgotten it"),
        Some(until) => format!("the window of the key is open until {until}"),
        None => "nothing was written down to be sent".to_owned(),
    });
    text.push_str(&section(out, "look for at the backend", &lines));
    if execution.state == ExecutionState::HandedOff {
        let lines: Vec<String> = actions(execution)
            .iter()
            .flat_map(|action| {
                let does = action.command.clone().unwrap_or_else(|| "leave it".to_owned());
                [does, format!("  {}", action.means)]
            })
            .collect();
        text.push_str(&section(out, "what can be done", &lines));
    }
    text
}

/// SHA-256 of everything that was sent and that came back, to compare with what the backend has.
fn hashes(execution: &ExecutionRecord) -> Vec<String> {
    let mut lines = Vec::new();
    for attempt in &execution.attempts {
        lines.push(format!("attempt {}, body sent: {}", attempt.n, attempt.request_sha256));
        let answer = attempt.result.as_ref().and_then(|result| result.body_sha256);
        lines.extend(answer.map(|digest| format!("attempt {}, answer: {digest}", attempt.n)));
    }
    for look_up in &execution.lookups {
        lines.extend(
            look_up
                .body_sha256
                .map(|digest| format!("look-up at {}, answer: {digest}", look_up.at)),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_its_largest_whole_unit() {
        let told: Vec<String> = [59, 60, 3_599, 3_600, 172_799, 172_800].map(age).to_vec();
        assert_eq!(told, ["59 s", "1 min", "59 min", "1 h", "47 h", "2 days"]);
    }
}
