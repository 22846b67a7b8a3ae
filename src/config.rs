//! The configuration file: read raw with unknown fields refused, checked into a [`Config`] with all mistakes reported at once.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Table;

use crate::domain::name::{Audience, PrincipalId};
use crate::edge::{Limits, TlsFiles};
use crate::settings::{Log, Mistake, Mistakes, Section, why_not, without_secrets};
use crate::witness;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The checked configuration. Paths are absolute, or relative to the working directory if the file's own path was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the broker listens; in a process that is both, the proxy's calls are served here too.
    pub broker_listen: SocketAddr,
    /// Where a process that is only the proxy listens.
    pub proxy_listen: SocketAddr,
    /// Where the broker's process tells its metrics, if it does.
    pub broker_metrics: Option<SocketAddr>,
    /// Where a process that is only the proxy tells its metrics, if it does.
    pub proxy_metrics: Option<SocketAddr>,
    /// The broker's certificate and key; without them it speaks plain HTTP.
    pub broker_tls: Option<TlsFiles>,
    /// The certificate and key of a process that is only the proxy.
    pub proxy_tls: Option<TlsFiles>,
    /// How much everybody together, and one of them, may use.
    pub limits: Limits,
    /// The URL under which the broker is reached.
    pub public_url: String,
    /// The broker's own name: the audience of approval records.
    pub audience: Audience,
    /// The proxy's audience: the one credentials are issued for.
    pub proxy_audience: Audience,
    /// The proxy's name, written beside each lease.
    pub proxy_name: String,
    /// How long nobody else takes over an execution.
    pub lease: Duration,
    /// Whether the proxy spends a credential only with the receipt that its issue is in the log.
    pub require_receipt: bool,
    /// From storing a draft to the moment it can no longer be approved or executed.
    pub draft_lifetime: Duration,
    /// From asking people to the moment their card closes.
    pub card_lifetime: Duration,
    /// From the last signature to the moment the grant can no longer be used.
    pub execution_window: Duration,
    /// The approver in whose name the policy signs what it allows.
    pub policy_approver: PrincipalId,
    /// The database file.
    pub store: PathBuf,
    /// With less room than this on its disk, in bytes, no new work begins.
    pub store_low_water: u64,
    /// Bytes set aside beside it for the results of sent requests.
    pub store_ballast: u64,
    /// The file in which results wait that the database does not take, if it is not to lie beside it.
    pub store_results: Option<PathBuf>,
    /// The private key of the audit log.
    pub audit_key: PathBuf,
    /// The file with the log's last head, outside the database.
    pub audit_head: PathBuf,
    /// Whether the log's heads go to standard output.
    pub head_lines: bool,
    /// Who cosigns the log's heads.
    pub witnesses: witness::Settings,
    /// The directory of the keys.
    pub keys: PathBuf,
    /// The directory of the policy.
    pub policy: PathBuf,
    /// The directory of the backend files.
    pub backends: PathBuf,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// What is logged, such as `info` or `writ=debug`.
    pub log_filter: String,
}

/// [`Config::store_low_water`] where the file says nothing.
const LOW_WATER: u64 = 256 << 20;

/// [`Config::store_ballast`] where the file says nothing.
const BALLAST: u64 = 8 << 20;

/// The name of the configuration file in a working directory.
pub const FILE: &str = "writ.toml";

/// The file of the key with which the policy signs, in the directory of the keys.
pub const POLICY_KEY: &str = "policy-approver.pem";

impl Config {
    /// Reads and checks the file. Paths in it are taken from the file's own directory.
    ///
    /// # Errors
    /// [`Mistakes`]: everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Mistakes> {
        settled(Self::look(path))
    }

    /// The file as far as it can be understood, with something usual in place of what is wrong, and everything that is wrong: for a check that
    /// goes on to what the file names.
    #[must_use]
    pub fn look(path: &Path) -> (Option<Self>, Vec<Mistake>) {
        let file = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        match std::fs::read_to_string(path) {
            Ok(text) => look(&file, &text, path.parent().unwrap_or(Path::new("."))),
            Err(error) => {
                let problem = if error.kind() == std::io::ErrorKind::NotFound {
                    format!("cannot be read ({error}): make one with `writ init DIR` and name it with --config")
                } else {
                    format!("cannot be read: {}", why_not(path, &error))
                };
                let (file, place) = (path.display().to_string(), String::new());
                (None, vec![Mistake { file, place, problem }])
            }
        }
    }

    /// Checks the text of a configuration file whose paths are taken from `dir`.
    ///
    /// # Errors
    /// [`Mistakes`]: everything that is wrong with it.
    pub fn parse(file: &str, text: &str, dir: &Path) -> Result<Self, Mistakes> {
        settled(look(file, text, dir))
    }
}

/// The configuration, if nothing is wrong with it.
fn settled((config, mistakes): (Option<Config>, Vec<Mistake>)) -> Result<Config, Mistakes> {
    match config {
        Some(config) if mistakes.is_empty() => Ok(config),
        _ => Err(Mistakes(mistakes)),
    }
}

fn look(file: &str, text: &str, dir: &Path) -> (Option<Config>, Vec<Mistake>) {
    let log = Log::new(file);
    let config = match text.parse::<Table>() {
        Ok(table) => read(&table, dir, &log),
        Err(error) => {
            let line = error
                .span()
                .map(|s| text.get(..s.start).unwrap_or_default().matches('\n').count() + 1);
            log.add(
                &line.map(|l| format!("line {l}")).unwrap_or_default(),
                format!("is not TOML: {}", error.message()),
            );
            None
        }
    };
    (config, log.into_mistakes())
}

/// The value of an environment variable. The only place that reads the environment.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn read(table: &Table, dir: &Path, log: &Log) -> Option<Config> {
    let top = Section::new(String::new(), table, log);
    // A table that is missing is one mistake, not one for each of its keys, and hides no other.
    let (nothing, unread) = (Table::new(), Log::new(""));
    let empty = |key: &str| Section::new(key.to_owned(), &nothing, &unread);
    let broker = top.sub("broker", "a table with `listen`, `public_url` and `audience`");
    let broker = broker.unwrap_or_else(|| empty("broker"));
    let proxy = top.sub("proxy", "a table with `listen`, `audience` and `name`");
    let proxy = proxy.unwrap_or_else(|| empty("proxy"));
    let broker_listen = address(&broker, "listen", "127.0.0.1:8700");
    let public_url = broker
        .text("public_url", "the broker's URL, such as `https://broker.example`")
        .map(str::to_owned);
    if let Some(url) = &public_url
        && !url::Url::parse(url).is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.has_host())
    {
        broker.wrong("public_url", format!("`{}` is not an http or https URL", without_secrets(url)));
    }
    let broker_tls = broker.maybe_sub("tls").and_then(|tls| TlsFiles::read(tls, dir));
    if let (Some(url), Some(_)) = (&public_url, &broker_tls)
        && !url.starts_with("https:")
    {
        broker.wrong(
            "public_url",
            format!(
                "`{}` is not https, but the broker has a certificate in [broker.tls]",
                without_secrets(url)
            ),
        );
    }
    let audience = broker.parsed("audience", "the broker's name in approval records, such as its URL");
    let draft_lifetime = broker.duration("draft_lifetime", Duration::from_secs(4 * 3600));
    let card_lifetime = broker.duration("card_lifetime", Duration::from_secs(3600));
    let execution_window = broker.duration("execution_window", Duration::from_secs(300));
    let policy_approver = broker.parsed("policy_approver", "the name the policy signs with, such as `rule_policy`");
    if let Some(name) = &policy_approver
        && !PrincipalId::is_rule(name)
    {
        broker.wrong("policy_approver", "must start with `rule_`: it is not a person");
    }
    for (key, value) in [
        ("draft_lifetime", draft_lifetime),
        ("card_lifetime", card_lifetime),
        ("execution_window", execution_window),
    ] {
        if value.is_some_and(|v| v < Duration::from_secs(1) || v > Duration::from_secs(30 * 86_400)) {
            broker.wrong(key, "expected from `1s` to `30d`");
        }
    }
    let broker_metrics = metrics_address(&broker, broker_listen);
    broker.close();
    let proxy_listen = address(&proxy, "listen", "127.0.0.1:8701");
    let proxy_audience = proxy.parsed("audience", "the proxy's name in credentials, such as `urn:writ:proxy:main`");
    let proxy_name = proxy.text("name", "the proxy's own name, such as `proxy-1`").map(str::to_owned);
    let lease = proxy.duration("lease", Duration::from_secs(60));
    if lease.is_some_and(|l| l < Duration::from_secs(5) || l > Duration::from_secs(600)) {
        proxy.wrong("lease", "expected from `5s` to `10m`");
    }
    let require_receipt = proxy.maybe_flag("require_receipt").unwrap_or(false);
    let proxy_metrics = metrics_address(&proxy, proxy_listen);
    let proxy_tls = proxy.maybe_sub("tls").and_then(|tls| TlsFiles::read(tls, dir));
    proxy.close();
    let limits = top.maybe_sub("limits").map_or_else(Limits::default, Limits::read);
    let path = |section: &str, key: &str, default: &str| -> Option<PathBuf> {
        let text = match top.maybe_sub(section) {
            None => default.to_owned(),
            Some(sub) => {
                let text = sub.maybe_text(key, "a path").unwrap_or(default).to_owned();
                sub.close();
                text
            }
        };
        Some(dir.join(text))
    };
    let (store, low_water, ballast, results) = match top.maybe_sub("store") {
        None => ("data/writ.db".to_owned(), Some(LOW_WATER), Some(BALLAST), None),
        Some(sub) => {
            let path = sub.maybe_text("path", "a path").unwrap_or("data/writ.db").to_owned();
            let low_water = sub.size("low_water", LOW_WATER);
            let ballast = sub.size("ballast", BALLAST);
            if ballast.is_some_and(|size| size > 1 << 30) {
                sub.wrong("ballast", "expected at most `1GiB`");
            }
            let results = sub.maybe_text("results", "a path").map(|text| dir.join(text));
            sub.close();
            (path, low_water, ballast, results)
        }
    };
    let keys = path("keys", "dir", "keys");
    let (audit_key, audit_head, head_lines, witnesses) = match top.maybe_sub("audit") {
        None => (None, None, false, witness::Settings::default()),
        Some(sub) => {
            let [key, head] = ["key", "head"].map(|name| sub.maybe_text(name, "a path").map(|text| dir.join(text)));
            let head_lines = sub.maybe_flag("head_lines").unwrap_or_default();
            let witnesses = witness::Settings::read(&sub);
            sub.close();
            (key, head, head_lines, witnesses)
        }
    };
    let policy = path("policy", "dir", "policies/cedar");
    let backends = path("backends", "dir", "policies/backends");
    let (log_format, log_filter) = match top.maybe_sub("log") {
        None => (Some(LogFormat::Text), "info".to_owned()),
        Some(sub) => {
            let format = match sub.maybe_word("format", &[("text", LogFormat::Text), ("json", LogFormat::Json)]) {
                None => Some(LogFormat::Text),
                some => some,
            };
            let filter = sub
                .maybe_text("filter", "what is logged, such as `info`")
                .unwrap_or("info")
                .to_owned();
            if let Err(error) = tracing_subscriber::EnvFilter::try_new(&filter) {
                sub.wrong(
                    "filter",
                    format!("`{filter}` is not a filter ({error}): use `info`, or `writ=debug`"),
                );
            }
            sub.close();
            (format, filter)
        }
    };
    top.close();
    // What is wrong is noted already, and a configuration with a note is given out only by `look`.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let unnamed = || "urn:writ:unnamed".parse().ok();
    Some(Config {
        broker_listen: broker_listen.unwrap_or(nowhere),
        proxy_listen: proxy_listen.unwrap_or(nowhere),
        broker_metrics,
        proxy_metrics,
        broker_tls,
        proxy_tls,
        limits,
        public_url: public_url.unwrap_or_default(),
        audience: audience.or_else(unnamed)?,
        proxy_audience: proxy_audience.or_else(unnamed)?,
        proxy_name: proxy_name.unwrap_or_default(),
        lease: lease.unwrap_or_default(),
        require_receipt,
        draft_lifetime: draft_lifetime.unwrap_or_default(),
        card_lifetime: card_lifetime.unwrap_or_default(),
        execution_window: execution_window.unwrap_or_default(),
        policy_approver: policy_approver.or_else(|| "rule_policy".parse().ok())?,
        audit_key: audit_key.or_else(|| keys.as_ref().map(|keys| keys.join("log.key")))?,
        audit_head: audit_head.unwrap_or_else(|| dir.join("data/writ.head")),
        head_lines,
        witnesses,
        store: dir.join(store),
        store_low_water: low_water.unwrap_or_default(),
        store_ballast: ballast.unwrap_or_default(),
        store_results: results,
        keys: keys?,
        policy: policy?,
        backends: backends?,
        log_format: log_format.unwrap_or(LogFormat::Text),
        log_filter,
    })
}

fn address(section: &Section<'_>, key: &str, example: &str) -> Option<SocketAddr> {
    let text = section.text(key, &format!("an address such as `{example}`"))?;
    let parsed = text.parse().ok();
    if parsed.is_none() {
        section.wrong(
            key,
            format!("`{text}` is not an IP address with a port: expected one such as `{example}`"),
        );
    }
    parsed
}

/// Metrics are told to whoever asks, in the clear: an address that the outside reaches must be meant, not slipped in.
fn metrics_address(section: &Section<'_>, listen: Option<SocketAddr>) -> Option<SocketAddr> {
    section.maybe("metrics_listen")?;
    let address = address(section, "metrics_listen", "127.0.0.1:9464")?;
    // Port 0 is any that is free.
    let taken = |listen: SocketAddr| {
        listen.port() != 0 && listen.port() == address.port() && (listen.ip() == address.ip() || listen.ip().is_unspecified())
    };
    if listen.is_some_and(taken) {
        section.wrong(
            "metrics_listen",
            format!("`{address}` is taken by `listen` of the same process: name another port"),
        );
    }
    if address.ip().is_unspecified() {
        section.wrong(
            "metrics_listen",
            "is every address of the machine, and metrics are told to whoever asks: name one address, such as `127.0.0.1:9464`",
        );
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[broker]
listen = "127.0.0.1:8700"
public_url = "http://127.0.0.1:8700"
audience = "http://127.0.0.1:8700"
policy_approver = "rule_policy"
[proxy]
listen = "127.0.0.1:8701"
audience = "urn:writ:proxy:main"
name = "proxy-1"
"#;

    #[test]
    fn an_address_that_is_none_or_taken_is_refused_with_its_value() {
        let complaint = |from: &str, to: &str| {
            let bad = GOOD.replace(from, to);
            Config::parse("writ.toml", &bad, Path::new(".")).unwrap_err().to_string()
        };
        let named = complaint("127.0.0.1:8700\"\npublic", "localhost:8700\"\npublic");
        assert!(
            named.contains("broker.listen: `localhost:8700`") && named.contains("127.0.0.1:8700"),
            "{named}"
        );
        for (part, port) in [("broker", 8700), ("proxy", 8701)] {
            let told = format!("[{part}]\nmetrics_listen = \"127.0.0.1:{port}\"");
            let same = complaint(&format!("[{part}]"), &told);
            assert!(
                same.contains(&format!("{part}.metrics_listen: `127.0.0.1:{port}` is taken")),
                "{same}"
            );
            let everywhere = GOOD.replace(&format!("listen = \"127.0.0.1:{port}"), &format!("listen = \"0.0.0.0:{port}"));
            let same = Config::parse("writ.toml", &everywhere.replace(&format!("[{part}]"), &told), Path::new("."));
            assert!(same.unwrap_err().to_string().contains("is taken"));
        }
        let other = GOOD.replace("[broker]", "[broker]\nmetrics_listen = \"127.0.0.1:8701\"");
        assert!(
            Config::parse("writ.toml", &other, Path::new(".")).is_ok(),
            "the proxy's port is another process's"
        );
    }

    #[test]
    fn every_mistake_is_reported_at_once() {
        let bad = GOOD.replace("127.0.0.1:8701", "nowhere").replace("rule_policy", "usr_mia")
            + "lease = \"1h\"\nleese = 1\n[log]\nformat = \"xml\"\n[surprise]\n";
        let mistakes = Config::parse("writ.toml", &bad, Path::new(".")).unwrap_err();
        let text = mistakes.to_string();
        for place in [
            "proxy.listen",
            "broker.policy_approver",
            "proxy.lease",
            "proxy.leese",
            "log.format",
            "surprise",
        ] {
            assert!(text.contains(place), "{place} is missing in:\n{text}");
        }
    }

    #[test]
    fn a_missing_table_is_one_mistake_and_hides_no_other() {
        let (broker, proxy) = GOOD.split_at(GOOD.find("[proxy]").unwrap());
        for (rest, missing, below) in [(broker, "proxy", "proxy."), (proxy, "broker", "broker.")] {
            let bad = format!("{rest}surprise = 1\n[log]\nformat = \"xml\"\n");
            let (config, mistakes) = look("writ.toml", &bad, Path::new("."));
            let places: Vec<_> = mistakes.iter().map(|mistake| mistake.place.as_str()).collect();
            assert!(places.contains(&missing) && places.contains(&"log.format"), "{places:?}");
            assert!(places.iter().any(|place| place.ends_with(".surprise")), "{places:?}");
            assert!(!places.iter().any(|place| place.starts_with(below)), "{places:?}");
            assert!(config.is_some(), "the check goes on to what the file names");
        }
    }

    #[test]
    fn what_is_left_out_has_a_default_beside_the_file() {
        let config = Config::parse("writ.toml", GOOD, Path::new("/srv/writ")).unwrap();
        assert_eq!(config.store, Path::new("/srv/writ/data/writ.db"));
        assert_eq!(config.execution_window, Duration::from_secs(300));
    }
}
