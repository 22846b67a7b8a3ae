//! Looking a lost result up: which reads to make, and what their answers prove. "Not found" proves nothing unless the file says so.

use std::time::Duration;

use serde_json::Value as Answered;

use super::answer::Answer;
use super::classify::{Classified, Outcome, reference as named};
use super::condition::{Condition, Subject};
use super::operation::{Operation, ReadPlan};
use super::template::{Context, Expression, Path, query as written};
use crate::domain::draft::{DraftDocument, IdempotencyKey};

/// One step of a look-up. Steps are taken in order until one decides.
#[derive(Debug, Clone)]
pub struct Step {
    pub(super) name: String,
    pub(super) kind: StepKind,
    pub(super) absent: Option<Proof>,
}

#[derive(Debug, Clone)]
pub(super) enum StepKind {
    /// The same bytes under the same key, inside the window.
    Replay,
    /// One resource; the effect stands if all conditions hold.
    Get {
        path: Path,
        query: Vec<(String, Expression)>,
        found: Vec<Condition>,
        reference: Option<String>,
    },
    /// A list; the item that matches is judged by the operation's own rules.
    List {
        path: Path,
        query: Vec<(String, Expression)>,
        items: String,
        matching: Vec<Condition>,
        next: Option<NextPage>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct NextPage {
    pub(super) more: String,
    pub(super) param: String,
    pub(super) last: String,
    pub(super) pages: usize,
}

/// When "not found" proves that nothing happened and nothing will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// How long after the last send the first look may happen.
    pub settle: Duration,
    /// How often it must be looked, the same answer each time.
    pub repeats: u32,
}

/// What a step found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The result, judged by the operation's own rules.
    Found(Classified),
    /// The list goes on: read this too and evaluate again with all answers so far.
    More(ReadPlan),
    /// It is not there. Without a proof that means nothing.
    Absent {
        /// When it means that nothing happened.
        proof: Option<Proof>,
    },
    /// The step decided nothing.
    Inconclusive {
        /// Why, for the next person.
        why: String,
    },
}

impl Step {
    /// What the file calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the step is to send the same request again, which only [`super::Window::resend_before`] permits.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        matches!(self.kind, StepKind::Replay)
    }
}

impl Operation {
    /// The read a step begins with; `None` for a replay.
    #[must_use]
    pub fn look_up(&self, step: &Step, draft: &DraftDocument, key: &IdempotencyKey) -> Option<ReadPlan> {
        self.page(step, draft, key, None)
    }

    /// What the answers so far say. `answers` are those of [`Operation::look_up`] and of every [`Finding::More`] since, in order.
    #[must_use]
    pub fn evaluate(&self, step: &Step, draft: &DraftDocument, key: &IdempotencyKey, answers: &[Answer]) -> Finding {
        let inconclusive = |why: String| Finding::Inconclusive { why };
        if let Some(answer) = answers.iter().find(|answer| !answer.is_success()) {
            return inconclusive(format!("{}: the backend answered {}", step.name, answer.status));
        }
        let text = key.to_string();
        let context = Context {
            key: Some(&text),
            ..self.context(draft)
        };
        match &step.kind {
            StepKind::Replay => inconclusive(format!("{}: send the same request again", step.name)),
            StepKind::Get { found, reference, .. } => {
                let Some((answer, body)) = answers.last().and_then(|answer| Some((answer, answer.json()?))) else {
                    return inconclusive(format!("{}: the answer is not JSON", step.name));
                };
                let subject = Subject {
                    body: &body,
                    headers: &answer.headers,
                };
                if !found.iter().all(|condition| condition.holds(subject, &context)) {
                    return Finding::Absent { proof: step.absent };
                }
                let reference = match reference {
                    None => None,
                    Some(pointer) => match named(&body, pointer) {
                        Some(id) => Some(id),
                        None => return inconclusive(format!("{}: there is no id at {pointer}", step.name)),
                    },
                };
                Finding::Found(Classified {
                    outcome: Outcome::Applied,
                    reference,
                    rule: step.name.clone(),
                })
            }
            StepKind::List { items, matching, next, .. } => {
                let mut hits = Vec::new();
                let mut last = None;
                let mut more = false;
                for answer in answers {
                    let Some(body) = answer.json() else {
                        return inconclusive(format!("{}: the answer is not JSON", step.name));
                    };
                    let Some(page) = body.pointer(items).and_then(Answered::as_array) else {
                        return inconclusive(format!("{}: there is no list at {items}", step.name));
                    };
                    more = match next.as_ref().map(|next| (next, body.pointer(&next.more))) {
                        None => false,
                        Some((_, Some(Answered::Bool(more)))) => *more,
                        Some((next, _)) => {
                            return inconclusive(format!(
                                "{}: whether the list goes on cannot be read, there is no true or false at {}",
                                step.name, next.more
                            ));
                        }
                    };
                    last = next
                        .as_ref()
                        .and_then(|next| page.last()?.pointer(&next.last)?.as_str().map(str::to_owned));
                    let fits = |item: &&Answered| {
                        let subject = Subject {
                            body: item,
                            headers: &answer.headers,
                        };
                        matching.iter().all(|condition| condition.holds(subject, &context))
                    };
                    hits.extend(page.iter().filter(fits).cloned());
                }
                if more {
                    let most = next.as_ref().map_or(1, |next| next.pages);
                    return match last
                        .filter(|_| answers.len() < most)
                        .and_then(|last| self.page(step, draft, key, Some(&last)))
                    {
                        Some(plan) => Finding::More(plan),
                        None => inconclusive(format!("{}: the list is longer than {most} pages", step.name)),
                    };
                }
                match hits.as_slice() {
                    [] if answers.is_empty() => inconclusive(format!("{}: nothing was read", step.name)),
                    [] => Finding::Absent { proof: step.absent },
                    [item] => {
                        let headers = std::collections::BTreeMap::new();
                        let classified = self.judge(200, item, &headers, &context);
                        match classified.outcome {
                            Outcome::Applied | Outcome::Pending | Outcome::Failed => Finding::Found(classified),
                            _ => inconclusive(format!("{}: one matches, but {}", step.name, classified.rule)),
                        }
                    }
                    several => inconclusive(format!(
                        "{}: {} entries carry this draft's mark; more than one effect may stand",
                        step.name,
                        several.len()
                    )),
                }
            }
        }
    }

    fn page(&self, step: &Step, draft: &DraftDocument, key: &IdempotencyKey, after: Option<&str>) -> Option<ReadPlan> {
        let text = key.to_string();
        let context = Context {
            key: Some(&text),
            ..self.context(draft)
        };
        let (path, values, next) = match &step.kind {
            StepKind::Replay => return None,
            StepKind::Get { path, query, .. } => (path, query, None),
            StepKind::List { path, query, next, .. } => (path, query, next.as_ref()),
        };
        let mut query = written(values, &context);
        if let (Some(after), Some(next)) = (after, next) {
            let pair = form_urlencoded::Serializer::new(String::new())
                .append_pair(&next.param, after)
                .finish();
            query = if query.is_empty() { pair } else { format!("{query}&{pair}") };
        }
        Some(ReadPlan {
            backend: self.backend.name.clone(),
            name: step.name.clone(),
            url: self.backend.url(&path.render(&context)?, &query),
        })
    }
}
