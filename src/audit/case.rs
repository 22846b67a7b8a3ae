//! The events of one support case, as far as they are there: each says which of its case's it is, and what the one before it hashes to. What is
//! missing at the beginning is no gap if the log says that it was pruned.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::brief::{Brief, CaseChain, CaseMark};
use super::kind::Note;
use super::tree::{Hash, leaf_hash};

/// A place where the events of a case do not follow each other: something is missing, or was put there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseGap {
    /// The number, in the log, of the event before which it is.
    pub seq: u64,
    /// Which of its case's events it should be.
    pub expected: u64,
    /// Which it says it is; `None` if it says nothing.
    pub found: Option<u64>,
}

/// What of a case is not there any more because it was pruned, as an event of the log tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CasePruned {
    /// The last of its case's events that is gone; 0 where they were not counted yet.
    pub n: u64,
    /// The first event of the log that was pruned with it.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// When, as the event says it.
    pub at: String,
    /// The number of the event that tells of it.
    pub seq: u64,
    /// SHA-256 of the list of files of the bundle that has them.
    pub bundle_sha256: String,
}

impl CasePruned {
    /// What this event of the log tells about the event before this place of a case, which is number `gone` of the log; `None` if it does not
    /// tell that it was pruned.
    pub(crate) fn told(event: &Brief<'_>, place: &CaseMark<'_>, gone: u64) -> Option<Self> {
        let pruned = event.pruned.as_ref().filter(|_| event.kind == Note::RetentionPruned.as_str())?;
        (gone <= pruned.to && gone < event.seq).then(|| Self {
            n: place.n.saturating_sub(1),
            from: pruned.from,
            to: pruned.to,
            at: event.time.to_string(),
            seq: event.seq,
            bundle_sha256: pruned.bundle_sha256.to_string(),
        })
    }
}

impl fmt::Display for CasePruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n, from, to, at, seq, .. } = self;
        write!(f, "events {from}..{to} were pruned on {at}, as event {seq} tells, and with them ")?;
        match n {
            0 => f.write_str("the first of the case")?,
            n => write!(f, "the case's up to its number {n}")?,
        }
        f.write_str("; the bundle of that time has them")
    }
}

/// The events of one tenant's case that are there, in the order of the log.
pub struct CaseEvents<'e>(Vec<(u64, Hash, Option<CaseMark<'e>>)>);

impl<'e> CaseEvents<'e> {
    /// Reads the events of a case of this name, each tenant's for itself: they count within their tenant.
    pub fn of_each_tenant(events: impl IntoIterator<Item = (u64, &'e [u8])>) -> Vec<Self> {
        let mut found: BTreeMap<Option<String>, Self> = BTreeMap::new();
        for (seq, bytes) in events {
            let event = Brief::read(bytes).ok();
            let tenant = event.as_ref().and_then(|event| event.tenant.as_deref()).map(str::to_owned);
            let place = event.and_then(|event| event.case);
            let own = found.entry(tenant).or_insert_with(|| Self(Vec::new()));
            own.0.push((seq, leaf_hash(bytes), place));
        }
        found.into_values().collect()
    }

    /// The place of the first event that is there.
    fn first(&self) -> Option<&CaseMark<'e>> {
        self.0.first().and_then(|(_, _, place)| place.as_ref())
    }

    /// The hash of the event that the first one that is there follows; `None` if it is the case's first.
    #[must_use]
    pub fn follows(&self) -> Option<Hash> {
        self.first().and_then(CaseMark::follows)
    }

    /// What the log says of the event that the first one that is there follows: `told` was proven to be an event of it, and to be about that one.
    #[must_use]
    pub fn pruned(&self, told: &[u8]) -> Option<CasePruned> {
        CasePruned::told(&Brief::read(told).ok()?, self.first()?, 0)
    }

    /// Where they do not follow each other.
    #[must_use]
    pub fn gaps(&self, pruned: Option<&CasePruned>) -> Vec<CaseGap> {
        let start = self.first().filter(|_| pruned.is_some());
        let mut chain = start.map_or_else(CaseChain::default, CaseChain::before);
        let each = self.0.iter().filter_map(|(seq, leaf, place)| {
            let expected = chain.due();
            let is_next = chain.next(place.as_ref(), *leaf).is_ok();
            let found = place.as_ref().map(|place| place.n);
            (!is_next).then_some(CaseGap {
                seq: *seq,
                expected,
                found,
            })
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::digest::Digest;

    fn event(case: &str) -> String {
        format!("{{{case}\"seq\":0,\"time\":\"\",\"type\":\"x\",\"v\":2}}")
    }

    /// Events as a store writes them: counted, each with the hash of the one before.
    fn chain(length: u64) -> Vec<(u64, String)> {
        let mut events: Vec<(u64, String)> = Vec::new();
        for n in 1..=length {
            let previous = events.last().map_or_else(String::new, |(_, before)| {
                format!(",\"previous\":\"{}\"", Digest::from_bytes(leaf_hash(before.as_bytes()).0))
            });
            events.push((10 * n, event(&format!("\"case\":{{\"n\":{n}{previous}}},"))));
        }
        events
    }

    fn gaps(events: &[(u64, String)]) -> Vec<(u64, u64, Option<u64>)> {
        let events = events.iter().map(|(seq, text)| (*seq, text.as_bytes()));
        let own = CaseEvents::of_each_tenant(events);
        let gaps = own.iter().flat_map(|own| own.gaps(None));
        gaps.map(|gap| (gap.seq, gap.expected, gap.found)).collect()
    }

    #[test]
    fn a_whole_case_has_no_gap_also_after_events_that_were_not_counted_yet() {
        assert_eq!(gaps(&chain(5)), []);
        let old = (1, event(""));
        let previous = Digest::from_bytes(leaf_hash(old.1.as_bytes()).0);
        let first = event(&format!("\"case\":{{\"n\":1,\"previous\":\"{previous}\"}},"));
        assert_eq!(gaps(&[old, (2, first)]), []);
    }

    #[test]
    fn an_event_that_is_missing_at_any_place_but_the_last_is_found() {
        for missing in 0..4 {
            let mut events = chain(5);
            events.remove(missing);
            let at = missing as u64 + 1;
            assert_eq!(gaps(&events), [(10 * (at + 1), at, Some(at + 1))], "{missing}");
        }
    }

    #[test]
    fn an_event_that_was_changed_or_put_between_is_found() {
        let mut events = chain(3);
        events[1].1 = events[1].1.replace("\"v\":2", "\"v\":3");
        assert_eq!(gaps(&events), [(30, 3, Some(3))], "the next one names another hash");
        let mut events = chain(3);
        events.insert(1, (15, event("")));
        assert_eq!(gaps(&events), [(15, 2, None), (20, 2, Some(2))]);
        let mut events = chain(2);
        events[1].1 = event("");
        assert_eq!(gaps(&events), [(20, 2, None)], "an old event does not come after a new one");
    }

    #[test]
    fn a_beginning_that_was_pruned_is_no_gap_and_what_is_missing_after_it_is_one() {
        let told = |kind: &str| {
            let pruned = "\"pruned\":{\"bundle_sha256\":\"b\",\"from\":3,\"root\":\"r\",\"to\":25}";
            format!("{{{pruned},\"seq\":60,\"time\":\"2026-11-29\",\"type\":\"{kind}\",\"v\":2}}")
        };
        let events = chain(5);
        let rest = |from: usize, without: usize| {
            let there = events.iter().enumerate().filter(move |(at, _)| *at >= from && *at != without);
            let own = there.map(|(_, (seq, text))| (*seq, text.as_bytes()));
            CaseEvents::of_each_tenant(own).pop().unwrap()
        };
        assert_eq!(rest(0, 9).follows(), None);
        assert_eq!(rest(2, 9).follows(), Some(leaf_hash(events[1].1.as_bytes())));
        assert_eq!(
            rest(2, 9).pruned(told("retention.held").as_bytes()),
            None,
            "another event tells nothing"
        );
        let pruned = rest(2, 9).pruned(told("retention.pruned").as_bytes()).unwrap();
        assert_eq!((pruned.n, pruned.from, pruned.to, pruned.seq), (2, 3, 25, 60));
        assert!(pruned.to_string().starts_with("events 3..25 were pruned on 2026-11-29"));
        assert_eq!(rest(2, 9).gaps(Some(&pruned)), []);
        assert_eq!(rest(2, 9).gaps(None).len(), 1);
        let gap = rest(2, 3).gaps(Some(&pruned)).pop().unwrap();
        assert_eq!((gap.seq, gap.expected, gap.found), (50, 4, Some(5)));
    }

    #[test]
    fn what_was_pruned_is_before_what_the_log_says_was() {
        let place = CaseMark { n: 3, previous: None };
        let text = "{\"pruned\":{\"root\":\"r\",\"to\":25},\"seq\":60,\"time\":\"t\",\"type\":\"retention.pruned\",\"v\":2}";
        let event = Brief::read(text.as_bytes()).unwrap();
        assert!(CasePruned::told(&event, &place, 25).is_some());
        assert_eq!(CasePruned::told(&event, &place, 26), None);
    }
}
