//! What `writ prove` needs to try a deployment that was made for the sandbox: programs and approvers of its own, and its settings file.

use std::path::Path;
use std::time::Duration;

use super::{LOCAL_ISSUER, fresh_secret, write};
use crate::approval::RecordSigner;
use crate::domain::clock::Entropy;
use crate::domain::name::{KeyId, NameError, PrincipalId};
use crate::domain::operation::Stage;
use crate::domain::principal::{Approver, ApproverKey, Authority, Client, KeyKind, Limit, Permission, Role};
use crate::domain::time::Timestamp;
use crate::store::record::{ApproverEntry, ClientEntry};

/// The settings file of the prover in a working directory.
pub const PROVE_FILE: &str = "prove.toml";

/// The directory of the prover's keys and secrets, below the working directory.
pub(super) const DIR: &str = "prover";

/// The directory of its reports, below the working directory.
const REPORTS: &str = "proofs";

/// The one operation that it may try.
const OPERATION: &str = "refund.create";

/// The largest amounts it may release: what the settings below ask people for, and not a cent more.
const USD: i64 = 10_001;
const CAD: i64 = 1;

/// One of its approvers, each for a guarantee.
struct Signatory {
    id: &'static str,
    stands: &'static str,
    authority: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Enough,
    Below,
    Ended,
    None,
}

const SIGNATORIES: [Signatory; 6] = [
    Signatory {
        id: "usr_prover",
        stands: "counts",
        authority: Standing::Enough,
    },
    Signatory {
        id: "usr_prover_second",
        stands: "counts",
        authority: Standing::Enough,
    },
    Signatory {
        id: "usr_prover_owner",
        stands: "owner",
        authority: Standing::Enough,
    },
    Signatory {
        id: "usr_prover_small",
        stands: "below",
        authority: Standing::Below,
    },
    Signatory {
        id: "usr_prover_past",
        stands: "ended",
        authority: Standing::Ended,
    },
    Signatory {
        id: "usr_prover_nobody",
        stands: "without_authority",
        authority: Standing::None,
    },
];

/// Its programs: who proposes and executes, who hands records in, who reports.
const CLIENTS: [(&str, &str, &[Role]); 3] = [
    ("agent", "prover-agent", &[Role::Orchestrator]),
    // A prover's too: `writ approve` takes no such desk for the one that people use.
    ("desk", "prover-desk", &[Role::ApprovalService, Role::Prover]),
    ("reporter", "prover", &[Role::Prover]),
];

fn name(error: NameError) -> String {
    error.to_string()
}

/// What is to be registered.
pub(super) struct Registered {
    pub(super) approvers: Vec<ApproverEntry>,
    pub(super) clients: Vec<ClientEntry>,
}

/// Makes its keys, secrets and settings file below `dir`.
pub(super) fn make(
    dir: &Path,
    broker: &str,
    audience: &str,
    sandbox: &str,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> Result<Registered, String> {
    let mut approvers = Vec::new();
    for signatory in &SIGNATORIES {
        let path = dir.join(DIR).join(format!("{}.pem", signatory.id));
        approvers.push(approver(signatory, &path, now)?);
    }
    let mut clients = Vec::new();
    for (word, id, roles) in CLIENTS {
        let (secret, secret_sha256) = fresh_secret(entropy);
        write(&dir.join(DIR).join(word), secret.expose(), 0o600)?;
        clients.push(ClientEntry {
            client: client(id, roles, now)?,
            secret_sha256,
            certificate: None,
        });
    }
    write(&dir.join(PROVE_FILE), &settings(broker, audience, sandbox), 0o644)?;
    Ok(Registered { approvers, clients })
}

fn approver(signatory: &Signatory, path: &Path, now: Timestamp) -> Result<ApproverEntry, String> {
    let id: PrincipalId = signatory.id.parse().map_err(name)?;
    let made = RecordSigner::generate(KeyKind::Es256).map_err(|error| error.to_string())?;
    write(path, made.private_pem.expose(), 0o600)?;
    let kid: KeyId = format!("{id}-1").parse().map_err(name)?;
    let rows = match signatory.authority {
        Standing::None => Vec::new(),
        Standing::Below => vec![authority("usd", USD - 1, now, None)?],
        Standing::Enough => vec![authority("usd", USD, now, None)?, authority("cad", CAD, now, None)?],
        Standing::Ended => vec![authority("usd", USD, now.minus(Duration::from_secs(60)), Some(now))?],
    };
    Ok(ApproverEntry {
        approver: Approver {
            id: id.clone(),
            authority: rows,
            created_at: now,
            revoked_at: None,
        },
        keys: vec![ApproverKey {
            kid,
            approver: id,
            issuer: LOCAL_ISSUER.to_owned(),
            kind: KeyKind::Es256,
            public: made.public,
            not_before: now.minus(Duration::from_secs(5)),
            not_after: None,
            revoked_at: None,
        }],
    })
}

fn authority(currency: &str, max_minor: i64, valid_from: Timestamp, valid_to: Option<Timestamp>) -> Result<Authority, String> {
    let currency = currency
        .parse()
        .map_err(|error: crate::domain::money::CurrencyError| error.to_string())?;
    Ok(Authority {
        operations: OPERATION.parse().map_err(name)?,
        queue: "finance.refunds".parse().map_err(name)?,
        limit: Some(Limit { max_minor, currency }),
        valid_from,
        valid_to,
        granted_by: "usr_init".parse().map_err(name)?,
    })
}

fn client(id: &str, roles: &[Role], now: Timestamp) -> Result<Client, String> {
    let proposes = roles.contains(&Role::Orchestrator);
    let permission = Permission {
        operations: OPERATION.parse().map_err(name)?,
        stages: [Stage::Draft, Stage::Execute].into(),
    };
    let owner = "usr_prover_owner".parse().map_err(name)?;
    Ok(Client {
        id: id.parse().map_err(name)?,
        tenant: "main".parse().map_err(name)?,
        roles: roles.iter().copied().collect(),
        owner: proposes.then_some(owner),
        permissions: if proposes { vec![permission] } else { Vec::new() },
        created_at: now,
        revoked_at: None,
    })
}

fn settings(broker: &str, audience: &str, sandbox: &str) -> String {
    use std::fmt::Write as _;
    let (charge, cad) = (crate::setup::sandbox::CHARGE_PROOFS, crate::setup::sandbox::CHARGE_PROOFS_CAD);
    let mut text = format!(
        r#"# What `writ prove` tries, at which deployment, and with what. Paths are taken from this file's directory. docs/prove.md explains each key.

[prove]
broker   = {broker:?}
# Every proxy, each with its own URL: one credential is raced at all of them.
proxies  = [{broker:?}]
# The broker's name in approval records.
audience = {audience:?}
# The backend's desk, if the backend is `writ sandbox`: without it no answer can be lost on purpose.
sandbox  = {sandbox:?}
# The public keys of its log. For a log on another host get them by a way that this host does not control.
log      = "keys/log.pub"
# Where the signed reports lie.
reports  = "{REPORTS}"

# The only operation that is ever proposed. It is executed a few times in each run: choose the smallest amount that there is.
[prove.operation]
name = "{OPERATION}"
[prove.operation.once]
charge   = "{charge}"
amount   = 1
currency = "usd"
# The same operation with parameters for which the policy asks one person; none of these is executed.
[prove.operation.asked]
charge   = "{charge}"
amount   = {USD}
currency = "usd"
# And with parameters for which it asks two.
[prove.operation.two]
charge   = "{cad}"
amount   = {CAD}
currency = "cad"

# The key that signs the reports.
[prove.key]
file = "{DIR}/usr_prover.pem"
kid  = "usr_prover-1"
"#
    );
    for (word, id, _) in CLIENTS {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[prove.{word}]\nid     = \"{id}\"\nsecret = \"{DIR}/{word}\"\n");
    }
    text.push_str(
        "\n# Registered approvers, by how they stand to `asked`: `counts`, `owner` (answerable for the agent), `below` (authority for less), `ended`\n\
         # (authority that is over), `without_authority`.\n",
    );
    for signatory in &SIGNATORIES {
        let _ = write!(
            text,
            "[[prove.approver]]\nid     = \"{id}\"\nstands = \"{stands}\"\nissuer = \"{LOCAL_ISSUER}\"\nkey    = \"{DIR}/{id}.pem\"\nkid    = \"{id}-1\"\n",
            id = signatory.id,
            stands = signatory.stands
        );
    }
    text
}
