//! What any holder of a credential can do to it: append a block, properly signed with the key that the token carries.

use biscuit_auth::UnverifiedBiscuit;
use biscuit_auth::builder::BlockBuilder;

use super::TokenError;
use super::verify::guarded;

/// The token with one more block, which claims another grant. Every Biscuit library finds its signatures right; a proxy must refuse it.
///
/// # Errors
/// [`TokenError::Malformed`] if it is not a token, or is one to which nothing can be appended.
pub fn widened(token: &str) -> Result<String, TokenError> {
    guarded(|| {
        let unverified = UnverifiedBiscuit::from_base64(token).map_err(|_| TokenError::Malformed)?;
        let block = BlockBuilder::new()
            .code("grant(\"*\", \"*\", \"*\", \"*\", \"*\", \"*\", 2020-01-01T00:00:00Z, 2099-01-01T00:00:00Z);")
            .map_err(|_| TokenError::Malformed)?;
        let appended = unverified.append(block).map_err(|_| TokenError::Malformed)?;
        appended.to_base64().map_err(|_| TokenError::Malformed)
    })
}
