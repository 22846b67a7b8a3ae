//! Values that must never be printed, compared in variable time, or left in memory.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::digest::Digest;

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

/// A mark by which other secrets are noticed: 32 bits of a hash over them, eight hexadecimal digits in text. Long enough to tell two keys apart,
/// and too short to find one by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretsMark(u32);

impl SecretsMark {
    /// Of these values in this order; where one ends and the next begins counts.
    #[must_use]
    pub fn of<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all = Zeroizing::new(Vec::new());
        for value in values {
            all.extend((value.len() as u64).to_be_bytes());
            all.extend(value);
        }
        let digest = Digest::tagged("writ secrets mark v1", &all);
        Self(
            digest
                .as_bytes()
                .iter()
                .take(4)
                .fold(0, |mark, byte| (mark << 8) | u32::from(*byte)),
        )
    }
}

impl fmt::Display for SecretsMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl From<SecretsMark> for String {
    fn from(mark: SecretsMark) -> Self {
        mark.to_string()
    }
}

impl TryFrom<String> for SecretsMark {
    type Error = SecretsMarkError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Not eight hexadecimal digits in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected eight hexadecimal digits in lower case")]
pub struct SecretsMarkError;

impl std::str::FromStr for SecretsMark {
    type Err = SecretsMarkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mark = u32::from_str_radix(text, 16).map(Self).map_err(|_| SecretsMarkError)?;
        if mark.to_string() == text {
            Ok(mark)
        } else {
            Err(SecretsMarkError)
        }
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

    #[test]
    fn a_mark_tells_other_secrets_and_is_the_same_for_the_same() {
        let mark = |values: [&str; 2]| SecretsMark::of(values.map(str::as_bytes));
        assert_eq!(mark(["sk_1", "rk_1"]), mark(["sk_1", "rk_1"]));
        for other in [["sk_2", "rk_1"], ["sk_1", "rk_2"], ["rk_1", "sk_1"], ["sk_1r", "k_1"]] {
            assert_ne!(mark(["sk_1", "rk_1"]), mark(other), "{other:?}");
        }
    }

    #[test]
    fn a_mark_reads_back_and_nothing_else_does() {
        let mark = SecretsMark(0x00ab_12ef);
        assert_eq!(mark.to_string(), "00ab12ef");
        assert_eq!("00ab12ef".parse(), Ok(mark));
        for wrong in ["", "ab12ef", "00AB12EF", "+0ab12ef", "00ab12ef0", "zzzzzzzz"] {
            assert_eq!(wrong.parse::<SecretsMark>(), Err(SecretsMarkError), "{wrong}");
        }
    }
}
