//! The story on paper: chapters, who says what, and lines that fit a terminal.

use std::io::{self, Write};

use super::Look;

/// The longest line of prose, in characters.
const WIDTH: usize = 110;

/// Where the story is written. The first error of the output is kept, and nothing is written after it.
pub(super) struct Page<'a> {
    out: &'a mut dyn Write,
    look: Look,
    broken: Option<io::Error>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The agent's orchestrator.
    Agent,
    /// writ.
    Writ,
    /// A person who decides.
    Person,
    /// The payments and orders backend.
    Backend,
    /// writ, saying no as it should.
    Refused,
    /// The demo itself found something that is not as it should be.
    Wrong,
}

impl Voice {
    const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Writ => "writ",
            Self::Person => "person",
            Self::Backend => "backend",
            Self::Refused => "refused",
            Self::Wrong => "WRONG",
        }
    }

    const fn colour(self) -> &'static str {
        match self {
            Self::Agent => "36",
            Self::Writ => "32",
            Self::Person => "35",
            Self::Backend => "34",
            Self::Refused => "33",
            Self::Wrong => "31;1",
        }
    }
}

impl<'a> Page<'a> {
    pub(super) fn new(out: &'a mut dyn Write, look: Look) -> Self {
        Self { out, look, broken: None }
    }

    /// The output, or the first error it gave.
    pub(super) fn finish(self) -> io::Result<&'a mut dyn Write> {
        match self.broken {
            None => Ok(self.out),
            Some(error) => Err(error),
        }
    }

    fn line(&mut self, text: &str) {
        if self.broken.is_none()
            && let Err(error) = writeln!(self.out, "{}", text.trim_end())
        {
            self.broken = Some(error);
        }
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        match self.look {
            Look::Plain => text.to_owned(),
            Look::Terminal => format!("\u{1b}[{colour}m{text}\u{1b}[0m"),
        }
    }

    pub(super) fn chapter(&mut self, number: usize, title: &str) {
        let title = self.painted("1", &format!("{number}. {title}"));
        self.line("");
        self.line(&title);
    }

    /// Plain prose.
    pub(super) fn prose(&mut self, text: &str) {
        for line in wrap(text, WIDTH - 3) {
            self.line(&format!("   {line}"));
        }
    }

    /// Somebody speaks.
    pub(super) fn says(&mut self, voice: Voice, text: &str) {
        let mut mark = self.painted(voice.colour(), &format!("{:<8}", voice.word()));
        for line in wrap(text, WIDTH - 12) {
            self.line(&format!("   {mark} {line}"));
            mark = " ".repeat(8);
        }
    }

    /// A line as it is, to be copied.
    pub(super) fn verbatim(&mut self, text: &str) {
        self.line(text);
    }

    pub(super) fn flush(&mut self) {
        if self.broken.is_none()
            && let Err(error) = self.out.flush()
        {
            self.broken = Some(error);
        }
    }
}

/// Breaks at spaces; a word that is too long stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// An amount of zero or more in major units, such as `1,240.00 USD`. The demo's backend counts its currencies in hundredths, apart from yen.
pub(super) fn money(minor: i64, currency: &str) -> String {
    let code = currency.to_ascii_uppercase();
    if currency == "jpy" {
        return format!("{minor} {code}");
    }
    let units = (minor / 100).to_string();
    let mut grouped = String::new();
    for (at, digit) in units.chars().enumerate() {
        let left = units.len() - at;
        if at > 0 && left.is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped}.{:02} {code}", minor % 100)
}

/// An id short enough to be told apart by eye: its kind and its last six characters.
pub(super) fn short(id: &str) -> String {
    let tail: String = id.chars().skip(id.chars().count().saturating_sub(6)).collect();
    match id.split_once('_') {
        Some((kind, rest)) if rest.len() > 10 => format!("{kind}_..{tail}"),
        None if id.len() > 16 => format!("..{tail}"),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_at_spaces_and_loses_no_word() {
        let lines = wrap("one two three four", 9);
        assert_eq!(lines, ["one two", "three", "four"]);
        assert_eq!(wrap("", 9), [""]);
    }

    #[test]
    fn amounts_are_shown_in_major_units() {
        assert_eq!(money(24_000, "usd"), "240.00 USD");
        assert_eq!(money(5, "eur"), "0.05 EUR");
        assert_eq!(money(500_001, "usd"), "5,000.01 USD");
        assert_eq!(money(123_456_700, "usd"), "1,234,567.00 USD");
        assert_eq!(money(9_000, "jpy"), "9000 JPY");
    }
}
