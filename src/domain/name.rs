//! Names that people choose: each kind its own type, each with a closed alphabet and a greatest length.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The text is not a name of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {kind}: expected {rule}")]
pub struct NameError {
    /// What was given, cut to 80 characters and with control characters escaped.
    pub given: String,
    /// The kind that was expected, with its article.
    pub kind: &'static str,
    /// The rule in words.
    pub rule: &'static str,
}

fn escaped(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $kind:literal, $rule:literal, $check:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.to_owned())) } else { Err(NameError { given: escaped(text), kind: $kind, rule: $rule }) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

impl PrincipalId {
    /// Whether this is a rule of the policy, which signs for itself and is nobody's signature.
    #[must_use]
    pub fn is_rule(&self) -> bool {
        self.0.starts_with("rule_")
    }
}

/// Lower-case words of letters, digits and `_` that start with a letter, joined by `separator`.
fn words(text: &str, separator: char, least: usize, longest: usize) -> bool {
    let word =
        |w: &str| w.starts_with(|c: char| c.is_ascii_lowercase()) && w.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    text.len() <= longest && text.split(separator).count() >= least && text.split(separator).all(word)
}

/// ASCII letters, digits and the given marks, not empty.
fn token(text: &str, marks: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}

names! {
    /// What may be done, such as `refund.create`: at least two words.
    OperationName: "an operation", "lower-case words joined by dots, such as `refund.create`, at most 64 characters", |t| words(t, '.', 2, 64);
    /// A configured backend, such as `stripe`.
    BackendName: "a backend", "one lower-case word, at most 32 characters", |t| words(t, '.', 1, 32) && !t.contains('.');
    /// The kind of thing an operation touches, such as `charge`.
    ResourceType: "a resource type", "one lower-case word, at most 32 characters", |t| words(t, '.', 1, 32) && !t.contains('.');
    /// The backend's own id of the thing an operation touches.
    ResourceId: "a resource id", "letters, digits and `-_.:/` only, at most 200 characters", |t| token(t, "-_.:/", 200);
    /// A registered client.
    ClientId: "a client id", "letters, digits and `-_.` only, at most 64 characters", |t| token(t, "-_.", 64);
    /// A person (`usr_…`), a service (`svc_…`) or a rule (`rule_…`) that can approve, own or ask.
    PrincipalId: "a principal", "`usr_`, `svc_` or `rule_` and then letters, digits and `-_.`, at most 64 characters",
        |t| token(t, "-_.", 64) && ["usr_", "svc_", "rule_"].iter().any(|p| t.len() > p.len() && t.starts_with(p));
    /// A queue of approvers, such as `finance.refunds`.
    QueueName: "a queue", "lower-case words joined by dots, at most 64 characters", |t| words(t, '.', 1, 64);
    /// A tenant.
    TenantId: "a tenant", "letters, digits and `-_` only, at most 64 characters", |t| token(t, "-_", 64);
    /// A support case, in the orchestrator's own numbering.
    CaseId: "a case id", "letters, digits and `-_.:` only, at most 64 characters", |t| token(t, "-_.:", 64);
    /// The id of a key that signs approval records.
    KeyId: "a key id", "letters, digits and `-_.` only, at most 64 characters", |t| token(t, "-_.", 64);
    /// Whom a token or a record is for: a URL or URN.
    Audience: "an audience", "a URL or URN of at most 200 visible ASCII characters", |t| !t.is_empty() && t.len() <= 200 && t.bytes().all(|b| b.is_ascii_graphic());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_their_alphabet_are_refused_with_the_rule() {
        for bad in [
            "refund",
            "Refund.create",
            "refund..create",
            "refund.create ",
            "refund.\u{200b}create",
            "",
        ] {
            let error = bad.parse::<OperationName>().unwrap_err();
            assert!(error.to_string().contains("refund.create"), "{error}");
        }
        assert!("refund.create".parse::<OperationName>().is_ok());
        assert!("ch_1/../x y".parse::<ResourceId>().is_err());
        assert!("mia".parse::<PrincipalId>().is_err());
        assert!("usr_mia".parse::<PrincipalId>().is_ok());
    }
}
