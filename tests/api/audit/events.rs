//! Filters, pages, and what a tenant does not see.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use writ::audit::SignedHead;
use writ::audit::tree::leaf_hash;
use writ::sandbox::demo;

use super::{audit, elsewhere, found, told};
use crate::support::world::World;

#[tokio::test]
async fn what_is_no_filter_or_no_value_of_one_is_refused_and_never_an_empty_page() {
    let world = World::new().await;
    for wrong in [
        "surprise=1",
        "from=5",
        "next=5",
        "case=case-1",
        "case_id=a%20b",
        "draft=drf_1",
        "draft=%25",
        "approval=x",
        "credential=x",
        "approver=mia",
        "client=A%20B",
        "operation=refund%20create",
        "resource=charge",
        "resource=:ch_1",
        "type=draft.proposed",
        "type=",
        "outcome=OK",
        "from=yesterday",
        "to=2026-09-21",
        "after_seq=-1",
        "after_seq=9223372036854775808",
        "limit=0",
        "limit=1001",
        "order=up",
        "type=draft.propose&type=draft.hold",
    ] {
        audit(&world, &format!("/v1/audit/events?{wrong}"))
            .await
            .refused(400, "parameter_invalid");
    }
    assert!(!world.event_types().await.contains(&"audit.read".to_owned()), "nothing was read");
}

/// Whether an event says what a filter asks for.
type Says<'t> = Box<dyn Fn(&Value) -> bool + 't>;

/// What an event says at this place.
fn at<'e>(event: &'e Value, pointer: &str) -> &'e Value {
    event.pointer(pointer).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn each_filter_finds_exactly_the_events_that_say_so_and_several_all_of_it() {
    let world = World::new().await;
    let held = world.held_draft().await;
    let record = world.record("usr_mia", &held, writ::domain::approval::Decision::Approve).await;
    world.hand_in(&record).await.expect(200);
    world.clock.advance(Duration::from_secs(90));
    let middle = "2026-09-21T14:14:00Z";
    let mut other = World::refund_of(demo::CHARGE_OTHER, 4_000, "usd");
    other["case_id"] = json!("case-2");
    let other = world.propose(other).await.expect(201);
    let token = world.credential(other["id"].as_str().unwrap()).await;
    world.execute(&token, other["id"].as_str().unwrap()).await.expect(202);
    world
        .execute_body("x", json!({ "draft_id": held }))
        .await
        .refused(401, "credential_not_base64");
    let all = world.events().await;
    let credential = all
        .iter()
        .find_map(|event| at(event, "/credential/id").as_str())
        .unwrap()
        .to_owned();
    let approval = at(all.iter().find(|event| event["type"] == "approval.grant").unwrap(), "/approval/id")
        .as_str()
        .unwrap()
        .to_owned();
    let resource = |event: &Value| format!("{}:{}", at(event, "/resource/type"), at(event, "/resource/id")).replace('"', "");
    let charge = format!("charge:{}", demo::CHARGE_OTHER);
    let filters: Vec<(String, Says<'_>)> = vec![
        ("case_id=case-2".to_owned(), Box::new(|e| e["case_id"] == "case-2")),
        (format!("draft={held}"), Box::new(|e| at(e, "/draft/id") == held.as_str())),
        (
            format!("approval={approval}"),
            Box::new(|e| at(e, "/approval/id") == approval.as_str()),
        ),
        (
            format!("credential={credential}"),
            Box::new(|e| at(e, "/credential/id") == credential.as_str()),
        ),
        (
            "approver=usr_mia".to_owned(),
            Box::new(|e| at(e, "/approval/approver") == "usr_mia"),
        ),
        (
            "client=support-agent".to_owned(),
            Box::new(|e| at(e, "/actor/id") == "support-agent" && at(e, "/actor/kind") == "client"),
        ),
        (
            "operation=refund.create".to_owned(),
            Box::new(|e| e["operation"] == "refund.create"),
        ),
        (format!("resource={charge}"), Box::new(|e| resource(e) == charge)),
        ("type=draft.propose".to_owned(), Box::new(|e| e["type"] == "draft.propose")),
        ("outcome=denied".to_owned(), Box::new(|e| e["outcome"] == "denied")),
        (
            format!("from={middle}"),
            Box::new(|e| e["time"].as_str().unwrap() >= "2026-09-21T14:14:00.000Z"),
        ),
        (
            format!("to={middle}"),
            Box::new(|e| e["time"].as_str().unwrap() < "2026-09-21T14:14:00.000Z"),
        ),
    ];
    let before = all.len();
    let seqs = |events: &[Value]| -> Vec<u64> {
        let seqs = events.iter().map(|event| event["seq"].as_u64().unwrap());
        seqs.filter(|seq| *seq < before as u64).collect()
    };
    for (n, (query, says)) in filters.iter().enumerate() {
        let expected: Vec<u64> = all.iter().filter(|e| says(e)).map(|e| e["seq"].as_u64().unwrap()).collect();
        assert!(!expected.is_empty() && expected.len() < before, "{query} tells nothing apart");
        assert_eq!(seqs(&found(&world, query).await), expected, "{query}");
        for (more, says_more) in &filters[n + 1..] {
            let both: Vec<u64> = all
                .iter()
                .filter(|e| says(e) && says_more(e))
                .map(|e| e["seq"].as_u64().unwrap())
                .collect();
            assert_eq!(seqs(&found(&world, &format!("{query}&{more}")).await), both, "{query} and {more}");
        }
    }
}

#[tokio::test]
async fn a_client_is_not_found_by_what_somebody_else_of_its_name_did() {
    let world = World::new().await;
    let note = writ::audit::EventKind::Note(writ::audit::Note::AuthFailed);
    let impostor = writ::audit::EventBody::new(note, writ::audit::Actor::system("support-agent"));
    world.app.store.note(world.op(), impostor).await.unwrap();
    assert_eq!(found(&world, "client=support-agent").await, Vec::<Value>::new());
}

#[tokio::test]
async fn pages_go_both_ways_without_gap_or_overlap_and_say_how_the_log_stood() {
    let world = World::new().await;
    world.held_draft().await;
    world.allowed_draft().await;
    for (order, newest_first) in [("asc", false), ("desc", true)] {
        let (mut after, mut seen, mut pages) = (String::new(), Vec::new(), 0);
        let last = loop {
            let page = audit(&world, &format!("/v1/audit/events?order={order}&limit=3{after}"))
                .await
                .expect(200);
            let head = SignedHead::read(page["head"]["checkpoint"].as_str().unwrap()).unwrap();
            assert_eq!(page["head"]["size"], head.size());
            for line in page["events"].as_array().unwrap() {
                let bytes = line["event"].as_str().unwrap().as_bytes();
                assert_eq!(
                    line["leaf_hash"].as_str().unwrap(),
                    leaf_hash(bytes).0.map(|byte| format!("{byte:02x}")).concat()
                );
                seen.push(line["seq"].as_u64().unwrap());
            }
            pages += 1;
            if page["complete"] == true {
                break page;
            }
            after = format!("&after_seq={}", page["next_after_seq"]);
        };
        assert!(pages > 2);
        let mut expected: Vec<u64> = (0..seen.len() as u64).collect();
        if newest_first {
            expected.reverse();
            assert_eq!(last["next_after_seq"], Value::Null, "nothing is older than the first");
        } else {
            assert_eq!(last["next_after_seq"], json!(seen.len() - 1), "to go on from here later");
        }
        assert_eq!(seen, expected, "{order}");
    }
    // What matches nothing yet says from where to go on.
    let none = audit(&world, "/v1/audit/events?type=stop.place").await.expect(200);
    assert_eq!((&none["events"], &none["complete"]), (&json!([]), &json!(true)));
    assert_eq!(none["next_after_seq"].as_u64().unwrap() + 1, none["head"]["size"].as_u64().unwrap());
}

#[tokio::test]
async fn no_filter_shows_anything_of_another_tenant() {
    let mut world = World::new().await;
    elsewhere(&mut world).await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.execute(&token, &draft).await.expect(202);
    let all = world.events().await;
    let mut queries: BTreeSet<String> = BTreeSet::new();
    for event in all.iter().filter(|event| event["tenant"].is_string()) {
        for (name, pointer) in [
            ("case_id", "/case_id"),
            ("draft", "/draft/id"),
            ("approval", "/approval/id"),
            ("credential", "/credential/id"),
            ("approver", "/approval/approver"),
            ("client", "/actor/id"),
            ("operation", "/operation"),
            ("type", "/type"),
            ("outcome", "/outcome"),
        ] {
            let value = at(event, pointer)
                .as_str()
                .filter(|value| !value.contains(':') && !value.contains(' '));
            queries.extend(value.map(|value| format!("{name}={value}")));
        }
    }
    queries.insert(format!("resource=charge:{}", demo::CHARGE));
    queries.extend(["order=desc".to_owned(), "from=2020-01-01T00:00:00Z".to_owned()]);
    assert!(queries.len() > 15, "{queries:?}");
    for query in queries {
        let path = format!("/v1/audit/events?limit=1000&{query}");
        let page = world.call("elsewhere", "GET", &path, None).await.expect(200);
        for event in told(&page) {
            assert!(event["tenant"].is_null() || event["tenant"] == "other", "{query}: {event}");
        }
    }
}
