//! `writ execution`: what was done, and what a person found out.

use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;

use super::context::{At, Context, load, open};
use super::describe::{Decimals, section};
use super::error::CliError;
use super::output::{Output, shown};
use crate::domain::id::{DraftId, ExecutionId};
use crate::domain::lifecycle::ExecutionState;
use crate::http::ExecutionView;
use crate::proxy;
use crate::store::intent::{DraftFilter, Resolution};
use crate::store::record::ExecutionRecord;
use crate::store::{Rejection, Store, StoreError};

/// Look at executions, and end what only a person can find out.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ execution list --unresolved\n  writ execution show exe_0192f0c1a2b37c4d8e5f60718293a4b5")]
pub(super) struct ExecutionArgs {
    #[command(subcommand)]
    command: ExecutionCommand,
}

#[derive(Subcommand)]
enum ExecutionCommand {
    Show(Show),
    List(List),
    Resolve(ResolveArgs),
}

/// An execution, by its own id or its draft's.
#[derive(Clone, Copy)]
enum Which {
    Execution(ExecutionId),
    Draft(DraftId),
}

fn which(text: &str) -> Result<Which, String> {
    if text.starts_with("drf_") {
        return text
            .parse()
            .map(Which::Draft)
            .map_err(|error: crate::domain::id::IdError| error.to_string());
    }
    text.parse()
        .map(Which::Execution)
        .map_err(|error: crate::domain::id::IdError| format!("{error}, or the id of a draft"))
}

/// Show an execution with its attempts and look-ups.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ execution show exe_0192f0c1a2b37c4d8e5f60718293a4b5\n  writ execution show drf_0192f0c1a2b37c4d8e5f60718293a4b5 --json"
)]
struct Show {
    /// The execution, or its draft.
    #[arg(value_name = "EXECUTION|DRAFT", value_parser = which)]
    id: Which,
    #[command(flatten)]
    at: At,
}

/// List executions, oldest draft first.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ execution list --config work/writ.toml\n  writ execution list --unresolved")]
struct List {
    /// Only those whose outcome is open.
    #[arg(long)]
    unresolved: bool,
    #[command(flatten)]
    at: At,
}

/// Say what became of an execution that nothing but a person can find out.
///
/// Look it up at the backend first: what you say here is what counts afterwards.
#[derive(Args)]
#[command(
    group = ArgGroup::new("outcome").required(true).args(["applied", "not_applied"]),
    after_help = "Examples:\n  writ execution resolve exe_0192f0c1a2b37c4d8e5f60718293a4b5 --applied --reference re_123 --evidence 'seen in the dashboard'\n  writ execution resolve exe_0192f0c1a2b37c4d8e5f60718293a4b5 --not-applied --evidence 'the account shows no refund'"
)]
struct ResolveArgs {
    /// The execution.
    id: ExecutionId,
    /// It was done.
    #[arg(long)]
    applied: bool,
    /// It was not done.
    #[arg(long)]
    not_applied: bool,
    /// How you know; recorded.
    #[arg(long, value_name = "TEXT")]
    evidence: String,
    /// The backend's own id of what it made.
    #[arg(long, value_name = "ID", conflicts_with = "not_applied")]
    reference: Option<String>,
    #[command(flatten)]
    at: At,
}

impl ExecutionArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            ExecutionCommand::Show(show) => {
                let config = load(&show.at.config)?;
                let execution = find(&*open(&config, context)?, show.id).await?;
                context.out.answer(&ExecutionView::from(&execution), |out| {
                    text(out, &execution, &Decimals::of(&config))
                })
            }
            ExecutionCommand::List(list) => {
                let config = load(&list.at.config)?;
                let executions = all(&*open(&config, context)?, list.unresolved).await?;
                let views: Vec<ExecutionView> = executions.iter().map(Into::into).collect();
                context.out.answer(&json!({ "executions": views }), |out| {
                    let decimals = Decimals::of(&config);
                    let rows: Vec<Vec<String>> = executions.iter().map(|execution| row(execution, &decimals)).collect();
                    out.table(
                        &["execution", "state", "operation", "resource", "amount", "draft", "reference"],
                        &rows,
                    )
                })
            }
            ExecutionCommand::Resolve(resolve) => {
                let config = load(&resolve.at.config)?;
                let store = open(&config, context)?;
                let resolution = if resolve.applied {
                    Resolution::Applied
                } else {
                    Resolution::NotApplied
                };
                let resolved = proxy::resolve(&*store, context.op(), resolve.id, resolution, &resolve.evidence, resolve.reference);
                let execution = resolved.await.map_err(|error| match error {
                    proxy::ResolveError::Store(StoreError::Rejected(Rejection::ExecutionIs(state))) => CliError::failed(format!(
                        "execution {} is {state}; only one that is handed_off, indeterminate or pending is resolved",
                        resolve.id
                    )),
                    proxy::ResolveError::Store(StoreError::Rejected(Rejection::NotFound)) => unknown(&resolve.id),
                    other => CliError::failed(other),
                })?;
                context.out.answer(&ExecutionView::from(&execution), |out| {
                    text(out, &execution, &Decimals::of(&config))
                })
            }
        }
    }
}

fn unknown(id: &dyn std::fmt::Display) -> CliError {
    CliError::failed(format!("there is no execution of {id}; `writ execution list` names them"))
}

async fn find(store: &dyn Store, which: Which) -> Result<ExecutionRecord, CliError> {
    let found = match which {
        Which::Execution(id) => store.execution(id).await,
        Which::Draft(id) => store.execution_of(id).await,
    };
    found.map_err(CliError::failed)?.ok_or_else(|| match which {
        Which::Execution(id) => unknown(&id),
        Which::Draft(id) => unknown(&id),
    })
}

/// Every execution, by way of the drafts.
async fn all(store: &dyn Store, unresolved: bool) -> Result<Vec<ExecutionRecord>, CliError> {
    const PAGE: u32 = 200;
    let mut after = None;
    let mut found = Vec::new();
    loop {
        let filter = DraftFilter {
            after,
            limit: PAGE,
            ..DraftFilter::default()
        };
        let page = store.drafts(filter).await.map_err(CliError::failed)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id);
        let wanted = |state: ExecutionState| !unresolved || state.is_unresolved();
        for summary in page.iter().filter_map(|draft| draft.execution.as_ref()).filter(|e| wanted(e.state)) {
            found.extend(store.execution(summary.id).await.map_err(CliError::failed)?);
        }
    }
}

fn row(execution: &ExecutionRecord, decimals: &Decimals) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        execution.id.to_string(),
        execution.state.to_string(),
        execution.operation.to_string(),
        execution.resource.to_string(),
        or_dash(execution.amount.map(|money| decimals.amount(&execution.operation, money))),
        execution.draft.to_string(),
        or_dash(execution.reference.as_deref().map(shown)),
    ]
}

/// An execution with its attempts and look-ups, for people.
pub(super) fn text(out: &Output, execution: &ExecutionRecord, decimals: &Decimals) -> String {
    let mut pairs = vec![
        ("execution", execution.id.to_string()),
        ("state", out.strong(execution.state.as_str())),
        ("draft", execution.draft.to_string()),
        ("operation", execution.operation.to_string()),
        ("resource", execution.resource.to_string()),
    ];
    if let Some(money) = execution.amount {
        pairs.push(("amount", decimals.amount(&execution.operation, money)));
    }
    pairs.push(("key", execution.key.to_string()));
    for (name, value) in [
        ("reference", &execution.reference),
        ("code", &execution.code),
        ("evidence", &execution.evidence),
    ] {
        pairs.extend(value.as_deref().map(|value| (name, shown(value))));
    }
    pairs.push(("changed at", execution.changed_at.to_string()));
    let attempts: Vec<String> = execution
        .attempts
        .iter()
        .map(|attempt| {
            let result = attempt.result.as_ref().map_or_else(
                || "nothing is known yet".to_owned(),
                |result| {
                    let status = result.status.map(|status| format!(" {status}")).unwrap_or_default();
                    format!("{}{status}", shown(&result.outcome))
                },
            );
            format!("{} at {}: {result}", attempt.n, attempt.sent_at)
        })
        .collect();
    let lookups: Vec<String> = execution
        .lookups
        .iter()
        .map(|lookup| format!("{} at {}: {}", shown(&lookup.step), lookup.at, shown(&lookup.finding)))
        .collect();
    let attempts = section(out, "attempts", &attempts);
    format!("{}{attempts}{}", out.pairs(&pairs), section(out, "look-ups", &lookups))
}
