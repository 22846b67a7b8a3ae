//! Verifying a head by itself, where not the whole tree is at hand, and a receipt under it.

use super::anchor::OutsideHead;
use super::epochs::Epochs;
use super::pass::too_large;
use super::report::{Anchor, Fault, KeySpan, Report};
use super::{Asked, TrustPolicy};
use crate::audit::brief::Brief;
use crate::audit::checkpoint::CheckpointError;
use crate::audit::tree::{MAX_SIZE, check_inclusion, leaf_hash};
use crate::audit::{Receipt, SignedHead, VerifierKey};

/// Verifies the signatures on a head, and compares it with the anchors as far as that goes without the tree.
pub(super) fn verify_head(head: &Result<SignedHead, CheckpointError>, trust: &TrustPolicy, asked: &Asked<'_>) -> Report {
    let mut report = Report::default();
    let head = match head {
        Ok(head) => head,
        Err(error) => {
            report.find(Fault::Tampered, format!("the checkpoint: {error}"));
            return report;
        }
    };
    report.origin = Some(head.origin().to_string());
    report.size = head.size();
    report.root = Some(head.root().to_string());
    report.heads = 1;
    if head.size() > MAX_SIZE {
        report.find(Fault::Tampered, too_large(head.size()));
        return report;
    }
    match head.signers(trust.logs()) {
        Ok(signers) => report.keys.extend(signers.iter().map(|key| KeySpan {
            key: key.to_string(),
            from: head.size(),
            until: None,
        })),
        Err(error @ CheckpointError::Unsigned) => report.find(
            Fault::Tampered,
            format!("the checkpoint: {error}; if the log's key was replaced, name the new one too: only the log, or a range of it, tells of its keys"),
        ),
        Err(error) => report.find(Fault::Tampered, format!("the checkpoint: {error}")),
    }
    cosigned(head, trust, asked, &mut report);
    let epochs = Epochs::new(trust.logs());
    for anchor in &asked.anchors {
        let too_little = |_: u64| {
            let why = format!(
                "there is too little of the tree over {} events to be compared with {}: verify the log, or a bundle of a range",
                head.size(),
                anchor.from
            );
            (Fault::Incomplete, why)
        };
        let root = |size: u64| (size == head.size()).then(|| head.root());
        // Of several the one that can be compared.
        let is_same = |other: &&SignedHead| other.size() == head.size() && epochs.is_signed(other);
        let same: Vec<SignedHead> = anchor.heads().iter().filter(is_same).cloned().collect();
        let comparable = if same.is_empty() {
            anchor.clone()
        } else {
            OutsideHead::new(anchor.from.clone(), same)
        };
        comparable.compare(&epochs, root, too_little, &mut report);
    }
    report
}

/// Counts the witnesses that have signed a head.
fn cosigned(head: &SignedHead, trust: &TrustPolicy, asked: &Asked<'_>, report: &mut Report) {
    if !trust.has_quorum() {
        if asked.max_age.is_some() {
            report.find(Fault::RolledBack, "nothing says how old it is: name witnesses");
        }
        return;
    }
    let witnesses = trust.witnesses();
    let cosigners = match head.cosigners(&witnesses) {
        Ok(cosigners) => cosigners,
        Err(error) => return report.find(Fault::Tampered, format!("the checkpoint: a witness's line: {error}")),
    };
    let fresh: Vec<_> = cosigners.iter().filter(|(_, at)| asked.is_fresh(*at)).collect();
    let keys: Vec<&VerifierKey> = fresh.iter().map(|(key, _)| *key).collect();
    if head.size() == 0 || !trust.is_met_by(&keys) {
        return report.find(
            Fault::RolledBack,
            "the checkpoint has not the signatures of as many witnesses as must sign, or they are too old, or from times that are yet to come",
        );
    }
    report.anchors.extend(fresh.iter().map(|(key, at)| Anchor {
        what: format!("witness {}", key.name()),
        size: head.size(),
        at: Some(*at),
    }));
}

/// Verifies that a receipt shows this event to be in a log.
#[must_use]
pub fn verify_receipt(receipt: &Receipt, event: &[u8], trust: &TrustPolicy, asked: &Asked<'_>) -> Report {
    let mut report = verify_head(&Ok(receipt.head.clone()), trust, asked);
    match Brief::read(event) {
        Ok(brief) => {
            if brief.seq != receipt.index {
                let what = format!(
                    "the receipt is of event {}, and the event says that it is {}",
                    receipt.index, brief.seq
                );
                report.find(Fault::Tampered, what);
            }
            report.first_time = Some(brief.time.to_string());
            report.last_time = Some(brief.time.to_string());
        }
        Err(why) => report.find(Fault::Tampered, format!("the event: {why}")),
    }
    (report.events, report.first, report.last) = (1, Some(receipt.index), Some(receipt.index));
    // A root that nobody has vouched for shows nothing, whatever leads to it.
    if report.keys.is_empty() {
        return report;
    }
    let (size, root) = (receipt.head.size(), receipt.head.root());
    let shown = check_inclusion(&receipt.proof, size, root, receipt.index, leaf_hash(event));
    if shown.is_err() {
        let index = receipt.index;
        report.find(
            Fault::Tampered,
            format!("the receipt does not show that this event is number {index} of the log's {size}"),
        );
    }
    report
}
