//! What was expected and what came, one line each, and the table at the end.

use std::io::{self, Write};

use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use serde::Serialize;

use super::Look;
use super::page::short;

/// One assertion on what came over HTTP or on what the backend saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The chapter it belongs to, from 1.
    pub chapter: usize,
    /// What it proves.
    pub name: String,
    /// What should have come.
    pub expected: String,
    /// What came.
    pub got: String,
    /// Whether they are the same.
    pub ok: bool,
}

impl Check {
    /// A check that holds if the two texts are equal.
    #[must_use]
    pub fn new(chapter: usize, name: impl Into<String>, expected: impl ToString, got: impl ToString) -> Self {
        let (expected, got) = (expected.to_string(), got.to_string());
        Self {
            chapter,
            name: name.into(),
            ok: expected == got,
            expected,
            got,
        }
    }
}

/// What the run proved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Every check, in the order of the story.
    pub checks: Vec<Check>,
}

impl Summary {
    /// How many checks did not hold.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.ok).count()
    }

    /// The last line of the run.
    #[must_use]
    pub fn line(&self) -> String {
        format!("demo: {} checks, {} failed", self.checks.len(), self.failed())
    }

    /// Writes the table.
    ///
    /// # Errors
    /// What the output says.
    pub(super) fn table(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new();
        match look {
            Look::Plain => table.load_preset(presets::NOTHING),
            Look::Terminal => table
                .load_preset(presets::UTF8_FULL_CONDENSED)
                .set_content_arrangement(ContentArrangement::Dynamic),
        };
        table.set_header(["", "check", "expected", "got", ""]);
        for check in &self.checks {
            let (word, colour) = if check.ok { ("ok", Color::Green) } else { ("FAILED", Color::Red) };
            let verdict = match look {
                Look::Plain => Cell::new(word),
                Look::Terminal => Cell::new(word).fg(colour),
            };
            table.add_row([
                Cell::new(check.chapter),
                Cell::new(&check.name),
                Cell::new(legible(&check.expected)),
                Cell::new(legible(&check.got)),
                verdict,
            ]);
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The text with hashes and ids cut short. Two texts that differ stay apart by their ends, and `--json` has them whole.
fn legible(text: &str) -> String {
    let word = |word: &str| {
        if word.len() > 30 && word.bytes().any(|b| b.is_ascii_digit()) {
            short(word)
        } else {
            word.to_owned()
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_whose_answer_differs_is_counted_as_failed_and_shown_so() {
        let summary = Summary {
            checks: vec![Check::new(1, "one refund", 1, 1), Check::new(1, "no second one", 1, 2)],
        };
        assert_eq!(summary.line(), "demo: 2 checks, 1 failed");
        let mut out = Vec::new();
        summary.table(Look::Plain, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.lines().any(|line| line.contains("no second one") && line.ends_with("FAILED")),
            "{text}"
        );
    }
}
