//! `writ approval`: a granted approval is taken back.

use clap::{Args, Subcommand};

use super::context::{At, Context};
use super::describe::standing;
use super::error::CliError;
use crate::domain::id::{ApprovalId, DraftId, IdError};
use crate::domain::stop::Reason;
use crate::http::RevokedView;
use crate::store::stop::{Reached, RevokeApproval};
use crate::store::{PATIENCE, Rejection, Store, StoreError, insist};

/// Take a granted approval back.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ approval revoke apv_0192f0c1a2b37c4d8e5f60718293a4b5 --reason 'the photo was of another order'")]
pub(super) struct ApprovalArgs {
    #[command(subcommand)]
    command: ApprovalCommand,
}

#[derive(Subcommand)]
enum ApprovalCommand {
    Revoke(Revoke),
}

/// An approval, by its own id or its draft's.
#[derive(Clone, Copy)]
enum Which {
    Approval(ApprovalId),
    Draft(DraftId),
}

fn which(text: &str) -> Result<Which, String> {
    if text.starts_with("drf_") {
        return text.parse().map(Which::Draft).map_err(|error: IdError| error.to_string());
    }
    text.parse()
        .map(Which::Approval)
        .map_err(|error: IdError| format!("{error}, or the id of a draft"))
}

/// Take a granted approval back, with everything it released and that was not sent.
///
/// The draft is closed, its credential revoked, and an execution that was claimed is given up. What was sent, or may have been, is looked up as before and
/// not sent again.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ approval revoke apv_0192f0c1a2b37c4d8e5f60718293a4b5 --reason 'the photo was of another order'\n  writ approval revoke drf_0192f0c1a2b37c4d8e5f60718293a4b5 --reason 'signed by mistake'"
)]
struct Revoke {
    /// The approval, or its draft.
    #[arg(value_name = "APPROVAL|DRAFT", value_parser = which)]
    id: Which,
    /// Why; the orchestrator reads it.
    #[arg(long, value_name = "TEXT")]
    reason: Reason,
    #[command(flatten)]
    at: At,
}

impl ApprovalArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let ApprovalCommand::Revoke(revoke) = self.command;
        let store = revoke.at.store(context)?;
        let id = approval(&*store, revoke.id).await?;
        let asked = RevokeApproval {
            approval: id,
            reason: revoke.reason,
        };
        let revoked = insist(PATIENCE, context.op(), |op| store.revoke_approval(op, asked.clone())).await;
        let revoked = revoked.map_err(|error| match error {
            StoreError::Rejected(Rejection::NotFound) => unknown(&id),
            StoreError::Rejected(rejection @ Rejection::ApprovalIs(_)) => {
                CliError::failed(format!("{rejection}; only one that is granted can be taken back"))
            }
            StoreError::Rejected(rejection @ Rejection::ExecutionIs(_)) => CliError::failed(format!(
                "{rejection}, and that is final: what it did can only be made good at the backend"
            )),
            other => CliError::failed(other),
        })?;
        let revoked = revoked.value;
        context.out.answer(&RevokedView::of(id, &revoked), |out| {
            let reached = match revoked.reached {
                Reached::NothingSent => "nothing was sent, and nothing will be",
                Reached::Sent => "a request was sent, or may have been; it is looked up, and not sent again",
            };
            let head = out.pairs(&[
                ("approval", id.to_string()),
                ("reached", out.strong(reached)),
                ("draft", revoked.draft.id.to_string()),
                ("state", revoked.draft.state.to_string()),
            ]);
            format!("{head}{}", standing(out, &revoked.draft))
        })
    }
}

fn unknown(id: &dyn std::fmt::Display) -> CliError {
    CliError::failed(format!("there is no approval of {id}; `writ draft list` names the drafts"))
}

async fn approval(store: &dyn Store, which: Which) -> Result<ApprovalId, CliError> {
    match which {
        Which::Approval(id) => Ok(id),
        Which::Draft(id) => {
            let draft = store.draft(id).await.map_err(CliError::failed)?;
            draft
                .and_then(|draft| draft.approval)
                .map(|approval| approval.id)
                .ok_or_else(|| unknown(&id))
        }
    }
}
