//! A case of two steps of which one fails, and a change of the address that signs a customer in.

use reqwest::Method;
use serde_json::{Value, json};

use super::lost::held;
use super::{Script, refund};
use crate::demo::DemoError;
use crate::demo::page::{money, short};
use crate::demo::stage::{AGENT, Stage, seen, text};
use crate::domain::approval::Decision;
use crate::sandbox::{Fault, FaultKind, demo};

const CASE: &str = "case-4822";

pub(super) async fn resumed(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("Two steps, one fails, and only that one is done again");
    script.prose("A lamp went to the wrong address. The case has two steps: give the delivery back, and correct the shipping address.");
    script.agent(&format!(
        "propose: refund {}; and: change the shipping address",
        money(2_900, "eur")
    ));
    let money_step = text(&stage.propose(&refund(demo::CHARGE_EUR, 2_900, "eur", CASE)).await?.ok()?, "/id")?;
    let change = address("12 Harbour Street", None);
    let address_step = stage.propose(&change).await?.ok()?;
    script.check("an address change runs by policy", "approved", seen(&address_step, "/state"));
    let address_step = text(&address_step, "/id")?;
    stage.approve("usr_mia", &money_step, "sent to the wrong place by us").await?.ok()?;
    let token = stage.credential(&money_step).await?;
    let refunded = stage.execute(&token, &money_step).await?.ok()?;
    script.writ(&format!("the refund is {}", seen(&refunded, "/state")));
    script.check("the first step is done", "applied", seen(&refunded, "/state"));

    let token = stage.credential(&address_step).await?;
    stage.sandbox.fault(Fault::once(FaultKind::Hold, "PATCH", "/customers/*"));
    let execution = text(&stage.start_execution(&token, &address_step).await?.ok()?, "/id")?;
    held(script).await?;
    script.person("in the very moment a colleague adds an apartment number in the shop");
    let (version, _) = customer(stage)?;
    let theirs = json!({ "shipping_address": {
        "line1": "12 Harbour Street", "line2": "Apt 4", "city": "Portland", "postal_code": "97201", "country": "US",
    }});
    let patched = stage
        .backend(
            Method::PATCH,
            &format!("/customers/{}", demo::CUSTOMER),
            "application/json",
            theirs.to_string(),
            Some(&format!("\"{version}\"")),
        )
        .await?;
    script.check("the colleague's change is made", 200, patched.status);
    script.check("the agent's change was under way", 1, stage.sandbox.release());
    let failed = stage.outcome(&execution).await?;
    script.backend("412: the record has another version now");
    script.writ(&format!(
        "the address change is {}: {}",
        seen(&failed, "/state"),
        seen(&failed, "/code")
    ));
    script.check("the second step has failed", "not_applied", seen(&failed, "/state"));
    script.check("because the record had changed", "412", seen(&failed, "/attempts/0/status"));
    let (_, record) = customer(stage)?;
    script.check("the colleague's address stands", "Apt 4", seen(&record, "/shipping_address/line2"));

    let refunds = stage.sandbox.refunds(demo::CHARGE_EUR).len();
    script.agent("has crashed and comes back: what is done in this case?");
    let case = stage.get(AGENT, &format!("/v1/cases/{CASE}")).await?.ok()?;
    show(script, &case);
    script.check("the case shows which step is done", "done failed", statuses(&case));
    script.agent("proposes the failed step anew, on the address that holds now");
    let anew = stage.propose(&address("12 Harbour Street", Some("Apt 4"))).await?.ok()?;
    let anew_id = text(&anew, "/id")?;
    let token = stage.credential(&anew_id).await?;
    let done = stage.execute(&token, &anew_id).await?.ok()?;
    script.check("the address is changed", "applied", seen(&done, "/state"));
    let (_, record) = customer(stage)?;
    script.check(
        "the backend has the new address",
        "21 Quay Road",
        seen(&record, "/shipping_address/line1"),
    );
    script.check(
        "the refund was not made again",
        refunds,
        stage.sandbox.refunds(demo::CHARGE_EUR).len(),
    );
    let case = stage.get(AGENT, &format!("/v1/cases/{CASE}")).await?.ok()?;
    show(script, &case);
    script.check(
        "the case now holds both steps done, and the attempt that failed",
        "done failed done",
        statuses(&case),
    );
    Ok(())
}

pub(super) async fn email(script: &mut Script<'_>) -> Result<(), DemoError> {
    let stage = script.stage;
    script.chapter("The address that signs the customer in");
    let change = json!({
        "operation": "email.update", "case_id": CASE,
        "parameters": { "customer": demo::CUSTOMER, "old_email": "ada.moreno@example.com", "new_email": "ada@example.net" },
    });
    script.agent("propose: change the e-mail address of the account");
    let draft = stage.propose(&change).await?.ok()?;
    let id = text(&draft, "/id")?;
    script.answered(&draft);
    script.check(
        "it waits for an account administrator",
        "account.admins",
        seen(&draft, "/approval/all_of/0/queue"),
    );
    script.check("who must have signed in afresh", "true", seen(&draft, "/approval/all_of/0/step_up"));
    let mia = stage.approve("usr_mia", &id, "fine by me");
    script.refused("a refund approver", 403, "approver_without_authority", mia).await?;

    script.person("usr_ada signs, but signed in an hour ago");
    let mut stale = stage.claims("usr_ada", &stage.card(&id).await?, Decision::Approve, "called the customer back")?;
    stale.apr.by.auth_time = Some(stale.iat - 3_600);
    let stale = stage.sign("usr_ada", &stale)?;
    script
        .refused("an old sign-in", 403, "step_up_missing", stage.hand_in(&stale))
        .await?;
    script
        .refused("a credential on an old sign-in", 400, "approval_pending", stage.exchange(&id))
        .await?;
    let accepted = stage.approve("usr_ada", &id, "called the customer back").await?.ok()?;
    script.person("usr_ada signs in again, and signs");
    script.check("a fresh sign-in approves it", "approved", seen(&accepted, "/draft/state"));
    let token = stage.credential(&id).await?;
    let done = stage.execute(&token, &id).await?.ok()?;
    script.writ(&format!("{}: {}", short(&id), seen(&done, "/state")));
    script.check("the e-mail address is changed", "applied", seen(&done, "/state"));
    let (_, record) = customer(stage)?;
    script.check("the backend has the new one", "ada@example.net", seen(&record, "/email"));
    Ok(())
}

fn customer(stage: &Stage) -> Result<(u64, Value), DemoError> {
    stage
        .sandbox
        .customer(demo::CUSTOMER)
        .ok_or_else(|| DemoError::Unexpected("the backend has lost the customer".to_owned()))
}

fn address(old_line1: &str, old_line2: Option<&str>) -> Value {
    let mut old = json!({ "line1": old_line1, "city": "Portland", "postal_code": "97201", "country": "US" });
    if let (Some(members), Some(line2)) = (old.as_object_mut(), old_line2) {
        members.insert("line2".to_owned(), json!(line2));
    }
    json!({
        "operation": "shipping_address.update", "case_id": CASE,
        "parameters": {
            "customer": demo::CUSTOMER, "old": old,
            "new": { "line1": "21 Quay Road", "city": "Portland", "postal_code": "97209", "country": "US" },
        },
    })
}

fn show(script: &mut Script<'_>, case: &Value) {
    for step in case.get("steps").and_then(Value::as_array).into_iter().flatten() {
        script.writ(&format!(
            "{} ({}): {}. Next: {}",
            seen(step, "/draft/operation"),
            short(&seen(step, "/draft/id")),
            seen(step, "/status"),
            seen(step, "/next")
        ));
    }
}

/// The status of each step, oldest first.
fn statuses(case: &Value) -> String {
    let steps = case.get("steps").and_then(Value::as_array);
    let words: Vec<String> = steps.into_iter().flatten().map(|step| seen(step, "/status")).collect();
    words.join(" ")
}
