//! An event that came with an answer, and the receipt that it is in the log.

use serde_json::Value;

use super::copy::unclear;
use crate::audit::tree::Hash;
use crate::audit::{CheckpointError, Receipt, ReceiptError, VerifierKey};
use crate::prove::outcome::Amiss;

/// The event with its receipt.
pub(super) struct Proven {
    /// The event's exact bytes.
    pub(super) event: String,
    /// The receipt.
    pub(super) receipt: Receipt,
}

impl Proven {
    /// From the `audit` of an answer.
    pub(super) fn of(answer: &Value) -> Result<Self, Amiss> {
        let text = |pointer| answer.pointer(pointer).and_then(Value::as_str);
        let (Some(event), Some(receipt)) = (text("/audit/event"), text("/audit/receipt")) else {
            return Err(unclear("an answer came without the receipt of its event"));
        };
        let receipt = Receipt::read(receipt).map_err(|error| unclear(format!("the receipt of an answer: {error}")))?;
        Ok(Self {
            event: event.to_owned(),
            receipt,
        })
    }

    /// Holds if the receipt shows the event to be in a log that one of these keys has signed.
    pub(super) fn verifies(&self, keys: &[VerifierKey]) -> Result<(), Amiss> {
        self.receipt.verify(self.event.as_bytes(), keys).map_err(|error| match error {
            // Whose key it is nobody can say: the log's may have been replaced.
            ReceiptError::Malformed | ReceiptError::Head(CheckpointError::Unsigned | CheckpointError::Origin { .. }) => {
                unclear(format!("the receipt of an answer: {error}; bring the log's public keys up to date"))
            }
            _ => Amiss::Through(format!(
                "an answer has a receipt that does not show its event to be in the log: {error}"
            )),
        })
    }

    /// Holds if the receipt shows nothing of the kind once anything in it, or the event, is changed.
    pub(super) fn is_nothing_once_changed(&self, keys: &[VerifierKey]) -> Result<(), Amiss> {
        let Receipt { index, proof, head } = &self.receipt;
        let receipt = |index, proof: Vec<Hash>| Receipt {
            index,
            proof,
            head: head.clone(),
        };
        let edited = format!("{} ", self.event);
        let mut turned = proof.clone();
        if let Some(byte) = turned.last_mut().and_then(|hash| hash.0.first_mut()) {
            *byte ^= 1;
        }
        let changed = [
            ("another event", edited.as_str(), self.receipt.clone()),
            ("another number", &*self.event, receipt(index ^ 1, proof.clone())),
            ("a bit of its proof turned over", &*self.event, receipt(*index, turned)),
            (
                "a part of its proof left out",
                &*self.event,
                receipt(*index, proof.iter().skip(1).copied().collect()),
            ),
        ];
        let mut changed = changed.into_iter();
        match changed.find(|(_, event, receipt)| receipt.verify(event.as_bytes(), keys).is_ok()) {
            None => self.head_is_signed(keys),
            Some((what, ..)) => Err(Amiss::Through(format!("a receipt with {what} verifies"))),
        }
    }

    /// Holds if a receipt under a head of another size is refused.
    fn head_is_signed(&self, keys: &[VerifierKey]) -> Result<(), Amiss> {
        let size = self.receipt.head.size();
        let larger = self
            .receipt
            .text()
            .replacen(&format!("\n{size}\n"), &format!("\n{}\n", size + 1), 1);
        let read = Receipt::read(&larger).ok();
        if read.is_some_and(|receipt| receipt.head.signers(keys).is_ok()) {
            return Err(Amiss::Through("a receipt under a head that nobody signed verifies".to_owned()));
        }
        Ok(())
    }
}
