//! A clock that diverges is named, and nothing new begins on it.

use std::time::Duration;

use reqwest::Method;

use super::deployment::{Which, soon};
use super::ground::Ground;
use super::outcome::{Amiss, Held};
use super::private::Private;
use super::wire::{Body, By};

/// How far the private deployment's clock is set back.
const BACK: Duration = Duration::from_secs(3_600);

pub(super) async fn behind(ground: &Ground) -> Held {
    let private = ground.private().await?;
    private.set_clock_back(BACK);
    let tried = on_a_clock_behind(private).await;
    private.set_clock_back(Duration::ZERO);
    let ready = async || Ok(readiness(private).await?.0 == 200);
    soon("the deployment is ready again once its clock is right", ready).await?;
    tried
}

async fn on_a_clock_behind(private: &Private) -> Held {
    let deployment = private.deployment();
    let named = async || {
        let (status, body) = readiness(private).await?;
        Ok(status == 503 && body.contains("clock"))
    };
    soon("`/readyz` names a clock that is behind the store's times", named).await?;
    let body = Body::Json(deployment.proposal(Which::Once)?);
    let by = By::Client(&deployment.settings.agent);
    let reply = deployment.wire.call(Method::POST, &deployment.at("/v1/drafts"), by, body).await?;
    reply.refused("a proposal on a clock that is an hour behind", &["clock_behind"])?;
    Ok("`/readyz` names it, and nothing new begins until it is right".to_owned())
}

async fn readiness(private: &Private) -> Result<(u16, String), Amiss> {
    let deployment = private.deployment();
    let url = deployment.at("/readyz");
    let reply = deployment.wire.call(Method::GET, &url, By::Nobody, Body::Nothing).await?;
    Ok((reply.status, reply.body.to_string()))
}
