//! `writ audit show`: one case, one draft or one event, with its proofs.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::super::context::{At, Context};
use super::super::error::CliError;
use super::super::output::Output;
use super::{Head, Line, record, table};
use crate::audit::{CaseGap, CasePruned};
use crate::domain::id::DraftId;
use crate::domain::name::CaseId;
use crate::domain::text::escaped;
use crate::store::Store;
use crate::store::case::look_at_case;
use crate::store::log::{EventQuery, EventRef, ProvenEvent, With};
use crate::store::record::StoredEvent;

/// How many events are read at a time.
const PAGE: u32 = 500;

/// Show what the log has of a case or a draft, whether any event of the case is missing, or one event with its receipt.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit show case-1 --config work/writ.toml\n  writ audit show 12 --json --config work/writ.toml   one event and its receipt\n\nA case that is called by a number is found with `writ audit search --case`."
)]
pub(super) struct Show {
    /// A support case, a draft's id, or an event's number.
    #[arg(value_name = "CASE|DRAFT|SEQ", value_parser = which)]
    which: Which,
    #[command(flatten)]
    at: At,
}

/// What is shown.
#[derive(Debug, Clone)]
enum Which {
    Event(u64),
    Draft(DraftId),
    Case(CaseId),
}

fn which(text: &str) -> Result<Which, String> {
    if text.bytes().all(|b| b.is_ascii_digit())
        && let Ok(seq) = text.parse()
    {
        return Ok(Which::Event(seq));
    }
    if let Ok(draft) = text.parse() {
        return Ok(Which::Draft(draft));
    }
    text.parse()
        .map(Which::Case)
        .map_err(|error: crate::domain::name::NameError| error.to_string())
}

/// One event and its receipt, as programs get them.
#[derive(Serialize)]
struct Proven {
    #[serde(flatten)]
    line: Line,
    receipt: String,
}

/// Events that belong together, as programs get them.
#[derive(Serialize)]
struct Chain {
    events: Vec<Line>,
    /// Only of a case.
    #[serde(skip_serializing_if = "Option::is_none")]
    gaps: Option<Vec<CaseGap>>,
    /// What of a case was pruned, as the log says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pruned: Vec<CasePruned>,
    head: Option<Head>,
}

impl Show {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let store = self.at.store(context)?;
        match self.which {
            Which::Event(seq) => {
                record(context, &*store, &format!("event {seq}"), "").await?;
                let found = store.receipt(EventRef::Number(seq)).await.map_err(CliError::failed)?;
                event(
                    &context.out,
                    &found.ok_or_else(|| CliError::failed(format!("the log has no event {seq}")))?,
                )
            }
            Which::Draft(draft) => {
                let query = EventQuery {
                    draft: Some(draft),
                    ..EventQuery::default()
                };
                chain(context, &*store, format!("draft {draft}"), query).await
            }
            Which::Case(case) => {
                let title = format!("case {case}");
                let query = EventQuery {
                    case_id: Some(case),
                    ..EventQuery::default()
                };
                chain(context, &*store, title, query).await
            }
        }
    }
}

fn event(out: &Output, proven: &ProvenEvent) -> Result<(), CliError> {
    let receipt = proven.receipt.text();
    let line = Line::from(&proven.event);
    let text = |_: &Output| {
        let value: Value = serde_json::from_slice(&proven.event.bytes).unwrap_or_default();
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
        let pretty: Vec<String> = pretty.lines().map(escaped).collect();
        format!("{}\n\nleaf hash {}\n\n{receipt}", pretty.join("\n"), line.leaf_hash)
    };
    let proven = Proven {
        line: Line::from(&proven.event),
        receipt: receipt.clone(),
    };
    out.answer(&proven, text)
}

async fn chain(context: &Context, store: &dyn Store, title: String, query: EventQuery) -> Result<(), CliError> {
    record(context, store, &title, "").await?;
    let (mut events, mut head): (Vec<StoredEvent>, _) = (Vec::new(), None);
    let mut query = EventQuery {
        limit: PAGE,
        // Looked at one by one: what the tree does not prove is not shown as if it were the log's.
        with: With::Proofs,
        ..query
    };
    loop {
        let page = store.search(query.clone()).await.map_err(CliError::failed)?;
        query.after = page.next(&query);
        head = page.head.or(head);
        events.extend(page.events);
        if page.complete {
            break;
        }
    }
    if events.is_empty() {
        return Err(CliError::failed(format!(
            "the log has nothing about {title}, or not any more: what was pruned is in the bundle of that time"
        )));
    }
    let look = match query.case_id {
        Some(_) => Some(look_at_case(store, &events).await.map_err(CliError::failed)?),
        None => None,
    };
    let (gaps, pruned) = look.map(|look| (look.gaps, look.pruned)).unzip();
    let is_whole = gaps.as_ref().is_none_or(Vec::is_empty);
    let shown = Chain {
        events: events.iter().map(Line::from).collect(),
        gaps,
        pruned: pruned.unwrap_or_default(),
        head: head.as_ref().map(Head::from),
    };
    context.out.answer(&shown, |out| {
        let size = head.as_ref().map_or(0, crate::audit::SignedHead::size);
        let mut text = out.strong(&format!("{title}: {} events, each proven by the head over {size}", events.len()));
        text.push_str("\n\n");
        text.push_str(&table(out, &events));
        for pruned in &shown.pruned {
            text.push_str(&format!("{pruned}\n"));
        }
        for gap in shown.gaps.iter().flatten() {
            let found = gap
                .found
                .map_or_else(|| "says no number".to_owned(), |n| format!("says it is number {n}"));
            text.push_str(&out.bad(&format!(
                "before event {}: number {} of the case is expected, and it {found}\n",
                gap.seq, gap.expected
            )));
        }
        text
    })?;
    if is_whole {
        Ok(())
    } else {
        Err(CliError::failed(format!(
            "events of {title} are missing or were changed: run `writ audit verify`"
        )))
    }
}
