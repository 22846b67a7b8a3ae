//! Time: what is past its moment is refused, and expired is not denied.

use std::time::Duration;

use super::{Script, refund};
use crate::demo::DemoError;
use crate::demo::page::short;
use crate::demo::stage::{AGENT, seen, text};
use crate::domain::approval::Decision;

const CASE: &str = "case-4850";

/// How long the housekeeping may take to note what is over, in turns of a tenth of a second.
const TURNS: usize = 100;

pub(super) async fn over(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("Too late");
    script.prose(
        "The demo's clock is the machine's clock with an offset that the story may raise, so that nobody has to wait an hour: everything here \
         sees the same time.",
    );
    let charge = stage.payment(9_000).await?;
    let late = text(&stage.propose(&refund(&charge, 2_000, "usd", CASE)).await?.ok()?, "/id")?;
    let token = stage.credential(&late).await?;
    script.agent("takes a credential, and falls asleep for 61 seconds");
    stage.clock.forward(Duration::from_secs(61));
    script
        .refused("an expired credential", 401, "credential_expired", stage.execute(&token, &late))
        .await?;
    script.prose("The approval itself still stands, so the agent exchanges it again.");
    let fresh = stage.credential(&late).await?;
    let done = stage.execute(&fresh, &late).await?.ok()?;
    script.check("a fresh credential for the same approval works", "applied", seen(&done, "/state"));

    let charge = stage.payment(60_000).await?;
    let unused = text(&stage.propose(&refund(&charge, 2_000, "usd", CASE)).await?.ok()?, "/id")?;
    let card = text(&stage.propose(&refund(&charge, 30_000, "usd", CASE)).await?.ok()?, "/id")?;
    let record = stage.record("usr_mia", &card, Decision::Approve, "looks right").await?;
    script.agent("leaves one approved draft unused and one card unanswered for an hour");
    stage.clock.forward(Duration::from_secs(3601));
    for draft in [&unused, &card] {
        script.check("time ends a draft without denying it", "expired", closed(script, draft).await?);
    }
    script.writ(&format!("{} and {} are expired, which is not denied", short(&unused), short(&card)));
    script
        .refused("an approval not used in time", 400, "draft_not_approved", stage.exchange(&unused))
        .await?;
    let stale = stage.hand_in(&record);
    script
        .refused("a record that comes an hour late", 400, "record_expired", stale)
        .await?;
    let claims = stage.claims("usr_mia", &stage.card(&card).await?, Decision::Approve, "looks right")?;
    let record = stage.sign("usr_mia", &claims)?;
    script
        .refused(
            "a fresh record for a card that has closed",
            409,
            "approval_decided",
            stage.hand_in(&record),
        )
        .await?;
    Ok(())
}

/// The draft's state, once the housekeeping has come by.
async fn closed(script: &Script<'_>, draft: &str) -> Result<String, DemoError> {
    let mut state = String::new();
    for _ in 0..TURNS {
        let view = script.stage.get(AGENT, &format!("/v1/drafts/{draft}")).await?.ok()?;
        state = seen(&view, "/state");
        if state != "approved" && state != "awaiting_approval" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(state)
}
