//! The file is taken away under a running process: it writes no more, says so, and what it holds can be rescued.

use super::rig::Rig;

const GONE: &str = "gone or replaced";

async fn refuses(rig: &Rig) {
    rig.red(GONE).await;
    let refused = rig.propose(3_000).await;
    assert_eq!(
        (refused.status, refused.body["code"].as_str()),
        (503, Some("store_unavailable")),
        "{}",
        refused.body
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_moved_away_is_missed_and_found_again() {
    let rig = Rig::start().await;
    rig.ready().await;
    for companion in ["", "-wal", "-shm"] {
        let file = rig.database.with_file_name(format!("writ.db{companion}"));
        let away = rig.path("away");
        std::fs::rename(&file, &away).unwrap();
        refuses(&rig).await;
        std::fs::rename(&away, &file).unwrap();
        rig.ready().await;
    }
    rig.propose(3_000).await.expect(201);
    rig.whole();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_replaced_is_not_written_and_neither_is_the_other_one() {
    let rig = Rig::start().await;
    rig.propose(4_000).await.expect(201);
    rig.ready().await;
    let copy = rig.path("copy.db");
    std::fs::copy(&rig.database, &copy).unwrap();
    let before = std::fs::read(&copy).unwrap();
    std::fs::rename(&copy, &rig.database).unwrap();
    refuses(&rig).await;
    assert_eq!(std::fs::read(&rig.database).unwrap(), before);
}

/// The steps of docs/storage.md: the files of the running process are copied out of `/proc`, and a new process starts on the copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_unlinked_is_rescued_from_the_running_process() {
    let mut rig = Rig::start().await;
    let draft = rig.propose(4_000).await.expect(201);
    rig.ready().await;
    for companion in ["", "-wal", "-shm"] {
        std::fs::remove_file(rig.database.with_file_name(format!("writ.db{companion}"))).unwrap();
    }
    refuses(&rig).await;
    let open = format!("/proc/{}/fd", rig.process().id());
    let rescued = rig.path("rescued");
    std::fs::create_dir(&rescued).unwrap();
    for entry in std::fs::read_dir(open).unwrap() {
        let path = entry.unwrap().path();
        let Ok(target) = std::fs::read_link(&path) else { continue };
        let name = target.file_name().unwrap().to_str().unwrap().to_owned();
        for wanted in ["writ.db (deleted)", "writ.db-wal (deleted)"] {
            if name == wanted {
                std::fs::copy(&path, rescued.join(wanted.trim_end_matches(" (deleted)"))).unwrap();
            }
        }
    }
    rig.kill();
    for name in ["writ.db", "writ.db-wal"] {
        std::fs::rename(rescued.join(name), rig.database.with_file_name(name)).unwrap();
    }
    rig.serve();
    rig.ready().await;
    let id = draft["id"].as_str().unwrap();
    assert_eq!(rig.get(&format!("/v1/drafts/{id}")).await.expect(200)["state"], "approved");
    rig.whole();
}
