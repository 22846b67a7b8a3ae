//! `writ approver`: who may approve what, and with which keys.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::{At, Context, open};
use super::error::CliError;
use super::words::{Algorithm, AuthorityArg, authority, authority_words, moment};
use crate::app;
use crate::approval::read_public_key;
use crate::domain::name::{KeyId, PrincipalId};
use crate::domain::principal::{Approver, ApproverKey, Authority};
use crate::domain::time::Timestamp;
use crate::setup;
use crate::store::record::ApproverEntry;
use crate::store::{Rejection, Store, StoreError};

/// Register, change, list and revoke approvers.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ approver list\n  writ approver set-authority usr_lea --authority 'refund.*:finance.refunds:usd:100000'\n  writ approver revoke usr_lea"
)]
pub(super) struct ApproverArgs {
    #[command(subcommand)]
    command: ApproverCommand,
}

#[derive(Subcommand)]
enum ApproverCommand {
    Add(Add),
    SetAuthority(SetAuthority),
    List(List),
    Revoke(Revoke),
}

/// Register an approver, or give one more keys and authority.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ approver add usr_lea --key-file lea.pub.pem --alg ES256 --authority 'refund.*:finance.refunds:usd:500000'\n  writ approver add usr_lea --authority 'email.*:account.admins' --valid-until 2026-12-31T23:59:59Z"
)]
struct Add {
    /// The approver: a person (`usr_`) or a service (`svc_`).
    id: PrincipalId,
    /// The public key in base64url, as `writ keys generate` prints it.
    // One key in 64 begins with a hyphen in base64url.
    #[arg(long, value_name = "KEY", conflicts_with = "key_file", allow_hyphen_values = true)]
    public: Option<String>,
    /// A file with the public key: base64url, or PEM.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The key's algorithm.
    #[arg(long, value_enum, default_value_t = Algorithm::Es256)]
    alg: Algorithm,
    /// The key's id; the next free one of this approver if not given.
    #[arg(long, value_name = "KID")]
    kid: Option<KeyId>,
    /// The service that signs for the approver, `iss` in its records.
    #[arg(long, default_value = setup::LOCAL_ISSUER)]
    issuer: String,
    /// First moment the key signs no longer.
    #[arg(long, value_name = "RFC3339", value_parser = moment)]
    key_until: Option<Timestamp>,
    /// What the approver may decide, beside what they may already, such as `refund.*:finance.refunds:usd:500000`; may be given again.
    #[arg(long, value_name = "OPERATION:QUEUE[:CURRENCY:MAX_MINOR]", value_parser = authority)]
    authority: Vec<AuthorityArg>,
    #[command(flatten)]
    grant: Grant,
    #[command(flatten)]
    at: At,
}

/// Say anew what an approver may decide: less, more, or for another time. Their keys stay. What was signed and not yet exchanged is judged by it too.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ approver set-authority usr_lea --authority 'refund.*:finance.refunds:usd:100000' --config work/writ.toml\n  writ approver set-authority usr_lea --authority 'email.*:account.admins' --valid-until 2026-12-31T23:59:59Z"
)]
struct SetAuthority {
    /// The approver.
    id: PrincipalId,
    /// All that the approver may decide from now on, such as `refund.*:finance.refunds:usd:500000`; may be given again.
    #[arg(long, value_name = "OPERATION:QUEUE[:CURRENCY:MAX_MINOR]", value_parser = authority, required = true)]
    authority: Vec<AuthorityArg>,
    #[command(flatten)]
    grant: Grant,
    #[command(flatten)]
    at: At,
}

/// Who gives authority, and for which time.
#[derive(Args)]
struct Grant {
    /// First moment the authority holds; now if not given.
    #[arg(long, value_name = "RFC3339", value_parser = moment, requires = "authority")]
    valid_from: Option<Timestamp>,
    /// First moment it holds no longer; without it there is none.
    #[arg(long, value_name = "RFC3339", value_parser = moment, requires = "authority")]
    valid_until: Option<Timestamp>,
    /// Who gives the authority.
    #[arg(long, value_name = "PERSON", default_value = "usr_operator")]
    granted_by: PrincipalId,
}

impl Grant {
    /// The rows that are given, for this time.
    fn rows(&self, given: &[AuthorityArg], now: Timestamp) -> Result<Vec<Authority>, CliError> {
        let from = self.valid_from.unwrap_or(now);
        if self.valid_until.is_some_and(|until| until <= from) {
            return Err(CliError::usage("--valid-until must be later than the moment the authority begins"));
        }
        let row = |row: &AuthorityArg| Authority {
            operations: row.operations.clone(),
            queue: row.queue.clone(),
            limit: row.limit,
            valid_from: from,
            valid_to: self.valid_until,
            granted_by: self.granted_by.clone(),
        };
        Ok(given.iter().map(row).collect())
    }
}

/// List the approvers with their keys and authority, each with its end; revoked ones included.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ approver list --config work/writ.toml")]
struct List {
    #[command(flatten)]
    at: At,
}

/// Revoke an approver with all keys (`<ID>`), or one key (`--key`). This is final: neither comes back, also not by `add`.
///
/// Signatures that were not yet exchanged stop counting too. To take authority away and give it back later, use `set-authority`.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ approver revoke usr_lea --config work/writ.toml\n  writ approver revoke --key usr_lea-1")]
struct Revoke {
    /// The approver, with all their keys; or name one key with --key.
    #[arg(required_unless_present = "key")]
    id: Option<PrincipalId>,
    /// Only this key; the approver and their other keys stay.
    #[arg(long, value_name = "KID", conflicts_with = "id")]
    key: Option<KeyId>,
    #[command(flatten)]
    at: At,
}

impl ApproverArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            ApproverCommand::Add(add) => add.run(context).await,
            ApproverCommand::SetAuthority(set) => set.run(context).await,
            ApproverCommand::List(list) => {
                let approvers = list.at.store(context)?.approvers().await.map_err(CliError::failed)?;
                let values: Vec<Value> = approvers.iter().map(value).collect();
                context.out.answer(&json!({ "approvers": values }), |out| {
                    let now = context.outside.clock.now();
                    let rows: Vec<Vec<String>> = approvers.iter().map(|entry| row(entry, now)).collect();
                    out.table(&["approver", "keys", "may decide", "revoked"], &rows)
                })
            }
            ApproverCommand::Revoke(revoke) => revoke.run(context).await,
        }
    }
}

impl Add {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let given = match (&self.public, &self.key_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => {
                let at = |why: &dyn std::fmt::Display| CliError::failed(format!("{}: {why}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
                if text.contains("PRIVATE KEY-----") {
                    return Err(at(
                        &"is a private key, which stays with its owner; name the public half, as `writ keys generate` prints it or `openssl pkey -in FILE -pubout` writes it",
                    ));
                }
                Some(text)
            }
            (None, None) => None,
        };
        if given.is_none() && self.authority.is_empty() {
            return Err(CliError::usage(
                "name a key with --public or --key-file, or authority with --authority, or both",
            ));
        }
        let now = context.outside.clock.now();
        if given.is_none() && self.key_until.is_some() {
            return Err(CliError::usage("--key-until is for a key; name one with --public or --key-file"));
        }
        if self.key_until.is_some_and(|until| until <= now) {
            return Err(CliError::usage("--key-until must be later than now"));
        }
        let authority = self.grant.rows(&self.authority, now)?;
        let store = self.at.store(context)?;
        let mut keys = Vec::new();
        if let Some(text) = given {
            let kind = self.alg.kind();
            keys.push(ApproverKey {
                kid: match self.kid.clone() {
                    Some(kid) => kid,
                    None => free_kid(&*store, &self.id).await?,
                },
                approver: self.id.clone(),
                issuer: self.issuer.clone(),
                kind,
                public: read_public_key(kind, &text).map_err(CliError::failed)?,
                // A record may have been signed by a clock a little behind ours.
                not_before: now.minus(Duration::from_secs(5)),
                not_after: self.key_until,
                revoked_at: None,
            });
        }
        let entry = ApproverEntry {
            approver: Approver {
                id: self.id.clone(),
                authority,
                created_at: now,
                revoked_at: None,
            },
            keys,
        };
        let value = value(&entry);
        let kids: Vec<String> = entry.keys.iter().map(|key| key.kid.to_string()).collect();
        if let Err(error) = store.add_approver(context.op(), entry.clone()).await {
            let StoreError::Rejected(Rejection::Exists(what)) = error else {
                return Err(CliError::failed(error));
            };
            return Err(match registered(&*store, &entry).await? {
                Some(key) => CliError::failed(format!(
                    "this public key is registered already, as {} of {}; one key is one approver's, and has one id: make another key pair",
                    key.kid, key.approver
                )),
                None => CliError::failed(format!("{what} exists already; choose another id")),
            });
        }
        context.out.answer(&value, |out| {
            out.pairs(&[
                ("approver", self.id.to_string()),
                ("key", if kids.is_empty() { "-".to_owned() } else { kids.join(" ") }),
            ])
        })
    }
}

impl SetAuthority {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let rows = self.grant.rows(&self.authority, context.outside.clock.now())?;
        let store = self.at.store(context)?;
        let value = json!({ "id": self.id, "authority": rows.iter().map(authority_value).collect::<Vec<_>>() });
        let words: Vec<String> = rows.iter().map(authority_words).collect();
        let replaced = store.replace_authority(context.op(), self.id.clone(), rows).await;
        replaced.map_err(|error| match error {
            StoreError::Rejected(Rejection::NotFound) => CliError::failed(format!(
                "there is no approver {} who is not revoked; `writ approver list` names them",
                self.id
            )),
            other => CliError::failed(other),
        })?;
        context.out.answer(&value, |out| {
            out.pairs(&[("approver", self.id.to_string()), ("may decide", words.join(" "))])
        })
    }
}

/// The registered key that one of the entry's is.
async fn registered(store: &dyn Store, entry: &ApproverEntry) -> Result<Option<ApproverKey>, CliError> {
    let known = store.approvers().await.map_err(CliError::failed)?;
    let mut same = known
        .into_iter()
        .flat_map(|known| known.keys)
        .filter(|key| entry.keys.iter().any(|new| new.public == key.public));
    Ok(same.next())
}

/// `usr_lea-1`, or the next number that no key has.
async fn free_kid(store: &dyn Store, approver: &PrincipalId) -> Result<KeyId, CliError> {
    for number in 1..1000 {
        let kid: KeyId = format!("{approver}-{number}")
            .parse()
            .map_err(|error| CliError::failed(format!("{error}; name a shorter one with --kid")))?;
        if store.approver_key(&kid).await.map_err(CliError::failed)?.is_none() {
            return Ok(kid);
        }
    }
    Err(CliError::usage("no key id is free; name one with --kid"))
}

impl Revoke {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let config = self.at.load()?;
        let policy_key = app::policy_key_id(&config.policy_approver).map_err(CliError::failed)?;
        if self.id.as_ref() == Some(&config.policy_approver) || self.key.as_ref() == Some(&policy_key) {
            return Err(CliError::failed(format!(
                "{} is the policy's own approver: without its key {policy_key} nothing that the policy allows would run; \
                 name another in [broker] policy_approver first, give it a key as `writ config check` says, and restart the broker",
                config.policy_approver
            )));
        }
        let store = open(&config, context)?;
        let (what, revoked) = match (self.id, self.key) {
            (_, Some(kid)) => (format!("key {kid}"), store.revoke_key(context.op(), kid).await),
            (Some(id), None) => (format!("approver {id}"), store.revoke_approver(context.op(), id).await),
            (None, None) => return Err(CliError::usage("name an approver, or a key with --key")),
        };
        revoked.map_err(|error| match error {
            StoreError::Rejected(Rejection::NotFound) => {
                CliError::failed(format!("there is no {what}; `writ approver list` names approvers and keys"))
            }
            other => CliError::failed(other),
        })?;
        let value = json!({ "what": what, "revoked": true });
        context.out.answer(&value, |_| format!("{what} is revoked"))
    }
}

fn value(entry: &ApproverEntry) -> Value {
    let keys = entry.keys.iter().map(|key| {
        json!({
            "kid": key.kid, "alg": key.kind, "public": key.public, "issuer": key.issuer,
            "not_before": key.not_before, "not_after": key.not_after, "revoked_at": key.revoked_at,
        })
    });
    json!({
        "id": entry.approver.id, "authority": entry.approver.authority.iter().map(authority_value).collect::<Vec<_>>(), "keys": keys.collect::<Vec<_>>(),
        "created_at": entry.approver.created_at, "revoked_at": entry.approver.revoked_at,
    })
}

fn authority_value(row: &Authority) -> Value {
    json!({
        "may": authority_words(row), "valid_from": row.valid_from, "valid_until": row.valid_to, "granted_by": row.granted_by,
    })
}

fn row(entry: &ApproverEntry, now: Timestamp) -> Vec<String> {
    let keys = entry.keys.iter().map(|key| match (key.revoked_at, key.not_after) {
        (Some(_), _) => format!("{} (revoked)", key.kid),
        (None, Some(end)) => format!("{} ({})", key.kid, ending(end, now)),
        (None, None) => key.kid.to_string(),
    });
    let authority = entry.approver.authority.iter().map(|row| {
        let begins = (now < row.valid_from).then(|| format!("from {}", row.valid_from));
        let ends = row.valid_to.map(|end| ending(end, now));
        let dates: Vec<String> = begins.into_iter().chain(ends).collect();
        match dates.as_slice() {
            [] => authority_words(row),
            dates => format!("{} ({})", authority_words(row), dates.join(", ")),
        }
    });
    vec![
        entry.approver.id.to_string(),
        keys.collect::<Vec<_>>().join(" "),
        authority.collect::<Vec<_>>().join(" "),
        entry.approver.revoked_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
    ]
}

fn ending(end: Timestamp, now: Timestamp) -> String {
    format!("{} {end}", if now < end { "until" } else { "ended" })
}
