//! Who may call what: clients, their secrets, their roles, and what an orchestrator may do with each operation.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Request, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use writ::domain::operation::Stage;
use writ::domain::principal::{Permission, Role};
use writ::sandbox::demo;

use crate::support::world::World;

const NOTHING: &str = "0192f0c1a2b37c4d8e5f60718293a4b5";

/// Every call that a client authenticates for, with the roles that may make it.
fn calls() -> Vec<(&'static str, String, &'static [Role])> {
    use Role::{ApprovalService, Auditor, Operator, Orchestrator, Proxy, Security};
    vec![
        ("POST", "/v1/drafts".to_owned(), &[Orchestrator]),
        ("GET", "/v1/drafts".to_owned(), &[Orchestrator, ApprovalService, Auditor, Operator]),
        (
            "GET",
            format!("/v1/drafts/drf_{NOTHING}"),
            &[Orchestrator, ApprovalService, Auditor, Operator],
        ),
        (
            "GET",
            format!("/v1/drafts/drf_{NOTHING}/bytes"),
            &[Orchestrator, ApprovalService, Auditor, Operator],
        ),
        ("POST", format!("/v1/drafts/drf_{NOTHING}/withdraw"), &[Orchestrator]),
        ("POST", "/v1/approvals".to_owned(), &[ApprovalService]),
        ("POST", "/oauth2/token".to_owned(), &[Orchestrator]),
        (
            "GET",
            "/v1/cases/case-1".to_owned(),
            &[Orchestrator, ApprovalService, Auditor, Operator],
        ),
        ("GET", "/v1/audit/events".to_owned(), &[Auditor]),
        ("GET", "/v1/audit/proof?seq=0".to_owned(), &[Auditor]),
        ("GET", "/v1/audit/tile/0/000.p/1".to_owned(), &[Auditor]),
        (
            "GET",
            format!("/v1/executions/exe_{NOTHING}"),
            &[Orchestrator, Auditor, Operator, Proxy],
        ),
        ("POST", format!("/v1/executions/exe_{NOTHING}/resolve"), &[Operator]),
        ("POST", "/v1/reads".to_owned(), &[Orchestrator]),
        (
            "POST",
            format!("/v1/approvals/apv_{NOTHING}/revoke"),
            &[ApprovalService, Operator, Security],
        ),
        ("POST", "/v1/stops".to_owned(), &[Operator, Security]),
        ("GET", "/v1/stops".to_owned(), &[Operator, Security, Auditor]),
        ("GET", format!("/v1/stops/stp_{NOTHING}"), &[Operator, Security, Auditor]),
        ("POST", format!("/v1/stops/stp_{NOTHING}/resume"), &[Operator, Security]),
        ("POST", "/oauth2/revoke".to_owned(), &[Orchestrator, Operator, Security]),
        ("POST", "/oauth2/introspect".to_owned(), &[Orchestrator, Proxy, Operator, Security]),
    ]
}

/// A body that this call can read, so that nothing but the role stands in the way.
fn body(path: &str) -> Option<Value> {
    match path {
        "/v1/drafts" => Some(World::refund(100)),
        "/v1/approvals" => Some(json!({ "record": "a.b.c" })),
        "/v1/reads" => Some(json!({ "operation": "order.read", "parameters": { "order": demo::ORDER } })),
        "/v1/stops" => Some(json!({ "scope": "client", "value": "nobody", "reason": "a test" })),
        path if path.ends_with("/revoke") || path.ends_with("/resume") => Some(json!({ "reason": "a test" })),
        path if path.ends_with("/resolve") => Some(json!({ "outcome": "applied", "evidence": "seen" })),
        _ => None,
    }
}

#[tokio::test]
async fn a_role_makes_its_own_calls_and_no_others() {
    let mut world = World::new().await;
    world
        .add_client("security", |c| {
            c.id = "proxy-1".parse().unwrap();
            c.roles = BTreeSet::from([Role::Proxy]);
        })
        .await;
    world
        .add_client("security", |c| {
            c.id = "auditor".parse().unwrap();
            c.roles = BTreeSet::from([Role::Auditor]);
        })
        .await;
    world
        .add_client("security", |c| {
            c.id = "watch".parse().unwrap();
            c.roles = BTreeSet::from([Role::Security]);
        })
        .await;
    world
        .add_client("security", |c| {
            c.id = "nothing".parse().unwrap();
            c.roles = BTreeSet::new();
        })
        .await;
    let clients = [
        ("support-agent", Some(Role::Orchestrator)),
        ("review-desk", Some(Role::ApprovalService)),
        ("auditor", Some(Role::Auditor)),
        ("operations", Some(Role::Operator)),
        ("proxy-1", Some(Role::Proxy)),
        ("watch", Some(Role::Security)),
        ("nothing", None),
    ];
    for (method, path, allowed) in calls() {
        for (client, role) in clients {
            let given = if method == "GET" { None } else { body(&path) };
            let reply = world.call(client, method, &path, given).await;
            if role.is_some_and(|role| allowed.contains(&role)) {
                assert_ne!(reply.body["code"], "role_missing", "{client} {method} {path}");
            } else {
                // The token endpoint refuses in the form of RFC 6749, which is 400.
                let status = if path.starts_with("/oauth2/") { 400 } else { 403 };
                world.denied(&reply, status, "role_missing", "access.denied", 0).await;
                // Whatever the body: without the role nobody is told what is wrong with it.
                let reply = world.call(client, method, &path, None).await;
                world.denied(&reply, status, "role_missing", "access.denied", 0).await;
            }
        }
    }
}

#[tokio::test]
async fn without_a_good_secret_no_call_is_made() {
    let mut world = World::new().await;
    world.add_client("support-agent", |c| c.id = "left".parse().unwrap()).await;
    let left = world.basic("left");
    world.app.store.revoke_client(world.op(), "left".parse().unwrap()).await.unwrap();
    let encode = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let secret_of = |client: &str| {
        let basic = world.basic(client);
        String::from_utf8(STANDARD.decode(&basic[6..]).unwrap())
            .unwrap()
            .split_once(':')
            .unwrap()
            .1
            .to_owned()
    };
    let tried = [
        encode("support-agent:wrong"),
        encode("support-agent:"),
        encode("nobody:wrong"),
        encode("not a client id:wrong"),
        encode(&format!("support-agent:{}", secret_of("review-desk"))),
        encode(&format!("Support-Agent:{}", secret_of("support-agent"))),
        encode(&format!("support-agent:{} ", secret_of("support-agent"))),
        left,
    ];
    let mut answers = BTreeSet::new();
    for (method, path, _) in calls() {
        for basic in &tried {
            let request = Request::builder()
                .method(method)
                .uri(&path)
                .header(header::AUTHORIZATION, basic)
                .header(header::CONTENT_TYPE, "application/json");
            let given = body(&path).map_or_else(Body::empty, |b| Body::from(b.to_string()));
            let reply = world.send(request.body(given).unwrap()).await;
            world.denied(&reply, 401, "unauthenticated", "auth.failed", 0).await;
            assert_eq!(reply.headers["www-authenticate"], "Basic realm=\"writ\", charset=\"UTF-8\"");
            answers.insert(reply.body.to_string());
        }
        for bare in [None, Some("Bearer x"), Some("Basic"), Some("Basic !!!"), Some("Basic bm9jb2xvbg==")] {
            let mut request = Request::builder().method(method).uri(&path);
            if let Some(value) = bare {
                request = request.header(header::AUTHORIZATION, value);
            }
            world
                .send(request.body(Body::empty()).unwrap())
                .await
                .refused(401, "unauthenticated");
        }
    }
    assert_eq!(
        answers.len(),
        2,
        "unknown, wrong and revoked look alike, in the two forms there are: {answers:?}"
    );
    let log = format!("{:?}", world.events().await);
    assert!(
        !log.contains("wrong") && !log.contains(&secret_of("review-desk")),
        "no secret is written down"
    );
}

#[tokio::test]
async fn a_client_whose_secret_was_replaced_has_only_the_new_one() {
    let world = World::new().await;
    let (secret, hash) = writ::setup::fresh_secret(&*world.entropy);
    world
        .app
        .store
        .replace_secret(world.op(), "support-agent".parse().unwrap(), hash)
        .await
        .unwrap();
    world
        .call("support-agent", "GET", "/v1/drafts", None)
        .await
        .refused(401, "unauthenticated");
    let basic = format!("Basic {}", STANDARD.encode(format!("support-agent:{}", secret.expose())));
    let request = Request::get("/v1/drafts").header(header::AUTHORIZATION, basic).body(Body::empty());
    world.send(request.unwrap()).await.expect(200);
}

/// A client that may do exactly this with exactly these operations.
async fn permitted(world: &mut World, id: &str, operations: &str, stages: &[Stage]) {
    let row = Permission {
        operations: operations.parse().unwrap(),
        stages: stages.iter().copied().collect(),
    };
    world
        .add_client("support-agent", |c| {
            c.id = id.parse().unwrap();
            c.permissions = vec![row];
        })
        .await;
}

#[tokio::test]
async fn read_draft_and_execute_are_three_permissions_for_each_operation() {
    let mut world = World::new().await;
    permitted(&mut world, "reader", "*", &[Stage::Read]).await;
    permitted(&mut world, "drafter", "refund.*", &[Stage::Draft]).await;
    permitted(&mut world, "executor", "*", &[Stage::Execute]).await;
    permitted(
        &mut world,
        "all-of-refunds",
        "refund.*",
        &[Stage::Read, Stage::Draft, Stage::Execute],
    )
    .await;
    world
        .add_client("support-agent", |c| {
            c.id = "unlisted".parse().unwrap();
            c.permissions.clear();
        })
        .await;
    let read = json!({ "operation": "order.read", "parameters": { "order": demo::ORDER } });
    let draft = World::refund(100);
    let email = World::email("ada@example.org");
    for (client, may_read, may_draft, may_email) in [
        ("reader", true, false, false),
        ("drafter", false, true, false),
        ("executor", false, false, false),
        ("all-of-refunds", false, true, false),
        ("unlisted", false, false, false),
        ("support-agent", true, true, true),
    ] {
        for (path, body, may, status) in [
            ("/v1/reads", &read, may_read, 200),
            ("/v1/drafts", &draft, may_draft, 201),
            ("/v1/drafts", &email, may_email, 201),
        ] {
            let reply = world.call(client, "POST", path, Some(body.clone())).await;
            if may {
                assert_eq!(reply.status, status, "{client} {path} {}", reply.body);
            } else {
                reply.refused(403, "not_permitted");
            }
        }
    }
    let denied = world.events().await.into_iter().filter(|e| e["code"] == "not_permitted").count();
    assert_eq!(denied, 4 + 3 + 5, "every refusal is written down");
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn an_owner_a_request_claims_is_not_one() {
    let world = World::new().await;
    for member in ["owner", "maker", "client", "tenant"] {
        let mut body = World::refund(24_000);
        body[member] = json!("usr_mia");
        let reply = world.propose(body).await;
        world.denied(&reply, 400, "json_invalid", "draft.propose_denied", 0).await;
    }
    let draft = world.held_draft().await;
    let bytes = world
        .call("support-agent", "GET", &format!("/v1/drafts/{draft}/bytes"), None)
        .await
        .expect(200);
    assert_eq!(bytes["maker"], json!({ "client": "support-agent", "owner": "usr_ann" }));
}
