//! Refunds through payment servers that nobody here wrote: one counts every POST it gets, the other honours keys; both lose an answer.

use std::time::Duration;

use serde_json::{Value, json};
use writ::domain::approval::Decision;

use super::cutting::Line;
use crate::support::servers::{Server, localstripe, node_client, python_client, stateful_mock};
use crate::support::world::{Setup, World};

const POST: &str = "POST /v1/refunds";
const LIST: &str = "GET /v1/refunds";
const MINUTE: Duration = Duration::from_secs(61);

/// A world whose only backend is a server behind a line, with a charge of 400.00 on it.
struct Shop {
    world: World,
    line: Line,
    server: Server,
    charge: String,
}

async fn shop(start: fn() -> Option<Server>, edits: Vec<(&'static str, &'static str, String)>) -> Option<Shop> {
    let started = tokio::task::spawn_blocking(move || {
        start().map(|server| {
            let charge = server.charge(40_000, "usd");
            (server, charge)
        })
    });
    let (server, charge) = started.await.unwrap()?;
    let line = Line::to(&server.url).await;
    let stripe = Some(line.url.clone());
    let world = World::with(Setup {
        edits,
        stripe,
        ..Setup::default()
    })
    .await;
    Some(Shop {
        world,
        line,
        server,
        charge,
    })
}

impl Shop {
    /// 240.00, approved by a person, exchanged.
    async fn approved(&self) -> (String, String) {
        let world = &self.world;
        let draft = world.propose(World::refund_of(&self.charge, 24_000, "usd")).await.expect(201);
        assert_eq!(draft["state"], "awaiting_approval", "{draft}");
        let draft = draft["id"].as_str().unwrap().to_owned();
        let record = world.record("usr_mia", &draft, Decision::Approve).await;
        world.hand_in(&record).await.expect(200);
        (world.credential(&draft).await, draft)
    }

    /// What both official clients see: the charge's refunds, the same for both.
    async fn refunds(&self) -> Vec<Value> {
        let (url, charge) = (self.server.url.clone(), self.charge.clone());
        let shown = tokio::task::spawn_blocking(move || {
            let python = python_client(&url, &["show", &charge])?;
            let node = node_client(&url, &["show", &charge])?;
            Some((python, node))
        });
        let (python, node) = shown.await.unwrap().expect("the server's own packages are there");
        let amounts = |seen: &Value| -> Vec<Value> {
            let refunds = seen["refunds"].as_array().unwrap();
            refunds
                .iter()
                .map(|r| json!([r["id"], r["amount"], r["metadata"]["writ_draft"]]))
                .collect()
        };
        assert_eq!(amounts(&python), amounts(&node));
        amounts(&python)
    }

    async fn until(&self, draft: &str, state: &str) -> Value {
        for _ in 0..15 {
            if self.world.execution(draft).await["state"] == state {
                break;
            }
            self.world.later(MINUTE).await;
        }
        let execution = self.world.execution(draft).await;
        assert_eq!(execution["state"], state, "{execution}");
        execution
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_at_a_server_that_ignores_keys_is_made_once() {
    let Some(shop) = shop(localstripe, Vec::new()).await else { return };
    let (token, draft) = shop.approved().await;
    shop.world.execute(&token, &draft).await.expect(202);
    let execution = shop.until(&draft, "applied").await;
    for _ in 0..3 {
        let again = shop.world.execute(&token, &draft).await.expect(200);
        assert_eq!(again["id"], execution["id"]);
    }
    shop.world.exchange(&draft).await.refused(400, "draft_not_approved");
    assert_eq!(shop.refunds().await, [json!([execution["reference"], 24_000, draft])]);
    let posts = shop.line.carried(POST);
    assert_eq!(posts.len(), 1);
    assert_eq!(posts[0].authorization.as_deref(), Some("Bearer sk_test_writer"));
    assert!(shop.line.carried(LIST).is_empty(), "nothing was in doubt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_at_a_server_that_ignores_keys_leaves_exactly_one_refund() {
    let Some(shop) = shop(localstripe, Vec::new()).await else { return };
    let (token, draft) = shop.approved().await;
    shop.line.cut(POST);
    shop.world.execute(&token, &draft).await.expect(202);
    assert_eq!(shop.world.execution(&draft).await["state"], "indeterminate");
    shop.world.execute(&token, &draft).await.expect(202);
    let execution = shop.until(&draft, "applied").await;
    assert_eq!(shop.refunds().await, [json!([execution["reference"], 24_000, draft])]);
    assert_eq!(shop.line.carried(POST).len(), 1, "it was looked up, and not sent again");
    let lists = shop.line.carried(LIST);
    assert_eq!(lists.len(), 1);
    assert_eq!(lists[0].authorization.as_deref(), Some("Bearer sk_test_reader"));
}

/// A file that says that the server knows no keys: then a request goes once and never again, whatever cannot be looked up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_server_said_to_know_no_keys_nothing_is_ever_sent_twice() {
    let keys =
        "place   = \"header\"\nname    = \"idempotency-key\"\nmax_len = 255\nwindow  = \"24h\"\nsafety  = \"1h\"\nreplay  = \"stored\"\n";
    let step = "[[operation.reconcile]]\nname = \"send the same request under the same key\"\nkind = \"replay\"\n";
    let file = "policies/backends/stripe.toml";
    let edits = vec![
        (file, keys, "place = \"none\"\n".to_owned()),
        (file, step, String::new()),
        (file, "[\"in_flight\", \"not_executed\"]", "[\"not_executed\"]".to_owned()),
    ];
    let Some(shop) = shop(localstripe, edits).await else { return };
    let (token, draft) = shop.approved().await;
    for what in [POST, LIST, LIST] {
        shop.line.cut(what);
    }
    shop.world.execute(&token, &draft).await.expect(202);
    shop.world.later(MINUTE).await;
    shop.world.later(MINUTE).await;
    assert_eq!(shop.world.execution(&draft).await["state"], "indeterminate");
    let execution = shop.until(&draft, "applied").await;
    assert_eq!(shop.refunds().await, [json!([execution["reference"], 24_000, draft])]);
    let posts = shop.line.carried(POST);
    assert_eq!((posts.len(), posts[0].key.as_deref()), (1, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_at_a_server_that_honours_keys_is_made_once() {
    let Some(shop) = shop(stateful_mock, Vec::new()).await else {
        return;
    };
    let (token, draft) = shop.approved().await;
    shop.world.execute(&token, &draft).await.expect(202);
    let execution = shop.until(&draft, "applied").await;
    shop.world.execute(&token, &draft).await.expect(200);
    assert_eq!(shop.refunds().await, [json!([execution["reference"], 24_000, draft])]);
    assert_eq!(shop.line.carried(POST).len(), 1);
}

/// The answer is lost, and the file says to repeat first: the same request goes again under its key, and the server answers from memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_at_a_server_that_honours_keys_is_answered_from_its_memory() {
    let first = "[[operation.reconcile]]\nname   = \"list";
    let repeat_first = format!("[[operation.reconcile]]\nname = \"the same request first\"\nkind = \"replay\"\n\n{first}");
    let edits = vec![("policies/backends/stripe.toml", first, repeat_first)];
    let Some(shop) = shop(stateful_mock, edits).await else {
        return;
    };
    let (token, draft) = shop.approved().await;
    shop.line.cut(POST);
    shop.world.execute(&token, &draft).await.expect(202);
    let execution = shop.until(&draft, "applied").await;
    let posts = shop.line.carried(POST);
    assert_eq!(posts.len(), 2);
    assert_eq!((&posts[0].body, &posts[0].key), (&posts[1].body, &posts[1].key));
    assert_eq!(posts[0].key.as_deref(), execution["idempotency_key"].as_str());
    assert!(!posts[0].answer.contains("idempotent-replayed"), "{}", posts[0].answer);
    assert!(posts[1].answer.contains("idempotent-replayed: true"), "{}", posts[1].answer);
    assert_eq!(shop.refunds().await, [json!([execution["reference"], 24_000, draft])]);
}

#[tokio::test]
async fn a_world_with_payments_only_starts_and_does_not_know_the_shops_operations() {
    let world = World::with(Setup {
        stripe: Some("http://127.0.0.1:9".to_owned()),
        ..Setup::default()
    })
    .await;
    world
        .propose(World::email("ada@example.org"))
        .await
        .refused(400, "operation_unknown");
    let read = json!({ "operation": "order.read", "parameters": { "order": "4821" } });
    world
        .call("support-agent", "POST", "/v1/reads", Some(read))
        .await
        .refused(400, "operation_unknown");
    world.propose(World::refund(4_000)).await.refused(503, "backend_unavailable");
}
