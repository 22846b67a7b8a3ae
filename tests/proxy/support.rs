//! What the tests of the proxy share: a stolen signing key, an operator, and the checks that hold for every run.

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use writ::domain::clock::Clock as _;
use writ::domain::id::ExecutionId;
use writ::sandbox::{SeenRequest, demo};
use writ::store::intent::{Redeem, Redeemed};
use writ::store::record::ExecutionRecord;
use writ::token::{Grant, GrantResource, KeyRing};

use crate::support::world::{Reply, World};

/// A minute and a second: past every lease and every pause.
pub const MINUTE: std::time::Duration = std::time::Duration::from_secs(61);

/// An approved draft with its credential, and the grant that the credential holds.
pub struct Held {
    pub draft: String,
    pub token: String,
    pub grant: Grant,
}

/// 40.00 USD, allowed by a rule, exchanged.
pub async fn held(world: &World) -> Held {
    let draft = world.allowed_draft().await;
    exchanged(world, "support-agent", draft).await
}

/// The draft, exchanged by this client.
pub async fn exchanged(world: &World, client: &str, draft: String) -> Held {
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", draft.as_str()),
        ("subject_token_type", "urn:writ:token-type:draft"),
    ];
    let body = world.exchange_form(client, &form).await.expect(200);
    let token = body["access_token"].as_str().unwrap().to_owned();
    let id = body["credential_id"].as_str().unwrap().parse().unwrap();
    let row = world.app.store.credential(id).await.unwrap().unwrap();
    let record = world.app.store.draft(row.draft).await.unwrap().unwrap();
    let grant = Grant {
        operation: record.operation.clone(),
        resource: GrantResource::new(record.tenant.clone(), &record.resource),
        draft_hash: row.hash,
        audience: row.audience,
        credential: row.id,
        jti: row.approval,
        not_before: Grant::window(row.issued_at, std::time::Duration::ZERO).0,
        expires_at: row.expires_at,
    };
    Held { draft, token, grant }
}

/// A refund of this amount on this charge in this currency, allowed by a rule.
pub async fn refund_on(world: &World, charge: &str, amount: i64, currency: &str) -> String {
    let mut body = World::refund(amount);
    body["parameters"]["charge"] = json!(charge);
    body["parameters"]["currency"] = json!(currency);
    let draft = world.propose(body).await.expect(201);
    assert_eq!(draft["state"], "approved", "{draft}");
    draft["id"].as_str().unwrap().to_owned()
}

/// A change of the demo customer's address, as a proposal.
pub fn address() -> Value {
    json!({
        "operation": "shipping_address.update", "case_id": "case-1",
        "parameters": {
            "customer": demo::CUSTOMER,
            "old": { "line1": "12 Harbour Street", "city": "Portland", "postal_code": "97201", "country": "US" },
            "new": { "line1": "7 Hill Road", "city": "Portland", "postal_code": "97205", "country": "US" },
        },
    })
}

/// A change of the demo customer's e-mail address, as a proposal.
pub fn email() -> Value {
    json!({
        "operation": "email.update", "case_id": "case-1",
        "parameters": { "customer": demo::CUSTOMER, "old_email": "ada.moreno@example.com", "new_email": "ada@example.org" },
    })
}

/// The address change, approved by a rule.
pub async fn address_draft(world: &World) -> String {
    let draft = world.propose(address()).await.expect(201);
    assert_eq!(draft["state"], "approved", "{draft}");
    draft["id"].as_str().unwrap().to_owned()
}

/// Whoever holds the broker's signing key signs this grant.
pub fn forged(world: &World, grant: &Grant) -> String {
    let ring = KeyRing::load(&world.config.keys).unwrap();
    let minter = ring.signing(world.clock.now()).unwrap();
    minter.mint(grant, &*world.entropy).unwrap().expose().to_owned()
}

/// Calls the execute endpoint, which must refuse: nothing is sent, and the log holds the denial under this code.
pub async fn refused(world: &World, token: &str, body: Value, status: u16, code: &str) {
    let request = crate::support::world::execute_request(token, body);
    refused_request(world, request, status, code).await;
}

/// As [`refused`], for any request.
pub async fn refused_request(world: &World, request: Request<Body>, status: u16, code: &str) {
    let (before, writes) = (world.events().await.len(), world.writes());
    world.send(request).await.refused(status, code);
    world.app.settle().await;
    assert_eq!(world.writes(), writes, "{code}: a request reached the backend");
    let events = world.events().await;
    let new = &events[before..];
    assert!(
        matches!(new, [event] if event["type"] == "credential.use_denied" && event["outcome"] == "denied" && event["code"] == code),
        "{code}: {new:?}"
    );
}

/// The credential still works for its own draft, and does so once.
pub async fn still_good(world: &World, held: &Held) {
    let writes = world.writes();
    world.execute(&held.token, &held.draft).await.expect(202);
    let execution = world.execution(&held.draft).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    assert_eq!(world.writes(), writes + 1);
}

/// A request to the execute endpoint with these Authorization headers.
pub fn with_headers(values: &[String], body: Value) -> Request<Body> {
    let mut request = Request::post("/v1/executions").header(header::CONTENT_TYPE, "application/json");
    for value in values {
        request = request.header(header::AUTHORIZATION, value);
    }
    request.body(Body::from(body.to_string())).unwrap()
}

/// Requests that change something, as the backend saw them.
pub fn sent(world: &World) -> Vec<SeenRequest> {
    world.sandbox.requests().into_iter().filter(|r| r.method != "GET").collect()
}

/// Holds for every run: one key and one body on the wire, and as many requests as the attempt log has (fewer where none left or arrived).
pub fn one_key(world: &World, execution: &Value) {
    let sent: Vec<_> = sent(world).into_iter().filter(|r| r.idempotency_key.is_some()).collect();
    for request in &sent {
        assert_eq!(
            request.idempotency_key.as_deref(),
            execution["idempotency_key"].as_str(),
            "{request:?}"
        );
        assert_eq!(request.body, sent[0].body);
        assert_eq!(request.key, writ::sandbox::KeyUsed::Write);
    }
    assert_eq!(execution["attempts"].as_array().unwrap().len(), sent.len(), "{execution}");
    let effects = sent.iter().filter(|r| r.effect).count();
    assert!(effects <= 1, "{effects} effects");
}

/// Lets the proxy go on, a minute at a time, until the execution has this state.
pub async fn until(world: &World, draft: &str, state: &str, most: usize) -> Value {
    for _ in 0..most {
        if world.execution(draft).await["state"] == state {
            break;
        }
        world.later(MINUTE).await;
    }
    let execution = world.execution(draft).await;
    assert_eq!(execution["state"], state, "{execution}");
    execution
}

/// The operator's finding, over HTTP.
pub async fn resolve(world: &World, client: &str, execution: &Value, body: Value) -> Reply {
    let path = format!("/v1/executions/{}/resolve", execution["id"].as_str().unwrap());
    world.call(client, "POST", &path, Some(body)).await
}

/// The token is spent and the execution claimed by this holder, and then the process stops: nothing was sent.
pub async fn claimed(world: &World, held: &Held) -> ExecutionRecord {
    let redeem = Redeem {
        credential: held.grant.credential,
        approval: held.grant.jti,
        draft: held.draft.parse().unwrap(),
        hash: held.grant.draft_hash,
        audience: held.grant.audience.clone(),
        execution: ExecutionId::generate(&*world.clock, &*world.entropy),
        holder: "proxy-that-died".to_owned(),
        lease: std::time::Duration::from_secs(60),
    };
    match world.app.store.redeem(world.op(), redeem).await.unwrap().value {
        Redeemed::Claimed(execution) => *execution,
        Redeemed::Already(execution) => panic!("{execution:?}"),
    }
}
