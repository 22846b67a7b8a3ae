//! Whatever the disk refuses, nothing is half done; once it takes it again, the process goes on by itself.

use super::rig::{Rig, Wish};

async fn refused_and_recovered(kind: &str, why: &str) {
    let rig = Rig::start().await;
    let (token, draft) = rig.held(4_000).await;
    rig.ready().await;
    rig.fault(&format!("{kind} writ.db"));
    rig.red(why).await;
    // Whatever is asked for is answered with a 503; none of it reached the backend.
    for answer in [
        rig.propose(3_000).await,
        rig.execute(&token, &draft).await,
        rig.exchange(&draft).await,
    ] {
        assert_eq!(answer.status, 503, "{kind}: {}", answer.body);
        assert!(answer.retry_after.is_some(), "{kind}");
    }
    assert_eq!(rig.posts(), 0, "{kind}");
    rig.fault("none");
    rig.ready().await;
    // Whether or not the refused exchange took place after all, the next one replaces it.
    let execution = match rig.execute(&token, &draft).await {
        done if done.status == 202 => done.body,
        _ => {
            let fresh = rig.exchange(&draft).await.expect(200);
            rig.execute(fresh["access_token"].as_str().unwrap(), &draft).await.expect(202)
        }
    };
    rig.applied(execution["id"].as_str().unwrap()).await;
    rig.propose(3_000).await;
    assert_eq!(rig.posts(), 1, "{kind}");
    rig.whole();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_leaves_nothing_half_done() {
    refused_and_recovered("full", "the disk is full").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_became_read_only_leaves_nothing_half_done() {
    refused_and_recovered("read-only", "a write or a flush failed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_to_write_leaves_nothing_half_done() {
    refused_and_recovered("write", "a write or a flush failed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_to_flush_is_not_believed() {
    refused_and_recovered("flush", "a write or a flush failed").await;
}

/// The same proposal again resolves what the first answer left open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_failed_flush_left_open_is_one_draft_in_the_end() {
    let rig = Rig::start().await;
    rig.ready().await;
    // From the first failed flush on every commit is refused until the file is verified, and verifying flushes.
    rig.fault("flush writ.db");
    let first = rig.propose(3_000).await;
    assert_eq!(first.status, 503, "{}", first.body);
    for _ in 0..3 {
        assert_eq!(rig.propose(3_000).await.body["code"], "store_unavailable");
    }
    rig.fault("none");
    rig.ready().await;
    rig.propose(3_000).await;
    assert_eq!(rig.told("draft.propose"), 1);
    rig.whole();
    let log = std::fs::read_to_string(rig.process().log()).unwrap();
    assert!(log.contains("copied anew, flushed and verified"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_work_is_refused_early_while_there_is_little_room() {
    let rig = Rig::with(Wish {
        lines: "low_water = \"1000000000GiB\"\n",
        ..Wish::default()
    })
    .await;
    rig.red("little room is left").await;
    let refused = rig.propose(3_000).await;
    assert_eq!(
        (refused.status, refused.body["code"].as_str()),
        (503, Some("disk_low")),
        "{}",
        refused.body
    );
    assert_eq!(refused.retry_after.as_deref(), Some("30"));
    assert_eq!(rig.told("draft.propose"), 0);
}
