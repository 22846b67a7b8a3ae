//! Everything a process needs, loaded and checked; all that is wrong is reported at once.

use std::path::Path;
use std::sync::Arc;

use super::{Environment, Faults, Outside, Part};
use crate::approval::RecordSigner;
use crate::audit::{EventBody, EventKind, HeadFile, LogFiles, LogKeys, LogPart, Note, Origin, read_public};
use crate::backend::{Backends, Clients, Need, same_secret};
use crate::config::{self, Config};
use crate::domain::name::{KeyId, PrincipalId};
use crate::domain::secret::Secret;
use crate::edge::ServerTls;
use crate::policy::Policy;
use crate::proxy::LogTrust;
use crate::settings::why_not;
use crate::store::health::Reserve;
use crate::store::sqlite::{Recovered, SqliteStore};
use crate::store::{Op, PATIENCE, Store, insist};
use crate::token::{KeyRing, KeySet, PUBLIC_KEYS_FILE};
use crate::witness::Connected;

/// Everything but the store, loaded and checked.
pub(super) struct Checked {
    pub(super) backends: Arc<Backends>,
    pub(super) broker: Option<(Policy, Clients, RecordSigner, KeyRing)>,
    pub(super) proxy: Option<(Clients, KeySet)>,
    pub(super) log: Option<LogTrust>,
    pub(super) tls: Option<Arc<ServerTls>>,
    pub(super) witnesses: Vec<Connected>,
}

/// Checks everything a process needs but the store: policy, backend files, keys, secrets.
///
/// # Errors
/// [`Faults`]: everything that is wrong.
pub fn check(config: &Config, part: Part, outside: &Outside, env: Environment<'_>) -> Result<(), Faults> {
    let mut faults = Checked::load(config, part, outside, env)
        .err()
        .map(|found| found.0)
        .unwrap_or_default();
    if part.is_broker() {
        faults.extend(unsigned(config, outside));
    }
    if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
}

/// What keeps the broker from signing credentials. It starts nevertheless, since a rotation is picked up while it runs; it is not ready.
fn unsigned(config: &Config, outside: &Outside) -> Vec<String> {
    // A ring that cannot be read is a fault already.
    let Ok(ring) = KeyRing::load(&config.keys) else { return Vec::new() };
    let now = outside.clock.now();
    let mut faults: Vec<String> = ring
        .missing(now)
        .iter()
        .map(|kid| {
            format!(
                "{}: the private half of published key {kid} is not there (credential-{kid}.pem); put it back, or run `writ keys rotate`",
                config.keys.display()
            )
        })
        .collect();
    if ring.signing(now).is_err() {
        faults.push(format!(
            "{}: no key may sign credentials now; run `writ keys rotate`, and check again after half a minute",
            config.keys.display()
        ));
    }
    faults
}

/// Checks the store the configuration names, without making one: it opens, and knows the key with which the policy signs.
///
/// # Errors
/// [`Faults`] with what is wrong.
pub async fn check_store(config: &Config, part: Part, outside: &Outside) -> Result<(), Faults> {
    let alone = |fault: String| Faults(vec![fault]);
    find_store(config).map_err(alone)?;
    let store = open_store(config, outside).map_err(alone)?;
    unbelieved(config, part, &*store).await.map_err(alone)?;
    // A signer that cannot be read is the finding of `check`.
    let Ok(signer) = policy_signer(config) else { return Ok(()) };
    if !part.is_broker() {
        return Ok(());
    }
    let registered = store
        .approver_key(signer.kid())
        .await
        .map_err(|error| alone(format!("{}: {error}", config.store.display())))?;
    let public = signer.public();
    match registered {
        Some(key) if key.public == public && key.revoked_at.is_none() => {
            return if key.issuer == config.audience.as_str() {
                Ok(())
            } else {
                Err(alone(format!(
                    "broker.audience is `{}`, but the key with which the policy signs is registered for `{}`, so nothing that the policy allows would run; set it back",
                    config.audience, key.issuer
                )))
            };
        }
        Some(key) => {
            let why = if key.revoked_at.is_some() { "is revoked" } else { "is another key" };
            let fresh = format!("{}_new", config.policy_approver);
            return Err(alone(format!(
                "in the store `{}` {why}, so nothing that the policy allows would run; move {file} away, set [broker] policy_approver to a new name such as \
                 `{fresh}`, run `writ keys generate --approver {fresh} --alg Ed25519 --out {file}`, and register the public key it prints with \
                 `writ approver add {fresh} --public KEY --alg Ed25519 --issuer {} --kid {fresh}-1`",
                signer.kid(),
                config.audience,
                file = config.keys.join(config::POLICY_KEY).display(),
            )));
        }
        None => {}
    }
    Err(alone(format!(
        "the store does not know the key in {} as `{}`, so nothing that the policy allows would run; \
         register it with `writ approver add {} --public {public} --alg {} --issuer {} --kid {}`",
        config.keys.join(config::POLICY_KEY).display(),
        signer.kid(),
        config.policy_approver,
        signer.kind().as_str(),
        config.audience,
        signer.kid(),
    )))
}

/// A client that must show a certificate where none is asked for could never call.
async fn unbelieved(config: &Config, part: Part, store: &dyn Store) -> Result<(), String> {
    let (place, files) = match part {
        Part::All | Part::Broker => ("broker.tls", &config.broker_tls),
        Part::Proxy => ("proxy.tls", &config.proxy_tls),
    };
    if files.as_ref().is_some_and(|files| files.clients.is_some()) {
        return Ok(());
    }
    let clients = store
        .clients()
        .await
        .map_err(|error| format!("{}: {error}", config.store.display()))?;
    let bound = clients
        .iter()
        .find(|entry| entry.certificate.is_some() && entry.client.revoked_at.is_none());
    bound.map_or(Ok(()), |entry| {
        Err(format!(
            "{place}.client_ca: is missing, but client `{}` must show a certificate; name the authority, or run `writ client set-certificate {} --none`",
            entry.client.id, entry.client.id
        ))
    })
}

/// Whether the store is there and may be read; it is neither made nor opened.
///
/// # Errors
/// A sentence with what to do.
pub fn find_store(config: &Config) -> Result<(), String> {
    let store = &config.store;
    let Err(error) = rustix::fs::access(store, rustix::fs::Access::READ_OK).map_err(std::io::Error::from) else {
        return Ok(());
    };
    Err(match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "{}: there is no store; make a working directory with `writ init`, or correct [store] path",
            store.display()
        ),
        _ => format!("{}: {}", store.display(), why_not(store, &error)),
    })
}

impl Checked {
    pub(super) fn load(config: &Config, part: Part, outside: &Outside, env: Environment<'_>) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let backends = match Backends::load(&config.backends) {
            Ok(backends) => Some(Arc::new(backends)),
            Err(mistakes) => {
                faults.extend(mistakes.0.iter().map(ToString::to_string));
                None
            }
        };
        // Each part gets the secrets of its own role, also where one process is both: the broker's half never holds one that executes.
        let connect = |need: Need, faults: &mut Vec<String>| {
            let connected = Clients::connect(backends.as_deref()?, need, env);
            connected
                .map_err(|mistakes| faults.extend(mistakes.0.iter().map(ToString::to_string)))
                .ok()
        };
        let broker = if part.is_broker() {
            let clients = connect(Need::Broker, &mut faults);
            load_broker(config, backends.as_deref(), clients, outside, &mut faults)
        } else {
            None
        };
        let proxy = if part.is_proxy() {
            let clients = connect(Need::Proxy, &mut faults);
            let keys = read_key_set(&config.keys).map_err(|error| faults.push(error)).ok();
            clients.zip(keys)
        } else {
            None
        };
        if let (Some(backends), Part::All) = (&backends, part) {
            faults.extend(same_secret(backends, env).iter().map(ToString::to_string));
        }
        if let (Some(backends), true) = (&backends, part.is_proxy()) {
            faults.extend(short_lease(config, backends));
        }
        let log = if part.is_proxy() {
            LogTrust::read(log_files(config)).map_err(|error| faults.push(error)).ok()
        } else {
            None
        };
        let tls = load_tls(config, part, outside, &mut faults);
        let witnesses = if part.is_broker() {
            faults.extend(own_witness(config));
            let connected = Connected::all(&config.witnesses.witnesses);
            connected.map_err(|found| faults.extend(found)).unwrap_or_default()
        } else {
            Vec::new()
        };
        match backends {
            Some(backends) if faults.is_empty() => Ok(Self {
                backends,
                broker,
                proxy,
                log,
                tls,
                witnesses,
            }),
            _ => Err(Faults(faults)),
        }
    }
}

/// Whoever has the log's key would be its own witness.
fn own_witness(config: &Config) -> Option<String> {
    // Keys that cannot be read are the finding of whoever opens the log.
    let own = read_public(&log_files(config).public()).ok()?;
    let mut each = config.witnesses.witnesses.iter();
    let found = each.find(|witness| own.iter().any(|key| key.public() == witness.key.public()))?;
    Some(format!(
        "audit.witness: the key of `{}` is a key of the log itself, which cannot be its own witness: name one that somebody else runs",
        found.key.name()
    ))
}

/// The certificate and key of the address the process listens on.
fn load_tls(config: &Config, part: Part, outside: &Outside, faults: &mut Vec<String>) -> Option<Arc<ServerTls>> {
    let files = if part.is_broker() { &config.broker_tls } else { &config.proxy_tls };
    ServerTls::load(files.clone()?, outside.clock.clone())
        .map_err(|found| faults.extend(found))
        .ok()
        .map(Arc::new)
}

/// A backend that can be waited for longer than the lease lasts: another proxy would take over while the first one's request is still open.
fn short_lease(config: &Config, backends: &Backends) -> Option<String> {
    let slowest = backends
        .operations()
        .map(|operation| operation.backend())
        .max_by_key(|b| b.total_timeout())?;
    (config.lease <= slowest.total_timeout()).then(|| {
        format!(
            "proxy.lease: {} s is not longer than the total_timeout of {} s in {}.toml; make the lease longer or the time-out shorter",
            config.lease.as_secs(),
            slowest.total_timeout().as_secs(),
            slowest.name()
        )
    })
}

fn load_broker(
    config: &Config,
    backends: Option<&Backends>,
    clients: Option<Clients>,
    outside: &Outside,
    faults: &mut Vec<String>,
) -> Option<(Policy, Clients, RecordSigner, KeyRing)> {
    let policy = Policy::load(&config.policy)
        .map_err(|mistakes| faults.extend(mistakes.0.iter().map(ToString::to_string)))
        .ok();
    if let (Some(policy), Some(backends)) = (&policy, backends) {
        for operation in backends.operations() {
            match policy.consequence(operation.name()) {
                None => faults.push(format!(
                    "schema.cedarschema: `{}` is declared by a backend file and not by the policy; add it",
                    operation.name()
                )),
                Some(said) if said != operation.consequence() => faults.push(format!(
                    "schema.cedarschema: `{}` is of class `{}` here and of class `{}` in its backend file; make them the same",
                    operation.name(),
                    said.as_str(),
                    operation.consequence().as_str()
                )),
                Some(_) => {}
            }
        }
    }
    let keys = KeyRing::load(&config.keys).map_err(|error| faults.push(error.to_string())).ok();
    if let Some(Err(error)) = keys.as_ref().map(|k| k.signing(outside.clock.now())) {
        // Not a reason not to start: readiness is red, and a rotation is picked up while the process runs.
        tracing::warn!(%error, "no credential can be signed yet");
    }
    let signer = policy_signer(config).map_err(|error| faults.push(error)).ok();
    Some((policy?, clients?, signer?, keys?))
}

/// The id of the key with which the policy signs.
///
/// # Errors
/// A sentence, if the configured name cannot be part of one.
pub fn policy_key_id(approver: &PrincipalId) -> Result<KeyId, String> {
    format!("{approver}-1")
        .parse()
        .map_err(|error: crate::domain::name::NameError| error.to_string())
}

fn policy_signer(config: &Config) -> Result<RecordSigner, String> {
    let path = config.keys.join(config::POLICY_KEY);
    let pem = read_private(&path)?;
    RecordSigner::from_pkcs8_pem(&pem, policy_key_id(&config.policy_approver)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// A private key's text; refused if others on the machine can read it.
///
/// # Errors
/// A sentence with the file and what to do.
pub fn read_private(path: &Path) -> Result<Secret, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let at = |error: std::io::Error| format!("{}: {}", path.display(), why_not(path, &error));
    let mode = std::fs::metadata(path).map_err(at)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "{} can be read by others (mode {mode:04o}); run `chmod 600` on it, and replace the key if it was copied",
            path.display()
        ));
    }
    std::fs::read_to_string(path).map(Secret::new).map_err(at)
}

pub(super) fn read_key_set(dir: &Path) -> Result<KeySet, String> {
    let path = dir.join(PUBLIC_KEYS_FILE);
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{}: {error}; make keys with `writ keys generate`", path.display()),
        _ => format!("{}: {}", path.display(), why_not(&path, &error)),
    })?;
    KeySet::from_json(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where the key and the head of the audit log lie.
#[must_use]
pub fn log_files(config: &Config) -> LogFiles {
    LogFiles {
        key: config.audit_key.clone(),
        head: config.audit_head.clone(),
    }
}

/// The name of the audit log of a broker with this URL.
///
/// # Errors
/// A sentence, if no name comes of it.
pub fn log_name(public_url: &str) -> Result<Origin, String> {
    let bare = public_url
        .split_once("://")
        .map_or(public_url, |(_, rest)| rest)
        .trim_end_matches('/');
    format!("{bare}/audit").parse().map_err(|error| format!("{bare}/audit: {error}"))
}

/// Replaces the key of the audit log: both keys sign the head over the event that tells of it, and after that the old one is gone.
///
/// If we die before the event is committed, the old key goes on and the next attempt takes the same new key. After it the new key signs, whether
/// or not it is in its place yet.
///
/// # Errors
/// A sentence with what is wrong and what to do.
pub async fn rotate_log_key(config: &Config, op: Op, outside: &Outside) -> Result<(), String> {
    find_store(config)?;
    let store = open_store(config, outside)?;
    let files = log_files(config);
    let before = LogKeys::load(&files, None)?;
    // Opening the store has written the last head down.
    let head = HeadFile::at(files.head.clone()).read(&before.known)?;
    let now = LogKeys::load(&files, head.as_ref())?;
    if now.signing.verifier() != before.signing.verifier() {
        // An earlier attempt got as far as the commit.
        return files.take_next();
    }
    let key = files.announce(before.signing.origin(), &*outside.entropy)?;
    let event = EventBody {
        log: Some(LogPart {
            key: key.verifier().to_string(),
            previous_key: Some(before.signing.verifier().to_string()),
            previous_head: None,
        }),
        ..EventBody::new(EventKind::Note(Note::LogKeyRotated), op.actor.clone())
    };
    let told = insist(PATIENCE, op, |op| store.note(op, event.clone())).await;
    told.map_err(|error| error.to_string())?;
    files.take_next()
}

/// Goes on with the audit log under another name.
///
/// # Errors
/// A sentence with what is wrong and what to do.
pub fn recover_log(config: &Config, op: &Op, outside: &Outside) -> Result<Recovered, String> {
    let files = log_files(config);
    SqliteStore::recover(&config.store, &files, op, outside.clock.clone(), outside.entropy.clone()).map_err(|error| error.to_string())
}

/// Opens the store the configuration names.
///
/// # Errors
/// A sentence with what is wrong and what to do.
pub fn open_store(config: &Config, outside: &Outside) -> Result<Arc<dyn Store>, String> {
    open_sqlite(config, outside).map(|store| Arc::new(store) as Arc<dyn Store>)
}

/// The same, for what an operator does with the file itself.
///
/// # Errors
/// A sentence.
pub fn open_sqlite(config: &Config, outside: &Outside) -> Result<SqliteStore, String> {
    let reserve = Reserve {
        low_water: config.store_low_water,
        ballast: config.store_ballast,
        results: config.store_results.clone(),
    };
    let open = SqliteStore::open(
        &config.store,
        &reserve,
        log_files(config),
        outside.clock.clone(),
        outside.entropy.clone(),
    );
    open.map_err(|error| format!("{}: {error}", config.store.display()))
}
