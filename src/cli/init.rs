//! `writ init`: a complete working directory.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::error::CliError;
use super::output::Output;
use super::words::roles;
use crate::domain::name::Audience;
use crate::domain::secret::Secret;
use crate::sandbox::SandboxConfig;
use crate::setup::{self, Approvers, Created, Endpoint, Options};

/// Make a working directory: configuration, keys, clients, an example policy and backend files.
///
/// Without a backend's URL it is made for the sandbox, with fresh keys for it and example approvers whose keys lie in the directory. With
/// one nobody can approve yet: register your own people. The clients' secrets are printed once and kept nowhere.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ init work\n  writ init work --stripe-url https://api.stripe.com --stripe-key-file stripe.key --stripe-read-key-file stripe-read.key --public-url https://broker.example"
)]
pub(super) struct Init {
    /// The directory; empty, or not there yet.
    dir: PathBuf,
    /// Where the broker listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// Where a separate proxy listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8701")]
    proxy_listen: SocketAddr,
    /// The URL under which the broker is reached [default: http:// and where it listens].
    #[arg(long, value_name = "URL", value_parser = public_url)]
    public_url: Option<String>,
    /// The broker's name in approval records [default: its URL].
    #[arg(long, value_name = "NAME")]
    audience: Option<Audience>,
    /// Where Stripe, or a server that speaks like it, is.
    #[arg(long, value_name = "URL", requires_all = ["stripe_key_file", "stripe_read_key_file"])]
    stripe_url: Option<String>,
    /// A file with the key that makes refunds; only the proxy gets it.
    #[arg(long, value_name = "FILE", requires = "stripe_url")]
    stripe_key_file: Option<PathBuf>,
    /// A file with a restricted key that only reads charges and refunds; the broker gets it.
    #[arg(long, value_name = "FILE", requires = "stripe_url")]
    stripe_read_key_file: Option<PathBuf>,
    /// Where the shop with its orders and customers is.
    #[arg(long, value_name = "URL", requires_all = ["shop_key_file", "shop_read_key_file"])]
    shop_url: Option<String>,
    /// A file with the key that changes customers; only the proxy gets it.
    #[arg(long, value_name = "FILE", requires = "shop_url")]
    shop_key_file: Option<PathBuf>,
    /// A file with a restricted key that only reads; the broker gets it.
    #[arg(long, value_name = "FILE", requires = "shop_url")]
    shop_read_key_file: Option<PathBuf>,
    /// Where `writ sandbox` will answer.
    #[arg(long, value_name = "URL", default_value = setup::SANDBOX_URL, conflicts_with_all = ["stripe_url", "shop_url"])]
    sandbox_url: String,
}

impl Init {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let named = [
            endpoint("stripe", &self.stripe_url, &self.stripe_key_file, &self.stripe_read_key_file)?,
            endpoint("shop", &self.shop_url, &self.shop_key_file, &self.shop_read_key_file)?,
        ];
        let mut endpoints: Vec<Endpoint> = named.into_iter().flatten().collect();
        let sandbox = endpoints.is_empty().then_some(self.sandbox_url.as_str());
        if let Some(url) = sandbox {
            let keys = SandboxConfig::new(context.outside.clock.clone(), context.outside.entropy.clone());
            endpoints = setup::sandbox_endpoints(url, &keys.read_key, &keys.write_key);
        }
        let options = Options {
            dir: self.dir.clone(),
            broker_listen: self.listen.to_string(),
            proxy_listen: self.proxy_listen.to_string(),
            public_url: self.public_url,
            audience: self.audience,
            endpoints,
            approvers: match sandbox {
                Some(_) => Approvers::Examples,
                None => Approvers::Nobody,
            },
        };
        let created = setup::create(&options, &context.outside).await?;
        context
            .out
            .answer(&value(&created, sandbox), |out| text(out, &created, &self.dir, sandbox))
    }
}

/// An http or https URL that can stand in the configuration as it is.
fn public_url(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|b| b.is_ascii_graphic());
    let url = url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if plain && url {
        Ok(text.to_owned())
    } else {
        Err("expected an http or https URL such as https://broker.example".to_owned())
    }
}

/// The backend, if its URL was given.
fn endpoint(
    name: &'static str,
    url: &Option<String>,
    key: &Option<PathBuf>,
    read_key: &Option<PathBuf>,
) -> Result<Option<Endpoint>, CliError> {
    let (Some(url), Some(key), Some(reader)) = (url, key, read_key) else {
        return Ok(None);
    };
    Ok(Some(Endpoint {
        name,
        url: url.clone(),
        facts: secret_in(reader)?,
        read: secret_in(reader)?,
        write: secret_in(key)?,
    }))
}

fn secret_in(path: &Path) -> Result<Secret, CliError> {
    let text = std::fs::read_to_string(path).map(Secret::new);
    let text = text.map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
    let key = text.expose().trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(CliError::failed(format!("{}: expected one key and nothing else", path.display())));
    }
    Ok(Secret::new(key.to_owned()))
}

/// The one place where clients' secrets are printed, once, when they are made.
fn value(created: &Created, sandbox: Option<&str>) -> serde_json::Value {
    let clients = created
        .clients
        .iter()
        .map(|(client, secret)| json!({ "id": client.id, "roles": roles(&client.roles), "secret": secret.expose() }));
    let approvers = created
        .approvers
        .iter()
        .map(|(id, path)| json!({ "id": id, "key_file": path.display().to_string() }));
    json!({
        "config": created.config.display().to_string(),
        "clients": clients.collect::<Vec<_>>(),
        "approvers": approvers.collect::<Vec<_>>(),
        "sandbox_url": sandbox,
        "prover": created.prover.as_ref().map(|path| path.display().to_string()),
    })
}

fn text(out: &Output, created: &Created, dir: &Path, sandbox: Option<&str>) -> String {
    let config = created.config.display();
    let clients: Vec<Vec<String>> = created
        .clients
        .iter()
        .map(|(client, secret)| vec![client.id.to_string(), roles(&client.roles).join(", "), secret.expose().to_owned()])
        .collect();
    let mut text = format!("{} is ready\n", dir.display());
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n{}\n{}\n",
        out.strong("clients (the secrets are shown this once and stored only as hashes)"),
        out.table(&["client", "role", "secret"], &clients).trim_end(),
    );
    let approvers: Vec<Vec<String>> = created
        .approvers
        .iter()
        .map(|(id, path)| vec![id.to_string(), path.display().to_string()])
        .collect();
    if !approvers.is_empty() {
        let _ = write!(
            text,
            "\n{}\n{}\n",
            out.strong("approvers (examples, for the sandbox)"),
            out.table(&["approver", "private key"], &approvers).trim_end(),
        );
    }
    let _ = write!(text, "\n{}\n", out.strong("next"));
    if let Some(url) = sandbox {
        let _ = writeln!(text, "  writ sandbox --config {config}   # the payments server at {url}");
    }
    let _ = writeln!(text, "  writ config check --config {config}");
    if approvers.is_empty() {
        let _ = writeln!(
            text,
            "  writ keys generate --approver usr_x --out usr_x.pem   # on that person's machine; it prints the public key"
        );
        let _ = writeln!(
            text,
            "  writ approver add usr_x --public KEY --authority 'refund.*:finance.refunds:usd:500000' --config {config}"
        );
    }
    let _ = writeln!(text, "  writ serve --config {config}");
    if let Some(prover) = &created.prover {
        let _ = writeln!(text, "  writ prove --config {}   # tries what must be refused", prover.display());
    }
    text
}
