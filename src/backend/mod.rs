//! Adapters: what may be sent to a backend, how its answers read, how a lost one is looked up.
//!
//! One TOML file describes one backend. [`Backends`] holds what all files declare; an [`Operation`] checks parameters, reads facts, compiles the
//! exact request and judges answers, all without IO; a [`Client`] does the IO of one backend with the secrets of one role.

mod address;
mod answer;
mod classify;
mod client;
mod compile;
mod condition;
mod explain;
mod facts;
mod graphql;
mod headers;
mod http_client;
mod load;
mod load_events;
mod load_operation;
mod load_request;
mod load_rules;
mod money;
mod operation;
mod params;
mod reconcile;
mod retry;
mod same_secret;
mod secrets;
mod signed_fields;
mod signed_header;
mod template;
mod text;
mod told;
mod unique_json;
mod webhook;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use crate::settings::{Mistake, Mistakes};
pub use answer::{Answer, FieldError};
pub use classify::{Classified, Outcome};
pub use client::{Client, ReadError, Sent};
pub use compile::CompileError;
pub use explain::{AnswerLine, ExplainError, Explained};
pub use facts::{Facts, FactsError, Stale};
pub use http_client::{chain, http_client};
pub use money::Currencies;
pub use operation::{Backend, Checked, Operation, ReadPlan};
pub use params::ParamError;
pub use reconcile::{Finding, Proof, Step};
pub use retry::{Next, Replay, Retry, Window, retry_after};
pub use same_secret::same_secret;
pub use secrets::{Credential, Environment, Need};
pub use told::{Marks, Trust};
pub use webhook::{BackendEvent, EventError};
pub use wire::{Broken, Connect, Outgoing, Wire};

use crate::domain::draft::{AdapterRef, CompiledRequest, IdempotencyKey};
use crate::domain::name::{BackendName, OperationName};

/// The backend files that `writ init` starts from: name and text.
pub const SHIPPED: [(&str, &str); 2] = [
    ("shop.toml", include_str!("../../policies/backends/shop.toml")),
    ("stripe.toml", include_str!("../../policies/backends/stripe.toml")),
];

/// Examples of further backends, which an operator enables by putting the text into the directory of backend files: name and text.
pub const EXAMPLES: [(&str, &str); 4] = [
    ("adyen.toml", include_str!("../../policies/backends/adyen.toml")),
    ("paypal.toml", include_str!("../../policies/backends/paypal.toml")),
    ("shopify.toml", include_str!("../../policies/backends/shopify.toml")),
    ("square.toml", include_str!("../../policies/backends/square.toml")),
];

/// Every configured backend and what it can be asked to do.
#[derive(Debug)]
pub struct Backends {
    backends: BTreeMap<BackendName, Arc<Backend>>,
    operations: BTreeMap<OperationName, Operation>,
}

impl Backends {
    /// Reads every `*.toml` of a directory.
    ///
    /// # Errors
    /// [`Mistakes`]: everything that is wrong with every file.
    pub fn load(dir: &Path) -> Result<Self, Mistakes> {
        let alone = |problem: String| {
            Mistakes(vec![Mistake {
                file: dir.display().to_string(),
                place: String::new(),
                problem,
            }])
        };
        let entries =
            std::fs::read_dir(dir).map_err(|error| alone(format!("cannot be read ({error}): name the directory of backend files")))?;
        let mut paths: Vec<_> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .collect();
        paths.sort();
        if paths.is_empty() {
            return Err(alone("holds no backend file: put one such as `stripe.toml` there".to_owned()));
        }
        let mut files = Vec::new();
        let mut mistakes = Vec::new();
        for path in paths {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            match std::fs::read_to_string(&path) {
                Ok(text) => files.push((name, text)),
                Err(error) => mistakes.push(Mistake {
                    file: name,
                    place: String::new(),
                    problem: format!("cannot be read ({error})"),
                }),
            }
        }
        Self::read(files.iter().map(|(name, text)| (name.as_str(), text.as_str())), dir, mistakes)
    }

    /// Reads files that are already in memory: name and text. Relative paths of secret files are taken from `dir`.
    ///
    /// # Errors
    /// [`Mistakes`]: everything that is wrong with every file.
    pub fn from_texts<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>, dir: &Path) -> Result<Self, Mistakes> {
        Self::read(files, dir, Vec::new())
    }

    fn read<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>, dir: &Path, mut mistakes: Vec<Mistake>) -> Result<Self, Mistakes> {
        let mut backends = BTreeMap::new();
        let mut operations: BTreeMap<OperationName, Operation> = BTreeMap::new();
        for (name, text) in files {
            let (loaded, found) = load::file(name, text, dir);
            mistakes.extend(found);
            let Some(loaded) = loaded else { continue };
            for operation in loaded.operations {
                if let Some(other) = operations.get(&operation.name) {
                    mistakes.push(Mistake {
                        file: name.to_owned(),
                        place: format!("operation[{}]", operation.name),
                        problem: format!("is already declared in {}.toml: give one of them another name", other.backend.name),
                    });
                }
                operations.insert(operation.name.clone(), operation);
            }
            backends.insert(loaded.backend.name.clone(), loaded.backend);
        }
        if mistakes.is_empty() {
            Ok(Self { backends, operations })
        } else {
            Err(Mistakes(mistakes))
        }
    }

    /// The operation of this name.
    #[must_use]
    pub fn operation(&self, name: &OperationName) -> Option<&Operation> {
        self.operations.get(name)
    }

    /// Every operation, by name.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// The operations of a backend that an event of this type can be about.
    pub fn told_by<'a>(&'a self, backend: &'a BackendName, kind: &'a str) -> impl Iterator<Item = &'a Operation> {
        self.operations()
            .filter(move |operation| operation.backend.name == *backend && operation.has_events_of(kind))
    }

    /// The backend of this name.
    #[must_use]
    pub fn backend(&self, name: &BackendName) -> Option<&Arc<Backend>> {
        self.backends.get(name)
    }

    /// Every backend, by name.
    pub fn backends(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.backends.values()
    }

    /// The file that describes the operation's backend and its hash.
    #[must_use]
    pub fn adapter_ref(&self, operation: &OperationName) -> Option<&AdapterRef> {
        self.operation(operation).map(|operation| operation.backend().adapter())
    }
}

/// One client for each backend, with the secrets of one role.
#[derive(Debug)]
pub struct Clients(BTreeMap<BackendName, Client>);

impl Clients {
    /// Reads the role's secrets of every backend; requests will leave over HTTP. Opens no connection.
    ///
    /// # Errors
    /// [`Mistakes`]: every secret that is missing.
    pub fn connect(backends: &Backends, need: Need, env: Environment<'_>) -> Result<Self, Mistakes> {
        Self::over(backends, need, env, &wire::http)
    }

    /// As [`Clients::connect`], over wires of another make.
    ///
    /// # Errors
    /// As [`Clients::connect`].
    pub fn over(backends: &Backends, need: Need, env: Environment<'_>, connect: Connect<'_>) -> Result<Self, Mistakes> {
        let mut clients = BTreeMap::new();
        let mut mistakes = Vec::new();
        for backend in backends.backends() {
            match Client::over(backend, need, env, connect) {
                Ok(client) => {
                    clients.insert(backend.name.clone(), client);
                }
                Err(found) => mistakes.extend(found),
            }
        }
        if mistakes.is_empty() {
            Ok(Self(clients))
        } else {
            Err(Mistakes(mistakes))
        }
    }

    /// One read at the backend the plan names.
    ///
    /// # Errors
    /// [`ReadError`]; whatever the status, an answer is not an error.
    pub async fn read(&self, plan: &ReadPlan, credential: Credential) -> Result<Answer, ReadError> {
        let client = self
            .of(&plan.backend)
            .ok_or_else(|| ReadError::Foreign(format!("`{}` is not configured", plan.backend)))?;
        client.read(plan, credential).await
    }

    /// Sends the stored bytes with the stored key, once, to the backend the request names.
    pub async fn send(&self, request: &CompiledRequest, key: &IdempotencyKey) -> Sent {
        match self.of(&request.backend) {
            Some(client) => client.send(request, key).await,
            None => Sent::NotSent {
                why: format!("the backend `{}` is not configured", request.backend),
            },
        }
    }

    /// The client of a backend.
    #[must_use]
    pub fn of(&self, backend: &BackendName) -> Option<&Client> {
        self.0.get(backend)
    }
}

/// The text of a backend file with another address, everything else as it was: for a test server, a sandbox, or one's own account. Loopback and private
/// addresses are allowed in it if `base_url` is one.
///
/// # Errors
/// [`Mistakes`] if the text has no `base_url` line at its top.
pub fn relocated(file: &str, text: &str, base_url: &str) -> Result<String, Mistakes> {
    let quoted = toml::Value::String(base_url.to_owned());
    let inside = url::Url::parse(base_url).is_ok_and(|url| {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|ip| address::refusal(ip, operation::Private::Refused).is_some())
    });
    let mut found = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let key = line.split('=').next().unwrap_or_default().trim();
        if !found && key == "base_url" {
            found = true;
            lines.push(format!("base_url = {quoted}"));
            if inside {
                lines.push("allow_private = true".to_owned());
            }
        } else if key != "allow_private" {
            lines.push(line.to_owned());
        }
    }
    if found {
        lines.push(String::new());
        return Ok(lines.join("\n"));
    }
    Err(Mistakes(vec![Mistake {
        file: file.to_owned(),
        place: "base_url".to_owned(),
        problem: "is missing".to_owned(),
    }]))
}
