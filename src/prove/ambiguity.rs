//! "No answer" is never "no": what was sent and not understood is looked up, blocks its resource meanwhile, and is not sent a second time blindly.
//!
//! Answers are lost on purpose, at a sandbox's desk; other backends have none.

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::{Value, json};

use super::deployment::{Draft, Which, soon};
use super::effects::{Seen, seen};
use super::ground::Ground;
use super::outcome::{Amiss, Held, Reply};
use super::wire::{Body, By};
use crate::domain::secret::Secret;

/// Before a request was sent, or while it is.
const ON_ITS_WAY: [&str; 2] = ["claimed", "dispatched"];

/// As long as the outcome is not known.
const OPEN: [&str; 3] = ["claimed", "dispatched", "indeterminate"];

/// A fault of the sandbox's, and how often the request may have reached it by the time its outcome is known.
struct Loss {
    /// The fault's word at the desk.
    kind: &'static str,
    /// What it does, in words.
    what: &'static str,
    /// The most requests under the draft's key, of which one has an effect.
    most: usize,
}

pub(super) async fn lost_answer(ground: &Ground) -> Held {
    let loss = Loss {
        kind: "drop_after",
        what: "a request that was carried out and not answered",
        most: 1,
    };
    ambiguous(ground, &loss).await
}

pub(super) async fn unknown_error(ground: &Ground) -> Held {
    let loss = Loss {
        kind: "error_500_after",
        what: "a request that was carried out and answered with an error 500",
        most: 1,
    };
    ambiguous(ground, &loss).await
}

pub(super) async fn one_byte(ground: &Ground) -> Held {
    let loss = Loss {
        kind: "close_as_written",
        what: "a request whose connection was closed while it was written",
        // Nothing was done: once that is known, it is sent again under the same key.
        most: 2,
    };
    ambiguous(ground, &loss).await
}

/// The desk of the sandbox behind the live deployment.
struct Desk<'g> {
    ground: &'g Ground,
    url: &'g str,
}

impl<'g> Desk<'g> {
    async fn of(ground: &'g Ground) -> Result<Self, Amiss> {
        let url =
            ground.live.settings.sandbox.as_deref().ok_or_else(|| {
                Amiss::NotApplicable("the backend is no `writ sandbox`, and no other loses an answer on purpose".to_owned())
            })?;
        let desk = Self { ground, url };
        let waiting = desk.call(Method::GET, "faults", Body::Nothing).await?;
        match waiting.body.pointer("/data").and_then(Value::as_array).map(Vec::len) {
            Some(0) => Ok(desk),
            Some(_) => Err(Amiss::NotApplicable(
                "somebody else has queued faults at the sandbox; `curl -X DELETE …/_sandbox/faults` forgets them".to_owned(),
            )),
            None => Err(Amiss::NotApplicable(
                "what the settings call `sandbox` has no desk for faults".to_owned(),
            )),
        }
    }

    async fn call(&self, method: Method, path: &str, body: Body<'_>) -> Result<Reply, Amiss> {
        let url = format!("{}/_sandbox/{path}", self.url);
        let reply = self.ground.live.wire.call(method, &url, By::Nobody, body).await?;
        reply.done("a call of the sandbox's desk")
    }

    async fn fault(&self, method: &str, path: &str, kind: &str) -> Result<(), Amiss> {
        // Before the call: one that is broken off may have been heard.
        self.ground.faulted.store(true, Ordering::Relaxed);
        let fault = json!({ "match": { "method": method, "path": path }, "kind": kind });
        self.call(Method::POST, "faults", Body::Json(fault)).await.map(drop)
    }

    /// Forgets the faults that did not strike, and lets go on what was held.
    async fn clear(&self) -> Result<(), Amiss> {
        self.call(Method::DELETE, "faults", Body::Nothing).await?;
        self.call(Method::POST, "release", Body::Nothing).await?;
        self.ground.faulted.store(false, Ordering::Relaxed);
        Ok(())
    }
}

/// Leaves the sandbox as it was found, where a run was broken off with faults queued.
pub(super) async fn tidy(ground: &Ground) {
    if let Some(url) = &ground.live.settings.sandbox
        && ground.faulted.load(Ordering::Relaxed)
        && let Err(amiss) = (Desk { ground, url }).clear().await
    {
        tracing::warn!(?amiss, "faults of the prover's are left at the sandbox");
    }
}

async fn ambiguous(ground: &Ground, loss: &Loss) -> Held {
    let live = &ground.live;
    let desk = Desk::of(ground).await?;
    let draft = live.approved(Which::Once).await?;
    let other = live.approved(Which::Once).await?;
    let token = live.credential(&draft).await?;
    let (method, path) = live.request(&draft).await?;
    let begun = async {
        desk.fault(&method, &path, loss.kind).await?;
        desk.fault("GET", &path, "hold").await?;
        live.begin(&token, &draft.id).await
    };
    let begun = begun.await;
    let tried = match &begun {
        Ok(execution) => while_nobody_knows(ground, &desk, loss, (&draft, &other, &token), execution.text("/id")).await,
        Err(amiss) => Err(amiss.clone()),
    };
    // Whatever came of it, the sandbox is left as it was found, and the resource free again.
    let cleared = desk.clear().await;
    let ended = match &begun {
        Ok(execution) => Some(live.execution(execution.text("/id"), |state| !OPEN.contains(&state)).await),
        Err(_) => None,
    };
    tried?;
    cleared?;
    match ended {
        Some(end) => afterwards(ground, &draft, &end?, loss).await,
        None => Err(Amiss::Unclear("the execution did not begin".to_owned())),
    }
}

/// Nothing may be known, nothing be sent again, and nothing else touch the resource, as long as every look-up is held.
async fn while_nobody_knows(
    ground: &Ground,
    desk: &Desk<'_>,
    loss: &Loss,
    (draft, other, token): (&Draft, &Draft, &Secret),
    execution: &str,
) -> Result<(), Amiss> {
    let live = &ground.live;
    let now = live.execution(execution, |state| !ON_ITS_WAY.contains(&state)).await?;
    match now.text("/state") {
        "indeterminate" => {}
        state @ ("not_applied" | "failed") => {
            return Err(Amiss::Through(format!("{} was called {state}", loss.what)));
        }
        state => {
            return Err(Amiss::Unclear(format!(
                "{} was called {state} before anybody could look",
                loss.what
            )));
        }
    }
    let held = async || {
        let standing = desk.call(Method::GET, "state", Body::Nothing).await?;
        Ok(standing.body.pointer("/held").and_then(Value::as_u64).unwrap_or_default() > 0)
    };
    soon("the lost answer is looked up", held).await?;
    let reply = live.exchange(&other.id, None).await?;
    reply.refused(
        &format!("a credential for the same resource while {} is open", loss.what),
        &["resource_busy"],
    )?;
    let again = live.attempt(live.proxy(), By::Bearer(token.expose()), &draft.id).await?;
    if again.is_done() && again.text("/id") != execution {
        return Err(Amiss::Through(format!("{} was retried as another execution", loss.what)));
    }
    match seen(live, draft).await? {
        Some(Seen { requests: 0 | 1, .. }) => Ok(()),
        other => Err(Amiss::Through(format!(
            "{} was sent again before anybody had looked: {other:?}",
            loss.what
        ))),
    }
}

/// Once the look-up has its answer the outcome is known, and there was one effect.
async fn afterwards(ground: &Ground, draft: &Draft, end: &Reply, loss: &Loss) -> Held {
    let counted = seen(&ground.live, draft).await?.unwrap_or(Seen { requests: 0, effects: 0 });
    if counted.effects > 1 || counted.requests > loss.most {
        return Err(Amiss::Through(format!("{} led to {counted:?}", loss.what)));
    }
    match end.text("/state") {
        "applied" if counted.effects == 1 => Ok(format!(
            "indeterminate until it was looked up, the resource closed meanwhile; then applied, with {} and one effect",
            if counted.requests == 1 {
                "one request"
            } else {
                "two requests under one key"
            },
        )),
        state => Err(Amiss::Unclear(format!("{} ended as {state} with {counted:?}", loss.what))),
    }
}
