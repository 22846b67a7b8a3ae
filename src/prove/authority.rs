//! Who may approve: with authority, within it, while it lasts, not for oneself, and as one person.

use super::deployment::Which;
use super::ground::Ground;
use super::outcome::{Amiss, Held};
use super::settings::Stands;

/// Holds if a well signed record by an approver of this standing is refused and the draft still waits.
async fn refused(ground: &Ground, stands: Stands, what: &str, codes: &[&str]) -> Result<(), Amiss> {
    let live = &ground.live;
    let signatory = live.signatory(stands)?;
    let draft = live.waiting(Which::Asked).await?;
    let claims = live.claims(signatory, &live.card(&draft.id).await?)?;
    let reply = live.hand_in(&live.sign(signatory, &claims)?).await?;
    reply.refused(what, codes)?;
    live.untouched(&draft, "awaiting_approval", what).await
}

pub(super) async fn none(ground: &Ground) -> Held {
    let what = "an approval by somebody without authority";
    refused(ground, Stands::WithoutAuthority, what, &["approver_without_authority"]).await?;
    Ok("a registered key alone approves nothing".to_owned())
}

pub(super) async fn requester(ground: &Ground) -> Held {
    let what = "an approval by the person answerable for the agent";
    refused(ground, Stands::Owner, what, &["self_approval"]).await?;
    Ok("the person answerable for the agent cannot approve what it proposes".to_owned())
}

pub(super) async fn beyond(ground: &Ground) -> Held {
    let what = "an approval of more than the approver may release";
    refused(ground, Stands::Below, what, &["approver_over_limit"]).await?;
    Ok("what was delegated is not exceeded".to_owned())
}

pub(super) async fn ended(ground: &Ground) -> Held {
    let what = "an approval under authority that is over";
    refused(ground, Stands::Ended, what, &["approver_without_authority"]).await?;
    Ok("authority ends when it ends".to_owned())
}

pub(super) async fn counted_once(ground: &Ground) -> Held {
    let live = &ground.live;
    let signatory = live.signatory(Stands::Counts)?;
    let draft = live.waiting(Which::Two).await?;
    let card = live.card(&draft.id).await?;
    let first = live.hand_in(&live.sign(signatory, &live.claims(signatory, &card)?)?).await?;
    let first = first.done("the first of two signatures")?;
    if first.text("/draft/state") != "awaiting_approval" {
        return Err(Amiss::NotApplicable(
            "one signature was enough for the `two` parameters: name some for which the policy asks two people".to_owned(),
        ));
    }
    // A new record of its own id, so that nothing but the person is the same.
    let second = live.hand_in(&live.sign(signatory, &live.claims(signatory, &card)?)?).await?;
    second.refused("the same person's second signature", &["approval_answered"])?;
    let reply = live.exchange(&draft.id, None).await?;
    reply.refused("an exchange with one person's two signatures", &["approval_pending"])?;
    live.untouched(&draft, "awaiting_approval", "the same person's second signature")
        .await?;
    Ok("one person fills one of two places".to_owned())
}
