//! Answers bring their own evidence, and the tree is there for whoever wants to check more than one event.

use serde_json::{Value, json};
use writ::audit::tree::{Edge, Hash, HashReader, TreeError, check_consistency, check_inclusion, leaf_hash, tile_indexes};
use writ::audit::{LogFiles, LogKeys, Receipt, SignedHead, VerifierKey};
use writ::domain::approval::Decision;

use crate::support::world::{Reply, World};

/// What outsiders verify with.
fn keys(world: &World) -> Vec<VerifierKey> {
    let files = LogFiles {
        key: world.config.audit_key.clone(),
        head: world.config.audit_head.clone(),
    };
    LogKeys::load(&files, None).unwrap().known
}

/// The event of an answer, once its receipt shows that it is in the log.
fn proven(world: &World, answer: &Value) -> Value {
    let told = &answer["audit"];
    let event = told["event"].as_str().unwrap_or_else(|| panic!("no event in {answer}"));
    let receipt = Receipt::read(told["receipt"].as_str().unwrap()).unwrap();
    receipt.verify(event.as_bytes(), &keys(world)).unwrap();
    assert_eq!(told["seq"], receipt.index);
    let other = event.replacen("\"v\":", "\"v\": ", 1);
    assert!(
        receipt.verify(other.as_bytes(), &keys(world)).is_err(),
        "a space more is another event"
    );
    let event: Value = serde_json::from_str(event).unwrap();
    assert_eq!(event["seq"], told["seq"]);
    event
}

async fn nobody(world: &World, path: &str) -> Reply {
    let request = axum::http::Request::get(path).body(axum::body::Body::empty());
    world.send(request.unwrap()).await
}

async fn audit(world: &World, path: &str) -> Reply {
    world.call("security", "GET", path, None).await
}

async fn head(world: &World) -> SignedHead {
    let text = nobody(world, "/v1/audit/checkpoint").await.expect(200);
    let head = SignedHead::read(text.as_str().unwrap()).unwrap();
    head.signers(&keys(world)).unwrap();
    head
}

#[tokio::test]
async fn each_answer_that_changed_something_brings_its_event_and_the_proof_of_it() {
    let world = World::new().await;
    let draft = world.propose(World::refund(24_000)).await.expect(201);
    let (id, hash) = (draft["id"].as_str().unwrap(), &draft["draft_hash"]);
    let event = proven(&world, &draft);
    assert_eq!(
        (&event["type"], &event["draft"]["id"], &event["draft"]["hash"]),
        (&json!("draft.propose"), &draft["id"], hash)
    );
    let again = world.propose(World::refund(24_000)).await.expect(201);
    assert_eq!(
        again["audit"]["seq"], draft["audit"]["seq"],
        "the open draft is the one of that event"
    );

    let record = world.record("usr_mia", id, Decision::Approve).await;
    let accepted = world.hand_in(&record).await.expect(200);
    let event = proven(&world, &accepted);
    assert_eq!(
        (&event["type"], &event["approval"]["approver"], &event["draft"]["hash"]),
        (&json!("draft.approve"), &json!("usr_mia"), hash)
    );

    let issued = world.exchange(id).await.expect(200);
    let event = proven(&world, &issued);
    assert_eq!(
        (&event["type"], &event["credential"]["id"], &event["draft"]["hash"]),
        (&json!("credential.issue"), &issued["credential_id"], hash)
    );

    let token = issued["access_token"].as_str().unwrap();
    let begun = world.execute(token, id).await.expect(202);
    let event = proven(&world, &begun);
    assert_eq!(
        (&event["type"], &event["execution"]["id"]),
        (&json!("execution.claim"), &begun["id"])
    );
    let done = world.execution(id).await;
    let event = proven(&world, &done);
    assert_eq!(
        (&event["type"], &event["provider"]["reference"]),
        (&json!("execution.confirm_applied"), &done["reference"])
    );
}

#[tokio::test]
async fn a_refusal_by_an_approver_is_proven_as_well() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let card = world.card(&draft).await;
    let mut claims = world.claims("usr_mia", &card, Decision::Deny);
    claims.apr.reason = Some("not this one".to_owned());
    let record = world.signer("usr_mia").sign(&claims).unwrap();
    let event = proven(&world, &world.hand_in(&record).await.expect(200));
    assert_eq!(
        (&event["type"], &event["approval"]["decision"]),
        (&json!("draft.refuse"), &json!("deny"))
    );
}

#[tokio::test]
async fn what_the_tree_does_not_prove_is_given_out_by_nobody_and_what_was_done_stands() {
    let world = World::new().await;
    let draft = world.propose(World::refund(100)).await.expect(201);
    let seq = proven(&world, &draft)["seq"].clone();
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch(&format!(
        "DROP TRIGGER event_is_final; UPDATE event SET body = replace(body, '100', '101') WHERE seq = {seq}"
    ))
    .unwrap();
    audit(&world, &format!("/v1/audit/proof?seq={seq}")).await.refused(500, "internal");
    let draft = world.propose(World::refund(110)).await.expect(201);
    proven(&world, &draft);
    // Every way up from a new leaf of this log goes past the first node.
    file.execute_batch("DROP TRIGGER node_is_final; UPDATE node SET h = zeroblob(32)")
        .unwrap();
    let draft = world.propose(World::refund(120)).await.expect(201);
    assert_eq!(draft["audit"], Value::Null);
    assert_eq!(world.draft(draft["id"].as_str().unwrap()).await["state"], draft["state"]);
}

#[tokio::test]
async fn anybody_can_see_that_the_log_only_grows() {
    let world = World::new().await;
    let old = head(&world).await;
    world.allowed_draft().await;
    let new = head(&world).await;
    assert!(new.size() > old.size());
    let path = format!("/v1/audit/consistency?old={}", old.size());
    let answer = nobody(&world, &path).await.expect(200);
    assert_eq!((&answer["old"], &answer["new"]), (&json!(old.size()), &json!(new.size())));
    let proof = hashes(&answer["proof"]);
    check_consistency(&proof, (old.size(), old.root()), (new.size(), new.root())).unwrap();
    assert!(check_consistency(&proof, (old.size(), new.root()), (new.size(), new.root())).is_err());
    for path in [
        format!("/v1/audit/consistency?old={}&new={}", new.size(), old.size()),
        format!("/v1/audit/consistency?old=0&new={}", new.size() + 1),
        format!("/v1/audit/consistency?old=18446744073709551615&new={}", u64::MAX),
    ] {
        nobody(&world, &path).await.refused(404, "not_found");
    }
    for wrong in ["", "?old=x", "?old=-1", "?old=1&seq=1"] {
        let path = format!("/v1/audit/consistency{wrong}");
        nobody(&world, &path).await.refused(400, "parameter_invalid");
    }
}

fn hashes(list: &Value) -> Vec<Hash> {
    let texts = list.as_array().unwrap().iter();
    texts.map(|text| Hash::parse_hash(text.as_str().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn an_event_is_proven_against_any_size_the_log_ever_had() {
    let world = World::new().await;
    let old = head(&world).await;
    // Of each minute the last head is kept.
    world.clock.advance(std::time::Duration::from_secs(120));
    world.allowed_draft().await;
    let new = head(&world).await;
    world.clock.advance(std::time::Duration::from_secs(120));
    let events = world.app.store.events(0, 1000).await.unwrap();
    for (seq, size, root) in [
        (0, old.size(), Some(old.root())),
        (3, new.size(), Some(new.root())),
        (1, old.size() - 1, None),
    ] {
        let answer = audit(&world, &format!("/v1/audit/proof?seq={seq}&size={size}")).await.expect(200);
        let bytes = &events[usize::try_from(seq).unwrap()].bytes;
        assert_eq!(
            answer["leaf_hash"].as_str().unwrap(),
            leaf_hash(bytes).0.map(|byte| format!("{byte:02x}")).concat()
        );
        match root {
            Some(root) => {
                check_inclusion(&hashes(&answer["proof"]), size, root, seq, leaf_hash(bytes)).unwrap();
                let receipt = Receipt::read(answer["receipt"].as_str().unwrap()).unwrap();
                receipt.verify(bytes, &keys(&world)).unwrap();
                assert_eq!((receipt.index, receipt.head.size()), (seq, size));
            }
            None => assert_eq!(answer["receipt"], Value::Null, "no head of that size was ever signed"),
        }
    }
    // The first of these reads is in the log, the others are counted.
    let now = head(&world).await;
    assert_eq!(now.size(), new.size() + 1);
    for gone in [
        format!("seq={}", now.size()),
        format!("seq={}&size={}", old.size(), old.size()),
        format!("seq=0&size={}", now.size() + 1),
        "seq=0&size=0".to_owned(),
    ] {
        audit(&world, &format!("/v1/audit/proof?{gone}")).await.refused(404, "not_found");
    }
}

/// The nodes that tiles gave.
struct Nodes(std::collections::BTreeMap<u64, Hash>);

impl HashReader for Nodes {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, TreeError> {
        let found = indexes.iter().map(|index| self.0.get(index).copied());
        found.collect::<Option<_>>().ok_or(TreeError::IndexesNotInTree)
    }
}

#[tokio::test]
async fn the_tiles_give_the_root_that_is_signed() {
    let world = World::new().await;
    while head(&world).await.size() <= 300 {
        world.propose(json!({ "operation": "no.such" })).await.refused(400, "json_invalid");
        let note = writ::audit::EventBody::new(
            writ::audit::EventKind::Note(writ::audit::Note::AuthFailed),
            writ::audit::Actor::system("test"),
        );
        for _ in 0..50 {
            world.app.store.note(world.op(), note.clone()).await.unwrap();
        }
    }
    let head = head(&world).await;
    let events = world.app.store.events(0, 1000).await.unwrap();
    let mut nodes = std::collections::BTreeMap::new();
    let rest = u16::try_from(head.size() - 256).unwrap();
    for (level, index, width, path) in [
        (0, 0, 256, "0/000".to_owned()),
        (0, 1, rest, format!("0/001.p/{rest}")),
        (1, 0, 1, "1/000.p/1".to_owned()),
    ] {
        let request = axum::http::Request::get(format!("/v1/audit/tile/{path}"))
            .header("authorization", world.basic("security"))
            .body(axum::body::Body::empty());
        let response = tower::ServiceExt::oneshot(world.app.router(), request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(
            response.headers()["cache-control"].to_str().unwrap().contains("immutable"),
            width == 256,
            "{path}"
        );
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        assert_eq!(bytes.len(), usize::from(width) * 32);
        let indexes = tile_indexes(head.size(), level, index, width).unwrap();
        for (at, (node, hash)) in indexes.iter().zip(bytes.chunks(32)).enumerate() {
            let hash = Hash(hash.try_into().unwrap());
            if level == 0 {
                let seq = usize::try_from(index).unwrap() * 256 + at;
                assert_eq!(hash, leaf_hash(&events[seq].bytes));
            }
            nodes.insert(*node, hash);
        }
    }
    // The tiles hold every eighth level; the roots between them follow from the leaves.
    let mut edge = Edge::default();
    for event in &events {
        for (node, hash) in edge.push(leaf_hash(&event.bytes)).unwrap() {
            if let Some(given) = nodes.insert(node, hash) {
                assert_eq!(given, hash);
            }
        }
    }
    assert_eq!(Edge::read(head.size(), &Nodes(nodes)).unwrap().root().unwrap(), head.root());
    for gone in [
        "0/002",
        "0/001",
        "0/001.p/255",
        "1/000",
        "1/001.p/1",
        "2/000.p/1",
        "0/x001/000",
        "entries/000",
        "0/1",
    ] {
        audit(&world, &format!("/v1/audit/tile/{gone}")).await.refused(404, "not_found");
    }
}

/// Whoever says nothing of who they are gets no more of the store than a few places.
#[tokio::test]
async fn strangers_who_look_at_the_tree_all_at_once_are_told_to_come_later() {
    let world = World::new().await;
    for path in ["/v1/audit/checkpoint", "/v1/audit/consistency?old=0"] {
        // A store that answers each at once leaves no two of them at the same time.
        crate::support::listening::soon("some are turned away", async || {
            let replies = futures_of((0..64).map(|_| nobody(&world, path))).await;
            assert!(replies.iter().any(|reply| reply.status == 200));
            replies.iter().any(|reply| reply.status == 503 && reply.code() == "overloaded")
        })
        .await;
    }
    nobody(&world, "/v1/audit/checkpoint").await.expect(200);
    let file = rusqlite::Connection::open(&world.config.store).unwrap();
    file.execute_batch("ALTER TABLE checkpoint RENAME TO gone").unwrap();
    for path in ["/v1/audit/checkpoint", "/v1/audit/consistency?old=0"] {
        nobody(&world, path).await.refused(503, "store_unavailable");
    }
}

/// All of them together, on this task.
async fn futures_of<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut waits = false;
        for (one, done) in &mut open {
            if done.is_none() {
                match one.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *done = Some(value),
                    std::task::Poll::Pending => waits = true,
                }
            }
        }
        if waits {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    open.into_iter().filter_map(|(_, done)| done).collect()
}
