//! Scripted faults: each is used a given number of times, in the order in which they were queued.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// What goes wrong. "After" means that the effect has happened and only the answer is lost or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The effect happens, its answer is stored under the key, and the connection is closed without a byte.
    DropAfter,
    /// Nothing happens, and the connection is closed without a byte.
    DropBefore,
    /// The effect happens; the answer, also for every replay, is a 500.
    #[serde(rename = "error_500_after")]
    Error500After,
    /// Nothing happens; the answer is a 503 and is not stored.
    #[serde(rename = "error_503_before")]
    Error503Before,
    /// Nothing happens; the answer is a 429 and is not stored.
    RateLimit,
    /// The effect happens and its answer is stored; nothing is sent until the client gives up or the sandbox stops.
    Hang,
    /// Nothing happens until the request is released; meanwhile its key is in flight.
    Hold,
    /// The effect happens and its answer is stored; it is sent once the request is released.
    HoldAfter,
    /// The effect happens as asked; the answer names one minor unit more.
    WrongAmount,
    /// The refund is taken in and its status is `pending`.
    Pending,
    /// The refund is taken in, its status is `pending`, and the connection is closed without a byte.
    PendingUnanswered,
    /// Nothing happens; the answer is a 400 that refuses the request as invalid, and it is stored.
    Refuse,
    /// Nothing happens; the answer says that the key is in use.
    InFlight,
    /// The effect happens; the connection is closed in the middle of the answer's body.
    Truncate,
    /// Nothing happens; the answer is a 307 to `/_sandbox/redirected`, which counts whoever follows it.
    Redirect,
    /// The effect happens; the answer is several megabytes long.
    Oversize,
    /// Nothing happens; the connection is closed before the body is read.
    CloseAsWritten,
    /// Nothing happens; the answer is a 429 whose `Retry-After` is a date, and is not stored.
    RateLimitDate,
    /// Nothing happens; the answer says that the key was used with another request.
    KeyReused,
    /// Nothing happens; the answer says that the charge is refunded already, and is not stored.
    AlreadyRefunded,
    /// The effect happens as asked; the answer names another currency.
    WrongCurrency,
    /// The effect happens as asked; the answer names another charge.
    WrongTarget,
    /// The effect happens as asked; the answer names another draft.
    WrongDraft,
    /// The effect happens, or happened before; this one answer, or list, names another id for it.
    OtherId,
    /// A list is answered as if nothing were in it.
    EmptyList,
    /// The effect happens; the answer is a 303 to `/_sandbox/redirected`.
    SeeOther,
    /// The effect happens; half the answer's JSON comes, with a length that fits it.
    Malformed,
    /// The effect happens; the answer is a page for people.
    Html,
    /// The effect happens; the right answer comes under the content type of a page.
    OtherContentType,
    /// The effect happens; the answer is a 200 without a body.
    EmptyAnswer,
    /// The effect happens; the answer is small, compressed, and many megabytes when it is not.
    GzipBomb,
    /// The effect happens; the answer is not HTTP.
    Garbage,
    /// The effect happens; the answer has thousands of headers.
    HeaderFlood,
    /// The effect happens; the answer comes after two interim ones (103).
    EarlyHints,
    /// The effect happens; interim answers come and come.
    EndlessHints,
    /// The effect happens; the answer comes byte by byte.
    Drip,
}

/// Which requests a fault is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultMatch {
    /// The method, in capitals.
    pub method: String,
    /// The path without its query; a `*` at the end stands for any rest.
    pub path: String,
}

impl FaultMatch {
    fn covers(&self, method: &str, path: &str) -> bool {
        self.method == method
            && match self.path.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => self.path == path,
            }
    }
}

/// A fault in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The requests it is for.
    #[serde(rename = "match")]
    pub matching: FaultMatch,
    /// What goes wrong.
    pub kind: FaultKind,
    /// How many requests it hits; 1 unless said otherwise.
    #[serde(default = "once")]
    pub times: u32,
}

const fn once() -> u32 {
    1
}

impl Fault {
    /// A fault that hits the next request with this method and path, once.
    #[must_use]
    pub fn once(kind: FaultKind, method: &str, path: &str) -> Self {
        Self::times(kind, method, path, 1)
    }

    /// A fault that hits the next `times` requests with this method and path.
    #[must_use]
    pub fn times(kind: FaultKind, method: &str, path: &str, times: u32) -> Self {
        Self {
            matching: FaultMatch {
                method: method.to_owned(),
                path: path.to_owned(),
            },
            kind,
            times,
        }
    }
}

/// The faults that are still to come.
#[derive(Debug, Default)]
pub(super) struct FaultQueue(VecDeque<Fault>);

impl FaultQueue {
    pub(super) fn push(&mut self, fault: Fault) {
        self.0.push_back(fault);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes one use of the first fault that covers the request, if it is of this kind: it strikes before the others are looked at.
    pub(super) fn take_kind(&mut self, kind: FaultKind, method: &str, path: &str) -> bool {
        let first = self.0.iter().find(|fault| fault.times > 0 && fault.matching.covers(method, path));
        first.is_some_and(|fault| fault.kind == kind) && self.take(method, path).is_some()
    }

    /// Takes one use of the first fault that covers the request.
    pub(super) fn take(&mut self, method: &str, path: &str) -> Option<FaultKind> {
        let at = self
            .0
            .iter()
            .position(|fault| fault.times > 0 && fault.matching.covers(method, path))?;
        let fault = self.0.get_mut(at)?;
        fault.times -= 1;
        let (kind, left) = (fault.kind, fault.times);
        if left == 0 {
            self.0.remove(at);
        }
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_used_up_and_hits_nothing_else() {
        let mut queue = FaultQueue::default();
        queue.push(Fault::times(FaultKind::Hang, "POST", "/v1/refunds", 2));
        queue.push(Fault::once(FaultKind::Truncate, "GET", "/v1/refunds/*"));
        assert_eq!(queue.take("GET", "/v1/refunds"), None);
        assert_eq!(queue.take("POST", "/v1/charges"), None);
        assert_eq!(queue.take("POST", "/v1/refunds"), Some(FaultKind::Hang));
        assert_eq!(queue.take("GET", "/v1/refunds/re_1"), Some(FaultKind::Truncate));
        assert_eq!(queue.take("GET", "/v1/refunds/re_1"), None);
        assert_eq!(queue.take("POST", "/v1/refunds"), Some(FaultKind::Hang));
        assert_eq!(queue.take("POST", "/v1/refunds"), None);
        assert_eq!(queue.all().count(), 0);
    }
}
