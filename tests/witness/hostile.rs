//! Witnesses that lie, forge, flood and hang: nothing of it is taken for a cosignature, and nothing else waits for it.

use std::time::Duration;

use super::{Act, Witness, head, look, refund, told, witnessed};
use crate::metrics::{sample, scrape};

#[tokio::test]
async fn nothing_but_its_own_good_signature_of_this_head_and_of_now_counts() {
    let witness = Witness::new("witness.example/w1");
    let world = witnessed("require = \"any\"", &[&witness]).await;
    let draft = world.allowed_draft().await;
    let acts = [
        Act::SignsBadly,
        Act::SignsWithAnotherKey,
        Act::SignsAs("witness.example/w2"),
        Act::SignsAnotherHead,
        Act::SignsOf(-600),
        Act::SignsOf(600),
        Act::SignsOf(i64::MAX / 2_000),
        Act::Floods,
        Act::Says(200, String::new()),
        Act::Says(200, "\u{2014} witness.example/w1 AAAA\n".to_owned()),
        Act::Says(200, "ok\n".to_owned()),
        Act::Says(302, String::new()),
        Act::Says(403, String::new()),
        Act::Says(404, String::new()),
        Act::Says(409, "not a number\n".to_owned()),
        Act::Says(409, "0\n".to_owned()),
        Act::Says(500, "\u{1b}[2J".to_owned()),
    ];
    for act in acts {
        witness.will(std::slice::from_ref(&act));
        look(&world).await;
        let refused = world.exchange(&draft).await;
        assert_eq!(
            (refused.status, refused.code()),
            (503, "audit_unavailable"),
            "{act:?}: {}",
            refused.body
        );
        assert_eq!(head(&world).await.line_count(), 1, "{act:?}");
    }
    witness.will(&[Act::Signs]);
    look(&world).await;
    world.exchange(&draft).await.expect(200);
}

#[tokio::test]
async fn a_witness_that_hangs_is_given_up_and_holds_nobody() {
    let witness = Witness::new("witness.example/w1");
    let world = witnessed("", &[&witness]).await;
    witness.will(&[Act::Hangs]);
    let draft = world.allowed_draft().await;
    let witnesses = world.app.witnesses.clone().unwrap();
    let round = tokio::spawn(async move { witnesses.round().await });
    while witness.shown().is_empty() {
        tokio::task::yield_now().await;
    }
    world.exchange(&draft).await.expect(200);
    assert!(!round.is_finished());
    tokio::time::pause();
    round.await.unwrap();
    tokio::time::resume();
    assert_eq!(head(&world).await.line_count(), 1);
}

#[tokio::test]
async fn what_one_says_of_another_witness_is_not_kept() {
    let (one, other) = (Witness::new("witness.example/w1"), Witness::new("witness.example/w2"));
    let world = witnessed("", &[&one, &other]).await;
    other.will(&[Act::Says(503, String::new())]);
    look(&world).await;
    let own = one.shown().pop().unwrap();
    let kept = head(&world).await;
    assert_eq!((kept.line_count(), own.ends_with(kept.text())), (2, false));
    // The first one's line, given out by the second as if it were its own.
    let line = kept.text().lines().last().unwrap().to_owned();
    world.clock.advance(Duration::from_secs(31));
    other.will(&[Act::Says(200, format!("{line}\n"))]);
    one.will(&[Act::Says(503, String::new())]);
    look(&world).await;
    assert_eq!(head(&world).await.line_count(), 2);
}

#[tokio::test]
async fn a_witness_that_knows_another_log_is_told_once_counted_against_and_told_again_only_anew() {
    let (one, other) = (Witness::new("witness.example/w1"), Witness::new("witness.example/w2"));
    let world = witnessed("require = \"quorum\"\nquorum = 2", &[&one, &other]).await;
    let draft = world.allowed_draft().await;
    look(&world).await;
    world.exchange(&draft).await.expect(200);
    let disagrees = "writ_witness_disagrees{witness=\"witness.example/w2\"}";
    assert_eq!(sample(&scrape(&world).await, disagrees), Some(0.0));
    for (cents, said) in [(1_001, (422, String::new())), (1_002, (409, "1000000\n".to_owned()))] {
        let before = told(&world, "log.witness_disagreed").await;
        other.will(&[Act::Says(said.0, said.1)]);
        let second = refund(&world, cents).await;
        for _ in 0..3 {
            look(&world).await;
        }
        assert_eq!(told(&world, "log.witness_disagreed").await, before + 1);
        assert_eq!(sample(&scrape(&world).await, disagrees), Some(1.0));
        world.exchange(&second).await.refused(503, "audit_unavailable");
        // It says again what it knows of this log.
        other.will(&[Act::Says(409, "0\n".to_owned()), Act::Signs]);
        look(&world).await;
        look(&world).await;
        assert_eq!(sample(&scrape(&world).await, disagrees), Some(0.0));
    }
    let events = world.app.store.events(0, 10_000).await.unwrap();
    let codes: Vec<String> = events
        .iter()
        .map(|event| serde_json::from_slice::<serde_json::Value>(&event.bytes).unwrap())
        .filter(|event| event["type"] == "log.witness_disagreed")
        .map(|event| format!("{} {}", event["subject"].as_str().unwrap(), event["code"].as_str().unwrap()))
        .collect();
    assert_eq!(codes, ["witness.example/w2 inconsistent", "witness.example/w2 rolled_back"]);
}
