//! Kill at every step: at each named point a real `writ serve` dies of SIGKILL, is started again beside a second process, and is called again.

mod case;
mod check;
mod process;
mod scenario;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Semaphore;

use case::{Case, cases};

/// How many worlds are under way at once: they mostly wait for a lease.
const AT_ONCE: usize = 32;

/// Many threads: the worlds start processes and open stores, which must not keep their backends from answering.
#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn every_point_of_the_journey_survives_kill_9() {
    let asked = writ::config::environment("CRASH_POINTS").unwrap_or_default();
    let all: Vec<Case> = cases().into_iter().filter(|case| case.point.contains(&asked)).collect();
    let covered: BTreeSet<String> = all.iter().map(|case| case.point.clone()).collect();
    if asked.is_empty() {
        let named: BTreeSet<String> = writ::crash_points::names().into_iter().collect();
        assert_eq!(covered, named, "every point has a journey that reaches it");
    }
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let running: Vec<_> = all
        .into_iter()
        .map(|case| {
            let places = Arc::clone(&places);
            tokio::spawn(async move {
                let _place = places.acquire_owned().await.unwrap();
                let point = case.point.clone();
                let found = world::play(&case).await;
                (point, case.scenario.name, found)
            })
        })
        .collect();
    let (mut second, mut wrong, mut unreached) = (0, 0, 0);
    for case in running {
        let (point, scenario, found) = case.await.unwrap();
        second += usize::from(found.effects > 1);
        wrong += usize::from(!found.wrong.is_empty());
        unreached += usize::from(!found.reached);
        for why in &found.wrong {
            println!("{point} ({scenario}): {why}");
        }
        if !found.reached {
            println!("{point} ({scenario}): the process did not die there");
        }
    }
    println!(
        "crash points: {}, {second} with a second effect, {wrong} with a wrong state",
        covered.len()
    );
    assert_eq!((second, wrong, unreached), (0, 0, 0));
}

#[test]
fn every_point_has_a_name_of_its_own() {
    let names = writ::crash_points::names();
    for name in &names {
        println!("{name}");
    }
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

/// A build that dies where its environment says must never be one that somebody runs by mistake.
#[test]
fn the_points_are_in_no_build_that_does_not_ask_for_them() {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    assert!(manifest["features"].get("default").is_none());
    assert_eq!(manifest["features"]["crash-points"].as_array().unwrap().len(), 1);
}
