//! Answers that bring their own evidence: the event that tells of what was done, and the proof that it is in the log.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::Common;
use crate::store::log::{EventRef, ProvenEvent};

/// An event of the log, and the receipt with which anybody can check that it is there.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiptView {
    /// Its place in the log, from 0.
    pub(crate) seq: u64,
    /// Its exact bytes, as text: what the receipt is about, to the last character.
    pub(crate) event: String,
    /// The text of a `.tlog-proof` file (C2SP tlog-proof) against the log's latest signed checkpoint. The log's public keys verify it, without
    /// asking anybody.
    pub(crate) receipt: String,
}

impl From<ProvenEvent> for ReceiptView {
    fn from(proven: ProvenEvent) -> Self {
        Self {
            seq: proven.event.seq,
            receipt: proven.receipt.text(),
            event: String::from_utf8_lossy(&proven.event.bytes).into_owned(),
        }
    }
}

/// An answer, with the event that tells of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Told<T> {
    #[serde(flatten)]
    answer: T,
    /// The event that tells of it, with its receipt. Absent only if the log could not be read just then; what was done stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<ReceiptView>,
}

/// The answer, with the event that tells of it. What was done is done: that its event cannot be read now is no refusal.
pub(crate) async fn told<T>(common: &Common, answer: T, event: EventRef) -> Told<T> {
    let audit = match common.store.receipt(event).await {
        Ok(found) => found.map(ReceiptView::from),
        Err(error) => {
            tracing::error!(%error, ?event, "an answer goes without its receipt");
            None
        }
    };
    Told { answer, audit }
}
