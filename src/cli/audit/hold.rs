//! `writ audit hold` and `writ audit release`: events that must not be pruned.

use clap::Args;
use serde_json::json;

use super::super::context::{At, Context, sqlite};
use super::super::error::CliError;
use super::export::Span;
use crate::domain::name::CaseId;
use crate::store::retention::{Held, NewHold};
use crate::store::{Rejection, StoreError};

/// Keep events from being pruned, such as for a dispute, until they are released.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit hold --config work/writ.toml --case case-1 --reason 'dispute 2026-3'\n  writ audit hold --config work/writ.toml --range 0..99 --reason audit"
)]
pub(super) struct Hold {
    /// The events of this case, those to come included.
    #[arg(long, value_name = "CASE", required_unless_present = "range", conflicts_with = "range")]
    case: Option<CaseId>,
    /// The events with these numbers, the last included.
    #[arg(long, value_name = "A..B")]
    range: Option<Span<u64>>,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    at: At,
}

impl Hold {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let what = match (self.case, self.range) {
            (Some(case), _) => Held::Case(case),
            (None, Some(Span { from, to })) => Held::Range { from, to },
            (None, None) => return Err(CliError::usage("name what to hold: --case or --range")),
        };
        let hold = NewHold { what, reason: self.reason };
        let store = sqlite(&self.at.load()?, context)?;
        let id = store.hold(context.op(), hold).await.map_err(CliError::failed)?.value;
        context.out.answer(&json!({ "hold": id }), |_| {
            format!("hold {id} stands; release it with `writ audit release {id}`")
        })
    }
}

/// Release a hold; what it held may be pruned again.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ audit release --config work/writ.toml 1")]
pub(super) struct Release {
    /// The hold's number.
    hold: u64,
    #[command(flatten)]
    at: At,
}

impl Release {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let id = self.hold;
        let store = sqlite(&self.at.load()?, context)?;
        store.release(context.op(), id).await.map_err(|error| match error {
            StoreError::Rejected(Rejection::NotFound) => CliError::failed(format!("there is no hold {id}, or it was released")),
            other => CliError::failed(other),
        })?;
        context.out.answer(&json!({ "released": id }), |_| format!("hold {id} is released"))
    }
}
