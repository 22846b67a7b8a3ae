//! `writ audit disclose`: one value that an event commits to, for somebody who may see it.

use clap::Args;
use serde_json::json;

use super::super::context::{At, Context, sqlite};
use super::super::error::CliError;
use super::super::output::shown;
use crate::audit::source::{LogSource as _, Nodes};
use crate::audit::tree::prove_inclusion;
use crate::audit::{Receipt, SensitiveField, SignedHead};
use crate::store::sqlite::Evidence;
use crate::store::{Rejection, StoreError};

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
        let config = self.at.load()?;
        let store = sqlite(&config, context)?;
        let opening = store.disclose(context.op(), seq, field).await.map_err(|error| match error {
            StoreError::Rejected(Rejection::NotFound) => {
                CliError::failed(format!("event {seq} commits to no {}, or it was pruned", field.as_str()))
            }
            other => CliError::failed(other),
        })?;
        let evidence = Evidence::open(&config.store).map_err(CliError::failed)?;
        let event = evidence.event(seq).map_err(CliError::failed)?;
        let event = event.ok_or_else(|| CliError::failed(format!("event {seq} is not there")))?;
        let event = String::from_utf8_lossy(&event).into_owned();
        let receipt = receipt(&evidence, seq)?;
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

/// The proof that the event is in the log, under its latest head.
fn receipt(evidence: &Evidence, seq: u64) -> Result<String, CliError> {
    let kept = evidence.latest().map_err(CliError::failed)?;
    let kept = kept.ok_or_else(|| CliError::failed("the log has no signed head yet"))?;
    let head = SignedHead::read(&kept.text).map_err(CliError::failed)?;
    let proof = prove_inclusion(head.size(), seq, &Nodes(evidence)).map_err(CliError::failed)?;
    let receipt = Receipt { index: seq, proof, head };
    Ok(receipt.text())
}
