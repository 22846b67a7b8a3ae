//! Minting: the broker's side, the only code that holds a root's private key.

use std::fmt;

use biscuit_auth::builder::BlockBuilder;
use biscuit_auth::datalog::SymbolTable;
use biscuit_auth::macros::block;
use biscuit_auth::{Algorithm, Biscuit, KeyPair, PrivateKey};
use zeroize::Zeroizing;

use crate::domain::clock::{Entropy, random};
use crate::domain::secret::Secret;

use super::facts::grant_fact;
use super::grant::Grant;
use super::key_set::{RootKeyId, RootPublicKey};
use super::{CLOCK_SKEW, CONTEXT, MAX_LIFETIME, MAX_TOKEN_CHARS};

/// Why no credential was made. Nothing has been signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The window is empty or lies before 1970.
    #[error("the grant's window is empty; it must end after it begins")]
    EmptyWindow,
    /// The window is longer than any verifier accepts.
    #[error("the grant's window is longer than {} s; shorten the operation's credential lifetime", MAX_LIFETIME.as_secs())]
    LifetimeTooLong,
    /// Longer than any verifier reads.
    #[error("the credential would have more than {MAX_TOKEN_CHARS} characters; shorten the resource id or the audience")]
    TooLong,
    /// The library refused.
    #[error("the credential could not be built")]
    Library,
}

/// Signs credentials with one root key. Prints without the key.
pub struct Minter {
    kid: RootKeyId,
    root: KeyPair,
    /// The check every credential carries, parsed at compile time: a verifier that forgets to compare still compares.
    template: BlockBuilder,
}

impl fmt::Debug for Minter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Minter({})", self.kid)
    }
}

impl Minter {
    /// From an Ed25519 private key in PKCS#8 PEM. `None` for anything else, other curves included.
    #[must_use]
    pub fn from_pkcs8_pem(kid: RootKeyId, pem: &Secret) -> Option<Self> {
        let root = KeyPair::from_private_key_pem_with_algorithm(pem.expose(), Algorithm::Ed25519).ok()?;
        Some(Self {
            kid,
            root,
            template: template(),
        })
    }

    /// The id that verifiers find the public key under.
    #[must_use]
    pub const fn kid(&self) -> RootKeyId {
        self.kid
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> Option<RootPublicKey> {
        RootPublicKey::from_bytes(&self.root.public().to_bytes())
    }

    /// Signs one grant. The token carries a private key of its own, made from `entropy`, so it is a secret in the literal sense.
    ///
    /// # Errors
    /// [`MintError`] if no verifier would accept the grant, or the library refuses.
    pub fn mint(&self, grant: &Grant, entropy: &dyn Entropy) -> Result<Secret, MintError> {
        if grant.expires_at <= grant.not_before {
            return Err(MintError::EmptyWindow);
        }
        if grant.expires_at > grant.not_before.plus(CLOCK_SKEW).plus(MAX_LIFETIME) {
            return Err(MintError::LifetimeTooLong);
        }
        let fact = grant_fact(grant).ok_or(MintError::EmptyWindow)?;
        let seed = Zeroizing::new(random::<32>(entropy));
        let next = PrivateKey::from_bytes(seed.as_ref(), Algorithm::Ed25519).map_err(|_| MintError::Library)?;
        let token = Biscuit::builder()
            .merge(self.template.clone())
            .fact(fact)
            .map_err(|_| MintError::Library)?
            .context(CONTEXT.to_owned())
            .root_key_id(self.kid.number())
            .build_with_key_pair(&self.root, SymbolTable::new(), &KeyPair::from(&next))
            .and_then(|token| token.to_base64())
            .map(Secret::new)
            .map_err(|_| MintError::Library)?;
        if token.expose().len() > MAX_TOKEN_CHARS {
            return Err(MintError::TooLong);
        }
        Ok(token)
    }
}

/// Datalog version 3 only (no `==`, no arrays), so that every Biscuit library since 2022 reads it. Expiry is exclusive, as everywhere here.
fn template() -> BlockBuilder {
    block!("check if grant($o, $r, $d, $a, $c, $j, $n, $e), request($o, $r, $d, $a), time($t), $n <= $t, $t < $e;")
}
