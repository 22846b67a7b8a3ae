//! `writ keys`: the broker's signing keys, and key pairs for approvers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::{At, Context};
use super::error::CliError;
use super::words::Algorithm;
use crate::app;
use crate::approval::RecordSigner;
use crate::audit::LogKeys;
use crate::audit::vault::Vault;
use crate::config::Config;
use crate::domain::name::PrincipalId;
use crate::setup;
use crate::token::{KeyRing, RingKey, RootKeyId, Rotation};

/// Make, replace and list the keys that credentials are signed with, and with `--log` the key of the audit log.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ keys list --config work/writ.toml\n  writ keys rotate --config work/writ.toml")]
pub(super) struct Keys {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    Generate(Generate),
    Rotate(Rotate),
    Retire(Retire),
    List(List),
}

/// Make the first signing key, or a key pair for an approver.
///
/// With `--approver` the private key goes to a new file that only you can read, and the public key is printed, with the command that registers it.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ keys generate --config work/writ.toml\n  writ keys generate --approver usr_lea --alg ES256 --out lea.pem"
)]
struct Generate {
    #[command(flatten)]
    at: At,
    /// Make the first key of the audit log instead.
    #[arg(long, conflicts_with = "approver")]
    log: bool,
    /// Make the key that wraps what events of the audit log only commit to: customers, reasons. Keep it out of the store's backups.
    #[arg(long, conflicts_with_all = ["approver", "log"])]
    subjects: bool,
    /// The approver that the key pair is for.
    #[arg(long, value_name = "APPROVER", requires = "out")]
    approver: Option<PrincipalId>,
    /// The algorithm of the approver's key.
    #[arg(long, value_enum, default_value_t = Algorithm::Es256, requires = "approver")]
    alg: Algorithm,
    /// The new file for the approver's private key.
    #[arg(long, value_name = "FILE", requires = "approver")]
    out: Option<PathBuf>,
}

/// Publish a new signing key; the old one ends once nothing signed with it can be good any more.
///
/// Running processes pick the change up by themselves.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ keys rotate --config work/writ.toml\n  writ keys rotate --config work/writ.toml --days 30\n  writ keys rotate --config work/writ.toml --log"
)]
struct Rotate {
    #[command(flatten)]
    at: At,
    /// Replace the key of the audit log instead. Both keys sign the head where they change, and the old one is gone after that.
    #[arg(long, conflicts_with = "days")]
    log: bool,
    /// For how many days the new key may sign.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

/// End a key at once, because somebody else may know it. What it signed stops counting.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ keys retire 1 --config work/writ.toml")]
struct Retire {
    /// The key's number.
    kid: u32,
    #[command(flatten)]
    at: At,
}

/// List the signing keys with their windows.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ keys list --config work/writ.toml\n  writ keys list --config work/writ.toml --json")]
struct List {
    #[command(flatten)]
    at: At,
}

impl Keys {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let now = context.outside.clock.now();
        let entropy = &*context.outside.entropy;
        match self.command {
            KeysCommand::Generate(Generate {
                approver: Some(approver),
                alg,
                out: Some(out),
                at,
                ..
            }) => approver_pair(context, &approver, alg, &out, &at.config),
            KeysCommand::Generate(generate) if generate.log => {
                let config = generate.at.load()?;
                let name = app::log_name(&config.public_url).map_err(CliError::failed)?;
                app::log_files(&config).generate(&name, entropy).map_err(CliError::failed)?;
                log_key(context, &config)
            }
            KeysCommand::Generate(generate) if generate.subjects => {
                let file = app::log_files(&generate.at.load()?).subjects();
                setup::write(&file, Vault::generate(entropy).expose(), 0o600).map_err(CliError::failed)?;
                let file = file.display().to_string();
                context.out.answer(&json!({ "file": file }), |_| {
                    format!("{file} is made; running processes use it after a restart. Keep it out of the store's backups")
                })
            }
            KeysCommand::Generate(generate) => {
                let dir = generate.at.load()?.keys;
                list(context, KeyRing::generate(&dir, now, setup::KEY_LIFETIME, entropy))
            }
            KeysCommand::Rotate(rotate) if rotate.log => {
                let config = rotate.at.load()?;
                app::rotate_log_key(&config, context.op(), &context.outside)
                    .await
                    .map_err(CliError::failed)?;
                log_key(context, &config)
            }
            KeysCommand::Rotate(rotate) => {
                let rotation = Rotation {
                    lifetime: Duration::from_secs(u64::from(rotate.days) * 86_400),
                    ..Rotation::default()
                };
                list(context, KeyRing::rotate(&rotate.at.load()?.keys, now, rotation, entropy))
            }
            KeysCommand::Retire(retire) => list(context, KeyRing::retire(&retire.at.load()?.keys, RootKeyId::new(retire.kid), now)),
            KeysCommand::List(list_) => list(context, KeyRing::load(&list_.at.load()?.keys)),
        }
    }
}

/// The public keys of the log, oldest first; the last one signs.
fn log_key(context: &Context, config: &Config) -> Result<(), CliError> {
    let files = app::log_files(config);
    let keys = LogKeys::load(&files, None).map_err(CliError::failed)?;
    let public = files.public().display().to_string();
    let signs = keys.signing.verifier().to_string();
    context.out.answer(
        &json!({ "log": keys.signing.origin().as_str(), "signs": signs, "public_keys_file": public }),
        |out| {
            out.pairs(&[
                ("log", keys.signing.origin().to_string()),
                ("signs", signs.clone()),
                ("public keys", public.clone()),
            ])
        },
    )
}

fn approver_pair(context: &Context, approver: &PrincipalId, alg: Algorithm, out: &Path, config: &Path) -> Result<(), CliError> {
    let kind = alg.kind();
    let made = RecordSigner::generate(kind).map_err(CliError::failed)?;
    setup::write(out, made.private_pem.expose(), 0o600).map_err(CliError::failed)?;
    let (file, public, alg) = (out.display().to_string(), made.public, kind.as_str());
    let value = json!({ "approver": approver, "alg": alg, "public": public, "private_key_file": file });
    context.out.answer(&value, |out| {
        let pairs = out.pairs(&[
            ("approver", approver.to_string()),
            ("algorithm", alg.to_owned()),
            ("public key", public.clone()),
            ("private key", file.clone()),
        ]);
        let (add, config) = (format!("writ approver add {approver}"), config.display());
        format!(
            "{pairs}\nregister it where the broker runs:\n  {add} --public {public} --alg {alg} --config {config}\n\
             and say what they may decide, such as\n  {add} --authority 'refund.*:finance.refunds:usd:500000' --config {config}\n"
        )
    })
}

fn list(context: &Context, ring: Result<KeyRing, crate::token::KeyRingError>) -> Result<(), CliError> {
    let keys = ring.map_err(CliError::failed)?.list(context.outside.clock.now());
    let values: Vec<Value> = keys.iter().map(value).collect();
    context.out.answer(&json!({ "keys": values }), |out| {
        let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
        out.table(&["key", "public", "from", "signs until", "verifies until", ""], &rows)
    })
}

fn value(key: &RingKey) -> Value {
    json!({
        "kid": key.kid, "public": key.published.key.to_string(), "not_before": key.published.not_before,
        "not_after": key.published.not_after, "signs_until": key.signs_until, "signs": key.signs,
    })
}

fn row(key: &RingKey) -> Vec<String> {
    let time = |at: Option<crate::domain::time::Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    vec![
        key.kid.to_string(),
        key.published.key.to_string(),
        key.published.not_before.to_string(),
        time(key.signs_until),
        time(key.published.not_after),
        if key.signs { "signs now" } else { "" }.to_owned(),
    ]
}
