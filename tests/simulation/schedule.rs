//! One schedule: what happens, in which order, and what goes wrong, all from one seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;
use writ::domain::id::DraftId;

use super::bank::{Bank, Charge, Treat};
use super::chance::Dice;
use super::checks;
use super::fixture::{Fixture, Life, Variant, WORKERS};
use super::gates::{Gates, Pass, Place};
use super::mood::{Begun, Mood, Theme};
use super::report::Report;

/// What an operation of a caller came to.
pub enum Done {
    Draft(DraftId),
    Token(DraftId, String),
    Nothing,
}

/// Whether things still go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    Still,
    NoMore,
}

/// A proposal that was made.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub charge: usize,
    pub amount: i64,
}

/// One schedule while it runs.
pub struct Schedule<'a> {
    pub fixture: &'a Fixture,
    pub variant: &'a Variant,
    pub dice: Dice,
    pub mood: Mood,
    pub gates: Arc<Gates>,
    pub bank: Arc<Mutex<Bank>>,
    pub lives: Vec<Life>,
    pub drafts: Vec<DraftId>,
    pub tokens: Vec<(DraftId, String)>,
    pub wanted: Vec<Wanted>,
    /// What the backend has told by itself, as it was written.
    pub told: Vec<String>,
    pub done: Arc<Mutex<Vec<Done>>>,
    running: Vec<(usize, AbortHandle)>,
}

/// Says which schedule it was, should one end in a panic.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {} ended in a panic; again: tests/simulate 1 {}", self.0, self.0);
        }
    }
}

/// Runs one schedule; `steps` cuts it short, so that the shortest one with the same fault can be found.
pub fn run(fixture: &Fixture, seed: u64, steps: Option<usize>, traced: bool) -> Report {
    let _named = Named(seed);
    let mut dice = Dice::new(seed);
    fixture.reset(seed, traced);
    let mood = Mood::draw(&mut dice);
    // Two that together are too much are a matter for the guards only where the backend does not count.
    let lax = fixture
        .variants
        .iter()
        .position(|variant| !variant.habits.counts)
        .filter(|_| mood.pairs && dice.chance(40));
    let variant = &fixture.variants[lax.unwrap_or_else(|| dice.below(fixture.variants.len()))];
    let charges = (0..if mood.pairs { 1 } else { 1 + dice.below(2) })
        .map(|n| Charge {
            id: format!("ch_{n}"),
            amount: if mood.people {
                dice.pick(&[30_000, 200_000])
            } else {
                dice.weighted(&[(4, 9_000), (3, 30_000), (2, 200_000), (1, 1_000_000)])
            },
        })
        .collect();
    let gates = Arc::new(Gates::new(WORKERS));
    let bank = Arc::new(Mutex::new(Bank::new(variant.habits, charges)));
    // Most schedules are one journey; some are long enough for several that meet.
    let length = match dice.below(20) {
        0 => 70 + dice.below(80),
        1..=3 => 32 + dice.below(30),
        _ if mood.begun != Begun::Not => 8 + dice.below(14),
        _ if mood.pairs => 38 + dice.below(20),
        _ => 14 + dice.below(14),
    };
    let length = steps.map_or(length, |steps| steps.min(length));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let report = runtime.block_on(async {
        let lives = (0..WORKERS)
            .map(|worker| fixture.live(worker, variant, mood, &gates, &bank))
            .collect();
        let mut schedule = Schedule {
            fixture,
            variant,
            dice,
            mood,
            gates,
            bank,
            lives,
            drafts: Vec::new(),
            tokens: Vec::new(),
            wanted: Vec::new(),
            told: Vec::new(),
            done: Arc::default(),
            running: Vec::new(),
        };
        fixture
            .watch
            .note(|| format!("{}; {mood:?}; {:?}", variant.name, schedule.bank.lock().unwrap().charges));
        if mood.clocks {
            for process in &fixture.processes {
                let ahead = schedule.dice.below(4_000);
                process.clock.set_ahead(i64::try_from(ahead).unwrap() - 2_000);
            }
        }
        schedule.begin().await;
        for step in 0..length {
            fixture.watch.note(|| format!("step {step}"));
            schedule.step().await;
        }
        schedule.finish().await;
        checks::all(&schedule)
    });
    drop(runtime);
    Report {
        seed,
        steps: length,
        variant: variant.name,
        ..report
    }
}

impl Schedule<'_> {
    async fn step(&mut self) {
        let waiting = self.gates.waiting();
        let goes_on = if self.mood.theme == Theme::Late { 70 } else { 85 };
        if self.at_the_last_moment(&waiting) && self.dice.chance(40) {
            self.come_between().await;
        } else if !waiting.is_empty() && self.dice.chance(goes_on) {
            let index = if self.dice.chance(75) {
                waiting.len() - 1
            } else {
                self.dice.below(waiting.len())
            };
            let (worker, at) = waiting[index];
            let pass = self.choose(at);
            self.let_through(index, worker, at, pass).await;
        } else {
            self.act().await;
        }
    }

    /// Whether something is about to happen that the theme has to do with.
    fn at_the_last_moment(&self, waiting: &[(usize, Place)]) -> bool {
        let comes_between = |(_, at): &(usize, Place)| match self.mood.theme {
            Theme::TakenBack => matches!(at, Place::Write("issue" | "redeem" | "dispatch" | "vote")),
            Theme::Late => matches!(at, Place::Write("issue" | "redeem" | "dispatch") | Place::Answer("dispatch")),
            Theme::All | Theme::Told => false,
        };
        !self.drafts.is_empty() && waiting.iter().any(comes_between)
    }

    /// Lets one task go on, and everything that follows from it until all wait again.
    pub async fn let_through(&mut self, index: usize, worker: usize, at: Place, pass: Pass) {
        self.fixture.watch.note(|| format!("  worker {worker} {at:?}: {pass:?}"));
        self.gates.take(index).let_through(pass);
        self.settle().await;
        if pass == Pass::DeadAfter {
            self.die(worker).await;
        }
    }

    fn choose(&mut self, at: Place) -> Pass {
        let store = self.mood.store;
        let death = if self.mood.deaths { 1 } else { 0 };
        let slow = if self.mood.theme == Theme::Late { 15 } else { 3 };
        match at {
            Place::Read(_) => self
                .dice
                .weighted(&[(200 - store, Pass::Through), (store, Pass::Unavailable), (death, Pass::DeadAfter)]),
            // Written down, and the answer is long in coming: the most dangerous moment of all.
            Place::Write("dispatch") if self.mood.theme == Theme::Late && self.dice.chance(30) => Pass::Slow,
            Place::Write(_) => self.dice.weighted(&[
                (97 - 3 * store, Pass::Through),
                (store, Pass::Unavailable),
                (store, Pass::LostBefore),
                (store, Pass::LostAfter),
                (slow, Pass::Slow),
                (2 * death, Pass::DeadAfter),
            ]),
            Place::Answer(_) => Pass::Through,
            Place::Get => {
                let wrong = self.mood.looks;
                self.dice.weighted(&[
                    (2 * (100 - wrong), Pass::Through),
                    (wrong, Pass::Unavailable),
                    (wrong, Pass::LostBefore),
                ])
            }
            Place::Post => Pass::Backend(self.treat()),
            Place::Reply => {
                let wrong = self.mood.backend / 4;
                self.dice
                    .weighted(&[(100 - wrong, Pass::Through), (wrong, Pass::LostAfter), (2 * death, Pass::DeadAfter)])
            }
        }
    }

    fn treat(&mut self) -> Treat {
        if !self.dice.chance(self.mood.backend) {
            return self.dice.weighted(&[(85, Treat::Well), (10, Treat::Pending), (5, Treat::Refuse)]);
        }
        let held = self.variant.arrives_late();
        self.dice.weighted(&[
            (6, Treat::Pending),
            (6, Treat::DropBefore),
            (10, Treat::DropAfter),
            (if held { 8 } else { 0 }, Treat::Hold),
            (4, Treat::NoConnection),
            (5, Treat::ErrorAfter),
            (5, Treat::ErrorBefore),
            (6, Treat::Limit),
            (3, Treat::InFlight),
            (4, Treat::Refuse),
            (4, Treat::OtherAmount),
            (4, Treat::OtherDraft),
            (4, Treat::Torn),
        ])
    }

    /// Runs everything until all of it waits.
    pub async fn settle(&mut self) {
        let mut still = 0;
        while still < 2 {
            let before = self.gates.motion.count();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            still = if self.gates.motion.count() == before { still + 1 } else { 0 };
        }
        let done = std::mem::take(&mut *self.done.lock().unwrap());
        for done in done {
            match done {
                Done::Draft(id) if !self.drafts.contains(&id) => self.drafts.push(id),
                Done::Token(id, token) => self.tokens.push((id, token)),
                _ => {}
            }
        }
        self.running.retain(|(_, task)| !task.is_finished());
    }

    /// Starts something that a caller of this worker wants.
    pub fn start(&mut self, worker: usize, work: impl Future<Output = Done> + Send + 'static) {
        let (done, gates) = (self.done.clone(), self.gates.clone());
        let task = tokio::spawn(async move {
            let what = work.await;
            done.lock().unwrap().push(what);
            gates.motion.moved();
        });
        self.running.push((worker, task.abort_handle()));
    }

    /// A caller goes away in the middle of its call.
    pub async fn hang_up(&mut self) {
        if !self.running.is_empty() {
            let index = self.dice.below(self.running.len());
            let (_, task) = self.running.remove(index);
            task.abort();
            self.settle().await;
        }
    }

    /// The process is gone, and another is started in its place. What it had just sent may arrive.
    pub async fn die(&mut self, worker: usize) {
        self.fixture.watch.note(|| format!("  worker {worker} dies"));
        let held = self.variant.arrives_late();
        while let Some(index) = self.gates.waiting().iter().position(|(w, at)| *w == worker && *at == Place::Post) {
            let treat = match self.dice.below(3) {
                0 if held => Treat::Hold,
                1 => Treat::DropAfter,
                _ => Treat::DropBefore,
            };
            self.gates.take(index).let_through(Pass::Backend(treat));
            // It must come to the backend before its process is forgotten.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        self.gates.kill(worker);
        for (_, task) in self.running.extract_if(.., |(w, _)| *w == worker) {
            task.abort();
        }
        self.lives[worker] = self.fixture.live(worker, self.variant, self.mood, &self.gates, &self.bank);
        self.settle().await;
    }

    /// Time passes everywhere.
    pub async fn pass_time(&mut self, millis: i64) {
        self.fixture.watch.note(|| format!("  {} s pass", millis as f64 / 1000.0));
        self.fixture.outside.advance(millis);
        self.bank.lock().unwrap().release(self.fixture.outside.now());
        tokio::time::advance(Duration::from_millis(u64::try_from(millis).unwrap())).await;
        self.settle().await;
    }

    /// Whether nothing runs in any process that lives.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.lives.iter().all(|life| life.tasks.is_empty())
    }

    /// Lets everything end that has begun, with faults still or without them.
    pub async fn run_out(&mut self, faults: Faults) {
        for _ in 0..400 {
            let waiting = self.gates.waiting();
            if let Some((worker, at)) = waiting.first().copied() {
                let pass = match (faults, at) {
                    (Faults::Still, _) => self.choose(at),
                    (Faults::NoMore, Place::Post) => Pass::Backend(Treat::Well),
                    (Faults::NoMore, _) => Pass::Through,
                };
                self.let_through(0, worker, at, pass).await;
            } else if self.is_idle() {
                return;
            } else {
                self.pass_time(2_100).await;
            }
        }
        if faults == Faults::NoMore {
            self.fixture.watch.fault("something never ends");
        }
    }
}
