//! Two at once, over two processes on one store: one is first, the other is told, and nothing half done is left.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use writ::app::App;
use writ::domain::approval::Decision;
use writ::domain::clock::Clock as _;
use writ::domain::time::Timestamp;

use crate::support::world::{Reply, World, send};

const ROUNDS: usize = 6;

/// Two processes on one store.
struct Two {
    world: World,
    other: App,
    routers: [Router; 2],
}

/// A call that a task can make.
fn request(world: &World, client: &str, path: &str, body: &Value) -> Request<Body> {
    Request::post(path)
        .header(header::AUTHORIZATION, world.basic(client))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

impl Two {
    async fn new() -> Self {
        let world = World::new().await;
        let (other, second) = world.another();
        let routers = [world.app.router(), second];
        Self { world, other, routers }
    }

    /// A refund that waits for one signature: the draft, and its charge.
    async fn held(&self) -> (Value, String) {
        let charge = self.world.charge(30_000, "usd").await;
        let draft = self.world.propose(World::refund_of(&charge, 24_000, "usd")).await.expect(201);
        assert_eq!(draft["state"], "awaiting_approval");
        (draft, charge)
    }

    /// Hands the record in at one process and makes the other call at the other process, at the same time.
    async fn race(&self, record: &str, call: Request<Body>) -> (Reply, Reply) {
        let hand_in = request(&self.world, "review-desk", "/v1/approvals", &json!({ "record": record }));
        let [first, second] = self.routers.clone();
        let handing_in = tokio::spawn(async move { send(&first, hand_in).await });
        let calling = tokio::spawn(async move { send(&second, call).await });
        (handing_in.await.unwrap(), calling.await.unwrap())
    }

    /// The types of the events about this draft, in order.
    async fn story(&self, draft: &str) -> Vec<String> {
        let events = self.world.app.store.events(0, 10_000).await.unwrap();
        let events = events.iter().map(|e| serde_json::from_slice::<Value>(&e.bytes).unwrap());
        events
            .filter(|event| event["draft"]["id"] == draft && event["state"].is_object())
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The draft ended by `end`. If the signature was first, it was approved before; otherwise whoever signed was told that it is decided.
    async fn ended(&self, draft: &str, signed: Reply, end: &str, state: &str) {
        let story = self.story(draft).await;
        let place = |kind: &str| story.iter().position(|event| event == kind);
        assert_eq!(self.world.draft(draft).await["state"], state);
        assert_eq!(story.iter().filter(|event| *event == end).count(), 1, "{story:?}");
        if signed.status == 200 {
            assert!(place("draft.approve").unwrap() < place(end).unwrap(), "{story:?}");
        } else {
            signed.refused(409, "approval_decided");
            assert_eq!(place("draft.approve"), None, "{story:?}");
        }
        self.world.exchange(draft).await.refused(400, "draft_not_approved");
        assert_eq!(self.world.writes(), 0);
    }
}

fn id(draft: &Value) -> &str {
    draft["id"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_and_a_withdrawal_at_once_leave_it_withdrawn() {
    let two = Two::new().await;
    for _ in 0..ROUNDS {
        let (draft, _) = two.held().await;
        let record = two.world.record("usr_mia", id(&draft), Decision::Approve).await;
        let path = format!("/v1/drafts/{}/withdraw", id(&draft));
        let (signed, withdrawn) = two.race(&record, request(&two.world, "support-agent", &path, &json!({}))).await;
        assert_eq!(withdrawn.expect(200)["state"], "withdrawn");
        two.ended(id(&draft), signed, "draft.withdraw", "withdrawn").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_and_a_newer_draft_at_once_leave_one_that_can_run() {
    let two = Two::new().await;
    for _ in 0..ROUNDS {
        let (draft, charge) = two.held().await;
        let record = two.world.record("usr_mia", id(&draft), Decision::Approve).await;
        let mut newer = World::refund_of(&charge, 23_000, "usd");
        newer["supersedes"] = draft["id"].clone();
        let (signed, proposed) = two.race(&record, request(&two.world, "support-agent", "/v1/drafts", &newer)).await;
        let newer = proposed.expect(201);
        assert_eq!(
            newer["state"], "awaiting_approval",
            "a signature on the older one is none on the newer one"
        );
        two.ended(id(&draft), signed, "draft.supersede", "superseded").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_and_the_end_of_its_card_at_once_approve_or_expire() {
    let two = Two::new().await;
    for _ in 0..ROUNDS {
        let (draft, _) = two.held().await;
        let closes = Timestamp::parse(draft["approval"]["expires_at"].as_str().unwrap()).unwrap();
        two.world
            .clock
            .advance(closes.since(two.world.clock.now()) - Duration::from_millis(1));
        let record = two.world.record("usr_mia", id(&draft), Decision::Approve).await;
        let hand_in = request(&two.world, "review-desk", "/v1/approvals", &json!({ "record": record }));
        let (router, clock) = (two.routers[0].clone(), two.world.clock.clone());
        let handing_in = tokio::spawn(async move { send(&router, hand_in).await });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_millis(1));
        two.other.broker.as_ref().unwrap().sweep().await.unwrap();
        let signed = handing_in.await.unwrap();
        let state = two.world.draft(id(&draft)).await["state"].clone();
        let story = two.story(id(&draft)).await;
        let ends: Vec<&str> = story
            .iter()
            .map(String::as_str)
            .filter(|event| ["draft.approve", "draft.expire"].contains(event))
            .collect();
        if signed.status == 200 {
            assert_eq!((state, ends), (json!("approved"), vec!["draft.approve"]));
        } else {
            assert!(["approval_expired", "approval_decided"].contains(&signed.code()), "{}", signed.body);
            assert_eq!((state, ends), (json!("expired"), vec!["draft.expire"]));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_and_the_revocation_of_its_signer_at_once_release_nothing() {
    let mut two = Two::new().await;
    for round in 0..ROUNDS {
        let (draft, _) = two.held().await;
        let signer = format!("usr_signer{round}");
        two.world.add_approver("usr_mia", &signer, |_| {}).await;
        let record = two.world.record(&signer, id(&draft), Decision::Approve).await;
        let hand_in = request(&two.world, "review-desk", "/v1/approvals", &json!({ "record": record }));
        let router = two.routers[0].clone();
        let handing_in = tokio::spawn(async move { send(&router, hand_in).await });
        let revoked = two.other.store.revoke_approver(two.world.op(), signer.parse().unwrap()).await;
        revoked.unwrap();
        let signed = handing_in.await.unwrap();
        let refused = two.world.exchange(id(&draft)).await;
        if signed.status == 200 {
            refused.refused(400, "approver_key_revoked");
            assert_eq!(two.world.draft(id(&draft)).await["state"], "stale");
        } else {
            // Revoked before its key was looked up, before its authority was, or before it was counted.
            assert_eq!(signed.status, 403, "{}", signed.body);
            assert!(
                ["record_key_revoked", "approver_without_authority"].contains(&signed.code()),
                "{}",
                signed.body
            );
            refused.refused(400, "approval_pending");
        }
        assert_eq!(two.world.writes(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_and_its_taking_back_at_once_approve_or_end_it() {
    let two = Two::new().await;
    for _ in 0..ROUNDS {
        let (draft, _) = two.held().await;
        let record = two.world.record("usr_mia", id(&draft), Decision::Approve).await;
        let path = format!("/v1/approvals/{}/revoke", draft["approval"]["id"].as_str().unwrap());
        let call = request(&two.world, "operations", &path, &json!({ "reason": "not this one" }));
        let (signed, revoked) = two.race(&record, call).await;
        signed.expect(200);
        let state = two.world.draft(id(&draft)).await["state"].clone();
        if revoked.status == 200 {
            assert_eq!(state, "denied");
            two.world.exchange(id(&draft)).await.refused(400, "draft_not_approved");
        } else {
            revoked.refused(409, "approval_not_granted");
            assert_eq!(state, "approved");
            two.world.exchange(id(&draft)).await.expect(200);
        }
    }
}
