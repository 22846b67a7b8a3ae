//! The demo is itself a test: it passes, it says so in its last line, and it leaves nothing behind.

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
