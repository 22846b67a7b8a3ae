//! One backend file to a checked backend and its operations; reading goes on after a mistake so that all are reported.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toml::Table;
use url::{Host, Url};

use super::address::refusal;
use super::headers::{Taken, header_name};
use super::load_operation::{Shared, operation};
use super::money::Currencies;
use super::operation::{Backend, Operation, Private};
use super::secrets::{Auth, Reads};
use super::webhook::Webhook;
use crate::domain::digest::Digest;
use crate::domain::draft::AdapterRef;
use crate::domain::money::Currency;
use crate::domain::name::BackendName;
use crate::settings::{Log, Mistake, Section, without_secrets};

/// What one file declares.
pub(super) struct Loaded {
    pub(super) backend: Arc<Backend>,
    pub(super) operations: Vec<Operation>,
}

/// Reads one file. `None` goes with at least one mistake.
pub(super) fn file(name: &str, text: &str, dir: &Path) -> (Option<Loaded>, Vec<Mistake>) {
    let log = Log::new(name);
    let loaded = match text.parse::<Table>() {
        Ok(table) => read(name, text, &table, dir, &log),
        Err(error) => {
            let line = error
                .span()
                .map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
            let place = line.map(|line| format!("line {line}")).unwrap_or_default();
            log.add(&place, format!("is not TOML: {}", error.message()));
            None
        }
    };
    let mistakes = log.into_mistakes();
    (loaded.filter(|_| mistakes.is_empty()), mistakes)
}

fn read(file: &str, text: &str, table: &Table, dir: &Path, log: &Log) -> Option<Loaded> {
    let top = Section::new(String::new(), table, log);
    let name: Option<BackendName> = top.parsed("name", "the backend's name, which is also the file's");
    if let Some(name) = &name
        && format!("{name}.toml") != file
    {
        top.wrong("name", format!("`{name}` is not the file's name: call the file `{name}.toml`"));
    }
    let private = match top.maybe_flag("allow_private") {
        Some(true) => Private::Allowed,
        Some(false) | None => Private::Refused,
    };
    let base_url = top
        .text("base_url", "an address such as `https://api.example.com`")
        .and_then(|text| base_url(&top, text, private));
    let connect_timeout = top.duration("connect_timeout", Duration::from_secs(3));
    let total_timeout = top.duration("total_timeout", Duration::from_secs(30));
    if let (Some(connect), Some(total)) = (connect_timeout, total_timeout)
        && (connect.is_zero() || connect > total || total > Duration::from_secs(120))
    {
        top.wrong("total_timeout", "expected 0 < `connect_timeout` <= `total_timeout` <= `120s`");
    }
    let max_response = top
        .maybe_text("max_response", "a size such as `256KiB`")
        .map_or(Some(256 << 10), |text| size(&top, text));
    let headers = headers(top.maybe_sub("headers"));
    let auth = top
        .sub("auth", "a table with `kind`, `facts`, `read` and `write`")
        .and_then(|section| Auth::read(section, dir, reads(table)));
    let mut taken = Taken::default();
    if let Some((place, name)) = auth.as_ref().and_then(Auth::header) {
        taken.claim(name, place, log);
    }
    for name in headers.keys() {
        taken.claim(name, &format!("headers.{name}"), log);
    }
    let declares_events = top.maybe_sub("webhook");
    let has_webhook = declares_events.is_some();
    let webhook = declares_events.and_then(|section| Webhook::read(section, dir));
    let currencies = top.maybe_sub("currency").map(currencies).unwrap_or_default();
    let adapter = name.clone().map(|name| AdapterRef {
        name,
        sha256: Digest::of(text.as_bytes()),
    });
    let shared = Shared {
        currencies: &currencies,
        taken: &taken,
        total_timeout: total_timeout.unwrap_or_default(),
        signed: webhook.as_ref().and_then(Webhook::signed),
    };
    let drafts: Vec<_> = top
        .subs("operation")
        .into_iter()
        .map(|section| operation(section, &shared))
        .collect();
    if drafts.is_empty() {
        top.wrong("operation", "is missing: declare at least one `[[operation]]`");
    }
    has_events(&top, has_webhook);
    top.close();
    let backend = Arc::new(Backend {
        name: name?,
        base_url: base_url?,
        private,
        headers,
        connect_timeout: connect_timeout?,
        total_timeout: total_timeout?,
        max_response: max_response?,
        auth: auth?,
        currencies,
        adapter: adapter?,
        webhook,
    });
    let operations = drafts.into_iter().flatten().map(|build| build(Arc::clone(&backend))).collect();
    Some(Loaded { backend, operations })
}

/// Whether any operation of the file reads: it looks, it keeps facts, or it looks a lost result up by anything but a repetition.
fn reads(table: &Table) -> Reads {
    let list = |value: Option<&toml::Value>| value.and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let nothing = list(table.get("operation")).iter().all(|operation| {
        operation.get("unread").is_some()
            && operation.get("facts").is_none()
            && list(operation.get("reconcile"))
                .iter()
                .all(|step| step.get("kind").and_then(toml::Value::as_str) == Some("replay"))
    });
    if nothing { Reads::Nothing } else { Reads::Something }
}

/// Events need both: how they are recognised, and what they mean.
fn has_events(top: &Section<'_>, has_webhook: bool) {
    let operations = top.maybe("operation").and_then(toml::Value::as_array);
    let meant = operations.is_some_and(|all| all.iter().any(|operation| operation.get("events").is_some()));
    if meant && !has_webhook {
        top.wrong(
            "webhook",
            "is missing: an operation has `events`, so say how the backend's events are recognised",
        );
    }
    if has_webhook && !meant {
        top.wrong("webhook", "no operation has `events`: say what they mean, or remove the table");
    }
}

fn base_url(top: &Section<'_>, text: &str, private: Private) -> Option<Url> {
    let shown = without_secrets(text);
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => {
            top.wrong(
                "base_url",
                format!("`{shown}` is not an address ({error}): expected one such as `https://api.example.com`"),
            );
            return None;
        }
    };
    let mut sound = true;
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        _ => None,
    };
    let loopback = ip.map_or(url.host_str() == Some("localhost"), |ip| ip.is_loopback());
    if url.scheme() != "https" && !(url.scheme() == "http" && loopback) {
        top.wrong(
            "base_url",
            format!("`{shown}` would send secrets unencrypted: use https, or http to a loopback address only"),
        );
        sound = false;
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        top.wrong(
            "base_url",
            "must not hold a user, a query or a fragment: secrets belong under `auth`",
        );
        sound = false;
    }
    if let Some(why) = ip.and_then(|ip| refusal(ip, private)) {
        top.wrong("base_url", format!("`{shown}` {why}"));
        sound = false;
    }
    sound.then_some(url)
}

fn size(top: &Section<'_>, text: &str) -> Option<usize> {
    let bytes = [("KiB", 1_usize << 10), ("MiB", 1 << 20)]
        .iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit)?.parse::<usize>().ok()?.checked_mul(*factor))
        .filter(|bytes| (1..=16 << 20).contains(bytes));
    if bytes.is_none() {
        top.wrong(
            "max_response",
            format!("`{text}` is not a size: expected one such as `256KiB`, at most `16MiB`"),
        );
    }
    bytes
}

fn headers(section: Option<Section<'_>>) -> BTreeMap<String, String> {
    let Some(section) = section else { return BTreeMap::new() };
    let mut out = BTreeMap::new();
    for (name, value) in section.entries() {
        match value
            .as_str()
            .filter(|text| !text.is_empty() && text.bytes().all(|b| matches!(b, b' '..=b'~')))
        {
            Some(text) => {
                if header_name(&section, name, name).is_some() {
                    out.insert(name.to_owned(), text.to_owned());
                }
            }
            None => section.wrong(name, "expected a text of visible ASCII characters"),
        }
    }
    section.close();
    out
}

fn currencies(section: Section<'_>) -> Currencies {
    let mut out = Currencies::default();
    if let Some(exponents) = section.sub("exponents", "a table such as `2 = [\"usd\", \"eur\"]`") {
        for (digit, _) in exponents.entries() {
            let Some(exponent) = digit.parse::<u8>().ok().filter(|e| *e <= 4) else {
                exponents.wrong(digit, "is not a number of decimals: expected 0 to 4");
                continue;
            };
            for code in exponents.texts(digit) {
                match code.parse::<Currency>() {
                    Ok(currency) => {
                        if out.exponents.insert(currency, exponent).is_some() {
                            exponents.wrong(digit, format!("`{code}` stands here twice or under two numbers of decimals"));
                        }
                    }
                    Err(error) => exponents.wrong(digit, error.to_string()),
                }
            }
        }
        exponents.close();
    }
    if let Some(steps) = section.maybe_sub("multiple_of") {
        for (code, value) in steps.entries() {
            match (code.parse::<Currency>(), value.as_integer().filter(|step| *step > 1)) {
                (Ok(currency), Some(step)) if out.exponents.contains_key(&currency) => {
                    out.multiple_of.insert(currency, step);
                }
                _ => steps.wrong(code, "expected a currency listed under `exponents` and a whole number above 1"),
            }
        }
        steps.close();
    }
    section.close();
    out
}
