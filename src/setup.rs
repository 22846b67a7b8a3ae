//! A complete working directory: configuration, keys, registries, an example policy and backend files.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::app::{self, Faults, Outside};
use crate::approval::RecordSigner;
use crate::audit::{Actor, ActorKind};
use crate::backend::{Backends, SHIPPED, relocated};
use crate::config::{self, Config};
use crate::domain::clock::{Entropy, random};
use crate::domain::digest::Digest;
use crate::domain::id::OperationId;
use crate::domain::name::{ClientId, KeyId, PrincipalId};
use crate::domain::operation::Stage;
use crate::domain::principal::{Approver, ApproverKey, Authority, Client, KeyKind, Limit, OperationPattern, Permission, Role};
use crate::domain::secret::Secret;
use crate::domain::time::Timestamp;
use crate::store::contract::{ApproverEntry, ClientEntry};
use crate::store::{Op, Store};
use crate::token::KeyRing;

/// The example policy's files: path below the working directory, and text.
const POLICY: [(&str, &str); 7] = [
    ("policies/cedar/policy.toml", include_str!("../policies/cedar/policy.toml")),
    (
        "policies/cedar/schema.cedarschema",
        include_str!("../policies/cedar/schema.cedarschema"),
    ),
    ("policies/cedar/rules.cedar", include_str!("../policies/cedar/rules.cedar")),
    ("policies/cedar/limits.toml", include_str!("../policies/cedar/limits.toml")),
    (
        "policies/cedar/cases/access.json",
        include_str!("../policies/cedar/cases/access.json"),
    ),
    (
        "policies/cedar/cases/reads-and-writes.json",
        include_str!("../policies/cedar/cases/reads-and-writes.json"),
    ),
    (
        "policies/cedar/cases/refunds.json",
        include_str!("../policies/cedar/cases/refunds.json"),
    ),
];

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

/// The port of `writ sandbox`.
pub const SANDBOX_PORT: u16 = 8790;

/// Where `writ sandbox` answers unless it is told otherwise.
pub const SANDBOX_URL: &str = "http://127.0.0.1:8790";

/// Both shipped backends at a sandbox that will answer at `url` with these keys.
#[must_use]
pub fn sandbox_endpoints(url: &str, read_key: &Secret, write_key: &Secret) -> Vec<Endpoint> {
    let copy = |key: &Secret| Secret::new(key.expose().to_owned());
    let endpoint = |name| Endpoint {
        name,
        url: url.to_owned(),
        facts: copy(read_key),
        read: copy(read_key),
        write: copy(write_key),
    };
    vec![endpoint("stripe"), endpoint("shop")]
}

/// The sandbox that a working directory was made for.
pub struct ExpectedSandbox {
    /// The port on 127.0.0.1 that its backend file names.
    pub port: u16,
    /// The key that may only read.
    pub read_key: Secret,
    /// The key that may read and write.
    pub write_key: Secret,
}

/// The port and the keys that the working directory expects its sandbox to have.
///
/// # Errors
/// A sentence, if its payments backend is not the sandbox: a real key is never taken for one of the sandbox's.
pub fn sandbox_of(dir: &Path) -> Result<ExpectedSandbox, String> {
    let not_one = || {
        format!(
            "{} was not made for the sandbox; make a directory with `writ init` and no backend URL",
            dir.display()
        )
    };
    let backends = Backends::load(&dir.join("policies/backends")).map_err(|mistakes| mistakes.to_string())?;
    let stripe = backends
        .backends()
        .find(|backend| backend.name().as_str() == "stripe")
        .ok_or_else(not_one)?;
    let url = stripe.base_url();
    let key = |file: &str, prefix: &str| -> Result<Secret, String> {
        let secret = app::read_private(&dir.join("secrets").join(file))?;
        let text = secret.expose().trim();
        if text.starts_with(prefix) {
            Ok(Secret::new(text.to_owned()))
        } else {
            Err(not_one())
        }
    };
    match (url.host_str(), url.port_or_known_default()) {
        (Some("127.0.0.1" | "localhost"), Some(port)) => Ok(ExpectedSandbox {
            port,
            read_key: key("stripe-read", "rk_sandbox_")?,
            write_key: key("stripe-write", "sk_sandbox_")?,
        }),
        _ => Err(not_one()),
    }
}

/// What a working directory is made with.
pub struct Options {
    /// Where; must be empty or not there.
    pub dir: PathBuf,
    /// Where the broker listens, such as `127.0.0.1:8700`.
    pub broker_listen: String,
    /// Where a separate proxy listens.
    pub proxy_listen: String,
    /// The backends.
    pub endpoints: Vec<Endpoint>,
}

/// A working directory that was made. The clients' secrets exist nowhere else.
pub struct Created {
    /// The configuration file.
    pub config: PathBuf,
    /// Each client with its role and secret, shown once.
    pub clients: Vec<(Client, Secret)>,
    /// Each approver with the file of their private key.
    pub approvers: Vec<(PrincipalId, PathBuf)>,
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
    files(options, outside).map_err(|error| Faults(vec![error]))?;
    let path = dir.join(config::FILE);
    let config = Config::load(&path).map_err(|mistakes| Faults(mistakes.0.iter().map(ToString::to_string).collect()))?;
    let store = app::open_store(&config, outside).map_err(|error| Faults(vec![error]))?;
    let made = registries(&*store, &config, dir, outside).await;
    let (clients, approvers) = made.map_err(|error| Faults(vec![error]))?;
    Ok(Created {
        config: path,
        clients,
        approvers,
    })
}

fn files(options: &Options, outside: &Outside) -> Result<(), String> {
    let dir = &options.dir;
    for below in [
        "",
        "keys",
        "approvers",
        "secrets",
        "data",
        "policies/cedar/cases",
        "policies/backends",
    ] {
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
    for endpoint in &options.endpoints {
        let file = format!("{}.toml", endpoint.name);
        let shipped = SHIPPED.iter().find(|(name, _)| *name == file).map(|(_, text)| *text);
        let shipped = shipped.ok_or_else(|| format!("there is no shipped backend file `{file}`"))?;
        let moved = relocated(&file, shipped, &endpoint.url).map_err(|mistakes| mistakes.to_string())?;
        write(
            &dir.join("policies/backends").join(&file),
            &with_secret_files(&moved, endpoint.name),
            0o644,
        )?;
        for (word, secret) in [("facts", &endpoint.facts), ("read", &endpoint.read), ("write", &endpoint.write)] {
            write(
                &dir.join("secrets").join(format!("{}-{word}", endpoint.name)),
                secret.expose(),
                0o600,
            )?;
        }
    }
    KeyRing::generate(&dir.join("keys"), outside.clock.now(), KEY_LIFETIME, &*outside.entropy).map_err(|error| error.to_string())?;
    Ok(())
}

/// The shipped file names environment variables; a working directory keeps its secrets in files of its own.
fn with_secret_files(text: &str, backend: &str) -> String {
    let upper = backend.to_ascii_uppercase();
    ["facts", "read", "write"].iter().fold(text.to_owned(), |text, word| {
        let variable = format!("{{ env = \"WRIT_{upper}_{}_KEY\" }}", word.to_ascii_uppercase());
        text.replace(&variable, &format!("{{ file = \"../../secrets/{backend}-{word}\" }}"))
    })
}

fn configuration(options: &Options) -> String {
    let Options {
        broker_listen,
        proxy_listen,
        ..
    } = options;
    format!(
        r#"# writ. Paths are taken from this file's directory; `writ config check` says what is wrong.

[broker]
listen           = "{broker_listen}"
public_url       = "http://{broker_listen}"
# The broker's name in approval records (`aud`).
audience         = "http://{broker_listen}"
# From storing a draft until it can no longer be approved or executed.
draft_lifetime   = "4h"
# From asking people until their card closes.
card_lifetime    = "1h"
# From the last signature until the approval can no longer be used.
execution_window = "5m"
# Signs what the policy allows.
policy_approver  = "rule_policy"

[proxy]
# Used by `writ serve --role proxy`; with `--role all` both answer at the broker's address.
listen   = "{proxy_listen}"
# The proxies' name in credentials: all that share one store have the same.
audience = "urn:writ:proxy:main"
name     = "proxy-1"
# How long nobody else takes over an execution after its last sign of life.
lease    = "60s"

[store]
path = "data/writ.db"

[keys]
dir = "keys"

[policy]
dir = "policies/cedar"

[backends]
dir = "policies/backends"

[log]
# text or json
format = "text"
filter = "info"
"#
    )
}

async fn registries(
    store: &dyn Store,
    config: &Config,
    dir: &Path,
    outside: &Outside,
) -> Result<(Vec<(Client, Secret)>, Vec<(PrincipalId, PathBuf)>), String> {
    let now = outside.clock.now();
    let op = || Op {
        id: OperationId::generate(&*outside.clock, &*outside.entropy),
        actor: Actor::new(ActorKind::Person, "init"),
        request: None,
    };
    let policy = policy_approver(config, now)?;
    store.add_approver(op(), policy).await.map_err(|error| error.to_string())?;
    let mut approvers = Vec::new();
    for example in EXAMPLES {
        let path = dir.join("approvers").join(format!("{}.pem", example.id));
        let entry = example_approver(example, &path, now)?;
        store.add_approver(op(), entry.clone()).await.map_err(|error| error.to_string())?;
        approvers.push((entry.approver.id, path));
    }
    let mut clients = Vec::new();
    for client in example_clients(now)? {
        let (secret, secret_sha256) = fresh_secret(&*outside.entropy);
        store
            .add_client(
                op(),
                ClientEntry {
                    client: client.clone(),
                    secret_sha256,
                },
            )
            .await
            .map_err(|error| error.to_string())?;
        clients.push((client, secret));
    }
    Ok((clients, approvers))
}

/// The policy's own approver: its key signs what a rule allows.
fn policy_approver(config: &Config, now: Timestamp) -> Result<ApproverEntry, String> {
    let made = RecordSigner::generate(KeyKind::Ed25519).map_err(|error| error.to_string())?;
    write(&config.keys.join(config::POLICY_KEY), made.private_pem.expose(), 0o600)?;
    let id = config.policy_approver.clone();
    let key = ApproverKey {
        kid: app::policy_key_id(&id)?,
        approver: id.clone(),
        issuer: config.audience.as_str().to_owned(),
        kind: KeyKind::Ed25519,
        public: made.public,
        not_before: now.minus(Duration::from_secs(5)),
        not_after: None,
        revoked_at: None,
    };
    Ok(ApproverEntry {
        approver: Approver {
            id,
            authority: Vec::new(),
            created_at: now,
            revoked_at: None,
        },
        keys: vec![key],
    })
}

/// An approver of the example: who, for which operations, in which queue, up to how much of the major currencies.
struct Example {
    id: &'static str,
    operations: &'static str,
    queue: &'static str,
    limits: &'static [(&'static str, i64)],
}

const EXAMPLES: &[Example] = &[
    Example {
        id: "usr_mia",
        operations: "refund.*",
        queue: "finance.refunds",
        limits: &[("usd", 500_000), ("eur", 500_000), ("gbp", 400_000), ("jpy", 750_000)],
    },
    Example {
        id: "usr_tom",
        operations: "refund.*",
        queue: "finance.refunds",
        limits: &[("usd", 150_000), ("eur", 150_000)],
    },
    Example {
        id: "usr_ann",
        operations: "refund.*",
        queue: "finance.refunds",
        limits: &[("usd", 500_000)],
    },
    Example {
        id: "usr_ada",
        operations: "email.*",
        queue: "account.admins",
        limits: &[],
    },
];

fn example_approver(example: &Example, path: &Path, now: Timestamp) -> Result<ApproverEntry, String> {
    let name = |error: crate::domain::name::NameError| error.to_string();
    let id: PrincipalId = example.id.parse().map_err(name)?;
    let made = RecordSigner::generate(KeyKind::Es256).map_err(|error| error.to_string())?;
    write(path, made.private_pem.expose(), 0o600)?;
    let kid: KeyId = format!("{id}-1").parse().map_err(name)?;
    let operations: OperationPattern = example.operations.parse().map_err(name)?;
    let queue: crate::domain::name::QueueName = example.queue.parse().map_err(name)?;
    let row = |limit: Option<Limit>| -> Result<Authority, String> {
        Ok(Authority {
            operations: operations.clone(),
            queue: queue.clone(),
            limit,
            valid_from: now,
            valid_to: None,
            granted_by: "usr_init".parse().map_err(name)?,
        })
    };
    let mut authority = Vec::new();
    for (currency, max_minor) in example.limits {
        let currency = currency
            .parse()
            .map_err(|error: crate::domain::money::CurrencyError| error.to_string())?;
        authority.push(row(Some(Limit {
            max_minor: *max_minor,
            currency,
        }))?);
    }
    if authority.is_empty() {
        authority.push(row(None)?);
    }
    let key = ApproverKey {
        kid,
        approver: id.clone(),
        issuer: LOCAL_ISSUER.to_owned(),
        kind: KeyKind::Es256,
        public: made.public,
        not_before: now.minus(Duration::from_secs(5)),
        not_after: None,
        revoked_at: None,
    };
    Ok(ApproverEntry {
        approver: Approver {
            id,
            authority,
            created_at: now,
            revoked_at: None,
        },
        keys: vec![key],
    })
}

fn example_clients(now: Timestamp) -> Result<Vec<Client>, String> {
    let name = |error: crate::domain::name::NameError| error.to_string();
    let owner: PrincipalId = "usr_ann".parse().map_err(name)?;
    let allow = |operations: &str, stages: &[Stage]| -> Result<Permission, String> {
        Ok(Permission {
            operations: operations.parse().map_err(name)?,
            stages: stages.iter().copied().collect(),
        })
    };
    let write = [Stage::Draft, Stage::Execute];
    let permissions = vec![
        allow("order.read", &[Stage::Read])?,
        allow("charge.read", &[Stage::Read])?,
        allow("customer.read", &[Stage::Read])?,
        allow("refund.create", &write)?,
        allow("shipping_address.update", &write)?,
        allow("email.update", &write)?,
    ];
    let rows = [
        ("support-agent", Role::Orchestrator, Some(owner), permissions),
        ("review-desk", Role::ApprovalService, None, Vec::new()),
        ("security", Role::Auditor, None, Vec::new()),
        ("operations", Role::Operator, None, Vec::new()),
    ];
    rows.into_iter()
        .map(|(id, role, owner, permissions)| {
            Ok(Client {
                id: id.parse().map_err(name)?,
                tenant: "main".parse().map_err(name)?,
                roles: BTreeSet::from([role]),
                owner,
                permissions,
                created_at: now,
                revoked_at: None,
            })
        })
        .collect()
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
