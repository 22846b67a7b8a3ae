//! One type for each kind of identifier: a prefix that names the kind, and a time-ordered UUIDv7 in 32 hex digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use super::clock::{Clock, Entropy, random};

/// The text is not an identifier of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an id of this kind: expected `{prefix}_` and 32 lowercase hex digits")]
pub struct IdError {
    /// What was given, cut to 80 characters.
    pub given: String,
    /// The prefix of the kind that was expected.
    pub prefix: &'static str,
}

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// What every identifier of this kind starts with, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A fresh identifier, ordered by the clock's time.
            #[must_use]
            pub fn generate(clock: &dyn Clock, entropy: &dyn Entropy) -> Self {
                let millis = u64::try_from(clock.now().millis()).unwrap_or(0);
                Self(uuid::Builder::from_unix_timestamp_millis(millis, &random(entropy)).into_uuid())
            }

            /// From raw bytes, as the signed credential carries them.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The raw 16 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.as_simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let wrong = || IdError { given: text.chars().take(80).collect(), prefix: $prefix };
                let digits = text.strip_prefix(concat!($prefix, "_")).ok_or_else(wrong)?;
                // `Uuid` also reads dashes, braces and capitals; one id must have one spelling.
                if digits.len() != 32 || !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                    return Err(wrong());
                }
                Uuid::try_parse(digits).map(Self).map_err(|_| wrong())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

identifiers! {
    /// A stored draft.
    DraftId = "drf";
    /// One policy decision about one draft.
    VerdictId = "vrd";
    /// An approval: the card people answer, or the one a rule granted by itself. Its bytes are the credential's `jti`.
    ApprovalId = "apv";
    /// One signed approval record (`jti` of the JWS).
    RecordId = "apr";
    /// An issued credential.
    CredentialId = "crd";
    /// The execution of one draft.
    ExecutionId = "exe";
    /// An audit event.
    EventId = "evt";
    /// One intent to change the store, kept over retries of the same intent.
    OperationId = "opn";
    /// A process that writes to the store, named anew at each start.
    WriterId = "wtr";
    /// One HTTP request.
    RequestId = "req";
    /// A stop: the kill switch, thrown for some of what could run.
    StopId = "stp";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let id: DraftId = "drf_0192f0c1a2b37c4d8e5f60718293a4b5".parse().unwrap();
        assert_eq!(id.to_string(), "drf_0192f0c1a2b37c4d8e5f60718293a4b5");
        for other in [
            "drf_0192F0C1A2B37C4D8E5F60718293A4B5",
            "drf_0192f0c1-a2b3-7c4d-8e5f-60718293a4b5",
            "exe_0192f0c1a2b37c4d8e5f60718293a4b5",
            "0192f0c1a2b37c4d8e5f60718293a4b5",
            "drf_",
        ] {
            assert!(other.parse::<DraftId>().is_err(), "{other}");
        }
    }
}
