//! A table of a settings file, read key by key: what is missing, of the wrong kind or unknown is noted, and reading goes on.

use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use toml::{Table, Value};

use super::mistake::Log;

/// One table. Call [`Section::close`] after the last key was read, so that unknown ones are noted.
pub(crate) struct Section<'a> {
    place: String,
    table: &'a Table,
    known: RefCell<Vec<String>>,
    log: &'a Log,
}

impl<'a> Section<'a> {
    pub(crate) fn new(place: String, table: &'a Table, log: &'a Log) -> Self {
        Self {
            place,
            table,
            known: RefCell::default(),
            log,
        }
    }

    /// The place of a key of this table.
    pub(crate) fn at(&self, key: &str) -> String {
        match (self.place.is_empty(), key.is_empty()) {
            (true, _) => key.to_owned(),
            (false, true) => self.place.clone(),
            (false, false) => format!("{}.{key}", self.place),
        }
    }

    /// Notes a mistake at a key of this table; an empty key is the table itself.
    pub(crate) fn wrong(&self, key: &str, problem: impl Into<String>) {
        self.log.add(&self.at(key), problem);
    }

    pub(crate) fn log(&self) -> &'a Log {
        self.log
    }

    /// The raw value, if the key is there.
    pub(crate) fn maybe(&self, key: &str) -> Option<&'a Value> {
        self.known.borrow_mut().push(key.to_owned());
        self.table.get(key)
    }

    /// The raw value; a missing key is noted.
    pub(crate) fn value(&self, key: &str, expected: &str) -> Option<&'a Value> {
        let found = self.maybe(key);
        if found.is_none() {
            self.wrong(key, format!("is missing: expected {expected}"));
        }
        found
    }

    fn typed<T>(&self, key: &str, value: Option<&'a Value>, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        let value = value?;
        let typed = read(value);
        if typed.is_none() {
            self.wrong(key, format!("is {}: expected {expected}", kind(value)));
        }
        typed
    }

    pub(crate) fn text(&self, key: &str, expected: &str) -> Option<&'a str> {
        self.typed(key, self.value(key, expected), expected, Value::as_str)
    }

    pub(crate) fn maybe_text(&self, key: &str, expected: &str) -> Option<&'a str> {
        self.typed(key, self.maybe(key), expected, Value::as_str)
    }

    pub(crate) fn maybe_flag(&self, key: &str) -> Option<bool> {
        self.typed(key, self.maybe(key), "true or false", Value::as_bool)
    }

    pub(crate) fn maybe_integer(&self, key: &str) -> Option<i64> {
        self.typed(key, self.maybe(key), "a whole number", Value::as_integer)
    }

    /// A list of texts; absent is empty.
    pub(crate) fn texts(&self, key: &str) -> Vec<&'a str> {
        self.typed(key, self.maybe(key), "a list of texts", |value| {
            value.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
        })
        .unwrap_or_default()
    }

    fn parse<T: FromStr<Err: Display>>(&self, key: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error| self.wrong(key, format!("{error}"))).ok()
    }

    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, key: &str, expected: &str) -> Option<T> {
        self.text(key, expected).and_then(|text| self.parse(key, text))
    }

    /// One word of a closed set.
    pub(crate) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let expected = one_of(words.iter().map(|(word, _)| *word));
        self.text(key, &expected).and_then(|text| self.pick(key, text, words))
    }

    pub(crate) fn maybe_word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let expected = one_of(words.iter().map(|(word, _)| *word));
        self.maybe_text(key, &expected).and_then(|text| self.pick(key, text, words))
    }

    fn pick<T: Copy>(&self, key: &str, text: &str, words: &[(&str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let expected = one_of(words.iter().map(|(word, _)| *word));
            self.wrong(key, format!("`{text}` is not known: expected {expected}"));
        }
        found
    }

    /// A duration such as `500ms`, `30s`, `10m` or `24h`; absent gives the default.
    pub(crate) fn duration(&self, key: &str, default: Duration) -> Option<Duration> {
        const EXPECTED: &str = "a duration such as `500ms`, `30s`, `10m` or `24h`";
        if self.table.get(key).is_none() {
            self.maybe(key);
            return Some(default);
        }
        let text = self.maybe_text(key, EXPECTED)?;
        let parsed = duration(text);
        if parsed.is_none() {
            self.wrong(key, format!("`{text}` is not a duration: expected {EXPECTED}"));
        }
        parsed
    }

    /// A size such as `512KiB`, `256MiB` or `1GiB`, in bytes; absent gives the default.
    pub(crate) fn size(&self, key: &str, default: u64) -> Option<u64> {
        const EXPECTED: &str = "a size such as `512KiB`, `256MiB` or `1GiB`";
        if self.table.get(key).is_none() {
            self.maybe(key);
            return Some(default);
        }
        let text = self.maybe_text(key, EXPECTED)?;
        let parsed = size(text);
        if parsed.is_none() {
            self.wrong(key, format!("`{text}` is not a size: expected {EXPECTED}"));
        }
        parsed
    }

    /// A table below this one; a missing one is noted.
    pub(crate) fn sub(&self, key: &str, expected: &str) -> Option<Section<'a>> {
        self.value(key, expected)?;
        self.maybe_sub(key)
    }

    pub(crate) fn maybe_sub(&self, key: &str) -> Option<Section<'a>> {
        let table = self.typed(key, self.maybe(key), "a table", Value::as_table)?;
        Some(Section::new(self.at(key), table, self.log))
    }

    /// A list of tables, or one table alone; absent is empty. Each is called by its `name` if it has one.
    pub(crate) fn subs(&self, key: &str) -> Vec<Section<'a>> {
        let Some(value) = self.maybe(key) else { return Vec::new() };
        if let Some(table) = value.as_table() {
            return vec![Section::new(self.at(key), table, self.log)];
        }
        let Some(items) = value.as_array() else {
            self.wrong(key, format!("is {}: expected a table or a list of tables", kind(value)));
            return Vec::new();
        };
        let mut out = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match item.as_table() {
                Some(table) => {
                    let called = table
                        .get("name")
                        .and_then(Value::as_str)
                        .map_or_else(|| index.to_string(), str::to_owned);
                    out.push(Section::new(format!("{}[{called}]", self.at(key)), table, self.log));
                }
                None => self.wrong(&format!("{key}[{index}]"), format!("is {}: expected a table", kind(item))),
            }
        }
        out
    }

    /// Every key with its value, for tables whose keys are free; nothing in it is unknown afterwards. Sorted by key: whether the parser keeps the order
    /// of the file depends on how it was built, and what is sent must not.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.known.borrow_mut().extend(self.table.keys().cloned());
        let mut all: Vec<_> = self.table.iter().map(|(key, value)| (key.as_str(), value)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter()
    }

    /// Notes every key that nobody asked for.
    pub(crate) fn close(self) {
        let known = self.known.borrow();
        for key in self.table.keys().filter(|key| !known.contains(key)) {
            let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
            names.sort_unstable();
            names.dedup();
            let expected = one_of(names.into_iter());
            self.wrong(key, format!("is not a setting here: remove it, or use {expected}"));
        }
    }
}

/// `a, b or c`, each in backticks.
pub(crate) fn one_of<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number with a fraction",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// A length of time: a whole number and `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

fn size(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let shift = match unit {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("24h"), Some(Duration::from_secs(86_400)));
        for bad in ["", "5", "s", "-5s", "5 s", "1.5s", "99999999999999999999s", "5w"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_size_has_a_number_and_a_unit() {
        assert_eq!(size("0KiB"), Some(0));
        assert_eq!(size("256MiB"), Some(268_435_456));
        for bad in ["", "5", "MiB", "-5MiB", "5 MiB", "1.5GiB", "5MB", "99999999999GiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn all_unknown_keys_of_a_table_are_noted_with_what_is_known() {
        let table: Table = "a = 1\nb = 2\nc = 3".parse().unwrap();
        let log = Log::new("x.toml");
        let section = Section::new("top".to_owned(), &table, &log);
        section.maybe_integer("a");
        section.close();
        let found = log.into_mistakes();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].to_string(), "x.toml: top.b: is not a setting here: remove it, or use `a`");
    }
}
