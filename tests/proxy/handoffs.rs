//! The case a person gets: everything that is known, what to look for, what can be done; closed by evidence.

use serde_json::{Value, json};
use writ::domain::digest::Digest;
use writ::domain::principal::Role;
use writ::sandbox::{Fault, FaultKind};

use super::handed_off::handed_off;
use super::support::{MINUTE, exchanged, refund_on, resolve, sent};
use crate::cli::support::writ;
use crate::support::world::{Reply, World};

async fn list(world: &World, client: &str, query: &str) -> Reply {
    world.call(client, "GET", &format!("/v1/handoffs{query}"), None).await
}

async fn show(world: &World, client: &str, execution: &Value) -> Reply {
    let path = format!("/v1/handoffs/{}", execution["id"].as_str().unwrap());
    world.call(client, "GET", &path, None).await
}

fn ids(page: &Value) -> Vec<&str> {
    let handoffs = page["handoffs"].as_array().unwrap();
    handoffs.iter().map(|h| h["execution_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn only_an_operator_or_auditor_of_the_tenant_sees_a_handoff() {
    let (mut world, _held, execution) = handed_off(FaultKind::DropAfter).await;
    for client in ["support-agent", "review-desk"] {
        list(&world, client, "").await.refused(403, "role_missing");
        show(&world, client, &execution).await.refused(403, "role_missing");
    }
    let stranger = |c: &mut writ::domain::principal::Client| {
        c.id = "other-operations".parse().unwrap();
        c.tenant = "other".parse().unwrap();
    };
    world.add_client("operations", stranger).await;
    assert_eq!(
        list(&world, "other-operations", "?status=all").await.expect(200),
        json!({ "handoffs": [] })
    );
    show(&world, "other-operations", &execution).await.refused(404, "not_found");
    for client in ["operations", "security"] {
        assert_eq!(ids(&list(&world, client, "").await.expect(200)), [&execution["id"]]);
        show(&world, client, &execution).await.expect(200);
    }
    let roles = &world
        .made
        .clients
        .iter()
        .find(|(c, _)| c.id.as_str() == "security")
        .unwrap()
        .0
        .roles;
    assert!(roles.contains(&Role::Auditor));
}

#[tokio::test]
async fn what_was_never_handed_off_is_no_handoff_and_a_wrong_filter_is_refused() {
    let world = World::new().await;
    let held = super::support::held(&world).await;
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    show(&world, "operations", &execution).await.refused(404, "not_found");
    assert_eq!(ids(&list(&world, "operations", "?status=all").await.expect(200)), [""; 0]);
    for (query, place) in [
        ("?status=waiting", "status"),
        ("?why=bored", "why"),
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?after=drf_1", "after"),
        ("?operation=%20", "operation"),
        ("?backend=%20", "backend"),
        ("?case=%00", "case"),
        ("?tenant=acme", "tenant"),
    ] {
        let reply = list(&world, "operations", query).await.refused(400, "parameter_invalid");
        assert!(reply.body["detail"].as_str().unwrap().contains(place), "{query}: {}", reply.body);
    }
}

#[tokio::test]
async fn a_handoff_shows_what_was_sent_what_came_back_and_what_to_look_for() {
    let (world, held, execution) = handed_off(FaultKind::DropAfter).await;
    let case = show(&world, "operations", &execution).await.expect(200);
    assert_eq!((&case["status"], &case["why"]["code"]), (&json!("open"), &json!("unresolved")));
    assert!(case["why"]["sentence"].as_str().unwrap().contains("look-up"), "{case}");
    assert_eq!((&case["draft_id"], &case["amount"]["minor"]), (&json!(held.draft), &json!(4_000)));

    let sent = &sent(&world)[0];
    let request = &case["draft"]["request"];
    assert_eq!(request["body"].as_str().unwrap().as_bytes(), sent.body.as_bytes());
    let hash = Digest::of(sent.body.as_bytes()).to_string();
    assert_eq!(
        (&request["body_sha256"], &case["draft"]["case_id"]),
        (&json!(hash), &json!("case-1"))
    );
    assert!(request["url"].as_str().unwrap().ends_with("/v1/refunds"), "{request}");
    assert!(!case.to_string().contains(world.sandbox.write_key().expose()), "no secret is shown");

    let attempt = &case["execution"]["attempts"][0];
    assert_eq!((&attempt["request_sha256"], &attempt["outcome"]), (&json!(hash), &json!("lost")));
    assert_eq!(attempt["conclusive"], json!(false));
    assert!(
        attempt["result_at"].is_string() && attempt.get("answer_sha256").is_none(),
        "{attempt}"
    );
    let look = &case["execution"]["lookups"][0];
    assert_eq!((&look["finding"], &look["status"]), (&json!("inconclusive"), &json!(503)));
    assert!(look["answer_sha256"].is_string() && look["at"].is_string(), "{look}");

    assert_eq!(case["window"]["over"], json!(true), "the window is 23 hours, and a day has passed");
    let values: Vec<&str> = case["look_for"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["value"].as_str().unwrap())
        .collect();
    let key = sent.idempotency_key.as_deref().unwrap();
    assert!(values.contains(&key) && values.contains(&held.draft.as_str()), "{values:?}");
    let names: Vec<&str> = case["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["resolve_applied", "resolve_not_applied", "wait"]);
}

#[tokio::test]
async fn resolving_closes_the_case_and_keeps_the_evidence_where_it_can_be_found() {
    let (world, _held, execution) = handed_off(FaultKind::DropAfter).await;
    for bad in ["", "re 1", "re_\u{e9}", "re_\n", &"r".repeat(256)] {
        let finding = json!({ "outcome": "applied", "evidence": "seen", "reference": bad });
        let reply = resolve(&world, "operations", &execution, finding)
            .await
            .refused(400, "json_invalid");
        assert!(reply.body.to_string().contains("reference") || bad.contains('\n'), "{}", reply.body);
    }
    let case = show(&world, "operations", &execution).await.expect(200);
    // The call that the case itself offers, with the person's words in it.
    let call = &case["actions"][0]["call"];
    let (method, path) = call["request"].as_str().unwrap().split_once(' ').unwrap();
    let mut body = call["body"].clone();
    body["evidence"] = json!("seen in the dashboard");
    body["reference"] = json!("re_seen");
    let resolved = world.call("operations", method, path, Some(body)).await.expect(200);
    assert_eq!(resolved["state"], "applied");

    assert_eq!(ids(&list(&world, "operations", "").await.expect(200)), [""; 0]);
    assert_eq!(
        ids(&list(&world, "operations", "?status=closed").await.expect(200)),
        [&execution["id"]]
    );
    let closed = show(&world, "security", &execution).await.expect(200);
    assert_eq!(
        (&closed["status"], &closed["evidence"]),
        (&json!("closed"), &json!("seen in the dashboard"))
    );
    assert_eq!((&closed["actions"], &closed["why"]["code"]), (&json!([]), &json!("unresolved")));
    assert!(
        closed.get("age_seconds").is_none() && closed["handed_off_at"].is_string(),
        "{closed}"
    );
    let events = world.events().await;
    let event = events.iter().find(|e| e["type"] == "execution.resolve_applied").unwrap();
    assert_eq!(
        event["_sd"].as_array().map(Vec::len),
        Some(1),
        "the evidence is committed to, and not written: {event}"
    );
}

#[tokio::test]
async fn handoffs_are_listed_by_pages_and_by_what_they_are_about() {
    let world = World::new().await;
    let mut drafts = Vec::new();
    for charge in [writ::sandbox::demo::CHARGE, writ::sandbox::demo::CHARGE_OTHER] {
        let held = exchanged(&world, "support-agent", refund_on(&world, charge, 4_000, "usd").await).await;
        world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
        world.execute(&held.token, &held.draft).await.expect(202);
        drafts.push(held.draft);
    }
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 1_000));
    for _ in 0..2 {
        world.later(std::time::Duration::from_secs(24 * 3600)).await;
    }
    world.later(MINUTE).await;
    let all = list(&world, "operations", "?why=unresolved").await.expect(200);
    assert_eq!(ids(&all).len(), 2, "{all}");
    let first = list(&world, "operations", "?limit=1").await.expect(200);
    let second = list(&world, "operations", &format!("?limit=1&after={}", first["next"].as_str().unwrap()))
        .await
        .expect(200);
    assert_eq!([ids(&first), ids(&second)].concat(), ids(&all));
    let last = list(
        &world,
        "operations",
        &format!("?limit=1&after={}", second["next"].as_str().unwrap()),
    )
    .await
    .expect(200);
    assert_eq!((ids(&last), last.get("next")), (vec![], None));
    let on = |charge: &str| format!("?resource=charge:{charge}&operation=refund.create&backend=stripe");
    for (charge, draft) in [
        (writ::sandbox::demo::CHARGE, &drafts[0]),
        (writ::sandbox::demo::CHARGE_OTHER, &drafts[1]),
    ] {
        let found = list(&world, "operations", &on(charge)).await.expect(200);
        assert_eq!((ids(&found).len(), &found["handoffs"][0]["draft_id"]), (1, &json!(draft)));
    }
    for none in [
        "?backend=shop",
        "?operation=email.update",
        "?why=adapter_changed",
        "?case=case-7",
        "?resource=charge:ch_x",
        "?status=closed",
    ] {
        assert_eq!(ids(&list(&world, "operations", none).await.expect(200)), [""; 0], "{none}");
    }
}

#[tokio::test]
async fn the_command_line_shows_the_case_and_its_commands_close_it() {
    let (world, held, execution) = handed_off(FaultKind::DropAfter).await;
    let config = world.made.config.to_str().unwrap();
    let id = execution["id"].as_str().unwrap();
    let listed = writ(&["handoff", "list", "--config", config]).ok();
    assert!(
        listed.contains(id) && listed.contains("unresolved") && listed.contains("40.00 USD"),
        "{listed}"
    );
    let shown = writ(&["handoff", "show", id, "--config", config]).ok();
    for expected in [
        "why a person",
        "look for at the backend",
        "what can be done",
        "window of the key is over",
        "what is sent, exactly",
    ] {
        assert!(shown.contains(expected), "`{expected}` is missing in {shown}");
    }
    assert!(
        shown.contains(execution["idempotency_key"].as_str().unwrap()) && shown.contains(&held.draft),
        "{shown}"
    );
    assert!(
        shown.contains(execution["attempts"][0]["request_sha256"].as_str().unwrap()),
        "{shown}"
    );
    let json = writ(&["handoff", "show", id, "--json", "--config", config]).json();
    // As the JSON names the command, with the person's own words.
    let command = json["actions"][1]["command"]
        .as_str()
        .unwrap()
        .replace("'how you know'", "nothing-there");
    let arguments: Vec<&str> = command.split(' ').skip(1).chain(["--config", config]).collect();
    writ(&arguments).ok();
    assert_eq!(world.execution(&held.draft).await["state"], "not_applied");
    assert_eq!(
        writ(&["handoff", "list", "--json", "--config", config]).json(),
        json!({ "handoffs": [] })
    );
    let all = writ(&["handoff", "list", "--all", "--config", config]).ok();
    assert!(all.contains("no, it is not_applied"), "{all}");
    let never = writ(&["handoff", "show", "exe_0192f0c1a2b37c4d8e5f60718293a4b5", "--config", config]).refused(1);
    assert!(never.contains("never handed to a person"), "{never}");
}
