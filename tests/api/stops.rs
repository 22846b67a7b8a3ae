//! Stops over HTTP: what is refused, whose they are, and who lifts them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use writ::domain::id::{ApprovalId, CredentialId, DraftId, StopId};
use writ::domain::principal::Role;
use writ::domain::stop::StopScope;
use writ::store::stop::PlaceStop;

use crate::support::world::{Reply, World};

async fn place(world: &World, client: &str, body: Value) -> Reply {
    world.call(client, "POST", "/v1/stops", Some(body)).await
}

/// A world with an operator of another tenant.
async fn two_tenants() -> World {
    let mut world = World::new().await;
    world
        .add_client("operations", |client| {
            client.id = "elsewhere".parse().unwrap();
            client.tenant = "globex".parse().unwrap();
            client.roles.insert(Role::Auditor);
        })
        .await;
    world
}

#[tokio::test]
async fn a_stop_without_a_scope_a_reason_or_a_moment_to_come_is_refused_at_its_place() {
    let world = World::new().await;
    let id = "0192f0c1a2b37c4d8e5f60718293a4b5";
    for (body, pointer) in [
        (json!({ "scope": "all", "reason": "x" }), "/scope"),
        (json!({ "scope": "draft", "reason": "x" }), "/value"),
        (json!({ "scope": "everything", "value": "x", "reason": "x" }), "/value"),
        (json!({ "scope": "draft", "value": format!("apv_{id}"), "reason": "x" }), "/value"),
        (json!({ "scope": "everything", "reason": "  " }), "/reason"),
        (json!({ "scope": "everything", "reason": "x".repeat(1001) }), "/reason"),
        (
            json!({ "scope": "everything", "reason": "x", "expires_at": "tomorrow" }),
            "/expires_at",
        ),
        (
            json!({ "scope": "everything", "reason": "x", "expires_at": "2001-01-01T00:00:00Z" }),
            "/expires_at",
        ),
        (json!({ "scope": "everything" }), ""),
        (json!({ "scope": "everything", "reason": "x", "tenant": "main" }), "/tenant"),
    ] {
        let reply = place(&world, "operations", body.clone()).await.refused(400, "json_invalid");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{body} {}", reply.body);
    }
    assert_eq!(
        world.call("operations", "GET", "/v1/stops?ended=true", None).await.expect(200),
        json!({ "stops": [] })
    );
}

#[tokio::test]
async fn a_stop_on_a_name_that_nothing_has_is_refused() {
    let world = World::new().await;
    let id = |text: String| json!(text);
    for (scope, value) in [
        ("draft", id(DraftId::generate(&*world.clock, &*world.entropy).to_string())),
        ("approval", id(ApprovalId::generate(&*world.clock, &*world.entropy).to_string())),
        ("credential", id(CredentialId::generate(&*world.clock, &*world.entropy).to_string())),
        ("approver", json!("usr_nobody")),
        ("client", json!("nobody")),
        ("tenant", json!("nowhere")),
    ] {
        let body = json!({ "scope": scope, "value": value, "reason": "x" });
        place(&world, "operations", body).await.refused(404, "not_found");
    }
    for pattern in ["refund.creat", "refunds.*"] {
        let body = json!({ "scope": "operation", "value": pattern, "reason": "x" });
        place(&world, "operations", body).await.refused(400, "operation_unknown");
    }
    assert!(!world.event_types().await.contains(&"stop.place".to_owned()));
}

#[tokio::test]
async fn a_tenant_stops_its_own_and_sees_and_lifts_its_own() {
    let world = two_tenants().await;
    let draft = world.allowed_draft().await;
    for (scope, value) in [("draft", draft.as_str()), ("client", "support-agent"), ("tenant", "main")] {
        let body = json!({ "scope": scope, "value": value, "reason": "x" });
        place(&world, "elsewhere", body).await.refused(404, "not_found");
    }
    let theirs = place(&world, "elsewhere", json!({ "scope": "everything", "reason": "x" }))
        .await
        .expect(201);
    assert_eq!(theirs["stop"]["tenant"], "globex");
    // Everything of theirs: ours goes on.
    let token = world.credential(&draft).await;
    let path = format!("/v1/stops/{}", theirs["stop"]["id"].as_str().unwrap());
    world.call("operations", "GET", &path, None).await.refused(404, "not_found");
    let reason = json!({ "reason": "x" });
    let lifted = world.call("operations", "POST", &format!("{path}/resume"), Some(reason)).await;
    lifted.refused(404, "not_found");
    assert_eq!(
        world.call("operations", "GET", "/v1/stops", None).await.expect(200)["stops"],
        json!([])
    );
    world.execute(&token, &draft).await.expect(202);
    assert_eq!(world.execution(&draft).await["state"], "applied");
    assert_eq!(
        world.call("elsewhere", "GET", &path, None).await.expect(200)["stop"]["in_force"],
        true
    );
}

#[tokio::test]
async fn a_stop_over_every_tenant_is_seen_over_http_and_lifted_only_at_the_command_line() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let place = PlaceStop {
        id: StopId::generate(&*world.clock, &*world.entropy),
        tenant: None,
        scope: StopScope::Everything,
        reason: "incident 7".parse().unwrap(),
        expires_at: None,
    };
    let stop = world.app.store.place_stop(world.op(), place).await.unwrap().value.stop;
    let seen = world.call("security", "GET", "/v1/stops", None).await.expect(200);
    assert_eq!(
        (&seen["stops"][0]["id"], &seen["stops"][0]["reason"]),
        (&json!(stop.id.to_string()), &json!("incident 7"))
    );
    assert_eq!(seen["stops"][0].get("tenant"), None);
    world.exchange(&draft).await.refused(400, "stopped");
    let path = format!("/v1/stops/{}/resume", stop.id);
    let reply = world.call("operations", "POST", &path, Some(json!({ "reason": "x" }))).await;
    world.denied(&reply, 403, "stop_of_all_tenants", "access.denied", 0).await;
    world.exchange(&draft).await.refused(400, "stopped");
}

#[tokio::test]
async fn lifting_says_who_and_why_and_is_the_same_when_it_is_repeated() {
    let world = World::new().await;
    let stop = place(
        &world,
        "security",
        json!({ "scope": "client", "value": "support-agent", "reason": "its key leaked" }),
    )
    .await;
    let location = stop.headers["location"].to_str().unwrap().to_owned();
    let stop = stop.expect(201);
    assert_eq!(location, format!("/v1/stops/{}", stop["stop"]["id"].as_str().unwrap()));
    assert_eq!(
        (&stop["stop"]["placed_by"], &stop["stop"]["state"]),
        (&json!("security"), &json!("active"))
    );
    let path = format!("{location}/resume");
    let resume = || world.call("operations", "POST", &path, Some(json!({ "reason": "it has a new one" })));
    world
        .call("operations", "POST", &path, Some(json!({ "reason": "" })))
        .await
        .refused(400, "json_invalid");
    let lifted = resume().await.expect(200);
    assert_eq!((&lifted["state"], &lifted["in_force"]), (&json!("lifted"), &json!(false)));
    assert_eq!(
        (&lifted["ended_by"], &lifted["end_reason"]),
        (&json!("operations"), &json!("it has a new one"))
    );
    world.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(resume().await.expect(200), lifted);
    let types = world.event_types().await;
    assert_eq!(
        types.iter().filter(|kind| kind.starts_with("stop.")).collect::<Vec<_>>(),
        ["stop.place", "stop.lift"]
    );
    // The words are kept with the stop; the log has their hash.
    let events = world.events().await;
    assert!(!serde_json::to_string(&events).unwrap().contains("leaked"));
    assert_eq!(
        world.call("security", "GET", "/v1/stops", None).await.expect(200)["stops"],
        json!([])
    );
    let all = world.call("security", "GET", "/v1/stops?ended=true", None).await.expect(200);
    assert_eq!(all["stops"][0], lifted);
}

#[tokio::test]
async fn a_tenant_sees_of_the_command_line_s_stops_only_what_concerns_it() {
    let world = two_tenants().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    let view = world.draft(&draft).await;
    let stored = world.app.store.draft(draft.parse().unwrap()).await.unwrap().unwrap();
    let credential = world
        .app
        .store
        .execution(stored.execution.unwrap().id)
        .await
        .unwrap()
        .unwrap()
        .credential;
    let ours = [
        StopScope::Draft(draft.parse().unwrap()),
        StopScope::Approval(view["approval"]["id"].as_str().unwrap().parse().unwrap()),
        StopScope::Credential(credential),
        StopScope::Client("support-agent".parse().unwrap()),
        StopScope::Tenant("main".parse().unwrap()),
    ];
    let everybody_s = [
        StopScope::Everything,
        StopScope::Operation("refund.*".parse().unwrap()),
        StopScope::Approver("usr_mia".parse().unwrap()),
    ];
    let mut ids = Vec::new();
    for scope in ours.iter().chain(&everybody_s) {
        let place = PlaceStop {
            id: StopId::generate(&*world.clock, &*world.entropy),
            tenant: None,
            scope: scope.clone(),
            reason: "incident 7".parse().unwrap(),
            expires_at: None,
        };
        ids.push(
            world
                .app
                .store
                .place_stop(world.op(), place)
                .await
                .unwrap()
                .value
                .stop
                .id
                .to_string(),
        );
    }
    let listed = |body: Value| -> BTreeSet<String> {
        let stops = body["stops"].as_array().unwrap();
        stops.iter().map(|stop| stop["id"].as_str().unwrap().to_owned()).collect()
    };
    let set = |ids: &[String]| ids.iter().cloned().collect();
    let theirs = world.call("elsewhere", "GET", "/v1/stops", None).await.expect(200);
    assert_eq!(listed(theirs), set(&ids[ours.len()..]));
    let page = world
        .call("elsewhere", "GET", "/v1/audit/events?limit=1000", None)
        .await
        .expect(200);
    let lines = page["events"].as_array().unwrap().iter();
    let events = lines.map(|line| serde_json::from_str::<Value>(line["event"].as_str().unwrap()).unwrap());
    let placed = events.filter(|event| event["type"] == "stop.place");
    let told: BTreeSet<String> = placed.map(|event| event["stop"]["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, set(&ids[ours.len()..]), "the log tells what the list does not");
    let here = world.call("operations", "GET", "/v1/stops", None).await.expect(200);
    assert_eq!(listed(here), set(&ids));
    for (n, id) in ids.iter().enumerate() {
        let path = format!("/v1/stops/{id}");
        world.call("operations", "GET", &path, None).await.expect(200);
        let reply = world.call("elsewhere", "GET", &path, None).await;
        if n < ours.len() {
            reply.refused(404, "not_found");
        } else {
            assert_eq!(reply.expect(200)["in_flight"], json!([]));
        }
    }
}

#[tokio::test]
async fn stops_come_in_pages() {
    let world = World::new().await;
    let mut placed = Vec::new();
    for n in 0..5 {
        world.clock.advance(std::time::Duration::from_millis(1));
        let stop = json!({ "scope": "client", "value": "support-agent", "reason": format!("reason {n}") });
        let stop = world.call("security", "POST", "/v1/stops", Some(stop)).await.expect(201);
        placed.push(stop["stop"]["id"].as_str().unwrap().to_owned());
    }
    let (mut seen, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let page = world.call("security", "GET", &format!("/v1/stops?{query}"), None).await.expect(200);
        let stops = page["stops"].as_array().unwrap();
        assert!(stops.len() <= 2);
        seen.extend(stops.iter().map(|stop| stop["id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => query = format!("limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, placed);
    for wrong in ["limit=0", "limit=101", "after=x"] {
        let reply = world.call("security", "GET", &format!("/v1/stops?{wrong}"), None).await;
        reply.refused(400, "parameter_invalid");
    }
}
