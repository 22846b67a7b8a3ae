//! Limits by currency and the policy's name: the two small TOML files, keys closed, every mistake reported.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::mistakes::Mistakes;
use crate::domain::money::{Currency, MAX_SAFE_INTEGER};

/// The file with the limits.
pub(super) const LIMITS: &str = "limits.toml";
/// The file with the policy's name.
pub(super) const MANIFEST: &str = "policy.toml";

/// What one currency allows, in its minor units. An amount equal to a limit is within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrencyLimits {
    /// Above this, one person must approve.
    pub ask_above: i64,
    /// Above this, two different people must approve.
    pub two_above: i64,
    /// Above this, nobody can approve.
    pub never_above: i64,
}

/// The limits of every listed currency, with their own version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The version, as its author counts.
    pub version: u64,
    /// By currency.
    pub by_currency: BTreeMap<Currency, CurrencyLimits>,
}

/// The policy's name and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) id: String,
    pub(super) version: u64,
}

/// Reads `policy.toml`; `None` if anything in it is wrong.
pub(super) fn manifest(text: &str, mistakes: &mut Mistakes) -> Option<Manifest> {
    let mut reader = Reader { file: MANIFEST, mistakes };
    let table = reader.table(text)?;
    reader.closed(&table, "", &["id", "version"]);
    let id = match table.get("id").and_then(Value::as_str) {
        Some(id) if is_slug(id) => Some(id.to_owned()),
        _ => reader.wrong(
            "id",
            "is not a policy's name",
            "write lower-case words joined by `-`, such as \"support-operations\"",
        ),
    };
    let version = reader.version(&table);
    Some(Manifest {
        id: id?,
        version: version?,
    })
}

/// Reads `limits.toml`; `None` if anything in it is wrong.
pub(super) fn limits(text: &str, mistakes: &mut Mistakes) -> Option<Limits> {
    let mut reader = Reader { file: LIMITS, mistakes };
    let table = reader.table(text)?;
    reader.closed(&table, "", &["version", "currency"]);
    let version = reader.version(&table);
    let Some(listed) = table.get("currency").and_then(Value::as_table) else {
        return reader.wrong("currency", "is missing", "add a table such as [currency.usd]");
    };
    let mut by_currency = BTreeMap::new();
    for (key, value) in listed {
        let place = format!("currency.{key}");
        let code = key.parse::<Currency>().ok().filter(|code| code.as_str() == key);
        let one = match value.as_table() {
            Some(one) => reader.currency(one, &place),
            None => reader.wrong(&place, "is not a table", "write [currency.usd] and the limits beneath it"),
        };
        match code {
            None => {
                let _: Option<()> = reader.wrong(
                    &place,
                    "is not a currency",
                    "write three lower-case letters, such as [currency.usd]",
                );
            }
            Some(code) => by_currency.extend(one.map(|one| (code, one))),
        }
    }
    Some(Limits {
        version: version?,
        by_currency,
    })
}

/// Lower-case letters and digits in words joined by `-`, at most 64 characters.
pub(super) fn is_slug(text: &str) -> bool {
    let word = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.split('-').all(word)
}

struct Reader<'a> {
    file: &'static str,
    mistakes: &'a mut Mistakes,
}

impl Reader<'_> {
    fn wrong<T>(&mut self, place: &str, problem: &str, remedy: &str) -> Option<T> {
        self.mistakes.add(self.file, place, problem, remedy);
        None
    }

    fn table(&mut self, text: &str) -> Option<Table> {
        match text.parse::<Table>() {
            Ok(table) => Some(table),
            Err(error) => {
                let place = error
                    .span()
                    .map(|span| format!("line {}", super::mistakes::line_of(text, span.start)));
                self.wrong(&place.unwrap_or_default(), error.message(), "correct the TOML")
            }
        }
    }

    fn closed(&mut self, table: &Table, under: &str, known: &[&str]) {
        for key in table.keys().filter(|key| !known.contains(&key.as_str())) {
            let place = if under.is_empty() { key.clone() } else { format!("{under}.{key}") };
            let remedy = format!("remove it, or write one of: {}", known.join(", "));
            let _: Option<()> = self.wrong(&place, "is not a known key", &remedy);
        }
    }

    fn version(&mut self, table: &Table) -> Option<u64> {
        match table.get("version").and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok()) {
            Some(version) if version >= 1 => Some(version),
            _ => self.wrong(
                "version",
                "is not a version",
                "write a whole number from 1 up, raised with every change",
            ),
        }
    }

    fn currency(&mut self, table: &Table, place: &str) -> Option<CurrencyLimits> {
        self.closed(table, place, &["ask_above", "two_above", "never_above"]);
        let mut minor = |key: &str| match table.get(key).and_then(Value::as_integer) {
            Some(n) if (0..=MAX_SAFE_INTEGER).contains(&n) => Some(n),
            _ => self.wrong(
                &format!("{place}.{key}"),
                "is not an amount",
                "write whole minor units from 0 to 9007199254740991; all three limits are needed",
            ),
        };
        let (ask_above, two_above, never_above) = (minor("ask_above"), minor("two_above"), minor("never_above"));
        let limits = CurrencyLimits {
            ask_above: ask_above?,
            two_above: two_above?,
            never_above: never_above?,
        };
        if limits.ask_above <= limits.two_above && limits.two_above <= limits.never_above {
            Some(limits)
        } else {
            self.wrong(
                place,
                "has limits out of order",
                "order them so that ask_above <= two_above <= never_above",
            )
        }
    }
}
