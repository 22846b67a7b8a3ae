//! What an approval was about must still be so: the resource, and the address it is sent to.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

use super::deployment::Which;
use super::ground::Ground;
use super::outcome::{Amiss, Held};
use super::private::Private;
use super::wire::By;

pub(super) async fn stale(ground: &Ground) -> Held {
    let live = &ground.live;
    let first = live.approved(Which::Once).await?;
    let second = live.approved(Which::Once).await?;
    let token = live.credential(&first).await?;
    live.execute(&token, &first.id).await?;
    let reply = live.exchange(&second.id, None).await?;
    if reply.is_done() && second.text("/consequence") != "money" {
        return Err(Amiss::NotApplicable(
            "the operation moves no money and looks at no version of its resource".to_owned(),
        ));
    }
    reply.refused("a credential for a resource that has changed", &["resource_changed"])?;
    let now = live.look(&second.id).await?;
    match now.text("/state") {
        "stale" => Ok("the draft is stale, and its approval with it".to_owned()),
        state => Err(Amiss::Through(format!("the draft of a changed resource is still {state}"))),
    }
}

pub(super) async fn swapped(ground: &Ground) -> Held {
    let private = ground.private().await?;
    let path = private.config().backends.join("stripe.toml");
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let before = std::fs::read_to_string(&path).map_err(|error| Amiss::Unclear(at(error)))?;
    let tried = at_another_address(private).await;
    let back = |_: &Path| std::fs::write(&path, before).map_err(at);
    private.restarted(back).await.map_err(Amiss::Unclear)?;
    tried
}

async fn at_another_address(private: &Private) -> Held {
    let deployment = private.deployment();
    let held = deployment.approved(Which::Once).await?;
    let token = deployment.credential(&held).await?;
    let approved = deployment.approved(Which::Once).await?;
    let thief = Thief::new().await?;
    let url = thief.url.clone();
    let swap = |dir: &Path| point_elsewhere(dir, &url);
    private.restarted(swap).await.map_err(Amiss::Unclear)?;
    let reply = deployment.exchange(&approved.id, None).await?;
    thief.was_not_called()?;
    reply.refused("an approval from before the backend's address was swapped", &["adapter_changed"])?;
    let reply = deployment.attempt(deployment.proxy(), By::Bearer(token.expose()), &held.id).await?;
    let told = if reply.is_done() {
        deployment.outcome(reply.text("/id")).await?.text("/state").to_owned()
    } else {
        reply.code().to_owned()
    };
    thief.was_not_called()?;
    match told.as_str() {
        "applied" | "pending" => Err(Amiss::Through(format!("a credential from before the swap was executed: {told}"))),
        _ => Ok(format!(
            "the approval is stale, a credential from before ends as {told}, and nothing reached the other address"
        )),
    }
}

/// Gives the payments backend another address.
fn point_elsewhere(dir: &Path, url: &str) -> Result<(), String> {
    let path = dir.join("policies/backends/stripe.toml");
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(at)?;
    let moved: Vec<String> = text
        .lines()
        .map(|line| {
            if line.starts_with("base_url") {
                format!("base_url = \"{url}\"")
            } else {
                line.to_owned()
            }
        })
        .collect();
    std::fs::write(&path, moved.join("\n") + "\n").map_err(at)
}

/// A place that nobody should call; it hangs up on whoever does.
struct Thief {
    url: String,
    visits: Arc<AtomicUsize>,
    listening: tokio::task::JoinHandle<()>,
}

impl Thief {
    async fn new() -> Result<Self, Amiss> {
        let no_port = |error: std::io::Error| Amiss::Unclear(format!("no port on 127.0.0.1: {error}"));
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.map_err(no_port)?;
        let url = format!("http://{}", listener.local_addr().map_err(no_port)?);
        let visits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&visits);
        let listening = tokio::spawn(async move {
            while let Ok((visitor, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                drop(visitor);
            }
        });
        Ok(Self { url, visits, listening })
    }

    fn was_not_called(&self) -> Result<(), Amiss> {
        match self.visits.load(Ordering::SeqCst) {
            0 => Ok(()),
            visits => Err(Amiss::Through(format!("the other address was called {visits} times"))),
        }
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
