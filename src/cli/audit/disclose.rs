//! `writ audit disclose`: one value that an event commits to, for somebody who may see it.

use clap::Args;
use serde_json::json;

use super::super::context::{At, Context, sqlite};
use super::super::error::CliError;
use super::super::output::shown;
use crate::audit::SensitiveField;
use crate::store::log::EventRef;
use crate::store::{Rejection, Store as _, StoreError};

/// Show one value that an event commits to: the event, the opening, and the receipt that the event is in the log.
///
/// Whoever gets them can check that the value is the one that was committed to when the event was written: the SHA-256 of the disclosure, in
/// base64url, stands in the event's `_sd` (RFC 9901). That it was shown is itself an event.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit disclose --config work/writ.toml --seq 17 --field customer\n  writ audit disclose --config work/writ.toml --seq 17 --field customer --json"
)]
pub(super) struct Disclose {
    /// The event's number.
    #[arg(long, value_name = "N")]
    seq: u64,
    /// Which value: customer, reason or evidence.
    #[arg(long, value_name = "FIELD", value_parser = field)]
    field: SensitiveField,
    #[command(flatten)]
    at: At,
}

fn field(text: &str) -> Result<SensitiveField, String> {
    SensitiveField::parse(text).ok_or_else(|| "expected customer, reason or evidence".to_owned())
}

impl Disclose {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let (seq, field) = (self.seq, self.field);
        let store = sqlite(&self.at.load()?, context)?;
        let none = || CliError::failed(format!("event {seq} commits to no {}, or it was pruned", field.as_str()));
        // Proven before anything is shown or told: with an event that was changed nobody can check anything.
        let proven = store
            .receipt(EventRef::Number(seq))
            .await
            .map_err(CliError::failed)?
            .ok_or_else(none)?;
        let opening = store.disclose(context.op(), seq, field).await.map_err(|error| match error {
            StoreError::Rejected(Rejection::NotFound) => none(),
            other => CliError::failed(other),
        })?;
        let event = String::from_utf8_lossy(&proven.event.bytes).into_owned();
        let receipt = proven.receipt.text();
        let (_, value) = opening.parts().ok_or_else(|| CliError::failed("the opening cannot be read"))?;
        let digest = opening.digest().to_string();
        let told = json!({
            "seq": seq, "field": field.as_str(), "value": value, "disclosure": opening.expose(), "digest": digest, "event": event, "receipt": receipt,
        });
        context.out.answer(&told, |out| {
            out.pairs(&[
                (field.as_str(), shown(&value)),
                ("disclosure", opening.expose().to_owned()),
                ("digest", digest.clone()),
            ]) + &format!("\n{event}\n\n{receipt}")
        })
    }
}
