//! The demo is itself a test: it passes, it says so in its last line, and it leaves nothing behind.

use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use writ::app::Outside;
use writ::demo::{Afterwards, DemoError, DemoOptions, Look, Output, Summary, run};

async fn play(output: Output, stop: CancellationToken) -> (Result<Summary, DemoError>, String, usize) {
    let parent = tempfile::tempdir().unwrap();
    let options = DemoOptions {
        outside: Outside::system(),
        parent: parent.path().to_owned(),
        output,
        afterwards: Afterwards::Stop,
        stop,
    };
    let mut out = Vec::new();
    let summary = run(options, &mut out).await;
    let left = std::fs::read_dir(parent.path()).unwrap().count();
    (summary, String::from_utf8(out).unwrap(), left)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_demo_says_so_and_leaves_nothing_behind() {
    let stop = CancellationToken::new();
    stop.cancel();
    let (summary, _, left) = play(Output::Json, stop).await;
    assert!(matches!(summary, Err(DemoError::Interrupted)));
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_damaged_blender_run_ends_with_no_failed_check_and_leaves_nothing_behind() {
    let (summary, text, left) = play(Output::Story(Look::Plain), CancellationToken::new()).await;
    let summary = summary.unwrap();
    assert_eq!(summary.failed(), 0, "{text}");
    assert!(summary.checks.len() > 80, "{}", summary.line());
    assert_eq!(text.lines().last(), Some(summary.line().as_str()));
    assert!(!text.contains('\u{1b}'), "no colour where nobody can see it");
    assert_eq!(left, 0);
}

/// What was written, for a reader who is there while it is being written.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_that_a_serving_demo_prints_can_be_pasted_and_refund_once() {
    let parent = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let options = DemoOptions {
        outside: Outside::system(),
        parent: parent.path().to_owned(),
        output: Output::Story(Look::Plain),
        afterwards: Afterwards::Serve,
        stop: stop.clone(),
    };
    let shared = Shared::default();
    let mut out = shared.clone();
    let paste = async {
        let calls = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let text = shared.text();
                if let Some((_, calls)) = text.split_once("\nW=")
                    && calls.contains("# 5.")
                    && calls.ends_with('\n')
                    && calls.contains("_sandbox/state")
                {
                    return format!("W={calls}");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let calls = calls.await.expect("the calls are printed");
        let said = tokio::task::spawn_blocking(move || Command::new("bash").args(["-c", &calls]).output().unwrap());
        let said = String::from_utf8(said.await.unwrap().stdout).unwrap();
        stop.cancel();
        said
    };
    let (summary, said) = tokio::join!(run(options, &mut out), paste);
    assert_eq!(summary.unwrap().failed(), 0, "{}", shared.text());
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains("\"state\":\"awaiting_approval\""), "{said}");
    assert!(lines[1].contains("\"state\":\"approved\""), "{said}");
    assert!(lines[2].contains("\"state\":\"applied\""), "{said}");
    assert!(lines[3].contains("\"state\":\"consumed\""), "{said}");
    assert_eq!(
        lines[4].matches("\"amount\":15000,\"charge\"").count(),
        3,
        "the two of the story and this one: {said}"
    );
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}
