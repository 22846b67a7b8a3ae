//! How a command fails.

use crate::app::Faults;

/// How a command ends when it does not end well.
#[derive(Debug)]
pub(super) enum CliError {
    /// The arguments make no sense together.
    Usage(String),
    /// It was refused, or failed: one sentence each.
    Failed(Vec<String>),
    /// The answer is printed, and this exit code says what it is.
    Answered(u8),
    /// It ends with this exit code, and a sentence.
    Ended(u8, String),
    /// Whoever read the output went away, which is nobody's mistake.
    Closed,
}

impl CliError {
    /// A failure; each line of the text is one sentence.
    pub(super) fn failed(why: impl std::fmt::Display) -> Self {
        Self::Failed(why.to_string().lines().map(str::to_owned).collect())
    }

    /// An address that cannot be listened on; `remedy` is what to do if another process has it.
    pub(super) fn cannot_listen(at: impl std::fmt::Display, error: &std::io::Error, remedy: &str) -> Self {
        match error.kind() {
            std::io::ErrorKind::AddrInUse => Self::failed(format!(
                "cannot listen on {at}: another process listens there; stop it, or {remedy}"
            )),
            _ => Self::failed(format!("cannot listen on {at}: {error}")),
        }
    }

    pub(super) fn usage(why: impl std::fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }
}

impl From<Faults> for CliError {
    fn from(faults: Faults) -> Self {
        Self::Failed(faults.0.iter().flat_map(|fault| fault.lines()).map(str::to_owned).collect())
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::failed(format!("the output cannot be written: {error}"))
    }
}
