//! A question turned into the rule engine's own types. Values are built, never written as text and read back.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression, Schema};

use super::limits::Limits;
use super::mistakes::chain;
use crate::domain::money::{Currency, Money};
use crate::domain::name::{OperationName, PrincipalId, QueueName};
use crate::domain::policy::{Question, Signature};

/// The facts do not fit the schema, or could not be built. Whoever meets it denies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unfit(String);

impl Unfit {
    fn because(error: &dyn std::error::Error) -> Self {
        Self(chain(error))
    }
}

/// Builds entities and requests that the schema is checked against.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    schema: Schema,
    limits: Limits,
    queues: BTreeSet<QueueName>,
    types: Types,
}

#[derive(Debug, Clone)]
struct Types {
    agent: EntityTypeName,
    user: EntityTypeName,
    draft: EntityTypeName,
    currency: EntityTypeName,
    action: EntityTypeName,
}

fn type_named(name: &str) -> Result<EntityTypeName, Unfit> {
    name.parse().map_err(|error| Unfit::because(&error))
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn entity(uid: EntityUid, attributes: HashMap<String, RestrictedExpression>) -> Result<Entity, Unfit> {
    Entity::new(uid, attributes, HashSet::new()).map_err(|error| Unfit::because(&error))
}

fn record(members: impl IntoIterator<Item = (String, RestrictedExpression)>) -> Result<RestrictedExpression, Unfit> {
    RestrictedExpression::new_record(members).map_err(|error| Unfit::because(&error))
}

/// A count as the rules see it. Saturates: a count beyond the range is as large as any limit.
fn long(count: impl TryInto<i64>) -> RestrictedExpression {
    RestrictedExpression::new_long(count.try_into().unwrap_or(i64::MAX))
}

impl Facts {
    pub(super) fn new(schema: Schema, limits: Limits, queues: BTreeSet<QueueName>) -> Result<Self, Unfit> {
        let types = Types {
            agent: type_named("Agent")?,
            user: type_named("User")?,
            draft: type_named("Draft")?,
            currency: type_named("Currency")?,
            action: type_named("Action")?,
        };
        Ok(Self {
            schema,
            limits,
            queues,
            types,
        })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn queues(&self) -> &BTreeSet<QueueName> {
        &self.queues
    }

    pub(super) fn action(&self, operation: &OperationName) -> EntityUid {
        uid(&self.types.action, operation.as_str())
    }

    fn user(&self, person: &PrincipalId) -> RestrictedExpression {
        RestrictedExpression::new_entity_uid(uid(&self.types.user, person.as_str()))
    }

    fn currency(&self, currency: Currency) -> Result<Entity, Unfit> {
        let limits = self.limits.by_currency.get(&currency);
        let attributes = limits.map_or_else(HashMap::new, |limits| {
            HashMap::from([
                ("ask_above".to_owned(), long(limits.ask_above)),
                ("two_above".to_owned(), long(limits.two_above)),
                ("never_above".to_owned(), long(limits.never_above)),
            ])
        });
        entity(uid(&self.types.currency, currency.as_str()), attributes)
    }

    fn amount(&self, amount: &Money) -> Result<RestrictedExpression, Unfit> {
        let currency = uid(&self.types.currency, amount.currency().as_str());
        record([
            ("minor".to_owned(), long(amount.minor())),
            ("currency".to_owned(), RestrictedExpression::new_entity_uid(currency)),
        ])
    }

    /// The agent, the draft and its currency, and the schema's actions.
    pub(super) fn entities(&self, question: &Question) -> Result<Entities, Unfit> {
        let owner = question.owner.iter().map(|owner| ("owner".to_owned(), self.user(owner)));
        let mut entities = vec![entity(uid(&self.types.agent, question.client.as_str()), owner.collect())?];
        let fields = question.fields.iter().cloned().map(RestrictedExpression::new_string);
        let mut draft = HashMap::from([
            ("fields".to_owned(), RestrictedExpression::new_set(fields)),
            ("recent".to_owned(), long(question.recent)),
        ]);
        if let Some(amount) = &question.amount {
            draft.insert("amount".to_owned(), self.amount(amount)?);
            entities.push(self.currency(amount.currency())?);
        }
        entities.push(entity(self.draft(), draft)?);
        Entities::from_entities(entities, Some(&self.schema)).map_err(|error| Unfit::because(&error))
    }

    /// The one draft in question; its own id is of no concern to a rule.
    fn draft(&self) -> EntityUid {
        uid(&self.types.draft, "this")
    }

    /// The request, with the signatures as its context. A person who signed twice counts once, by the first signature.
    pub(super) fn request(&self, question: &Question, signatures: &[Signature]) -> Result<Request, Unfit> {
        let mut people: Vec<&Signature> = Vec::new();
        for signature in signatures {
            if !people.iter().any(|person| person.approver == signature.approver) {
                people.push(signature);
            }
        }
        let by_queue = |counts: &dyn Fn(&Signature) -> bool| {
            record(self.queues.iter().map(|queue| {
                let number = people
                    .iter()
                    .filter(|person| person.queues.contains(queue) && counts(person))
                    .count();
                (queue.to_string(), long(number))
            }))
        };
        let approvers = people.iter().map(|person| self.user(&person.approver));
        let context = Context::from_pairs([
            ("approvers".to_owned(), RestrictedExpression::new_set(approvers)),
            ("signed".to_owned(), by_queue(&|_| true)?),
            ("fresh".to_owned(), by_queue(&|person| person.step_up)?),
        ])
        .map_err(|error| Unfit::because(&error))?;
        let agent = uid(&self.types.agent, question.client.as_str());
        Request::new(agent, self.action(&question.operation), self.draft(), context, Some(&self.schema))
            .map_err(|error| Unfit::because(&error))
    }
}

/// `count` different people, none of them the owner, who sign in `queues`.
pub(super) fn people(owner: Option<&PrincipalId>, stem: &str, count: u32, queues: &BTreeSet<QueueName>, step_up: StepUp) -> Vec<Signature> {
    // One more than wanted, since at most one of the names can be the owner's.
    (0..=count)
        .filter_map(|number| format!("usr_{stem}-{number}").parse::<PrincipalId>().ok())
        .filter(|person| Some(person) != owner)
        .take(count as usize)
        .map(|approver| Signature {
            approver,
            queues: queues.clone(),
            step_up: step_up == StepUp::Fresh,
        })
        .collect()
}

/// Whether imagined people have authenticated afresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepUp {
    Fresh,
    Stale,
}
