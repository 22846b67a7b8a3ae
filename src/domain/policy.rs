//! What a policy is asked and what it answers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::money::Money;
use super::name::{ClientId, OperationName, PrincipalId, QueueName};

/// The three answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It may run now; a rule signs.
    Allow,
    /// People must sign first.
    Ask,
    /// It may not run, whoever signs.
    Deny,
}

impl Outcome {
    /// The word used in files, events and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Exactly which policy answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRef {
    /// The policy's name.
    pub id: String,
    /// Its version, as its author counts.
    pub version: u64,
    /// SHA-256 over the rules' and the schema's bytes.
    pub sha256: Digest,
    /// SHA-256 over the limits' bytes.
    pub limits_sha256: Digest,
}

/// A rule that took part in the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its `@id`.
    pub id: String,
    /// Its `@reason`, a sentence for people.
    pub reason: String,
}

/// How many people of one queue must sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueNeed {
    /// The queue.
    pub queue: QueueName,
    /// How many different people, at least 1.
    pub count: u32,
    /// Whether each must have authenticated afresh for this.
    pub step_up: bool,
}

/// Everything that must be signed before a draft may run. Empty when a rule allowed it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// All of these; one person fills one place only.
    pub all_of: Vec<QueueNeed>,
}

/// One approver's counted signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Who signed.
    pub approver: PrincipalId,
    /// The queues in which it counts, by the approver's authority now.
    pub queues: BTreeSet<QueueName>,
    /// Whether the approver had authenticated afresh.
    pub step_up: bool,
}

impl Requirement {
    /// How many signatures are needed in all.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.all_of.iter().map(|need| need.count as usize).sum()
    }

    /// How many places the signatures can fill at once, when each person fills one place only.
    #[must_use]
    pub fn filled(&self, signatures: &[Signature]) -> usize {
        let places: Vec<&QueueNeed> = self
            .all_of
            .iter()
            .flat_map(|need| std::iter::repeat_n(need, need.count as usize))
            .collect();
        let mut people: Vec<&Signature> = Vec::new();
        for signature in signatures {
            if !people.iter().any(|p| p.approver == signature.approver) {
                people.push(signature);
            }
        }
        let mut holder: Vec<Option<usize>> = vec![None; people.len()];
        (0..places.len())
            .filter(|place| seat(*place, &places, &people, &mut holder, &mut vec![false; people.len()]))
            .count()
    }

    /// Whether the signatures fill every place.
    #[must_use]
    pub fn is_met(&self, signatures: &[Signature]) -> bool {
        self.filled(signatures) == self.needed()
    }
}

/// Finds somebody for `place`, moving others to another place if that frees one (augmenting path).
fn seat(place: usize, places: &[&QueueNeed], people: &[&Signature], holder: &mut [Option<usize>], seen: &mut [bool]) -> bool {
    let Some(need) = places.get(place) else { return false };
    for (index, person) in people.iter().enumerate() {
        let fits = person.queues.contains(&need.queue) && (person.step_up || !need.step_up);
        if !fits || seen.get(index).copied().unwrap_or(true) {
            continue;
        }
        if let Some(mark) = seen.get_mut(index) {
            *mark = true;
        }
        let free = match holder.get(index).copied().flatten() {
            None => true,
            Some(other) => seat(other, places, people, holder, seen),
        };
        if free {
            if let Some(slot) = holder.get_mut(index) {
                *slot = Some(place);
            }
            return true;
        }
    }
    false
}

/// What a policy is asked. Every fact comes from the registry, the backend or the store, never from the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The operation asked for.
    pub operation: OperationName,
    /// The client that asks.
    pub client: ClientId,
    /// The person answerable for the client.
    pub owner: Option<PrincipalId>,
    /// The amount, on operations that move money.
    pub amount: Option<Money>,
    /// The names of the fields a patch touches; empty on other operations.
    pub fields: BTreeSet<String>,
    /// How many drafts of this operation for the same customer were held or executed in the last 24 hours, this one included.
    pub recent: u64,
}

/// What a policy answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Allow, ask or deny.
    pub outcome: Outcome,
    /// The rules that decided: for `ask` and `deny` those that stood in the way, for `allow` those that permitted.
    pub rules: Vec<Rule>,
    /// Which policy answered.
    pub policy: PolicyRef,
    /// What must be signed; empty unless the answer is `ask`.
    pub requirement: Requirement,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(queue: &str, count: u32, step_up: bool) -> QueueNeed {
        QueueNeed {
            queue: queue.parse().unwrap(),
            count,
            step_up,
        }
    }

    fn signed(who: &str, queues: &[&str], step_up: bool) -> Signature {
        Signature {
            approver: who.parse().unwrap(),
            queues: queues.iter().map(|q| q.parse().unwrap()).collect(),
            step_up,
        }
    }

    #[test]
    fn one_person_fills_one_place_even_across_queues() {
        let both = Requirement {
            all_of: vec![need("finance", 1, false), need("security", 1, false)],
        };
        let mia = signed("usr_mia", &["finance", "security"], false);
        assert!(!both.is_met(std::slice::from_ref(&mia)));
        assert!(!both.is_met(&[mia.clone(), mia.clone()]));
        assert!(
            both.is_met(&[mia, signed("usr_tom", &["finance"], false)]),
            "mia must be moved to security"
        );
    }

    #[test]
    fn step_up_is_asked_of_every_signature_that_counts() {
        let strict = Requirement {
            all_of: vec![need("account.admins", 2, true)],
        };
        let fresh = signed("usr_a", &["account.admins"], true);
        assert!(!strict.is_met(&[fresh.clone(), signed("usr_b", &["account.admins"], false)]));
        assert!(strict.is_met(&[fresh, signed("usr_b", &["account.admins"], true)]));
    }

    #[test]
    fn an_empty_requirement_is_met_by_nobody() {
        assert!(Requirement::default().is_met(&[]));
    }
}
