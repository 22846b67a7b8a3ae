//! Unit tests of a policy: questions with their right answers, in files beside it.
//!
//! Besides the answers this checks that annotations and rules agree: every rule that asks is lifted by exactly the approvals it names, and
//! not by one fewer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Policy;
use super::decide::MOST;
use super::facts::{StepUp, people};
use super::mistakes::{Mistakes, PolicyMistakes};
use crate::domain::json::Json;
use crate::domain::money::Money;
use crate::domain::name::{ClientId, OperationName, PrincipalId, QueueName};
use crate::domain::policy::{Answer, Outcome, Question, QueueNeed, Signature};

/// What a case wants, or what it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Allow, ask or deny.
    pub outcome: Outcome,
    /// The ids of the rules that decided, in any order.
    pub rules: BTreeSet<String>,
    /// Who must sign, by queue; only when it asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_of: Vec<QueueNeed>,
}

/// How one case went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// The file it stands in.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The right answer.
    pub wanted: Verdict,
    /// The answer.
    pub got: Verdict,
    /// Rules whose annotations and text disagree, found with this case's question.
    pub disagreements: Vec<String>,
}

impl CaseResult {
    /// Whether the answer was right and no rule was found to disagree with its annotations.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.wanted == self.got && self.disagreements.is_empty()
    }
}

/// How all cases went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseReport {
    /// Each case, in the order of the files' names.
    pub cases: Vec<CaseResult>,
    /// Rules that took part in no answer: nobody would notice if they were wrong.
    pub unfired: Vec<String>,
}

impl CaseReport {
    /// Whether every case passed and every rule took part in one.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.unfired.is_empty() && self.cases.iter().all(CaseResult::passed)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    operation: OperationName,
    client: ClientId,
    owner: Option<PrincipalId>,
    amount: Option<Money>,
    #[serde(default)]
    fields: BTreeSet<String>,
    recent: u64,
    /// Present: the question is whether these are enough. Absent: whether it may run.
    signatures: Option<Vec<Signed>>,
    want: Verdict,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    approver: PrincipalId,
    queues: BTreeSet<QueueName>,
    step_up: bool,
}

/// Runs every case in the `.json` files of `dir`.
///
/// # Errors
/// [`PolicyMistakes`] with every case that cannot be read. A wrong answer is no error; it is in the report.
pub fn run(policy: &Policy, dir: &Path) -> Result<CaseReport, PolicyMistakes> {
    let mut fired = BTreeSet::new();
    let mut results = Vec::new();
    for (file, case) in read(dir)? {
        let question = Question {
            operation: case.operation,
            client: case.client,
            owner: case.owner,
            amount: case.amount,
            fields: case.fields,
            recent: case.recent,
        };
        let answer = match case.signatures {
            None => policy.propose(&question),
            Some(signed) => policy.confirm(&question, &signed.into_iter().map(Signature::from).collect::<Vec<_>>()),
        };
        let disagreements = match answer.outcome {
            Outcome::Ask => disagreements(policy, &question, &answer),
            Outcome::Allow | Outcome::Deny => Vec::new(),
        };
        let got = Verdict::from(answer);
        fired.extend(got.rules.iter().cloned());
        results.push(CaseResult {
            file,
            name: case.name,
            wanted: case.want,
            got,
            disagreements,
        });
    }
    let ids = policy.notes.iter().map(|note| &note.rule.id);
    Ok(CaseReport {
        cases: results,
        unfired: ids.filter(|id| !fired.contains(*id)).cloned().collect(),
    })
}

impl From<Signed> for Signature {
    fn from(signed: Signed) -> Self {
        Self {
            approver: signed.approver,
            queues: signed.queues,
            step_up: signed.step_up,
        }
    }
}

impl From<Answer> for Verdict {
    fn from(answer: Answer) -> Self {
        Self {
            outcome: answer.outcome,
            rules: answer.rules.into_iter().map(|rule| rule.id).collect(),
            all_of: answer.requirement.all_of,
        }
    }
}

/// People of one queue only, and other people for each queue.
fn signers(policy: &Policy, question: &Question, need: &QueueNeed, count: u32, step_up: StepUp) -> Vec<Signature> {
    let place = policy.queues().iter().position(|queue| *queue == need.queue).unwrap_or_default();
    let stem = format!("queue-{place}");
    people(
        question.owner.as_ref(),
        &stem,
        count,
        &BTreeSet::from([need.queue.clone()]),
        step_up,
    )
}

/// As many people as there could be, in every queue but this one.
fn elsewhere(policy: &Policy, question: &Question, queue: &QueueName) -> Vec<Signature> {
    let queues = policy.queues().iter().filter(|other| *other != queue).cloned().collect();
    people(question.owner.as_ref(), "elsewhere", MOST, &queues, StepUp::Fresh)
}

/// Where the rules that asked are not lifted by exactly what they ask for.
fn disagreements(policy: &Policy, question: &Question, answer: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    let asked = policy.notes.iter().filter(|note| answer.rules.contains(&note.rule));
    for (id, need) in asked.filter_map(|note| note.need.as_ref().map(|need| (&note.rule.id, need))) {
        let QueueNeed { queue, count, step_up } = need;
        let stands = |signatures: &[Signature]| match policy.in_the_way(question, signatures) {
            Ok(rules) => rules.contains(id),
            Err(_) => true,
        };
        let enough = if *step_up { StepUp::Fresh } else { StepUp::Stale };
        if stands(&signers(policy, question, need, *count, enough)) {
            found.push(format!("rule `{id}` asks for {count} of {queue} and is not lifted by them"));
        }
        let others = elsewhere(policy, question, queue);
        let fewer = signers(policy, question, need, count.saturating_sub(1), StepUp::Fresh);
        if !stands(&[fewer, others.clone()].concat()) {
            found.push(format!(
                "rule `{id}` asks for {count} of {queue} and is lifted by fewer, or by people of another queue"
            ));
        }
        let stale = signers(policy, question, need, *count, StepUp::Stale);
        if *step_up && !stands(&[stale, others].concat()) {
            found.push(format!("rule `{id}` asks for a fresh sign-in and is lifted without one"));
        }
    }
    let exact = answer.requirement.all_of.iter().flat_map(|need| {
        let step_up = if need.step_up { StepUp::Fresh } else { StepUp::Stale };
        signers(policy, question, need, need.count, step_up)
    });
    let confirmed = policy.confirm(question, &exact.collect::<Vec<_>>());
    if confirmed.outcome != Outcome::Allow {
        let rules: Vec<&str> = confirmed.rules.iter().map(|rule| rule.id.as_str()).collect();
        found.push(format!(
            "everybody who was asked has signed, and `{}` still stands in the way",
            rules.join("`, `")
        ));
    }
    found
}

/// Every case with its file's name; all mistakes at once.
fn read(dir: &Path) -> Result<Vec<(String, Case)>, PolicyMistakes> {
    let mut mistakes = Mistakes::default();
    let mut cases: Vec<(String, Case)> = Vec::new();
    for path in files(dir, &mut mistakes) {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                mistakes.add(&file, "", format!("cannot be read: {error}"), "make it readable");
                continue;
            }
        };
        let entries = match Json::parse(&bytes) {
            Ok(Json::Array(entries)) => entries,
            Ok(_) => {
                mistakes.add(&file, "", "is not a list of cases", "write [ {...}, ... ]");
                continue;
            }
            Err(error) => {
                mistakes.add(&file, error.pointer, error.reason, "correct the JSON");
                continue;
            }
        };
        for (index, entry) in entries.iter().enumerate() {
            match entry.decode::<Case>() {
                Err(error) => mistakes.add(&file, format!("/{index}{}", error.pointer), error.reason, "correct the case"),
                Ok(case) if cases.iter().any(|(_, other)| other.name == case.name) => mistakes.add(
                    &file,
                    format!("/{index}/name"),
                    format!("`{}` is the name of another case", case.name.escape_debug()),
                    "give each case its own name",
                ),
                Ok(case) => cases.push((file.clone(), case)),
            }
        }
    }
    if cases.is_empty() && mistakes.is_empty() {
        let place = dir.display().to_string();
        mistakes.add("cases", place, "there is no case", "add a .json file with at least one");
    }
    mistakes.or(Some(cases))
}

fn files(dir: &Path, mistakes: &mut Mistakes) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(dir).and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>());
    match listed {
        Ok(mut paths) => {
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
            paths.sort();
            paths
        }
        Err(error) => {
            let remedy = format!("make a directory {} with .json files", dir.display());
            mistakes.add("cases", "", format!("cannot be listed: {error}"), remedy);
            Vec::new()
        }
    }
}
