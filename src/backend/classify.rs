//! What a backend's answer to a request means, by the backend's own ordered rules; what no rule covers is ambiguous.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::answer::Answer;
use super::condition::{Condition, Subject};
use super::operation::Operation;
use super::template::Context;
use super::text::unfit;
use crate::domain::draft::DraftDocument;

/// What happened at the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The effect stands.
    Applied,
    /// Accepted; the backend will decide later.
    Pending,
    /// Definitely not done and never will be.
    Failed,
    /// An earlier request under the same key is still running.
    InFlight,
    /// Turned away before anything ran; the same request may go again.
    NotExecuted,
    /// The key is known with another request: our fault, and a person's case.
    Mismatch,
    /// It cannot be told.
    Ambiguous,
}

impl Outcome {
    pub(super) const WORDS: &'static [(&'static str, Self)] = &[
        ("applied", Self::Applied),
        ("pending", Self::Pending),
        ("failed", Self::Failed),
        ("in_flight", Self::InFlight),
        ("not_executed", Self::NotExecuted),
        ("mismatch", Self::Mismatch),
        ("ambiguous", Self::Ambiguous),
    ];

    /// The word used in files, events and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::InFlight => "in_flight",
            Self::NotExecuted => "not_executed",
            Self::Mismatch => "mismatch",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// What an answer was taken to mean, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// What happened.
    pub outcome: Outcome,
    /// The backend's id of what was made, if the rule names one.
    pub reference: Option<String>,
    /// The rule's name, or why none applied.
    pub rule: String,
}

/// Statuses a rule covers, as inclusive ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statuses(pub(super) Vec<(u16, u16)>);

impl Statuses {
    /// Reads `200`, `5xx` or `401,403,404`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.split(',')
            .map(|part| {
                let part = part.trim();
                if let Some(class) = part.strip_suffix("xx") {
                    let class: u16 = class.parse().ok().filter(|c| (1..=5).contains(c))?;
                    return Some((class * 100, class * 100 + 99));
                }
                let status: u16 = part.parse().ok().filter(|s| (100..=599).contains(s))?;
                Some((status, status))
            })
            .collect::<Option<Vec<_>>>()
            .map(Self)
    }

    /// Whether it covers any of these.
    pub(super) fn meets(&self, range: RangeInclusive<u16>) -> bool {
        self.0.iter().any(|(from, to)| from <= range.end() && to >= range.start())
    }

    pub(super) fn covers(&self, status: u16) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&status))
    }
}

/// One rule: the first whose statuses and conditions fit decides.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) statuses: Statuses,
    pub(super) when: Vec<Condition>,
    /// What must equal the draft once the rule was chosen; if not, the answer is ambiguous.
    pub(super) require: Vec<Condition>,
    pub(super) outcome: Outcome,
    pub(super) reference: Option<String>,
}

impl Operation {
    /// What the answer to the draft's request means. The answer alone is judged: that a refusal after an ambiguous attempt proves nothing is for
    /// the caller to know.
    #[must_use]
    pub fn classify(&self, draft: &DraftDocument, answer: &Answer) -> Classified {
        let body = answer.json().unwrap_or(serde_json::Value::Null);
        self.judge(answer.status, &body, &answer.headers, &self.context(draft))
    }

    pub(super) fn judge(
        &self,
        status: u16,
        body: &serde_json::Value,
        headers: &BTreeMap<String, String>,
        context: &Context<'_>,
    ) -> Classified {
        let ambiguous = |rule: String| Classified {
            outcome: Outcome::Ambiguous,
            reference: None,
            rule,
        };
        let subject = Subject { body, headers };
        let rules = self.write().map_or(&[][..], |write| &write.rules);
        let chosen = rules
            .iter()
            .find(|rule| rule.statuses.covers(status) && rule.when.iter().all(|condition| condition.holds(subject, context)));
        let Some(rule) = chosen else {
            return ambiguous(format!("no rule covers this answer (status {status})"));
        };
        if let Some(broken) = rule.require.iter().find(|condition| !condition.holds(subject, context)) {
            return ambiguous(format!("{}: {} is not what the draft says", rule.name, broken.place()));
        }
        let reference = match &rule.reference {
            None => None,
            Some(pointer) => match reference(body, pointer) {
                Some(id) => Some(id),
                None => return ambiguous(format!("{}: there is no id at {pointer}", rule.name)),
            },
        };
        Classified {
            outcome: rule.outcome,
            reference,
            rule: rule.name.clone(),
        }
    }
}

/// The backend's id at a pointer. What the log could not hold, or a person not read, is no id.
pub(super) fn reference(body: &serde_json::Value, pointer: &str) -> Option<String> {
    let id = match body.pointer(pointer)? {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(n) => n.to_string(),
        _ => return None,
    };
    let fits = !id.is_empty() && id.len() <= 255 && unfit(&id).is_none();
    fits.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_meet_a_class_at_either_end_of_it() {
        let some = Statuses::parse("400,599").unwrap();
        assert!(some.meets(500..=599) && some.meets(400..=499) && !some.meets(200..=299));
    }

    #[test]
    fn statuses_are_single_numbers_or_classes() {
        let some = Statuses::parse("401,403, 5xx").unwrap();
        assert!(some.covers(401) && some.covers(503) && !some.covers(404));
        for bad in ["", "6xx", "xx", "20", "2x", "200-299", "700"] {
            assert_eq!(Statuses::parse(bad), None, "{bad}");
        }
    }
}
