//! What an orchestrator finds again: lists with cursors and filters, the steps of a case, and nothing that is not its own.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use writ::domain::principal::Role;
use writ::sandbox::demo;

use crate::support::world::{Reply, World};

async fn list(world: &World, query: &str) -> Value {
    world
        .call("support-agent", "GET", &format!("/v1/drafts?{query}"), None)
        .await
        .expect(200)
}

fn ids(page: &Value) -> Vec<&str> {
    page["drafts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_overlap() {
    let world = World::new().await;
    let mut made = Vec::new();
    for amount in 1..=5 {
        // Ids are ordered by time first.
        world.clock.advance(std::time::Duration::from_millis(1));
        made.push(
            world.propose(World::refund(amount)).await.expect(201)["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let (mut seen, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let page = list(&world, &query).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => query = format!("limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
}

#[tokio::test]
async fn filters_narrow_and_a_filter_that_is_not_one_is_refused() {
    let world = World::new().await;
    let small = world.propose(World::refund(4_000)).await.expect(201);
    let mut large = World::refund_of(demo::CHARGE_OTHER, 24_000, "usd");
    large["case_id"] = json!("case-9");
    let large = world.propose(large).await.expect(201);
    let (small, large) = (small["id"].as_str().unwrap(), large["id"].as_str().unwrap());
    for (query, expected) in [
        ("state=approved".to_owned(), vec![small]),
        ("state=awaiting_approval".to_owned(), vec![large]),
        ("state=expired".to_owned(), vec![]),
        ("case=case-9".to_owned(), vec![large]),
        (format!("resource=charge:{}", demo::CHARGE), vec![small]),
        (format!("resource=charge:{}&state=awaiting_approval", demo::CHARGE), vec![]),
        ("resource=charge".to_owned(), vec![]),
    ] {
        assert_eq!(ids(&list(&world, &query).await), expected, "{query}");
    }
    for wrong in [
        "state=Approved",
        "state=",
        "case=a%20b",
        "limit=0",
        "limit=101",
        "limit=x",
        "after=x",
        "offset=1",
        "state=approved&state=denied",
    ] {
        let path = format!("/v1/drafts?{wrong}");
        world
            .call("support-agent", "GET", &path, None)
            .await
            .refused(400, "parameter_invalid");
    }
}

#[tokio::test]
async fn a_case_shows_every_step_and_what_is_left_to_do() {
    let world = World::new().await;
    let done = world.allowed_draft().await;
    let token = world.credential(&done).await;
    world.execute(&token, &done).await.expect(202);
    let waiting = world.held_draft().await;
    let email = world.propose(World::email("ada@example.org")).await.expect(201);
    let path = format!("/v1/drafts/{}/withdraw", email["id"].as_str().unwrap());
    world.call("support-agent", "POST", &path, None).await.expect(200);
    let case = world.call("support-agent", "GET", "/v1/cases/case-1", None).await.expect(200);
    let mut steps: Vec<_> = case["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["draft"]["id"].as_str().unwrap(), s["status"].as_str().unwrap()))
        .collect();
    steps.sort_unstable();
    let mut expected = vec![
        (done.as_str(), "done"),
        (waiting.as_str(), "waiting"),
        (email["id"].as_str().unwrap(), "closed"),
    ];
    expected.sort_unstable();
    assert_eq!(steps, expected);
    assert_eq!(case["complete"], false);
    world
        .call("support-agent", "GET", "/v1/cases/case-404", None)
        .await
        .refused(404, "not_found");
}

/// Two answers that tell nothing apart.
fn alike(a: &Reply, b: &Reply) {
    assert_eq!((a.status, &a.body), (b.status, &b.body));
}

#[tokio::test]
async fn a_draft_of_another_client_or_tenant_looks_like_none() {
    let mut world = World::new().await;
    world.add_client("support-agent", |c| c.id = "other-agent".parse().unwrap()).await;
    for (model, id) in [
        ("support-agent", "their-agent"),
        ("review-desk", "their-desk"),
        ("operations", "their-operator"),
    ] {
        let change = |c: &mut writ::domain::principal::Client| {
            c.id = id.parse().unwrap();
            c.tenant = "theirs".parse().unwrap();
        };
        world.add_client(model, change).await;
    }
    world
        .add_client("support-agent", |c| {
            c.id = "their-everything".parse().unwrap();
            c.tenant = "theirs".parse().unwrap();
            c.roles = BTreeSet::from([
                Role::Orchestrator,
                Role::ApprovalService,
                Role::Auditor,
                Role::Operator,
                Role::Proxy,
            ]);
        })
        .await;
    let draft = world.held_draft().await;
    let nothing = "drf_0192f0c1a2b37c4d8e5f60718293a4b5";
    for client in ["other-agent", "their-agent", "their-desk", "their-operator", "their-everything"] {
        for path in ["/v1/drafts/{}", "/v1/drafts/{}/bytes", "/v1/drafts/{}?wait=1"] {
            let ours = world
                .call(client, "GET", &path.replace("{}", &draft), None)
                .await
                .refused(404, "not_found");
            alike(&ours, &world.call(client, "GET", &path.replace("{}", nothing), None).await);
        }
        let listed = world.call(client, "GET", "/v1/drafts", None).await.expect(200);
        assert_eq!(listed["drafts"], json!([]), "{client}");
        let case = world.call(client, "GET", "/v1/cases/case-1", None).await.refused(404, "not_found");
        alike(&case, &world.call(client, "GET", "/v1/cases/case-404", None).await);
    }
    for client in ["other-agent", "their-agent", "their-everything"] {
        let path = |id: &str| format!("/v1/drafts/{id}/withdraw");
        let ours = world.call(client, "POST", &path(&draft), None).await.refused(404, "not_found");
        alike(&ours, &world.call(client, "POST", &path(nothing), None).await);
    }
    let record = world.record("usr_mia", &draft, writ::domain::approval::Decision::Approve).await;
    for client in ["their-desk", "their-everything"] {
        let reply = world.call(client, "POST", "/v1/approvals", Some(json!({ "record": record }))).await;
        world.denied(&reply, 404, "not_found", "approval.record_denied", 0).await;
    }
    assert_eq!(world.draft(&draft).await["state"], "awaiting_approval");
    // Another tenant's equal proposal is a draft of its own, and does not count for ours.
    let theirs = world
        .call("their-agent", "POST", "/v1/drafts", Some(World::refund(24_000)))
        .await
        .expect(201);
    assert_ne!(theirs["id"], json!(draft));
    for malformed in [
        "drf_x",
        "DRF_0192f0c1a2b37c4d8e5f60718293a4b5",
        "exe_0192f0c1a2b37c4d8e5f60718293a4b5",
        "%00",
        "..%2f",
    ] {
        let path = format!("/v1/drafts/{malformed}");
        world.call("support-agent", "GET", &path, None).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn the_steps_of_a_case_come_in_pages_and_whether_it_is_complete_is_about_all_of_them() {
    let world = World::new().await;
    let mut made = Vec::new();
    for amount in 1..=2 {
        world.clock.advance(std::time::Duration::from_millis(1));
        let draft = world.propose(World::refund(amount)).await.expect(201);
        made.push(draft["id"].as_str().unwrap().to_owned());
    }
    // All but the last are taken back, so that the first page alone looks complete.
    for draft in &made[..1] {
        let path = format!("/v1/drafts/{draft}/withdraw");
        world.call("support-agent", "POST", &path, None).await.expect(200);
    }
    let case = async |query: &str| {
        let path = format!("/v1/cases/case-1?{query}");
        world.call("support-agent", "GET", &path, None).await.expect(200)
    };
    let (mut seen, mut query) = (Vec::new(), "limit=1".to_owned());
    loop {
        let page = case(&query).await;
        assert_eq!(page["complete"], false);
        let steps = page["steps"].as_array().unwrap();
        assert!(steps.len() <= 1);
        seen.extend(steps.iter().map(|step| step["draft"]["id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => query = format!("limit=1&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
    let token = world.credential(&made[1]).await;
    world.execute(&token, &made[1]).await.expect(202);
    assert_eq!(case("limit=1").await["complete"], true);
    for wrong in ["limit=0", "limit=101", "after=x", "offset=1"] {
        let path = format!("/v1/cases/case-1?{wrong}");
        let reply = world.call("support-agent", "GET", &path, None).await;
        reply.refused(400, "parameter_invalid");
    }
}

#[tokio::test]
async fn a_case_is_complete_once_what_failed_was_done_again_and_not_by_anything_else() {
    let world = World::new().await;
    let complete = async || {
        let case = world.call("support-agent", "GET", "/v1/cases/case-1", None).await;
        case.expect(200)["complete"].as_bool().unwrap()
    };
    let done = async |amount| {
        // Ids of one millisecond have no order.
        world.clock.advance(std::time::Duration::from_millis(1));
        let draft = world.propose(World::refund(amount)).await.expect(201);
        let draft = draft["id"].as_str().unwrap().to_owned();
        let token = world.credential(&draft).await;
        world.execute(&token, &draft).await.expect(202);
    };
    // Done before the other fails: that was not to make it good.
    done(100).await;
    assert!(complete().await);
    // Ids of one millisecond are in no order.
    world.clock.advance(std::time::Duration::from_millis(1));
    world.propose(World::refund(100)).await.expect(201);
    assert!(!complete().await, "it is open");
    world.clock.advance(std::time::Duration::from_secs(8 * 86_400));
    world.app.broker.as_ref().unwrap().sweep().await.unwrap();
    assert!(!complete().await, "it has failed");
    done(200).await;
    assert!(!complete().await, "another amount is another wish");
    done(100).await;
    assert!(complete().await);
}
