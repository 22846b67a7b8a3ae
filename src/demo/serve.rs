//! After the story: where everything is, and five calls to paste.

use std::io::Write;

use super::page::Page;
use super::stage::{AGENT, AUDITOR, DESK, Stage, text};
use super::{DemoError, Look};
use crate::domain::approval::Decision;

/// What the user can play through: 150.00 USD of a payment of 200.00 USD, which waits for a person.
const PAID: i64 = 20_000;
const BACK: i64 = 15_000;

/// Prepares one draft and prints how to take it from proposal to outcome.
pub(super) async fn invite(stage: &Stage, look: Look, out: &mut dyn Write) -> Result<(), DemoError> {
    let charge = stage.payment(PAID).await?;
    let body = serde_json::json!({
        "operation": "refund.create", "case_id": "case-yours",
        "parameters": { "charge": charge, "amount": BACK, "currency": "usd" },
    });
    let draft = text(&stage.propose(&body).await?.ok()?, "/id")?;
    let mut claims = stage.claims("usr_mia", &stage.card(&draft).await?, Decision::Approve, "looks right")?;
    claims.exp = claims.iat + 3_600;
    let record = stage.sign("usr_mia", &claims)?;
    let key = stage
        .made
        .approvers
        .iter()
        .find(|(id, _)| id.as_str() == "usr_mia")
        .map(|(_, path)| path.display().to_string());
    let mut page = Page::new(out, look);
    page.verbatim("");
    page.verbatim("Everything stays up until Ctrl-C.");
    page.verbatim(&format!("  writ       {}   ({}/openapi.json)", stage.url, stage.url));
    page.verbatim(&format!(
        "  backend    {}   ({}/_sandbox/state, /_sandbox/requests, /_sandbox/faults)",
        stage.sandbox.url, stage.sandbox.url
    ));
    page.verbatim(&format!("  directory  {}", stage.made.config.display()));
    for client in [AGENT, DESK, AUDITOR, "operations"] {
        page.verbatim(&format!("  client     {client}:{}", stage.secret(client).expose()));
    }
    page.verbatim("");
    page.verbatim("Paste these one after another. The draft was proposed already, so the first call gives it back.");
    page.verbatim("");
    for line in [
        format!(
            "W={}; AGENT='{AGENT}:{}'; DESK='{DESK}:{}'",
            stage.url,
            stage.secret(AGENT).expose(),
            stage.secret(DESK).expose()
        ),
        "# 1. propose".to_owned(),
        format!("curl -s -u \"$AGENT\" $W/v1/drafts -H 'content-type: application/json' -d '{body}'; echo"),
        format!(
            "# 2. approve, with a record signed by usr_mia (key {}); the demo's clock is an hour ahead, so `writ approve` would sign in its past",
            key.unwrap_or_default()
        ),
        format!("curl -s -u \"$DESK\" $W/v1/approvals -H 'content-type: application/json' -d '{{\"record\":\"{record}\"}}'; echo"),
        "# 3. exchange".to_owned(),
        format!(
            "T=$(curl -s -u \"$AGENT\" $W/oauth2/token -d grant_type=urn:ietf:params:oauth:grant-type:token-exchange -d subject_token={draft} \
             -d subject_token_type=urn:writ:token-type:draft | sed -n 's/.*\"access_token\":\"\\([^\"]*\\)\".*/\\1/p')"
        ),
        "# 4. execute, within a minute".to_owned(),
        format!(
            "curl -s -H \"Authorization: Bearer $T\" \"$W/v1/executions?wait=10\" -H 'content-type: application/json' -d '{{\"draft_id\":\"{draft}\"}}'; echo"
        ),
        "# 5. look: the draft, and the refund at the backend".to_owned(),
        format!(
            "curl -s -u \"$AGENT\" $W/v1/drafts/{draft}; echo; curl -s {}/_sandbox/state; echo",
            stage.sandbox.url
        ),
    ] {
        page.verbatim(&line);
    }
    page.flush();
    page.finish()?;
    Ok(())
}
