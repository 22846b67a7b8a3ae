//! Values that must never be printed, compared in variable time, or left in memory.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A secret text: a client secret, a backend key, a credential. Prints as `Secret(..)`, is wiped on drop.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of the text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself: the only way out, so that a search for this name lists every place a secret leaves.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Whether two byte strings are equal, in time that does not depend on where they differ.
#[must_use]
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("sk_test_123".to_owned());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.expose(), "sk_test_123");
    }
}
