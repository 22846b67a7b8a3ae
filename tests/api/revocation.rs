//! Credentials by their token: taken back (RFC 7009), and asked about (RFC 7662).

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use writ::domain::principal::Role;

use crate::support::world::{Reply, World};

async fn ask(world: &World, path: &str, client: &str, form: &[(&str, &str)]) -> Reply {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = Request::post(path)
        .header(header::AUTHORIZATION, world.basic(client))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(body));
    world.send(request.unwrap()).await
}

async fn revoke(world: &World, client: &str, token: &str) -> Reply {
    ask(world, "/oauth2/revoke", client, &[("token", token)]).await
}

/// What introspection says of the token to this client.
async fn told(world: &World, client: &str, token: &str) -> Value {
    let reply = ask(world, "/oauth2/introspect", client, &[("token", token)]).await;
    assert_eq!(reply.headers["cache-control"], "no-store");
    reply.expect(200)
}

fn silence() -> Value {
    json!({ "active": false })
}

/// A world with a second orchestrator, an operator of another tenant, and a proxy that asks.
async fn world() -> World {
    let mut world = World::new().await;
    world.add_client("support-agent", |c| c.id = "another-agent".parse().unwrap()).await;
    world
        .add_client("operations", |c| {
            c.id = "elsewhere".parse().unwrap();
            c.tenant = "globex".parse().unwrap();
        })
        .await;
    world
        .add_client("operations", |c| {
            c.id = "proxy-1".parse().unwrap();
            c.roles = BTreeSet::from([Role::Proxy]);
        })
        .await;
    world
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_the_proxy() {
    for client in ["support-agent", "operations", "security"] {
        let world = world().await;
        let draft = world.allowed_draft().await;
        let token = world.credential(&draft).await;
        let revoked = revoke(&world, client, &token).await;
        assert_eq!((revoked.status, &revoked.body), (200, &json!("")), "{client}");
        assert_eq!(revoked.headers["cache-control"], "no-store");
        world.execute(&token, &draft).await.refused(401, "credential_not_live");
        assert_eq!(told(&world, client, &token).await, silence());
        assert_eq!(world.writes(), 0);
        let events = world.events().await;
        let event = events.iter().find(|event| event["type"] == "credential.revoke").unwrap();
        assert_eq!(
            (&event["code"], &event["actor"]["id"]),
            (&json!("revoked_by_client"), &json!(client))
        );
        assert!(!serde_json::to_string(&events).unwrap().contains(&token));
        // The approval stands: the next exchange gives another one.
        let next = world.credential(&draft).await;
        world.execute(&next, &draft).await.expect(202);
        assert_eq!(world.execution(&draft).await["state"], "applied");
    }
}

#[tokio::test]
async fn what_is_no_credential_or_over_is_answered_like_one_that_was_revoked() {
    let world = world().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    let before = world.events().await.len();
    let mut edited = token.clone().into_bytes();
    let middle = edited.len() / 2;
    edited[middle] = if edited[middle] == b'A' { b'B' } else { b'A' };
    let edited = String::from_utf8(edited).unwrap();
    for junk in ["x", "a.b.c", edited.as_str(), &"A".repeat(4000), draft.as_str()] {
        let reply = revoke(&world, "support-agent", junk).await;
        assert_eq!((reply.status, &reply.body), (200, &json!("")), "{junk}");
        assert_eq!(told(&world, "support-agent", junk).await, silence(), "{junk}");
    }
    assert_eq!(world.events().await.len(), before, "nothing happened");
    assert_eq!(told(&world, "support-agent", &token).await["active"], true);
    // A second time, after it was spent, and after its time.
    world.execute(&token, &draft).await.expect(202);
    let before = world.events().await.len();
    assert_eq!(revoke(&world, "support-agent", &token).await.status, 200);
    world.clock.advance(std::time::Duration::from_secs(3600));
    assert_eq!(revoke(&world, "support-agent", &token).await.status, 200);
    assert_eq!(world.events().await.len(), before);
    assert_eq!(world.execution(&draft).await["state"], "applied");
}

#[tokio::test]
async fn a_token_of_another_client_is_not_revoked_and_the_caller_is_told() {
    let world = world().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    for client in ["another-agent", "elsewhere"] {
        let reply = revoke(&world, client, &token).await;
        assert_eq!(reply.body["error"], "unauthorized_client");
        world
            .denied(&reply, 400, "token_of_another_client", "credential.revoke_denied", 0)
            .await;
    }
    world.execute(&token, &draft).await.expect(202);
    assert_eq!(world.execution(&draft).await["state"], "applied");
}

#[tokio::test]
async fn a_call_without_a_client_or_a_token_is_refused_in_the_standards_words() {
    let world = world().await;
    for path in ["/oauth2/revoke", "/oauth2/introspect"] {
        let form = |authorization: Option<&str>, kind: &str, body: &str| {
            let request = Request::post(path).header(header::CONTENT_TYPE, kind);
            let request = match authorization {
                Some(value) => request.header(header::AUTHORIZATION, value),
                None => request,
            };
            request.body(Body::from(body.to_owned())).unwrap()
        };
        let kind = "application/x-www-form-urlencoded";
        for wrong in [None, Some("Basic bm9ib2R5Og=="), Some("Bearer token")] {
            let reply = world.send(form(wrong, kind, "token=x")).await;
            assert_eq!((reply.status, &reply.body["error"]), (401, &json!("invalid_client")), "{path}");
            assert!(reply.headers["www-authenticate"].to_str().unwrap().starts_with("Basic"));
        }
        let basic = world.basic("support-agent");
        for (kind, body, status) in [
            (kind, "", 400),
            (kind, "token=", 400),
            (kind, "token=x&token=y", 400),
            ("application/json", "{}", 415),
        ] {
            let reply = world.send(form(Some(&basic), kind, body)).await;
            assert_eq!(
                (reply.status, &reply.body["error"]),
                (status, &json!("invalid_request")),
                "{path} {body}"
            );
        }
        // A hint that fits nothing and a parameter nobody knows are ignored.
        let reply = world
            .send(form(Some(&basic), kind, "token=x&token_type_hint=refresh_token&client_id=y"))
            .await;
        assert_eq!(reply.status, 200, "{path} {}", reply.body);
    }
}

#[tokio::test]
async fn introspection_says_what_a_credential_allows_to_those_it_concerns() {
    let world = world().await;
    let draft = world.allowed_draft().await;
    let exchanged = world.exchange(&draft).await.expect(200);
    let token = exchanged["access_token"].as_str().unwrap();
    let now = writ::domain::clock::Clock::now(&*world.clock).seconds();
    for client in ["support-agent", "operations", "security", "proxy-1"] {
        let said = told(&world, client, token).await;
        assert_eq!(
            (&said["active"], &said["client_id"], &said["token_type"]),
            (&json!(true), &json!("support-agent"), &json!("Bearer"))
        );
        assert_eq!(said["authorization_details"], exchanged["authorization_details"]);
        assert_eq!(said["credential_id"], exchanged["credential_id"]);
        assert_eq!(said["exp"], json!(now + exchanged["expires_in"].as_i64().unwrap()));
        assert_eq!((said["iat"].as_i64(), said["nbf"].as_i64()), (Some(now), Some(now - 5)));
        let broker = world
            .send(Request::get("/.well-known/oauth-authorization-server").body(Body::empty()).unwrap())
            .await;
        let broker = broker.expect(200);
        assert_eq!(said["iss"], broker["issuer"]);
        for (endpoint, path) in [
            ("revocation_endpoint", "/oauth2/revoke"),
            ("introspection_endpoint", "/oauth2/introspect"),
        ] {
            assert!(broker[endpoint].as_str().unwrap().ends_with(path));
        }
        assert!(!said.to_string().contains(token));
    }
}

#[tokio::test]
async fn introspection_says_nothing_of_what_is_not_active_or_not_the_callers() {
    // Not the caller's.
    let world = self::world().await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    for client in ["another-agent", "elsewhere"] {
        assert_eq!(told(&world, client, &token).await, silence(), "{client}");
    }
    // Stopped, and resumed.
    let body = json!({ "scope": "draft", "value": draft, "reason": "x" });
    let stop = world.call("operations", "POST", "/v1/stops", Some(body)).await.expect(201);
    assert_eq!(told(&world, "support-agent", &token).await, silence());
    let path = format!("/v1/stops/{}/resume", stop["stop"]["id"].as_str().unwrap());
    world
        .call("operations", "POST", &path, Some(json!({ "reason": "x" })))
        .await
        .expect(200);
    assert_eq!(told(&world, "support-agent", &token).await["active"], true);
    // Replaced by the next one.
    let next = world.credential(&draft).await;
    assert_eq!(told(&world, "support-agent", &token).await, silence());
    // Over.
    let exp = told(&world, "support-agent", &next).await["exp"].as_i64().unwrap();
    let now = writ::domain::clock::Clock::now(&*world.clock).seconds();
    world
        .clock
        .advance(std::time::Duration::from_secs(u64::try_from(exp - now).unwrap()));
    assert_eq!(told(&world, "support-agent", &next).await, silence());
    // Spent.
    let last = world.credential(&draft).await;
    world.execute(&last, &draft).await.expect(202);
    assert_eq!(told(&world, "support-agent", &last).await, silence());
    // Its draft withdrawn, its approval taken back, its client revoked.
    for how in ["withdraw", "revoke", "client"] {
        let world = self::world().await;
        let charge = world.charge(9_000, "usd").await;
        let draft = world.propose(World::refund_of(&charge, 1_000, "usd")).await.expect(201);
        let id = draft["id"].as_str().unwrap();
        let token = world.credential(id).await;
        assert_eq!(told(&world, "security", &token).await["active"], true, "{how}");
        match how {
            "withdraw" => {
                let path = format!("/v1/drafts/{id}/withdraw");
                world.call("support-agent", "POST", &path, None).await.expect(200);
            }
            "revoke" => {
                let path = format!("/v1/approvals/{}/revoke", draft["approval"]["id"].as_str().unwrap());
                world
                    .call("security", "POST", &path, Some(json!({ "reason": "x" })))
                    .await
                    .expect(200);
            }
            _ => {
                let client = "support-agent".parse().unwrap();
                world.app.store.revoke_client(world.op(), client).await.unwrap();
            }
        }
        assert_eq!(told(&world, "security", &token).await, silence(), "{how}");
    }
}
