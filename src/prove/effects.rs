//! One effect: however often, however many at once, wherever a credential is spent.

use reqwest::Method;
use serde_json::Value;

use super::deployment::{Deployment, Draft, Which};
use super::ground::Ground;
use super::outcome::{Amiss, Held};
use super::wire::{Body, By};

/// How many redeem the same credential at the same time.
const RACERS: usize = 16;

pub(super) async fn duplicate(ground: &Ground) -> Held {
    let live = &ground.live;
    let draft = live.approved(Which::Once).await?;
    let token = live.credential(&draft).await?;
    let first = live.execute(&token, &draft.id).await?;
    for proxy in &live.settings.proxies {
        let again = live.attempt(proxy, By::Bearer(token.expose()), &draft.id).await?;
        let again = again.done("a second call with the same credential")?;
        if again.text("/id") != first.text("/id") {
            return Err(Amiss::Through(format!(
                "executing twice made two executions, {} and {}",
                first.text("/id"),
                again.text("/id")
            )));
        }
    }
    one_effect(ground, &draft, first.text("/id")).await
}

pub(super) async fn one_winner(ground: &Ground) -> Held {
    let live = &ground.live;
    let draft = live.approved(Which::Once).await?;
    let token = live.credential(&draft).await?;
    live.executes_one();
    let proxies = live.settings.proxies.iter().cycle().take(RACERS);
    let calls = proxies.map(|proxy| live.attempt(proxy, By::Bearer(token.expose()), &draft.id));
    let replies = all_at_once(calls).await;
    let mut ids: Vec<String> = Vec::new();
    for reply in replies {
        let reply = reply?;
        // Whoever loses may be told what runs, or be refused; more than one winner is what must not be.
        if reply.is_done() {
            ids.push(reply.text("/id").to_owned());
        }
    }
    let won = ids.len();
    ids.sort();
    ids.dedup();
    let [execution] = ids.as_slice() else {
        return match ids.as_slice() {
            [] => Err(Amiss::Unclear("none of the calls was taken".to_owned())),
            several => Err(Amiss::Through(format!(
                "{} executions began: {}",
                several.len(),
                several.join(", ")
            ))),
        };
    };
    live.outcome(execution).await?;
    let effect = one_effect(ground, &draft, execution).await?;
    Ok(format!(
        "{RACERS} calls at {} {}, {won} told of the same execution; {effect}",
        live.settings.proxies.len(),
        if live.settings.proxies.len() == 1 { "proxy" } else { "proxies" },
    ))
}

/// Polls all of the futures at once; their results in the order of the futures.
async fn all_at_once<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut open = false;
        for (future, result) in &mut waiting {
            if result.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(value) => *result = Some(value),
                    std::task::Poll::Pending => open = true,
                }
            }
        }
        if open {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, result)| result).collect()
}

/// Holds if the execution was sent once, as the deployment tells it.
pub(super) async fn sent_once(ground: &Ground, execution: &str) -> Result<(), Amiss> {
    let told = ground.live.outcome(execution).await?;
    match told.body.pointer("/attempts").and_then(Value::as_array).map(Vec::len) {
        Some(0 | 1) => Ok(()),
        Some(several) => Err(Amiss::Through(format!("the request was sent {several} times"))),
        None => Err(Amiss::Unclear("an execution was answered without its attempts".to_owned())),
    }
}

/// Holds if the draft had one effect: in the deployment's words, and at a sandbox in its own books.
async fn one_effect(ground: &Ground, draft: &Draft, execution: &str) -> Held {
    sent_once(ground, execution).await?;
    let now = ground.live.look(&draft.id).await?;
    if now.text("/execution/id") != execution {
        return Err(Amiss::Through(format!(
            "the draft names another execution, {}",
            now.text("/execution/id")
        )));
    }
    match seen(&ground.live, draft).await? {
        None => Ok("sent once, as the deployment tells it".to_owned()),
        Some(Seen { effects: 1, .. }) => Ok("one effect in the backend's own books".to_owned()),
        Some(Seen { effects, requests }) => Err(Amiss::Through(format!(
            "the backend got {requests} requests under the draft's key, and {effects} had an effect"
        ))),
    }
}

/// What a sandbox saw of a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Requests under its key.
    pub(super) requests: usize,
    /// Those that changed the books.
    pub(super) effects: usize,
}

/// What the sandbox behind the deployment saw under the draft's key; nothing if there is none.
pub(super) async fn seen(live: &Deployment, draft: &Draft) -> Result<Option<Seen>, Amiss> {
    let Some(sandbox) = &live.settings.sandbox else { return Ok(None) };
    let url = format!("{sandbox}/_sandbox/requests");
    let reply = live
        .wire
        .call(Method::GET, &url, By::Nobody, Body::Nothing)
        .await?
        .done("the sandbox's record of requests")?;
    let requests = reply.body.pointer("/data").and_then(Value::as_array).cloned().unwrap_or_default();
    let key = draft.text("/idempotency_key");
    let ours: Vec<_> = requests
        .iter()
        .filter(|seen| seen.get("idempotency_key").and_then(Value::as_str) == Some(key))
        .collect();
    let effects = ours.iter().filter(|seen| seen.get("effect") == Some(&Value::Bool(true))).count();
    Ok(Some(Seen {
        requests: ours.len(),
        effects,
    }))
}
