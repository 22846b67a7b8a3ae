//! One look after the other: the latest head goes to every witness, and what they put under it is kept.
//!
//! Nothing of this changes what happened, and only what the operator asked for waits for it. What a witness has seen is in memory only: after a
//! restart it says itself how far it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use super::exchange::{Said, request, understood};
use super::settings::{Require, Settings};
use super::wire::Connected;
use crate::audit::{Actor, EventBody, EventKind, EventOutcome, Note, SignedHead};
use crate::domain::clock::{Clock, Entropy};
use crate::domain::id::OperationId;
use crate::domain::time::Timestamp;
use crate::store::health::WitnessState;
use crate::store::{Op, Store};

/// A witness whose clock is further off than this says nothing about now.
const SKEW: Duration = Duration::from_secs(300);

/// How often a witness may say that it stands elsewhere, in one look.
const TRIES: usize = 3;

/// What witnesses are asked with.
pub struct Parts {
    /// The ways to them.
    pub connected: Vec<Connected>,
    /// What the configuration says.
    pub settings: Settings,
    /// Whose log it is.
    pub store: Arc<dyn Store>,
    /// Now.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
}

/// The witnesses of a log.
pub struct Witnesses {
    each: Vec<Arc<Connected>>,
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    since: Timestamp,
    seen: Mutex<Vec<Seen>>,
    told: Mutex<Told>,
}

/// What is known of one witness.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The size of the log that it has cosigned, as far as it is known.
    size: Option<u64>,
    /// When it was asked for its last good cosignature, by this process's clock.
    cosigned: Option<Timestamp>,
    /// Why it says that the log was taken back or rewritten, if it does.
    disagrees: Option<&'static str>,
    fails: bool,
}

/// What is in the log of this already.
#[derive(Debug, Default)]
struct Told {
    disagreed: Vec<Option<&'static str>>,
    unwitnessed: bool,
}

/// How one witness stands to the log, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessSeen {
    /// Its name, from its key.
    pub name: String,
    /// How long ago it cosigned, or since when it was first asked.
    pub lag: Duration,
    /// Whether it says that the log was taken back or rewritten.
    pub disagrees: bool,
}

/// What came of asking one witness.
enum Outcome {
    Cosigned { head: SignedHead, asked: Timestamp },
    Disagrees(&'static str),
    Failed(String),
}

impl Witnesses {
    /// The witnesses; nothing is asked yet, and what requires them waits from here on.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let count = parts.connected.len();
        let made = Self {
            each: parts.connected.into_iter().map(Arc::new).collect(),
            settings: parts.settings,
            since: parts.clock.now(),
            store: parts.store,
            clock: parts.clock,
            entropy: parts.entropy,
            seen: Mutex::new(vec![Seen::default(); count]),
            told: Mutex::new(Told {
                disagreed: vec![None; count],
                unwitnessed: false,
            }),
        };
        made.settle();
        made
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How each of them stands.
    #[must_use]
    pub fn standing(&self) -> Vec<WitnessSeen> {
        let now = self.clock.now();
        let seen = self.seen();
        let each = self.each.iter().zip(seen.iter());
        each.map(|(witness, seen)| WitnessSeen {
            name: witness.at.key.name().to_string(),
            lag: now.since(seen.cosigned.unwrap_or(self.since)),
            disagrees: seen.disagrees.is_some(),
        })
        .collect()
    }

    /// Whether enough of them have cosigned lately.
    #[must_use]
    pub fn are_enough(&self) -> bool {
        self.fresh_until().is_some_and(|until| self.clock.now() < until)
    }

    /// Until when the cosignatures of enough of them count; `None` while there are too few.
    fn fresh_until(&self) -> Option<Timestamp> {
        let seen = self.seen();
        let mut times: Vec<Timestamp> = seen
            .iter()
            .filter(|one| one.disagrees.is_none())
            .filter_map(|one| one.cosigned)
            .collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let last = times.get(self.settings.quorum.checked_sub(1)?)?;
        Some(last.plus(self.settings.max_age))
    }

    fn settle(&self) {
        if self.settings.require != Require::None {
            let until = self.fresh_until().unwrap_or(Timestamp::from_millis(i64::MIN));
            self.store.witnessed(WitnessState::FreshUntil(until));
        }
    }

    /// Shows the latest head to every witness that has not cosigned it lately, keeps what they say, and writes down what changed in that.
    pub async fn round(&self) {
        let head = match self.store.head().await {
            Ok(Some(head)) => head,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the log's head could not be read for the witnesses");
                return;
            }
        };
        let mut asked = JoinSet::new();
        for (n, witness) in self.each.iter().enumerate() {
            let known = self.seen().get(n).copied().unwrap_or_default();
            if self.is_recent(known, &head) {
                continue;
            }
            let (witness, store, clock, head) = (witness.clone(), self.store.clone(), self.clock.clone(), head.clone());
            asked.spawn(async move { (n, ask(&witness, &*store, &*clock, &head, known.size).await) });
        }
        let mut cosigned: Option<SignedHead> = None;
        while let Some(joined) = asked.join_next().await {
            let Ok((n, (size, outcome))) = joined else { continue };
            if let Outcome::Cosigned { head: theirs, .. } = &outcome {
                let base = cosigned.as_ref().unwrap_or(&head);
                let merged = self.each.get(n).and_then(|one| base.cosigned(theirs.text(), &one.at.key).ok());
                cosigned = merged.map(|(merged, _)| merged).or(cosigned);
            }
            self.learn(n, size, &outcome);
        }
        if let Some(cosigned) = cosigned
            && let Err(error) = self.store.keep_cosigned(cosigned).await
        {
            tracing::error!(%error, "the witnesses' cosignatures could not be kept");
        }
        self.settle();
        self.write_down(&head).await;
    }

    /// A head that was cosigned is shown again only so that the witness's time does not grow old.
    fn is_recent(&self, known: Seen, head: &SignedHead) -> bool {
        let fresh = known
            .cosigned
            .is_some_and(|asked| self.clock.now() < asked.plus(self.settings.max_age / 2));
        fresh && known.disagrees.is_none() && known.size == Some(head.size())
    }

    fn learn(&self, n: usize, size: Option<u64>, outcome: &Outcome) {
        let name = self.each.get(n).map(|one| one.at.key.name().to_string()).unwrap_or_default();
        let mut seen = self.seen();
        let Some(one) = seen.get_mut(n) else { return };
        one.size = size;
        let failed = one.fails;
        match outcome {
            Outcome::Cosigned { asked, .. } => {
                one.cosigned = Some(*asked);
                (one.disagrees, one.fails) = (None, false);
                if failed {
                    tracing::info!(witness = name, "the witness cosigns the log again");
                }
            }
            Outcome::Disagrees(code) => {
                if one.disagrees.is_none() {
                    tracing::error!(
                        witness = name,
                        code,
                        "the witness has cosigned another log of this name: it was taken back or rewritten, or somebody signs with its key; \
                         look at what the witness keeps as evidence before anything is repaired"
                    );
                }
                one.disagrees = Some(code);
            }
            Outcome::Failed(why) => {
                if !failed {
                    tracing::warn!(
                        witness = name,
                        why,
                        "the witness did not cosign the log; it is asked again, and told when it does"
                    );
                }
                one.fails = true;
            }
        }
    }

    /// What changed is an event, once when it begins and once when it ends.
    async fn write_down(&self, head: &SignedHead) {
        let disagree: Vec<_> = self.seen().iter().map(|one| one.disagrees).collect();
        for (n, code) in disagree.into_iter().enumerate() {
            let was = self.told().disagreed.get(n).copied().unwrap_or_default();
            let event = |code: &str| EventBody {
                subject: self.each.get(n).map(|one| one.at.key.name().to_string()),
                code: Some(code.to_owned()),
                count: Some(head.size()),
                ..failed(Note::WitnessDisagreed)
            };
            let is_told = match code {
                Some(code) => was == Some(code) || self.note(event(code)).await,
                None => true,
            };
            if let Some(told) = self.told().disagreed.get_mut(n) {
                *told = code.filter(|_| is_told);
            }
        }
        let (enough, was) = (self.are_enough(), self.told().unwitnessed);
        let is_late = self.clock.now() >= self.since.plus(self.settings.max_age);
        let fresh = |one: &&WitnessSeen| one.lag < self.settings.max_age && !one.disagrees;
        let has = self.standing().iter().filter(fresh).count();
        if enough && was {
            let again = EventBody::new(EventKind::Note(Note::LogWitnessed), actor());
            self.told().unwitnessed = !self.note(again).await;
        } else if !enough && !was && is_late {
            let lost = EventBody {
                count: Some(has as u64),
                ..failed(Note::LogUnwitnessed)
            };
            self.told().unwitnessed = self.note(lost).await;
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn note(&self, event: EventBody) -> bool {
        let op = Op {
            id: OperationId::generate(&*self.clock, &*self.entropy),
            actor: actor(),
            request: None,
        };
        let kind = EventKind::as_str(event.kind);
        let wrote = self.store.note(op, event).await;
        if let Err(error) = &wrote {
            tracing::error!(%error, event = kind, "how the witnesses stand could not be written to the audit log");
        }
        wrote.is_ok()
    }
}

fn actor() -> Actor {
    Actor::system("witness")
}

fn failed(note: Note) -> EventBody {
    EventBody {
        outcome: EventOutcome::Failed,
        ..EventBody::new(EventKind::Note(note), actor())
    }
}

/// Asks one witness, from the size that it is thought to know; gives the size that it knows then.
async fn ask(
    witness: &Connected,
    store: &dyn Store,
    clock: &dyn Clock,
    head: &SignedHead,
    mut known: Option<u64>,
) -> (Option<u64>, Outcome) {
    for _ in 0..TRIES {
        let old = known.unwrap_or(0);
        if old > head.size() {
            // What it says now it is asked for anew the next time.
            return (None, ahead(store, old).await);
        }
        let proof = match store.consistency(old, Some(head.size())).await {
            Ok(Some(found)) => found.proof,
            Ok(None) => return (known, Outcome::Failed("the log has become shorter meanwhile".to_owned())),
            Err(error) => return (known, Outcome::Failed(format!("the log cannot be read: {error}"))),
        };
        let asked = clock.now();
        let said = match witness.post(request(old, &proof, head)).await {
            Ok((status, body)) => understood(status, &body),
            Err(why) => return (known, Outcome::Failed(why)),
        };
        match said {
            Said::Lines(lines) => return judged(witness, clock, head, &lines, asked, known),
            Said::Stands(size) if Some(size) == known => {
                return (
                    known,
                    Outcome::Failed(format!("it says that it knows {size} events, and that it does not")),
                );
            }
            Said::Stands(size) => known = Some(size),
            Said::Inconsistent => return (known, Outcome::Disagrees("inconsistent")),
            Said::Refused(why) => return (known, Outcome::Failed(why)),
        }
    }
    (known, Outcome::Failed("it says each time that it stands elsewhere".to_owned()))
}

/// Its cosignature, if it is good and of now.
fn judged(
    witness: &Connected,
    clock: &dyn Clock,
    head: &SignedHead,
    lines: &str,
    asked: Timestamp,
    known: Option<u64>,
) -> (Option<u64>, Outcome) {
    match head.cosigned(lines, &witness.at.key) {
        Ok((cosigned, at)) => {
            let now = clock.now();
            if now.since(at).max(at.since(now)) > SKEW {
                return (known, Outcome::Failed(format!("its cosignature is of {at}, and here it is {now}")));
            }
            (Some(head.size()), Outcome::Cosigned { head: cosigned, asked })
        }
        Err(error) => (
            known,
            Outcome::Failed(format!("its answer is no cosignature of this head: {error}")),
        ),
    }
}

/// The witness knows more than the head that is shown. Another process may have shown it a later one; if none is there, the log was taken back.
async fn ahead(store: &dyn Store, known: u64) -> Outcome {
    match store.head().await {
        Ok(Some(head)) if head.size() >= known => Outcome::Failed("another process has shown it a later head".to_owned()),
        Ok(_) => Outcome::Disagrees("rolled_back"),
        Err(error) => Outcome::Failed(format!("the log cannot be read: {error}")),
    }
}
