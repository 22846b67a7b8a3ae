//! `writ client`: who may call, and what for.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::{At, Context, open};
use super::error::CliError;
use super::words::{permission, permissions, role, roles};
use crate::backend::Backends;
use crate::config::Config;
use crate::domain::client_certificate::ClientCertificate;
use crate::domain::name::{ClientId, PrincipalId, TenantId};
use crate::domain::principal::{Client, Permission, Role};
use crate::domain::secret::Secret;
use crate::setup;
use crate::store::record::ClientEntry;
use crate::store::{Rejection, StoreError};

/// Register, change, list and revoke clients.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ client list\n  writ client add billing-agent --role orchestrator --owner usr_ann --allow 'refund.*:draft,execute'\n  writ client set-permissions billing-agent --allow 'refund.*:draft,execute' --allow refund.square:draft"
)]
pub(super) struct ClientArgs {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Subcommand)]
enum ClientCommand {
    Add(Add),
    List(List),
    Revoke(One),
    ReplaceSecret(Replace),
    SetPermissions(SetPermissions),
    SetCertificate(SetCertificate),
}

/// Register a client. Its secret is printed once and stored only as a hash.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ client add billing-agent --role orchestrator --owner usr_ann --allow 'refund.*:draft,execute' --allow charge.read:read\n  writ client add desk --role approval_service"
)]
struct Add {
    /// The new client's id.
    id: ClientId,
    /// What it is for: orchestrator, approval_service, proxy, auditor, operator, security or prover; may be given again.
    #[arg(long = "role", value_name = "ROLE", required = true, value_parser = role)]
    roles: Vec<Role>,
    /// The tenant it belongs to.
    #[arg(long, default_value = "main")]
    tenant: TenantId,
    /// The person answerable for it, who then cannot approve what it proposes.
    #[arg(long, value_name = "PERSON")]
    owner: Option<PrincipalId>,
    /// What an orchestrator may do, such as `refund.*:draft,execute`; may be given again.
    #[arg(long, value_name = "OPERATION:STAGES", value_parser = permission)]
    allow: Vec<Permission>,
    /// The certificate it must show beside its secret, such as `san_dns:agent.example`.
    #[arg(long, value_name = "CERTIFICATE")]
    certificate: Option<ClientCertificate>,
    #[command(flatten)]
    at: At,
}

/// List the clients, revoked ones included.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ client list --config work/writ.toml")]
struct List {
    #[command(flatten)]
    at: At,
}

/// Revoke a client: from now on it cannot call.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ client revoke billing-agent --config work/writ.toml")]
struct One {
    /// The client's id.
    id: ClientId,
    #[command(flatten)]
    at: At,
}

/// Give a client a new secret, printed once; the old one stops counting at once.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ client replace-secret billing-agent --config work/writ.toml")]
struct Replace {
    /// The client's id.
    id: ClientId,
    #[command(flatten)]
    at: At,
}

/// Say anew what a client may do: all of it, in place of what it may now. Its secret stays.
///
/// It counts from the client's next call, also for what it has drafted and not yet exchanged. `writ client list` prints what it may now.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ client set-permissions billing-agent --allow 'refund.*:draft,execute' --allow charge.read:read\n  writ client set-permissions billing-agent --none"
)]
struct SetPermissions {
    /// The client's id.
    id: ClientId,
    /// All that the client may do from now on, such as `refund.*:draft,execute`; may be given again.
    #[arg(long, value_name = "OPERATION:STAGES", value_parser = permission, required_unless_present = "none", conflicts_with = "none")]
    allow: Vec<Permission>,
    /// It may do nothing from now on.
    #[arg(long)]
    none: bool,
    #[command(flatten)]
    at: At,
}

/// Say which certificate a client must show beside its secret, or that it needs none.
///
/// It shows it in the TLS handshake; `client_ca` in the configuration says whose certificates are believed. With one registered the secret alone
/// is refused, and a certificate that is registered for one client is refused with the secret of another.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ client set-certificate billing-agent san_dns:billing.agents.example\n  writ client set-certificate billing-agent san_uri:spiffe://example/billing\n  writ client set-certificate billing-agent x5t#S256:$(openssl x509 -in agent.pem -outform DER | sha256sum | cut -c-64)\n  writ client set-certificate billing-agent --none"
)]
struct SetCertificate {
    /// The client's id.
    id: ClientId,
    /// `san_dns:NAME` or `san_uri:URI` in its subject alternative name, or `x5t#S256:` and the SHA-256 of its DER bytes.
    #[arg(required_unless_present = "none", conflicts_with = "none")]
    certificate: Option<ClientCertificate>,
    /// The secret is enough from now on.
    #[arg(long)]
    none: bool,
    #[command(flatten)]
    at: At,
}

impl ClientArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            ClientCommand::Add(add) => add.run(context).await,
            ClientCommand::List(list) => {
                let clients = list.at.store(context)?.clients().await.map_err(CliError::failed)?;
                let values: Vec<Value> = clients.iter().map(value).collect();
                context.out.answer(&json!({ "clients": values }), |out| {
                    let rows: Vec<Vec<String>> = clients.iter().map(row).collect();
                    out.table(&["client", "tenant", "roles", "owner", "may", "certificate", "revoked"], &rows)
                })
            }
            ClientCommand::Revoke(one) => {
                let store = one.at.store(context)?;
                store.revoke_client(context.op(), one.id.clone()).await.map_err(unknown(&one.id))?;
                let value = json!({ "id": one.id, "revoked": true });
                context.out.answer(&value, |_| format!("{} is revoked", one.id))
            }
            ClientCommand::ReplaceSecret(one) => {
                let store = one.at.store(context)?;
                let (secret, hash) = setup::fresh_secret(&*context.outside.entropy);
                let replaced = store.replace_secret(context.op(), one.id.clone(), hash).await;
                replaced.map_err(unknown(&one.id))?;
                once(context, &one.id, &secret)
            }
            ClientCommand::SetPermissions(set) => set.run(context).await,
            ClientCommand::SetCertificate(set) => set.run(context).await,
        }
    }
}

impl SetPermissions {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let config = self.at.load()?;
        let store = open(&config, context)?;
        let gone = || {
            CliError::failed(format!(
                "there is no client `{}` that is not revoked; `writ client list` names them",
                self.id
            ))
        };
        let entry = store.client(&self.id).await.map_err(CliError::failed)?;
        let client = entry.map(|entry| entry.client).filter(|client| client.revoked_at.is_none());
        let client = client.ok_or_else(gone)?;
        if !self.allow.is_empty() && !client.roles.contains(&Role::Orchestrator) {
            return Err(CliError::failed(format!(
                "--allow is for orchestrators, and the roles of `{}` are {}; roles stay as they are: add another client",
                self.id,
                roles(&client.roles).join(", ")
            )));
        }
        let words = permissions(&self.allow);
        let empty = undeclared(&self.allow, &config);
        let replaced = store.replace_permissions(context.op(), self.id.clone(), self.allow.clone()).await;
        replaced.map_err(|error| match error {
            StoreError::Rejected(Rejection::NotFound) => gone(),
            other => CliError::failed(other),
        })?;
        empty.iter().for_each(|line| context.out.warn(line));
        let value = json!({ "id": self.id, "permissions": words });
        context.out.answer(&value, |out| {
            let may = if words.is_empty() { "nothing".to_owned() } else { words.join(" ") };
            out.pairs(&[("client", self.id.to_string()), ("may", may)])
        })
    }
}

impl SetCertificate {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let store = self.at.store(context)?;
        let set = store
            .replace_certificate(context.op(), self.id.clone(), self.certificate.clone())
            .await;
        set.map_err(|error| match error {
            StoreError::Rejected(Rejection::Exists(_)) => taken(),
            other => unknown(&self.id)(other),
        })?;
        let value = json!({ "id": self.id, "certificate": self.certificate });
        context.out.answer(&value, |_| match &self.certificate {
            Some(certificate) => format!("{} must show {certificate} beside its secret", self.id),
            None => format!("{} needs no certificate", self.id),
        })
    }
}

fn taken() -> CliError {
    CliError::failed("another client, perhaps a revoked one, is registered with this certificate; give each client its own")
}

impl Add {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let roles: std::collections::BTreeSet<Role> = self.roles.into_iter().collect();
        if !self.allow.is_empty() && !roles.contains(&Role::Orchestrator) {
            return Err(CliError::usage(
                "--allow is for orchestrators; leave it out, or add --role orchestrator",
            ));
        }
        let config = self.at.load()?;
        let store = open(&config, context)?;
        let mut warnings = undeclared(&self.allow, &config);
        if self.allow.is_empty() && roles.contains(&Role::Orchestrator) {
            warnings.push(format!(
                "orchestrator `{}` may do nothing; say what it may with `writ client set-permissions {}`",
                self.id, self.id
            ));
        }
        let (secret, secret_sha256) = setup::fresh_secret(&*context.outside.entropy);
        let client = Client {
            id: self.id.clone(),
            tenant: self.tenant,
            roles,
            owner: self.owner,
            permissions: self.allow,
            created_at: context.outside.clock.now(),
            revoked_at: None,
        };
        let entry = ClientEntry {
            client,
            secret_sha256,
            certificate: self.certificate,
        };
        let added = store.add_client(context.op(), entry).await;
        added.map_err(|error| match error {
            StoreError::Rejected(Rejection::Exists(what)) if what != self.id.as_str() => taken(),
            StoreError::Rejected(Rejection::Exists(_)) => CliError::failed(format!(
                "client `{}` exists already, revoked ones included; choose another id; `writ client set-permissions {}` changes what it may do, `writ client replace-secret` gives it another secret",
                self.id, self.id
            )),
            other => CliError::failed(other),
        })?;
        warnings.iter().for_each(|line| context.out.warn(line));
        once(context, &self.id, &secret)
    }
}

/// A sentence about each permission on a misspelt operation, which looks as if it allowed something; none where the backend files cannot be read.
fn undeclared(allowed: &[Permission], config: &Config) -> Vec<String> {
    let Ok(backends) = Backends::load(&config.backends) else {
        return Vec::new();
    };
    let covers_none = |row: &&Permission| !backends.operations().any(|operation| row.operations.covers(operation.name()));
    let sentence = |row: &Permission| {
        format!(
            "no backend file declares an operation that `{}` covers, so this permission allows nothing",
            row.operations
        )
    };
    allowed.iter().filter(covers_none).map(sentence).collect()
}

/// Prints a secret, the only time.
fn once(context: &Context, id: &ClientId, secret: &Secret) -> Result<(), CliError> {
    let value = json!({ "id": id, "secret": secret.expose() });
    context.out.answer(&value, |out| {
        out.pairs(&[("client", id.to_string()), ("secret (shown once)", secret.expose().to_owned())])
    })
}

fn unknown(id: &ClientId) -> impl FnOnce(StoreError) -> CliError {
    let id = id.clone();
    move |error| match error {
        StoreError::Rejected(Rejection::NotFound) => CliError::failed(format!("there is no client `{id}`; `writ client list` names them")),
        other => CliError::failed(other),
    }
}

fn value(entry: &ClientEntry) -> Value {
    let client = &entry.client;
    json!({
        "id": client.id, "tenant": client.tenant, "roles": roles(&client.roles), "owner": client.owner,
        "permissions": permissions(&client.permissions), "certificate": entry.certificate, "created_at": client.created_at, "revoked_at": client.revoked_at,
    })
}

fn row(entry: &ClientEntry) -> Vec<String> {
    let client = &entry.client;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        client.id.to_string(),
        client.tenant.to_string(),
        roles(&client.roles).join(", "),
        or_dash(client.owner.as_ref().map(ToString::to_string)),
        permissions(&client.permissions).join(" "),
        or_dash(entry.certificate.as_ref().map(ToString::to_string)),
        or_dash(client.revoked_at.map(|at| at.to_string())),
    ]
}
