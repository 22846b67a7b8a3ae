//! `writ stop`, `writ stops`, `writ resume` and `writ approval revoke`, on a store that a server has open.

use std::collections::BTreeSet;

use writ::app::{Outside, open_store};
use writ::audit::{Actor, ActorKind};
use writ::config::Config;
use writ::domain::id::{OperationId, StopId};
use writ::domain::stop::StopScope;
use writ::store::Op;
use writ::store::stop::PlaceStop;

use serde_json::{Value, json};

use super::support::{Running, Work, http};

/// The answer of the execute endpoint.
fn execute(run: &Running, token: &str, draft: &str) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = json!({ "draft_id": draft }).to_string();
    let (status, body) = http(&run.server.url, "POST", "/v1/executions?wait=10", &headers, &body);
    (status, serde_json::from_str(&body).unwrap())
}

fn approve(run: &Running, draft: &str) {
    let mia = run.work.text("approvers/usr_mia.pem");
    run.work.run(&["approve", draft, "--key", &mia, "--reason", "fine"]).ok();
}

#[test]
fn a_stop_from_the_command_line_holds_in_a_running_server() {
    let run = Running::new();
    let draft = run.held();
    approve(&run, &draft);
    let token = run.credential(&draft);
    let stop = run
        .work
        .json(&["stop", "--operation", "refund.*", "--reason", "refunds look wrong"]);
    let id = stop["stop"]["id"].as_str().unwrap();
    assert_eq!((&stop["in_flight"], &stop["stop"]["scope"]), (&json!([]), &json!("operation")));
    assert!(stop["stop"]["placed_by"].as_str().unwrap().starts_with("command-line:"), "{stop}");
    let (status, refused) = execute(&run, &token, &draft);
    assert_eq!((status, &refused["code"]), (409, &json!("stopped")), "{refused}");
    let listed = run.work.run(&["stops"]).ok();
    assert!(listed.contains(id) && listed.contains("refunds look wrong"), "{listed}");
    let shown = run.work.run(&["stops", id]).ok();
    assert!(shown.contains("nothing is in flight"), "{shown}");
    let lifted = run.work.run(&["resume", id, "--reason", "they are right"]).ok();
    assert!(lifted.contains("lifted") && lifted.contains("they are right"), "{lifted}");
    assert_eq!(run.work.json(&["stops"])["stops"], json!([]));
    assert_eq!(run.work.json(&["stops", "--ended"])["stops"][0]["id"], id);
    let (status, done) = execute(&run, &token, &draft);
    assert_eq!((status, &done["state"]), (200, &json!("applied")), "{done}");
    let used = run.work.run(&["approval", "revoke", &draft, "--reason", "too late"]).refused(1);
    assert!(used.contains("applied"), "{used}");
}

#[test]
fn an_approval_is_taken_back_at_the_command_line() {
    let run = Running::new();
    let draft = run.held();
    run.work.run(&["approval", "revoke", &draft, "--reason", "x"]).refused(1);
    approve(&run, &draft);
    let token = run.credential(&draft);
    let said = run.work.run(&["approval", "revoke", &draft, "--reason", "signed by mistake"]).ok();
    assert!(said.contains("nothing was sent") && said.contains("signed by mistake"), "{said}");
    let (status, refused) = execute(&run, &token, &draft);
    assert_eq!((status, &refused["code"]), (401, &json!("credential_not_live")), "{refused}");
    let shown = run.work.json(&["draft", "show", &draft]);
    assert_eq!(
        (&shown["state"], &shown["approval"]["state"]),
        (&json!("denied"), &json!("revoked"))
    );
}

#[test]
fn what_a_stop_cannot_mean_is_said_and_nothing_is_stopped() {
    let work = Work::new();
    for (arguments, code) in [
        (&["stop", "--reason", "x"][..], 2),
        (&["stop", "--everything", "--tenant", "main", "--reason", "x"], 2),
        (&["stop", "--everything"], 2),
        (&["stop", "--everything", "--reason", " "], 2),
        (&["stop", "--everything", "--reason", "x", "--for", "soon"], 2),
        (
            &[
                "stop",
                "--everything",
                "--reason",
                "x",
                "--for",
                "1h",
                "--until",
                "2999-01-01T00:00:00Z",
            ],
            2,
        ),
        (&["stop", "--everything", "--reason", "x", "--until", "2001-01-01T00:00:00Z"], 1),
        (&["stop", "--client", "nobody", "--reason", "x"], 1),
        (&["stop", "--operation", "refund.creat", "--reason", "x"], 1),
        (&["resume", "stp_0192f0c1a2b37c4d8e5f60718293a4b5", "--reason", "x"], 1),
        (&["stops", "stp_0192f0c1a2b37c4d8e5f60718293a4b5"], 1),
        (&["approval", "revoke", "drf_0192f0c1a2b37c4d8e5f60718293a4b5", "--reason", "x"], 1),
    ] {
        work.run(arguments).refused(code);
    }
    assert_eq!(work.json(&["stops", "--ended"]), json!({ "stops": [] }));
    let short = work.json(&["stop", "--everything", "--reason", "x", "--for", "90m"]);
    assert!(short["stop"]["expires_at"].is_string(), "{short}");
}

#[test]
fn every_stop_is_listed_also_where_there_are_more_than_a_page() {
    let work = Work::new();
    let config = Config::load(&work.path("writ.toml")).unwrap();
    let outside = Outside::system();
    let store = open_store(&config, &outside).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let many = 205;
    runtime.block_on(async {
        for n in 0..many {
            let op = Op {
                id: OperationId::generate(&*outside.clock, &*outside.entropy),
                actor: Actor::new(ActorKind::Person, "test"),
                request: None,
            };
            let place = PlaceStop {
                id: StopId::generate(&*outside.clock, &*outside.entropy),
                tenant: None,
                scope: StopScope::Everything,
                reason: format!("reason {n}").parse().unwrap(),
                expires_at: None,
            };
            store.place_stop(op, place).await.unwrap();
        }
    });
    drop(store);
    let stops = work.json(&["stops"]);
    let ids: BTreeSet<&str> = stops["stops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stop| stop["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), many);
}
