//! The three questions.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{Authorizer, Decision, Entities};

use super::Policy;
use super::facts::{StepUp, people};
use super::rules::reserved;
use crate::domain::name::QueueName;
use crate::domain::operation::Consequence;
use crate::domain::policy::{Answer, Outcome, Question, QueueNeed, Requirement, Rule, Signature};

/// The most people that a rule may ask for (`@need` is one digit): this many in each queue is the best that could exist.
pub(super) const MOST: u32 = 9;

/// What one evaluation found: the rules that decided it.
pub(super) enum Found {
    /// These permit it.
    Permitted(BTreeSet<String>),
    /// These forbid it; none if no rule permits it.
    Forbidden(BTreeSet<String>),
}

impl Policy {
    /// May it run now, and if not, who must sign?
    #[must_use]
    pub fn propose(&self, question: &Question) -> Answer {
        self.decide(question).unwrap_or_else(|rule| self.deny(vec![rule]))
    }

    /// Are these signatures enough? They count by the approvers' authority now, which the caller has looked up. Allows or denies, never
    /// asks.
    #[must_use]
    pub fn confirm(&self, question: &Question, signatures: &[Signature]) -> Answer {
        self.decide_signed(question, signatures)
            .unwrap_or_else(|rule| self.deny(vec![rule]))
    }

    fn decide(&self, question: &Question) -> Result<Answer, Rule> {
        let entities = self.known(question)?;
        let bare = self.evaluate(question, &entities, &[])?;
        let best = people(question.owner.as_ref(), "approver", MOST, self.queues(), StepUp::Fresh);
        let best = self.evaluate(question, &entities, &best)?;
        let answer = match (bare, best) {
            (_, Found::Forbidden(rules)) => return Ok(self.forbidden(&rules)),
            (Found::Permitted(rules), Found::Permitted(_)) => self.answer(Outcome::Allow, self.named(&rules), Requirement::default()),
            (Found::Forbidden(rules), Found::Permitted(_)) => self.ask(&rules),
        };
        // Held here as well as by a rule: an edit of the rules must not let money move by an amount nobody compared.
        if self.consequence(&question.operation) == Some(Consequence::Money) && question.amount.is_none() {
            return Err(own(
                reserved::MISSING_AMOUNT,
                "the operation moves money and the draft names no amount and currency",
            ));
        }
        Ok(answer)
    }

    fn decide_signed(&self, question: &Question, signatures: &[Signature]) -> Result<Answer, Rule> {
        let entities = self.known(question)?;
        let rules = match self.evaluate(question, &entities, signatures)? {
            Found::Forbidden(rules) => return Ok(self.forbidden(&rules)),
            Found::Permitted(rules) => rules,
        };
        let unsigned = self.decide(question)?;
        if unsigned.outcome == Outcome::Deny {
            return Ok(unsigned);
        }
        // The rules count each queue by itself. That one person in two queues is still one person is settled here.
        if unsigned.requirement.is_met(signatures) {
            Ok(self.answer(Outcome::Allow, self.named(&rules), Requirement::default()))
        } else {
            Err(own(
                reserved::PLACE_UNFILLED,
                "each rule by itself is satisfied and a place is still unfilled: every place needs its own person, with a fresh sign-in where one is asked",
            ))
        }
    }

    /// The facts about a question whose operation the schema lists.
    fn known(&self, question: &Question) -> Result<Entities, Rule> {
        if self.consequence(&question.operation).is_none() {
            return Err(own(reserved::UNKNOWN_OPERATION, "the policy does not know this operation"));
        }
        self.facts.entities(question).map_err(|unfit| not_evaluated(&unfit.to_string()))
    }

    /// Evaluates the rules once. Any error is the answer: the engine skips a rule that fails, and a skipped `forbid` would allow.
    fn evaluate(&self, question: &Question, entities: &Entities, signatures: &[Signature]) -> Result<Found, Rule> {
        let request = self
            .facts
            .request(question, signatures)
            .map_err(|unfit| not_evaluated(&unfit.to_string()))?;
        let response = Authorizer::new().is_authorized(&request, &self.rules, entities);
        if let Some(error) = response.diagnostics().errors().next() {
            return Err(not_evaluated(&error.to_string()));
        }
        let rules = response.diagnostics().reason().map(ToString::to_string).collect();
        Ok(match response.decision() {
            Decision::Allow => Found::Permitted(rules),
            Decision::Deny => Found::Forbidden(rules),
        })
    }

    /// The rules that stand in the way of a question under these signatures; none if it may run or nothing permits it.
    pub(super) fn in_the_way(&self, question: &Question, signatures: &[Signature]) -> Result<BTreeSet<String>, Rule> {
        match self.evaluate(question, &self.known(question)?, signatures)? {
            Found::Permitted(_) => Ok(BTreeSet::new()),
            Found::Forbidden(rules) => Ok(rules),
        }
    }

    /// Asks those who can lift the rules that approvals lift. For each queue the largest number that any of the rules needs.
    fn ask(&self, rules: &BTreeSet<String>) -> Answer {
        let mut needs: BTreeMap<QueueName, QueueNeed> = BTreeMap::new();
        let fired = || self.notes.iter().filter(|note| rules.contains(&note.rule.id));
        let silent: Vec<&str> = fired()
            .filter(|note| note.need.is_none())
            .map(|note| note.rule.id.as_str())
            .collect();
        if !silent.is_empty() || rules.is_empty() {
            let reason = format!("approvals would lift `{}`, which does not say whose", silent.join("`, `"));
            return self.deny(vec![own(reserved::NOBODY_TO_ASK, &reason)]);
        }
        for need in fired().filter_map(|note| note.need.as_ref()) {
            needs
                .entry(need.queue.clone())
                .and_modify(|most| {
                    most.count = most.count.max(need.count);
                    most.step_up |= need.step_up;
                })
                .or_insert_with(|| need.clone());
        }
        let requirement = Requirement {
            all_of: needs.into_values().collect(),
        };
        self.answer(Outcome::Ask, self.named(rules), requirement)
    }

    fn forbidden(&self, rules: &BTreeSet<String>) -> Answer {
        if rules.is_empty() {
            return self.deny(vec![own(reserved::NO_PERMIT, "no rule permits this operation")]);
        }
        self.deny(self.named(rules))
    }

    fn deny(&self, rules: Vec<Rule>) -> Answer {
        self.answer(Outcome::Deny, rules, Requirement::default())
    }

    fn answer(&self, outcome: Outcome, rules: Vec<Rule>, requirement: Requirement) -> Answer {
        Answer {
            outcome,
            rules,
            policy: self.reference.clone(),
            requirement,
        }
    }

    /// The rules of these ids, in the order of the file.
    fn named(&self, ids: &BTreeSet<String>) -> Vec<Rule> {
        self.notes
            .iter()
            .map(|note| &note.rule)
            .filter(|rule| ids.contains(&rule.id))
            .cloned()
            .collect()
    }
}

fn own(id: &str, reason: &str) -> Rule {
    Rule {
        id: id.to_owned(),
        reason: reason.to_owned(),
    }
}

fn not_evaluated(what: &str) -> Rule {
    own(
        reserved::EVALUATION_ERROR,
        &format!("the rules could not be evaluated, so nothing is allowed: {what}"),
    )
}
