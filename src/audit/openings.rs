//! Whether every commitment can still be opened, or was erased as the log says: what an opening that is missing without a `pii.erased` shows is
//! that somebody took it away.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::brief::Text;
use super::kind::Note;
use crate::domain::digest::Digest;

/// How an opening stands beside the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningRow {
    /// The event.
    pub seq: u64,
    /// The commitment that it is filed under.
    pub digest: Digest,
    /// The tag of whom it is about, as `pii.erased` writes it.
    pub subject: String,
    /// How it stands.
    pub standing: Standing,
}

/// How an opening stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is there, sealed.
    Sealed,
    /// It is there and opens nothing: it was exchanged or changed. Only who has the keys can tell.
    Broken,
    /// It was erased.
    Erased,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OpeningsSeen {
    /// Commitments in the events.
    pub commitments: u64,
    /// Those with an opening.
    pub sealed: u64,
    /// Those without one, all covered by `pii.erased`.
    pub erased: u64,
}

/// The commitments of a log while its events are read, one after the other.
#[derive(Debug, Default)]
pub struct Commitments {
    open: BTreeMap<(u64, [u8; 32]), ()>,
    /// How many fields were erased, for each subject's tag.
    erased: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Told<'e> {
    #[serde(borrow, rename = "type")]
    kind: Text<'e>,
    #[serde(rename = "_sd", default)]
    sd: Vec<Digest>,
    #[serde(default)]
    erased: Option<Erased>,
}

#[derive(Deserialize)]
struct Erased {
    subject: String,
    fields: u64,
}

impl Commitments {
    /// Takes the next event.
    pub fn event(&mut self, seq: u64, leaf: &[u8]) {
        // What is no event the verification of the tree tells.
        let Ok(told) = serde_json::from_slice::<Told<'_>>(leaf) else {
            return;
        };
        self.open.extend(told.sd.iter().map(|digest| ((seq, *digest.as_bytes()), ())));
        if let Some(erased) = told.erased.filter(|_| told.kind == Note::PiiErased.as_str()) {
            let fields = self.erased.entry(erased.subject).or_default();
            *fields = fields.saturating_add(erased.fields);
        }
    }

    /// Compares them with the openings. What is wrong is a sentence each: the log is incomplete.
    pub fn compare(mut self, rows: impl IntoIterator<Item = OpeningRow>) -> (OpeningsSeen, Vec<String>) {
        let mut seen = OpeningsSeen {
            commitments: self.open.len() as u64,
            ..OpeningsSeen::default()
        };
        let mut wrong = Vec::new();
        let mut gone: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows {
            let seq = row.seq;
            if self.open.remove(&(seq, *row.digest.as_bytes())).is_none() {
                wrong.push(format!("an opening is filed under event {seq}, which has no such commitment"));
                continue;
            }
            match row.standing {
                Standing::Sealed => seen.sealed += 1,
                Standing::Broken => wrong.push(format!(
                    "the opening of a commitment of event {seq} does not open it: it was exchanged or changed"
                )),
                Standing::Erased => *gone.entry(row.subject).or_default() += 1,
            }
        }
        for (subject, n) in &gone {
            let told = self.erased.get(subject).copied().unwrap_or(0);
            seen.erased += (*n).min(told);
            if *n > told {
                wrong.push(format!(
                    "{n} openings under the tag {subject} are gone, and the log tells that {told} were erased"
                ));
            }
        }
        // Every opening has its row until its event is pruned.
        for (seq, _) in self.open.keys() {
            wrong.push(format!(
                "event {seq} has a commitment whose opening is missing, and nothing says that it was erased"
            ));
        }
        (seen, wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: u64, of: u8, standing: Standing) -> OpeningRow {
        OpeningRow {
            seq,
            digest: Digest::from_bytes([of; 32]),
            subject: "aa".to_owned(),
            standing,
        }
    }

    fn log(erased: u64) -> Commitments {
        let digest = |of: u8| Digest::from_bytes([of; 32]);
        let mut log = Commitments::default();
        log.event(
            0,
            format!(r#"{{"type":"draft.propose","_sd":["{}","{}"]}}"#, digest(1), digest(2)).as_bytes(),
        );
        log.event(1, br#"{"type":"log.start"}"#);
        log.event(2, format!(r#"{{"type":"approval.refuse","_sd":["{}"]}}"#, digest(3)).as_bytes());
        log.event(
            3,
            format!(r#"{{"type":"pii.erased","erased":{{"subject":"aa","fields":{erased},"basis":"x"}}}}"#).as_bytes(),
        );
        log
    }

    #[test]
    fn what_is_missing_must_have_been_erased_by_the_log_itself() {
        use Standing::{Broken, Erased, Sealed};
        let found = |erased, rows: &[OpeningRow]| log(erased).compare(rows.iter().cloned());
        let (seen, wrong) = found(1, &[row(0, 1, Sealed), row(0, 2, Erased), row(2, 3, Sealed)]);
        assert_eq!((seen.commitments, seen.sealed, seen.erased), (3, 2, 1));
        assert_eq!(wrong, [""; 0]);
        for (erased, rows, why) in [
            (
                0,
                vec![row(0, 1, Sealed), row(0, 2, Erased), row(2, 3, Sealed)],
                "tells that 0 were erased",
            ),
            (
                1,
                vec![row(0, 1, Erased), row(0, 2, Erased), row(2, 3, Sealed)],
                "2 openings under the tag aa are gone",
            ),
            (
                1,
                vec![row(0, 1, Sealed), row(0, 2, Erased)],
                "event 2 has a commitment whose opening is missing",
            ),
            (1, vec![row(0, 1, Sealed), row(0, 2, Erased), row(2, 3, Broken)], "does not open it"),
            (
                1,
                vec![row(0, 1, Sealed), row(0, 2, Erased), row(2, 4, Sealed)],
                "no such commitment",
            ),
        ] {
            let (_, wrong) = found(erased, &rows);
            assert!(wrong.iter().any(|told| told.contains(why)), "{why}: {wrong:?}");
        }
    }
}
