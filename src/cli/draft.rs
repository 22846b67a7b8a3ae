//! `writ draft`: what is proposed, and how it stands.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::{At, Context, load, open};
use super::describe::{self, Decimals};
use super::error::CliError;
use super::words::draft_state;
use crate::domain::draft::DraftDocument;
use crate::domain::id::DraftId;
use crate::domain::lifecycle::DraftState;
use crate::domain::name::CaseId;
use crate::http::DraftView;
use crate::store::Store;
use crate::store::intent::DraftFilter;
use crate::store::record::DraftRecord;

/// Look at drafts.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ draft list --state awaiting_approval\n  writ draft show drf_0192f0c1a2b37c4d8e5f60718293a4b5")]
pub(super) struct DraftArgs {
    #[command(subcommand)]
    command: DraftCommand,
}

#[derive(Subcommand)]
enum DraftCommand {
    Show(Show),
    List(List),
}

/// Show a draft: who, what changes, the exact request, the policy's verdict, approvals, execution.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ draft show drf_0192f0c1a2b37c4d8e5f60718293a4b5 --config work/writ.toml")]
struct Show {
    /// The draft.
    draft: DraftId,
    #[command(flatten)]
    at: At,
}

/// List drafts, oldest first.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ draft list --config work/writ.toml\n  writ draft list --state awaiting_approval --case case-4821"
)]
struct List {
    /// Only drafts in this state.
    #[arg(long, value_parser = draft_state)]
    state: Option<DraftState>,
    /// Only drafts of this support case.
    #[arg(long)]
    case: Option<CaseId>,
    /// Only drafts after this one.
    #[arg(long, value_name = "DRAFT")]
    after: Option<DraftId>,
    /// At most this many.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    at: At,
}

/// A draft with its bytes.
pub(super) async fn find(store: &dyn Store, id: DraftId) -> Result<(DraftRecord, Vec<u8>), CliError> {
    let draft = store.draft(id).await.map_err(CliError::failed)?;
    let bytes = store.draft_bytes(id).await.map_err(CliError::failed)?;
    match (draft, bytes) {
        (Some(draft), Some(bytes)) => Ok((draft, bytes)),
        _ => Err(CliError::failed(format!("there is no draft {id}; `writ draft list` names them"))),
    }
}

impl DraftArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            DraftCommand::Show(show) => {
                let config = load(&show.at.config)?;
                let store = open(&config, context)?;
                let (draft, bytes) = find(&*store, show.draft).await?;
                let document = DraftDocument::parse(&bytes).map_err(CliError::failed)?;
                let mut value = serde_json::to_value(DraftView::without_nonce(&draft)).map_err(CliError::failed)?;
                if let Value::Object(members) = &mut value {
                    members.insert("document".to_owned(), serde_json::to_value(&document).map_err(CliError::failed)?);
                }
                context.out.answer(&value, |out| {
                    let head = out.pairs(&[
                        ("draft", draft.id.to_string()),
                        ("state", out.strong(draft.state.as_str())),
                        ("hash", draft.hash.to_string()),
                    ]);
                    let decimals = Decimals::of(&config);
                    let what = describe::document(out, &document, &draft.key, &decimals);
                    format!("{head}{what}{}", describe::standing(out, &draft))
                })
            }
            DraftCommand::List(list) => {
                let config = load(&list.at.config)?;
                let store = open(&config, context)?;
                let filter = DraftFilter {
                    state: list.state,
                    case_id: list.case,
                    after: list.after,
                    limit: list.limit,
                    ..DraftFilter::default()
                };
                let drafts = store.drafts(filter).await.map_err(CliError::failed)?;
                let views: Vec<DraftView> = drafts.iter().map(DraftView::without_nonce).collect();
                context.out.answer(&json!({ "drafts": views }), |out| {
                    let decimals = Decimals::of(&config);
                    let rows: Vec<Vec<String>> = drafts.iter().map(|draft| row(draft, &decimals)).collect();
                    out.table(&["draft", "state", "operation", "resource", "amount", "made by", "case"], &rows)
                })
            }
        }
    }
}

fn row(draft: &DraftRecord, decimals: &Decimals) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        draft.id.to_string(),
        draft.state.to_string(),
        draft.operation.to_string(),
        draft.resource.to_string(),
        or_dash(draft.amount.map(|money| decimals.amount(&draft.operation, money))),
        draft.maker.to_string(),
        or_dash(draft.case_id.as_ref().map(ToString::to_string)),
    ]
}
