//! `writ audit search`: events by what they are about.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::super::context::{At, Context};
use super::super::error::CliError;
use super::{Head, Line, record, table};
use crate::audit::{EventKind, EventOutcome};
use crate::domain::draft::Resource;
use crate::domain::id::{ApprovalId, CredentialId, DraftId};
use crate::domain::name::{CaseId, ClientId, OperationName, PrincipalId};
use crate::domain::time::Timestamp;
use crate::store::log::{EventQuery, Order, With};

/// Find events: all that is given must hold, each exactly.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit search --case case-1 --config work/writ.toml\n  writ audit search --type credential.use_denied --from 2026-09-21T00:00:00Z --newest --config work/writ.toml"
)]
pub(super) struct Search {
    /// The support case.
    #[arg(long, value_name = "CASE")]
    case: Option<CaseId>,
    /// The draft.
    #[arg(long, value_name = "ID")]
    draft: Option<DraftId>,
    /// The approval.
    #[arg(long, value_name = "ID")]
    approval: Option<ApprovalId>,
    /// The credential.
    #[arg(long, value_name = "ID")]
    credential: Option<CredentialId>,
    /// Whoever signed.
    #[arg(long, value_name = "NAME")]
    approver: Option<PrincipalId>,
    /// The client that did it.
    #[arg(long, value_name = "NAME")]
    client: Option<ClientId>,
    /// The operation.
    #[arg(long, value_name = "NAME")]
    operation: Option<OperationName>,
    /// What it touches.
    #[arg(long, value_name = "TYPE:ID", value_parser = resource)]
    resource: Option<Resource>,
    /// The type, such as `credential.use_denied`.
    #[arg(long = "type", value_name = "TYPE", value_parser = kind)]
    kind: Option<EventKind>,
    /// How it ended.
    #[arg(long, value_enum)]
    outcome: Option<Ended>,
    /// Not before this moment (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Before this moment (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// Only what comes after the event with this number.
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    after: Option<u64>,
    /// At most this many, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// The latest first.
    #[arg(long)]
    newest: bool,
    #[command(flatten)]
    at: At,
}

/// How an event ended.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Ended {
    Ok,
    Denied,
    Failed,
    Unknown,
}

impl From<Ended> for EventOutcome {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Ok => Self::Ok,
            Ended::Denied => Self::Denied,
            Ended::Failed => Self::Failed,
            Ended::Unknown => Self::Unknown,
        }
    }
}

fn kind(text: &str) -> Result<EventKind, String> {
    EventKind::parse(text).ok_or_else(|| {
        let family = text.split('.').next().unwrap_or_default();
        let known: Vec<&str> = EventKind::all().map(EventKind::as_str).collect();
        let near: Vec<&str> = known
            .iter()
            .copied()
            .filter(|name| name.split('.').next() == Some(family))
            .collect();
        let named = if near.is_empty() { known } else { near };
        format!("no event has this type: expected one of {}", named.join(", "))
    })
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "expected a time such as 2026-09-21T14:13:20Z".to_owned())
}

fn resource(text: &str) -> Result<Resource, String> {
    let (kind, id) = text.split_once(':').ok_or("expected TYPE:ID, such as charge:ch_1")?;
    Ok(Resource {
        kind: kind.parse().map_err(|error: crate::domain::name::NameError| error.to_string())?,
        id: id.parse().map_err(|error: crate::domain::name::NameError| error.to_string())?,
        version: None,
    })
}

/// What was found, as programs get it.
#[derive(Serialize)]
struct Found {
    events: Vec<Line>,
    next_after_seq: Option<u64>,
    head: Option<Head>,
    complete: bool,
}

impl Search {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let query = EventQuery {
            viewer: None,
            case_id: self.case,
            draft: self.draft,
            approval: self.approval,
            credential: self.credential,
            approver: self.approver,
            client: self.client,
            operation: self.operation,
            resource: self.resource,
            kind: self.kind,
            outcome: self.outcome.map(Into::into),
            from: self.from,
            to: self.to,
            after: self.after,
            limit: self.limit,
            order: if self.newest { Order::NewestFirst } else { Order::OldestFirst },
            with: With::Events,
        };
        let store = self.at.store(context)?;
        record(context, &*store, "events", &format!("{query:?}")).await?;
        let page = store.search(query.clone()).await.map_err(CliError::failed)?;
        let found = Found {
            events: page.events.iter().map(Line::from).collect(),
            next_after_seq: page.next(&query),
            head: page.head.as_ref().map(Head::from),
            complete: page.complete,
        };
        context.out.answer(&found, |out| {
            let mut text = if page.events.is_empty() {
                "No event of the log is like that.\n".to_owned()
            } else {
                table(out, &page.events)
            };
            if let (false, Some(next)) = (page.complete, found.next_after_seq) {
                text.push_str(&format!("There are more: add --after {next}\n"));
            }
            text
        })
    }
}
