//! Looking a lost result up: which reads to make, and what their answers prove. "Not found" proves nothing unless the file says so.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Answered;

use super::answer::Answer;
use super::classify::{Classified, Outcome, reference as named};
use super::condition::{Condition, Subject};
use super::graphql::{Question, Reply};
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
        question: Option<Question>,
        items: String,
        /// Where an item would stand in the answer to the write, so that the same rules read it.
        within: Option<String>,
        matching: Vec<Condition>,
        next: Option<NextPage>,
    },
    /// One resource that lists ids, and then each of those; the one that matches is judged by the operation's own rules.
    Follow {
        path: Path,
        /// What must hold of the first answer for its list to count.
        require: Vec<Condition>,
        ids: String,
        each: Path,
        most: usize,
        matching: Vec<Condition>,
    },
    /// What the backend gave an id to, by that id; judged by the operation's own rules.
    Show { path: Path },
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

    /// Whether the step can be taken: one that asks by the backend's own id needs that id.
    #[must_use]
    pub const fn applies(&self, reference: Option<&str>) -> bool {
        !matches!(self.kind, StepKind::Show { .. }) || reference.is_some()
    }
}

impl Operation {
    /// Whether a look-up can ask by the backend's own id of what was made.
    #[must_use]
    pub fn shows(&self) -> bool {
        self.reconcile().iter().any(|step| matches!(step.kind, StepKind::Show { .. }))
    }

    /// The read a step begins with; `None` for a replay, and for one that needs the backend's own id of what was made if `reference` is none.
    #[must_use]
    pub fn look_up(&self, step: &Step, draft: &DraftDocument, key: &IdempotencyKey, reference: Option<&str>) -> Option<ReadPlan> {
        let text = key.to_string();
        let context = Context {
            key: Some(&text),
            found: reference,
            ..self.context(draft)
        };
        let (path, values) = match &step.kind {
            StepKind::Replay => return None,
            StepKind::Get { path, query, .. } | StepKind::List { path, query, .. } => (path, query.as_slice()),
            StepKind::Follow { path, .. } | StepKind::Show { path } => (path, &[][..]),
        };
        let mut plan = self.read_of(step, path, &written(values, &context), &context)?;
        if let StepKind::List {
            question: Some(question), ..
        } = &step.kind
        {
            plan.question = Some(question.body(&context));
        }
        Some(plan)
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
            StepKind::Show { .. } => {
                let Some((answer, body)) = answers.last().and_then(|answer| Some((answer, answer.json()?))) else {
                    return inconclusive(format!("{}: the answer is not JSON", step.name));
                };
                self.judged(step, answer.status, &body, &answer.headers, &context)
            }
            StepKind::List { .. } => self.in_list(step, answers, &context),
            StepKind::Follow { .. } => self.among_ids(step, answers, &context),
        }
    }

    fn in_list(&self, step: &Step, answers: &[Answer], context: &Context<'_>) -> Finding {
        let inconclusive = |why: String| Finding::Inconclusive {
            why: format!("{}: {why}", step.name),
        };
        let StepKind::List {
            path,
            query,
            question,
            items,
            within,
            matching,
            next,
        } = &step.kind
        else {
            return inconclusive("is no list".to_owned());
        };
        let mut hits = Vec::new();
        let mut more = None;
        for answer in answers {
            let Some(body) = answer.json() else {
                return inconclusive("the answer is not JSON".to_owned());
            };
            if question
                .as_ref()
                .is_some_and(|question| matches!(question.reply(&body), Reply::Errors))
            {
                return inconclusive("the answer holds errors".to_owned());
            }
            let Some(page) = body.pointer(items).and_then(Answered::as_array) else {
                return inconclusive(format!("there is no list at {items}"));
            };
            more = match next.as_ref().map(|next| (next, body.pointer(&next.more))) {
                None | Some((_, Some(Answered::Bool(false)))) => None,
                Some((next, Some(Answered::Bool(true)))) => {
                    let last = page.last().and_then(|item| item.pointer(&next.last)?.as_str());
                    Some(last.map(str::to_owned))
                }
                Some((next, _)) => {
                    return inconclusive(format!(
                        "whether the list goes on cannot be read, there is no true or false at {}",
                        next.more
                    ));
                }
            };
            hits.extend(page.iter().filter(|item| fits(matching, item, &answer.headers, context)).cloned());
        }
        if let (Some(after), Some(next)) = (more, next) {
            let Some(after) = after.filter(|_| answers.len() < next.pages) else {
                return inconclusive(format!("the list is longer than {} pages", next.pages));
            };
            let mut query = written(query, context);
            let pair = form_urlencoded::Serializer::new(String::new())
                .append_pair(&next.param, &after)
                .finish();
            query = if query.is_empty() { pair } else { format!("{query}&{pair}") };
            return match self.read_of(step, path, &query, context) {
                Some(plan) => Finding::More(plan),
                None => inconclusive("the next page cannot be asked for".to_owned()),
            };
        }
        let hits: Vec<Answered> = hits.into_iter().map(|item| placed(item, within.as_deref())).collect();
        self.one_of(step, &hits, answers.is_empty(), context)
    }

    fn among_ids(&self, step: &Step, answers: &[Answer], context: &Context<'_>) -> Finding {
        let inconclusive = |why: String| Finding::Inconclusive {
            why: format!("{}: {why}", step.name),
        };
        let StepKind::Follow {
            require,
            ids,
            each,
            most,
            matching,
            ..
        } = &step.kind
        else {
            return inconclusive("names no ids".to_owned());
        };
        let Some((first, shown)) = answers.split_first() else {
            return inconclusive("nothing was read".to_owned());
        };
        let Some(body) = first.json().filter(|body| fits(require, body, &first.headers, context)) else {
            return inconclusive("the answer is not about this draft's resource".to_owned());
        };
        let listed = match body.pointer(ids) {
            None | Some(Answered::Null) => Vec::new(),
            Some(Answered::Array(ids)) => ids
                .iter()
                .map(|id| id.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .unwrap_or_default(),
            Some(_) => return inconclusive(format!("there is no list of ids at {ids}")),
        };
        if body
            .pointer(ids)
            .and_then(Answered::as_array)
            .is_some_and(|all| all.len() != listed.len())
        {
            return inconclusive(format!("what is listed at {ids} are not ids"));
        }
        if listed.len() > *most {
            return inconclusive(format!("more than {most} ids are listed at {ids}"));
        }
        if let Some(id) = listed.get(shown.len()) {
            let context = Context {
                found: Some(id),
                ..*context
            };
            return match self.read_of(step, each, "", &context) {
                Some(plan) => Finding::More(plan),
                None => inconclusive("one of the ids cannot stand in a path".to_owned()),
            };
        }
        let mut hits = Vec::new();
        for answer in shown {
            let Some(body) = answer.json() else {
                return inconclusive("the answer is not JSON".to_owned());
            };
            if fits(matching, &body, &answer.headers, context) {
                hits.push(body);
            }
        }
        self.one_of(step, &hits, false, context)
    }

    /// What it means that these carry the draft's mark.
    fn one_of(&self, step: &Step, hits: &[Answered], unread: bool, context: &Context<'_>) -> Finding {
        match hits {
            [] if unread => Finding::Inconclusive {
                why: format!("{}: nothing was read", step.name),
            },
            [] => Finding::Absent { proof: step.absent },
            [item] => self.judged(step, 200, item, &BTreeMap::new(), context),
            several => Finding::Inconclusive {
                why: format!(
                    "{}: {} entries carry this draft's mark; more than one effect may stand",
                    step.name,
                    several.len()
                ),
            },
        }
    }

    fn judged(&self, step: &Step, status: u16, body: &Answered, headers: &BTreeMap<String, String>, context: &Context<'_>) -> Finding {
        let classified = self.judge(status, body, headers, context);
        match classified.outcome {
            Outcome::Applied | Outcome::Pending | Outcome::Failed => Finding::Found(classified),
            _ => Finding::Inconclusive {
                why: format!("{}: one matches, but {}", step.name, classified.rule),
            },
        }
    }

    fn read_of(&self, step: &Step, path: &Path, query: &str, context: &Context<'_>) -> Option<ReadPlan> {
        Some(ReadPlan {
            backend: self.backend.name.clone(),
            name: step.name.clone(),
            url: self.backend.url(&path.render(context)?, query),
            question: None,
        })
    }
}

fn fits(conditions: &[Condition], body: &Answered, headers: &BTreeMap<String, String>, context: &Context<'_>) -> bool {
    conditions
        .iter()
        .all(|condition| condition.holds(Subject { body, headers }, context))
}

/// The item, at the place where the rules look for it.
fn placed(item: Answered, within: Option<&str>) -> Answered {
    let Some(steps) = within.and_then(|pointer| pointer.strip_prefix('/')) else {
        return item;
    };
    steps.rsplit('/').fold(item, |inner, step| {
        let name = step.replace("~1", "/").replace("~0", "~");
        Answered::Object(std::iter::once((name, inner)).collect())
    })
}
