//! The kill switch: what a stop covers, and the words that must come with it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::id::{ApprovalId, CredentialId, DraftId};
use super::name::{ClientId, PrincipalId, TenantId};
use super::principal::OperationPattern;
use super::text::deceptive;

/// What a stop covers. Nothing of it is issued, spent or sent while the stop is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "scope", content = "value")]
pub enum StopScope {
    /// One credential. Another one of the same draft is not covered.
    Credential(CredentialId),
    /// One draft, whichever credential is used for it.
    Draft(DraftId),
    /// What one approval released.
    Approval(ApprovalId),
    /// Everything to which this person, service or rule said yes.
    Approver(PrincipalId),
    /// Everything that this client made.
    Client(ClientId),
    /// An operation, a family of them, or all.
    Operation(OperationPattern),
    /// Everything of one tenant.
    Tenant(TenantId),
    /// Everything.
    Everything,
}

/// The scope is not one that a stop can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// There is no such kind of scope.
    #[error("the scope is not one of {}", StopScope::WORDS.join(", "))]
    Word,
    /// The scope needs a value.
    #[error("scope `{0}` needs a value: which one")]
    ValueMissing(&'static str),
    /// The scope `everything` takes no value.
    #[error("scope `everything` takes no value")]
    ValueGiven,
    /// The value does not name such a thing.
    #[error("{0}")]
    Value(String),
}

impl StopScope {
    /// Every word, from the narrowest scope to the widest.
    pub const WORDS: [&'static str; 8] = [
        "credential",
        "draft",
        "approval",
        "approver",
        "client",
        "operation",
        "tenant",
        "everything",
    ];

    /// The word used in the store, in events and in answers.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Credential(_) => "credential",
            Self::Draft(_) => "draft",
            Self::Approval(_) => "approval",
            Self::Approver(_) => "approver",
            Self::Client(_) => "client",
            Self::Operation(_) => "operation",
            Self::Tenant(_) => "tenant",
            Self::Everything => "everything",
        }
    }

    /// Which one of its kind; nothing for everything.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        match self {
            Self::Credential(id) => Some(id.to_string()),
            Self::Draft(id) => Some(id.to_string()),
            Self::Approval(id) => Some(id.to_string()),
            Self::Approver(id) => Some(id.to_string()),
            Self::Client(id) => Some(id.to_string()),
            Self::Operation(pattern) => Some(pattern.to_string()),
            Self::Tenant(id) => Some(id.to_string()),
            Self::Everything => None,
        }
    }

    /// The scope of this word and value.
    ///
    /// # Errors
    /// [`ScopeError`] if there is no such word, or the value is missing, too much or of another kind.
    pub fn parse(word: &str, value: Option<&str>) -> Result<Self, ScopeError> {
        fn of<T: FromStr<Err: fmt::Display>>(word: &'static str, value: Option<&str>) -> Result<T, ScopeError> {
            let text = value.ok_or(ScopeError::ValueMissing(word))?;
            text.parse().map_err(|error: T::Err| ScopeError::Value(error.to_string()))
        }
        match (word, value) {
            ("credential", value) => of("credential", value).map(Self::Credential),
            ("draft", value) => of("draft", value).map(Self::Draft),
            ("approval", value) => of("approval", value).map(Self::Approval),
            ("approver", value) => of("approver", value).map(Self::Approver),
            ("client", value) => of("client", value).map(Self::Client),
            ("operation", value) => of("operation", value).map(Self::Operation),
            ("tenant", value) => of("tenant", value).map(Self::Tenant),
            ("everything", None) => Ok(Self::Everything),
            ("everything", Some(_)) => Err(ScopeError::ValueGiven),
            _ => Err(ScopeError::Word),
        }
    }
}

impl fmt::Display for StopScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => write!(f, "{} {value}", self.word()),
            None => f.write_str(self.word()),
        }
    }
}

/// Why something is stopped, resumed or taken back: 1 to 1,000 characters, all of which show as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "String")]
pub struct Reason(String);

/// The text is no reason that anybody could read later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("say why in 1 to 1,000 characters on one line, without any that do not show or change the order of what shows")]
pub struct ReasonError;

impl Reason {
    /// What was written down before, as it is: by a version with other rules perhaps, and a stop must be shown all the same. Whoever shows it escapes it.
    #[must_use]
    pub const fn recorded(text: String) -> Self {
        Self(text)
    }

    /// The words.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Reason {
    type Err = ReasonError;
    fn from_str(text: &str) -> Result<Self, ReasonError> {
        let text = text.trim();
        let fits = (1..=1000).contains(&text.chars().count()) && deceptive(text).is_none();
        if fits { Ok(Self(text.to_owned())) } else { Err(ReasonError) }
    }
}

/// A reason as it was written down.
#[derive(Deserialize)]
struct Recorded(String);

impl From<Recorded> for Reason {
    fn from(recorded: Recorded) -> Self {
        Self::recorded(recorded.0)
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reads_back_from_its_word_and_value() {
        let id = "0192f0c1a2b37c4d8e5f60718293a4b5";
        for (word, value) in [
            ("credential", Some(format!("crd_{id}"))),
            ("draft", Some(format!("drf_{id}"))),
            ("approval", Some(format!("apv_{id}"))),
            ("approver", Some("usr_mia".to_owned())),
            ("client", Some("support-agent".to_owned())),
            ("operation", Some("refund.*".to_owned())),
            ("tenant", Some("main".to_owned())),
            ("everything", None),
        ] {
            let scope = StopScope::parse(word, value.as_deref()).unwrap();
            assert_eq!((scope.word(), scope.value()), (word, value));
        }
    }

    #[test]
    fn a_scope_without_its_value_or_with_another_kind_of_one_is_refused() {
        for word in StopScope::WORDS.into_iter().filter(|word| *word != "everything") {
            assert_eq!(StopScope::parse(word, None), Err(ScopeError::ValueMissing(word)));
        }
        assert_eq!(StopScope::parse("everything", Some("x")), Err(ScopeError::ValueGiven));
        assert_eq!(StopScope::parse("all", None), Err(ScopeError::Word));
        assert!(matches!(StopScope::parse("draft", Some("apv_1")), Err(ScopeError::Value(_))));
        assert!(matches!(StopScope::parse("operation", Some("*.create")), Err(ScopeError::Value(_))));
    }

    #[test]
    fn a_reason_is_words_that_can_be_read_later() {
        assert_eq!(" key stolen ".parse::<Reason>().unwrap().as_str(), "key stolen");
        for bad in [
            String::new(),
            "  ".to_owned(),
            "a\nb".to_owned(),
            "a\u{202e}b".to_owned(),
            "x".repeat(1001),
        ] {
            assert!(bad.parse::<Reason>().is_err(), "{bad:?}");
        }
    }
}
