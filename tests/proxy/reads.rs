//! Reads: only what is declared gets out, only to whom it was granted, and each one is in the log.

use serde_json::{Value, json};
use writ::sandbox::{Fault, FaultKind, KeyUsed, demo};

use crate::support::world::{Reply, World};

async fn read(world: &World, client: &str, operation: &str, parameters: Value) -> Reply {
    let body = json!({ "operation": operation, "parameters": parameters, "case_id": "case-1" });
    world.call(client, "POST", "/v1/reads", Some(body)).await
}

/// The event that the last call wrote.
async fn last_event(world: &World) -> Value {
    world.events().await.pop().unwrap()
}

#[tokio::test]
async fn a_read_that_was_not_granted_is_not_a_read_or_is_unknown_reaches_no_backend() {
    let mut world = World::new().await;
    world
        .add_client("support-agent", |client| {
            client.id = "narrow".parse().unwrap();
            client.permissions.retain(|p| p.operations.to_string() == "order.read");
        })
        .await;
    let charge = json!({ "charge": demo::CHARGE });
    let refund = json!({ "charge": demo::CHARGE, "amount": 1, "currency": "usd" });
    for (client, operation, parameters, status, code) in [
        ("narrow", "charge.read", charge.clone(), 403, "not_permitted"),
        (
            "narrow",
            "customer.read",
            json!({ "customer": demo::CUSTOMER }),
            403,
            "not_permitted",
        ),
        ("support-agent", "refund.create", refund, 400, "operation_is_not_a_read"),
        ("support-agent", "customer.delete", json!({}), 400, "operation_unknown"),
        ("review-desk", "charge.read", charge.clone(), 403, "role_missing"),
        ("operations", "charge.read", charge.clone(), 403, "role_missing"),
    ] {
        let events = world.events().await.len();
        read(&world, client, operation, parameters).await.refused(status, code);
        assert_eq!(world.events().await.len(), events + 1, "{client} {operation}");
        let event = last_event(&world).await;
        assert_eq!((&event["type"], &event["outcome"]), (&json!("access.denied"), &json!("denied")));
        assert_eq!((&event["actor"]["id"], &event["code"]), (&json!(client), &json!(code)));
    }
    assert!(world.sandbox.requests().is_empty());
}

#[tokio::test]
async fn parameters_that_are_not_declared_are_refused_before_anything_is_read() {
    let world = World::new().await;
    for parameters in [
        json!({}),
        json!({ "charge": "../refunds" }),
        json!({ "charge": "ch_1/refunds" }),
        json!({ "charge": "ch_1?expand[]=customer" }),
        json!({ "charge": "re_1" }),
        json!({ "charge": 7 }),
        json!({ "charge": demo::CHARGE, "expand": ["customer"] }),
        json!({ "Charge": demo::CHARGE }),
    ] {
        let reply = read(&world, "support-agent", "charge.read", parameters.clone()).await;
        reply.refused(400, "operation_parameters_invalid");
    }
    assert!(world.sandbox.requests().is_empty());
}

#[tokio::test]
async fn only_declared_fields_get_out_and_the_email_address_is_masked() {
    let world = World::new().await;
    let customer = json!({ "customer": demo::CUSTOMER });
    let answer = read(&world, "support-agent", "customer.read", customer).await.expect(200);
    let fields = answer["fields"].as_object().unwrap();
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(names, ["city", "country", "email", "id", "name", "version"]);
    let email = fields["email"].as_str().unwrap();
    assert!(email.ends_with("@example.com") && !email.contains("moreno"), "{email}");
    let text = answer.to_string();
    assert!(!text.contains("12 Harbour Street") && !text.contains("97201"), "{text}");

    let charge = read(&world, "support-agent", "charge.read", json!({ "charge": demo::CHARGE }))
        .await
        .expect(200);
    assert_eq!(
        (&charge["fields"]["amount"], &charge["fields"]["card_last4"]),
        (&json!(40_000), &json!("4242"))
    );
    assert!(charge["fields"].get("metadata").is_none() && charge["fields"].get("livemode").is_none());
    let order = read(&world, "support-agent", "order.read", json!({ "order": demo::ORDER }))
        .await
        .expect(200);
    assert!(
        order["fields"].get("complaint").is_none(),
        "the customer's words are not among the declared fields"
    );
    assert_eq!(order["fields"]["items"][0].as_object().unwrap().len(), 4);
}

#[tokio::test]
async fn each_read_is_an_event_and_uses_the_key_that_can_only_read() {
    let world = World::new().await;
    read(&world, "support-agent", "charge.read", json!({ "charge": demo::CHARGE }))
        .await
        .expect(200);
    let event = last_event(&world).await;
    assert_eq!((&event["type"], &event["outcome"]), (&json!("read.performed"), &json!("ok")));
    assert_eq!(
        (&event["resource"]["id"], &event["case_id"]),
        (&json!(demo::CHARGE), &json!("case-1"))
    );
    assert!(
        event.to_string().len() < 1_000 && !event.to_string().contains("40000"),
        "what was read is not in the log: {event}"
    );
    let seen = world.sandbox.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].key, seen[0].method.as_str()), (KeyUsed::Read, "GET"));
}

#[tokio::test]
async fn a_read_that_finds_nothing_or_fails_is_an_event_too() {
    let world = World::new().await;
    read(&world, "support-agent", "charge.read", json!({ "charge": "ch_nobody" }))
        .await
        .refused(404, "not_found");
    let event = last_event(&world).await;
    assert_eq!((&event["type"], &event["outcome"]), (&json!("read.performed"), &json!("failed")));
    assert_eq!(
        (&event["resource"]["id"], &event["provider"]["status"]),
        (&json!("ch_nobody"), &json!(404))
    );
    for kind in [
        FaultKind::DropBefore,
        FaultKind::Error503Before,
        FaultKind::Oversize,
        FaultKind::Redirect,
    ] {
        world.sandbox.fault(Fault::once(kind, "GET", "/v1/charges/*"));
        let reply = read(&world, "support-agent", "charge.read", json!({ "charge": demo::CHARGE })).await;
        reply.refused(503, "backend_unavailable");
        assert_eq!(last_event(&world).await["code"], "backend_unavailable", "{kind:?}");
    }
}
