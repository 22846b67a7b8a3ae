//! A complete working directory: configuration, keys, registries, an example policy and backend files.

mod example;
mod prover;
mod sandbox;
mod temp;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use prover::PROVE_FILE;
pub use sandbox::{ExpectedSandbox, SANDBOX_PORT, SANDBOX_URL, sandbox_endpoints, sandbox_of};
pub(crate) use temp::TempDir;

use example::{EXAMPLES, example_approver, example_clients, policy_approver};

use crate::app::{self, Faults, Outside};
use crate::audit::{Actor, ActorKind};
use crate::backend::{Backends, SHIPPED, relocated};
use crate::config::{self, Config};
use crate::domain::clock::{Entropy, random};
use crate::domain::digest::Digest;
use crate::domain::id::OperationId;
use crate::domain::name::{Audience, ClientId, PrincipalId};
use crate::domain::principal::Client;
use crate::domain::secret::{Secret, constant_time_eq};
use crate::store::record::ClientEntry;
use crate::store::{Op, Store};
use crate::token::KeyRing;

/// The example policy's files: path below the working directory, and text.
const POLICY: [(&str, &str); 7] = [
    ("policies/cedar/policy.toml", include_str!("../../policies/cedar/policy.toml")),
    (
        "policies/cedar/schema.cedarschema",
        include_str!("../../policies/cedar/schema.cedarschema"),
    ),
    ("policies/cedar/rules.cedar", include_str!("../../policies/cedar/rules.cedar")),
    ("policies/cedar/limits.toml", include_str!("../../policies/cedar/limits.toml")),
    (
        "policies/cedar/cases/access.json",
        include_str!("../../policies/cedar/cases/access.json"),
    ),
    (
        "policies/cedar/cases/reads-and-writes.json",
        include_str!("../../policies/cedar/cases/reads-and-writes.json"),
    ),
    (
        "policies/cedar/cases/refunds.json",
        include_str!("../../policies/cedar/cases/refunds.json"),
    ),
];

/// The directory of the backend files, below the working directory.
const BACKENDS: &str = "policies/backends";

/// How long the first signing key may sign.
pub const KEY_LIFETIME: Duration = Duration::from_secs(90 * 86_400);

/// The issuer of records that `writ approve` signs.
pub const LOCAL_ISSUER: &str = "writ-cli";

/// A backend to be written into the working directory.
pub struct Endpoint {
    /// `stripe` or `shop`: the shipped file it starts from.
    pub name: &'static str,
    /// Where it is.
    pub url: String,
    /// The broker's secret, which reads facts.
    pub facts: Secret,
    /// The proxy's secret for reads and look-ups.
    pub read: Secret,
    /// The proxy's secret for writes.
    pub write: Secret,
}

/// What a working directory is made with.
pub struct Options {
    /// Where; must be empty or not there.
    pub dir: PathBuf,
    /// Where the broker listens, such as `127.0.0.1:8700`.
    pub broker_listen: String,
    /// Where a separate proxy listens.
    pub proxy_listen: String,
    /// The URL under which the broker is reached, if that is not the address it listens on.
    pub public_url: Option<String>,
    /// The broker's name in approval records, if that is not its URL.
    pub audience: Option<Audience>,
    /// The backends. No key that reads may be one that writes: the broker holds the first, and must not be able to execute.
    pub endpoints: Vec<Endpoint>,
    /// Who can approve from the start.
    pub approvers: Approvers,
}

/// Who can approve in a new working directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approvers {
    /// The example's people, whose private keys lie in the directory: for the sandbox only.
    Examples,
    /// Nobody yet: each person makes a key on their own machine and is registered with the public half.
    Nobody,
}

/// A working directory that was made. The clients' secrets exist nowhere else.
pub struct Created {
    /// The configuration file.
    pub config: PathBuf,
    /// Each client with its role and secret, shown once.
    pub clients: Vec<(Client, Secret)>,
    /// Each approver with the file of their private key.
    pub approvers: Vec<(PrincipalId, PathBuf)>,
    /// The prover's settings file, if the directory has a prover.
    pub prover: Option<PathBuf>,
}

/// Makes the directory and everything in it.
///
/// # Errors
/// [`Faults`] with what stood in the way; what was made before it is left for inspection.
pub async fn create(options: &Options, outside: &Outside) -> Result<Created, Faults> {
    let dir = &options.dir;
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Faults(vec![format!(
            "{} is not empty; name a directory that is, or is not there",
            dir.display()
        )]));
    }
    if let Some((reader, writer)) = key_that_executes(&options.endpoints) {
        return Err(Faults(vec![format!(
            "the key that only reads from {reader} is the key that executes at {writer}: the broker would hold it; name a restricted key that only reads"
        )]));
    }
    let adapters = adapters(options)?;
    let texts = adapters.iter().map(|(file, text)| (file.as_str(), text.as_str()));
    let backends = Backends::from_texts(texts, &dir.join(BACKENDS)).map_err(|mistakes| faults(&mistakes.0))?;
    files(options, &adapters, outside).map_err(|error| Faults(vec![error]))?;
    let path = dir.join(config::FILE);
    let config = Config::load(&path).map_err(|mistakes| faults(&mistakes.0))?;
    let name = app::log_name(&config.public_url).map_err(|error| Faults(vec![error]))?;
    let key = app::log_files(&config).generate(&name, &*outside.entropy);
    key.map_err(|error| Faults(vec![error]))?;
    let store = app::open_store(&config, outside).map_err(|error| Faults(vec![error]))?;
    let made = registries(&*store, &config, options, &backends, outside).await;
    let (clients, approvers) = made.map_err(|error| Faults(vec![error]))?;
    let prover = match options.approvers {
        Approvers::Nobody => None,
        Approvers::Examples => {
            let made = prover(&*store, &config, options, outside).await;
            Some(made.map_err(|error| Faults(vec![error]))?)
        }
    };
    Ok(Created {
        config: path,
        clients,
        approvers,
        prover,
    })
}

/// The backends between which a key to read with is a key to write with.
fn key_that_executes(endpoints: &[Endpoint]) -> Option<(&'static str, &'static str)> {
    let same = |a: &Secret, b: &Secret| constant_time_eq(a.expose().as_bytes(), b.expose().as_bytes());
    let pairs = endpoints
        .iter()
        .flat_map(|reader| endpoints.iter().map(move |writer| (reader, writer)));
    let mut found = pairs.filter(|(reader, writer)| same(&reader.facts, &writer.write) || same(&reader.read, &writer.write));
    found.next().map(|(reader, writer)| (reader.name, writer.name))
}

fn faults(mistakes: &[impl ToString]) -> Faults {
    Faults(mistakes.iter().map(ToString::to_string).collect())
}

/// The backend files, name and text, as they will be written.
fn adapters(options: &Options) -> Result<Vec<(String, String)>, Faults> {
    let adapter = |endpoint: &Endpoint| {
        let file = format!("{}.toml", endpoint.name);
        let shipped = SHIPPED.iter().find(|(name, _)| *name == file).map(|(_, text)| *text);
        let shipped = shipped.ok_or_else(|| Faults(vec![format!("there is no shipped backend file `{file}`")]))?;
        let moved = relocated(&file, shipped, &endpoint.url).map_err(|mistakes| faults(&mistakes.0))?;
        Ok((file, with_secret_files(&moved, endpoint.name)))
    };
    options.endpoints.iter().map(adapter).collect()
}

fn files(options: &Options, adapters: &[(String, String)], outside: &Outside) -> Result<(), String> {
    let dir = &options.dir;
    let people: &[&str] = match options.approvers {
        Approvers::Examples => &["approvers", prover::DIR],
        Approvers::Nobody => &[],
    };
    for below in ["", "keys", "secrets", "data", "policies/cedar/cases", BACKENDS]
        .iter()
        .chain(people)
    {
        let path = dir.join(below);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    write(&dir.join(config::FILE), &configuration(options), 0o644)?;
    for (path, text) in POLICY {
        write(&dir.join(path), text, 0o644)?;
    }
    for (file, text) in adapters {
        write(&dir.join(BACKENDS).join(file), text, 0o644)?;
    }
    for endpoint in &options.endpoints {
        for (word, secret) in [("facts", &endpoint.facts), ("read", &endpoint.read), ("write", &endpoint.write)] {
            write(
                &dir.join("secrets").join(format!("{}-{word}", endpoint.name)),
                secret.expose(),
                0o600,
            )?;
        }
    }
    for (file, text) in adapters {
        let name = webhook_file(file.trim_end_matches(".toml"));
        if text.contains(&format!("secrets/{name}\"")) {
            // Fits nobody's signature until the backend's own secret is put in its place, or the sandbox's.
            let secret = fresh_secret(&*outside.entropy).0;
            write(&dir.join("secrets").join(name), &format!("whsec_{}", secret.expose()), 0o600)?;
        }
    }
    KeyRing::generate(&dir.join("keys"), outside.clock.now(), KEY_LIFETIME, &*outside.entropy).map_err(|error| error.to_string())?;
    Ok(())
}

/// The file with the secrets under which a backend signs its events, in a working directory.
fn webhook_file(backend: &str) -> String {
    format!("{backend}-webhook")
}

/// The shipped file names environment variables; a working directory keeps its secrets in files of its own.
fn with_secret_files(text: &str, backend: &str) -> String {
    let upper = backend.to_ascii_uppercase();
    let text = ["facts", "read", "write"].iter().fold(text.to_owned(), |text, word| {
        let variable = format!("{{ env = \"WRIT_{upper}_{}_KEY\" }}", word.to_ascii_uppercase());
        text.replace(&variable, &format!("{{ file = \"../../secrets/{backend}-{word}\" }}"))
    });
    text.replace(
        &format!("{{ env = \"WRIT_{upper}_WEBHOOK_SECRETS\" }}"),
        &format!("{{ file = \"../../secrets/{}\" }}", webhook_file(backend)),
    )
}

fn configuration(options: &Options) -> String {
    let Options {
        broker_listen,
        proxy_listen,
        ..
    } = options;
    let public_url = options.public_url.clone().unwrap_or_else(|| format!("http://{broker_listen}"));
    let audience = options.audience.as_ref().map_or(&*public_url, |name| name.as_str());
    // Both are visible ASCII, whose Rust and TOML escapes are the same.
    format!(
        r#"# writ. Paths are taken from this file's directory; `writ config check` says what is wrong.

[broker]
listen           = "{broker_listen}"
public_url       = {public_url:?}
# The broker's name in approval records (`aud`).
audience         = {audience:?}
# From storing a draft until it can no longer be approved or executed.
draft_lifetime   = "4h"
# From asking people until their card closes.
card_lifetime    = "1h"
# From the last signature until the approval can no longer be used.
execution_window = "5m"
# Signs what the policy allows.
policy_approver  = "rule_policy"
# Tells metrics to whoever asks at this address, in the clear; left out, nobody is told.
# metrics_listen = "127.0.0.1:9464"

# With a certificate it speaks HTTPS, and `public_url` is an https URL. Renewed files are taken over while it serves. A process that is only
# the proxy has the same in [proxy.tls].
# [broker.tls]
# certificate        = "tls/broker.pem"
# key                = "tls/broker.key"
# Who signs the certificates of clients, and whether each client needs one: optional or required.
# client_ca          = "tls/clients.pem"
# client_certificate = "optional"

[proxy]
# Used by `writ serve --role proxy`; with `--role all` both answer at the broker's address.
listen   = "{proxy_listen}"
# The proxies' name in credentials: all that share one store have the same.
audience = "urn:writ:proxy:main"
name     = "proxy-1"
# How long nobody else takes over an execution after its last sign of life.
lease    = "60s"
# Spend a credential only with the receipt that its issue is in the audit log: docs/audit.md.
# require_receipt = true
# metrics_listen = "127.0.0.1:9465"

[store]
path = "data/writ.db"
# With less room than this on its disk no drafts and no credentials are taken: it is kept for what has begun.
low_water = "256MiB"
# Set aside beside it, and freed when the result of a sent request finds the disk full.
ballast   = "8MiB"
# Where results wait that the store does not take; beside it if left out. Another disk is better.
# results = "/var/spool/writ/results"

[keys]
dir = "keys"

[audit]
# The log's own key, apart from those of credentials. Beside it, in log.pub, lies what outsiders verify the log with.
key  = "keys/log.key"
# The log's last head, outside the database, so that whoever can write there alone cannot take the log back. Another disk is better.
head = "data/writ.head"
# The head to standard output every ten seconds in which it changed, so that whoever collects the output keeps it.
# head_lines = true
# What waits for witnesses. With `any` or `quorum` no credential is issued while too few have cosigned within `max_age`.
# require = "none"
# quorum  = 1
# max_age = "1m"
# Who cosigns the log's heads, in another domain of trust (C2SP tlog-witness); its key is got from whoever runs it. docs/witnesses.md says more.
# [[audit.witness]]
# url  = "https://witness.example"
# vkey = "witness.example/w1+29ca9143+BGrVnuu0mczCCrCPnrKPUX+2mfVszL6C0xEXrnK+gOIh"

[policy]
dir = "policies/cedar"

[backends]
dir = "policies/backends"

# What one process serves at most; these are the values if nothing is said.
# [limits]
# connections             = 512
# connections_per_address = 256
# For a connection's handshake, and then for each request's head.
# head_timeout            = "10s"
# For a connection on which nobody shows who they are, however much it is used.
# stranger_timeout        = "1m"
# Calls of one client: so many a minute, after so many at once.
# client_rate             = 6000
# client_burst            = 1000
# Calls that show nobody's secret and no good credential, from one address and from everywhere: more of them are counted and not written down one by one.
# failure_rate            = 30
# failure_burst           = 300
# all_failures_rate       = 120
# all_failures_burst      = 1000
# Calls that change something and are worked on at once; new drafts get half of it, signatures and exchanges three quarters, executions all.
# calls                   = 256

[log]
# text or json
format = "text"
filter = "info"
"#
    )
}

/// The prover's own people and programs, registered, and its settings file.
async fn prover(store: &dyn Store, config: &Config, options: &Options, outside: &Outside) -> Result<PathBuf, String> {
    let sandbox = options.endpoints.first().map_or(SANDBOX_URL, |endpoint| endpoint.url.as_str());
    let made = prover::make(
        &options.dir,
        &config.public_url,
        config.audience.as_str(),
        sandbox,
        outside.clock.now(),
        &*outside.entropy,
    )?;
    for approver in made.approvers {
        let added = store.add_approver(init(outside), approver).await;
        added.map_err(|error| error.to_string())?;
    }
    for client in made.clients {
        let added = store.add_client(init(outside), client).await;
        added.map_err(|error| error.to_string())?;
    }
    Ok(options.dir.join(PROVE_FILE))
}

/// A fresh operation of whoever makes a working directory.
fn init(outside: &Outside) -> Op {
    Op {
        id: OperationId::generate(&*outside.clock, &*outside.entropy),
        actor: Actor::new(ActorKind::Person, "init"),
        request: None,
    }
}

async fn registries(
    store: &dyn Store,
    config: &Config,
    options: &Options,
    backends: &Backends,
    outside: &Outside,
) -> Result<(Vec<(Client, Secret)>, Vec<(PrincipalId, PathBuf)>), String> {
    let now = outside.clock.now();
    let op = || init(outside);
    let policy = policy_approver(config, now)?;
    store.add_approver(op(), policy).await.map_err(|error| error.to_string())?;
    let mut approvers = Vec::new();
    let examples = match options.approvers {
        Approvers::Examples => EXAMPLES,
        Approvers::Nobody => &[],
    };
    for example in examples {
        let path = options.dir.join("approvers").join(format!("{}.pem", example.id));
        let entry = example_approver(example, &path, now)?;
        store.add_approver(op(), entry.clone()).await.map_err(|error| error.to_string())?;
        approvers.push((entry.approver.id, path));
    }
    let mut clients = Vec::new();
    for client in example_clients(backends, now)? {
        let (secret, secret_sha256) = fresh_secret(&*outside.entropy);
        store
            .add_client(
                op(),
                ClientEntry {
                    client: client.clone(),
                    secret_sha256,
                    certificate: None,
                },
            )
            .await
            .map_err(|error| error.to_string())?;
        clients.push((client, secret));
    }
    Ok((clients, approvers))
}

/// A client's secret, 256 random bits in base64url, and the hash that is stored of it.
#[must_use]
pub fn fresh_secret(entropy: &dyn Entropy) -> (Secret, Digest) {
    let text = URL_SAFE_NO_PAD.encode(random::<32>(entropy));
    let hash = Digest::of(text.as_bytes());
    (Secret::new(text), hash)
}

/// Writes a new file with this mode; an existing one is not touched.
///
/// # Errors
/// A sentence with the file and what the system said.
pub fn write(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(at)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(at)
}

impl Created {
    /// The secret of a client of this id.
    #[must_use]
    pub fn secret(&self, id: &str) -> Option<(&ClientId, &Secret)> {
        self.clients
            .iter()
            .find(|(client, _)| client.id.as_str() == id)
            .map(|(client, secret)| (&client.id, secret))
    }
}
