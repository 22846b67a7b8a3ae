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
mod agent;
mod bank;
mod begin;
mod chance;
mod checks;
mod confused;
mod faulty;
mod fixture;
mod gates;
mod law;
mod mood;
mod people;
mod report;
mod schedule;
mod tells;
mod watch;
mod wire;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fixture::Fixture;
use report::Report;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Seeds that once led to a fault: run first, always.
const SEEDS: &str = include_str!("seeds.txt");

/// From this many schedules on, every transition must have been reached.
const ENOUGH: u64 = 20_000;

/// Transitions that nothing in the program makes.
const NEVER: &[(&str, &str)] = &[];

/// How many schedules each thread runs twice, to see that they go the same way.
const REPEATED: u64 = 4;

/// How many schedules with faults are told of before the rest is left out.
const TOLD: usize = 3;

struct Wish {
    schedules: u64,
    first: u64,
    until_fault: bool,
}

#[derive(Default)]
struct Total {
    schedules: u64,
    reached: BTreeMap<&'static str, u64>,
    left: u64,
    second_effects: u64,
    without_event: u64,
    bad: Vec<Report>,
}

impl Total {
    fn add(&mut self, report: Report) {
        self.schedules += 1;
        self.left += report.left as u64;
        for name in &report.reached {
            *self.reached.entry(name).or_default() += 1;
        }
        self.second_effects += u64::from(report.second_effects > 0);
        self.without_event += u64::from(report.without_event > 0);
        if !report.faults.is_empty() {
            self.bad.push(report);
        }
    }

    fn merge(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.left += other.left;
        self.second_effects += other.second_effects;
        self.without_event += other.without_event;
        self.bad.extend(other.bad);
        for (name, n) in other.reached {
            *self.reached.entry(name).or_default() += n;
        }
    }
}

fn main() -> ExitCode {
    let Some(wish) = wish() else {
        eprintln!("simulate [SCHEDULES] [SEED] [--until-fault]");
        return ExitCode::from(2);
    };
    let total = simulate(&wish);
    tell(&wish, &total)
}

fn wish() -> Option<Wish> {
    let mut wish = Wish {
        schedules: 100_000,
        first: 1,
        until_fault: false,
    };
    let mut numbers = 0;
    for arg in std::env::args().skip(1) {
        match (arg.as_str(), numbers) {
            ("--until-fault", _) => wish.until_fault = true,
            (number, 0) => wish.schedules = number.parse().ok()?,
            (number, 1) => wish.first = number.parse().ok()?,
            _ => return None,
        }
        numbers += u32::from(!arg.starts_with("--"));
    }
    Some(wish)
}

/// The seeds with their sentences.
fn seeds() -> Vec<(u64, &'static str)> {
    let lines = SEEDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (seed, sentence) = line.split_once(' ').expect("a seed and a sentence");
            (seed.parse().expect("a seed is a number"), sentence)
        })
        .collect()
}

fn simulate(wish: &Wish) -> Total {
    let next = AtomicU64::new(0);
    let enough = AtomicBool::new(false);
    let total = Mutex::new(Total::default());
    let known: Vec<u64> = seeds().iter().map(|(seed, _)| *seed).collect();
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (next, enough, total, known) = (&next, &enough, &total, &known);
            scope.spawn(move || {
                stay_on_one_core(worker);
                let fixture = Fixture::new();
                let mut mine = Total::default();
                mine.bad.extend((0..REPEATED).filter_map(|n| differs(&fixture, wish.first + n)));
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= wish.schedules || enough.load(Ordering::Relaxed) {
                        break;
                    }
                    let seed = match known.get(usize::try_from(n).unwrap()) {
                        Some(seed) if wish.schedules != 1 => *seed,
                        _ if wish.schedules == 1 => wish.first,
                        _ => wish.first + n - known.len() as u64,
                    };
                    mine.add(schedule::run(&fixture, seed, None, false));
                    if mine.bad.len() >= TOLD || (wish.until_fault && !mine.bad.is_empty()) {
                        enough.store(true, Ordering::Relaxed);
                    }
                }
                if !wish.until_fault {
                    for report in mine.bad.iter_mut().take(TOLD) {
                        *report = shortest(&fixture, report);
                    }
                }
                total.lock().unwrap().merge(mine);
            });
        }
    });
    total.into_inner().unwrap()
}

/// Keeps this thread and those it starts on one core: they only ever wait for each other, and that is quickest there.
fn stay_on_one_core(worker: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if cores.len() > worker {
        let mut one = CpuSet::new();
        one.set(cores[worker]);
        // Without it everything is only slower.
        let _ = sched_setaffinity(None, &one);
    }
}

/// A schedule that does not go the same way twice: then no seed would be worth anything.
fn differs(fixture: &Fixture, seed: u64) -> Option<Report> {
    let (one, mut two) = (schedule::run(fixture, seed, None, true), schedule::run(fixture, seed, None, true));
    let at = one.trace.iter().zip(&two.trace).position(|(a, b)| a != b);
    let at = at.or((one.trace.len() != two.trace.len()).then_some(one.trace.len().min(two.trace.len())))?;
    let line = |report: &Report| report.trace.get(at).cloned().unwrap_or_default();
    two.faults
        .push(format!("the same seed went two ways: `{}`, then `{}`", line(&one), line(&two)));
    Some(two)
}

/// The same schedule cut as short as it still goes wrong, with its trace.
fn shortest(fixture: &Fixture, report: &Report) -> Report {
    let seed = report.seed;
    (0..report.steps)
        .find(|steps| !schedule::run(fixture, seed, Some(*steps), false).faults.is_empty())
        .map_or_else(
            || schedule::run(fixture, seed, None, true),
            |steps| schedule::run(fixture, seed, Some(steps), true),
        )
}

fn tell(wish: &Wish, total: &Total) -> ExitCode {
    for report in total.bad.iter().take(TOLD) {
        println!("seed {}: {}; {} steps are enough", report.seed, report.variant, report.steps);
        for line in &report.trace {
            println!("    {line}");
        }
        for fault in &report.faults {
            println!("    {fault}");
        }
        if let Some((_, sentence)) = seeds().iter().find(|(seed, _)| *seed == report.seed) {
            println!("    a known seed: {sentence}");
        }
        println!("again: tests/simulate 1 {}", report.seed);
    }
    let mut missed = 0;
    if !wish.until_fault {
        println!("schedules that reached each transition:");
        for name in checks::lifecycle().keys() {
            let n = total.reached.get(name).copied().unwrap_or(0);
            let never = NEVER.iter().find(|(event, _)| event == name);
            println!("{n:>9}  {name}{}", never.map_or(String::new(), |(_, why)| format!("  ({why})")));
            if n == 0 && never.is_none() && total.schedules >= ENOUGH {
                println!("NEVER REACHED: {name}");
                missed += 1;
            }
        }
        println!("{} requests left the proxies", total.left);
    }
    let other = total.bad.len();
    if other > 0 {
        println!("{other} schedules with a fault");
    }
    println!("seeds: {} known ones, then from {} on", seeds().len(), wish.first);
    println!(
        "simulation: {} schedules, {} with a second effect, {} without their event",
        total.schedules, total.second_effects, total.without_event
    );
    if other == 0 && missed == 0 && total.schedules == wish.schedules {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
