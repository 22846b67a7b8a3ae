//! Credentials: minted by the broker, verified by the proxy, and the keys they hang on.
//!
//! A credential is a Biscuit of one block that holds one [`Grant`]. The library is wrapped here and nowhere else: its types print their
//! secrets, its default limits fail on a busy machine, and whoever holds a token may append blocks to it.

mod error;
mod facts;
mod grant;
mod inspect;
mod key_ring;
mod key_set;
mod mint;
mod verify;
mod widened;

pub use error::TokenError;
pub use facts::RequestFacts;
pub use grant::{Grant, GrantResource, GrantResourceError};
pub use inspect::{Inspection, Signature, With, inspect};
pub use key_ring::{KeyRing, KeyRingError, PUBLIC_KEYS_FILE, RingKey, Rotation};
pub use key_set::{KeySet, KeySetError, PublishedKey, RootKeyId, RootPublicKey};
pub use mint::{MintError, Minter};
pub use verify::{SignedCredential, VerifiedCredential, Verifier};
pub use widened::widened;

use std::time::Duration;

/// The longest token that is looked at, in characters.
pub const MAX_TOKEN_CHARS: usize = 2048;
/// The signed context of the block: no other kind of token under the same key passes for a credential.
pub const CONTEXT: &str = "writ/1";
/// The longest life of a credential.
pub const MAX_LIFETIME: Duration = Duration::from_secs(120);
/// How far the clocks of broker and proxy may differ.
pub const CLOCK_SKEW: Duration = Duration::from_secs(5);
/// How long a retired key must still verify: until the last credential it may have signed has ended.
pub const KEY_OVERLAP: Duration = Duration::from_secs(125);
