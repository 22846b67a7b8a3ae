//! A file system that really is full: a small one of our own, where the test may mount it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use writ::sandbox::{Fault, FaultKind, demo};

use super::rig::{PATIENCE, Rig, Wish};

/// A file system in memory, unmounted at the end.
struct Small(TempDir);

impl Small {
    /// Of so many MiB; `None` where the test may not mount, which is a failure in CI.
    fn mount(size: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}m"), "none"]).arg(dir.path());
        if mount.output().is_ok_and(|done| done.status.success()) {
            return Some(Self(dir));
        }
        assert!(
            std::env::var_os("CI").is_none(),
            "a file system must be mounted, and in CI no such test may be skipped: run it as root"
        );
        // Not by the macro that the test harness catches: whoever runs the tests must see it.
        let mut seen = std::io::stderr();
        writeln!(
            seen,
            "SKIPPED a test of a real full disk: mounting a tmpfs is not permitted. Run the tests as root"
        )
        .unwrap();
        None
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// Writes until nothing more fits.
    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

fn exists(path: &Path) -> bool {
    path.exists()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_that_was_set_aside_takes_the_result_when_the_disk_is_full() {
    let Some(disk) = Small::mount(24) else { return };
    let rig = Rig::with(Wish {
        data: Some(disk.path()),
        lines: "low_water = \"2MiB\"\nballast = \"4MiB\"\n",
    })
    .await;
    rig.ready().await;
    let ballast = disk.path().join("writ.db-ballast");
    assert_eq!(std::fs::metadata(&ballast).unwrap().len(), 4 << 20);
    let (token, draft) = rig.held(4_000).await;
    rig.sandbox.fault(Fault::once(FaultKind::Hold, "POST", "/v1/refunds"));
    let claimed = rig.execute(&token, &draft).await.expect(202);
    tokio::time::timeout(PATIENCE, rig.sandbox.held(1)).await.unwrap();
    let filler = disk.fill();
    // The log still has room it took earlier; what waits in the way of the result is used up too.
    rig.until("/readyz", "red", |answer| answer.status == 503).await;
    assert_eq!(rig.sandbox.release(), 1);
    let over = rig.applied(claimed["id"].as_str().unwrap()).await;
    assert_eq!(over["attempts"][0]["status"], 200, "{over}");
    assert_eq!((rig.posts(), rig.sandbox.refunds(demo::CHARGE).len()), (1, 1));
    assert_eq!(rig.told("execution.look_up"), 0, "nobody had to ask");
    std::fs::remove_file(filler).unwrap();
    rig.ready().await;
    let back = async {
        while !exists(&ballast) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back)
        .await
        .expect("the ballast is not set aside again");
    rig.propose(3_000).await;
    rig.whole();
}
