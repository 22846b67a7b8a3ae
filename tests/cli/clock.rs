//! `writ store accept-clock`: guarded, and in the log.

use super::support::Work;

#[test]
fn a_clock_is_accepted_by_whoever_names_the_latest_time() {
    let work = Work::new();
    let accept = |latest: &str| work.run(&["store", "accept-clock", "--latest", latest]);
    let told = accept("2099-01-01T00:00:00.000Z").refused(1);
    assert!(told.contains("the clock is not behind"), "{told}");
    let file = rusqlite::Connection::open(work.path("data/writ.db")).unwrap();
    // What a process with a wrong clock would have left.
    file.execute("UPDATE probe SET at = 4070908800000", []).unwrap();
    let told = accept("2098-01-01T00:00:00.000Z").refused(1);
    assert!(told.contains("say --latest 2099-01-01T00:00:00.000Z"), "{told}");
    let told = accept("yesterday").refused(2);
    assert!(told.contains("expected a time such as"), "{told}");
    let done = work.json(&["store", "accept-clock", "--latest", "2099-01-01T00:00:00.000Z"]);
    assert_eq!(done["drafts"], 0);
    let body: String = file
        .query_row("SELECT body FROM event WHERE type = 'clock.accepted'", [], |row| row.get(0))
        .unwrap();
    assert!(body.contains("command-line:"), "{body}");
    accept("2099-01-01T00:00:00.000Z").refused(1);
}
