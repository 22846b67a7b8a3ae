//! What the backend says about a resource: before the draft, again before the request, and as the answer of a read.

use std::collections::BTreeMap;

use super::answer::{Answer, FieldError};
use super::condition::Subject;
use super::graphql::Reply;
use super::operation::{Action, Checked, Operation, Read, ReadPlan, Write};
use super::template::{Context, object, plain_text};
use crate::domain::draft::DraftDocument;
use crate::domain::json::Json;

/// The facts a draft holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Kept fields by read and name.
    pub json: Json,
    /// The resource's version, if the operation names one.
    pub resource_version: Option<String>,
    /// Whom the resource belongs to, if the operation names it and the backend knows; what is counted per customer is counted by this.
    pub subject: Option<String>,
}

/// The facts do not permit a draft.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    /// The backend has no such resource.
    #[error("the backend has no such {read}: check the id")]
    NotFound {
        /// The read's name.
        read: String,
    },
    /// The backend refused the read secret.
    #[error("the backend refused to show the {read} (status {status}): check the secret for reading and its permissions")]
    Refused {
        /// The read's name.
        read: String,
        /// The HTTP status.
        status: u16,
    },
    /// The backend did not answer as hoped.
    #[error("the backend did not show the {read} (status {status}): try again later")]
    Unavailable {
        /// The read's name.
        read: String,
        /// The HTTP status, 0 if there was no answer for it.
        status: u16,
    },
    /// The answer lacks what the file declares.
    #[error("the {read}: {source}")]
    Unreadable {
        /// The read's name.
        read: String,
        /// What is wrong with it.
        source: FieldError,
    },
    /// The parameters contradict what the backend says.
    #[error("{reason} (compared at {place})")]
    Contradicted {
        /// The place in the facts.
        place: String,
        /// What the backend file says about it.
        reason: String,
    },
}

/// The resource is not as it was when the draft was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// A fact changed.
    #[error("`{fact}` is no longer what the draft was approved with: propose a new draft")]
    Changed {
        /// The fact, as `read.name`.
        fact: String,
    },
    /// It cannot be known.
    #[error("whether the resource is unchanged cannot be known: {0}")]
    Unknown(#[source] FactsError),
    /// What the operation demands of the facts no longer holds.
    #[error("what the draft was approved on no longer holds: {0}")]
    Contradicted(#[source] FactsError),
}

impl FactsError {
    /// Whether the backend showed nothing to judge by: it was away, refused the secret, or answered in another shape. Nothing follows from it
    /// about the draft, and a later try may tell.
    #[must_use]
    pub const fn is_blind(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Unavailable { .. } | Self::Unreadable { .. })
    }
}

impl Stale {
    /// Whether nothing is known of a change: see [`FactsError::is_blind`].
    #[must_use]
    pub const fn is_blind(&self) -> bool {
        matches!(self, Self::Unknown(source) if source.is_blind())
    }
}

impl Operation {
    /// The reads whose answers [`Operation::facts`] takes, in this order; empty for an operation that only looks.
    #[must_use]
    pub fn fact_reads(&self, checked: &Checked) -> Vec<ReadPlan> {
        let context = Context {
            params: Some(checked.params()),
            ..Context::default()
        };
        let reads = self.write().map_or(&[][..], |write| &write.reads);
        reads.iter().filter_map(|read| read.plan(&self.backend, &context)).collect()
    }

    /// The facts from the answers to [`Operation::fact_reads`].
    ///
    /// # Errors
    /// [`FactsError`] if an answer is missing or unfit, or if the parameters contradict the facts.
    pub fn facts(&self, checked: &Checked, answers: &[Answer]) -> Result<Facts, FactsError> {
        let Some(write) = self.write() else {
            return Ok(Facts {
                json: object([]),
                resource_version: None,
                subject: None,
            });
        };
        let mut kept = BTreeMap::new();
        for (index, read) in write.reads.iter().enumerate() {
            let answer = answers.get(index).ok_or_else(|| FactsError::Unavailable {
                read: read.name.clone(),
                status: 0,
            })?;
            kept.insert(read.name.clone(), read.take(answer)?);
        }
        if let Some(why) = &write.unread {
            kept.insert("unread".to_owned(), Json::String(why.clone()));
        }
        let json = Json::Object(kept);
        let named = |fact: &Option<(String, String)>| {
            let (read, name) = fact.as_ref()?;
            plain_text(json.member(read)?.member(name)?)
        };
        let (resource_version, subject) = (named(&write.version), named(&write.subject));
        if let (None, Some((read, name))) = (&resource_version, &write.version) {
            return Err(FactsError::Unreadable {
                read: read.clone(),
                source: FieldError {
                    field: name.clone(),
                    reason: "the version must be there",
                },
            });
        }
        let context = Context {
            params: Some(checked.params()),
            facts: Some(&json),
            version: resource_version.as_deref(),
            exponent: self.exponent_of(checked.amount()),
            ..Context::default()
        };
        write.expected(&json, &context)?;
        Ok(Facts {
            json,
            resource_version,
            subject,
        })
    }

    /// The read to repeat before the request is sent; `None` if the operation asks for none.
    #[must_use]
    pub fn precondition(&self, draft: &DraftDocument) -> Option<ReadPlan> {
        let write = self.write()?;
        let precondition = write.precondition.as_ref()?;
        let read = write.reads.iter().find(|read| read.name == precondition.read)?;
        read.plan(&self.backend, &self.context(draft))
    }

    /// Whether the answer to [`Operation::precondition`] still shows what the draft was approved with.
    ///
    /// # Errors
    /// [`Stale`] with what changed, or why it cannot be known.
    pub fn precondition_holds(&self, draft: &DraftDocument, answer: &Answer) -> Result<(), Stale> {
        let Some((write, precondition)) = self.write().and_then(|write| Some((write, write.precondition.as_ref()?))) else {
            return Ok(());
        };
        let unknown = || {
            Stale::Unknown(FactsError::Unavailable {
                read: precondition.read.clone(),
                status: answer.status,
            })
        };
        let read = write.reads.iter().find(|read| read.name == precondition.read).ok_or_else(unknown)?;
        let now = read.take(answer).map_err(Stale::Unknown)?;
        let then = draft.facts.member(&precondition.read).ok_or_else(unknown)?;
        for name in &precondition.unchanged {
            if now.member(name) != then.member(name) {
                return Err(Stale::Changed {
                    fact: format!("{}.{name}", precondition.read),
                });
            }
        }
        let mut facts = match &draft.facts {
            Json::Object(facts) => facts.clone(),
            _ => BTreeMap::new(),
        };
        facts.insert(precondition.read.clone(), now);
        let facts = Json::Object(facts);
        let context = Context {
            facts: Some(&facts),
            ..self.context(draft)
        };
        write.expected(&facts, &context).map_err(Stale::Contradicted)
    }

    /// The GET of an operation that only looks; `None` for others.
    #[must_use]
    pub fn read_plan(&self, checked: &Checked) -> Option<ReadPlan> {
        let Action::Read(read) = &self.action else { return None };
        let context = Context {
            params: Some(checked.params()),
            ..Context::default()
        };
        read.plan(&self.backend, &context)
    }

    /// The declared fields of a read's answer, masked where the file says so; nothing else gets out.
    ///
    /// # Errors
    /// [`FactsError`] if the answer is not a success or lacks a declared field.
    pub fn shape(&self, answer: &Answer) -> Result<Json, FactsError> {
        match &self.action {
            Action::Read(read) => read.take(answer),
            Action::Write(_) => Ok(object([])),
        }
    }
}

impl Read {
    fn take(&self, answer: &Answer) -> Result<Json, FactsError> {
        let read = self.name.clone();
        match answer.status {
            status @ 200..=299 if self.question.is_some() => {
                let body = answer.json().unwrap_or(serde_json::Value::Null);
                match self.question.as_ref().map(|question| question.reply(&body)) {
                    Some(Reply::Missing) => Err(FactsError::NotFound { read }),
                    Some(Reply::Errors) => Err(FactsError::Unavailable { read, status }),
                    Some(Reply::Whole) | None => self.keep.take(answer).map_err(|source| FactsError::Unreadable { read, source }),
                }
            }
            200..=299 => self.keep.take(answer).map_err(|source| FactsError::Unreadable { read, source }),
            404 | 410 => Err(FactsError::NotFound { read }),
            401 | 403 => Err(FactsError::Refused {
                read,
                status: answer.status,
            }),
            status => Err(FactsError::Unavailable { read, status }),
        }
    }
}

impl Write {
    fn expected(&self, facts: &Json, context: &Context<'_>) -> Result<(), FactsError> {
        let body = facts.to_value();
        let headers = BTreeMap::new();
        let subject = Subject {
            body: &body,
            headers: &headers,
        };
        match self
            .expect
            .iter()
            .find(|expectation| !expectation.condition.holds(subject, context))
        {
            None => Ok(()),
            Some(expectation) => Err(FactsError::Contradicted {
                place: expectation.condition.place(),
                reason: expectation.reason.clone(),
            }),
        }
    }
}
