//! Witnesses of the log: what they say counts only if it is theirs, of this head and of now; and what waits for them waits.

mod fake;
mod head_lines;
mod hostile;
mod quorum;

use std::sync::Arc;

use fake::{Act, Witness};
use writ::audit::SignedHead;
use writ::domain::approval::Decision;

use crate::support::world::{Setup, World};

/// The line of the configuration after which witnesses are named.
const PLACE: &str = "head = \"data/writ.head\"\n";

/// A world whose log these witness, with this in `[audit]`.
async fn witnessed(said: &str, witnesses: &[&Arc<Witness>]) -> World {
    let sections: String = witnesses.iter().map(|one| one.section()).collect();
    let world = World::with(Setup::edit("writ.toml", PLACE, &format!("{PLACE}{said}\n{sections}"))).await;
    for one in witnesses {
        one.by(&world.clock);
    }
    world
}

/// One look of the witnesses.
async fn look(world: &World) {
    world.app.witnesses.as_ref().unwrap().round().await;
}

/// An approved draft of so many cents: by the policy, or by a person if it is the customer's third.
async fn refund(world: &World, cents: i64) -> String {
    let draft = world.propose(World::refund(cents)).await.expect(201);
    let id = draft["id"].as_str().unwrap().to_owned();
    if draft["state"] == "awaiting_approval" {
        let record = world.record("usr_mia", &id, Decision::Approve).await;
        assert!(world.hand_in(&record).await.status < 300);
    }
    id
}

/// The latest head as it is kept.
async fn head(world: &World) -> SignedHead {
    world.app.store.head().await.unwrap().unwrap()
}

/// How many events of this type there are.
async fn told(world: &World, kind: &str) -> usize {
    let events = world.app.store.events(0, 10_000).await.unwrap();
    let of = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap()["type"] == kind;
    events.iter().filter(|event| of(&event.bytes)).count()
}
