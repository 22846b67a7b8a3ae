//! `writ audit erase`: what the log commits to about one person can be shown by nobody any more.

use clap::Args;
use serde_json::json;

use super::super::context::{At, Context, sqlite};
use super::super::error::CliError;
use crate::store::{Rejection, StoreError};

/// The longest legal basis.
const LONGEST: usize = 200;

/// Destroy the key and the openings of one person. Every proof stays good; it cannot be undone.
///
/// The events keep their salted commitments, which nobody can open any more, and their case, order and amount. The state that the broker
/// decides by, and copies made before together with the key file, are another matter: see docs/privacy.md.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ audit erase --config work/writ.toml --subject cus_1 --basis 'GDPR Art. 17(1)(a), request 2026-114'"
)]
pub(super) struct Erase {
    /// The customer, in the backend's words.
    #[arg(long, value_name = "VALUE")]
    subject: String,
    /// Why it is lawful; at most 200 characters, which stay in the log.
    #[arg(long, value_name = "TEXT", value_parser = basis)]
    basis: String,
    #[command(flatten)]
    at: At,
}

fn basis(text: &str) -> Result<String, String> {
    let fits = !text.trim().is_empty() && text.chars().count() <= LONGEST && crate::domain::text::deceptive(text).is_none();
    if fits {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 200 characters that show as they are".to_owned())
    }
}

impl Erase {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        if self.basis.contains(self.subject.trim()) {
            return Err(CliError::failed(
                "the basis names the person, and it stays in the log: say it without",
            ));
        }
        let store = sqlite(&self.at.load()?, context)?;
        let erased = match store.erase(context.op(), &self.subject, self.basis).await {
            Ok(erased) => erased,
            Err(StoreError::Rejected(Rejection::NotFound)) => {
                // An earlier call may have erased and not overwritten.
                let nothing = "the log commits to nothing about that person, or it was erased already";
                return Err(CliError::failed(match store.forget().await {
                    Ok(()) => nothing.to_owned(),
                    Err(why) => format!("{nothing}; but {}", still(&why)),
                }));
            }
            Err(other) => return Err(CliError::failed(other)),
        };
        let (fields, seq) = (erased.fields, erased.seq);
        let told = json!({ "fields": fields, "seq": seq, "overwritten": erased.left.is_none() });
        context.out.answer(&told, |_| {
            format!("{fields} openings are destroyed, with their key; event {seq} tells of it")
        })?;
        erased.left.map_or(Ok(()), |why| Err(CliError::failed(still(&why))))
    }
}

/// What to do where something is left.
fn still(why: &str) -> String {
    format!("what was destroyed may stand on the disk still: {why}; end whoever reads the database, or wait for it, and run this again")
}
