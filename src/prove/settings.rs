//! The prover's settings file: which deployment, as whom, and the one operation that may be tried.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml::Table;
use url::Url;

use crate::app;
use crate::audit::{VerifierKey, read_public};
use crate::domain::name::{Audience, ClientId, KeyId, OperationName, PrincipalId};
use crate::domain::secret::Secret;
use crate::settings::{Log, Mistake, Mistakes, Section, why_not};

/// A client's id and secret.
#[derive(Debug)]
pub struct Login {
    /// Its id.
    pub id: ClientId,
    /// Its secret.
    pub secret: Secret,
}

/// How an approver stands to what the policy asks people for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// A signature of theirs counts.
    Counts,
    /// They have the authority, and are answerable for the agent.
    Owner,
    /// They have authority for less.
    Below,
    /// Their authority is over.
    Ended,
    /// They have a key and no authority.
    WithoutAuthority,
}

const STANDS: [(&str, Stands); 5] = [
    ("counts", Stands::Counts),
    ("owner", Stands::Owner),
    ("below", Stands::Below),
    ("ended", Stands::Ended),
    ("without_authority", Stands::WithoutAuthority),
];

impl Stands {
    /// The word in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        STANDS.iter().find(|(_, stands)| *stands == self).map_or("", |(word, _)| word)
    }
}

/// An approver whose private key the prover holds.
#[derive(Debug)]
pub struct Signatory {
    /// Who.
    pub id: PrincipalId,
    /// How they stand.
    pub stands: Stands,
    /// The issuer that the key is registered for.
    pub issuer: String,
    /// The key's id.
    pub kid: KeyId,
    /// The private key, PKCS#8 in PEM.
    pub key: Secret,
}

/// The operation that may be tried, and with which parameters.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its name; no other is ever proposed.
    pub name: OperationName,
    /// What is executed, a few times in each run.
    pub once: Map<String, Value>,
    /// What the policy asks one person for; never executed.
    pub asked: Option<Map<String, Value>>,
    /// What the policy asks two people for; never executed.
    pub two: Option<Map<String, Value>>,
}

/// The key that signs reports.
#[derive(Debug)]
pub struct ReportKey {
    /// PKCS#8 in PEM.
    pub key: Secret,
    /// Its id.
    pub kid: KeyId,
}

/// The checked settings.
#[derive(Debug)]
pub struct Settings {
    /// The broker's URL, without a slash at its end.
    pub broker: String,
    /// The proxies' URLs, at least one.
    pub proxies: Vec<String>,
    /// The broker's name in approval records.
    pub audience: Audience,
    /// Where the sandbox behind it has its desk, if it is one.
    pub sandbox: Option<String>,
    /// The public keys of its log, if they are at hand.
    pub log: Option<Vec<VerifierKey>>,
    /// Who signed the deployment's certificates; the machine's own trust if not given.
    pub ca: Option<PathBuf>,
    /// Where signed reports are written.
    pub reports: PathBuf,
    /// Proposes, exchanges and executes.
    pub agent: Login,
    /// Hands records in.
    pub desk: Login,
    /// Reports; without one nothing is left in the log.
    pub reporter: Option<Login>,
    /// What may be tried.
    pub operation: Operation,
    /// Signs the reports.
    pub key: ReportKey,
    /// Whose keys the prover holds.
    pub approvers: Vec<Signatory>,
}

impl Settings {
    /// Reads and checks the file, and every key and secret it names. Paths in it are taken from its own directory.
    ///
    /// # Errors
    /// [`Mistakes`]: everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Mistakes> {
        let file = path.display().to_string();
        let log = Log::new(&file);
        let settings = match std::fs::read_to_string(path) {
            Err(error) => {
                log.add(
                    "",
                    format!("cannot be read: {}; `writ init` makes one for the sandbox", why_not(path, &error)),
                );
                None
            }
            Ok(text) => match text.parse::<Table>() {
                Ok(table) => read(&table, path.parent().unwrap_or(Path::new(".")), &log),
                Err(error) => {
                    log.add("", format!("is not TOML: {}", error.message()));
                    None
                }
            },
        };
        let mistakes: Vec<Mistake> = log.into_mistakes();
        match settings {
            Some(settings) if mistakes.is_empty() => Ok(settings),
            _ => Err(Mistakes(mistakes)),
        }
    }
}

fn read(table: &Table, dir: &Path, log: &Log) -> Option<Settings> {
    let top = Section::new(String::new(), table, log);
    let prove = top.sub("prove", "a table with `broker`, `audience`, `agent`, `desk`, `key` and `operation`");
    top.close();
    let prove = prove?;
    let broker = prove
        .text("broker", "the broker's URL, such as `https://broker.example`")
        .and_then(|url| address(&prove, "broker", url));
    let proxies: Vec<String> = prove
        .texts("proxies")
        .iter()
        .filter_map(|url| address(&prove, "proxies", url))
        .collect();
    let audience = prove.parsed("audience", "the broker's name in approval records, as in its `writ.toml`");
    let sandbox = prove.maybe_text("sandbox", "the sandbox's URL");
    let sandbox = sandbox.and_then(|url| address(&prove, "sandbox", url));
    let ca = prove
        .maybe_text("ca", "a PEM file with the authority's certificates")
        .map(|file| dir.join(file));
    let log = prove.maybe_text("log", "a file with the log's public keys").and_then(|file| {
        let read = read_public(&dir.join(file));
        read.map_err(|problem| prove.wrong("log", problem)).ok()
    });
    let reports = prove.maybe_text("reports", "a directory").unwrap_or("proofs");
    let reports = dir.join(reports);
    let agent = prove.sub("agent", "a table with `id` and `secret`").and_then(|t| login(t, dir));
    let desk = prove.sub("desk", "a table with `id` and `secret`").and_then(|t| login(t, dir));
    let reporter = prove.maybe_sub("reporter").and_then(|t| login(t, dir));
    let operation = prove.sub("operation", "a table with `name` and `once`").and_then(operation);
    let key = prove.sub("key", "a table with `file` and `kid`").and_then(|t| {
        let key = private(&t, "file", dir);
        let kid = t.parsed("kid", "the key's id");
        t.close();
        Some(ReportKey { key: key?, kid: kid? })
    });
    let approvers = prove.subs("approver").into_iter().filter_map(|t| signatory(t, dir)).collect();
    prove.close();
    let broker = broker?;
    Some(Settings {
        proxies: if proxies.is_empty() { vec![broker.clone()] } else { proxies },
        broker,
        audience: audience?,
        sandbox,
        log,
        ca,
        reports,
        agent: agent?,
        desk: desk?,
        reporter,
        operation: operation?,
        key: key?,
        approvers,
    })
}

fn address(section: &Section<'_>, key: &str, text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| {
        let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
        bare && matches!(url.scheme(), "http" | "https") && url.has_host()
    });
    if url.is_none() {
        section.wrong(
            key,
            "is not an http or https URL such as `https://broker.example`: name one without user, query and fragment",
        );
    }
    url.map(|url| url.as_str().trim_end_matches('/').to_owned())
}

/// A file that only its owner reads, without white space around its text.
fn private(section: &Section<'_>, key: &str, dir: &Path) -> Option<Secret> {
    let file = section.text(key, "a file")?;
    match app::read_private(&dir.join(file)) {
        Ok(secret) => Some(Secret::new(secret.expose().trim().to_owned())),
        Err(problem) => {
            section.wrong(key, problem);
            None
        }
    }
}

fn login(section: Section<'_>, dir: &Path) -> Option<Login> {
    let id = section.parsed("id", "the client's id");
    let secret = private(&section, "secret", dir);
    section.close();
    Some(Login { id: id?, secret: secret? })
}

fn signatory(section: Section<'_>, dir: &Path) -> Option<Signatory> {
    let id = section.parsed("id", "the approver, such as `usr_prover`");
    let stands = section.word("stands", &STANDS);
    let issuer = section
        .text("issuer", "the issuer that the key is registered for")
        .map(str::to_owned);
    let kid = section.parsed("kid", "the id of the registered key");
    let key = private(&section, "key", dir);
    section.close();
    Some(Signatory {
        id: id?,
        stands: stands?,
        issuer: issuer?,
        kid: kid?,
        key: key?,
    })
}

fn operation(section: Section<'_>) -> Option<Operation> {
    let name = section.parsed("name", "the operation, such as `refund.create`");
    let once = section.sub("once", "a table of the operation's parameters").map(parameters);
    let asked = section.maybe_sub("asked").map(parameters);
    let two = section.maybe_sub("two").map(parameters);
    section.close();
    Some(Operation {
        name: name?,
        once: once?,
        asked,
        two,
    })
}

fn parameters(section: Section<'_>) -> Map<String, Value> {
    let members: Map<String, Value> = section
        .entries()
        .filter_map(|(key, value)| Some((key.to_owned(), json(&section, key, value)?)))
        .collect();
    section.close();
    members
}

/// The value as it is sent; parameters are texts, whole numbers, truth values, and lists and objects of these.
fn json(section: &Section<'_>, key: &str, value: &toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Array(items) => Value::Array(items.iter().map(|item| json(section, key, item)).collect::<Option<_>>()?),
        toml::Value::Table(members) => Value::Object(
            members
                .iter()
                .map(|(name, member)| Some((name.clone(), json(section, key, member)?)))
                .collect::<Option<_>>()?,
        ),
        toml::Value::Float(_) | toml::Value::Datetime(_) => {
            section.wrong(
                key,
                "is a fraction or a date: no operation takes one; write a whole number or a text",
            );
            return None;
        }
    })
}
