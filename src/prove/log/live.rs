//! What anybody can check of a log that runs: that an answer's receipt is good, and that it only grows.

use reqwest::Method;
use serde_json::Value;

use super::copy::unclear;
use super::proven::Proven;
use crate::audit::tree::{Hash, check_consistency};
use crate::audit::{CheckpointError, SignedHead, VerifierKey};
use crate::prove::deployment::{Deployment, Which};
use crate::prove::ground::Ground;
use crate::prove::outcome::{Amiss, Held};
use crate::prove::wire::{Body, By};

/// The log's public keys, as the settings give them.
fn keys(deployment: &Deployment) -> Result<&[VerifierKey], Amiss> {
    let keys = deployment.settings.log.as_deref();
    keys.ok_or_else(|| Amiss::NotApplicable("the settings name no `log`, the file with the log's public keys".to_owned()))
}

/// The log's latest checkpoint, as everybody can have it.
pub(in crate::prove) async fn head(deployment: &Deployment) -> Result<SignedHead, Amiss> {
    let url = deployment.at("/v1/audit/checkpoint");
    let reply = deployment.wire.call(Method::GET, &url, By::Nobody, Body::Nothing).await?;
    let reply = reply.done("a look at the log's checkpoint")?;
    let text = reply.body.as_str().unwrap_or_default();
    SignedHead::read(text).map_err(|error| unclear(format!("the log's checkpoint: {error}")))
}

/// Holds if one of the keys has signed the head.
fn signed(head: &SignedHead, keys: &[VerifierKey]) -> Result<(), Amiss> {
    head.signers(keys).map(drop).map_err(|error| match error {
        CheckpointError::Signature(_) => Amiss::Through(format!(
            "the deployment gives out a checkpoint that its log's key did not sign: {error}"
        )),
        _ => unclear(format!("the log's checkpoint: {error}; bring the log's public keys up to date")),
    })
}

/// Holds if the log of the newer head begins with that of the older one, by the proof that the deployment gives.
async fn extends(deployment: &Deployment, old: &SignedHead, new: &SignedHead) -> Result<(), Amiss> {
    let sizes = format!("{} and {} events", old.size(), new.size());
    if new.size() < old.size() {
        return Err(Amiss::Through(format!(
            "the log was taken back: its checkpoints have {sizes}, one after the other"
        )));
    }
    let url = deployment.at(&format!("/v1/audit/consistency?old={}&new={}", old.size(), new.size()));
    let reply = deployment.wire.call(Method::GET, &url, By::Nobody, Body::Nothing).await?;
    let reply = reply.done("a proof that the log only grew")?;
    let hash = |value: &Value| value.as_str().and_then(|text| Hash::parse_hash(text).ok());
    let proof: Option<Vec<Hash>> = reply
        .body
        .pointer("/proof")
        .and_then(Value::as_array)
        .and_then(|hashes| hashes.iter().map(hash).collect());
    let proof = proof.ok_or_else(|| unclear("a proof that the log only grew has no hashes"))?;
    let ends = |root: Hash| ((old.size(), root), (new.size(), new.root()));
    let (from, to) = ends(old.root());
    if check_consistency(&proof, from, to).is_err() {
        return Err(Amiss::Through(format!(
            "the log was rewritten: nothing shows that its checkpoint over {sizes} are of one history"
        )));
    }
    let mut other = old.root();
    if let Some(byte) = other.0.first_mut() {
        *byte ^= 1;
    }
    let (from, to) = ends(other);
    match check_consistency(&proof, from, to) {
        Ok(()) => Err(Amiss::Through(
            "a proof that the log only grew shows it of another log too".to_owned(),
        )),
        Err(_) => Ok(()),
    }
}

pub(in crate::prove) async fn receipt(ground: &Ground) -> Held {
    let live = &ground.live;
    let keys = keys(live)?;
    let draft = live.propose(Which::Once).await?;
    let proven = Proven::of(&draft.view)?;
    proven.verifies(keys)?;
    let event: Value = serde_json::from_str(&proven.event).map_err(|error| unclear(format!("the event of an answer: {error}")))?;
    if event.pointer("/draft/id").and_then(Value::as_str) != Some(&*draft.id) {
        return Err(Amiss::Through(format!(
            "the answer of draft {} has a receipt for something else",
            draft.id
        )));
    }
    proven.is_nothing_once_changed(keys)?;
    let now = head(live).await?;
    signed(&now, keys)?;
    extends(live, &proven.receipt.head, &now).await?;
    Ok(format!(
        "a proposal's event is number {} of a log that the key signed, and the log's checkpoint extends that; changed, its receipt shows nothing",
        proven.receipt.index
    ))
}

pub(in crate::prove) async fn consistent(ground: &Ground) -> Held {
    let live = &ground.live;
    let first = ground.first_head()?;
    // So that there is something to grow by, however little else was tried.
    live.propose(Which::Once).await?;
    let last = head(live).await?;
    let by = match keys(live) {
        Ok(keys) => {
            signed(first, keys)?;
            signed(&last, keys)?;
            "both are signed by the log's key"
        }
        Err(_) => "who signed them was not looked at, since the settings name no `log`",
    };
    extends(live, first, &last).await?;
    if last.size() == first.size() {
        return Err(Amiss::Through(format!(
            "the log did not grow by a proposal: it has {} events",
            last.size()
        )));
    }
    Ok(format!(
        "the checkpoint over {} events from the beginning of the run is a beginning of that over {}; {by}",
        first.size(),
        last.size()
    ))
}
