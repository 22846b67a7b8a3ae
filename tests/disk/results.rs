//! The result of a request that was sent is recorded, whatever happened to the disk between sending it and its answer.

use writ::sandbox::{Fault, FaultKind, demo};

use super::rig::{PATIENCE, Rig, Wish};

/// A request that has arrived and waits for its answer; the id of its execution.
async fn sent(rig: &Rig) -> String {
    let (token, draft) = rig.held(4_000).await;
    rig.sandbox.fault(Fault::once(FaultKind::Hold, "POST", "/v1/refunds"));
    let claimed = rig.execute(&token, &draft).await.expect(202);
    tokio::time::timeout(PATIENCE, rig.sandbox.held(1)).await.unwrap();
    claimed["id"].as_str().unwrap().to_owned()
}

/// Waits until the process has kept a result in a file.
async fn kept(rig: &Rig, file: &std::path::Path) -> String {
    let wait = async {
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if text.ends_with("}\n") {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let text = tokio::time::timeout(PATIENCE, wait).await.expect("no result was kept");
    assert_eq!(rig.told("execution.confirm_applied"), 0, "the store did not take it");
    text
}

fn recorded_once(rig: &Rig) {
    assert_eq!((rig.posts(), rig.sandbox.refunds(demo::CHARGE).len()), (1, 1));
    assert_eq!(rig.told("execution.confirm_applied"), 1);
    assert_eq!(
        (rig.told("execution.look_up"), rig.told("execution.lose_track")),
        (0, 0),
        "nobody had to ask"
    );
    rig.whole();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_no_disk_of_the_store_takes_survives_the_process() {
    for kind in ["full", "flush", "write"] {
        let mut rig = Rig::with(Wish {
            lines: "results = \"kept/results\"\n",
            ..Wish::default()
        })
        .await;
        std::fs::create_dir(rig.path("kept")).unwrap();
        let execution = sent(&rig).await;
        rig.fault(&format!("{kind} writ.db"));
        assert_eq!(rig.sandbox.release(), 1);
        let line = kept(&rig, &rig.path("kept/results")).await;
        assert!(line.contains(&execution), "{kind}: {line}");
        rig.kill();
        rig.serve();
        let over = rig.applied(&execution).await;
        assert_eq!(over["attempts"][0]["status"], 200, "{kind}: {over}");
        rig.ready().await;
        assert_eq!(
            std::fs::metadata(rig.path("kept/results")).unwrap().len(),
            0,
            "{kind}: it is put down"
        );
        // A second start puts nothing down twice.
        rig.kill();
        rig.serve();
        rig.ready().await;
        recorded_once(&rig);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_recorded_by_the_same_process_once_the_disk_takes_it_again() {
    let rig = Rig::with(Wish {
        lines: "results = \"kept/results\"\n",
        ..Wish::default()
    })
    .await;
    std::fs::create_dir(rig.path("kept")).unwrap();
    let execution = sent(&rig).await;
    rig.fault("full writ.db");
    assert_eq!(rig.sandbox.release(), 1);
    kept(&rig, &rig.path("kept/results")).await;
    rig.red("the disk is full").await;
    rig.fault("none");
    rig.applied(&execution).await;
    rig.ready().await;
    let wait = async {
        while std::fs::metadata(rig.path("kept/results")).unwrap().len() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("what was kept is not put down");
    recorded_once(&rig);
}
