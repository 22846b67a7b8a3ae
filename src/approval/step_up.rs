//! Whether the approver proved who they are strongly and just now, as the signing service says.

use std::time::Duration;

use crate::domain::approval::Claims;

use super::LEEWAY_SECONDS;

/// How long before signing the approver may have authenticated.
pub const STEP_UP_WINDOW: Duration = Duration::from_secs(300);

/// The authentication methods (RFC 8176 section 2) that count as strong: a key in hardware, a smart card, a body measured by the device that
/// holds the key, or more than one factor.
///
/// Not among them: `otp` and `sms`, because a code is relayed by whoever asks for it, which is the attack that a step-up is there to stop; `swk`,
/// because a key in a file is copied; `pwd`, `pin`, `kba` and `user`, because alone they prove little.
pub const STRONG_METHODS: [&str; 7] = ["face", "fpt", "hwk", "iris", "mfa", "retina", "sc"];

/// How the approver had authenticated when they signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepUp {
    /// By a strong method, within [`STEP_UP_WINDOW`] before signing.
    Fresh,
    /// By a strong method, but longer ago, or at a time that is not stated or lies after the signature.
    Stale,
    /// By no strong method.
    Weak,
}

impl StepUp {
    /// The word used in events and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Weak => "weak",
        }
    }

    pub(super) fn of(claims: &Claims) -> Self {
        let by = &claims.apr.by;
        if !by.amr.iter().any(|method| STRONG_METHODS.contains(&method.as_str())) {
            return Self::Weak;
        }
        let window = i64::try_from(STEP_UP_WINDOW.as_secs()).unwrap_or(0);
        let range = claims.iat.saturating_sub(window)..=claims.iat.saturating_add(LEEWAY_SECONDS);
        match by.auth_time {
            Some(at) if range.contains(&at) => Self::Fresh,
            _ => Self::Stale,
        }
    }
}
