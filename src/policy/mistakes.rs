//! Everything that is wrong with a policy's files, gathered so that it can be mended in one go.

use std::fmt;

use miette::Diagnostic;
use serde::Serialize;

/// One thing that is wrong in a policy's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The file's name inside the policy's directory.
    pub file: String,
    /// Where in it: a line, a key or a rule's id; empty for the file as a whole.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            place,
            problem,
            remedy,
        } = self;
        match place.as_str() {
            "" => write!(f, "{file}: {problem}; {remedy}"),
            _ => write!(f, "{file}, {place}: {problem}; {remedy}"),
        }
    }
}

/// All mistakes of one policy directory. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy has {} mistake(s): {}", .0.len(), .0.iter().map(Mistake::to_string).collect::<Vec<_>>().join(" | "))]
pub struct PolicyMistakes(pub Vec<Mistake>);

/// Collects mistakes while the files are read.
#[derive(Debug, Default)]
pub(super) struct Mistakes(Vec<Mistake>);

impl Mistakes {
    pub(super) fn add(&mut self, file: &str, place: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Mistake {
            file: file.to_owned(),
            place: place.into(),
            problem: problem.into(),
            remedy: remedy.into(),
        });
    }

    /// A message of the rule engine, with the line it points at in `source` and the engine's own hint as the remedy.
    pub(super) fn add_diagnostic(&mut self, file: &str, source: &str, named: &str, error: &impl Diagnostic, remedy: &str) {
        let offset = error.labels().and_then(|mut labels| labels.next()).map(|label| label.offset());
        let line = offset.map(|offset| format!("line {}", line_of(source, offset)));
        let place = match (line, named) {
            (Some(line), "") => line,
            (Some(line), rule) => format!("{line}, rule `{rule}`"),
            (None, "") => String::new(),
            (None, rule) => format!("rule `{rule}`"),
        };
        let hint = error.help().map_or_else(|| remedy.to_owned(), |help| format!("{remedy} ({help})"));
        self.add(file, place, without_number(&chain(error)), without_number(&hint));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value` if nothing is wrong and it could be built.
    pub(super) fn or<T>(self, value: Option<T>) -> Result<T, PolicyMistakes> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(PolicyMistakes(self.0)),
        }
    }
}

/// The rule engine numbers the rules it validates (`for policy `policy7`, `); people know them by their @id, which is in the place.
fn without_number(text: &str) -> String {
    const OPEN: &str = "for policy `policy";
    let cut = text
        .split_once(OPEN)
        .and_then(|(before, rest)| rest.split_once("`, ").map(|(_, after)| (before, after)));
    cut.map_or_else(|| text.to_owned(), |(before, after)| format!("{before}{after}"))
}

/// The message and those beneath it, without repetitions.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// The line of a byte offset, counted from 1.
pub(super) fn line_of(source: &str, offset: usize) -> usize {
    source.bytes().take(offset).filter(|b| *b == b'\n').count() + 1
}
