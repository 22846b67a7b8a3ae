//! What the configuration says of witnesses: who they are, how many of them count, and what waits for them.

use std::time::Duration;

use url::{Host, Url};

use crate::audit::VerifierKey;
use crate::settings::{Section, without_secrets};

/// So many at most: each has a line under every head that is kept.
pub const MAX_WITNESSES: usize = 8;

/// How old a cosignature may be, where the file says nothing.
const MAX_AGE: Duration = Duration::from_secs(60);

/// One witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAt {
    /// Its submission prefix.
    pub url: Url,
    /// Its key, got from whoever runs it.
    pub key: VerifierKey,
}

/// What waits for witnesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Require {
    /// Nothing: that they are missing is an event, a metric and an alarm.
    #[default]
    None,
    /// Credentials are issued while one of them has cosigned lately.
    Any,
    /// Credentials are issued while a quorum has.
    Quorum,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The witnesses.
    pub witnesses: Vec<WitnessAt>,
    /// What waits for them.
    pub require: Require,
    /// How many are enough.
    pub quorum: usize,
    /// A cosignature that is older than this counts no longer.
    pub max_age: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            witnesses: Vec::new(),
            require: Require::None,
            quorum: 1,
            max_age: MAX_AGE,
        }
    }
}

impl Settings {
    /// Reads the keys of `[audit]` that are about witnesses.
    pub(crate) fn read(audit: &Section<'_>) -> Self {
        let witnesses: Vec<WitnessAt> = audit.subs("witness").into_iter().filter_map(read_one).collect();
        let words = [("none", Require::None), ("any", Require::Any), ("quorum", Require::Quorum)];
        let require = audit.maybe_word("require", &words).unwrap_or_default();
        if witnesses.len() > MAX_WITNESSES {
            audit.wrong(
                "witness",
                format!("there are {}: at most {MAX_WITNESSES} are asked", witnesses.len()),
            );
        }
        for (n, one) in witnesses.iter().enumerate() {
            // Names are free: who has a key can sign under as many as stand here.
            let same = witnesses.iter().take(n).find(|other| other.key.public() == one.key.public());
            match same.map(|other| other.key.name()) {
                Some(name) if name == one.key.name() => audit.wrong("witness", format!("`{name}` is there twice, and would count twice")),
                Some(name) => audit.wrong(
                    "witness",
                    format!("`{}` has the key of `{name}`, and would count twice", one.key.name()),
                ),
                None => {}
            }
        }
        if require != Require::None && witnesses.is_empty() {
            audit.wrong("require", "there is no [[audit.witness]], so nothing would ever be issued");
        }
        let most = i64::try_from(witnesses.len()).unwrap_or(i64::MAX);
        let given = audit.maybe_integer("quorum");
        if given.is_some_and(|n| n < 1 || n > most) {
            audit.wrong("quorum", format!("expected from 1 to the number of witnesses, which is {most}"));
        }
        let quorum = match require {
            Require::Any => 1,
            Require::None | Require::Quorum => given.and_then(|n| usize::try_from(n).ok()).unwrap_or(witnesses.len() / 2 + 1),
        };
        if require == Require::Any && given.is_some() {
            audit.wrong("quorum", "means nothing with `require = \"any\"`: remove it, or require a `quorum`");
        }
        let max_age = audit.duration("max_age", MAX_AGE).unwrap_or(MAX_AGE);
        if max_age < Duration::from_secs(20) || max_age > Duration::from_secs(86_400) {
            audit.wrong("max_age", "expected from `20s`, which is two looks, to `24h`");
        }
        Self {
            witnesses,
            require,
            quorum,
            max_age,
        }
    }
}

fn read_one(section: Section<'_>) -> Option<WitnessAt> {
    let url = section.text("url", "the witness's submission prefix, such as `https://witness.example`");
    let url = url.and_then(|text| {
        let shown = without_secrets(text);
        let parsed = Url::parse(text)
            .ok()
            .filter(|url| url.has_host() && url.query().is_none() && url.fragment().is_none());
        let Some(url) = parsed.filter(|url| url.username().is_empty() && url.password().is_none()) else {
            section.wrong("url", format!("`{shown}` is not an address such as `https://witness.example`"));
            return None;
        };
        match url.scheme() {
            "https" => Some(url),
            "http" if is_here(&url) => Some(url),
            _ => {
                section.wrong(
                    "url",
                    format!("`{shown}` is not https: only a witness on this machine, at 127.0.0.1 or [::1], is asked without"),
                );
                None
            }
        }
    });
    let key: Option<VerifierKey> = section.parsed("vkey", "the witness's key, as `name+id+key`");
    if key.as_ref().is_some_and(|key| !key.is_witness()) {
        section.wrong(
            "vkey",
            "is a log's key: a witness's is of type 4, and its base64 begins with `BA`, `BB`, `BC` or `BD`",
        );
    }
    section.close();
    Some(WitnessAt { url: url?, key: key? })
}

fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}
