//! What must hold of every world when it is over, whatever died where.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use writ::app;
use writ::config::Config;
use writ::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};
use writ::sandbox::RefundStatus;
use writ::store::Store;
use writ::store::record::AttemptRecord;
use writ::store::stop::{StopFilter, Stops};

use super::world::World;

/// Points at which an attempt is written down and its request never leaves.
const NEVER_LEFT: [&str; 4] = [
    "execution.dispatch.after_commit",
    "execution.resend.after_commit",
    "dispatch.permitted",
    "send.leaving",
];

/// What came of a case.
pub struct Found {
    /// Whether the process died at the point.
    pub reached: bool,
    /// Effects of the draft at the backend.
    pub effects: usize,
    /// What is not as it must be.
    pub wrong: Vec<String>,
}

impl Found {
    pub fn unreached() -> Self {
        Self {
            reached: false,
            effects: 0,
            wrong: Vec::new(),
        }
    }
}

/// Looks at the store and at the backend's books.
pub async fn look(world: &World, point: &str, over: bool) -> Found {
    let mut wrong = world.complaints.clone();
    if !over {
        wrong.push("it did not come to its end in time".to_owned());
    }
    let store = app::open_store(&Config::load(&world.made.config).unwrap(), &world.outside).unwrap();
    let made: Vec<_> = world.sandbox.refunds(world.charge());
    let ours: Vec<_> = made.iter().filter(|refund| refund.metadata.contains_key("writ_draft")).collect();
    let held = ours
        .iter()
        .filter(|r| matches!(r.status, RefundStatus::Pending | RefundStatus::Succeeded))
        .count();
    if held != world.scenario.effects {
        wrong.push(format!("{held} refunds hold the money instead of {}", world.scenario.effects));
    }
    let wire = world.writes();
    let keys: BTreeSet<_> = wire.iter().filter_map(|seen| seen.idempotency_key.clone()).collect();
    let bodies: BTreeSet<_> = wire.iter().map(|seen| seen.body.clone()).collect();
    if keys.len() > 1 || bodies.len() > 1 {
        wrong.push(format!("{} keys and {} bodies on the wire", keys.len(), bodies.len()));
    }
    if !world.unlogged.lock().unwrap().is_empty() {
        wrong.push("a request was sent before it was written down".to_owned());
    }
    let mut ends = Ends::default();
    let mut attempts = 0;
    for (n, id) in world.drafts.iter().enumerate() {
        let draft = store.draft(id.parse().unwrap()).await.unwrap().unwrap();
        let execution = store.execution_of(draft.id).await.unwrap();
        // One whose lease was nearly over when it was to leave says so, and never left.
        let left = |attempt: &&AttemptRecord| attempt.result.as_ref().is_none_or(|result| result.outcome != "not_sent");
        attempts += execution.as_ref().map_or(0, |e| e.attempts.iter().filter(left).count());
        if n + 1 == world.drafts.len() {
            let state = execution.as_ref().map(|e| e.state);
            if (draft.state, state) != (world.scenario.draft, world.scenario.execution) {
                wrong.push(format!("the draft is {}, its execution {state:?}", draft.state));
            }
        }
        ends.0.insert(id.clone(), draft.state.as_str().to_owned());
        if let Some(approval) = &draft.approval {
            ends.0.insert(approval.id.to_string(), approval.state.as_str().to_owned());
        }
        if let Some(execution) = &execution {
            ends.0.insert(execution.id.to_string(), execution.state.as_str().to_owned());
        }
    }
    let unsent = usize::from(NEVER_LEFT.contains(&point));
    if attempts != wire.len() + unsent {
        wrong.push(format!(
            "{attempts} attempts in the log and {} requests on the wire, {unsent} of which never left",
            wire.len()
        ));
    }
    let events = events(&*store).await;
    for credential in events
        .iter()
        .filter_map(|e| e["credential"]["id"].as_str())
        .collect::<BTreeSet<_>>()
    {
        let row = store.credential(credential.parse().unwrap()).await.unwrap().unwrap();
        ends.0.insert(credential.to_owned(), row.state.as_str().to_owned());
    }
    for stop in store.stops(StopFilter::first(Stops::All)).await.unwrap() {
        ends.0.insert(stop.id.to_string(), stop.state.as_str().to_owned());
    }
    wrong.extend(ends.told_by(&events));
    Found {
        reached: true,
        effects: ours.len(),
        wrong,
    }
}

async fn events(store: &dyn Store) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let page = store.events(all.len() as u64, 500).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page.iter().map(|event| serde_json::from_slice::<Value>(&event.bytes).unwrap()));
    }
}

/// Where each thing stands in the store, by its id.
#[derive(Default)]
struct Ends(BTreeMap<String, String>);

impl Ends {
    /// What the log tells otherwise: it must have no gap, and lead each thing from its beginning to where it stands, one event for each step.
    fn told_by(&self, events: &[Value]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut stands: BTreeMap<String, String> = BTreeMap::new();
        for (n, event) in events.iter().enumerate() {
            if event["seq"].as_u64() != Some(n as u64) {
                wrong.push(format!("the event in place {n} has the number {}", event["seq"]));
            }
            let Some(to) = event["state"]["to"].as_str() else { continue };
            let name = event["type"].as_str().unwrap_or_default();
            let id = event[name.split('.').next().unwrap_or_default()]["id"].as_str().unwrap_or_default();
            let was = stands.insert(id.to_owned(), to.to_owned());
            if event["state"]["from"].as_str() != was.as_deref() {
                wrong.push(format!(
                    "{name} of {id} starts from {} and it stood at {was:?}",
                    event["state"]["from"]
                ));
            }
            if !is_legal(name, was.as_deref(), to) {
                wrong.push(format!("{name} of {id} leads from {was:?} to {to}"));
            }
        }
        for (id, end) in &self.0 {
            if stands.get(id) != Some(end) {
                wrong.push(format!("{id} is {end} and the log says {:?}", stands.get(id)));
            }
        }
        for id in stands.keys().filter(|id| !self.0.contains_key(*id)) {
            wrong.push(format!("the log tells of {id}, which no caller knows of"));
        }
        wrong
    }
}

/// Whether the lifecycle has this transition.
fn is_legal(name: &str, from: Option<&str>, to: &str) -> bool {
    macro_rules! any {
        ($($transitions:ty),*) => {
            false $(|| <$transitions>::ALL.iter().any(|t| {
                let starts = from.map_or(t.from().is_empty() || name == "execution.claim", |from| t.from().iter().any(|s| s.as_str() == from));
                t.event() == name && t.to().as_str() == to && starts
            }))*
        };
    }
    any!(
        DraftTransition,
        ApprovalTransition,
        CredentialTransition,
        ExecutionTransition,
        StopTransition
    )
}
