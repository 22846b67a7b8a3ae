//! Who calls at all, and for what.

use reqwest::Method;
use serde_json::json;

use super::deployment::Which;
use super::ground::Ground;
use super::outcome::Held;
use super::wire::{Body, By};
use crate::domain::clock::random;

pub(super) async fn nobody(ground: &Ground) -> Held {
    let live = &ground.live;
    let form = [("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")];
    let record = json!({ "record": "a.b.c" });
    for (path, body) in [
        ("/v1/drafts", Body::Json(live.proposal(Which::Once)?)),
        ("/v1/approvals", Body::Json(record)),
        ("/oauth2/token", Body::Form(&form)),
    ] {
        let reply = live.wire.call(Method::POST, &live.at(path), By::Nobody, body).await?;
        note(ground, &reply.body);
        reply.refused(&format!("a call of {path} by nobody"), &["unauthenticated"])?;
    }
    let body = Body::Json(live.proposal(Which::Once)?);
    let by = By::Wrong(&live.settings.agent);
    let reply = live.wire.call(Method::POST, &live.at("/v1/drafts"), by, body).await?;
    note(ground, &reply.body);
    reply.refused("a proposal with a wrong secret", &["unauthenticated"])?;
    Ok("refused without a secret and with a wrong one".to_owned())
}

pub(super) async fn wrong_role(ground: &Ground) -> Held {
    let live = &ground.live;
    let body = Body::Json(json!({ "record": "a.b.c" }));
    let by = By::Client(&live.settings.agent);
    let reply = live.wire.call(Method::POST, &live.at("/v1/approvals"), by, body).await?;
    reply.refused("an approval that the agent hands in itself", &["role_missing"])?;
    let body = Body::Json(live.proposal(Which::Once)?);
    let by = By::Client(&live.settings.desk);
    let reply = live.wire.call(Method::POST, &live.at("/v1/drafts"), by, body).await?;
    note(ground, &reply.body);
    reply.refused("a proposal by the review desk", &["role_missing"])?;
    Ok("the agent hands in no approval, and the desk proposes nothing".to_owned())
}

pub(super) async fn unknown_operation(ground: &Ground) -> Held {
    let live = &ground.live;
    // A name that nobody can have declared, so that no operation is touched that the settings do not name.
    let chance: String = random::<6>(&*live.outside.entropy)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let body = json!({ "operation": format!("prove.x{chance}"), "parameters": {} });
    let by = By::Client(&live.settings.agent);
    let reply = live.wire.call(Method::POST, &live.at("/v1/drafts"), by, Body::Json(body)).await?;
    note(ground, &reply.body);
    reply.refused("a proposal of an operation that does not exist", &["operation_unknown"])?;
    Ok("refused before anything is stored".to_owned())
}

/// Whatever draft comes of a call that must be refused is withdrawn at the end.
fn note(ground: &Ground, body: &serde_json::Value) {
    if let Some(id) = body.get("id").and_then(serde_json::Value::as_str) {
        ground.live.remember(id);
    }
}
