//! `writ token`: what a credential says, without asking anybody.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::context::Context;
use super::error::CliError;
use super::output::Output;
use crate::domain::secret::Secret;
use crate::token::{Inspection, KeySet, MAX_TOKEN_CHARS, RootPublicKey, Signature, With, inspect};

/// Look into credentials.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ token inspect --public-keys work/keys/credential-keys.json < token")]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    Inspect(Inspect),
}

/// Say what the credential on standard input grants and whether it verifies, as far as the token itself tells. The credential is never printed.
///
/// Needs no server, and so cannot know what only the store knows: whether it was spent, revoked or replaced. Ends with code 1 if a proxy would refuse
/// it for what it is.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ token inspect --public-keys work/keys/credential-keys.json < token\n  writ token inspect --public-key ed25519/HEX < token\n  writ token inspect < token      # read it without checking who signed"
)]
struct Inspect {
    /// The published keys: the file beside the private keys, or a saved `/.well-known/biscuit-web-keys`.
    #[arg(long, value_name = "FILE", conflicts_with = "public_key")]
    public_keys: Option<PathBuf>,
    /// One public key, `ed25519/` and 64 hex digits.
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
}

impl TokenArgs {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let TokenCommand::Inspect(command) = self.command;
        let set = match &command.public_keys {
            None => None,
            Some(path) => {
                let at = |why: &dyn std::fmt::Display| CliError::failed(format!("{}: {why}", path.display()));
                let bytes = std::fs::read(path).map_err(|error| at(&error))?;
                Some(KeySet::from_json(&bytes).map_err(|error| at(&error))?)
            }
        };
        let key = match command.public_key {
            None => None,
            Some(text) => Some(text.parse::<RootPublicKey>().map_err(CliError::usage)?),
        };
        let with = match (&set, &key) {
            (Some(set), _) => With::Set(set),
            (None, Some(key)) => With::Key(key),
            (None, None) => With::Nothing,
        };
        let token = from_stdin()?;
        let inspection = inspect(token.expose(), with, context.outside.clock.now()).map_err(CliError::failed)?;
        context.out.answer(&inspection, |out| text(out, &inspection))?;
        match inspection.refused {
            None => Ok(()),
            Some(code) => Err(CliError::failed(format!("a proxy would refuse this credential: {code}"))),
        }
    }
}

/// Standard input, cut where no token can be any longer.
fn from_stdin() -> Result<Secret, CliError> {
    let mut text = String::new();
    let limit = u64::try_from(MAX_TOKEN_CHARS * 4).unwrap_or(u64::MAX);
    let read = std::io::stdin().lock().take(limit).read_to_string(&mut text);
    // The words of the error are the system's; what was read is not repeated.
    read.map_err(|error| CliError::failed(format!("standard input cannot be read as text: {}", error.kind())))?;
    Ok(Secret::new(text))
}

fn text(out: &Output, inspection: &Inspection) -> String {
    let signature = match inspection.signature {
        Signature::NotChecked => out.bad("not checked: nothing of this can be believed; give --public-keys or --public-key"),
        Signature::Valid => out.good("valid"),
        Signature::Invalid => out.bad("invalid"),
    };
    let key = inspection.key_id.map_or_else(|| "none".to_owned(), |kid| kid.to_string());
    let mut pairs = vec![
        ("signature", signature),
        ("root key", key),
        ("blocks", inspection.blocks.to_string()),
    ];
    match &inspection.grant {
        None => pairs.push(("grant", "none of the expected form".to_owned())),
        Some(grant) => pairs.extend([
            ("operation", grant.operation.to_string()),
            ("resource", grant.resource.to_string()),
            ("draft hash", grant.draft_hash.to_string()),
            ("audience", grant.audience.to_string()),
            ("credential", grant.credential.to_string()),
            ("approval", grant.jti.to_string()),
            ("not before", grant.not_before.to_string()),
            ("expires at", grant.expires_at.to_string()),
            (
                "now",
                if inspection.in_window {
                    "within its time"
                } else {
                    "outside its time"
                }
                .to_owned(),
            ),
        ]),
    }
    let verdict = match (inspection.refused, inspection.signature) {
        (Some(code), _) => out.bad(code),
        (None, Signature::NotChecked) => "nothing against it, if the signature is right".to_owned(),
        (None, _) => "nothing against it".to_owned(),
    };
    pairs.push(("verdict", verdict));
    out.pairs(&pairs)
}
