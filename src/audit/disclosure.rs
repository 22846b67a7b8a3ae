//! A value that is committed to and not written: the event carries a salted hash, and whoever has the opening can show what was hashed.
//! The form is that of RFC 9901 (SD-JWT), sections 4.2.1 and 4.2.3, so that other people's programs can check it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::clock::{Entropy, random};
use crate::domain::digest::Digest;

/// The hash, as `_sd_alg` names it.
pub const SD_ALG: &str = "sha-256";

/// Which value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SensitiveField {
    /// The customer, in the backend's words.
    Customer,
    /// What a person wrote as their reason.
    Reason,
    /// What a person gave as evidence.
    Evidence,
}

impl SensitiveField {
    /// Every field.
    pub const ALL: &'static [Self] = &[Self::Customer, Self::Reason, Self::Evidence];

    /// Its name, as it stands in the disclosure.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Customer => "customer",
            Self::Reason => "reason",
            Self::Evidence => "evidence",
        }
    }

    /// The field with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.as_str() == text)
    }
}

/// A value that an event commits to. Prints without it.
#[derive(Clone, PartialEq, Eq)]
pub struct Sensitive {
    /// Which.
    pub field: SensitiveField,
    /// The value.
    pub value: String,
    /// Whom it is about: what their key is kept by.
    pub subject: String,
}

impl fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sensitive").field("field", &self.field).finish_non_exhaustive()
    }
}

/// The opening of a commitment: salt, name and value in base64url of a JSON array. Prints without them.
#[derive(Clone, PartialEq, Eq)]
pub struct Disclosure(String);

impl Disclosure {
    /// A new one, with 128 bits of salt of its own.
    #[must_use]
    pub fn of(field: SensitiveField, value: &str, entropy: &dyn Entropy) -> Self {
        let salt = URL_SAFE_NO_PAD.encode(random::<16>(entropy));
        let array = serde_json::json!([salt, field.as_str(), value]);
        Self(URL_SAFE_NO_PAD.encode(array.to_string()))
    }

    /// Reads one; `None` unless it is an array of a salt, the name of a field and a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let made = Self(text.to_owned());
        made.parts().map(|_| made)
    }

    /// What stands in the event's `_sd`: SHA-256 over the text as it is.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// The field and the value.
    #[must_use]
    pub fn parts(&self) -> Option<(SensitiveField, String)> {
        let bytes = URL_SAFE_NO_PAD.decode(&self.0).ok()?;
        let (_, name, value): (String, String, String) = serde_json::from_slice(&bytes).ok()?;
        Some((SensitiveField::parse(&name)?, value))
    }

    /// The text: whoever has it has the value.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Disclosure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disclosure({})", self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_has_the_digest_that_the_standard_gives() {
        let array = "WyJfMjZiYzRMVC1hYzZxMktJNmNCVzVlcyIsICJmYW1pbHlfbmFtZSIsICJNw7ZiaXVzIl0";
        assert_eq!(
            Disclosure(array.to_owned()).digest().to_string(),
            "X9yH0Ajrdm1Oij4tWso9UzzKJvPoDxwmuEcO3XAdRC0"
        );
        assert_eq!(Disclosure::parse(array), None, "no field of ours");
    }

    #[test]
    fn equal_values_have_unequal_commitments_and_nothing_prints_them() {
        struct Count(std::sync::atomic::AtomicU8);
        impl Entropy for Count {
            fn fill(&self, buffer: &mut [u8]) {
                buffer.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
            }
        }
        let entropy = Count(0.into());
        let [a, b] = [(); 2].map(|()| Disclosure::of(SensitiveField::Customer, "cus_1", &entropy));
        assert_ne!(a.digest(), b.digest());
        assert_eq!(a.parts(), Some((SensitiveField::Customer, "cus_1".to_owned())));
        assert_eq!(Disclosure::parse(a.expose()), Some(a.clone()));
        assert!(!format!("{a:?}").contains(a.expose()));
        let sensitive = Sensitive {
            field: SensitiveField::Reason,
            value: "she called".to_owned(),
            subject: "cus_1".to_owned(),
        };
        assert!(!format!("{sensitive:?}").contains("called"));
    }
}
