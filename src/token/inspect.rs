//! What a token says and whether it verifies, for a person with a public key and no server.

use biscuit_auth::UnverifiedBiscuit;
use biscuit_auth::builder::BlockBuilder;
use serde::Serialize;

use crate::domain::time::Timestamp;

use super::facts::read_grant;
use super::grant::Grant;
use super::key_set::{KeySet, RootKeyId, RootPublicKey};
use super::verify::{guarded, is_spelled_out};
use super::{MAX_TOKEN_CHARS, TokenError};

/// What to verify the signature with.
#[derive(Debug, Clone, Copy)]
pub enum With<'a> {
    /// Nothing: only read.
    Nothing,
    /// This key, whatever id the token names.
    Key(&'a RootPublicKey),
    /// The key that the token names, if it is in the set and in its window.
    Set(&'a KeySet),
}

/// What became of the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signature {
    /// No key was given: nothing that the token says can be believed.
    NotChecked,
    /// It fits the key.
    Valid,
    /// It does not, or the key cannot be used.
    Invalid,
}

/// A token laid open. Holds nothing secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The root key it names.
    pub key_id: Option<RootKeyId>,
    /// How many blocks it has; a credential has one.
    pub blocks: usize,
    /// What its first block grants, if that is one grant of the expected form.
    pub grant: Option<Grant>,
    /// The signature.
    pub signature: Signature,
    /// Whether `now` lies within the grant's window.
    pub in_window: bool,
    /// The code of the first reason for which a proxy would refuse it before it looked at a request, if there is one.
    pub refused: Option<&'static str>,
}

/// Lays a token open. White space around it is ignored.
///
/// # Errors
/// [`TokenError`] if it is not a token at all.
pub fn inspect(token: &str, with: With<'_>, now: Timestamp) -> Result<Inspection, TokenError> {
    let token = token.trim();
    if token.is_empty() {
        return Err(TokenError::Empty);
    }
    if token.len() > MAX_TOKEN_CHARS {
        return Err(TokenError::TooLong);
    }
    guarded(|| {
        let unverified = UnverifiedBiscuit::from_base64(token).map_err(|_| TokenError::Malformed)?;
        let blocks = unverified.block_count();
        let key_id = unverified.root_key_id().map(RootKeyId::new);
        let grant = first_grant(&unverified);
        let spelled_out = is_spelled_out(&unverified, token);
        let in_window = grant.as_ref().is_some_and(|g| g.not_before <= now && now < g.expires_at);
        let (signature, key_refusal) = check_signature(unverified, with, now);
        let refused = if blocks != 1 {
            Some(TokenError::ExtraBlocks)
        } else if !spelled_out {
            Some(TokenError::Malformed)
        } else if key_refusal.is_some() {
            key_refusal
        } else {
            match &grant {
                None => Some(TokenError::GrantMalformed),
                Some(grant) if now < grant.not_before => Some(TokenError::NotYetValid),
                Some(grant) if now >= grant.expires_at => Some(TokenError::Expired),
                Some(_) => None,
            }
        };
        Ok(Inspection {
            key_id,
            blocks,
            grant,
            signature,
            in_window,
            refused: refused.map(|error| error.code()),
        })
    })
}

fn check_signature(unverified: UnverifiedBiscuit, with: With<'_>, now: Timestamp) -> (Signature, Option<TokenError>) {
    let named = unverified.root_key_id();
    let key = match with {
        With::Nothing => return (Signature::NotChecked, None),
        With::Key(key) => Ok((RootKeyId::new(named.unwrap_or_default()), *key)),
        With::Set(set) => set.verifying(named, now),
    };
    match key.and_then(|(kid, key)| unverified.verify(key.inner()).map_err(|_| TokenError::SignatureInvalid(kid))) {
        Ok(_) => (Signature::Valid, None),
        Err(error) => (Signature::Invalid, Some(error)),
    }
}

/// The one grant in the first block, taken from its source and never by running it.
fn first_grant(unverified: &UnverifiedBiscuit) -> Option<Grant> {
    let source = unverified.print_block_source(0).ok()?;
    let block = BlockBuilder::new().code(source).ok()?;
    let mut grants = block.facts.iter().filter(|fact| fact.predicate.name == "grant");
    match (grants.next(), grants.next()) {
        (Some(only), None) => read_grant(only),
        _ => None,
    }
}
