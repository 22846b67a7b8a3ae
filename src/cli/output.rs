//! How answers look: JSON for programs, tables and colour on a terminal, aligned text elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::json;

use super::error::CliError;
use crate::config;
use crate::domain::text::escaped;

/// For whom output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Format {
    /// Says what went wrong on standard error, as lines for people or as one object for programs, and which exit code tells it.
    pub(super) fn report(self, error: &CliError) -> ExitCode {
        let (lines, code) = match error {
            CliError::Usage(line) => (std::slice::from_ref(line), 2),
            CliError::Failed(lines) => (lines.as_slice(), 1),
            CliError::Ended(code, line) => (std::slice::from_ref(line), *code),
            CliError::Answered(code) => return ExitCode::from(*code),
            CliError::Closed => return ExitCode::SUCCESS,
        };
        let mut errors = std::io::stderr().lock();
        // Nobody is left to be told if this cannot be printed.
        match self {
            Self::Json => drop(writeln!(
                errors,
                "{}",
                json!({ "error": lines.join("\n"), "errors": lines, "exit": code })
            )),
            Self::Text => lines.iter().for_each(|line| drop(writeln!(errors, "error: {line}"))),
        }
        ExitCode::from(code)
    }
}

/// Whether text may be decorated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Tables with lines, and colour.
    Terminal,
    /// Neither.
    Plain,
}

/// Terminals of fewer columns than this get tables of their natural width.
const NARROW: u16 = 80;

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    format: Format,
    style: Style,
}

/// Whether what is written to a stream may be coloured (<https://no-color.org>).
pub(super) fn colour(stream_is_terminal: bool) -> bool {
    stream_is_terminal && config::environment("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl Output {
    pub(super) fn new(format: Format) -> Self {
        let style = if colour(std::io::stdout().is_terminal()) {
            Style::Terminal
        } else {
            Style::Plain
        };
        Self { format, style }
    }

    /// For whom output is written.
    pub(super) const fn format(&self) -> Format {
        self.format
    }

    /// Prints the value as JSON, or what `text` makes, whichever was asked for. A line end is added where there is none.
    pub(super) fn answer(&self, value: &impl Serialize, text: impl FnOnce(&Self) -> String) -> Result<(), CliError> {
        let text = match self.format {
            Format::Text => text(self),
            Format::Json => serde_json::to_string_pretty(value).map_err(CliError::failed)?,
        };
        raw(&text)
    }

    /// As [`Output::answer`], with the JSON on one line: for a server, whose output goes on.
    pub(super) fn answer_line(&self, value: &impl Serialize, text: impl FnOnce(&Self) -> String) -> Result<(), CliError> {
        raw(&match self.format {
            Format::Text => text(self),
            Format::Json => serde_json::to_string(value).map_err(CliError::failed)?,
        })
    }

    /// A heading.
    /// Says on standard error what was done and looks like a mistake.
    pub(super) fn warn(&self, line: &str) {
        let mut errors = std::io::stderr().lock();
        // Nobody is left to be told if this cannot be printed.
        match self.format {
            Format::Json => drop(writeln!(errors, "{}", json!({ "warning": line }))),
            Format::Text => drop(writeln!(errors, "warning: {line}")),
        }
    }

    pub(super) fn strong(&self, text: &str) -> String {
        self.painted(text, "1")
    }

    /// Something as it should be.
    pub(super) fn good(&self, text: &str) -> String {
        self.painted(text, "32")
    }

    /// Something to be looked at.
    pub(super) fn bad(&self, text: &str) -> String {
        self.painted(text, "31")
    }

    fn painted(&self, text: &str, code: &str) -> String {
        match self.style {
            Style::Terminal => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Style::Plain => text.to_owned(),
        }
    }

    /// A table with a line for each row.
    pub(super) fn table(&self, header: &[&str], rows: &[Vec<String>]) -> String {
        match self.style {
            Style::Terminal => {
                let mut table = Table::new();
                table
                    .load_preset(presets::UTF8_HORIZONTAL_ONLY)
                    .set_header(header.iter().copied())
                    .add_rows(rows.iter().cloned());
                // On a narrow terminal, or one that does not say how wide it is, the terminal's own wrapping keeps words whole.
                if table.width().is_some_and(|width| width >= NARROW) {
                    table.set_content_arrangement(ContentArrangement::Dynamic);
                }
                for (index, column) in table.column_iter_mut().enumerate() {
                    let whole = rows.iter().filter_map(|row| row.get(index)).all(|cell| !cell.contains(' '));
                    if whole {
                        // An id or a key is there to be copied.
                        column.set_constraint(ColumnConstraint::ContentWidth);
                    }
                }
                table.to_string()
            }
            Style::Plain => {
                let header: Vec<String> = header.iter().map(|word| word.to_uppercase()).collect();
                aligned(std::iter::once(&header).chain(rows))
            }
        }
    }

    /// Names and values, one pair a line.
    pub(super) fn pairs(&self, pairs: &[(&str, String)]) -> String {
        let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let lines = pairs.iter().map(|(name, value)| {
            let gap = " ".repeat(width - name.chars().count());
            format!("{}{gap}  {value}\n", self.strong(name))
        });
        lines.collect()
    }
}

/// Columns two spaces apart, no space at a line's end.
fn aligned<'r>(rows: impl Iterator<Item = &'r Vec<String>> + Clone) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.clone() {
        for (index, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(index) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Prints text as it is, with a line end where there is none, whatever format was asked for.
pub(super) fn raw(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Text that others wrote, with everything escaped that could move the cursor or turn the direction of reading.
pub(super) fn shown(text: &str) -> String {
    escaped(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_lines_end_without_spaces() {
        let rows = [vec!["A".to_owned(), "LONG".to_owned()], vec!["wider".to_owned(), "x".to_owned()]];
        assert_eq!(aligned(rows.iter()), "A      LONG\nwider  x\n");
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor_or_turn_the_line() {
        assert_eq!(shown("a\u{1b}[2Kb\u{202e}c\né"), "a\\u{1b}[2Kb\\u{202e}c\\u{a}é");
    }
}
