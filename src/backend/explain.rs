//! What a backend file means, in words: what would be sent for a sample, and what each answer would be taken for. No secret is needed for it.

use serde::Serialize;
use std::collections::BTreeMap;

use super::classify::{Classified, Outcome, Rule};
use super::condition::Condition;
use super::facts::Facts;
use super::operation::{Operation, Write};
use super::reconcile::{Step, StepKind};
use super::retry::Replay;
use super::template::{Context, Reference, object};
use super::told::{EventRule, Events, Trust};
use super::{CompileError, ParamError};
use crate::domain::draft::{CompiledRequest, KEY_PLACEHOLDER, KeyPlacement};
use crate::domain::id::DraftId;
use crate::domain::json::Json;

/// What is done with one operation's sample.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// The operation.
    pub operation: String,
    /// What is read when a draft is made.
    pub reads: Vec<String>,
    /// Facts that are read again right before the request leaves, and must be unchanged.
    pub unchanged: Vec<String>,
    /// The exact request; facts stand in angle brackets.
    pub request: CompiledRequest,
    /// Where the key goes and until when it may be sent again.
    pub key: String,
    /// The rules, in their order; the first that fits decides.
    pub answers: Vec<AnswerLine>,
    /// How a lost answer is looked up, in order.
    pub look_ups: Vec<String>,
    /// What the backend tells by itself, in order; the first that fits decides.
    pub events: Vec<AnswerLine>,
    /// What of an event is signed, and so all that is looked at; empty where all of it is.
    pub signed: Vec<String>,
}

/// One rule in words.
#[derive(Debug, Serialize)]
pub struct AnswerLine {
    /// Its name.
    pub rule: String,
    /// What must be there for it to decide.
    pub when: String,
    /// What must equal the draft; if not, the answer is ambiguous.
    pub require: Vec<String>,
    /// What it means.
    pub outcome: &'static str,
    /// What happens next.
    pub then: &'static str,
}

/// A sample cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The parameters do not fit.
    #[error("the sample does not fit: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Params(Vec<ParamError>),
    /// The request cannot be written.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// It only looks.
    #[error("the operation only looks: there is nothing to send")]
    Read,
}

impl Operation {
    /// What would be sent for these parameters, and what each answer would mean. Facts nobody has read stand as their names in angle brackets.
    ///
    /// # Errors
    /// [`ExplainError`] if the parameters do not fit the operation.
    pub fn explain(&self, params: &Json, draft: &DraftId) -> Result<Explained, ExplainError> {
        let write = self.write().ok_or(ExplainError::Read)?;
        let checked = self.check(params).map_err(ExplainError::Params)?;
        let facts = write.stand_ins();
        let request = self.compile(draft, &checked, &facts)?;
        let context = Context {
            params: Some(checked.params()),
            facts: Some(&facts.json),
            draft: Some(draft),
            key: Some(KEY_PLACEHOLDER),
            version: facts.resource_version.as_deref(),
            exponent: self.exponent_of(checked.amount()),
            found: Some("ID"),
        };
        let unchanged = write
            .precondition
            .iter()
            .flat_map(|p| p.unchanged.iter().map(move |fact| format!("{}.{fact}", p.read)));
        Ok(Explained {
            operation: self.name.to_string(),
            reads: self
                .fact_reads(&checked)
                .into_iter()
                .map(|plan| line(&plan.url, plan.question.is_some()))
                .collect(),
            unchanged: unchanged.collect(),
            key: write.key(&request),
            request,
            answers: write.rules.iter().map(|rule| rule.line(self)).collect(),
            look_ups: write.steps.iter().map(|step| self.step(step, &context)).collect(),
            events: write.events.as_ref().map(Events::lines).unwrap_or_default(),
            signed: self.signed_places().map(<[String]>::to_vec).unwrap_or_default(),
        })
    }

    /// What an answer would mean for these parameters.
    ///
    /// # Errors
    /// [`ExplainError`] if the parameters do not fit the operation.
    pub fn explain_answer(
        &self,
        params: &Json,
        draft: &DraftId,
        status: u16,
        headers: &BTreeMap<String, String>,
        body: &serde_json::Value,
    ) -> Result<(Classified, &'static str), ExplainError> {
        let write = self.write().ok_or(ExplainError::Read)?;
        let checked = self.check(params).map_err(ExplainError::Params)?;
        let facts = write.stand_ins();
        let context = Context {
            params: Some(checked.params()),
            facts: Some(&facts.json),
            draft: Some(draft),
            key: None,
            version: facts.resource_version.as_deref(),
            exponent: self.exponent_of(checked.amount()),
            found: None,
        };
        let classified = self.judge(status, body, headers, &context);
        let then = self.then(classified.outcome);
        Ok((classified, then))
    }

    fn then(&self, outcome: Outcome) -> &'static str {
        let again = self.retry().is_some_and(|retry| retry.on.contains(&outcome));
        match outcome {
            Outcome::Applied => "done",
            Outcome::Pending => "looked up until it is settled; nothing is sent again",
            Outcome::Failed => "not done; after an attempt in doubt it is looked up first",
            Outcome::InFlight | Outcome::NotExecuted if again => "the same bytes under the same key again, after waiting",
            Outcome::NotExecuted => "not done; after an attempt in doubt it is looked up first",
            Outcome::Mismatch => "a person's case; nothing is sent again",
            Outcome::InFlight | Outcome::Ambiguous => "looked up; if nothing decides, a person's case",
        }
    }

    fn step(&self, step: &Step, context: &Context<'_>) -> String {
        let what = match &step.kind {
            StepKind::Replay => "the same bytes under the same key, if every look before it said \"not there\"".to_owned(),
            StepKind::Get { path, query, .. } => self.shown(path.render(context), &super::template::query(query, context), false),
            StepKind::List { path, query, question, .. } => {
                self.shown(path.render(context), &super::template::query(query, context), question.is_some())
            }
            StepKind::Follow { path, .. } => format!("{}, then each id it names", self.shown(path.render(context), "", false)),
            StepKind::Show { path } => format!("{}, once the backend has given an id", self.shown(path.render(context), "", false)),
        };
        format!("{}: {what}", step.name)
    }

    fn shown(&self, path: Option<String>, query: &str, question: bool) -> String {
        line(&self.backend.url(&path.unwrap_or_default(), query), question)
    }
}

fn line(url: &str, question: bool) -> String {
    if question {
        format!("POST {url} (a GraphQL query)")
    } else {
        format!("GET {url}")
    }
}

impl Write {
    /// Facts that nobody has read: each kept name in angle brackets.
    fn stand_ins(&self) -> Facts {
        let stand_in = |read: &str, name: &str| Json::String(format!("<{read}.{name}>"));
        let kept = self.reads.iter().map(|read| {
            let fields = read.keep.names().map(|name| (name.to_owned(), stand_in(&read.name, name)));
            (read.name.clone(), object(fields))
        });
        Facts {
            json: object(kept),
            resource_version: self.version.as_ref().map(|(read, name)| format!("<{read}.{name}>")),
            subject: None,
        }
    }

    fn key(&self, request: &CompiledRequest) -> String {
        let place = match &request.idempotency_key {
            KeyPlacement::Header { name, .. } => format!("in the header `{name}`"),
            KeyPlacement::Body => format!("in the body, where {KEY_PLACEHOLDER} stands"),
            KeyPlacement::None => return "none: it is sent once and never again".to_owned(),
        };
        let left = self.window.window.saturating_sub(self.window.safety).as_secs();
        let replay = match self.window.replay {
            Replay::Never => "nothing to rely on",
            Replay::Stored => "the first answer",
            Replay::CurrentState => "how it stands then",
            Replay::ReexecutesFailures => "a success unchanged, a failure anew",
        };
        format!("{place}; sent for {left} s from the first time at most; a repetition gives {replay}")
    }
}

impl Events {
    fn lines(&self) -> Vec<AnswerLine> {
        let then = |outcome: Outcome| match (self.trust, outcome) {
            (Trust::LookUp, _) => "the backend is looked at; what is found there counts",
            (Trust::Event, Outcome::Applied) => "done, on the event's word",
            (Trust::Event, Outcome::Failed) => "not done, on the event's word, also after it was done",
            (Trust::Event, _) => "still waited for, on the event's word",
        };
        let line = |rule: &EventRule| AnswerLine {
            rule: rule.name.clone(),
            when: std::iter::once(rule.types.join(","))
                .chain(rule.when.iter().map(Condition::words))
                .collect::<Vec<_>>()
                .join(" and "),
            require: self.require.iter().map(Condition::words).collect(),
            outcome: rule.outcome.as_str(),
            then: then(rule.outcome),
        };
        self.on.iter().map(line).collect()
    }
}

impl Rule {
    fn line(&self, operation: &Operation) -> AnswerLine {
        let statuses: Vec<String> = self
            .statuses
            .0
            .iter()
            .map(|(from, to)| {
                if from == to {
                    from.to_string()
                } else {
                    format!("{}xx", from / 100)
                }
            })
            .collect();
        let conditions = self.when.iter().map(Condition::words);
        AnswerLine {
            rule: self.name.clone(),
            when: std::iter::once(statuses.join(","))
                .chain(conditions)
                .collect::<Vec<_>>()
                .join(" and "),
            require: self.require.iter().map(Condition::words).collect(),
            outcome: self.outcome.as_str(),
            then: operation.then(self.outcome),
        }
    }
}

impl Reference {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Param(path) => format!("{{params.{}}}", path.join(".")),
            Self::Fact(read, name) => format!("{{facts.{read}.{name}}}"),
            Self::DraftId => "{draft.id}".to_owned(),
            Self::Key => "{idem.key}".to_owned(),
            Self::Version => "{resource.version}".to_owned(),
            Self::Found => "{found.id}".to_owned(),
        }
    }
}
