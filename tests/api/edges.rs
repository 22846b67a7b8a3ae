//! What every answer has: an id, a form, and nothing about our insides.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::support::world::{Reply, World};

/// RFC 9457: the media type, the type, and a status that is the HTTP status.
fn is_problem(reply: &Reply) {
    assert_eq!(reply.headers["content-type"], "application/problem+json", "{}", reply.body);
    assert_eq!(reply.headers["cache-control"], "no-store");
    let body = &reply.body;
    assert_eq!(body["status"], json!(reply.status));
    assert_eq!(body["type"], format!("urn:writ:problem:{}", reply.code()));
    for member in ["title", "detail"] {
        assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    }
    let known = writ::http::Code::ALL.iter().find(|c| c.as_str() == reply.code()).unwrap();
    assert_eq!((known.status(), known.title()), (reply.status, body["title"].as_str().unwrap()));
    for insides in ["src/", "::", "rusqlite", "SELECT", "Err(", "panicked"] {
        assert!(!body.to_string().contains(insides), "{body}");
    }
}

fn bare(method: &str, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_path_that_is_not_there_and_a_method_that_is_not_offered_are_problems() {
    let world = World::new().await;
    for path in [
        "/",
        "/v1",
        "/v1/draft",
        "/v1/drafts/",
        "/V1/drafts",
        "/v2/drafts",
        "/.well-known/openid-configuration",
        "/v1/../v1/drafts",
        "/metrics",
    ] {
        let reply = world.send(bare("GET", path)).await.refused(404, "not_found");
        is_problem(&reply);
    }
    for (method, path) in [
        ("PUT", "/v1/drafts"),
        ("DELETE", "/v1/drafts/drf_0192f0c1a2b37c4d8e5f60718293a4b5"),
        ("PATCH", "/v1/drafts/drf_0192f0c1a2b37c4d8e5f60718293a4b5"),
        ("GET", "/v1/approvals"),
        ("GET", "/oauth2/token"),
        ("GET", "/v1/executions"),
        ("POST", "/healthz"),
        ("POST", "/openapi.json"),
        ("BREW", "/v1/drafts"),
    ] {
        let reply = world.send(bare(method, path)).await.refused(405, "method_not_allowed");
        is_problem(&reply);
        assert!(reply.headers.contains_key("allow"), "RFC 9110 section 15.5.6: {method} {path}");
    }
}

#[tokio::test]
async fn refusals_of_every_kind_are_problem_documents() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let agent = "support-agent";
    let mut replies = vec![
        world.propose(json!({})).await,
        world.propose(World::refund(-1)).await,
        world.propose(World::refund(40_001)).await,
        world.call(agent, "POST", "/v1/approvals", Some(json!({ "record": "x" }))).await,
        world
            .call("review-desk", "POST", "/v1/approvals", Some(json!({ "record": "x" })))
            .await,
        world.call(agent, "GET", "/v1/drafts?limit=0", None).await,
        world.call(agent, "GET", "/v1/drafts/x", None).await,
        world.call(agent, "GET", "/v1/executions/x", None).await,
        world.call(agent, "GET", "/v1/audit/events", None).await,
        world.call("security", "GET", "/v1/audit/events?limit=1001", None).await,
        world.execute_body("x", json!({ "draft_id": draft })).await,
        world.send(bare("GET", "/v1/drafts")).await,
        world.send(bare("POST", "/v1/executions")).await,
    ];
    let own = world.record("usr_ann", &draft, writ::domain::approval::Decision::Approve).await;
    replies.push(world.hand_in(&own).await);
    for reply in &replies {
        is_problem(reply);
    }
    let faulty = &replies[1].body["errors"];
    assert_eq!(faulty[0]["pointer"], "/parameters/amount");
}

#[tokio::test]
async fn every_answer_has_an_id_of_its_own_that_the_caller_cannot_choose() {
    let world = World::new().await;
    let mut seen = std::collections::BTreeSet::new();
    for path in ["/healthz", "/readyz", "/openapi.json", "/nowhere", "/v1/drafts"] {
        let request = Request::get(path).header("x-request-id", "req_chosen").body(Body::empty()).unwrap();
        let reply = world.send(request).await;
        let id = reply.headers["x-request-id"].to_str().unwrap().to_owned();
        assert!(id.starts_with("req_") && id.len() == 36, "{id}");
        assert!(seen.insert(id));
    }
}

#[tokio::test]
async fn a_body_longer_than_any_endpoint_takes_is_refused_wherever_it_is_sent() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let long = " ".repeat(64 * 1024 + 1);
    for (client, path, content_type) in [
        ("support-agent", "/v1/drafts", "application/json"),
        ("review-desk", "/v1/approvals", "application/json"),
        ("support-agent", "/oauth2/token", "application/x-www-form-urlencoded"),
        ("support-agent", "/v1/reads", "application/json"),
    ] {
        let request = Request::post(path)
            .header("authorization", world.basic(client))
            .header("content-type", content_type)
            .body(Body::from(long.clone()));
        let reply = world.send(request.unwrap()).await.refused(413, "body_too_large");
        assert_eq!(reply.body.get("error").is_some(), path == "/oauth2/token");
    }
    let credential = world.credential(&draft).await;
    let execute = Request::post("/v1/executions")
        .header("authorization", format!("Bearer {credential}"))
        .header("content-type", "application/json")
        .body(Body::from(long));
    is_problem(&world.send(execute.unwrap()).await.refused(413, "body_too_large"));
    assert_eq!(world.draft(&draft).await["state"], "approved");
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn the_log_is_read_in_order_and_without_gaps() {
    let world = World::new().await;
    world.held_draft().await;
    let (mut after, mut all) = (String::new(), Vec::new());
    loop {
        let path = format!("/v1/audit/events?limit=3{after}");
        let page = world.call("security", "GET", &path, None).await.expect(200);
        all.extend(page["events"].as_array().unwrap().clone());
        if page["complete"] == true {
            break;
        }
        after = format!("&after_seq={}", page["next_after_seq"]);
    }
    for (n, line) in all.iter().enumerate() {
        let event: Value = serde_json::from_str(line["event"].as_str().unwrap()).unwrap();
        assert_eq!((line["seq"].as_u64(), event["seq"].as_u64()), (Some(n as u64), Some(n as u64)));
    }
    assert_eq!(all.len(), world.events().await.len());
}

#[tokio::test]
async fn an_auditor_sees_the_events_of_its_tenant_and_those_of_none() {
    let mut world = World::new().await;
    world
        .add_client("security", |client| {
            client.id = "security-elsewhere".parse().unwrap();
            client.tenant = "other".parse().unwrap();
        })
        .await;
    world.allowed_draft().await;
    let types = |body: &serde_json::Value| -> Vec<String> {
        let events = body["events"].as_array().unwrap().iter();
        let parsed = events.map(|e| serde_json::from_str::<serde_json::Value>(e["event"].as_str().unwrap()).unwrap());
        parsed.map(|e| e["type"].as_str().unwrap().to_owned()).collect()
    };
    let own = world.call("security", "GET", "/v1/audit/events", None).await.expect(200);
    assert!(types(&own).contains(&"draft.propose".to_owned()));
    let elsewhere = world.call("security-elsewhere", "GET", "/v1/audit/events", None).await.expect(200);
    assert!(!types(&elsewhere).iter().any(|kind| kind.starts_with("draft.")), "{elsewhere}");
    assert_eq!(elsewhere["next"], own["next"], "both have read to the same place");
}

/// How many of so many waits on this draft are still waiting after the one that gets no place is answered.
async fn waits(
    world: &World,
    router: &axum::Router,
    client: &str,
    draft: &str,
    calls: usize,
    refused: usize,
) -> tokio::task::JoinSet<Reply> {
    let basic = world.basic(client);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..calls {
        let request = Request::get(format!("/v1/drafts/{draft}?wait=60")).header("authorization", &basic);
        let (router, request) = (router.clone(), request.body(Body::empty()).unwrap());
        waiting.spawn(async move { crate::support::world::send(&router, request).await });
    }
    // Whichever get no place have their answer long before the others' time is over.
    for _ in 0..refused {
        let answered = tokio::time::timeout(std::time::Duration::from_secs(50), waiting.join_next()).await;
        let reply = answered.expect("all of them wait").unwrap().unwrap();
        assert_eq!(reply.expect(200)["state"], "awaiting_approval");
    }
    assert_eq!(waiting.len(), calls - refused);
    assert!(waiting.try_join_next().is_none(), "and no more");
    waiting
}

#[tokio::test]
async fn more_waits_than_there_are_places_for_are_answered_at_once() {
    let mut world = World::new().await;
    let each = writ::http::WAITERS_OF_A_CLIENT;
    let desks: Vec<String> = (0..writ::http::WAITERS / each).map(|n| format!("desk-{n}")).collect();
    for desk in &desks {
        world.add_client("review-desk", |client| client.id = desk.parse().unwrap()).await;
    }
    let draft = world.held_draft().await;
    let (_app, router) = world.another();
    let mut waiting = Vec::new();
    for desk in &desks {
        // That one of them gets no place shows that the others sit.
        waiting.push(waits(&world, &router, desk, &draft, each + 1, 1).await);
    }
    let call = Request::get(format!("/v1/drafts/{draft}?wait=60")).header("authorization", world.basic("support-agent"));
    let call = crate::support::world::send(&router, call.body(Body::empty()).unwrap());
    let answered = tokio::time::timeout(std::time::Duration::from_secs(50), call).await;
    answered.expect("all places are taken, so it is answered at once").expect(200);
    assert!(waiting.iter_mut().all(|desk| desk.try_join_next().is_none()));
}

#[tokio::test]
async fn one_client_does_not_get_all_places_to_wait() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let (_app, router) = world.another();
    let most = writ::http::WAITERS_OF_A_CLIENT;
    let mut agent = waits(&world, &router, "support-agent", &draft, most + 3, 3).await;
    let mut desk = waits(&world, &router, "review-desk", &draft, 1, 0).await;
    let path = format!("/v1/drafts/{draft}/withdraw");
    world.call("support-agent", "POST", &path, None).await.expect(200);
    for waiting in [&mut agent, &mut desk] {
        while let Some(reply) = waiting.join_next().await {
            assert_eq!(reply.unwrap().expect(200)["state"], "withdrawn", "it waited for the change");
        }
    }
}
