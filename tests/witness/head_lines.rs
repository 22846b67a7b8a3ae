//! Heads on standard output: whoever collects it can later tell that the log was taken back.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use writ::audit::heads_in_lines;

use crate::cli::support::{Running, Work};
use crate::support::world::World;

/// What was printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Printed {
    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone())
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    async fn until(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.lines().len() < count {
            assert!(Instant::now() < until, "{:?}", self.lines());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_head_is_printed_when_it_has_changed_at_its_pace_and_at_the_end() {
    let world = World::new().await;
    let (app, router) = world.another();
    let printed = Printed::default();
    let store = app.store.clone();
    let app = app.printing_heads(printed.clone());
    let (stop, listener) = (CancellationToken::new(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let serving = tokio::spawn(app.serve(listener, stop.clone()));
    printed.until(1).await;
    let propose = |cents| {
        let request = axum::http::Request::post("/v1/drafts")
            .header("authorization", world.basic("support-agent"))
            .header("content-type", "application/json")
            .body(axum::body::Body::from(World::refund(cents).to_string()));
        crate::support::world::send(&router, request.unwrap())
    };
    propose(1_001).await.expect(201);
    world.clock.advance(Duration::from_secs(10));
    propose(1_002).await.expect(201);
    printed.until(2).await;
    propose(1_003).await.expect(201);
    stop.cancel();
    serving.await.unwrap().unwrap();
    let lines = printed.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let found = heads_in_lines(lines.join("\n").as_bytes()).unwrap();
    let sizes: Vec<u64> = found.iter().map(writ::audit::SignedHead::size).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
    let head = store.head().await.unwrap().unwrap();
    assert_eq!(found.last(), Some(&head), "the last one is the log's");
}

/// Serves until it is stopped, with its standard output in a file.
struct Printing(Child);

impl Printing {
    fn start(work: &Work, out: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_writ"))
            .args(["serve", "--config", &work.config])
            .env_remove("WRIT_CONFIG")
            .stdin(Stdio::null())
            .stdout(fs::File::create(work.path(out)).unwrap())
            .stderr(Stdio::null())
            .spawn();
        let started = Self(child.unwrap());
        let until = Instant::now() + Duration::from_secs(60);
        while !fs::read_to_string(work.path(out)).unwrap().contains("listening on") {
            assert!(Instant::now() < until, "it did not start");
            std::thread::yield_now();
        }
        started
    }

    fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_lines_that_a_collector_kept_show_that_a_log_was_taken_back() {
    for (format, begins) in [("text", "head "), ("json", "{\"head\":{")] {
        let run = Running::new();
        let Running { work, server, .. } = run;
        server.signal("TERM");
        server.ended();
        work.edit("writ.toml", "# head_lines = true", "head_lines = true");
        work.edit("writ.toml", "format = \"text\"", &format!("format = \"{format}\""));
        // All of it: what was written last may still be in the file beside the database.
        let copied = |from: &str, to: &str| {
            let done = Command::new("cp").arg("-a").args([work.path(from), work.path(to)]).status();
            assert!(done.unwrap().success());
        };
        copied("data", "then");
        Printing::start(&work, "out").stop();
        let printed = fs::read_to_string(work.path("out")).unwrap();
        assert!(printed.lines().nth(1).unwrap().starts_with(begins), "{printed}");
        let verify = || work.run(&["audit", "verify", "--against", &work.text("out")]);
        let good = verify();
        assert_eq!(good.code, Some(0), "{}{}", good.out, good.err);
        // The whole directory is put back as it was, with its own head file: only the lines know better.
        fs::remove_dir_all(work.path("data")).unwrap();
        copied("then", "data");
        let alone = work.run(&["audit", "verify"]);
        assert_eq!(alone.code, Some(0), "{}{}", alone.out, alone.err);
        let caught = verify();
        assert_eq!(caught.code, Some(3), "{}{}", caught.out, caught.err);
    }
}
