//! When a request may go again: the backend's key window, its own advice, and how long to wait.

use std::time::{Duration, SystemTime};

use super::answer::Answer;
use super::classify::Outcome;
use crate::domain::clock::{Entropy, random};
use crate::domain::time::Timestamp;

/// What a repetition under the same key gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Nothing to rely on: the backend has no key. A request is sent once and never again.
    Never,
    /// The first answer, unchanged.
    Stored,
    /// How the thing stands now.
    CurrentState,
    /// A success unchanged; a failure runs again.
    ReexecutesFailures,
}

/// How long a backend recognises a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From the first send; one hour where the backend does not say.
    pub window: Duration,
    /// Kept clear of the window's end.
    pub safety: Duration,
    /// What a repetition gives back.
    pub replay: Replay,
}

impl Window {
    /// First moment at which the request must no longer be sent; `None` if it must not be sent a second time at all.
    #[must_use]
    pub fn resend_before(&self, first_send: Timestamp) -> Option<Timestamp> {
        (self.replay != Replay::Never).then(|| first_send.plus(self.window.saturating_sub(self.safety)))
    }
}

/// A header and the value of it by which the backend says that trying again is no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) header: String,
    pub(super) equals: String,
}

/// How a request is tried again, always with the same bytes and the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub(super) on: Vec<Outcome>,
    pub(super) stop: Option<Stop>,
    pub(super) attempts: u32,
    pub(super) base: Duration,
    pub(super) cap: Duration,
    pub(super) retry_after_cap: Duration,
    pub(super) give_up: Duration,
}

/// What to do after an answer that settled nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send the same bytes again, after waiting.
    Again,
    /// Look the result up.
    LookUp,
}

impl Retry {
    /// How often the request is sent at most, the first time included.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long after the first send the last repetition may start.
    #[must_use]
    pub const fn give_up(&self) -> Duration {
        self.give_up
    }

    /// Whether an answer of this outcome is followed by the same request or by a look-up. The backend can say no to an outcome that the file lists, and
    /// never yes to one that it does not.
    #[must_use]
    pub fn after(&self, outcome: Outcome, answer: &Answer) -> Next {
        let stopped = self
            .stop
            .as_ref()
            .is_some_and(|stop| answer.headers.get(&stop.header) == Some(&stop.equals));
        if self.on.contains(&outcome) && !stopped {
            Next::Again
        } else {
            Next::LookUp
        }
    }

    /// How long to wait before attempt `next` (2 is the first repetition): what the answer asks for, up to a cap; otherwise full jitter over a doubling backoff.
    #[must_use]
    pub fn wait(&self, next: u32, answer: Option<&Answer>, now: Timestamp, entropy: &dyn Entropy) -> Duration {
        if let Some(asked) = answer.and_then(|answer| retry_after(answer, now)) {
            return asked.min(self.retry_after_cap);
        }
        let doublings = next.saturating_sub(2).min(16);
        let ceiling = self.base.saturating_mul(1 << doublings).min(self.cap);
        let millis = u64::try_from(ceiling.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_millis(u64::from_le_bytes(random(entropy)) % millis)
    }
}

/// How long the answer asks to wait (RFC 9110 section 10.2.3: seconds or a date); `None` if it does not say or cannot be read. Not capped.
#[must_use]
pub fn retry_after(answer: &Answer, now: Timestamp) -> Option<Duration> {
    let text = answer.headers.get("retry-after")?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX / 1000)));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let at = Timestamp::from_millis(i64::try_from(since.as_millis()).ok()?);
    Some(at.since(now))
}
