//! The simulation: random operations, faults, clocks and deaths over the real broker, proxy and store. `docs/testing.md` says how to use it.
//!
//!     simulate [SCHEDULES] [SEED]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and nothing here is anybody's interface"
)]

mod act;
mod bank;
mod chance;
mod checks;
mod confused;
mod faulty;
mod fixture;
mod gates;
mod law;
mod report;
mod schedule;
mod watch;
mod wire;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use fixture::Fixture;
use report::Report;

#[derive(Default)]
struct Total {
    schedules: u64,
    reached: BTreeMap<&'static str, u64>,
    left: u64,
    bad: Vec<Report>,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let schedules: u64 = args.next().map_or(100_000, |text| text.parse().expect("SCHEDULES is a number"));
    let first: u64 = args.next().map_or(1, |text| text.parse().expect("SEED is a number"));
    let next = AtomicU64::new(0);
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let fixture = Fixture::new();
                let mut mine = Total::default();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= schedules || mine.bad.len() > 5 {
                        break;
                    }
                    let report = schedule::run(&fixture, first + n, None, schedules == 1);
                    mine.schedules += 1;
                    mine.left += report.left as u64;
                    for name in &report.reached {
                        *mine.reached.entry(name).or_default() += 1;
                    }
                    if !report.faults.is_empty() || schedules == 1 {
                        mine.bad.push(report);
                    }
                }
                let mut total = total.lock().unwrap();
                total.schedules += mine.schedules;
                total.left += mine.left;
                total.bad.extend(mine.bad);
                for (name, n) in mine.reached {
                    *total.reached.entry(name).or_default() += n;
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    for report in &total.bad {
        for line in &report.trace {
            println!("{line}");
        }
        println!("seed {} ({}, {} steps): {:#?}", report.seed, report.variant, report.steps, report.faults);
    }
    for name in checks::lifecycle().keys() {
        println!("{name}: {}", total.reached.get(name).copied().unwrap_or(0));
    }
    println!("{} requests left", total.left);
    ExitCode::SUCCESS
}
