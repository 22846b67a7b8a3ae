//! How trying a guarantee ends, and what an answer says about it.

use serde_json::Value;

/// Why a guarantee did not hold, or could not be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Amiss {
    /// Something went through that must be refused.
    Through(String),
    /// It was refused for another reason than the one that was tried, or could not be tried to its end: nothing is shown either way.
    Unclear(String),
    /// There is nothing to try it with.
    NotApplicable(String),
}

/// What was tried and refused; or what is amiss.
pub(super) type Held = Result<String, Amiss>;

/// An answer: its status and its body.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Reply {
    /// Whether the call was done as asked.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// The stable code of a refusal, or a dash.
    pub(super) fn code(&self) -> &str {
        self.body.get("code").and_then(Value::as_str).unwrap_or("-")
    }

    /// The text at a JSON pointer, or nothing.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The answer, which the prover needs to go on.
    pub(super) fn done(self, what: &str) -> Result<Self, Amiss> {
        if self.is_done() {
            return Ok(self);
        }
        Err(Amiss::Unclear(format!("{what} was answered {} {}", self.status, self.code())))
    }

    /// Holds if the call was refused with one of the codes; `what` is what was tried.
    pub(super) fn refused(&self, what: &str, codes: &[&str]) -> Result<(), Amiss> {
        if self.is_done() {
            return Err(Amiss::Through(format!("{what} went through: answered {}", self.status)));
        }
        if codes.contains(&self.code()) {
            return Ok(());
        }
        Err(Amiss::Unclear(format!(
            "{what} was answered {} {} where {} was expected",
            self.status,
            self.code(),
            codes.join(" or ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_is_answered_as_done_went_through_whatever_it_says() {
        let reply = Reply {
            status: 202,
            body: json!({ "code": "credential_expired" }),
        };
        assert!(matches!(reply.refused("it", &["credential_expired"]), Err(Amiss::Through(_))));
    }

    #[test]
    fn a_refusal_for_another_reason_shows_nothing() {
        let reply = Reply {
            status: 429,
            body: json!({ "code": "rate_limited" }),
        };
        assert!(matches!(reply.refused("it", &["credential_expired"]), Err(Amiss::Unclear(_))));
        let page = Reply {
            status: 403,
            body: json!("<html>"),
        };
        assert!(matches!(page.refused("it", &["credential_expired"]), Err(Amiss::Unclear(_))));
    }
}
