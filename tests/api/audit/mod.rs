//! The log over HTTP: found by what events are about, followed as it grows, and each read recorded.

mod cases;
mod events;
mod reads;
mod stream;

use serde_json::Value;

use crate::support::world::{Reply, World};

/// A call of the example's auditor.
async fn audit(world: &World, path: &str) -> Reply {
    world.call("security", "GET", path, None).await
}

/// The events that this query finds.
async fn found(world: &World, query: &str) -> Vec<Value> {
    let page = audit(world, &format!("/v1/audit/events?limit=1000&{query}")).await.expect(200);
    told(&page)
}

/// The events of a page.
fn told(page: &Value) -> Vec<Value> {
    let lines = page["events"].as_array().unwrap().iter();
    lines
        .map(|line| serde_json::from_str(line["event"].as_str().unwrap()).unwrap())
        .collect()
}

/// An auditor of another tenant.
async fn elsewhere(world: &mut World) {
    world
        .add_client("security", |client| {
            client.id = "elsewhere".parse().unwrap();
            client.tenant = "other".parse().unwrap();
        })
        .await;
}
