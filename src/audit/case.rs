//! Whether the events of one support case are all there: each says which of its case's it is, and what the one before it hashes to.

use serde::Serialize;

use super::tree::leaf_hash;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

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

/// Looks at the events of one case of one tenant, from the first on, in the order of the log.
#[must_use]
pub fn case_gaps<'e>(events: impl IntoIterator<Item = (u64, &'e [u8])>) -> Vec<CaseGap> {
    let mut gaps = Vec::new();
    let mut count = 0;
    let mut previous: Option<Digest> = None;
    for (seq, bytes) in events {
        let event = Json::parse_deeper(bytes).ok();
        let version = event.as_ref().and_then(|event| event.member("v")).and_then(Json::as_integer);
        let place = event.as_ref().and_then(|event| event.member("case"));
        let found = place
            .and_then(|place| place.member("n"))
            .and_then(Json::as_integer)
            .and_then(|n| u64::try_from(n).ok());
        let before = place
            .and_then(|place| place.member("previous"))
            .and_then(Json::as_str)
            .and_then(Digest::parse);
        // Events of the first version are not counted; they stand before all that are.
        let is_uncounted = version == Some(1) && place.is_none() && count == 0;
        let expected = count + 1;
        if !is_uncounted {
            if found != Some(expected) || before != previous {
                gaps.push(CaseGap { seq, expected, found });
            }
            count = found.unwrap_or(expected);
        }
        previous = Some(Digest::from_bytes(leaf_hash(bytes).0));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events as a store writes them: counted, each with the hash of the one before.
    fn chain(length: u64) -> Vec<(u64, String)> {
        let mut events: Vec<(u64, String)> = Vec::new();
        for n in 1..=length {
            let previous = events.last().map_or_else(String::new, |(_, before)| {
                format!(",\"previous\":\"{}\"", Digest::from_bytes(leaf_hash(before.as_bytes()).0))
            });
            events.push((10 * n, format!("{{\"case\":{{\"n\":{n}{previous}}},\"v\":2}}")));
        }
        events
    }

    fn gaps(events: &[(u64, String)]) -> Vec<(u64, u64, Option<u64>)> {
        let events = events.iter().map(|(seq, text)| (*seq, text.as_bytes()));
        case_gaps(events)
            .into_iter()
            .map(|gap| (gap.seq, gap.expected, gap.found))
            .collect()
    }

    #[test]
    fn a_whole_case_has_no_gap_also_after_events_that_were_not_counted_yet() {
        assert_eq!(gaps(&chain(5)), []);
        let old = (1, "{\"v\":1}".to_owned());
        let first = format!(
            "{{\"case\":{{\"n\":1,\"previous\":\"{}\"}},\"v\":2}}",
            Digest::from_bytes(leaf_hash(old.1.as_bytes()).0)
        );
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
        events.insert(1, (15, "{\"v\":2}".to_owned()));
        assert_eq!(gaps(&events), [(15, 2, None), (20, 3, Some(2))]);
        let mut events = chain(2);
        events[1].1 = "{\"v\":1}".to_owned();
        assert_eq!(gaps(&events), [(20, 2, None)], "an old event does not come after a new one");
    }
}
