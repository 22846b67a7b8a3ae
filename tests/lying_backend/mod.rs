//! The backend lies in every way: each lie once, twice, before another one, and in what is looked up. What writ says is compared with what the
//! backend did, and the requests on the wire with the attempt log.

mod book;
mod lies;

use std::sync::Arc;

use tokio::sync::Semaphore;

use book::{Book, Case, Verdict};

/// How many backends lie at once: some of them only let us wait.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn every_lie_of_a_backend_is_seen_through_or_left_open() {
    let asked = writ::config::environment("LYING_BACKEND").unwrap_or_default();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let running: Vec<_> = lies::books()
        .into_iter()
        .map(|cases| {
            let cases: Vec<Case> = cases.into_iter().filter(|case| case.name.contains(&asked)).collect();
            let places = Arc::clone(&places);
            tokio::spawn(async move {
                let _place = places.acquire_owned().await.unwrap();
                let mut told = Vec::new();
                if cases.is_empty() {
                    return told;
                }
                let book = Book::open().await;
                for case in cases {
                    let verdict = book.play(&case).await;
                    told.push((case.name, verdict));
                }
                told
            })
        })
        .collect();
    let (mut faults, mut second, mut misread, mut other) = (0, 0, 0, 0);
    for book in running {
        for (name, verdict) in book.await.unwrap() {
            let Verdict { effects, lies, wrong } = verdict;
            faults += 1;
            second += usize::from(effects > 1);
            misread += usize::from(!lies.is_empty());
            other += usize::from(!wrong.is_empty());
            for why in lies.iter().chain(&wrong) {
                println!("{name}: {why}");
            }
        }
    }
    println!("faults: {faults}, {second} with a second effect, {misread} misread");
    assert!(faults > 0, "no fault is named so: {asked}");
    assert_eq!((second, misread, other), (0, 0, 0));
}
